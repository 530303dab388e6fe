"""Learned distances between points and the neighbours they make: the functional interface.

Distances are ``||Lx - Ly||`` (Mahalanobis, ``M = L.T @ L``), ``||Ux - Vy||`` (asymmetric: queries
through ``U``, database points through ``V``) or plain Euclidean where no map is given. Self and
duplicate points are excluded by index only, never because their distance is zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._arrays import as_codes, as_exclude, as_points, as_real, as_threads
from metricfast._dispatch import get_kernels

__all__ = [
    "kneighbors",
    "kneighbors_per_class",
    "metric_gradient",
    "paired_distances",
    "pairwise_distances",
]

_Map = NDArray[Any] | None


def _maps(
    L: ArrayLike | None, U: ArrayLike | None, V: ArrayLike | None, width: int
) -> tuple[_Map, _Map]:
    """The maps of queries and database: (L, L), (U, V) or (None, None)."""
    if L is not None:
        if U is not None or V is not None:
            raise ValueError("Give L, or U and V, not both.")
        array = as_points(L, "L", width=width)
        return array, array
    if (U is None) != (V is None):
        raise ValueError("U and V must be given together.")
    if U is None or V is None:
        return None, None
    query, database = as_points(U, "U", width=width), as_points(V, "V", width=width)
    if len(query) != len(database):
        raise ValueError(
            f"U and V must have the same number of rows; found {len(query)} and {len(database)}."
        )
    return query, database


def _precision(*arrays: _Map) -> type[np.floating[Any]]:
    """float32 if every point array is; maps follow the points."""
    return np.float32 if all(a is None or a.dtype == np.float32 for a in arrays) else np.float64


def pairwise_distances(
    X: ArrayLike,
    Y: ArrayLike | None = None,
    *,
    L: ArrayLike | None = None,
    U: ArrayLike | None = None,
    V: ArrayLike | None = None,
    squared: bool = False,
    out: NDArray[Any] | None = None,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    """Distances from every row of X to every row of Y.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Queries. float32 points give float32 distances; everything else float64.
    Y : array-like of shape (m, d), optional
        Database; X itself by default.
    L : array-like of shape (p, d), optional
        Linear map of a Mahalanobis distance, ``M = L.T @ L``.
    U, V : array-like of shape (p, d), optional
        Maps of queries and of database points of an asymmetric distance.
    squared : bool, default=False
        Squared distances.
    out : ndarray of shape (n, m), optional
        Written and returned: float32 or float64, rows contiguous. Saves the cost of new memory,
        which is more than that of the arithmetic.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs.

    Returns
    -------
    ndarray of shape (n, m)
        Near-duplicates and self-distances are computed from differences, so they keep their digits.

    Raises
    ------
    ValueError
        If an array has the wrong shape, is empty, or holds NaN or infinity; the message names it.

    Examples
    --------
    >>> import metricfast as mf
    >>> mf.pairwise_distances([[0.0, 0.0], [3.0, 4.0]])
    array([[0., 5.],
           [5., 0.]])
    >>> mf.pairwise_distances([[0.0, 0.0]], [[3.0, 4.0]], L=[[1.0, 0.0]])
    array([[3.]])
    """
    queries = as_points(X, "X")
    database = queries if Y is None else as_points(Y, "Y", width=queries.shape[1])
    query_map, database_map = _maps(L, U, V, queries.shape[1])
    shape = (len(queries), len(database))
    if out is None:
        out = np.empty(shape, _precision(queries, database))
    else:
        _check_out(out, shape, (queries, database))
    get_kernels().pairwise_distances(
        queries, database, query_map, database_map, squared, out, as_threads(n_jobs)
    )
    return out


def _check_out(out: object, shape: tuple[int, int], inputs: tuple[NDArray[Any], ...]) -> None:
    if not isinstance(out, np.ndarray) or out.dtype not in (np.float32, np.float64):
        raise ValueError("out must be a float32 or float64 numpy array.")
    if out.shape != shape:
        raise ValueError(f"out must have shape {shape}; found {out.shape}.")
    if not out.dtype.isnative or not out.flags.writeable:
        raise ValueError("out must be writeable and in native byte order.")
    rows_fit = out.strides[0] >= out.itemsize * shape[1] or shape[0] == 1
    if (shape[1] > 1 and out.strides[1] != out.itemsize) or not rows_fit:
        raise ValueError("out must have contiguous rows (C order).")
    if any(np.may_share_memory(out, array) for array in inputs):
        raise ValueError("out must not overlap X or Y.")


def paired_distances(
    X: ArrayLike,
    Y: ArrayLike | None = None,
    *,
    pairs: ArrayLike | None = None,
    L: ArrayLike | None = None,
    U: ArrayLike | None = None,
    V: ArrayLike | None = None,
    squared: bool = False,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    """Distances of given pairs: row i of X and row i of Y, or ``X[pairs[i, 0]], Y[pairs[i, 1]]``.

    Parameters
    ----------
    X, Y : array-like of shape (n, d) and (m, d)
        Points. Without ``pairs`` both have the same number of rows; with ``pairs`` Y is X by default.
    pairs : array-like of int of shape (n_pairs, 2), optional
        Indices into X and Y.
    L, U, V, squared, n_jobs
        As for :func:`pairwise_distances`.

    Returns
    -------
    ndarray of shape (n_pairs,)

    Raises
    ------
    ValueError
        If an array has the wrong shape, an index is out of range, or a value is not finite.

    Examples
    --------
    >>> import metricfast as mf
    >>> mf.paired_distances([[0.0, 0.0], [3.0, 4.0]], pairs=[[0, 1], [1, 1]])
    array([5., 0.])
    """
    left = as_points(X, "X")
    if Y is None and pairs is None:
        raise ValueError("Give Y, or pairs of indices into X.")
    right = left if Y is None else as_points(Y, "Y", width=left.shape[1])
    query_map, database_map = _maps(L, U, V, left.shape[1])
    index = None if pairs is None else _as_pairs(pairs, len(left), len(right))
    if index is None and len(left) != len(right):
        raise ValueError(
            f"X and Y must have the same number of rows; found {len(left)} and {len(right)}."
        )
    out = np.empty(len(left) if index is None else len(index), _precision(left, right))
    get_kernels().paired_distances(
        left, right, index, query_map, database_map, squared, out, as_threads(n_jobs)
    )
    return out


def _as_pairs(pairs: ArrayLike, left: int, right: int) -> NDArray[np.int64]:
    array = np.asarray(pairs)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ValueError(
            f"pairs must be integers of shape (n_pairs, 2); "
            f"found shape {array.shape}, dtype {array.dtype}."
        )
    array = np.ascontiguousarray(array, dtype=np.int64)
    for side, limit in enumerate((left, right)):
        column = array[:, side]
        if len(array) and (column.min() < 0 or column.max() >= limit):
            raise ValueError(
                f"pairs column {side} must hold indices from 0 to {limit - 1}; "
                f"found {column.min()} to {column.max()}."
            )
    return array


def kneighbors(
    queries: ArrayLike,
    database: ArrayLike | None = None,
    n_neighbors: int = 5,
    *,
    L: ArrayLike | None = None,
    U: ArrayLike | None = None,
    V: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
    squared: bool = False,
    n_jobs: int | None = None,
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The nearest database points of each query, exactly.

    Parameters
    ----------
    queries : array-like of shape (n, d)
    database : array-like of shape (m, d), optional
        By default the queries themselves, each point left out of its own neighbours by index.
    n_neighbors : int, default=5
    L, U, V, squared, n_jobs
        As for :func:`pairwise_distances`.
    exclude : array-like of int of shape (n,), optional
        For each query a database index to leave out, -1 for none.

    Returns
    -------
    distances : ndarray of shape (n, n_neighbors)
        Nearest first.
    indices : ndarray of int64 of shape (n, n_neighbors)
        In the order of (distance, index), where the distance is the sum of squared differences of
        the (embedded) points in float64. Memory beyond inputs and results does not grow with n m.

    Raises
    ------
    ValueError
        If ``n_neighbors`` exceeds the number of points to choose from, or an array is not as above.

    Examples
    --------
    >>> import metricfast as mf
    >>> distances, indices = mf.kneighbors([[0.0], [1.0], [3.0]], n_neighbors=1)
    >>> indices.ravel()
    array([1, 0, 1])
    """
    query, base, left_out = _search_arguments(queries, database, exclude)
    _check_count(n_neighbors, len(base), left_out)
    query_map, database_map = _maps(L, U, V, query.shape[1])
    distances = np.empty((len(query), n_neighbors), _precision(query, base))
    indices = np.empty((len(query), n_neighbors), np.int64)
    get_kernels().kneighbors(
        query, base, n_neighbors, query_map, database_map, left_out, squared, distances, indices,
        as_threads(n_jobs),
    )  # fmt: skip
    return distances, indices


