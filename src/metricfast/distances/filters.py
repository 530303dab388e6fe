"""Filters of a search: the database points that each query may find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metricfast._core.arguments import as_array
from metricfast._core.arrays import as_common_codes
from metricfast._core.memory import block_rows
from metricfast._core.targets import as_label_array
from metricfast._core.types import Array, Integers

Mask = NDArray[np.bool_]
# Arrays of up to this size are not divided into blocks.
_FEW = 1 << 14
# A search of a class of fewer points or queries does not pay.
_LARGE_CLASS = 128
_EXPECTED = (
    "where must be a boolean mask of the database, ids, or a tuple (labels of queries, labels of "
    "the database)"
)


class LabelFilter(NamedTuple):
    """Labels of queries and points: queries find only points of other labels, or of their label."""

    queries: Integers
    points: Integers
    equal: bool = False


class Filter(NamedTuple):
    """The points that queries may find; by default all."""

    mask: Mask | None = None  # (m,) for all queries, or (n, m)
    labels: LabelFilter | None = None

    @property
    def alike(self) -> bool:
        """Return whether the filter is the same for all queries."""
        return self.labels is None and (self.mask is None or self.mask.ndim == 1)

    def of_queries(self, part: slice | Integers) -> Filter:
        """Return the filter of the given queries."""
        mask, labels = self
        if mask is not None and mask.ndim == 2:
            mask = mask[part]
        return Filter(mask, labels and labels._replace(queries=labels.queries[part]))

    def of_points(self, part: slice | Integers | Mask) -> Filter:
        """Return the filter of the given points."""
        mask, labels = self
        if mask is not None:
            mask = np.ascontiguousarray(mask[..., part])
        return Filter(mask, labels and labels._replace(points=labels.points[part]))

    def groups(self, n: int) -> list[tuple[Any, Integers | None]]:
        """Group n queries by the points that they may find.

        Returns
        -------
        list of (queries, points)
            All queries for a mask, or the queries of each large class for equal labels; and the
            other queries, with None for the points that this filter leaves to each.
        """
        mask, labels = self
        if mask is not None and self.alike:
            return [(slice(None), np.flatnonzero(mask))]
        if mask is not None or labels is None or not labels.equal or n < _LARGE_CLASS:
            return [(slice(None), None)]
        queries, points = (np.argsort(each, kind="stable") for each in labels[:2])
        sought = labels.queries[queries]
        names, starts, sizes = np.unique(
            labels.points[points], return_index=True, return_counts=True
        )
        first, last = np.searchsorted(sought, names), np.searchsorted(sought, names, "right")
        large = np.flatnonzero(np.minimum(sizes, last - first) >= _LARGE_CLASS)
        groups: list[tuple[Any, Integers | None]] = [
            (queries[first[c] : last[c]], points[starts[c] : starts[c] + sizes[c]]) for c in large
        ]
        if not groups:
            return [(slice(None), None)]
        rest = np.setdiff1d(queries, np.concatenate([some for some, _ in groups]))
        return [*groups, (rest, None)] if len(rest) else groups

    def allows(self, queries: Integers, points: Integers) -> Mask:
        """Return whether queries may find points; both index arrays are broadcast."""
        found = np.ones(np.broadcast_shapes(queries.shape, points.shape), bool)
        if self.mask is not None:
            found &= self.mask[points] if self.mask.ndim == 1 else self.mask[queries, points]
        if self.labels is not None:
            own, others, equal = self.labels
            found &= (own[queries] == others[points]) == equal
        return found

    @property
    def argument(self) -> Any:
        """The user's argument `where` for this filter, or the filter itself."""
        if self.labels is None:
            return self.mask
        if self.mask is not None:
            return self
        return ("equal", *self.labels[:2]) if self.labels.equal else self.labels[:2]

    def arguments(self) -> tuple[Array | None, LabelFilter | None]:
        """Return the arguments of a kernel."""
        return None if self.mask is None else self.mask.view(np.uint8), self.labels


def as_filter(
    where: Any, sizes: tuple[int, int], rows_of: Callable[[Integers], Integers]
) -> Filter:
    """Return the filter of an argument `where`.

    `sizes` are the numbers of queries and points. `rows_of` gives the rows of ids, -1 for ids that
    are unknown.
    """
    if where is None:
        return Filter()
    if isinstance(where, Filter):
        return where
    if isinstance(where, tuple):
        return Filter(labels=_as_labels(where, sizes))
    if isinstance(where, list) and any(np.iterable(x) and not isinstance(x, str) for x in where):
        raise ValueError(f"{_EXPECTED}; found a list of {len(where)} sequences.")
    array = as_array(where, "where")
    if array.dtype == bool:
        if array.shape not in (sizes[1:], sizes):
            raise ValueError(
                f"where must hold one boolean per database point: expected shape ({sizes[1]},), "
                f"found {array.shape}. With a mask for each query, the shape is {sizes}."
            )
        return Filter(np.ascontiguousarray(array))
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise ValueError(f"{_EXPECTED}; found shape {array.shape}, dtype {array.dtype}.")
    if len(array) == sizes[1] > 2 and set(np.unique(array)) == {0, 1}:
        raise ValueError("where holds a 0 or 1 for each point: give booleans for a mask.")
    rows = rows_of(array.astype(np.int64))
    if (rows < 0).any():
        raise ValueError(f"where must hold ids of the database; found {array[rows < 0][0]}.")
    mask = np.zeros(sizes[1], bool)
    mask[rows] = True
    return Filter(mask)


def _as_labels(where: tuple[Any, ...], sizes: tuple[int, int]) -> LabelFilter:
    """Return labels of queries and of the database as integers that can be compared."""
    equal = len(where) == 3 and isinstance(where[0], str) and where[0] == "equal"
    names = ("where[1]", "where[2]") if equal else ("where[0]", "where[1]")
    where = where[equal:]
    if len(where) != 2:
        raise ValueError(
            'where must be a tuple (labels of queries, labels of the database), or ("equal", '
            f"labels of queries, labels of the database), or ids; found a tuple of {len(where)}."
        )
    labels: list[Array] = [as_label_array(*each) for each in zip(where, names, strict=True)]
    if all(
        array.dtype.kind in "iu" and array.dtype != np.uint64 and array.shape == (size,)
        for array, size in zip(labels, sizes, strict=True)
    ):
        of_queries, of_points = (np.ascontiguousarray(array, np.int64) for array in labels)
        return LabelFilter(of_queries, of_points, equal)
    return LabelFilter(*as_common_codes(labels[0], labels[1], names, sizes)[1:], equal)


def known_rows(size: int) -> Callable[[Integers], Integers]:
    """Return a function that maps ids from 0 to size - 1 to rows."""
    return lambda ids: np.where((ids >= 0) & (ids < size), ids, -1)


def rows_among(ids: Integers, known: Integers) -> Integers:
    """Return the index of each id in the ascending known ids, or -1."""
    rows = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[rows] == ids, rows, -1)


def name_rows(rows: Integers, ids: Integers) -> None:
    """Replace rows by ids, in place; -1 stays."""
    if ids[-1] == len(ids) - 1:  # ids equal rows
        return
    size = len(rows) if rows.size < _FEW else block_rows(rows.strides[0])
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        part[...] = np.where(part < 0, -1, ids[part])
