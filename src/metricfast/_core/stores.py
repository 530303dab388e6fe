"""Arrays on disk, and other stores that are read by blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from threading import RLock
from typing import Any

import numpy as np

from metricfast._core.arguments import as_real
from metricfast._core.frames import arrow_table, check_names, columns_of, refuse_column
from metricfast._core.sources import Named, Source
from metricfast._core.targets import join_labels
from metricfast._core.types import Array, Integers

# Arrow readers and iterators allow only one thread at a time, also if several objects share them.
_READING = RLock()
# Rows of a memory map that are copied at once.
_SCATTERED = 256
# The rows of a chunk, and a function that reads them.
_Piece = tuple[int, Callable[[], Any]]


class Rows(Source):
    """A table that is read as ``table[start:stop]``: a memory map, a zarr array, an HDF5 dataset.

    Learners and functions take memory maps and arrays of zarr and h5py without it. Use it for other
    kinds of tables.

    Parameters
    ----------
    table : object
        An object with `shape`, `dtype` and slicing of rows.

    Examples
    --------
    >>> import numpy as np
    >>> import metricfast as mf
    >>> mf.sources.Rows(np.arange(6).reshape(3, 2)).dtype
    dtype('float64')
    """

    def __init__(self, table: Any) -> None:
        shape: tuple[int, ...] = tuple(getattr(table, "shape", ()))
        dtype = getattr(table, "dtype", None)
        if len(shape) != 2 or dtype is None:
            raise ValueError(
                f"table must have two dimensions and a dtype; found {type(table).__name__} of "
                f"shape {shape}."
            )
        self._table = table
        self.shape = int(shape[0]), int(shape[1])
        self.dtype = _real(dtype)
        self.by_row = isinstance(table, np.ndarray)

    def read(self, start: int, stop: int) -> Array:
        """Return rows."""
        return np.array(self._table[start:stop], self.dtype, order="C", subok=False)

    def _gather(self, rows: Integers) -> Array:
        if not self.by_row:
            return super()._gather(rows)
        found = np.empty((len(rows), self.shape[1]), self.dtype)
        order, ascending = self._ascending(rows)
        for first in range(0, len(rows), _SCATTERED):
            some = slice(first, first + _SCATTERED)
            found[order[some]] = self._table[ascending[some]]
        if len(rows):
            self._check_finite(found, int(ascending[0]), int(ascending[-1]) + 1)
        return found


class Columns(Source):
    """Columns of an Arrow table or data set, or of a Parquet file.

    Parameters
    ----------
    data : pyarrow.dataset.Dataset, pyarrow.parquet.ParquetFile or pyarrow.Table
        For the path of a Parquet file or folder: ``pyarrow.dataset.dataset(path)``.
    columns : list of str, optional
        Features, in this order; all columns by default. They hold numbers or
        booleans, and no missing values.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import metricfast as mf
    >>> table = pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0], "label": ["x", "y"]})
    >>> source = mf.sources.Columns(table, ["a", "b"])
    >>> source.feature_names, source[1:]
    (['a', 'b'], array([[2., 4.]]))
    """

    def __init__(self, data: Any, columns: list[str] | None = None) -> None:
        import pyarrow as pa

        readers = ("get_fragments", "read_row_group", "to_batches")
        if not any(hasattr(data, name) for name in readers):
            raise TypeError(
                "data must be a data set, a Parquet file or a table of pyarrow; found "
                f"{type(data).__name__}. Of a path: pyarrow.dataset.dataset(path)."
            )
        schema = data.schema_arrow if hasattr(data, "schema_arrow") else data.schema
        if isinstance(columns, str):
            raise TypeError(f"columns must be a list of names; found {columns!r}.")
        names = list(schema.names if columns is None else columns)
        if not names or len(set(names)) < len(names):
            raise ValueError(f"columns must be different names, at least one; found {names}.")
        single = True
        for name in names:
            if schema.get_field_index(name) < 0:
                raise ValueError(f"columns: there is no column {name!r}; found {schema.names}.")
            kind = schema.field(name).type
            refuse_column("data", name, str(kind))
            single = single and kind == pa.float32()
        self.feature_names, self._pieces = names, _arrow_pieces(data, names)
        self._ends = np.cumsum([n_rows for n_rows, _ in self._pieces], dtype=np.int64)
        self._last: tuple[int, Array] | None = None
        self.shape = int(self._ends[-1]) if len(self._ends) else 0, len(names)
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def read(self, start: int, stop: int) -> Array:
        """Return rows; the last chunk (a row group of a file) is cached for the next call."""
        with _READING:
            return self._read(start, stop)

    def _read(self, start: int, stop: int) -> Array:
        found = np.empty((stop - start, self.shape[1]), self.dtype)
        first = np.searchsorted(self._ends, start, side="right")
        for number in range(int(first), int(np.searchsorted(self._ends, stop)) + 1):
            n_rows, load = self._pieces[number]
            if self._last is None or self._last[0] != number:
                self._last = None
                table, block = load(), np.empty((n_rows, self.shape[1]), self.dtype)
                for column, name in enumerate(self.feature_names or ()):
                    block[:, column] = np.asarray(table.column(name))
                self._last = number, block
            offset = int(self._ends[number]) - n_rows
            low, high = max(start, offset), min(stop, offset + n_rows)
            found[low - start : high - start] = self._last[1][low - offset : high - offset]
        return found


class Batches(Source):
    """Points in batches, from an iterator that can be restarted.

    One pass at the beginning counts the points and stores their labels. Reading earlier rows again
    starts the iterator again.

    Parameters
    ----------
    make : callable
        ``make()`` returns an iterator of arrays or frames, or of pairs of points and labels, the
        same in each call. All frames have the same columns in the same order.

    Attributes
    ----------
    feature_names : list of str or None
        The columns of the batches, if they are frames.
    labels : ndarray of shape (n_points,) or None
        The labels of all points, where batches have any.

    Examples
    --------
    >>> import numpy as np
    >>> import metricfast as mf
    >>> def make():
    ...     for start in range(0, 100, 10):
    ...         X = np.arange(start, start + 10.0)[:, None]
    ...         yield X, (X[:, 0] > 50).astype(int)
    >>> source = mf.sources.Batches(make)
    >>> source.shape, source.labels.sum()
    ((100, 1), np.int64(49))
    """

    in_order = True

    def __init__(self, make: Any) -> None:
        if not callable(make):
            raise TypeError(
                "make must be a function that returns an iterator of batches; found "
                f"{type(make).__name__}."
            )
        self._make, self._columns = make, list[Any]()
        n_rows, width, single, labels = 0, None, True, []
        with _READING:
            for X, y in map(_pair, make()):
                if width is None:
                    self._columns = [column for column, _ in columns_of(X)]
                block = self._as_block(X, width)
                width, n_rows = block.shape[1], n_rows + len(block)
                single = single and block.dtype == np.float32
                if y is not None:
                    labels.append(np.array(y))  # a copy: the iterator may reuse its buffer
                    if len(labels[-1]) != len(block):
                        raise ValueError(
                            f"A batch of {len(block)} points must have as many labels; found "
                            f"{len(labels[-1])}."
                        )
        if width is None:
            raise ValueError("make() gave no batch: an iterator must start again in every call.")
        self.labels = join_labels(*labels) if labels else None
        if self.labels is not None and len(self.labels) != n_rows:
            raise ValueError("Either all batches must have labels, or none.")
        self.shape, self.dtype = (n_rows, width), np.dtype(np.float32 if single else np.float64)
        if self._columns and all(isinstance(column, str) for column in self._columns):
            self.feature_names = self._columns
        self._coming: Iterator[Any] = iter(())
        self._block, self._from = np.empty((0, width), self.dtype), n_rows

    def read(self, start: int, stop: int) -> Array:
        """Return rows, continuing from the end of the last call if possible, else from row 0."""
        with _READING:
            return self._read(start, stop)

    def _as_block(self, X: Any, width: int | None) -> Array:
        """Return the points of a batch; check that it has the columns of the first batch."""
        columns = [column for column, _ in columns_of(X)]
        if columns != self._columns:
            raise ValueError(
                "All batches must have the same columns in the same order: the first has "
                f"{self._columns or 'no names'}, another has {columns or 'no names'}."
            )
        block = as_real(X, "X of a batch")
        if block.ndim != 2 or (width is not None and block.shape[1] != width):
            wanted = "columns" if width is None else f"{width} columns"
            raise ValueError(
                f"X of a batch must have two dimensions and {wanted}; found shape {block.shape}."
            )
        return block

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the iterator: a copy starts from the first batch."""
        return {**self.__dict__, "_coming": iter(()), "_block": None, "_from": len(self)}

    def _read(self, start: int, stop: int) -> Array:
        if start < self._from:
            self._coming, self._from = iter(self._make()), 0
            self._block = np.empty((0, self.shape[1]), self.dtype)
        found = np.empty((stop - start, self.shape[1]), self.dtype)
        filled = start
        while filled < stop:
            end = self._from + len(self._block)
            if filled >= end:
                try:
                    X, _ = _pair(next(self._coming))
                except StopIteration:
                    raise ValueError(
                        f"make() gave {self.shape[0]} points at first, and now {end}: it must give "
                        "the same in every call."
                    ) from None
                self._from, self._block = end, self._as_block(X, self.shape[1])
                continue
            upto = min(stop, end)
            found[filled - start : upto - start] = self._block[
                filled - self._from : upto - self._from
            ]
            filled = upto
        return found


