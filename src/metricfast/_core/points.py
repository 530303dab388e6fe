"""Operations on arrays and sparse matrices; some also accept sources of points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack
from sklearn.utils.sparsefuncs import mean_variance_axis

from metricfast._core.arrays import as_threads, scaled_alike
from metricfast._core.dispatch import get_kernels
from metricfast._core.sources import parts
from metricfast._core.sparse import WIDE
from metricfast._core.types import Array, Floats


def dense(X: Any) -> Array:
    """Return the array itself, or a sparse matrix as an array."""
    return np.asarray(X.toarray() if issparse(X) else X)


def values_of(X: Any) -> Array:
    """Return the array itself, or the stored values of a sparse matrix."""
    return np.asarray(X.data if issparse(X) else X)


def is_wide(X: Any) -> bool:
    """Return whether X is sparse and has too many features for an array."""
    return bool(issparse(X) and X.shape[1] > WIDE)


def stacked(tables: Sequence[Any]) -> Any:
    """Concatenate the rows of tables, as a CSR matrix if any is sparse.

    A single array is not copied.
    """
    if any(map(issparse, tables)):
        return vstack(tables, "csr")
    return np.asarray(tables[0]) if len(tables) == 1 else np.concatenate(tables)


def apply_map(X: Any, L: Array, n_jobs: int | None = None) -> Array:
    """Return ``X @ L.T``, in the dtype of X."""
    L = np.ascontiguousarray(L, dtype=X.dtype)
    if issparse(X):
        return np.asarray(X @ L.T)
    Z = np.empty((len(X), len(L)), X.dtype)
    get_kernels().linear_forward(X, L, Z, as_threads(n_jobs))
    return Z


def map_gradient(upstream: Array, X: Any, n_jobs: int | None = None) -> Floats:
    """Return ``upstream.T @ X``: the gradient by the map.

    `upstream` is the gradient by embedded points.
    """
    if issparse(X):  # if the rows of `upstream` add up to zero, the origin does not matter
        return np.asarray((X.T @ upstream.astype(np.float64)).T)
    upstream = upstream.astype(X.dtype, copy=False)
    gradient = np.empty((upstream.shape[1], X.shape[1]))
    get_kernels().linear_backward(upstream, X, gradient, as_threads(n_jobs))
    return gradient


def with_gradient(upstream: Array, *arrays: Any) -> tuple[Any, ...]:
    """Return all arguments, without rows of zero gradient if these are more than half.

    At least one row remains.
    """
    used = upstream.any(axis=1)
    rows = np.flatnonzero(used) if used.any() else np.arange(1)
    if 2 * len(rows) >= len(upstream):
        return upstream, *arrays
    return upstream[rows], *(array[rows] for array in arrays)


def spread_of_features(X: Any) -> Floats:
    """Return standard deviations of features, times a common factor. A source is read once."""
    if issparse(X):
        X = X.astype(np.float64)  # a copy
        (X.data,) = scaled_alike(X.data)
        return np.asarray(np.sqrt(mean_variance_axis(X, axis=0)[1]))
    count, mean, spread = 0, np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for _, block in parts(X):
        unit = float(np.abs(block).max()) or 1.0  # avoids overflow of squares
        scaled = block.astype(np.float64) / unit
        share = len(block) / (count + len(block))
        away = unit * scaled.mean(axis=0) - mean
        own = np.hypot(unit * scaled.std(axis=0), np.sqrt(1 - share) * away)
        spread = np.hypot(np.sqrt(1 - share) * spread, np.sqrt(share) * own)
        mean, count = mean + share * away, count + len(block)
    return spread
