"""Tables and columns: data frames, Arrow, tensors, and the content of their columns."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray

# Names of column types in pandas, polars and Arrow, in lower case.
_KINDS = {
    "dates": r"date|time|duration|period",
    "categories": r"categor|enum|dictionary",
    "text": r"str|large_str|utf8",
    "lists": r"list|large_list|fixed_size_list|array|struct|map",
    "intervals": r"interval",
    "bytes": r"binary|large_binary|fixed_size_binary",
}
_ENCODE = (
    "encode it, as sklearn.preprocessing.OneHotEncoder does, convert it where it stands for "
    "numbers, or give X to NCAClassifier or NCARegressor, which take categories "
)
_REMEDIES = {
    "dates": "give dates as the time since one of them, in days for example",
    "categories": _ENCODE + "as they are",
    "text": _ENCODE + "in columns of a categorical type",
}
_FILL = (
    "leave these points out, fill them in, as sklearn.impute.SimpleImputer does, or give X to "
    "NCAClassifier or NCARegressor, which take missing values as they are"
)
# scikit-learn before 1.9 finds no column names in data frames of recent versions of polars.
_KNOWS_POLARS = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 9)
_LISTS = (list, tuple, np.ndarray)
_SINGLE = ("float32", "float", "float[pyarrow]")


def as_readable(values: Any, name: str) -> Any:
    """Convert `values` to an object that NumPy and scikit-learn can read.

    A tensor becomes an array that shares its memory, a narwhals object the object that it wraps, a
    dictionary-encoded Arrow column its values. Anything else is returned unchanged.
    """
    if type(values) is np.ndarray:
        return values
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        return _memory_of(values, name)
    if hasattr(values, "collect") and not hasattr(values, "__array__"):
        kind = type(values).__name__
        raise TypeError(f"{name} is a {kind}, which holds no values yet: give {name}.collect().")
    package = type(values).__module__.partition(".")[0]
    if package == "narwhals" and hasattr(values, "to_native"):
        return as_readable(values.to_native(), name)
    # NumPy reads missing values of a dictionary in chunks as its last one.
    if package == "pyarrow" and str(getattr(values, "type", "")).startswith("dictionary"):
        return values.cast(values.type.value_type)
    named = _KNOWS_POLARS or hasattr(values, "__dataframe__") or not hasattr(values, "columns")
    return values if package != "polars" or named else values.to_pandas()


def _memory_of(tensor: Any, name: str) -> NDArray[Any]:
    found, remedy = "", ""
    if tensor.device.type != "cpu":
        found, remedy = f"on the device {tensor.device}", ".detach().cpu()"
    elif tensor.requires_grad:
        found, remedy = "that requires gradients", ".detach()"
    elif str(tensor.layout) != "torch.strided":
        found, remedy = f"of the layout {tensor.layout}", ".to_dense()"
    elif str(tensor.dtype) == "torch.bfloat16":
        found, remedy = f"of {tensor.dtype}, which NumPy does not have", ".float()"
    if remedy:
        raise TypeError(f"{name} is a tensor {found}: give {name}{remedy}.")
    try:
        array: NDArray[Any] = tensor.resolve_conj().resolve_neg().numpy()
    except (RuntimeError, TypeError) as error:
        raise TypeError(f"{name} is a tensor that NumPy cannot read: {error}") from error
    return array


def arrow_table(X: Any) -> Any:
    """Return an Arrow table for Arrow data and for data frames that can export it, else None.

    Data frames that NumPy can read also give None.
    """
    arrow = type(X).__module__.partition(".")[0] == "pyarrow" and hasattr(X, "schema")
    if arrow and type(X).__name__ != "RecordBatch":
        return X
    offered = hasattr(X, "__arrow_c_stream__") or hasattr(X, "__dataframe__")
    if not arrow and (not offered or hasattr(X, "__array__") or isinstance(X, type)):
        return None
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError(
            f"Reading a {type(X).__name__} needs pyarrow: pip install pyarrow, or give an array."
        ) from error
    if arrow:
        return pa.Table.from_batches([X])
    if hasattr(X, "__arrow_c_stream__"):
        return pa.table(X)
    from pyarrow.interchange import from_dataframe

    return from_dataframe(X)


def as_table(X: Any, name: str) -> Any:
    """Return points as an array, or as a pandas, polars or Arrow table."""
    if isinstance(X, np.ndarray):
        return X
    X = as_readable(X, name)
    table = arrow_table(X)
    return X if table is None else table


def columns_of(X: Any) -> list[tuple[Any, str]]:
    """Return the names and types of a data frame's columns, or nothing for other objects."""
    if isinstance(X, np.ndarray):
        return []
    if hasattr(X, "schema") and hasattr(X.schema, "types"):
        return list(zip(X.schema.names, map(str, X.schema.types), strict=True))
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        return list(zip(X.columns, map(str, list(X.dtypes)), strict=True))
    return []


