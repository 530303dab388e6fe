"""Rows of dask collections: blocks of points with labels and weights, for any chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from dask import array as da
from dask import delayed, is_dask_collection
from sklearn.utils import _safe_indexing

from metricfast._core.points import stacked
from metricfast._core.sources import Source
from metricfast._core.types import Array, Integers
from metricfast.dask._workers import Workers


def blocks_of(name: str, values: Any) -> list[Any]:
    """Return the delayed blocks of rows of a collection; raise TypeError for other objects."""
    return list(np.ravel(_in_rows(name, values).to_delayed()))


def array_of(name: str, values: Any) -> Any:
    """Return a collection as a two-dimensional dask array with blocks of rows."""
    values = _in_rows(name, values)
    array = values if isinstance(values, da.Array) else values.to_dask_array()
    if array.ndim != 2:
        raise ValueError(f"{name} must have two dimensions (points, features); found {array.ndim}.")
    return array


def _in_rows(name: str, values: Any) -> Any:
    if not is_dask_collection(values) or not hasattr(values, "to_delayed"):
        raise TypeError(
            f"{name} must be a dask array, data frame or series; found {type(values).__name__}. "
            "For what is in memory use the learner itself, or dask.array.from_array."
        )
    if isinstance(values, da.Array) and values.ndim > 1 and max(values.numblocks[1:]) > 1:
        return values.rechunk(dict.fromkeys(range(1, values.ndim), -1))
    return values


class AlignedRows:
    """Rows of dask collections: X, and labels, weights and so on (or None) for each row.

    Raises ValueError if the rows of the collections cannot be matched.

    Attributes
    ----------
    blocks : list of delayed tuples
    """

    def __init__(self, workers: Workers, X: Any, **others: Any) -> None:
        of_X = blocks_of("X", X)
        columns, names = [of_X], ("X", *others)
        for name, values in others.items():
            if values is None:
                columns.append([None] * len(of_X))
                continue
            columns.append(blocks_of(name, _cut_alike(values, X)))
            if len(columns[-1]) != len(of_X):
                raise ValueError(
                    f"{name} has {len(columns[-1])} partitions and X {len(of_X)}, and they are of "
                    "different lengths, or of sizes that are not all known: give as many rows of "
                    "both, and call compute_chunk_sizes() on both, or partition them alike."
                )
        together = delayed(_together)  # unique task names: fits share no tasks
        parts = enumerate(zip(*columns, strict=True))
        self.workers, self.blocks = workers, [together(names, i, *each) for i, each in parts]

    def joined(self) -> tuple[Any, ...]:
        """Return all rows, in memory."""
        return join_rows(self.workers.computed(self.blocks))

    def others(self) -> tuple[Any, ...]:
        """Return everything except X, in memory."""
        return join_rows(self.workers.computed([block[1:] for block in self.blocks]))

    def points(self) -> OnWorkers:
        """Return X as a source."""
        return OnWorkers(self.workers, [block[0] for block in self.blocks])

    def starts(self) -> Any:
        """Return the delayed start of each block, and the end of the last one."""
        return starts_of([block[0] for block in self.blocks])

    def dealt(self, n: int, group_of: Callable[..., Integers], *given: Any) -> list[Any]:
        """Return the rows regrouped into `n` groups: delayed tuples with the format of blocks.

        ``group_of(i, block, *given)`` returns the group of each row of block i, or -1 for none.
        """
        pieces = [
            delayed(_dealt)(block, n, group_of, i, *given) for i, block in enumerate(self.blocks)
        ]
        return [delayed(join_rows)([piece[group] for piece in pieces]) for group in range(n)]


def starts_of(blocks: Sequence[Any]) -> Any:
    """Return the delayed start of each block, and the end of the last one."""
    return delayed(_starts)([delayed(_length)(block) for block in blocks])


def join_rows(blocks: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the points of all blocks, and their labels, weights and so on, or None."""
    columns = zip(*blocks, strict=True)
    return tuple(None if column[0] is None else join_blocks(column) for column in columns)


