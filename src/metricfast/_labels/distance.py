"""Distances between continuous labels, which may be vectors or other objects."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import as_array, as_real, check_all_finite
from metricfast._core.memory import working_memory
from metricfast._core.targets import numeric_labels
from metricfast._core.types import Array, Floats, Integers

# Bytes of a block of distances including temporary arrays, and bytes per entry.
_MEMORY, _ENTRY = 2**27, 32


def rows_per_block(width: int) -> int:
    """Return how many rows with `width` entries fit into a block."""
    return max(1, min(_MEMORY, working_memory() // 4) // (_ENTRY * max(width, 1)))


class LabelDistance:
    """A distance of labels: ``distance(a, b)`` returns all distances of two arrays of labels.

    `between`: a function of two encoded arrays that returns the distances of their rows, (n, m).
    `encode`: a function of labels that returns an array with one row per label; by default the
        identity.
    `places`: a function of labels that returns points and keywords for a tree search, if nearest
        labels can be searched as points.
    `kernel`: the name of the distance in compiled losses.
    `metric`: whether the triangle inequality holds, so that searches may use it.
    `table`: the matrix of distances, if labels are indices of its rows and columns.
    """

    def __init__(
        self,
        between: Callable[[Any, Any], ArrayLike],
        encode: Callable[[Array], Any] | None = None,
        places: Callable[[Array], tuple[Array, dict[str, Any]] | None] | None = None,
        kernel: str | None = None,
        metric: bool = False,
        table: DistanceTable | None = None,
    ) -> None:
        self._between, self._encode, self._places = between, encode, places
        self.kernel = kernel
        self.metric = metric
        self.table = table

    @property
    def is_euclidean(self) -> bool:
        """Whether the distance is Euclidean, or its square."""
        return self.kernel in ("euclidean", "sqeuclidean")

    def encode(self, labels: Array) -> Any:
        """Return labels in the form for `between`, row by row.

        Raises ValueError if the distance is not defined for them; the message says what they must
        be.
        """
        return labels if self._encode is None else self._encode(labels)

    def between(self, a: Any, b: Any) -> Floats:
        """Return the distances of encoded labels, (n, m), a new array."""
        distances = np.array(self._between(a, b), np.float64)
        shape = a.shape[0], b.shape[0]
        if distances.shape != shape:
            raise ValueError(
                f"label_distance must give the distances of all labels, of shape {shape}; "
                f"found {distances.shape}."
            )
        if not np.isfinite(distances).all() or (distances < 0).any():
            raise ValueError(
                "label_distance must give finite distances, from 0 on; found "
                f"{distances.min()} to {distances.max()}: correct it, or divide very large labels."
            )
        return distances

    def all_zero(self, labels: Array) -> bool:
        """Return whether all labels are at distance 0 from the first."""
        if self.kernel is not None:  # its squares may overflow or underflow
            return bool((labels == labels[0]).all())
        return not self(labels[:1], labels).any()

    def __call__(self, a: Array, b: Array) -> Floats:
        """Return the distances of labels, (n, m)."""
        return self.between(self.encode(a), self.encode(b))

    def places(self, labels: Array) -> tuple[Array, dict[str, Any]] | None:
        """Return points to search in place of the labels, or None if the distance has none."""
        return None if self._places is None else self._places(labels)


class DistanceTable:
    """Rows and columns of a matrix of distances, selected lazily and without a copy."""

    def __init__(self, matrix: Any, rows: Integers | None = None, columns: Any = None) -> None:
        self._matrix = matrix
        self._rows = np.arange(matrix.shape[0]) if rows is None else rows
        self._columns = np.arange(matrix.shape[1]) if columns is None else columns
        self.shape = len(self._rows), len(self._columns)

    @classmethod
    def of(cls, matrix: Any, name: str) -> DistanceTable:
        """Return a table of a whole matrix; return a table unchanged."""
        if isinstance(matrix, DistanceTable):
            return matrix
        array = np.asanyarray(matrix)
        if array.ndim != 2 or array.dtype.kind not in "biuf" or 0 in array.shape:
            raise ValueError(
                f"{name} must hold the distances of all labels, of shape (n, m), where "
                f"label_distance is 'precomputed'; found shape {array.shape}, dtype {array.dtype}."
            )
        return cls(array)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._rows)

    def block(self, rows: Integers, columns: Integers) -> Array:
        """Return the distances of the given rows and columns."""
        return np.asarray(self._matrix[np.ix_(self._rows[rows], self._columns[columns])])

    def take(self, rows: Integers) -> DistanceTable:
        """Return the table of distances among the given samples."""
        return DistanceTable(self._matrix, self._rows[rows], self._columns[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return all distances."""
        del copy  # the result is always a copy
        return self.block(*map(np.arange, self.shape)).astype(dtype, copy=False)


def subset(labels: Any, rows: Integers) -> Any:
    """Return the labels of the given rows, or the rows of their table of distances."""
    return labels.take(rows) if isinstance(labels, DistanceTable) else labels[rows]


def label_array(y: Any, name: str) -> Array:
    """Return labels as an array. Errors call them `name`.

    Numbers become float64 or int64, of shape (n,) or (n, q). Arrays of other dtypes are returned
    unchanged. Other sequences become an array of n objects.
    """
    array = _as_array(y, name)
    if array.ndim == 0 or 0 in array.shape:
        raise ValueError(f"{name} must hold one label per point, found shape {array.shape}.")
    if array.dtype.kind == "O" and array.ndim == 1:
        if any(item is None for item in array):
            raise ValueError(f"{name} must hold a label for each point, but contains None.")
        if len(array) and all(isinstance(item, (Real, np.bool_)) for item in array):
            array = array.astype(np.float64)
    if array.dtype.kind in "biu":
        return array.astype(np.int64, copy=False)  # differences of smaller integers may overflow
    if array.dtype.kind in "fc":
        array = check_all_finite(as_real(array, name).astype(np.float64, copy=False), name)
    return array


def continuous_labels(y: Any, name: str, size: int | None = None) -> Floats:
    """Return finite numbers or rows of numbers, one for each of `size` points."""
    try:
        numbers = as_real(y, name)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must hold numbers: {error} For other labels, give a label_distance; for tags, "
            "choose a loss or sampler that takes them."
        ) from error
    return numeric_labels(numbers, name, size)


def _as_array(y: Any, name: str) -> Array:
    if hasattr(y, "__array__") or not isinstance(y, (list, tuple)):
        return as_array(y, name)
    if all(isinstance(item, (Real, np.bool_)) for item in y):
        return np.asarray(y)
    if all(_is_vector(item) for item in y) and len({len(item) for item in y}) == 1:
        return np.asarray(y)
    objects = np.empty(len(y), object)
    for i, item in enumerate(y):
        objects[i] = item
    return objects


def _is_vector(item: Any) -> bool:
    """Return whether a label is a list or array of numbers."""
    if isinstance(item, np.ndarray):
        return item.ndim == 1 and item.dtype.kind in "biuf"
    return isinstance(item, (list, tuple)) and all(isinstance(x, (Real, np.bool_)) for x in item)
