"""Rows on the workers, as a source of points for the client."""

from __future__ import annotations

from typing import Any

import numpy as np
from dask import delayed

from metricfast._core.sources import Source
from metricfast._core.types import Array, Integers
from metricfast.dask._rows import joined
from metricfast.dask._workers import Workers

__all__ = ["OnWorkers", "labels_of"]


class OnWorkers(Source):
    """Points of blocks, which a cluster holds; the client gets the rows that it asks for."""

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
        for block, start, first, last in zip(
            self._blocks, self._starts[:-1], ends[:-1], ends[1:], strict=True
        ):
            if first < last:
                asked.append(delayed(_rows)(block, ascending[first:last] - start, self.dtype))
                places.append(order[first:last])
        for place, block in zip(places, self._workers.computed(asked), strict=True):
            found[place] = block
        if len(rows):
            self._check_finite(found, int(ascending[0]), int(ascending[-1]) + 1)
        return found


def labels_of(workers: Workers, blocks: list[Any]) -> list[Any]:
    """Return the labels and the weights of all rows of blocks, None where there are none."""
    columns = zip(*workers.computed([delayed(_labels)(block) for block in blocks]), strict=True)
    return [None if column[0] is None else np.asarray(joined(column)) for column in columns]


def _labels(block: tuple[Any, ...]) -> tuple[Any, ...]:
    return block[1:]


def _described(block: Any, threads: int) -> tuple[int, int, bool, list[str] | None]:
    """Return numbers of rows and of columns, whether all are float32, and names if there are."""
    if len(block.shape) != 2 or hasattr(block, "tocsr"):
        raise TypeError(
            "X must be arrays or frames of two dimensions; found a block that is a "
            f"{type(block).__name__} of shape {block.shape}."
        )
    kinds = list(block.dtypes) if hasattr(block, "dtypes") else [block.dtype]
    names = list(getattr(block, "columns", []))
    if not all(isinstance(name, str) for name in names):
        names = []
    return block.shape[0], block.shape[1], all(kind == np.float32 for kind in kinds), names or None


def _rows(block: Any, rows: Integers, dtype: np.dtype[Any]) -> Array:
    some = block.iloc[rows] if hasattr(block, "iloc") else block[rows]
    return np.asarray(some, dtype)
