"""Learned distances between points, and nearest neighbours: the functional interface.

Distances are ``||Lx - Ly||`` (Mahalanobis, ``M = L.T @ L``), ``||Ux - Vy||`` (asymmetric: queries
through ``U``, database points through ``V``) or plain Euclidean without a map. Self and duplicate
points are excluded by index only, never because their distance is zero.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.arguments import (
    check_all_finite,
    check_bool,
    check_choice,
    check_count,
    check_length,
)
from metricfast._core.arrays import (
    Map,
    aligned_empty,
    as_both,
    as_codes,
    as_exclude,
    as_indices,
    as_maps,
    as_points,
    as_threads,
    check_indices,
    common_precision,
)
from metricfast._core.dispatch import get_kernels
from metricfast._core.initialize import components_from_metric
from metricfast._core.sources import on_disk
from metricfast._core.types import Array, Integers
from metricfast.distances.blocks import (
    Block,
    Nearest,
    Points,
    each_block,
    embedded,
    nearest_in_part,
    paired_by_blocks,
    pairwise_by_blocks,
    search_by_blocks,
    write_distances,
)
from metricfast.distances.filters import as_filter, known_rows, name_rows, rows_among
from metricfast.exceptions import NonPSDError

SearchMetric = Literal["euclidean", "cosine", "inner_product"]


def pairwise_distances(
    X: ArrayLike,
    Y: ArrayLike | None = None,
    *,
    L: ArrayLike | None = None,
    U: ArrayLike | None = None,
    V: ArrayLike | None = None,
    M: ArrayLike | None = None,
    squared: bool = False,
    out: NDArray[Any] | None = None,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    """Distances from every row of X to every row of Y.

    Parameters
    ----------
    X : array-like or source of shape (n, d)
        Queries. float32 points give float32 distances; everything else float64. Points that are
        not in memory (a memory map, an array of zarr or h5py, a
        :class:`metricfast.sources.Source`) are read block by block; distances are the same.
    Y : array-like or source of shape (m, d), optional
        Database; X itself by default.
    L : array-like of shape (p, d), optional
        Linear map of a Mahalanobis distance, ``M = L.T @ L``.
    U, V : array-like of shape (p, d), optional
        Maps of queries and of database points of an asymmetric distance.
    M : array-like of shape (d, d), optional
        Matrix of a Mahalanobis distance, symmetric and positive semidefinite, in place of L.
    squared : bool, default=False
        Squared distances.
    out : ndarray of shape (n, m), optional
        Written and returned: float32 or float64, rows contiguous. Saves the cost of new memory,
        which is more than the cost of the arithmetic. May be a memory map.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs.

    Returns
    -------
    ndarray of shape (n, m)
        Near-duplicates and self-distances are computed from differences, so they keep their digits.
        Distances that overflow the dtype are infinite.

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
    check_bool("squared", squared)
    queries, database = as_both(X, Y, ("X", "Y"))
    database = queries if Y is None else database
    maps, threads = _maps(L, U, V, M, queries.shape[1]), as_threads(n_jobs)
    shape = (len(queries), len(database))
    dtype = common_precision(queries, database)
    if out is None:
        out = aligned_empty(shape, dtype)
    else:
        _check_out(out, shape, (queries, database))
    if on_disk(queries, database) or isinstance(out, np.memmap):
        pairwise_by_blocks(queries, database, maps, squared, out, threads)
    else:
        get_kernels().pairwise_distances(queries, database, maps, squared, out, threads)
    return out


def check_metric(metric: object, squared: object = False) -> None:
    """Raise ValueError unless `metric` is known, and has squared distances if `squared`."""
    check_choice("metric", metric, get_args(SearchMetric))
    check_bool("squared", squared)
    if squared and metric != "euclidean":
        raise ValueError(f'squared=True needs metric="euclidean", got metric={metric!r}.')


