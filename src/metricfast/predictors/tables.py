"""Encoding of tables of numbers and categories, with missing values, as numeric points."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.validation import validate_data

from metricfast._core.arguments import as_array
from metricfast._core.checks import check_enough
from metricfast._core.frames import (
    as_table,
    check_names,
    column_of,
    columns_of,
    fault_of_lists,
    kind_of,
    missing_among,
    naming_column,
    of_kind,
    refuse_column,
)
from metricfast._core.sparse import made_dense
from metricfast._core.types import Array, Floats

# Limit in standard deviations. Beyond it, periodic features lose all digits, and squares may
# overflow.
_FARTHEST = 1e4
# Maximum number of categories per column, as in HistGradientBoosting. Rarer categories are merged.
_MOST = 255
# Number of values per column with stored scores. The scores of other values are interpolated.
_MOST_SCORES = 1024
# Minimum share of points assumed below the lowest value and above the highest.
_LEAST_SHARE = 1e-9
# Advice for text in a numeric column: in `fit`, and in `predict`.
_NAME = "name it in categorical_features"
_GIVE = "Give numbers, and NaN for missing ones"


class Table:
    """The encoding of the columns of a table, by the scaler and encoder of scikit-learn.

    Numbers are standardised to mean 0 and variance 1. Missing numbers and constant columns become
    0. Numeric columns come first, those with at most two different values last among them. A
    missing-value indicator follows for each numeric column with some, but not all, values missing,
    and then an indicator for each category. A missing value counts as a category. If there are more
    than 255 categories, all but the 254 most frequent share an indicator with unseen categories.
    Otherwise an unseen category has no indicator.

    Parameters
    ----------
    estimator : estimator
        Estimator with the parameter `categorical_features`, as in scikit-learn's
        `HistGradientBoostingClassifier`. Its feature attributes are set.
    X : array-like or frame of shape (n_samples, n_features)
    weight : ndarray of shape (n_samples,), optional

    Attributes
    ----------
    categorical : ndarray of bool of shape (n_features,)
        Mask of the categorical columns.
    n_indicators : int
        Number of encoded columns with at most two values. They are the last columns.
    origin : ndarray of int64 of shape (n_encoded,)
        The column of X for each encoded column.
    """

    def __init__(self, estimator: Any, X: Any, weight: Floats | None = None) -> None:
        X = _known(estimator, X)
        validate_data(estimator, X, skip_check_array=True)
        self.categorical = _categorical(estimator, X)
        numbers, categories = self._columns(estimator, X)
        least, most = np.fmin.reduce(numbers, axis=0), np.fmax.reduce(numbers, axis=0)
        self._many = ((numbers > least) & (numbers < most)).any(axis=0)
        missing = np.isnan(numbers)
        self._order = np.argsort(~self._many, kind="stable")
        self._incomplete = np.flatnonzero(missing.any(axis=0) & ~missing.all(axis=0))
        # Columns that are constant or always missing carry no information: they are encoded as 0.
        self._unit = np.where(most > least, np.fmax(most, -least), np.inf)
        self._scaler = StandardScaler().set_output(transform="default")
        if numbers.size:
            with np.errstate(invalid="ignore"):  # means of columns without values
                self._scaler.fit(numbers / self._unit, sample_weight=weight)
        self._encoder = OneHotEncoder(
            max_categories=_MOST, handle_unknown="infrequent_if_exist", sparse_output=False,
            dtype=np.float32,
        ).set_output(transform="default")  # fmt: skip
        sizes = np.zeros(0, np.int64)
        if categories.size:
            with _naming_categories():
                known = self._encoder.fit(categories).categories_
            sizes = np.minimum(list(map(len, known)), _MOST)
        places, of_categories = map(np.flatnonzero, (~self.categorical, self.categorical))
        self.origin = np.concatenate(
            [places[self._order], places[self._incomplete], np.repeat(of_categories, sizes)]
        )
        self.n_indicators = len(self.origin) - int(self._many.sum())

    def scores(self, estimator: Any, X: Any, weight: Floats | None) -> NormalScores:
        """Return the normal scores of columns with more than two different numbers."""
        numbers, _ = self._columns(estimator, _known(estimator, X))
        return NormalScores(numbers[:, self._many], weight)

    def encoded(self, estimator: Any, X: Any, scores: NormalScores | None = None) -> Array:
        """Return the float32 points of a table with the columns of `fit`.

        `scores`: normal scores, which replace standardised numbers in columns with more than two
        values.
        """
        numbers, categories = self._columns(estimator, _known(estimator, X), fitted=True)
        standard = self._standard(numbers)
        if scores is not None:
            standard[:, self._many] = scores.of(numbers[:, self._many])
        parts = [standard[:, self._order], np.isnan(numbers)[:, self._incomplete]]
        if categories.size:
            with _naming_categories():
                parts.append(self._encoder.transform(categories))
        found: Array = np.concatenate(parts, axis=1, dtype=np.float32, casting="unsafe")
        return found

    def _standard(self, numbers: Floats) -> Floats:
        if not numbers.size:
            return numbers
        with np.errstate(over="ignore"):
            standard = self._scaler.transform(numbers / self._unit)
        found: Floats = np.nan_to_num(np.clip(standard, -_FARTHEST, _FARTHEST))
        return found

    def _columns(self, estimator: Any, X: Any, *, fitted: bool = False) -> tuple[Floats, Array]:
        """Validate a table. Return its numeric columns, and its categorical columns as objects."""
        how: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        validate_data(estimator, X, reset=False, skip_check_array=True)
        self._refuse(estimator, X, fitted)
        places, of_categories = map(np.flatnonzero, (~self.categorical, self.categorical))
        numbers = np.empty((X.shape[0], 0))
        if len(places):
            columns = _safe_indexing(X, places, axis=1) if len(of_categories) else X
            remedy = f"it held numbers in fit. {_GIVE}" if fitted else _NAME
            with naming_column(X, "X", places, remedy):
                numbers = check_array(columns, input_name="X", estimator=estimator, **how)
        categories = np.empty((X.shape[0], len(of_categories)), object)
        for column, j in zip(categories.T, of_categories.tolist(), strict=True):
            column[:] = column_of(X, j)
            column[missing_among(column)] = None
        return numbers, categories

    def _refuse(self, estimator: Any, X: Any, fitted: bool) -> None:
        """Raise ValueError if a numeric column of a frame does not hold numbers."""
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
    """Return a table as a frame or as a two-dimensional array."""
    X = made_dense(as_table(X, "X"))
    check_names(X, "X")
    if not columns_of(X):
        checked = as_array(X, "X")
        if checked.dtype.kind in "mM":
            raise ValueError("X holds dates: give the time since one of them, in days say.")
        if not hasattr(X, "shape"):  # lists may mix numbers and text
            X = np.array(X, dtype=object) if checked.dtype.kind in "OUS" else checked
        X = checked if np.ma.isMaskedArray(X) else X
    if len(X.shape) != 2:
        raise fault_of_lists(np.asarray(X), "X") or ValueError(
            f"Expected 2D array X, got shape {tuple(X.shape)} instead. Reshape your data: X must "
            "have a row for each point and a column for each feature."
        )
    check_enough(estimator, tuple(X.shape))
    return X


def _categorical(estimator: Any, X: Any) -> NDArray[np.bool_]:
    """Return a mask of the categorical columns, from their types, a mask, indices or names."""
    said, found = estimator.categorical_features, np.zeros(X.shape[1], bool)
    if said is None:
        return found
    if isinstance(said, str) and said == "from_dtype":
        return np.array([of_kind(t, "categories") for _, t in columns_of(X)] or found)
    given, width = np.asarray(said), len(found)
    kind = given.dtype.kind if given.size else "i"
    if given.ndim != 1 or kind not in "biuUO":
        raise ValueError(
            "categorical_features must be 'from_dtype', None, or a mask, indices or names of "
            f"columns; got {said!r}."
        )
    if kind in "UO":
        names = list(getattr(estimator, "feature_names_in_", ()))
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(
                f"categorical_features names {str(unknown[0])!r}, which is no column of X: "
                f"{names or 'its columns have no names'}."
            )
        given = np.array([names.index(name) for name in given])
    elif len(given) != width if kind == "b" else not ((given >= 0) & (given < width)).all():
        raise ValueError(
            f"categorical_features must be a mask of {width} columns, or indices from 0 to "
            f"{width - 1}; got {said!r}."
        )
    found[given if given.size else []] = True
    return found


@contextmanager
def _naming_categories() -> Iterator[None]:
    try:
        yield
    except TypeError as error:  # values cannot be hashed or sorted
        found = str(error).rpartition("Got ")[2]
        raise TypeError(
            f"X must hold numbers or text as categories, of one type in a column; found {found}."
        ) from error


class NormalScores:
    """A monotone map of each column to normally distributed values.

    The score of a value is ``Phi^-1(p)``, where p is the share of points below it plus half the
    share of points with the same value. Scores are standardised to mean 0 and variance 1. The
    scores of new values are interpolated. Values outside the range have the score of the nearest
    value.
    Missing values have the mean score, 0.

    Parameters
    ----------
    numbers : ndarray of float64 of shape (n_samples, n_columns)
        Unscaled numbers: next to an outlier, scaling may round different numbers to equal values.
    weight : ndarray of shape (n_samples,), optional
    """

    def __init__(self, numbers: Floats, weight: Floats | None = None) -> None:
        weight = np.ones(len(numbers)) if weight is None else weight
        known = ~np.isnan(numbers)
        self._scores = [_scores(x[k], weight[k]) for x, k in zip(numbers.T, known.T, strict=True)]

    def of(self, numbers: Floats) -> Floats:
        """Return the scores of numbers."""
        found = np.zeros(numbers.shape)
        for j, (values, scores) in enumerate(self._scores):
            found[:, j] = np.interp(numbers[:, j], values, scores)
        return np.nan_to_num(found, copy=False)


def _scores(column: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return values of a column in increasing order, and their scores."""
    values, place = np.unique(column, return_inverse=True)
    mass = np.bincount(place, weight) / weight.sum()
    rank = np.clip(np.cumsum(mass) - mass / 2, _LEAST_SHARE, 1 - _LEAST_SHARE)
    scores = ndtri(rank)
    scores -= mass @ scores
    scores /= np.sqrt(mass @ scores**2) or 1.0
    if len(values) > _MOST_SCORES:
        places = np.searchsorted(rank, np.linspace(0, 1, _MOST_SCORES))
        kept = np.unique(np.minimum(places, len(values) - 1))
        values, scores = values[kept], scores[kept]
    return values, scores
