"""Points under an embedding, in training and after it."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack

from metricfast._core.points import apply_map, map_gradient, with_gradient
from metricfast._core.sources import Source, in_one_array
from metricfast._core.types import Array
from metricfast._core.wide_map import AnyMap, WideMap
from metricfast.training.samples import Samples

# Maximum number of points per block of embeddings, including hidden layers.
EMBEDDED = 16384


def map_points(X: Any, L: AnyMap, n_jobs: int | None = None) -> Array:
    """Map points in their dtype; mapped sparse points are centred."""
    Z = L.embed(X) if isinstance(L, WideMap) else apply_map(X, L, n_jobs)
    if not issparse(X):
        return Z
    return np.ascontiguousarray(Z - Z.mean(axis=0, dtype=np.float64).astype(Z.dtype))


class PlainLinear:
    """A linear map in float64, for points of either dtype: an embedding without checks.

    `map_of`: returns the map L for given parameters; by default the only one.
    """

    asymmetric = False

    def __init__(self, map_of: Callable[[list[Array]], Array] = itemgetter(0)) -> None:
        self.map_of = map_of

    def decays(self, default: float) -> list[float]:
        """Return the weight decay of the map."""
        return [default]

    def _forward(
        self, parameters: list[Array], X: Any, *, side: str = "query", n_jobs: int | None = None
    ) -> tuple[Array, Any]:
        del side
        return map_points(X, self.map_of(parameters), n_jobs), X

    def _backward(
        self, parameters: list[Array], cache: Any, upstream: Array, *, n_jobs: int | None = None
    ) -> list[Array]:
        """Return the gradient by the map, from the gradient by embedded points."""
        upstream, X = with_gradient(upstream, cache)
        gradient = map_gradient(upstream, X, n_jobs)
        if issparse(X):
            # Points without a gradient contribute through the mean.
            gradient -= np.outer(upstream.sum(axis=0, dtype=np.float64), cache.mean(axis=0))
        return [gradient]


def embed(
    embedding: Any, parameters: list[Array], X: Any, side: str = "query", n_jobs: int | None = None
) -> Array:
    """Embed checked points, in blocks if there are many, to limit the memory of hidden layers."""
    if isinstance(X, Source):
        return in_one_array(X, lambda part: embed(embedding, parameters, part, side, n_jobs))
    if isinstance(embedding, PlainLinear):
        return map_points(X, embedding.map_of(parameters), n_jobs)
    if X.shape[0] > EMBEDDED:
        return in_one_array(
            X, lambda block: embed(embedding, parameters, block, side, n_jobs), EMBEDDED
        )
    Z: Array = embedding._forward(parameters, X, side=side, n_jobs=n_jobs)[0]
    return Z


def embed_samples(
    embedding: Any, parameters: list[Array], samples: Samples, n_jobs: int | None = None
) -> tuple[Array, Array]:
    """Return queries and their database, embedded in the dtype of the points."""
    queries, database, arrays = samples.X, samples.points.X, parameters
    if not isinstance(embedding, PlainLinear):
        arrays = [np.ascontiguousarray(array, queries.dtype) for array in parameters]
    elif issparse(queries):
        # Sparse points are centred after mapping, so both sides are mapped together.
        Z = embed(embedding, arrays, vstack([queries, database], format="csr"), n_jobs=n_jobs)
        return Z[: queries.shape[0]], Z[queries.shape[0] :]
    elif isinstance(queries, np.ndarray) and isinstance(database, np.ndarray):
        L = embedding.map_of(arrays)
        return apply_map(queries, L, n_jobs), apply_map(database, L, n_jobs)
    Z = embed(embedding, arrays, queries, "query", n_jobs)
    return Z, embed(embedding, arrays, database, "database", n_jobs)