def _maps(
    L: ArrayLike | None, U: ArrayLike | None, V: ArrayLike | None, M: ArrayLike | None, width: int,
    metric: str = "euclidean",
) -> tuple[Map, Map]:  # fmt: skip
    """Return the maps of queries and database, from L, U and V, or M."""
    if M is None:
        return as_maps(L, U, V, width)
    if L is not None or U is not None or V is not None:
        raise ValueError("Give M, or L, or U and V, not several of them.")
    matrix = as_points(M, "M", width=width)
    if metric == "inner_product":
        if len(matrix) != width:
            raise ValueError(f"M must have shape ({width}, {width}); found {matrix.shape}.")
        return np.ascontiguousarray(matrix.T), np.eye(width)
    try:
        L = np.ascontiguousarray(components_from_metric(matrix))
    except NonPSDError as error:
        raise ValueError("M must be positive semidefinite: an eigenvalue is negative.") from error
    except ValueError as error:
        raise ValueError(
            f"M must be a symmetric matrix of shape ({width}, {width}); found shape "
            f"{matrix.shape}. Give a map as L."
        ) from error
    return L, L


def _check_out(out: object, shape: tuple[int, int], inputs: tuple[Points, ...]) -> None:
    if not isinstance(out, np.ndarray) or out.dtype not in (np.float32, np.float64):
        raise ValueError("out must be a float32 or float64 numpy array.")
    if out.shape != shape:
        raise ValueError(f"out must have shape {shape}; found {out.shape}.")
    if not out.dtype.isnative or not out.flags.writeable:
        raise ValueError("out must be writeable and in native byte order.")
    rows_fit = out.strides[0] >= out.itemsize * shape[1] or shape[0] == 1
    if (shape[1] > 1 and out.strides[1] != out.itemsize) or not rows_fit:
        raise ValueError("out must have contiguous rows (C order).")
    if any(isinstance(x, np.ndarray) and np.may_share_memory(out, x) for x in inputs):
        raise ValueError("out must not overlap X or Y.")


