"""Encoding of tables with categories and missing values, as `NCAClassifier` encodes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from metricfast._core.frames import column_of, columns_of, kind_of, missing_among
from metricfast._core.types import Array, Integers
from metricfast.predictors.tables import Table

__all__ = ["TableEncoder", "encoder_of"]


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Standardise numbers, mark missing ones, and encode categories.

    `categorical_features`: indices of the columns of categories.
    """

    def __init__(self, categorical_features: Sequence[int] | Integers = ()) -> None:
        self.categorical_features = categorical_features

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn the encoding of the columns."""
        self.table_ = Table(self, X)
        return self

    def transform(self, X: Any) -> Array:
        """Return the points of a table."""
        return self.table_.encoded(self, X)


def encoder_of(X: Any) -> TableEncoder | None:
    """Return the encoder of a frame, or None for points that are numbers.

    Columns of categories and of text that repeats are categories. Raises ValueError for columns of
    other text.
    """
    columns, categories, missing = columns_of(X), list[int](), False
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
    return TableEncoder(np.array(categories, np.int64)) if categories or missing else None
