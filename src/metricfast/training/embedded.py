"""Points under an embedding, in training and after it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack

from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.sources import by_blocks, in_one_array
from metricfast._core.sparse import embed_sparse, sparse_gradient
from metricfast._core.types import Array
from metricfast.training.samples import Samples

__all__ = ["EMBEDDED", "LinearMap", "embed", "embed_samples", "finite", "map_points"]

# Points that are embedded at a time, hidden layers and all, at most.
EMBEDDED = 16384
# With gradients of fewer points than this share, a gradient by a map looks at these alone.
_FEW = 0.5


def finite(Z: Array) -> bool:
    """Return whether all values are finite."""
    return bool(get_kernels().all_finite(Z))


def map_points(X: Any, L: Array, n_jobs: int | None = None) -> Array:
    """Map points, in their own dtype; sparse ones to points of mean zero."""
    if issparse(X):
        return embed_sparse(X, L)
    Z = np.empty((len(X), len(L)), X.dtype)
    get_kernels().linear_forward(X, np.ascontiguousarray(L, dtype=X.dtype), Z, as_threads(n_jobs))
    return Z


class LinearMap:
    """A linear map in float64 of points in either dtype: an embedding without checks."""

    asymmetric = False

    def map_of(self, parameters: list[Array]) -> Array:
        """Return the map L of the parameters."""
        return parameters[0]

    def decays(self, default: float) -> list[float]:
        """Return the weight decay of the map."""
        return [default]

    def _forward(
        self, parameters: list[Array], X: Any, *, side: str = "query", n_jobs: int | None = None
    ) -> tuple[Array, Any]:
        del side
        return map_points(X, self.map_of(parameters), n_jobs), X

    def backward(
        self, parameters: list[Array], cache: Any, upstream: Array, *, n_jobs: int | None = None
    ) -> list[Array]:
        """Turn the gradient by embedded points into that by the map."""
        X = cache
        used = np.flatnonzero(upstream.any(axis=1))
        if len(used) < _FEW * len(upstream):
            X, upstream = X[used], upstream[used]
        if not len(used):
            return [np.zeros(parameters[0].shape)]
        if issparse(X):
            # All points were centred: those without a gradient have a part in the mean, too.
            total = upstream.sum(axis=0, dtype=np.float64)
            return [sparse_gradient(upstream, X) - np.outer(total, cache.mean(axis=0))]
        return [np.asarray(get_kernels().linear_backward(upstream, X, as_threads(n_jobs)))]


def embed(
    embedding: Any,
    parameters: list[Array],
    X: Any,
    side: str = "query",
    n_jobs: int | None = None,
) -> Array:
    """Embed checked points, in blocks, so that memory for hidden layers does not grow with them."""
    if isinstance(embedding, LinearMap):
        return map_points(X, embedding.map_of(parameters), n_jobs)
    return by_blocks(
        X,
        EMBEDDED,
        lambda block: embedding._forward(parameters, block, side=side, n_jobs=n_jobs)[0],
    )


def embed_samples(
    embedding: Any, parameters: list[Array], samples: Samples, n_jobs: int | None = None
) -> tuple[Array, Array]:
    """Return queries and their database, embedded in the dtype of the points."""
    queries, database, arrays = samples.X, samples.points.X, parameters
    if not isinstance(embedding, LinearMap):
        arrays = [np.ascontiguousarray(array, queries.dtype) for array in parameters]
    elif issparse(queries):
        # Sparse points are centred where they are mapped to, so both sides are mapped together.
        Z = embed(embedding, arrays, vstack([queries, database], format="csr"), n_jobs=n_jobs)
        return Z[: queries.shape[0]], Z[queries.shape[0] :]

    def of(X: Any, side: str) -> Array:
        return in_one_array(X, lambda part: embed(embedding, arrays, part, side, n_jobs))

    return of(queries, "query"), of(database, "database")
