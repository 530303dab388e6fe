"""Mini-batches of points on disk: chunks of blocks that are spread over the source."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from metricfast._core.memory import block_rows, in_caller_memory, working_memory
from metricfast._core.scaling import (
    ORDINARY,
    center_and_rescale,
    mean_of_points,
    times_power_of_two,
)
from metricfast._core.scatter import pieces
from metricfast._core.sources import Source, Subset, parts, scaled
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast.samplers import Batch

# Bytes per block. Smaller blocks mix the rows of the source better.
_BLOCK = 1 << 20
# Share of the memory for a chunk (the next one is read at the same time), and minimum blocks.
SHARE, _LEAST_BLOCKS = 1 / 8, 16
# Number of points in a search for neighbours of a batch.
POOL = 1 << 15


def mean_of(X: Any, weight: Floats | None = None) -> Array:
    """Return the mean of points, an array or a source, which is read once."""
    if not isinstance(X, Source):
        return mean_of_points(X, weight)
    if weight is None:
        return mean_and_exponent(X)[0]
    origin, total = X[0].astype(np.float64), np.zeros(X.shape[1])
    for rows, block in parts(X):
        total += weight[rows] @ (block - origin)
    return np.asarray(origin + total / weight.sum())


def subtract_mean(X: Any, mean: Array, dtype: Any = None, share: float = SHARE) -> Any:
    """Return points minus their mean. Sparse points are not centred; a source becomes chunks.

    `dtype`: dtype of the result; by default the dtype of X.
    `share`: share of the memory for a chunk.
    """
    dtype = X.dtype if dtype is None else dtype
    if isinstance(X, Source):
        return Chunked(scaled(X, mean, dtype=dtype), share)
    X = X.astype(dtype, copy=False)
    return csr_array(X) if issparse(X) else np.ascontiguousarray(X - mean.astype(dtype, copy=False))


def mean_and_exponent(X: Source) -> tuple[Floats, int]:
    """Return the mean and the exponent of :func:`center_and_rescale`, reading X once."""
    first = X[: min(len(X), block_rows(X.dtype.itemsize * X.shape[1]))]
    exponent = center_and_rescale(first)[1]
    origin = times_power_of_two(first[0].astype(np.float64), -exponent)
    del first
    n, mean, squares = 0, np.zeros(X.shape[1]), np.zeros(X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        for _, block in pieces(X):
            apart = times_power_of_two(block.astype(np.float64), -exponent) - origin
            more, step = len(apart), apart.mean(axis=0) - mean
            apart -= mean + step
            mean += step * (more / (n + more))
            squares += np.einsum("ij,ij->j", apart, apart) + step**2 * (n * more / (n + more))
            n += more
    largest = float(squares.max()) / n
    if not math.isfinite(largest):
        raise ValueError("X is spread too much for its squares: scale its features.")
    mean = times_power_of_two(origin + mean, exponent)
    if largest > 0:
        spread = math.log2(largest) / 2
        exponent = math.floor(exponent + spread) if abs(exponent + spread) > ORDINARY else 0
    return mean, exponent


class Chunked(Source):
    """Points of a source. One chunk is in memory while the next one is read.

    Rows of the chunk, and other rows in memory, are not read again. A chunk takes a share of the
    memory that these other rows leave.
    """

    def __init__(self, source: Source, share: float = SHARE) -> None:
        self._like(source)
        self.share = share
        self._source, self._lock = source, Lock()
        self._rows, self._points = np.empty(0, np.int64), np.empty((0, self.shape[1]), self.dtype)
        self._held: tuple[Integers, Array] = self._rows, self._points
        self._with: Integers | None = None
        self._divide(1)

    def subset(self, rows: Integers) -> Chunked:
        """Return the points of ascending rows."""
        return Chunked(Subset(self._source, rows), self.share)

    def hold(self, rows: Integers) -> None:
        """Keep the given ascending rows in memory permanently."""
        if not np.array_equal(rows, self._held[0]):
            with self._lock:
                self._held = rows, np.asarray(self._source[rows])
            self._divide(1)

    def hold_with(self, others: Integers) -> None:
        """Load, with each point of a chunk, the points in its row of the table `others`."""
        self._with = others
        self._divide(1 + others.shape[1])

    def _divide(self, n_rows: int) -> None:
        """Choose blocks and chunks, if each row of a chunk needs `n_rows` rows in memory."""
        row = self.dtype.itemsize * self.shape[1] * n_rows
        most = max(row, int((working_memory() - self._held[1].nbytes) * self.share))
        self._size = max(1, min(_BLOCK, most // _LEAST_BLOCKS) // row)
        self._n_blocks = -(-self.shape[0] // self._size)
        self.n_chunks = -(-self._n_blocks // max(2, most // (row * self._size)))

    def read(self, start: int, stop: int) -> Array:
        """Return rows."""
        with self._lock:
            return self._source.read(start, stop)

    def _gather(self, rows: Integers) -> Array:
        found, left = np.empty((len(rows), self.shape[1]), self.dtype), np.arange(len(rows))
        for there, points in ((self._rows, self._points), self._held):
            if not len(there):
                continue
            at = np.minimum(np.searchsorted(there, rows[left]), len(there) - 1)
            known = there[at] == rows[left]
            if known.all() and len(known) == len(rows):
                return points.take(at, axis=0)
            found[left[known]] = points[at[known]]
            left = left[~known]
        if len(left):
            with self._lock:
                found[left] = self._source[rows[left]]
        return found

    def chunks(self, rng: RandomState) -> Generator[Integers, None, None]:
        """Load one chunk after the other; yield the ascending rows of each.

        Rows that are loaded for other rows are not included.
        """
        order = np.arange(self._n_blocks)
        if not self._source.in_order:
            order = rng.permutation(order)
        chunks = [np.sort(blocks) for blocks in np.array_split(order, self.n_chunks)]
        self._rows, self._points = self._rows[:0], self._points[:0].copy()
        ended, read = Event(), in_caller_memory(self._chunk)
        with ThreadPoolExecutor(1, thread_name_prefix="metricfast-reads") as reader:
            try:
                coming = reader.submit(read, chunks[0], ended)
                for following in [*chunks[1:], None]:
                    given, self._rows, self._points = coming.result()
                    if following is not None:
                        coming = reader.submit(read, following, ended)
                    yield given
            finally:
                ended.set()

    def _chunk(self, numbers: Integers, ended: Event) -> tuple[Integers, Integers, Array]:
        """Read blocks unless the training has ended; return their rows, all rows, and points."""
        starts = numbers * self._size
        stops = np.minimum(starts + self._size, len(self))
        given = np.concatenate([np.arange(*ends) for ends in zip(starts, stops, strict=True)])
        rows = given if self._with is None else np.union1d(given, self._with[given])
        points = np.empty((len(rows), self.shape[1]), self.dtype)
        places = np.searchsorted(rows, starts).tolist()
        for place, start, stop in zip(places, starts.tolist(), stops.tolist(), strict=True):
            if ended.is_set():
                break
            with self._lock:
                points[place : place + stop - start] = self._source[start:stop]
        others = np.flatnonzero(~np.isin(rows, given)) if len(rows) > len(given) else given[:0]
        for first in range(0, len(others), self._size):
            if ended.is_set():
                break
            some = others[first : first + self._size]
            with self._lock:
                points[some] = self._source[rows[some]]
        return given, rows, points

    def sample(self, classes: Integers | None, weight: Floats | None = None) -> Integers:
        """Return representative rows: from evenly spaced blocks, and from every class."""
        rows: Any = range(len(self)) if weight is None else np.flatnonzero(weight > 0)
        most = block_rows(2 * self.dtype.itemsize * self.shape[1])
        n_blocks = -(-len(rows) // self._size)
        some = np.unique(np.linspace(0, n_blocks - 1, max(1, most // self._size)).astype(int))
        taken = np.concatenate([rows[i * self._size : (i + 1) * self._size] for i in some])
        if classes is not None:
            first = _first_of_each(classes, weight)
            taken = np.union1d(taken, first[~np.isin(classes[first], classes[taken])])
        return taken


def _first_of_each(classes: Integers, weight: Floats | None) -> Integers:
    """Return the first row with weight of each class, without sorting all rows."""
    first = np.full(int(classes.max()) + 2, -1)  # the last entry is for code -1
    for start in range(0, len(classes), _BLOCK)[::-1]:
        rows = np.arange(start, min(start + _BLOCK, len(classes)))[::-1]
        if weight is not None:
            rows = rows[weight[rows] > 0]
        first[classes[rows]] = rows
    return first[first >= 0]


class _Epoch:
    """The batches of an epoch, drawn from one pool of points after the other."""

    def __init__(
        self, X: Chunked, draw: Callable[[Integers], Iterable[Batch]], rng: RandomState,
        size: int, pool: int | None,
    ) -> None:  # fmt: skip
        self._X, self._draw, self._rng, self._size, self._pool = X, draw, rng, size, pool

    def __len__(self) -> int:
        """Return the approximate number of batches."""
        return math.ceil(len(self._X) / self._size)

    def __iter__(self) -> Iterator[Batch]:
        none = True
        for rows in self._X.chunks(self._rng):
            for pool in self._pools(rows):
                for batch in self._draw(pool):
                    none = False
                    yield batch
        if none:
            raise ValueError(
                "Classes are too small: of none there are enough points among those that are in "
                "memory at a time. Sort X by class, or raise scikit-learn's working_memory by "
                "sklearn.set_config(working_memory=...)."
            )

    def _pools(self, rows: Integers) -> Iterator[Integers]:
        if self._pool is None or len(rows) <= self._pool:
            yield rows
            return
        parts = -(-len(rows) // self._pool)
        for part in np.array_split(self._rng.permutation(len(rows)), parts):
            yield rows[np.sort(part)]


def batches_of(
    X: Any,
    draw: Callable[[Integers], Iterable[Batch]],
    rng: RandomState,
    size: int,
    pool: int | None = None,
) -> Callable[[], Iterable[Batch]]:
    """Return a function that draws the batches of an epoch, with about `size` anchors each.

    ``draw(rows)`` draws the batches of some points: of all points in memory; otherwise of one chunk
    after the other, or of one random part of a chunk after the other, with at most `pool` points.
    """
    if isinstance(X, Chunked):
        return lambda: _Epoch(X, draw, rng, size, pool)
    rows = np.arange(X.shape[0])
    return lambda: draw(rows)