def kneighbors_per_class(
    queries: ArrayLike,
    database: ArrayLike | None,
    labels: ArrayLike,
    n_neighbors: int,
    *,
    L: ArrayLike | None = None,
    U: ArrayLike | None = None,
    V: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
    squared: bool = False,
    n_jobs: int | None = None,
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The nearest database points of each query in each class, exactly.

    Parameters
    ----------
    labels : array-like of shape (m,)
        Database labels. Class r of the results is the r-th of ``numpy.unique(labels)``.
    n_neighbors : int
        Neighbours per class; a class may have fewer.
    queries, database, L, U, V, exclude, squared, n_jobs
        As for :func:`kneighbors`.

    Returns
    -------
    distances, indices : ndarrays of shape (n, n_classes, n_neighbors)
        Nearest first within a class; places that a class cannot fill hold inf and -1.

    Examples
    --------
    >>> import metricfast as mf
    >>> points = [[0.0], [1.0], [3.0], [7.0]]
    >>> distances, indices = mf.kneighbors_per_class([[2.0]], points, [0, 0, 1, 1], 1)
    >>> indices.ravel()
    array([1, 2])
    """
    query, base, left_out = _search_arguments(queries, database, exclude)
    _check_count(n_neighbors, None, None)
    classes, codes = as_codes(labels, "labels", len(base))
    query_map, database_map = _maps(L, U, V, query.shape[1])
    shape = (len(query), len(classes), n_neighbors)
    distances, indices = np.empty(shape, _precision(query, base)), np.empty(shape, np.int64)
    get_kernels().kneighbors_per_class(
        query, base, codes, len(classes), n_neighbors, query_map, database_map, left_out, squared,
        distances, indices, as_threads(n_jobs),
    )  # fmt: skip
    return distances, indices


def _search_arguments(
    queries: ArrayLike, database: ArrayLike | None, exclude: ArrayLike | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64] | None]:
    query = as_points(queries, "queries")
    if database is None:
        base = query
        left_out = np.arange(len(query)) if exclude is None else exclude
    else:
        base, left_out = as_points(database, "database", width=query.shape[1]), exclude
    return query, base, as_exclude(left_out, len(query), len(base))


def _check_count(
    n_neighbors: object, available: int | None, left_out: NDArray[np.int64] | None
) -> None:
    whole = isinstance(n_neighbors, (int, np.integer)) and not isinstance(n_neighbors, bool)
    if not whole or n_neighbors < 1:  # type: ignore[operator]
        raise ValueError(f"n_neighbors must be a positive integer; found {n_neighbors!r}.")
    if available is None:
        return
    if left_out is not None and (left_out >= 0).any():
        available -= 1
    if n_neighbors > available:  # type: ignore[operator]
        raise ValueError(
            f"n_neighbors must be at most {available}, the database points that a query may have; "
            f"found {n_neighbors}."
        )


def metric_gradient(
    X: ArrayLike,
    weights: Any,
    Y: ArrayLike | None = None,
    *,
    L: ArrayLike | None = None,
    U: ArrayLike | None = None,
    V: ArrayLike | None = None,
    M: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]:
    """Gradient of ``sum_ij weights[i, j] D(X[i], Y[j])``, D the squared distance.

    Parameters
    ----------
    X : array-like of shape (n, d)
    weights : array-like or scipy sparse matrix of shape (n, m)
        Dense or sparse (used as CSR: only its stored entries cost anything).
    Y : array-like of shape (m, d), optional
        X itself by default; then both roles of each point count.
    L : array-like of shape (p, d)
        The gradient with respect to L is returned, shape (p, d).
    U, V : array-like of shape (p, d)
        A pair of gradients is returned.
    M : array-like of shape (d, d)
        The gradient with respect to a full M is returned, shape (d, d); it does not depend on M.
    n_jobs : int, optional

    Returns
    -------
    ndarray, or a pair of them for U and V
        float64.

    Raises
    ------
    ValueError
        Unless exactly one of L, (U, V) and M is given, with matching shapes.

    Examples
    --------
    >>> import metricfast as mf
    >>> mf.metric_gradient([[1.0], [3.0]], [[0.0, 1.0], [0.0, 0.0]], L=[[2.0]])
    array([[16.]])
    """
    points = as_points(X, "X")
    other = None if Y is None else as_points(Y, "Y", width=points.shape[1])
    dtype = _precision(points, other)
    points = points.astype(dtype, copy=False)
    other = points if other is None else other.astype(dtype, copy=False)
    threads = as_threads(n_jobs)
    given = (L is not None) + (U is not None or V is not None) + (M is not None)
    if given != 1:
        raise ValueError("Give exactly one of L, (U and V), and M.")
    width = points.shape[1]
    query_map, database_map = _maps(L, U, V, width)
    # Distances of the whole sum do not change when X and Y move together, unless U and V differ.
    centre = np.zeros(width, dtype) if U is not None else other.mean(0, dtype=np.float64).astype(dtype)
    x, y = points - centre, other - centre
    if M is not None and as_points(M, "M", width=width).shape[0] != width:
        raise ValueError(f"M must have shape ({width}, {width}).")
    zq = x if query_map is None else x @ query_map.T.astype(dtype)
    zd = y if database_map is None else y @ database_map.T.astype(dtype)
    grad_q, grad_d = np.empty_like(zq), np.empty_like(zd)
    values, starts, columns = _as_weights(weights, (len(x), len(y)), dtype)
    get_kernels().given(zq, zd, None, starts, columns, grad_q, grad_d, threads, values)
    grad_u = np.asarray(get_kernels().linear_backward(grad_q, x, threads))
    grad_v = np.asarray(get_kernels().linear_backward(grad_d, y, threads))
    if U is not None:
        return grad_u, grad_v
    return 0.5 * (grad_u + grad_v) if M is not None else grad_u + grad_v


def _as_weights(
    weights: Any, shape: tuple[int, int], dtype: type[np.floating[Any]]
) -> tuple[NDArray[Any], NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Dense values, or the values, row starts and columns of sparse ones."""
    if not hasattr(weights, "tocsr"):
        dense = as_points(as_real(weights, "weights").astype(dtype, copy=False), "weights")
        if dense.shape != shape:
            raise ValueError(f"weights must have shape {shape}; found {dense.shape}.")
        return dense, None, None
    sparse = weights.tocsr()
    if sparse.shape != shape:
        raise ValueError(f"weights must have shape {shape}; found {sparse.shape}.")
    values = np.ascontiguousarray(sparse.data, dtype=dtype)
    if not np.isfinite(values).all():
        raise ValueError("weights contains NaN or infinity.")
    return values, sparse.indptr.astype(np.int64), sparse.indices.astype(np.int64)
