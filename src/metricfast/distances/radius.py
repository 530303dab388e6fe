"""All neighbours within a radius, exactly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.arguments import check_bool, check_finite, check_range
from metricfast._core.arrays import as_maps, as_threads, common_precision
from metricfast._core.dispatch import get_kernels
from metricfast._core.sources import on_disk
from metricfast._core.types import Array, Integers
from metricfast.distances.blocks import Block, each_block, search_by_blocks, sorted_by_query
from metricfast.distances.neighbors import SearchMetric, _search_arguments, check_metric

Found = tuple[Array, Integers, Integers]

_LARGEST = float(np.finfo(np.float64).max)


def radius_neighbors(
    queries: ArrayLike,
    database: ArrayLike | None = None,
    radius: float = 1.0,
    *,
    metric: SearchMetric = "euclidean",
    L: ArrayLike | None = None,
    U: ArrayLike | None = None,
    V: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
    sort_results: bool = False,
    n_jobs: int | None = None,
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """All database points within a distance of each query, exactly.

    Parameters
    ----------
    queries : array-like or source of shape (n, d)
    database : array-like or source of shape (m, d), optional
        By default the queries themselves, each point excluded from its own neighbours by index.
    radius : float, default=1.0
        The largest distance; points that are exactly so far away belong to the neighbours, and
        those whose distance is returned as that, where it is rounded to float32. With ``np.inf``
        all points are neighbours. With ``metric="inner_product"`` the distance is minus the inner
        product: a radius of -0.5 finds the points whose inner product is at least 0.5.
    metric, L, U, V, exclude, n_jobs
        As for :func:`kneighbors`.
    sort_results : bool, default=False
        Order the neighbours of a query by (distance, index), not by index.

    Returns
    -------
    distances : ndarray of shape (n_found,)
    indices : ndarray of int64 of shape (n_found,)
    row_starts : ndarray of int64 of shape (n + 1,)
        The neighbours of query i are ``indices[row_starts[i]:row_starts[i + 1]]``: the three are
        what :class:`scipy.sparse.csr_array` is made of. The distance that decides is the one in
        float64, of differences of the points, or of the embedded points, as for
        :func:`kneighbors`; it is rounded where distances are float32, and infinite
        beyond the range of the dtype. Memory grows with the neighbours, not with n m.

    Raises
    ------
    ValueError
        If `radius` is not a number from 0 (for inner products, any number), or an array is not as
        above.

    Examples
    --------
    >>> from metricfast.neighbors import radius_neighbors
    >>> distances, indices, row_starts = radius_neighbors([[0.0], [1.0], [3.0]], radius=2.0)
    >>> indices, row_starts
    (array([1, 0, 2, 1]), array([0, 1, 3, 4]))
    """
    check_metric(metric)
    check_radius(radius, metric)
    check_bool("sort_results", sort_results)
    query, base, left_out = _search_arguments(queries, database, exclude)
    maps, threads = as_maps(L, U, V, query.shape[1]), as_threads(n_jobs)
    within = min(float(radius), _LARGEST)
    found = _search(query, base, within, metric, maps, left_out, sort_results, threads)
    return _completed(found, len(base), left_out, sort_results) if radius == math.inf else found


def check_radius(radius: object, metric: str = "euclidean") -> None:
    """Raise ValueError unless radius is a non-negative number, or infinity for all points.

    The distances of the metric "inner_product" may be negative.
    """
    if metric != "inner_product":
        check_range("radius", radius, infinite=True)
    elif radius != math.inf:
        check_finite("radius", radius)


def _search(
    query: Any,
    base: Any,
    radius: float,
    metric: str,
    maps: tuple[Array | None, Array | None],
    left_out: Integers | None,
    sort_results: bool,
    threads: int,
) -> Found:
    """Find the neighbours within a finite radius."""
    dtype = common_precision(query, base)
    search = get_kernels().radius_neighbors
    reach = reach_of(radius, dtype)
    if not on_disk(query, base):
        distances, indices, row_starts = search(
            query, base, maps, (reach, (left_out, None, None), sort_results, False), threads,
            metric, dtype is np.float32,
        )  # fmt: skip
        return distances, indices, row_starts

    found: list[Found] = []
    for part in search_by_blocks(query, base, maps, left_out, 0, threads, metric):
        powers = {"euclidean": 1, "cosine": 0, "inner_product": 2}[metric]
        with np.errstate(over="ignore"):
            limit = min(float(np.ldexp(reach, -powers * part.exponent)), _LARGEST)

        def of_block(block: Block, threads: int, limit: float = limit) -> Found:
            keys, near, starts = search(
                block.queries, block.points, (None, None),
                (limit, (block.exclude, None, None), False, True), threads, metric, False,
            )  # fmt: skip
            of_query = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
            return keys, near + block.rows.start, of_query

        size, how = part.rows.stop - part.rows.start, (sort_results, part.exponent, metric, dtype)
        found.append(sorted_by_query(each_block(part, of_block), size, *how))
    distances, indices, counts = (np.concatenate(each) for each in zip(*found, strict=True))
    return distances, indices, np.concatenate([[0], np.cumsum(counts)])


def _completed(found: Found, n_base: int, left_out: Integers | None, sort_results: bool) -> Found:
    """Add the pairs whose distances overflow to infinity; no finite radius finds them."""
    distances, indices, row_starts = found
    wanted = np.ones((len(row_starts) - 1, n_base), bool)
    if left_out is not None:
        rows = np.flatnonzero(left_out >= 0)
        wanted[rows, left_out[rows]] = False
    rows, columns = np.nonzero(wanted)
    if len(indices) == len(rows):
        return found
    away = np.full(wanted.shape, np.inf, distances.dtype)
    away[np.repeat(np.arange(len(wanted)), np.diff(row_starts)), indices] = distances
    values = away[wanted]
    order = np.lexsort((values, rows)) if sort_results else slice(None)  # stable
    return values[order], columns[order], np.concatenate([[0], np.cumsum(wanted.sum(axis=1))])


def reach_of(radius: float, dtype: type[np.floating[Any]]) -> float:
    """Return the largest distance that is rounded to no more than the radius, or the radius."""
    with np.errstate(over="ignore"):
        below = dtype(radius)
        if float(below) > radius:
            below = np.nextafter(below, dtype(-np.inf))
        above = np.nextafter(below, dtype(np.inf))
    if dtype is np.float64 or not np.isfinite(above):
        return radius
    between = (float(below) + float(above)) / 2
    return max(
        radius, between if dtype(between) == below else float(np.nextafter(between, -np.inf))
    )