def paired_distances(
    X: ArrayLike,
    Y: ArrayLike | None = None,
    *,
    pairs: ArrayLike | None = None,
    L: ArrayLike | None = None,
    U: ArrayLike | None = None,
    V: ArrayLike | None = None,
    M: ArrayLike | None = None,
    squared: bool = False,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    """Distances of given pairs: row i of X and row i of Y, or ``X[pairs[i, 0]], Y[pairs[i, 1]]``.

    Parameters
    ----------
    X, Y : array-like or source of shape (n, d) and (m, d)
        Points, as many of each where ``pairs`` is not given; with ``pairs`` Y is X by default.
    pairs : array-like of int of shape (n_pairs, 2), optional
        Indices into X and Y.
    L, U, V, M, squared, n_jobs
        As for :func:`pairwise_distances`.

    Returns
    -------
    ndarray of shape (n_pairs,)
        A distance that overflows the dtype is infinite.

    Raises
    ------
    ValueError
        If an array has the wrong shape, an index is out of range, a value is not finite, or a map
        overflows.

    Examples
    --------
    >>> import metricfast as mf
    >>> mf.paired_distances([[0.0, 0.0], [3.0, 4.0]], pairs=[[0, 1], [1, 1]])
    array([5., 0.])
    """
    check_bool("squared", squared)
    left, right = as_both(X, Y, ("X", "Y"))
    if Y is None and pairs is None:
        raise ValueError("Give Y, or pairs of indices into X.")
    right = left if Y is None else right
    maps, threads = _maps(L, U, V, M, left.shape[1]), as_threads(n_jobs)
    index = None if pairs is None else _as_pairs(pairs, len(left), len(right))
    if index is None:
        check_length(right, len(left), "Y", "points, as X")
    out = np.empty(len(left if index is None else index), common_precision(left, right))
    if on_disk(left, right):
        paired_by_blocks(left, right, index, maps, squared, out, threads)
    else:
        get_kernels().paired_distances(left, right, maps, index, squared, out, threads)
    return out


def _as_pairs(pairs: ArrayLike, left: int, right: int) -> NDArray[np.int64]:
    index = as_indices(pairs, "pairs", "be integers of shape (n_pairs, 2)", (None, 2))
    for side, limit in enumerate((left, right)):
        check_indices(index[:, side], f"pairs column {side}", 0, limit)
    return index


def kneighbors(
    queries: ArrayLike,
    database: ArrayLike | None = None,
    n_neighbors: int = 5,
    *,
    metric: SearchMetric = "euclidean",
    L: ArrayLike | None = None,
    U: ArrayLike | None = None,
    V: ArrayLike | None = None,
    M: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
    where: ArrayLike | tuple[ArrayLike, ...] | None = None,
    squared: bool = False,
    n_jobs: int | None = None,
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The nearest database points of each query, exactly.

    Parameters
    ----------
    queries : array-like or source of shape (n, d)
    database : array-like or source of shape (m, d), optional
        By default the queries themselves, each point excluded from its own neighbours by index. A
        database on disk is read once for each group of queries; half of scikit-learn's
        `working_memory` holds a group. The neighbours are the same.
    n_neighbors : int, default=5
    metric : {"euclidean", "cosine", "inner_product"}, default="euclidean"
        The distance of mapped points: Euclidean, one minus the cosine, or minus the inner product,
        so that the largest product is the nearest. A zero vector has the cosine distance 1 from
        other points and 0 from zero vectors.
    L, U, V, squared, n_jobs
        As for :func:`pairwise_distances`. `squared` needs Euclidean distances.
    M : array-like of shape (d, d), optional
        As for :func:`pairwise_distances`. With ``metric="inner_product"`` any square matrix of the
        bilinear similarity ``queries @ M @ database.T``.
    exclude : array-like of int of shape (n,), optional
        For each query a database index to leave out, -1 for none.
    where : array-like or tuple, optional
        The database points that queries may find: a boolean mask of shape (m,), or of shape (n, m)
        with a row for each query; an array of indices; or labels. With a tuple (labels of queries,
        labels of the database), a query leaves out the points with its label. With a tuple
        ("equal", labels of queries, labels of the database), it finds only these.

    Returns
    -------
    distances : ndarray of shape (n, n_neighbors)
        Nearest first. If `where` leaves fewer points than `n_neighbors` to a query, its last
        distances are infinite, with the index -1.
    indices : ndarray of int64 of shape (n, n_neighbors)
        In the order of (distance, index). Distances are compared in float64: sums of squared
        differences of the points, or of ``X @ L.T``; or sums of products, divided by the lengths
        for cosines. Memory in addition to inputs and results does not grow with n m.

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
    >>> cameras = [1, 1, 2]
    >>> mf.kneighbors([[0.0], [1.0], [3.0]], n_neighbors=1, where=(cameras, cameras))[1].ravel()
    array([2, 2, 1])
    >>> mf.kneighbors([[1.0, 1.0]], [[1.0, 1.0], [9.0, 0.0]], 1, metric="inner_product")
    (array([[-9.]]), array([[1]]))
    """
    check_metric(metric, squared)
    query, base, left_out = _search_arguments(queries, database, exclude)
    filtered = as_filter(where, (len(query), len(base)), known_rows(len(base)))
    n_neighbors = check_neighbors(n_neighbors, len(base), left_out if where is None else None)
    maps, threads = _maps(L, U, V, M, query.shape[1], metric), as_threads(n_jobs)
    distances = np.empty((len(query), n_neighbors), common_precision(query, base))
    indices = np.empty(distances.shape, np.int64)
    if not on_disk(query, base):
        groups, images, points = filtered.groups(len(query)), query, base
        if any(rows is not None for _, rows in groups):
            images, points = embedded(query, base, maps, threads, metric)
            distances.fill(np.inf)
            indices.fill(-1)
        for some, rows in groups:
            near, found = distances[some], indices[some]
            out = None if left_out is None else left_out[some]
            if rows is None:
                get_kernels().kneighbors(
                    query[some], base, maps, n_neighbors,
                    (out, *filtered.of_queries(some).arguments()), squared, near, found, threads,
                    None, metric,
                )  # fmt: skip
            elif len(rows):
                k = min(n_neighbors, len(rows))
                out = None if out is None else rows_among(out, rows)
                get_kernels().kneighbors(
                    images[some], points[rows], (None, None), k, (out, None, None), squared,
                    near[:, :k], found[:, :k], threads, None, metric,
                )  # fmt: skip
                name_rows(found[:, :k], rows)
            distances[some], indices[some] = near, found
        return distances, indices
    for part in search_by_blocks(query, base, maps, left_out, 64 * n_neighbors, threads, metric):
        best, some_queries = Nearest(n_neighbors, metric), filtered.of_queries(part.rows)
        for some in each_block(part, partial(nearest_in_part, best, some_queries)):
            best.add(*some)
        keys, indices[part.rows] = best.found()
        if (np.isinf(keys) & (indices[part.rows] >= 0)).any():
            raise ValueError(
                "squared distances overflow: some points are 1e150 times as far away as the "
                "first. Divide all by a number that makes their spread about 1."
            )
        write_distances(distances[part.rows], keys, part.exponent, squared, metric)
    return distances, indices


def nearest_of_arrays(
    queries: Array, database: Array, n_neighbors: int, exclude: Integers | None = None,
    n_jobs: int | None = None,
) -> Integers:  # fmt: skip
    """Return the indices that `kneighbors` finds in arrays of one width, which are not checked.

    Raises ValueError for NaN and infinity, and for more neighbours than there are.
    """
    queries, database = np.ascontiguousarray(queries), np.ascontiguousarray(database)
    check_all_finite(queries, "queries")
    check_all_finite(database, "database")
    check_neighbors(n_neighbors, len(database), exclude)
    distances = np.empty((len(queries), n_neighbors), np.result_type(queries, database))
    indices = np.empty(distances.shape, np.int64)
    get_kernels().kneighbors(
        queries, database, (None, None), n_neighbors, (exclude, None, None), True, distances,
        indices, as_threads(n_jobs), None, "euclidean",
    )  # fmt: skip
    return indices


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
    >>> distances, indices = mf.neighbors.kneighbors_per_class([[2.0]], points, [0, 0, 1, 1], 1)
    >>> indices.ravel()
    array([1, 2])
    """
    check_bool("squared", squared)
    query, base, left_out = _search_arguments(queries, database, exclude)
    n_neighbors = check_neighbors(n_neighbors)
    classes, codes = as_codes(labels, "labels", len(base))
    maps, threads = as_maps(L, U, V, query.shape[1]), as_threads(n_jobs)
    shape = (len(query), len(classes), n_neighbors)
    distances = np.empty(shape, common_precision(query, base))
    indices = np.empty(shape, np.int64)
    size, search = shape[1:], get_kernels().kneighbors_per_class
    if not on_disk(query, base):
        search(query, base, maps, codes, *size, left_out, squared, distances, indices, threads)
        return distances, indices

    def of_block(block: Block, threads: int) -> tuple[Array, Array]:
        keys = np.empty((len(block.queries), *size))
        rows = np.empty(keys.shape, np.int64)
        search(
            block.queries, block.points, (None, None), codes[block.rows], *size, block.exclude,
            True, keys, rows, threads,
        )  # fmt: skip
        rows[rows >= 0] += block.rows.start
        return keys, rows

    for part in search_by_blocks(query, base, maps, left_out, 64 * math.prod(size), threads):
        best = Nearest(n_neighbors)
        for some in each_block(part, of_block):
            best.add(*some)
        keys, indices[part.rows] = best.found()
        write_distances(distances[part.rows], keys, part.exponent, squared)
    return distances, indices


def _search_arguments(
    queries: ArrayLike, database: ArrayLike | None, exclude: ArrayLike | None
) -> tuple[Any, Any, NDArray[np.int64] | None]:
    query, base = as_both(queries, database, ("queries", "database"))
    if database is None:
        base = query
        exclude = np.arange(len(query)) if exclude is None else exclude
    return query, base, as_exclude(exclude, len(query), len(base))


def check_neighbors(
    n_neighbors: object, available: int | None = None, left_out: NDArray[np.int64] | None = None
) -> int:
    """Return a checked number of neighbours, at most the points that a query may have."""
    k = check_count("n_neighbors", n_neighbors)
    if available is None:
        return k
    if left_out is not None and (left_out >= 0).any():
        available -= 1
    if k > available:
        raise ValueError(
            f"n_neighbors must be at most {available}, the database points that a query may have; "
            f"found {n_neighbors}."
        )
    return k
