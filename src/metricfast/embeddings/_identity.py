"""Points as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metricfast._core.parameters import check_parameters
from metricfast._core.points import dense
from metricfast._core.types import Array, RandomState
from metricfast.embeddings._base import Cache, CompiledEmbedding, Parameters, check_start

__all__ = ["Identity"]


@dataclass(eq=False, repr=False)
class Identity(CompiledEmbedding):
    """Points as they are: an embedding without parameters.

    As one side of `Asymmetric`, it holds this side fixed: the map of the other side is learned, and
    the points of this side need not be embedded anew. Points are not centred in training, on either
    side, and a `Linear` map starts from the identity. The other side needs as many components as
    the points of this side have features.

    Parameters
    ----------
    normalize : bool, default=False
        Divide points by their length. A point whose length is at most 1e-12 becomes zero.

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast.embeddings import Asymmetric, Identity, Linear
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> embedding = Asymmetric(Linear(), Identity())
    >>> parameters = embedding.initialize(X)
    >>> len(parameters), bool((embedding.forward(parameters, X, side="database")[0] == X).all())
    (1, True)
    """

    normalize: bool = False

    centers = False

    def initialize(
        self, X: Any, y: Array | None = None, random_state: int | RandomState | None = None
    ) -> Parameters:
        check_parameters(self)
        check_start(X, y)
        return []

    def decays(self, default: float) -> list[float]:
        return []

    def _width(self, parameters: Parameters, side: str) -> int | None:
        return None

    def _fit(self, parameters: Parameters) -> bool:
        return True

    def _outputs(self, parameters: Parameters, X: Any, threads: int) -> list[Array]:
        return [np.array(dense(X), order="C")]

    def _pull(
        self, parameters: Parameters, cache: Cache, upstream: Array, threads: int
    ) -> Parameters:
        return []
