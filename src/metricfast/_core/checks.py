"""Checks of the input of learners: points and tuples, or indicators for a preprocessor."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from metricfast._core.arguments import as_array, as_real
from metricfast._core.frames import (
    as_readable,
    check_names,
    fault_of_lists,
    naming_column,
    plain_frame,
)
from metricfast._core.points import dense
from metricfast._core.sources import Source
from metricfast._core.sparse import check_structure, made_dense
from metricfast._core.stores import as_source, in_memory
from metricfast._core.targets import as_label_array, flatten_column
from metricfast._core.types import Array
from metricfast.exceptions import PreprocessorError

Preprocessor = Callable[[Array], Any]


class ArrayIndexer:
    """Look up indices in an array of points. The points are checked later, when they are used.

    If `X` is a source, a lookup reads only the indexed points.
    """

    def __init__(self, X: Any) -> None:
        X = as_readable(X, "preprocessor")
        source = as_source(X, "preprocessor")
        if source is not None:
            self.X: Any = source
            return
        check_structure(X, "preprocessor")
        self.X = check_array(
            X,
            accept_sparse="csr",
            dtype=None,
            ensure_all_finite=False,
            ensure_2d=False,
            allow_nd=True,
            ensure_min_samples=0,
            ensure_min_features=0,
        )

    def __call__(self, indices: Array) -> Any:
        # NumPy would wrap unsigned indices above the range of int64 to negative ones.
        largest = indices.max(initial=0) if indices.dtype.kind == "u" else 0
        if largest > np.iinfo(np.intp).max:
            raise IndexError(f"index {largest} is out of bounds for {self.X.shape[0]} points")
        return self.X[indices]


def check_preprocessor(preprocessor: object) -> Preprocessor | None:
    """Return an array-like or callable preprocessor as a function, or None if there is none."""
    if preprocessor is None:
        return None
    arraylike = any(hasattr(preprocessor, name) for name in ("__len__", "shape", "__array__"))
    arraylike = arraylike or as_source(preprocessor) is not None
    if arraylike and not isinstance(preprocessor, (str, bytes)):
        return ArrayIndexer(preprocessor)
    if callable(preprocessor):
        return preprocessor
    raise ValueError(
        f"Invalid type for the preprocessor: {type(preprocessor)}. You should "
        "provide either None, an array-like object, or a callable."
    )


def form(preprocessor: Preprocessor, *columns: Array) -> Any:
    """Return points for one column of indicators, or an array of tuples for several columns."""
    try:
        points = [preprocessor(column) for column in columns]
        if len(points) == 1:
            return points[0]
        return np.stack([dense(p) for p in points], axis=1)
    except Exception as error:
        raise PreprocessorError(error) from error


# Any other dtype is converted to the first one.
_FLOATS = [np.float64, np.float32]


def check_points(
    estimator: BaseEstimator,
    X: Any,
    y: Any = "no_validation",
    *,
    preprocessor: Preprocessor | None,
    reset: bool,
    name: str = "X",
    accept_sources: bool = False,
    **params: Any,
) -> Any:
    """Form and check points, and labels if `y` is given.

    `estimator`: errors carry its name. Its `n_features_in_` and `feature_names_in_` are set (with
        `reset`, in `fit`) or compared.
    `X`: a table of points, also a sparse one, or indicators for the preprocessor; errors call it
        `name`. A sparse one becomes an array unless `accept_sparse` is given. Points that are not
        in memory are read, unless `accept_sources`: they are returned as a source, which checks
        what it reads.
    `**params`: of :func:`sklearn.utils.check_array`.
    Returns X, or (X, y); X in native float32 if it was float32, otherwise float64; never modified
    in place.
    """
    if name == "X" and _is_plain(X, 2) and (y is None or isinstance(y, str) or _is_plain(y, 1)):
        return validate_data(estimator, X, y, reset=reset, **{"dtype": _FLOATS, **params})
    X = as_readable(X, name)
    source = as_source(X, name)
    check_names(X, name)
    X = plain_frame(X, name) if source is None else X
    with _naming(name), naming_column(X, name):
        if source is not None and accept_sources:
            return _checked_source(estimator, source, y, reset, **params)
        if source is not None:
            needing = f"{name}, which {type(estimator).__name__} needs in memory,"
            X = _with_names(in_memory(X, needing, "give fewer points"), source)
        X = _formed(_with_shape(X), 2, "points", preprocessor, estimator)
        if issparse(X) and params.get("accept_sparse"):
            check_structure(X)
        elif issparse(X):
            X = made_dense(X)
        y = as_readable_labels(y, flat=not params.get("multi_output"))
        # A data frame has no NumPy dtype, but all its columns may be float32.
        single = not hasattr(X, "dtype") and _dtype(X) == np.float32
        params = {"dtype": np.float32 if single else _FLOATS, **params}
        checked = validate_data(estimator, X, y, reset=reset, **params)
    if not isinstance(checked, tuple):
        return _as_native(checked)
    return _as_native(checked[0]), checked[1]


def _is_plain(values: Any, ndim: int) -> bool:
    """Return whether values are an array of native numbers, which scikit-learn checks alone."""
    if type(values) is not np.ndarray or values.ndim != ndim:
        return False
    return bool(values.dtype.kind in "biuf" and values.dtype.isnative)


def _checked_source(
    estimator: BaseEstimator,
    source: Source,
    y: Any,
    reset: bool,
    *,
    ensure_min_samples: int = 1,
    y_numeric: bool = False,
    **_: Any,
) -> Any:
    """Check the labels, and the shape and dtype of a source, before any point is read."""
    few = _with_names(np.zeros((1, source.shape[1])), source)
    validate_data(estimator, few, y, reset=reset, skip_check_array=True)
    check_enough(estimator, source.shape, ensure_min_samples)
    if y is None or (isinstance(y, str) and y == "no_validation"):
        return source
    y = as_readable_labels(y)
    if not np.ndim(y):
        raise ValueError("y should be a 1d array, got an array of shape () instead.")
    checked = check_array(
        y, ensure_2d=False, dtype="numeric" if y_numeric else None, input_name="y",
        estimator=estimator,
    )  # fmt: skip
    check_consistent_length(source, checked)
    return source, checked


def _with_names(X: Array, source: Source) -> Any:
    """Return points as a data frame if their source has feature names, else unchanged."""
    if source.feature_names is None:
        return X
    from pandas import DataFrame

    return DataFrame(X, columns=source.feature_names)


def check_enough(estimator: BaseEstimator, shape: tuple[int, ...], n_samples: int = 1) -> None:
    """Raise ValueError as scikit-learn does unless there are so many samples, and features."""
    for kind, found, least in (("sample", shape[0], n_samples), ("feature", shape[-1], 1)):
        if found < least:
            raise ValueError(
                f"Found array with {found} {kind}(s) (shape={shape}) while a minimum of {least} is "
                f"required by {type(estimator).__name__}: give X more {kind}s."
            )


def check_tuples(
    estimator: BaseEstimator,
    tuples: Any,
    y: Any = "no_validation",
    *,
    preprocessor: Preprocessor | None,
    reset: bool,
    tuple_size: int | None,
    **params: Any,
) -> Any:
    """Form and check tuples of points or of indicators, like :func:`check_points` for points.

    `tuple_size`: the required number of points in a tuple. Labels of pairs must be -1 and 1.
    """
    tuples = _formed(as_array(_with_shape(tuples), "X"), 3, "tuples", preprocessor, estimator)
    y = as_readable_labels(y, flat=True)
    params = {"dtype": _FLOATS, **params, "ensure_2d": False, "allow_nd": True}
    if reset:
        checked = validate_data(estimator, tuples, y, reset=True, **params)
    else:
        # Tuples cannot have feature names, so do not warn about missing ones.
        checked = check_array(tuples, estimator=estimator, input_name="X", **params)
    tuples, y = checked if isinstance(checked, tuple) else (checked, None)
    _check_tuple_shape(tuples, tuple_size, estimator, reset)
    if y is None:
        return tuples
    if tuples.shape[1] == 2:
        check_pair_labels(y)
    return tuples, y


def check_pair_labels(y: Array) -> None:
    """Raise ValueError unless every label of a pair is -1 or 1."""
    if np.isin(y, (-1, 1)).all():
        return
    raise ValueError(
        "When training on pairs, the labels (y) should contain "
        f"only values in [-1, 1]. Found an incorrect value.{_remedy_of_encoded(y)}"
    )


def _remedy_of_encoded(y: Array) -> str:
    """Return advice for pair labels of 0 and 1, and an empty string for other labels."""
    if not np.isin(y, (0, 1)).all():
        return ""
    return (
        " Give 1 for similar and -1 for dissimilar pairs, as np.where(y, 1, -1) does. If yours "
        "are, scikit-learn has encoded them as 0 and 1: cross_val_predict does so, unless "
        "method='predict'."
    )


def check_both_kinds(y: Any, n_pairs: int, name: str = "y") -> Array:
    """Return pair labels. Raises ValueError unless there are `n_pairs` labels, both 1 and -1."""
    labels = as_array(y, name)
    if labels.shape != (n_pairs,) or set(labels.tolist()) != {-1, 1}:
        raise ValueError(
            f"{name} must hold 1 or -1 for each of {n_pairs} pairs, and both of them; got "
            f"{np.unique(labels.astype(str))[:5].tolist()}, shape {labels.shape}."
            f"{_remedy_of_encoded(labels)}"
        )
    return labels


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Add the argument's name to error messages that do not have it."""
    try:
        yield
    except (TypeError, ValueError) as error:
        known = name == "X" and re.search(r"\b[Xy]\b|input=|^Found (array|input)", str(error))
        if known or type(error) not in (TypeError, ValueError):
            raise
        raise type(error)(f"{name}: {error}") from error


