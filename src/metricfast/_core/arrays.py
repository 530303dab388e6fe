"""Checks and conversion of arrays for the functional interface. Inputs are never modified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import (
    as_array,
    as_real,
    check_all_finite,
    check_length,
    check_together,
)
from metricfast._core.dispatch import get_kernels
from metricfast._core.frames import as_readable, check_alike
from metricfast._core.memory import block_rows
from metricfast._core.sources import Named, Source
from metricfast._core.stores import as_source, in_memory
from metricfast._core.targets import check_comparable, encode, encode_together, labels_of_samples
from metricfast._core.types import Array, Floats, Integers

Map = Array | None

_MAX_THREADS = 2**31 - 1
_CACHE_LINE = 64
_USUAL: ContextVar[int | None] = ContextVar("n_jobs", default=None)


def aligned_empty(shape: tuple[int, int], dtype: type[np.floating[Any]]) -> Array:
    """Return an empty array aligned to a cache line. NumPy does not align large arrays so."""
    size = shape[0] * shape[1]
    whole = np.empty(size + _CACHE_LINE, dtype)
    first = -whole.ctypes.data % _CACHE_LINE // whole.itemsize
    return whole[first : first + size].reshape(shape)


def as_points(X: ArrayLike, name: str, *, width: int | None = None) -> Array:
    """Return finite points, one per row; ``width`` is the required number of columns."""
    X = as_readable(X, name)
    array = as_real(in_memory(X, name, "give fewer points"), name)
    if array.ndim != 2:
        raise ValueError(
            f"{name} must be a 2-dimensional array (points, features); "
            f"found {array.ndim} dimension(s), shape {array.shape}."
        )
    check_shape(array, name, width)
    return check_all_finite(array, name, X)


def as_points_or_source(X: ArrayLike, name: str, *, width: int | None = None) -> Any:
    """Like `as_points`, but return a source for points on disk that are larger than a block."""
    X = as_readable(X, name)
    source = as_source(X, name)
    if source is None or len(source) <= block_rows(source.row_bytes):
        return as_points(X, name, width=width)
    check_shape(source, name, width)
    return Named(source, name)


def as_both(
    first: ArrayLike,
    second: ArrayLike | None,
    names: tuple[str, str],
    read: Callable[..., Any] = as_points_or_source,
) -> tuple[Any, Any]:
    """Return points of two arguments, which have the same features; None for a second of None.

    `read`: `as_points`, where points must be in memory.
    """
    points = read(first, names[0])
    if second is None:
        return points, None
    others = read(second, names[1], width=points.shape[1])
    check_alike(first, second, names)
    return points, others


def check_shape(X: Any, name: str, width: int | None = None) -> None:
    """Raise ValueError for a table without points, without features, or of another width."""
    if 0 in X.shape:
        raise ValueError(f"{name} is empty: found shape {X.shape}.")
    if width is not None and X.shape[1] != width:
        raise ValueError(f"{name} must have {width} columns; found {X.shape[1]}.")


def as_codes(labels: ArrayLike, name: str, size: int) -> tuple[Array, Integers]:
    """Return the sorted classes, and the index of each label's class."""
    return encode(labels_of_samples(labels, size, name), name)


def as_common_codes(
    labels: ArrayLike, others: ArrayLike, names: tuple[str, str], sizes: tuple[int, int]
) -> tuple[Array, Integers, Integers]:
    """Return the sorted classes of queries and database, and both label arrays as class indices."""
    (classes, codes), (found, places) = map(as_codes, (labels, others), names, sizes)
    check_comparable(found, classes, names[1])
    known, (of_classes, of_found) = encode_together([classes, found], names[1])
    return known, of_classes[codes], of_found[places]


def as_exclude(exclude: ArrayLike | None, size: int, database: int) -> Integers | None:
    """Return the database row to exclude for each of ``size`` queries, or -1."""
    if exclude is None:
        return None
    expected = f"hold one database index (or -1) per query, {size} integers"
    return as_indices(exclude, "exclude", expected, (size,), (-1, database))


