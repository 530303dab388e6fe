"""Target neighbours: the nearest points of the same class."""

from __future__ import annotations

from typing import Any

import numpy as np

import metricfast.losses as losses
from metricfast._core.memory import working_memory
from metricfast._core.sources import Source, parts
from metricfast._core.sparse import nearest_of_class
from metricfast._core.types import Array, Integers
from metricfast.distances.neighbors import kneighbors
from metricfast.training.chunks import Chunked
from metricfast.training.embedded import map_points

# Maximum number of candidates of a class, for points on disk.
_CANDIDATES = 1 << 16
# Share of the memory for points kept as candidates for targets, if single rows are slow to read.
_HELD = 3 / 8


def find_targets(
    X: Any, labels: Integers, k: int, L: Array | None = None, n_jobs: int | None = None
) -> Integers:
    """Return the k nearest points of the same class for each point, under the map L if given."""
    if isinstance(X, Chunked):
        return targets_in_chunks(X, labels, k, L, n_jobs)
    Z = X if L is None else map_points(X, L, n_jobs)
    find = losses.LMNN.find_targets if isinstance(Z, np.ndarray) else nearest_of_class
    return find(Z, labels, k, n_jobs=n_jobs)


def targets_in_chunks(
    X: Chunked, labels: Integers, k: int, L: Array | None = None, n_jobs: int | None = None
) -> Integers:
    """Return the targets of points on disk, and make X load them with each chunk.

    If single rows are fast to read, each chunk is loaded with the targets of its points. Otherwise,
    targets are chosen among points that stay in memory, equally many of each large class.
    """
    if X.by_row:
        targets = targets_of_all(X, labels, k, L, n_jobs)
        X.hold_with(targets)
        return targets
    row, sizes = X.dtype.itemsize * X.shape[1], np.bincount(labels)
    most = max(k + 1, _evenly(sizes, int(working_memory() * _HELD) // row))
    X.hold(np.sort(np.concatenate(_candidates(labels, most))))
    return targets_of_all(X, labels, k, L, n_jobs, most)


def targets_of_all(
    X: Source,
    labels: Integers,
    k: int,
    L: Array | None = None,
    n_jobs: int | None = None,
    most: int = _CANDIDATES,
) -> Integers:
    """Return the targets of points on disk, under the map L if given.

    Each class must have more than k points. For a class with more than `most` points, or more than
    fit into an eighth of the memory, targets are chosen among evenly spaced points of that number.
    X is read once for as many classes as fit into memory.
    """
    n, row = len(X), X.dtype.itemsize * (X.shape[1] + (0 if L is None else len(L)))
    dtype = np.dtype(np.int32 if n < 2**31 else np.int64)
    found: Integers = np.empty((n, k), dtype)
    room = working_memory() // (8 * row)
    candidates = _candidates(labels, max(k + 1, min(most, _CANDIDATES, room)))
    ends = np.cumsum([0, *map(len, candidates)])
    first = 0
    while first < len(candidates):
        last = int(np.searchsorted(ends, ends[first] + room, side="right")) - 1
        last = max(first + 1, last)
        _find(found, X, labels, candidates, range(first, last), L, n_jobs)
        first = last
    return found


def _find(
    found: Integers,
    X: Source,
    labels: Integers,
    candidates: list[Integers],
    codes: range,
    L: Array | None,
    n_jobs: int | None,
) -> None:
    """Set the targets of some classes, with all their candidates in memory, in one pass."""
    row = X.dtype.itemsize * (X.shape[1] + (0 if L is None else len(L)))
    held = {code: X[candidates[code]] for code in codes}
    for part, block in parts(X, max(1, working_memory() // (32 * row))):
        own = labels[part]
        for code, points in held.items():
            rows, near = np.flatnonzero(own == code), candidates[code]
            places = np.searchsorted(near, rows + part.start)
            is_one = near[np.minimum(places, len(near) - 1)] == rows + part.start
            if len(rows):
                nearest = kneighbors(
                    block[rows], points, found.shape[1], L=L,
                    exclude=np.where(is_one, places, -1), n_jobs=n_jobs,
                )[1]  # fmt: skip
                found[part][rows] = near[nearest]


def _candidates(labels: Integers, most: int) -> list[Integers]:
    """Return the rows of each class; for a large class, `most` evenly spaced rows."""
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])
    return [
        rows if len(rows) <= most else rows[np.arange(most) * len(rows) // most] for rows in members
    ]


def _evenly(sizes: Integers, room: int) -> int:
    """Return the largest number per class (or all of a class) such that the total fits `room`."""
    for n_before, size in enumerate(np.sort(sizes)):
        share = room // (len(sizes) - n_before)
        if size > share:
            return int(share)
        room -= size
    return int(sizes.max())
