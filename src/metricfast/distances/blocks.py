"""Searches and distances of points on disk, block by block.

Results equal those of all points at once, bit for bit: points are embedded with the same
arithmetic, and results of blocks are merged by the same squared distances in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from metricfast._core.dispatch import get_kernels
from metricfast._core.in_threads import in_threads
from metricfast._core.memory import block_rows, working_memory
from metricfast._core.scaling import ORDINARY_SINGLE_SQUARES, ORDINARY_SQUARES, times_power_of_two
from metricfast._core.sources import Source, on_disk, parts, row_bytes
from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.filters import Filter

Points = Array | Source
Maps = tuple[Array | None, Array | None]

# With up to this many queries, threads would wait for each other in a block. Several blocks are
# then searched at the same time; the other numbers are their bytes in total, and at least each.
_FEW_QUERIES, _AT_ONCE, _LEAST = 2048, 16 << 20, 2 << 20

T = TypeVar("T")


class Embedded(Source):
    """Points of a source, embedded by a map for a search, in float64."""

    def __init__(self, points: Points, L: Array, origin: Floats, threads: int) -> None:
        self._points, self._L, self._origin, self._threads = points, L, origin, threads
        self.shape, self.dtype = (points.shape[0], L.shape[0]), np.dtype(np.float64)

    @property
    def row_bytes(self) -> int:
        """Bytes of a point before and after the map."""
        return row_bytes(self._points) + 8 * self.shape[1]

    def read(self, start: int, stop: int) -> Array:
        """Return rows."""
        return self._embed(self._points[start:stop])

    def _gather(self, rows: Integers) -> Array:
        return self._embed(self._points[rows])

    def _embed(self, points: Array) -> Array:
        found = np.empty((len(points), self.shape[1]))
        get_kernels().embed(points, self._L, self._origin, found, self._threads)
        return found


class Block(NamedTuple):
    """A block of database points, compared with some queries."""

    rows: slice
    queries: Array
    points: Array
    exclude: Integers | None  # rows of `points`


class Queries(NamedTuple):
    """Some queries, and the blocks of the database, which are read in turn."""

    rows: slice
    exponent: int  # points are divided by 2**exponent
    blocks: Iterator[Block]
    at_once: int  # blocks searched at the same time
    threads: int  # threads per block


def embedded(
    queries: Points, database: Points, maps: Maps, threads: int, metric: str = "euclidean"
) -> tuple[Points, Points]:
    """Return embedded queries and database; sources are embedded block by block."""
    U, V = maps
    if U is None or V is None:
        return queries, database
    shifted = U is V and metric == "euclidean"  # the others depend on the origin
    origin = _origin(database) if shifted else np.zeros(U.shape[1])
    return Embedded(queries, U, origin, threads), Embedded(database, V, origin, threads)


def _origin(points: Points) -> Floats:
    """Return the origin that is subtracted before one map embeds all points.

    It depends on the minimum and maximum of each column. More points can only set it to zero, and
    one block usually shows that it is zero.
    """
    extremes = points[:1]
    origin = np.zeros(points.shape[1])
    for _, block in parts(points):
        extremes = np.stack(
            [extremes.min(axis=0), block.min(axis=0), extremes.max(axis=0), block.max(axis=0)]
        )
        origin = np.array(get_kernels().embedding_origin(extremes))
        if not origin.any():
            break
    return origin


def search_by_blocks(
    queries: Points, database: Points, maps: Maps, exclude: Integers | None, found: int,
    threads: int, metric: str = "euclidean",
) -> Iterator[Queries]:  # fmt: skip
    """Yield blocks of queries that fit into memory; each block searches the whole database.

    `found`: bytes of the results of a query.
    """
    queries, database = embedded(queries, database, maps, threads, metric)
    exponent = 0
    if np.float64 in (queries.dtype, database.dtype):
        largest = max(map(_size, (queries, database)))
        exponent = int(np.frexp(largest)[1])
        exponent = exponent if abs(exponent) > ORDINARY_SQUARES else 0
    memory = working_memory()
    size = max(1, memory // 2 // (row_bytes(queries) + found))
    # A search needs up to 16 bytes per number; each point counts as nine further numbers.
    most = memory // 4 // (16 * (database.shape[1] + 9))
    at_once, n_rows = 1, block_rows(row_bytes(database))
    if not on_disk(database):
        n_rows = block_rows(row_bytes(database), most=memory)  # in memory
    elif min(size, len(queries)) <= _FEW_QUERIES:
        at_once = max(1, min(threads, memory // (8 * _LEAST)))
        if at_once > 1:
            n_rows = block_rows(at_once * row_bytes(database), most=at_once * _AT_ONCE)
    n_rows = max(1, min(n_rows, most // at_once))
    for start in range(0, len(queries), size):
        rows = slice(start, min(start + size, len(queries)))
        some = _divided(queries[rows], exponent)
        left_out = None if exclude is None else exclude[rows]
        blocks = _blocks(some, database, left_out, exponent, n_rows)
        yield Queries(rows, exponent, blocks, at_once, max(1, threads // at_once))


def each_block(part: Queries, search: Callable[[Block, int], T]) -> Iterator[T]:
    """Yield the results of `search` on each block, in order."""
    calls = ((block, part.threads) for block in part.blocks)
    return in_threads(search, calls, part.at_once)


def _blocks(
    queries: Array, database: Points, exclude: Integers | None, exponent: int, n_rows: int
) -> Iterator[Block]:
    for rows, points in parts(database, n_rows):
        inside = None
        if exclude is not None:
            within = (exclude >= rows.start) & (exclude < rows.stop)
            inside = np.where(within, exclude - rows.start, -1)
        yield Block(rows, queries, _divided(points, exponent), inside)


def _size(points: Points) -> float:
    """Return the largest absolute value of the first block that is not all zero, as the unit."""
    few = float(np.abs(points[:64]).max())
    return few or next(
        filter(None, (float(np.abs(block).max()) for _, block in parts(points))), 0.0
    )


def _divided(points: Array, exponent: int) -> Array:
    return times_power_of_two(points.astype(np.float64), -exponent) if exponent else points


class Nearest:
    """Collects the k nearest along the last axis, from blocks in ascending order of rows.

    Keys are squared Euclidean distances, or distances of another metric.
    """

    def __init__(self, k: int, metric: str = "euclidean") -> None:
        self.k, self.metric, self._held = k, metric, list[tuple[Floats, Integers]]()

    def add(self, keys: Floats, rows: Integers) -> None:
        """Add keys and rows (-1 for none) of the next block."""
        self._held.append((keys, rows))
        if sum(keys.shape[-1] for keys, _ in self._held) >= 2 * self.k:
            self._held = [self.found()]

    def found(self) -> tuple[Floats, Integers]:
        """Return keys and rows."""
        keys, rows = (np.concatenate(each, axis=-1) for each in zip(*self._held, strict=True))
        # The sort is stable, so that the lower row comes first on ties.
        order = np.argsort(keys, axis=-1, kind="stable")[..., : self.k]
        return np.take_along_axis(keys, order, -1), np.take_along_axis(rows, order, -1)

    def within(self) -> Floats | None:
        """Return an upper bound of the k-th squared distance of each query, or None if unknown."""
        squared = self._held[0][0] if self._held and self.metric == "euclidean" else None
        enough = squared is not None and squared.shape[-1] >= self.k
        return squared[:, self.k - 1].copy() if squared is not None and enough else None


def nearest_in_part(
    best: Nearest, where: Filter, block: Block, threads: int
) -> tuple[Floats, Integers]:
    """Return keys and rows of the points in a block that may be among the nearest."""
    shape = len(block.queries), min(best.k, len(block.points))
    keys, found = np.empty(shape), np.empty(shape, np.int64)
    get_kernels().kneighbors(
        block.queries, block.points, (None, None), shape[1],
        (block.exclude, *where.of_points(block.rows).arguments()), True, keys, found, threads,
        best.within(), best.metric,
    )  # fmt: skip
    found[found >= 0] += block.rows.start
    return keys, found


def write_distances(
    out: Array, keys: Floats, exponent: int, squared: bool, metric: str = "euclidean"
) -> None:
    """Write distances, given the keys of points that were divided by ``2**exponent``.

    Keys are squared Euclidean distances, or distances of another metric.
    """
    squared = squared or metric != "euclidean"
    found: Any = keys if squared else np.sqrt(keys)
    if exponent and metric != "cosine":
        found = times_power_of_two(found, 2 * exponent if squared else exponent)
    with np.errstate(over="ignore"):
        out[...] = found


def sorted_by_query(
    blocks: Iterable[tuple[Floats, Integers, Integers]], n_queries: int, sort_results: bool,
    exponent: int, metric: str, dtype: Any,
) -> tuple[Array, Integers, Integers]:  # fmt: skip
    """Join the keys, the points and the queries of pairs, and sort the pairs by query.

    Returns the distances, the points, and their number for each query. The points of a query are
    in ascending order, or the nearest first with `sort_results`.
    """
    keys, points, of_query = (np.concatenate(each) for each in zip(*blocks, strict=True))
    order = np.lexsort((points, keys, of_query) if sort_results else (points, of_query))
    distances = np.empty(len(keys), dtype)
    write_distances(distances, keys[order], exponent, False, metric)
    return distances, points[order], np.bincount(of_query, minlength=n_queries)


_PAIRS = 256  # size of the kernel's matrix products; rounding depends on it


def pairwise_by_blocks(
    X: Points, Y: Points, maps: Maps, squared: bool, out: Array, threads: int
) -> None:
    """Write the distances of every row of X to every row of Y. Y is read once per block of X.

    Results equal those for all points at once: all blocks use the same unit and centre, and the
    decision whether matrix products would round too much is made for all pairs together.
    """
    kernels = get_kernels()
    queries, database = embedded(X, Y, maps, threads)
    frame = _frame(queries, database)
    together = kernels.pairwise_block(out)
    columns = block_rows(row_bytes(database))
    most = working_memory() // 8 // (out.itemsize * min(columns, len(database)))
    n_rows = max(1, min(block_rows(row_bytes(queries)), most) // together) * together

    def write(points: Array, first: int, cancelled: Integers | None) -> None:
        for part, block in parts(database, columns):
            tile = out[first : first + len(points), part]
            kernels.pairwise_distances_of_part(
                points, block, frame, len(database), squared, tile, cancelled, threads
            )

    for start in range(0, len(queries), n_rows):
        points = queries[start : start + n_rows]
        starts = np.arange(0, len(points), together)
        cancelled = np.zeros(len(starts), np.int64)
        write(points, start, cancelled)
        for first, count in zip(starts, cancelled, strict=True):
            rows = points[first : first + together]
            if count > kernels.most_cancelled(out, len(rows), len(database)):
                write(rows, start + int(first), None)


def _frame(queries: Points, database: Points) -> tuple[Array, float]:
    """Return the centre of the database, and the scale of both sides."""
    kernels = get_kernels()
    count = min(len(database), 63)  # points that determine the centre
    some = database[np.arange(count) * len(database) // count]
    origin = database[:1][0].astype(np.float64)

    def extent(unit: float) -> tuple[float, float]:
        found = [
            kernels.extent(block, origin, unit)
            for points in (queries, database)
            for _, block in parts(points)
        ]
        magnitude, offset = np.max(found, axis=0)
        return float(magnitude), float(offset)

    magnitude, offset = extent(1.0)
    exponent = int(np.clip(np.frexp(magnitude)[1], -1020, 1020)) if magnitude > 0 else 0
    unit = float(np.ldexp(1.0, -exponent))
    offset = extent(unit)[1] if abs(exponent) > ORDINARY_SINGLE_SQUARES else offset * unit
    return kernels.frame(some, unit, offset)


def paired_by_blocks(
    left: Points, right: Points, pairs: Integers | None, maps: Maps, squared: bool, out: Array,
    threads: int,
) -> None:  # fmt: skip
    """Write the distances of pairs; points are loaded in blocks of pairs."""
    if maps[0] is not None and pairs is not None and len(pairs) > len(left) + len(right):
        # If points are in many pairs, embed each point once.
        left, right = embedded(left, right, maps, threads)
        maps = None, None
    size = max(1, block_rows(row_bytes(left) + row_bytes(right)) // _PAIRS) * _PAIRS
    for start in range(0, len(out), size):
        rows: Any = slice(start, min(start + size, len(out)))
        of_left, of_right = (rows, rows) if pairs is None else pairs[rows].T
        one, other = map(np.ascontiguousarray, (left[of_left], right[of_right]))
        get_kernels().paired_distances(one, other, maps, None, squared, out[rows], threads)