def as_indices(
    values: ArrayLike, name: str, expected: str, shape: tuple[int | None, ...],
    bounds: tuple[int, float] | None = None, why: str = "",
) -> Integers:  # fmt: skip
    """Return integers in int64, from the first of the bounds to below the second.

    `expected`: what the argument must do, for errors about shape and dtype.
    `shape`: the shape; None is any length.
    `why`: reason for the bounds, for errors.
    """
    array = as_array(values, name)
    fits = array.ndim == len(shape) and all(map(_is_length, array.shape, shape))
    if not fits or array.dtype.kind not in "iu":
        raise ValueError(f"{name} must {expected}; found shape {array.shape}, dtype {array.dtype}.")
    if bounds is not None:
        check_indices(array, name, *bounds, why)
    return np.ascontiguousarray(array, dtype=np.int64)


def _is_length(found: int, expected: int | None) -> bool:
    return expected is None or found == expected


def check_indices(array: Array, name: str, low: int, end: float, why: str = "") -> None:
    """Raise ValueError unless integers are from `low` to below `end`."""
    if array.size and (array.min() < low or array.max() >= end):
        upto = f" to {end - 1}" if end < np.inf else ""
        raise ValueError(
            f"{name} must hold indices from {low}{upto}{why}; found {array.min()} to {array.max()}."
        )


def as_threads(n_jobs: int | None) -> int:
    """Return the number of threads for ``n_jobs``.

    None is the default, or that of `threads_of`, and -1 all CPUs, as in scikit-learn.
    """
    kernels = get_kernels()
    n_jobs = _USUAL.get() if n_jobs is None else n_jobs
    if n_jobs is None:
        return int(kernels.default_threads())
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise ValueError(f"n_jobs must be None or a non-zero integer; found {n_jobs!r}.")
    if n_jobs > _MAX_THREADS:
        raise ValueError(f"n_jobs must be at most {_MAX_THREADS}; found {n_jobs}.")
    if n_jobs < 0:
        return max(1, int(kernels.available_cpus()) + 1 + int(n_jobs))
    return int(n_jobs)


@contextmanager
def threads_of(n_jobs: int | None) -> Iterator[None]:
    """Use `n_jobs` threads in this block, where no number is given; None changes nothing."""
    before = _USUAL.set(_USUAL.get() if n_jobs is None else n_jobs)
    try:
        yield
    finally:
        _USUAL.reset(before)


def as_maps(
    L: ArrayLike | None, U: ArrayLike | None, V: ArrayLike | None, width: int
) -> tuple[Map, Map]:
    """Return the maps of queries and database: (L, L), (U, V) or (None, None).

    If U equals V, both returned maps are the same array.
    """
    if L is not None:
        if U is not None or V is not None:
            raise ValueError("Give L, or U and V, not both.")
        if hasattr(L, "fit"):
            raise TypeError(
                f"L must be a matrix; found {type(L).__name__}. Give components_ of a fitted "
                "learner, or use NearestNeighbors(metric=learner)."
            )
        array = as_points(L, "L", width=width)
        return array, array
    check_together(U=U, V=V)
    if U is None or V is None:
        return None, None
    query, database = as_points(U, "U", width=width), as_points(V, "V", width=width)
    check_length(database, len(query), "V", "rows, as U")
    return (query, query) if np.array_equal(query, database) else (query, database)


def common_precision(*arrays: Map | Source) -> type[np.floating[Any]]:
    """Return float32 if all point arrays are float32, else float64. Maps are converted to it."""
    return np.float32 if all(a is None or a.dtype == np.float32 for a in arrays) else np.float64


def scaled_alike(*arrays: Floats) -> list[Floats]:
    """Multiply all arrays by one power of two, so that their largest value is between 1/2 and 1.

    The scaling is exact; afterwards squared differences neither overflow nor underflow.
    """
    exponent = max(int(np.frexp(np.abs(array).max(initial=0))[1]) for array in arrays)
    return [np.ldexp(array, -exponent) for array in arrays]
