"""Different embeddings of queries and of database points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metricfast._core.arguments import check_random_state
from metricfast._core.types import Array, RandomState
from metricfast.embeddings._base import (
    Cache,
    CheckedEmbedding,
    Embedding,
    Parameters,
    check_side,
    check_start,
)

__all__ = ["Asymmetric"]


@dataclass(frozen=True)
class _SideCache:
    """The cache of one side."""

    side: str
    cache: Cache


class Asymmetric(CheckedEmbedding):
    """Two embeddings into one space, one of queries and one of database points.

    With two linear maps the distance is ``||U x - V x'||``. It depends on which of two points is
    the query, and that of a point from itself need not be zero. Its parameters are those of `query`
    followed by those of `database`.

    Parameters
    ----------
    query, database : Embedding
        Any two of the same `n_components`. Two embeddings that are equal and not drawn at random
        start as one, which is a good start.

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast.embeddings import MLP, Asymmetric, Linear
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> embedding = Asymmetric(Linear(2), MLP((8,), 2))
    >>> parameters = embedding.initialize(X, random_state=0)
    >>> len(parameters), embedding.forward(parameters, X, side="database")[0].shape
    (5, (20, 2))
    """

    asymmetric = True
    query: Embedding
    database: Embedding

    def __init__(self, query: Embedding, database: Embedding) -> None:
        self.query = query
        self.database = database

    def initialize(
        self, X: Any, y: Array | None = None, random_state: int | RandomState | None = None
    ) -> Parameters:
        X, y = check_start(X, y)
        rng = check_random_state(random_state)
        parts = []
        for name, part in (("query", self.query), ("database", self.database)):
            if not isinstance(part, Embedding) or part.asymmetric:
                raise TypeError(f"{name} must be an embedding of one kind of points, got {part!r}.")
            parts.append(part.initialize(X, y, rng))
        widths = [
            part._forward(parameters, X[:1])[0].shape[1]
            for part, parameters in zip((self.query, self.database), parts, strict=True)
        ]
        if widths[0] != widths[1]:
            raise ValueError(
                "query and database must have the same number of components, got "
                f"{widths[0]} and {widths[1]}."
            )
        return parts[0] + parts[1]

    def split(self, parameters: Parameters) -> tuple[Parameters, Parameters]:
        """Return the parameters of queries and those of database points."""
        first = len(self.query.decays(0.0))
        return parameters[:first], parameters[first:]

    def _side(self, parameters: Parameters, side: str) -> tuple[Embedding, Parameters]:
        check_side(side)
        of_queries, of_database = self.split(parameters)
        if side == "query":
            return self.query, of_queries
        return self.database, of_database

    def _check_parameters(self, parameters: Parameters) -> None:
        super()._check_parameters(parameters)
        for part, own in zip((self.query, self.database), self.split(parameters), strict=True):
            if isinstance(part, CheckedEmbedding):
                part._check_parameters(own)

    def _width(self, parameters: Parameters, side: str) -> int:
        part, own = self._side(parameters, side)
        if isinstance(part, CheckedEmbedding):
            return part._width(own, side)
        return int(own[0].shape[1])

    def _forward(
        self, parameters: Parameters, X: Any, *, side: str = "query", n_jobs: int | None = None
    ) -> tuple[Array, Any]:
        embedding, own = self._side(parameters, side)
        Z, cache = embedding._forward(own, X, n_jobs=n_jobs)
        return Z, _SideCache(side, cache)

    def backward(
        self, parameters: Parameters, cache: Any, upstream: Array, *, n_jobs: int | None = None
    ) -> Parameters:
        """Return the gradient, which is zero in the parameters of the other side."""
        if not isinstance(cache, _SideCache):
            raise TypeError(f"cache must be what forward returned, got {type(cache)}.")
        self._check_parameters(parameters)
        embedding, own = self._side(parameters, cache.side)
        of_queries, of_database = self.split(parameters)
        gradients = embedding.backward(own, cache.cache, upstream, n_jobs=n_jobs)
        if cache.side == "query":
            return gradients + [np.zeros_like(array) for array in of_database]
        return [np.zeros_like(array) for array in of_queries] + gradients

    def decays(self, default: float) -> list[float]:
        return self.query.decays(default) + self.database.decays(default)
