"""Points on disk or from an iterator: read in blocks of rows, never loaded as a whole."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np

from metricfast._core.dispatch import get_kernels
from metricfast._core.memory import block_rows, in_caller_memory
from metricfast._core.scaling import times_power_of_two
from metricfast._core.types import Array, Integers


class Source(ABC):
    """A table of points that is read by blocks of rows: base class of all of them.

    Learners and functions take one in place of an array. A subclass sets `shape` and `dtype`, and
    defines :meth:`read`.

    Attributes
    ----------
    shape : tuple of int
        Number of points, and of features.
    dtype : numpy.dtype
        float32 or float64: what blocks are given in.
    feature_names : list of str or None
        Names of the features, where they have any.
    in_order : bool
        Whether reading an earlier row restarts from the first row, as in an iterator. Mini-batches
        are then drawn from neighbouring blocks, in order, else from blocks all over the source.
    by_row : bool
        Whether reading a single row costs little more than its share of a block, as in a memory
        map. `LMNN` then reads targets wherever they are, where it else holds points to be targets.

    Examples
    --------
    >>> import numpy as np
    >>> import metricfast as mf
    >>> class Squares(mf.sources.Source):
    ...     shape, dtype = (1000, 2), np.dtype(np.float64)
    ...     def read(self, start, stop):
    ...         numbers = np.arange(start, stop, dtype=float)
    ...         return np.column_stack([numbers, numbers**2])
    >>> Squares()[3:5]
    array([[ 3.,  9.],
           [ 4., 16.]])
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    feature_names: list[str] | None = None
    in_order = False
    by_row = False
    ndim = 2
    _name = "X"

    @abstractmethod
    def read(self, start: int, stop: int) -> Array:
        """Return rows from `start` up to `stop`, as a new array of `dtype`.

        One thread reads at a time.
        """

    @property
    def row_bytes(self) -> int:
        """Bytes per point during reading."""
        return int(self.dtype.itemsize * self.shape[1])

    def _like(self, other: Source) -> None:
        """Copy the access properties of another source, whose rows this source returns."""
        self.shape, self.dtype, self.feature_names = other.shape, other.dtype, other.feature_names
        self.in_order, self.by_row = other.in_order, other.by_row

    def __len__(self) -> int:
        return self.shape[0]

    def __mul__(self, factors: Array) -> Source:
        return Changed(self, partial(operator.mul, factors))

    def __getitem__(self, rows: Any) -> Any:
        """Return a row, or rows of a slice, an array of indices or a mask.

        Raises unless they are finite.

        scikit-learn splits points by ``X[rows, ...]``, which returns a source and reads nothing.
        """
        if isinstance(rows, tuple) and len(rows) == 2 and rows[1] is Ellipsis:
            chosen = np.arange(len(self))[rows[0]]
            return Subset(self, chosen) if chosen.ndim else self[chosen[None]][0]
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return self._checked(start, max(start, stop))
            rows = np.arange(start, stop, step)
        if isinstance(rows, tuple):
            raise IndexError("Points that are not in memory are indexed by rows alone.")
        rows = np.asarray(rows)
        if rows.dtype == bool:
            if rows.shape != (len(self),):
                raise IndexError(f"a mask must have {len(self)} values; found {rows.shape}.")
            rows = np.flatnonzero(rows)
        if rows.size and rows.dtype.kind not in "iu":
            raise IndexError(f"indices of points must be whole numbers; found {rows.dtype}")
        rows = np.where(rows < 0, rows + len(self), rows)
        if rows.ndim == 0:
            return np.asarray(self._gather(rows[None])[0])
        return self._gather(rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return all points as an array, for functions that do not support sources."""
        if copy is False:
            raise ValueError("Points that are not in memory are copied to be an array.")
        return np.asarray(self[:], self.dtype if dtype is None else dtype)

    def _checked(self, start: int, stop: int) -> Array:
        wanted = stop - start, self.shape[1]
        if not stop > start:
            return np.empty(wanted, self.dtype)
        found = np.ascontiguousarray(self.read(start, stop), self.dtype)
        if found.shape != wanted:
            raise ValueError(
                f"{self._name}: rows {start} to {stop - 1} must have shape {wanted}; found "
                f"{found.shape}."
            )
        self._check_finite(found, start, stop)
        return found

    def _check_finite(self, found: Array, start: int, stop: int) -> None:
        if get_kernels().all_finite(found):
            return
        column = ""
        if self.feature_names is not None:
            first = int(np.isfinite(found).all(axis=0).argmin())
            column = f" of its column {self.feature_names[first]!r}"
        raise ValueError(
            f"{self._name} contains NaN or infinity in rows {start} to {stop - 1}{column}; remove "
            "or impute these values."
        )

    def _ascending(self, rows: Integers) -> tuple[Integers, Integers]:
        """Return the ascending order of rows, and the rows in this order."""
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        if len(rows) and not 0 <= ascending[0] <= ascending[-1] < len(self):
            raise IndexError(f"rows must be from 0 to {len(self) - 1}.")
        return order, ascending

    def _gather(self, rows: Integers) -> Array:
        """Return the given rows; blocks are read in ascending order."""
        found = np.empty((len(rows), self.shape[1]), self.dtype)
        order, ascending = self._ascending(rows)
        most = block_rows(self.row_bytes)
        first = 0
        while first < len(rows):
            start = ascending[first]
            end = first + int(np.searchsorted(ascending[first:], start + most))
            # Smaller gaps between requested rows are read as well, in one call.
            gaps = np.flatnonzero(np.diff(ascending[first:end]) > 64)
            end = first + int(gaps[0]) + 1 if len(gaps) else end
            block = self._checked(int(start), int(ascending[end - 1]) + 1)
            found[order[first:end]] = block[ascending[first:end] - start]
            first = end
        return found


class Named(Source):
    """Points of another source, with a name for error messages."""

    def __init__(self, source: Source, name: str) -> None:
        self._like(source)
        self._source, self._name, self.by_row = source, name, False

    def read(self, start: int, stop: int) -> Array:
        """Return rows."""
        return self._source.read(start, stop)


class Changed(Source):
    """Points of another source, whose blocks go through a function when they are read.

    `change`: takes a block, and returns its changed points, in the same array if possible.
    """

    def __init__(self, source: Source, change: Callable[[Array], Array], dtype: Any = None) -> None:
        self._like(source)
        self._source, self._change = source, change
        self.dtype = np.dtype(source.dtype if dtype is None else dtype)

    @property
    def row_bytes(self) -> int:
        """Bytes per point during reading."""
        return self._source.row_bytes

    def read(self, start: int, stop: int) -> Array:
        """Return rows."""
        return self._change(self._source.read(start, stop))

    def _gather(self, rows: Integers) -> Array:
        return self._change(self._source._gather(rows))


def scaled(source: Source, mean: Array, exponent: int = 0, dtype: Any = None) -> Source:
    """Return the points of a source minus a mean, times ``2**-exponent``, converted to a dtype."""
    mean = mean.astype(source.dtype if dtype is None else dtype)
    return Changed(source, partial(_scale, mean, exponent), mean.dtype)


def _scale(mean: Array, exponent: int, block: Array) -> Array:
    flags = np.asarray(block).flags
    own = block.dtype == mean.dtype and flags.owndata and flags.writeable
    with np.errstate(over="ignore", invalid="ignore"):
        block = np.subtract(block, mean, out=block if own else None)
    return times_power_of_two(block, -exponent) if exponent else block


class Subset(Source):
    """A subset of another source; ascending rows are read fastest."""

    def __init__(self, source: Source, rows: Integers) -> None:
        self._like(source)
        self._source, self._rows, self.shape = source, rows, (len(rows), source.shape[1])

    def read(self, start: int, stop: int) -> Array:
        """Return rows."""
        return self._source._gather(self._rows[start:stop])

    def _gather(self, rows: Integers) -> Array:
        return self._source._gather(self._rows[rows])


def on_disk(*points: Any) -> bool:
    """Return whether any of the arguments is a source."""
    return any(isinstance(each, Source) for each in points)


def take(X: Any, rows: Any) -> Any:
    """Return the points of a mask or of indices. A source gives a source, and reads nothing."""
    if not isinstance(X, Source):
        return X[rows]
    return Subset(X, np.flatnonzero(rows) if rows.dtype == bool else rows)


def parts(X: Any, n_rows: int | None = None) -> Iterator[tuple[slice, Array]]:
    """Yield the blocks of X, each with its slice of rows.

    A source reads the next block while the caller processes the current one.
    """
    size = block_rows(row_bytes(X)) if n_rows is None else n_rows
    rows = [slice(start, min(start + size, X.shape[0])) for start in range(0, X.shape[0], size)]
    if not isinstance(X, Source) or len(rows) < 2:
        yield from ((part, X[part]) for part in rows)
        return
    read = in_caller_memory(X.__getitem__)
    with ThreadPoolExecutor(1, thread_name_prefix="metricfast-reads") as reader:
        following = reader.submit(read, rows[0])
        for part, next_part in zip_longest(rows, rows[1:]):
            block = following.result()
            if next_part is not None:
                following = reader.submit(read, next_part)
            yield part, block


def row_bytes(X: Any) -> int:
    """Return how many bytes a point of an array or a source takes."""
    return X.row_bytes if isinstance(X, Source) else int(X.dtype.itemsize * X.shape[1])


def in_one_array(X: Any, make: Callable[[Array], Array], n_rows: int | None = None) -> Array:
    """Apply `make` to points, and return one row per point.

    Sources, or `n_rows` points, are processed block by block.
    """
    if not isinstance(X, Source) and (n_rows is None or X.shape[0] <= n_rows):
        return make(X)
    found: Array | None = None
    for rows, block in parts(X, n_rows):
        made = make(block)
        if found is None:
            found = np.empty((X.shape[0], *made.shape[1:]), made.dtype)
        found[rows] = made
    return make(X[:]) if found is None else found