def as_source(X: Any, name: str = "X") -> Source | None:
    """Return a source that reads X in blocks, or None if X is in memory. Errors call X `name`."""
    if type(X) is np.ndarray:
        return None
    if isinstance(X, Source):
        shape, dtype = getattr(X, "shape", ()), getattr(X, "dtype", None)
        known = isinstance(dtype, np.dtype) and dtype in (np.float32, np.float64)
        if len(shape) != 2 or not known:
            raise TypeError(
                "A source must have a shape (points, features), and the dtype numpy.dtype(float) "
                f"or numpy.dtype(numpy.float32); {type(X).__name__} has {shape!r} and {dtype!r}. "
                "What its `read` returns is converted to the dtype that it states."
            )
        return X
    package = type(X).__module__.partition(".")[0]
    table = arrow_table(X)
    if table is not None:
        check_names(table, name)
        for column, dtype in columns_of(table):
            refuse_column(name, column, dtype)
        return Columns(table)
    if isinstance(X, np.memmap) or (package in ("zarr", "h5py") and hasattr(X, "shape")):
        return Rows(X) if len(X.shape) == 2 else None
    if package in ("zarr", "h5py"):
        raise TypeError(f"X must be an array of {package}, not a {type(X).__name__} of them.")
    return None


def in_memory(X: Any, what: str, instead: str) -> Any:
    """Return all points of a source as an array; other points unchanged.

    Raises MemoryError if they do not fit. The message begins with `what` and ends with what to do
    `instead`.
    """
    source = as_source(X, what)
    if source is None or isinstance(X, np.memmap):  # a memory map is an array already
        return X
    try:
        return Named(source, what.partition(",")[0])[:]
    except MemoryError as error:
        raise MemoryError(f"{what} does not fit into memory: {instead}.") from error


