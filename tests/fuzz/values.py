"""Descriptions of arguments: small, printable, and built reproducibly."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from metricfast import sources

try:
    import polars as pl
except ImportError:
    pl = None

# Kinds of valid numbers; functions must handle all of them.
FAIR = (
    *("normal", "normal", "normal", "lattice", "lattice", "repeated", "constant", "zero"),
    *("far", "sentinel", "units", "huge", "tiny"),
)
CLASSES = ("classes", "classes", "classes", "one class", "lone", "distinct")
DTYPES = (
    *("float64", "float64", "float64", "float32", "float32", "float16", "longdouble"),
    *(">f8", ">f4", "int64", "int8", "uint64", "bool", "object"),
)
CLASS_DTYPES = ("int64", "int64", "int8", "uint64", "float64", "bool", "U3", "object", "str object")
FORMS = (
    *("C", "C", "C", "F", "strided", "reversed", "read-only", "list", "tuple", "frame"),
    *(() if pl is None else ("polars",)),
    *("masked nowhere", "source"),
)
SPARSE = ("csr", "csc", "coo", "lil", "csr matrix", "bsr")
# Values and forms that functions must not silently accept as numbers or classes.
POISON = ("nan", "inf", "none", "text", "bytes", "complex", "datetime", "masked", "ragged", "word")
DAMAGED = ("damaged indices", "damaged negative", "damaged indptr")
_LETTERS = np.array(["a", "bb", "Ünï", "d", "e", "f", "g"])


class Array(NamedTuple):
    """Description of an array: shape, kind of values, dtype, form, and seed."""

    shape: tuple[int, ...]
    values: str = "normal"
    dtype: str = "float64"
    form: str = "C"
    seed: int = 0
    poison: str | None = None

    def __repr__(self) -> str:
        parts = [repr(self.shape), repr(self.values)]
        for name, default in self._field_defaults.items():
            if name != "values" and (value := getattr(self, name)) != default:
                parts.append(f"{name}={value!r}")
        return f"Array({', '.join(parts)})"

    def build(self) -> Any:
        numbers = _numbers(self.values, self.shape, np.random.default_rng(self.seed))
        array = np.asarray(_cast(np.asarray(numbers), self))
        if self.poison is not None:
            array = _poisoned(array, self.poison)
        # Other array types cannot have a mask.
        kept = isinstance(array, list) or self.poison == "masked"
        return array if kept else _formed(array, self.form)


class Made(NamedTuple):
    """Description of an object: its constructor and arguments."""

    make: Callable[..., Any]
    arguments: dict[str, Any]

    def build(self) -> Any:
        return self.make(**{name: build(value) for name, value in self.arguments.items()})

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.make.__name__}({arguments})"


def build(value: Any) -> Any:
    """Build the described value; return anything else unchanged."""
    return value.build() if isinstance(value, (Array, Made)) else value


class Unknown:
    """An object of a type that no function supports."""

    def __repr__(self) -> str:
        return "Unknown()"


# Values of wrong types, and values that are far too large.
JUNK = (
    *(None, True, False, -1, 0, 1, 1.5, -0.5, float("nan"), float("inf"), -float("inf")),
    *(1e300, 1e-300, 2**70, -(2**70), 2**31, "x", "", b"x", 3j, [], {}, (), [1, None], [[1], [2]]),
    *(Unknown(), np.float32(2), np.int64(3), np.array(2), datetime(2020, 1, 1), len, Unknown),
)


def _numbers(values: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if values == "lattice":
        return rng.integers(-3, 4, shape).astype(float)
    if values == "repeated":
        rows = rng.normal(size=(2, *shape[1:]))
        return rows[rng.integers(0, 2, shape[:1])] if shape else rows[0]
    if values in ("constant", "zero", "one class"):
        return np.full(shape, {"constant": 1.7, "zero": 0.0, "one class": 1.0}[values])
    if values in ("classes", "lone"):
        codes = rng.integers(0, 3, shape).astype(float)
        if values == "lone" and codes.size:
            codes.flat[0] = 3
        return codes
    if values == "distinct":
        return rng.permutation(int(np.prod(shape))).reshape(shape).astype(float)
    if values == "signs":
        return rng.choice([-1.0, 1.0], shape)
    if values == "weights":
        return rng.uniform(0.5, 2, shape)
    if values.startswith("below "):  # indices
        return rng.integers(0, max(1, int(values[6:])), shape).astype(float)
    numbers = rng.normal(size=shape)
    if values == "sentinel" and numbers.ndim and len(numbers):
        numbers[0] = 1e20
    if values == "units" and numbers.ndim:
        numbers = numbers * 10.0 ** np.linspace(-9, 9, shape[-1])
    scale, shift = {"huge": (1e200, 0), "tiny": (1e-200, 0), "far": (1, 1e7)}.get(values, (1, 0))
    return numbers * scale + shift


def _cast(numbers: np.ndarray, spec: Array) -> np.ndarray:
    if spec.dtype in ("U3", "str object"):
        letters = _LETTERS[numbers.astype(np.int64) % len(_LETTERS)]
        return letters if spec.dtype == "U3" else letters.astype(object)
    if spec.dtype == "bool":
        return numbers > 0
    dtype = np.dtype(spec.dtype)
    if dtype.kind in "iu":
        least = 0 if dtype.kind == "u" else -100
        return np.clip(np.round(numbers), least, 100).astype(dtype)
    if dtype.kind == "f" and dtype.itemsize < 8:
        most = float(np.finfo(dtype).max)
        numbers = np.clip(numbers, -most, most)
    return numbers.astype(dtype)


def _poisoned(array: np.ndarray, poison: str) -> Any:
    """Return the array with one invalid value, or an object of an invalid type."""
    ones = {"nan": np.nan, "inf": np.inf, "none": None, "word": "w"}
    if poison in ones:
        number = array.dtype.kind in "biuf"
        fits = number and poison in ("nan", "inf")
        array = array.astype(
            (array.dtype if array.dtype.kind == "f" else float) if fits else object
        )
        if array.size:
            place = array.size // 2
            text = isinstance(array.flat[place], (str, bytes))
            array.flat[place] = 1 if text and poison == "word" else ones[poison]
        return array
    if poison == "masked":
        return np.ma.masked_array(array, mask=np.arange(array.size).reshape(array.shape) == 0)
    if poison in DAMAGED:
        return array  # only its form is invalid
    if poison == "ragged":
        return [list(range(i % 2 + 1)) for i in range(max(2, len(array)) if array.ndim else 2)]
    counted = np.arange(array.size).reshape(array.shape)
    return counted.astype(
        {"text": "U", "bytes": "S", "complex": complex, "datetime": "M8[s]"}[poison]
    )


def _formed(array: np.ndarray, form: str) -> Any:
    if form in ("list", "tuple"):
        rows = array.tolist()
        return tuple(rows) if form == "tuple" and isinstance(rows, list) else rows
    if form == "source" and array.ndim == 2 and array.dtype.kind in "biuf":
        return sources.Rows(array)
    if form in ("frame", "polars") and array.ndim in (1, 2):
        return _frame(array, form)
    if form == "F":
        return np.asfortranarray(array)
    if form == "strided" and array.ndim:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    if form == "reversed" and array.ndim:
        return array[::-1].copy()[::-1]
    if form == "read-only":
        array.flags.writeable = False
    if form == "masked nowhere":
        return np.ma.masked_array(array, mask=False)
    if (form in SPARSE or form in DAMAGED) and array.ndim == 2 and array.dtype.kind in "fiub":
        return _sparse(array, form)
    return array


def _frame(array: np.ndarray, form: str) -> Any:
    if form == "frame":
        return pd.Series(array) if array.ndim == 1 else pd.DataFrame(array)
    try:
        native = array.astype(array.dtype.newbyteorder("="))
        return pl.Series(native) if array.ndim == 1 else pl.DataFrame(native)
    except Exception:  # Polars does not have the dtype
        return array


def _sparse(array: np.ndarray, form: str) -> Any:
    array = array.astype(np.float64 if array.dtype.itemsize != 4 else np.float32)
    if form == "csr matrix":
        return sparse.csr_matrix(array)
    matrix = sparse.csr_array(array).asformat("csr" if form in DAMAGED else form)
    if form in DAMAGED and matrix.nnz:
        if form == "damaged indptr":
            matrix.indptr[len(matrix.indptr) // 2] = 10**6
        else:
            matrix.indices[0] = 10**8 if form == "damaged indices" else -(10**6)
    return matrix
