"""Encoding of tables with categories, dates and missing values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from metricfast._core.frames import as_table, column_of, columns_of, kind_of, missing_among
from metricfast._core.types import Array, Floats, Integers
from metricfast.predictors.tables import Table


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Standardise numbers, mark missing ones, and encode categories as `NCAClassifier` does.

    Dates and durations are numbers of days.

    `categorical_features`: indices of the columns of categories.
    `date_features`: indices of the columns of dates and durations.
    """

    def __init__(
        self, categorical_features: Sequence[int] | Integers = (), date_features: Sequence[int] = ()
    ) -> None:
        self.categorical_features, self.date_features = categorical_features, date_features

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn the encoding of the columns."""
        self.table_ = Table(self, self._with_days(X))
        return self

    def transform(self, X: Any) -> Array:
        """Return the points of a table."""
        return self.table_.encoded(self, self._with_days(X))

    def _with_days(self, X: Any) -> Any:
        """Return a frame with numbers of days in place of dates."""
        if not len(self.date_features):
            return X
        X = as_table(X, "X")
        names = [name for name, _ in columns_of(X)]
        for j in self.date_features:
            if j >= len(names):
                raise ValueError(f"X must have a column of dates at place {j}, as in fit.")
            days = _days(column_of(X, j), names[j])
            if hasattr(X, "iloc"):
                X = X.copy(deep=False)
                X.isetitem(j, days)
            elif hasattr(X, "with_columns"):
                X = X.with_columns(type(X[names[j]])(names[j], days))
            else:
                X = X.set_column(j, names[j], [days])
        return X


def _days(values: Array, name: Any) -> Floats:
    """Return dates, in local time, as days since 1970, and durations in days; NaN for missing."""
    if values.dtype.kind == "O":
        known = ~missing_among(values)
        dates = np.full(len(values), np.datetime64("NaT"), "datetime64[us]")
        try:
            dates[known] = [
                each.replace(tzinfo=None) if hasattr(each, "tzinfo") else each
                for each in values[known]
            ]
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"X holds times in its column {name!r} that are no dates, such as "
                f"{values[known][0]!r}: leave the column out, or give preprocessing."
            ) from error
        values = dates
    if values.dtype.kind not in "mM":
        return np.asarray(values, np.float64)  # days already
    micro = values.astype(f"{values.dtype.kind}8[us]")
    return np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / 86_400_000_000)


def encoder_of(X: Any) -> TableEncoder | None:
    """Return the encoder of a frame, or None for points that are numbers.

    Columns of categories and of text that repeats are categories. Dates are numbers. Raises
    ValueError for columns of other text.
    """
    columns, categories, dates, missing = columns_of(X), list[int](), list[int](), False
    for j, (name, dtype) in enumerate(columns):
        values = column_of(X, j)
        kind = kind_of(dtype)
        if dtype.lower() == "object" and any(isinstance(x, str) for x in values):
            kind = "text"
        unknown = missing_among(values)
        missing |= bool(unknown.any())
        if kind == "text" and 2 * len(set(values[~unknown])) > len(values):
            raise ValueError(
                f"X holds text in its column {name!r} that hardly repeats, so it names no "
                "categories: leave the column out, or give preprocessing."
            )
        if kind in ("text", "categories"):
            categories.append(j)
        if kind == "dates":
            dates.append(j)
    if not (categories or dates or missing):
        return None
    return TableEncoder(np.array(categories, np.int64), dates)