def check_names(X: Any, name: str) -> None:
    """Raise ValueError if several columns of a frame have the same name."""
    for column, count in Counter(column for column, _ in columns_of(X)).items():
        if count > 1:
            raise ValueError(
                f"{name} has {count} columns named {column!r}: give each column a name of its own, "
                "or leave the others out."
            )


def names_of(X: Any, name: str) -> list[str]:
    """Return the column names of a table, or nothing if it has none, or some that are not text."""
    if X is None or isinstance(X, np.ndarray):
        return []
    given = getattr(X, "feature_names", None)  # of a source
    names = given or [column for column, _ in columns_of(as_table(X, name))]
    return names if all(isinstance(each, str) for each in names) else []


def check_alike(first: Any, second: Any, names: tuple[str, str]) -> None:
    """Raise ValueError as :func:`check_order` does for the columns of two tables."""
    plain = type(first) is type(second) is np.ndarray
    if first is not None and second is not None and not plain:
        check_order(names_of(first, names[0]), names_of(second, names[1]), names)


def check_order(first: list[str], second: list[str], names: tuple[str, str]) -> None:
    """Raise ValueError if two tables of the same width have a column at different places.

    `first`, `second`: the columns' names, from `names_of`; tables without names have none.
    `names`: the tables' names in the error.
    """
    if len(first) != len(second) or first == second:
        return
    for column, other in zip(first, second, strict=True):
        if column != other and column in second:
            raise ValueError(
                f"The columns of {names[0]} and {names[1]} must be in the same order: "
                f"{column!r} is at place {first.index(column)} of {names[0]}, and at place "
                f"{second.index(column)} of {names[1]}. Select the columns of one by the names of "
                "the other."
            )


def column_of(X: Any, j: int) -> NDArray[Any]:
    """Return a column of a data frame or of an array, as a NumPy array."""
    if hasattr(X, "iloc"):
        return np.asarray(X.iloc[:, j])
    column = X.column(j) if hasattr(X, "schema") and hasattr(X, "column") else X[:, j]
    return np.asarray(as_readable(column, "X"))


def of_kind(dtype: str, *kinds: str) -> bool:
    """Return whether a column type is of one of the given kinds, such as "text" or "dates"."""
    return any(re.match(_KINDS[kind], dtype.lower()) for kind in kinds)


def kind_of(dtype: str) -> str | None:
    """Return the kind of a non-numeric column, such as "text", or None for numbers."""
    return next((kind for kind in _KINDS if of_kind(dtype, kind)), None)


def refuse_column(name: str, column: Any, dtype: str) -> None:
    """Raise ValueError for a column that does not hold numbers."""
    kind = kind_of(dtype)
    if kind is not None:
        raise _no_numbers(name, column, dtype, kind)


def _no_numbers(
    name: str, column: Any, dtype: str, kind: str, remedy: str | None = None
) -> ValueError:
    if kind == "lists":
        stacked = f"np.stack({name}[{column!r}])"
        remedy = f"give a column for each of their numbers, or an array of them, as {stacked}"
    remedy = remedy or _REMEDIES.get(kind, "leave it out")
    return ValueError(
        f"{name} must hold numbers; its column {column!r} holds {kind} (dtype {dtype}): {remedy}."
    )


