"""Tables of numbers and categories, with missing values, as points that can be embedded."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.validation import validate_data

from metricfast._core.arguments import as_array
from metricfast._core.checks import check_rows
from metricfast._core.frames import (
    as_table,
    check_names,
    column_of,
    columns_of,
    kind_of,
    missing_among,
    naming_column,
    of_kind,
    refuse_column,
)
from metricfast._core.sparse import made_dense
from metricfast._core.types import Array, Floats
from metricfast.predictors.indicators import Indicators
from metricfast.predictors.normal_scores import NormalScores

__all__ = ["Table"]

# Standard deviations. Farther out, periodic features have no digits left, and squares may overflow.
_FARTHEST = 1e4
# Remedies for text in a column of numbers: in `fit`, and in `predict`.
_NAME = "name it in categorical_features"
_GIVE = "Give numbers, and NaN for missing ones"


class Table:
    """The encoding of the columns of a table.

    Numbers are brought to mean 0 and variance 1, and missing ones, and columns of one value, to 0.
    Columns of at most two different numbers come last among these. After them come, for each column
    of numbers in which some were missing, but not all, whether it is, and an indicator for each
    category. Missing categories are one of their own; one that was
    not seen has no indicator.

    Parameters
    ----------
    estimator : estimator
        Whose `categorical_features` say which columns hold categories, as those of scikit-learn's
        `HistGradientBoostingClassifier`, and whose features are set.
    X : array-like or frame of shape (n_samples, n_features)
    weight : ndarray of shape (n_samples,), optional

    Attributes
    ----------
    categorical : ndarray of bool of shape (n_features,)
        Which columns hold categories.
    n_indicators : int
        How many of the encoded columns, the last, have at most two values.
    origin : ndarray of int64 of shape (n_encoded,)
        The column of X from which each encoded column comes.
    """

    def __init__(self, estimator: Any, X: Any, weight: Floats | None = None) -> None:
        X = _known(estimator, X)
        given = estimator.categorical_features
        by_type = isinstance(given, str) and given == "from_dtype"
        columns = columns_of(X)
        validate_data(estimator, X, skip_check_array=True)
        chosen = np.flatnonzero([by_type and of_kind(t, "categories") for _, t in columns])
        if given is not None and not by_type:
            chosen = _chosen(estimator, X)
        self.categorical = np.isin(np.arange(X.shape[1]), chosen)
        numbers, categories = self._columns(estimator, X)
        # What does not vary, or is never there, tells nothing: it counts as 0 later, too.
        self._silent = ~(np.fmax.reduce(numbers, axis=0) > np.fmin.reduce(numbers, axis=0))
        self._unit = np.fmax.reduce(np.abs(numbers), axis=0, initial=np.finfo(np.float64).tiny)
        self._mean, self._scale = np.zeros(numbers.shape[1]), np.ones(numbers.shape[1])
        if numbers.size:
            scaler = StandardScaler().fit(self._in_unit(numbers), sample_weight=weight)
            self._mean, self._scale = scaler.mean_, scaler.scale_
        missing = np.isnan(numbers)
        least, most = np.fmin.reduce(numbers, axis=0), np.fmax.reduce(numbers, axis=0)
        many = ((numbers > least) & (numbers < most)).any(axis=0)
        self._order = np.argsort(~many, kind="stable")
        self._incomplete = np.flatnonzero(missing.any(axis=0) & ~missing.all(axis=0))
        self._indicators = None
        self.n_indicators = int((~many).sum()) + len(self._incomplete)
        places = np.flatnonzero(~self.categorical)
        self.origin = np.concatenate([places[self._order], places[self._incomplete]])
        if categories is not None:
            self._indicators = Indicators(categories)
            sizes = self._indicators.sizes
            self.n_indicators += int(sizes.sum())
            of_categories = np.repeat(np.flatnonzero(self.categorical), sizes)
            self.origin = np.concatenate([self.origin, of_categories])

    def scores(self, estimator: Any, X: Any, weight: Floats | None) -> NormalScores:
        """Return the normal scores of the numbers in a table."""
        return NormalScores(self._columns(estimator, _known(estimator, X))[0], weight)

    def encoded(self, estimator: Any, X: Any, scores: NormalScores | None = None) -> Array:
        """Return points, in float32, of a table with the columns of that of `fit`.

        `scores`: in place of standardised numbers.
        """
        numbers, categories = self._columns(estimator, _known(estimator, X), fitted=True)
        missing = np.isnan(numbers)
        standard = self._standard(numbers) if scores is None else scores.of(numbers)
        parts = [standard[:, self._order], missing[:, self._incomplete]]
        if self._indicators is not None and categories is not None:
            parts.append(self._indicators.of(categories))
        found: Array = np.concatenate([part.astype(np.float32) for part in parts], axis=1)
        return found

    def _standard(self, numbers: Floats) -> Floats:
        with np.errstate(over="ignore"):
            standard = (self._in_unit(numbers) - self._mean) / self._scale
        return np.where(np.isnan(numbers), 0, np.clip(standard, -_FARTHEST, _FARTHEST))

    def _in_unit(self, numbers: Floats) -> Floats:
        return np.asarray(np.where(self._silent, 0, numbers) / self._unit)

    def _columns(
        self, estimator: Any, X: Any, *, fitted: bool = False
    ) -> tuple[Floats, Array | None]:
        """Return the columns of numbers, and those of categories if there are any, checked."""
        how: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        validate_data(estimator, X, reset=False, skip_check_array=True)
        self._refuse(estimator, X, fitted)
        places = np.flatnonzero(~self.categorical)
        numbers = np.empty((X.shape[0], 0))
        if len(places):
            columns = _safe_indexing(X, places, axis=1) if self.categorical.any() else X
            remedy = f"it held numbers in fit. {_GIVE}" if fitted else _NAME
            with naming_column(X, "X", places, remedy):
                numbers = check_array(columns, input_name="X", estimator=estimator, **how)
        if not self.categorical.any():
            return numbers, None
        chosen = [_objects(X, int(j)) for j in np.flatnonzero(self.categorical)]
        return numbers, np.stack(chosen, axis=1)

    def _refuse(self, estimator: Any, X: Any, fitted: bool) -> None:
        """Refuse a column of a frame that counts as one of numbers, and is none."""
        for j, (column, dtype) in enumerate(columns_of(X)):
            if self.categorical[j]:
                continue
            kind = kind_of(dtype)
            if dtype.lower() == "object" and any(isinstance(x, str) for x in column_of(X, j)):
                kind = "text"
            if kind is None:
                continue
            found = f"X holds {kind} in its column {column!r} (dtype {dtype}), which"
            if fitted:
                raise ValueError(f"{found} held numbers in fit. {_GIVE}.")
            if kind in ("categories", "text"):
                by_type = isinstance(estimator.categorical_features, str)
                remedy = f"give it a categorical dtype, or {_NAME}" if by_type else _NAME
                raise ValueError(f"{found} is to hold numbers: {remedy}.")
            refuse_column("X", column, dtype)


def _known(estimator: Any, X: Any) -> Any:
    """Return a table as a frame, or as an array that has columns."""
    X = made_dense(as_table(X, "X"))
    check_names(X, "X")
    if not columns_of(X):
        checked = as_array(X, "X")
        if checked.dtype.kind in "mM":
            raise ValueError("X holds dates: give the time since one of them, in days say.")
        if not hasattr(X, "shape"):  # of rows that may hold numbers and text
            X = np.array(X, dtype=object) if checked.dtype.kind in "OUS" else checked
        X = checked if np.ma.isMaskedArray(X) else X
    if len(X.shape) != 2:
        raise ValueError(
            f"Expected 2D array X, got shape {tuple(X.shape)} instead. Reshape your data: X must "
            "have a row for each point and a column for each feature."
        )
    if not X.shape[1]:
        raise ValueError(
            f"Found array X with 0 feature(s) (shape={tuple(X.shape)}) while a minimum of 1 is "
            "required."
        )
    check_rows(estimator, X)
    return X


def _chosen(estimator: Any, X: Any) -> NDArray[np.int64]:
    """Return the columns of categories that a mask, indices or names stand for."""
    given = np.asarray(estimator.categorical_features)
    width = X.shape[1]
    kind = given.dtype.kind if given.size else "i"
    if given.ndim != 1 or kind not in "biuUO":
        raise ValueError(
            "categorical_features must be 'from_dtype', None, or a mask, indices or names of "
            f"columns; got {estimator.categorical_features!r}."
        )
    if kind in "UO":
        names = list(getattr(estimator, "feature_names_in_", ()))
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(
                f"categorical_features names {str(unknown[0])!r}, which is no column of X: "
                f"{names or 'its columns have no names'}."
            )
        return np.array([names.index(name) for name in given])
    if kind == "b" and len(given) == width:
        return np.flatnonzero(given)
    if kind == "b" or (given.size and not 0 <= given.min() <= given.max() < width):
        raise ValueError(
            f"categorical_features must be a mask of {width} columns, or indices from 0 to "
            f"{width - 1}; got {estimator.categorical_features!r}."
        )
    return given.astype(np.int64)


def _objects(X: Any, j: int) -> Array:
    """Return a column of categories, of which all that are missing are None."""
    column = np.array(column_of(X, j) if columns_of(X) else X[:, j], dtype=object)
    column[missing_among(column)] = None
    return column
