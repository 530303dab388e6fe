"""A source of points in memory, to simulate points on disk."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from metricfast import sources


class Stored(sources.Source):
    """Records the maximum number of rows per read, and the total."""

    def __init__(self, X: NDArray[Any]) -> None:
        self.X, self.shape, self.dtype = X, X.shape, X.dtype
        self.largest = self.rows_read = 0

    def read(self, start: int, stop: int) -> NDArray[Any]:
        self.largest = max(self.largest, stop - start)
        self.rows_read += stop - start
        return self.X[start:stop].copy()