def as_readable_labels(y: Any, name: str = "y", flat: bool = False) -> Any:
    """Return labels as scikit-learn reads them.

    Raises a clearer error than scikit-learn for labels that it cannot read.
    `flat`: whether to flatten a column, with a warning.
    """
    if y is None or isinstance(y, str) or issparse(y):
        return y
    y = as_readable(y, name)
    array = as_array(y, name)
    if array.dtype.kind in "OUS":
        as_label_array(y, name)
    return flatten_column(array, name) if flat and array.shape[1:] == (1,) else y


def _dtype(X: Any) -> Any:
    """Return the dtype of points; for a frame, the dtype of its rows."""
    return X.dtype if hasattr(X, "dtype") else np.asarray(X[:1]).dtype


def _as_native(X: Any) -> Any:
    return X.astype(X.dtype.newbyteorder("="), copy=False)


def _with_shape(X: Any) -> Any:
    """Convert X to an array, unless it is a table: a data frame keeps its feature names."""
    if len(getattr(X, "shape", ())) == 2 and not np.ma.isMaskedArray(X):
        return X
    return as_array(X, "X")


def _as_numbers(X: Any) -> Any:
    """Return an array of a native real dtype; scikit-learn converts data frames of numbers."""
    kind = getattr(_dtype(X), "kind", "")
    if hasattr(X, "dtype") and kind in "biuf":
        return _as_native(X)
    # as_real raises an error that names what is found, also for the first rows of a frame.
    if hasattr(X, "dtype") and not issparse(X):
        return as_real(X, "X")
    if kind in ("c", "m", "M"):
        as_real(X.data if issparse(X) else X[:1], "X")
    return X


