"""Linear maps, and points as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metricfast._core.arguments import check_random_state
from metricfast._core.initialize import as_given_map, initialize_components
from metricfast._core.parameters import PositiveInt, check_parameters
from metricfast._core.points import dense, values_of
from metricfast._core.sources import on_disk
from metricfast._core.types import Array, RandomState
from metricfast.embeddings._base import (
    Cache,
    CompiledEmbedding,
    LayeredEmbedding,
    Parameters,
    check_start,
)

# Relative length of rows below the identity, or that the classes do not determine. Rows of zeros
# would have zero gradients.
FURTHER = 0.01


@dataclass(eq=False, repr=False)
class Linear(LayeredEmbedding):
    """A linear map, ``z = L x``: the distance of embedded points is a Mahalanobis distance.

    Its parameters are one array, L of shape (n_components, n_features).

    Parameters
    ----------
    n_components : int, optional
        Number of rows of L, by default n_features (or the rows of `init`). It may exceed
        n_features, for use in `Asymmetric`.
    init : {"auto", "pca", "lda", "identity", "random"} or array-like, default="auto"
        The map to start from, as in `metricfast.NCA`, but that "random" draws from a normal
        distribution of variance 1 / n_features, which keeps the spread of the points. "auto" is
        "lda" where there are more classes than components, which finds classes again better than
        "pca" does, but nearest neighbours may be slightly worse. With more rows than
        features, "identity" has rows of zeros, which never move; such rows of "auto" are small
        and random, of a hundredth of the others' length.
    normalize : bool, optional
        Divide embedded points by their length. A point whose length is at most 1e-12 becomes zero,
        and passes no gradient on. By default a learner does it if the loss is `of_unit_length`.

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast.embeddings import Linear
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> embedding = Linear(n_components=2, init="pca")
    >>> parameters = embedding.initialize(X)
    >>> Z, cache = embedding.forward(parameters, X)
    >>> Z.shape, embedding.backward(parameters, cache, Z)[0].shape
    ((20, 2), (2, 3))
    """

    n_components: PositiveInt | None = None
    init: str | Array = "auto"
    normalize: bool | None = None

    def initialize(
        self, X: Any, y: Array | None = None, random_state: int | RandomState | None = None
    ) -> Parameters:
        check_parameters(self)
        X, y = check_start(X, y)
        width, init = X.shape[1], as_given_map(self.init)
        rows = self.n_components
        if rows is None:
            rows = len(init) if isinstance(init, np.ndarray) and init.ndim == 2 else width
        rows = int(rows)
        if isinstance(init, np.ndarray):
            if init.shape == (rows, width) and rows > width:
                if not np.isfinite(init).all():
                    raise ValueError("`init` is not a linear map: it contains NaN or infinity.")
                return [np.array(init, X.dtype, order="C")]
        elif init == "random":
            L = check_random_state(random_state).standard_normal((rows, width)) / np.sqrt(width)
            return [L.astype(X.dtype)]
        elif init == "lda" and y is None:
            raise ValueError(
                "init='lda' needs class labels, and there are none, or labels are continuous: use "
                "'pca', 'identity', 'random' or an array."
            )
        elif init in ("pca", "lda") and rows > width:
            raise ValueError(
                f"n_components must be at most n_features={width} with init={init!r}, got "
                f"{rows}: use 'identity', 'random' or an array."
            )
        if isinstance(init, str) and init in ("auto", "pca", "lda") and not on_disk(X):
            _check_squares(X)
        L = initialize_components(X, y, init, rows, random_state)
        if rows > width and isinstance(init, str) and init == "auto":
            further = check_random_state(random_state).standard_normal((rows - width, width))
            L[width:] = FURTHER * further / np.sqrt(width)
        return [np.ascontiguousarray(L)]

    def decays(self, default: float) -> list[float]:
        return [default]


def _check_squares(X: Any) -> None:
    """Raise ValueError if the covariance of the points overflows in float64."""
    values = values_of(X)
    most = np.sqrt(np.finfo(np.float64).max / (X.shape[0] * X.shape[1]))
    if not max(values.max(initial=0), -values.min(initial=0)) < most:
        raise ValueError("X is so large that its squares overflow: scale its features.")


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