def join_blocks(blocks: Sequence[Any]) -> Any:
    """Concatenate blocks, without the empty ones unless all are empty.

    An array in one block is not copied.
    """
    blocks = [block for block in blocks if _length(block)] or list(blocks[:1])
    if not hasattr(blocks[0], "iloc"):
        return stacked(blocks)
    from pandas import concat

    return concat(blocks)


class OnWorkers(Source):
    """Points in blocks on a cluster; the client receives only the rows that it requests."""

    def __init__(self, workers: Workers, blocks: list[Any]) -> None:
        self._workers, self._blocks = workers, workers.client.compute(blocks)
        described = workers.run(_described, self._blocks)
        self._starts = np.cumsum([0, *(n_rows for n_rows, *_ in described)])
        held = [each for each in described if each[0]] or described
        self.shape, self.feature_names = (int(self._starts[-1]), held[0][1]), held[0][3]
        self.dtype = np.dtype(np.float32 if all(each[2] for each in held) else np.float64)

    def read(self, start: int, stop: int) -> Array:
        """Return rows."""
        return self._gather(np.arange(start, stop))

    def _gather(self, rows: Integers) -> Array:
        found = np.empty((len(rows), self.shape[1]), self.dtype)
        order, ascending = self._ascending(rows)
        ends = np.searchsorted(ascending, self._starts)
        asked, places = [], []
        for block, start, part in zip(self._blocks, self._starts, pairwise(ends), strict=False):
            place = slice(*part)
            if place.start < place.stop:
                asked.append(delayed(_safe_indexing)(block, ascending[place] - start))
                places.append(order[place])
        for rows_of_block, block in zip(places, self._workers.computed(asked), strict=True):
            found[rows_of_block] = block
        if len(rows):
            self._check_finite(found, int(ascending[0]), int(ascending[-1]) + 1)
        return found


def _described(block: Any, threads: int) -> tuple[int, int, bool, list[str] | None]:
    """Return the number of rows and columns, whether all are float32, and column names or None."""
    if len(block.shape) != 2 or hasattr(block, "tocsr"):
        raise TypeError(
            "X must be arrays or frames of two dimensions; found a block that is a "
            f"{type(block).__name__} of shape {block.shape}."
        )
    names = list(getattr(block, "columns", []))
    if not all(isinstance(name, str) for name in names):
        names = []
    return block.shape[0], block.shape[1], is_single(block), names or None


def is_single(points: Any) -> bool:
    """Return whether an array, or each column of a frame, is of float32."""
    kinds = points.dtypes if hasattr(points, "dtypes") else [points.dtype]
    return all(kind == np.float32 for kind in kinds)


def _cut_alike(values: Any, X: Any) -> Any:
    """Rechunk an array like X, if the sizes of both are known."""
    both = [each for each in (values, X) if isinstance(each, da.Array)]
    known = len(both) == 2 and not any(np.isnan(size) for each in both for size in each.chunks[0])
    if known and values.chunks[0] != X.chunks[0] and values.shape[0] == X.shape[0]:
        return values.rechunk({0: X.chunks[0]})
    return values


def _together(names: tuple[str, ...], i: int, *parts: Any) -> tuple[Any, ...]:
    rows = _length(parts[0])
    for name, part in zip(names, parts, strict=True):
        if part is not None and _length(part) != rows:
            raise ValueError(
                f"X and {name} must have as many rows: partition {i} has {rows} and "
                f"{_length(part)}."
            )
    return parts


def _dealt(
    block: tuple[Any, ...], n: int, group_of: Callable[..., Integers], i: int, *given: Any
) -> list[tuple[Any, ...]]:
    """Return the rows of each group of a block."""
    group = group_of(i, block, *given)
    rows = [np.flatnonzero(group == each) for each in range(n)]
    return [
        tuple(None if part is None else _safe_indexing(part, some) for part in block)
        for some in rows
    ]


def _length(block: Any) -> int:
    return int(block.shape[0])


def _starts(lengths: list[int]) -> list[int]:
    return [0, *np.cumsum(lengths).tolist()]