def _real(dtype: Any) -> np.dtype[Any]:
    """Return the dtype to which numbers of `dtype` are converted."""
    kind = np.dtype(dtype)
    if kind.kind not in "biuf":
        raise ValueError(f"X must hold numbers; found dtype {kind}.")
    return np.dtype(np.float32 if kind.kind == "f" and kind.itemsize == 4 else np.float64)


def _arrow_pieces(data: Any, names: list[str]) -> list[_Piece]:
    """Return the chunks in which Arrow data are read."""
    if hasattr(data, "read_row_group"):
        groups = range(data.num_row_groups)
        read = data.read_row_group
        return [(data.metadata.row_group(i).num_rows, partial(read, i, names)) for i in groups]
    if not hasattr(data, "get_fragments"):
        batches = data.select(names).to_batches()
        return [(len(batch), partial(_same, batch)) for batch in batches]
    how = {"schema": data.schema, "columns": names}
    pieces: list[_Piece] = []
    for fragment in data.get_fragments():
        if hasattr(fragment, "split_by_row_group"):
            for part in fragment.split_by_row_group():
                n_rows = sum(group.num_rows for group in part.row_groups)
                pieces.append((n_rows, partial(part.to_table, **how)))
        else:
            pieces.append((fragment.count_rows(), partial(fragment.to_table, **how)))
    if sum(n_rows for n_rows, _ in pieces) != data.count_rows():
        raise ValueError("X is a data set with a filter: write what it leaves to a file first.")
    return pieces


def _same(batch: Any) -> Any:
    return batch


def _pair(batch: Any) -> tuple[Any, Any]:
    """Return points and labels; labels are None if the batch has none."""
    if isinstance(batch, tuple):
        if len(batch) != 2:
            raise ValueError(f"A batch must be points, or points and labels; found {len(batch)}.")
        return batch[0], batch[1]
    return batch, None