def _formed(
    X: Any, ndim: int, what: str, preprocessor: Preprocessor | None, estimator: BaseEstimator
) -> Any:
    """Return an array of `ndim` dimensions.

    If X has one less, look its indicators up in the preprocessor.
    """
    found, applied = len(X.shape), False
    if preprocessor is not None and found == ndim - 1:
        X = _with_shape(form(preprocessor, *(X.T if ndim == 3 else [X])))
        found, applied = len(X.shape), True
    if found == ndim:
        return _as_numbers(X)
    if told := fault_of_lists(np.asarray(X), "X"):
        raise told
    expected, context, hint = f"{ndim}D array of formed {what}", "", ""
    if applied:
        context = " after the preprocessor has been applied"
    elif preprocessor is not None:
        expected = f"{ndim - 1}D array of indicators or {expected}"
        context = " when using a preprocessor"
    if applied or (preprocessor is None and found == ndim - 1):
        hint = " and/or use a preprocessor"
    shown = f"input={X}" if math.prod(X.shape) <= 20 else f"input of shape {X.shape}"
    points = (
        ndim == 3 and found == 2 and (X.dtype.kind == "f" or X.shape[1] != estimator._tuple_size)
    )
    remedy = estimator._remedy_for_points if points else ""
    raise ValueError(
        f"{expected} expected by {type(estimator).__name__}{context}. Found {found}D array "
        f"instead:\n{shown}. Reshape your data{hint}.\n{remedy}"
    )


def _check_tuple_shape(
    tuples: Array, tuple_size: int | None, estimator: BaseEstimator, reset: bool
) -> None:
    name, (_, size, n_features) = type(estimator).__name__, tuples.shape
    if n_features < 1:
        raise ValueError(
            f"Found array with {n_features} feature(s) (shape={tuples.shape}) while"
            f" a minimum of 1 is required by {name}."
        )
    if tuple_size is not None and size != tuple_size:
        raise ValueError(
            f"Tuples of {tuple_size} element(s) expected by {name}. Got tuples of {size} "
            f"element(s) instead (shape={tuples.shape}):\ninput={tuples}.\n"
        )
    if reset:
        estimator.n_features_in_ = n_features
    elif n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_features} features, but {name} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
