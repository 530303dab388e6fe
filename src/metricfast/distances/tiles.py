"""Distances of given pairs and of all pairs, by blocks: see `metricfast.distances.blocks`."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricfast._core.dispatch import get_kernels
from metricfast._core.memory import block_rows, working_memory
from metricfast._core.sources import parts, row_bytes
from metricfast._core.types import Array, Integers
from metricfast.distances.blocks import Maps, Points, embedded

__all__ = ["paired_by_blocks", "pairwise_by_blocks"]

_PAIRS = 256  # size of the kernel's matrix products; rounding depends on it
_SAMPLE = 63  # number of points that determine the centre
_ORDINARY = 60  # for coordinates up to 2**60, squares do not overflow or underflow in float32


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
    count = min(len(database), _SAMPLE)
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
    offset = extent(unit)[1] if abs(exponent) > _ORDINARY else offset * unit
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