def plain_frame(X: Any, name: str) -> Any:
    """Return a data frame of numbers. Columns with pandas extension types get NumPy types.

    Raises ValueError for a column of another type. Other objects are returned unchanged.
    """
    columns = columns_of(X)
    for column, dtype in columns:
        refuse_column(name, column, dtype)
    if not columns or not hasattr(X, "iloc"):
        return X
    types = [dtype for _, dtype in columns]
    known = all(isinstance(dtype, np.dtype) for dtype in X.dtypes)
    if known or all(dtype.startswith("Sparse") for dtype in types):
        return X
    with naming_column(X, name):
        return X.astype(
            np.float32 if all(each.lower() in _SINGLE for each in types) else np.float64
        )


def missing_among(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of missing values: None, NaN, NaT or NA."""
    if column.dtype.kind in "biu":
        return np.zeros(len(column), bool)
    if column.dtype.kind == "f":
        return np.asarray(np.isnan(column))
    return np.array([is_missing(x) for x in column], bool)


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or NA."""
    try:
        # Comparing pandas.NA with itself gives NA, which is not a boolean.
        return value is None or type(value).__name__ == "NAType" or bool(value != value)
    except ValueError:  # an array
        return False


# Messages of conversions for values that are not numbers.
_NO_NUMBER = ("could not convert", "must be a string or a real number")


@contextmanager
def naming_column(
    X: Any, name: str, numbers: NDArray[np.int64] | None = None, remedy: str | None = None
) -> Iterator[None]:
    """Name the data frame's column in errors about its values; see :func:`fault_of`."""
    try:
        yield
    except (TypeError, ValueError) as error:
        found: Exception | None = None
        if columns_of(X) or not isinstance(error, TypeError):  # objects other than text
            found = fault_of(X, name, numbers, remedy)
        named = f"{name} must hold numbers" in str(error)
        if found is None and not named and any(said in str(error) for said in _NO_NUMBER):
            kind = TypeError if isinstance(error, TypeError) else ValueError
            found = kind(f"{name} must hold numbers: {error}")
        if found is None:
            raise
        raise found from error


def fault_of(
    X: Any, name: str, numbers: NDArray[np.int64] | None = None, remedy: str | None = None
) -> ValueError | None:
    """Return an error that names the first column without finite numbers, or None.

    `numbers`: the columns that must be numeric; their values may be missing. Columns of an array
        are named by their indices.
    `remedy`: advice for a column of text.
    """
    columns = columns_of(X)
    if numbers is not None and not columns:
        columns = [(j, str(X.dtype)) for j in range(X.shape[1])]
    for j in range(len(columns)) if numbers is None else numbers.tolist():
        values = column_of(X, j)
        missing = missing_among(values)
        if numbers is not None:
            values, missing = values[~missing], missing[~missing]
        fault = _fault(values, missing, name, *columns[j], remedy)
        if fault is not None:
            return fault
    return None


def fault_of_lists(values: NDArray[Any], name: str) -> ValueError | None:
    """Return an error for an array of arrays or lists, such as embeddings in a column, or None."""
    if values.dtype != object or not values.size or not isinstance(values.flat[0], _LISTS):
        return None
    column = name if values.ndim == 1 else f"{name}[:, 0]"
    return ValueError(
        f"{name} must hold numbers, and its elements are lists or arrays of them: give "
        f"np.stack({column})."
    )


def _fault(
    values: NDArray[Any], missing: NDArray[np.bool_], name: str, column: Any, dtype: str,
    remedy: str | None,
) -> ValueError | None:  # fmt: skip
    """Return an error that explains why a column is not finite numbers, or None."""
    try:
        numbers = values[~missing].astype(np.float64)
    except (TypeError, ValueError):
        others = (x for x in values[~missing] if not isinstance(x, (int, float, np.number)))
        first = next(others, None)
        kind = "text" if isinstance(first, (str, bytes)) else "other values"
        kind = "lists" if isinstance(first, _LISTS) else kind
        return _no_numbers(name, column, dtype, kind, remedy)
    if missing.any():
        where, what, remedy = missing, "NaN or missing values", _FILL
    elif not np.isfinite(numbers).all():
        where, what, remedy = ~np.isfinite(numbers), "infinity", "leave these points out"
    else:
        return None
    return ValueError(
        f"Input {name} contains {what}: its column {column!r} (dtype {dtype}) has "
        f"{int(where.sum())} of them; {remedy}."
    )
