"""Training on the rows of a sparse matrix.

They are never centred, which would make them dense. Distances do not depend on the origin, so it
suffices to centre the embedded points.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, svds
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.sparsefuncs import mean_variance_axis

from metricfast._core.scaling import ORDINARY, times_power_of_two
from metricfast._core.types import Array, Floats, Integers

# From this many features on, n_features x n_features matrices and dense points are avoided.
WIDE = 2000


def check_structure(X: Any, name: str = "X") -> None:
    """Raise ValueError if X is a sparse matrix with entries outside of its shape.

    SciPy and the kernels do not check this themselves. Only formats with index arrays are checked:
    CSR, CSC, BSR and COO.
    """
    if not issparse(X):
        return
    if X.format == "coo":
        sound = (
            len(X.row) == len(X.col) == len(X.data)
            and _within(X.row, X.shape[0])
            and _within(X.col, X.shape[1])
        )
    elif X.format in ("csr", "csc", "bsr"):
        n_lines, length = X.shape[::-1] if X.format == "csc" else X.shape
        if X.format == "bsr":
            n_lines, length = n_lines // X.blocksize[0], length // X.blocksize[1]
        sound = (
            len(X.indptr) == n_lines + 1
            and X.indptr[0] == 0
            and X.indptr[-1] <= len(X.indices) == len(X.data)
            and bool((X.indptr[1:] >= X.indptr[:-1]).all())
            and _within(X.indices, length)
        )
    else:
        return
    if not sound:
        raise ValueError(
            f"{name} is a damaged sparse matrix: its indices do not fit its shape {X.shape}. Build "
            "it anew, for example from its rows, columns and values."
        )


def _within(index: Array, size: int) -> bool:
    return not index.size or (int(index.min()) >= 0 and int(index.max()) < size)


def made_dense(X: Any, name: str = "X") -> Any:
    """Return a sparse matrix as an array, and anything else unchanged.

    Raises ValueError if the matrix is damaged, MemoryError if the array would not fit.
    """
    if not issparse(X):
        return X
    check_structure(X, name)
    try:
        return X.toarray()
    except (MemoryError, ValueError) as error:  # ValueError: more entries than an array can have
        raise MemoryError(
            f"{name}, a sparse matrix of shape {X.shape}, does not fit into memory as an array: "
            "give fewer points or features, or reduce them by TruncatedSVD first."
        ) from error


def rescale(X: Any) -> tuple[Any, int]:
    """Rescale very large or very small points to a spread of about 1, like `center_and_rescale`.

    Returns `rescaled`, which is not centred, and `exponent`: X equals ``rescaled * 2**exponent``.
    """
    exponent = math.frexp(float(np.abs(X.data).max(initial=0)))[1]
    unit = _with_data(X, times_power_of_two(X.data.astype(np.float64), -exponent))
    largest = float(mean_variance_axis(unit, axis=0)[1].max())
    if largest == 0:
        return X, 0
    log = math.log2(largest) / 2
    if abs(exponent + log) <= ORDINARY:
        return X, 0
    exponent += math.floor(log)
    return _with_data(X, times_power_of_two(X.data, -exponent)), exponent


def _with_data(X: Any, data: Array) -> Any:
    return type(X)((data, X.indices, X.indptr), shape=X.shape)


def nearest_of_class(X: Any, labels: Integers, k: int, n_jobs: int | None) -> Integers:
    """Return the k nearest points of its class for each point. Classes must be larger than k."""
    rows = np.empty((X.shape[0], k), np.int64)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        search = NearestNeighbors(n_neighbors=k, algorithm="brute", n_jobs=n_jobs).fit(X[members])
        rows[members] = members[search.kneighbors(return_distance=False)]
    return rows


def principal_axes(X: Any, weights: Floats, n_components: int) -> Floats:
    """Return the directions of greatest variance in descending order, one per row."""
    mean = (weights @ X) / weights.sum()
    root = np.sqrt(weights)

    def forward(v: Floats) -> Floats:
        return np.asarray(root * (X @ v.ravel() - mean @ v.ravel()))

    def backward(u: Floats) -> Floats:
        scaled = root * u.ravel()
        return np.asarray(X.T @ scaled - mean * scaled.sum())

    centred = LinearOperator(X.shape, matvec=forward, rmatvec=backward, dtype=np.float64)
    start = np.random.default_rng(0).normal(size=min(X.shape))
    return np.asarray(svds(centred, k=n_components, v0=start)[2][::-1])
