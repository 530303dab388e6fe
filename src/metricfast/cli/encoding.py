"""Tables as points: numbers as they are, categories as indicators, missing values filled."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from metricfast._core.types import Array, Floats

__all__ = ["Column", "TableEncoder", "category", "is_date", "is_number", "numbers"]

# As many categories of a column as gradient boosting by histograms takes; rarer ones are one.
_MOST = 255
OTHER, MISSING = "other", "missing"
_WHOLE = re.compile(r"-?\d+\.0+")


@dataclass(frozen=True)
class Column:
    """How a column is encoded.

    `mean`: of numbers, in the place of missing ones; None of categories.
    `missing`: whether a value was missing, which has an indicator.
    `categories`: those with an indicator each.
    `other`: whether all other categories have one together.
    """

    name: str
    mean: float | None
    missing: bool
    categories: tuple[str, ...] = ()
    other: bool = False

    @property
    def names(self) -> list[str]:
        """What the column becomes."""
        first = [] if self.mean is None else [self.name]
        ends = [*self.categories, *[OTHER] * self.other, *[MISSING] * self.missing]
        return first + [f"{self.name}={end}" for end in ends]

    def encode(self, values: Any) -> Floats:
        """Return the columns that a column becomes."""
        missing = np.asarray(values.isna())
        if self.mean is not None:
            parts = [np.where(missing, self.mean, numbers(values))]
        else:
            texts = _texts(values)
            place: dict[str | None, int] = {name: j for j, name in enumerate(self.categories)}
            end = len(place)
            found = np.array([place.get(text, end) for text in texts])
            parts = [found == j for j in range(end)]
            if self.other:
                parts.append((found == end) & ~missing)
        if self.missing:
            parts.append(missing)
        encoded: Floats = np.array(parts, np.float64).reshape(-1, len(values)).T
        return encoded

    def unseen(self, values: Any) -> int:
        """Return how many values are categories that have no indicator."""
        if self.mean is not None or self.other:
            return 0
        known = set(self.categories)
        return sum(text is not None and text not in known for text in _texts(values))


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Numbers of a DataFrame, with means in place of missing ones; indicators of the rest.

    What it has learned is plain data, which a model file can hold: :meth:`state`.

    Parameters
    ----------
    categorical : sequence of str
        Columns of numbers that name categories.
    """

    def __init__(self, categorical: Sequence[str] = ()) -> None:
        self.categorical = categorical

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Look which columns there are, and what they hold."""
        del y
        self.columns_ = [self._column(name, X[name]) for name in X.columns]
        return self

    def _column(self, name: str, values: Any) -> Column:
        missing = bool(values.isna().any())
        if name not in self.categorical and is_number(values):
            known = numbers(values)[~np.asarray(values.isna())]
            return Column(name, float(known.mean()) if len(known) else 0.0, missing)
        counts = Counter(text for text in _texts(values) if text is not None)
        kept = sorted(text for text, _ in counts.most_common(_MOST))
        return Column(name, None, missing, tuple(kept), len(counts) > _MOST)

    def transform(self, X: Any) -> Floats:
        """Return points of shape (n, n_features)."""
        check_is_fitted(self)
        absent = [each.name for each in self.columns_ if each.name not in X.columns]
        if absent:
            raise ValueError(f"The table lacks the columns {', '.join(map(repr, absent))}.")
        return np.concatenate([each.encode(X[each.name]) for each in self.columns_], axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of features."""
        del input_features
        return np.array([name for each in self.columns_ for name in each.names], dtype=object)

    def unseen(self, X: Any) -> dict[str, int]:
        """Return, by column, how many values are categories that fitting did not see."""
        counts = {each.name: each.unseen(X[each.name]) for each in self.columns_}
        return {name: count for name, count in counts.items() if count}

    def state(self) -> list[dict[str, Any]]:
        """Return what was learned, as JSON can hold it."""
        return [asdict(each) for each in self.columns_]

    @classmethod
    def of(cls, state: list[dict[str, Any]]) -> TableEncoder:
        """Return the encoder that such a state is of."""
        encoder = cls()
        encoder.columns_ = [
            Column(**{**each, "categories": tuple(each["categories"])}) for each in state
        ]
        return encoder


def is_number(values: Any) -> bool:
    """Tell whether a column holds numbers or dates."""
    kind = getattr(values.dtype, "numpy_dtype", values.dtype)  # of types with missing values
    return getattr(kind, "kind", "O") in "biufmM"


def is_date(values: Any) -> bool:
    """Report whether a column holds dates."""
    kind = getattr(values.dtype, "numpy_dtype", values.dtype)
    return getattr(kind, "kind", "O") == "M"


def numbers(values: Any) -> Floats:
    """Return a column as numbers, dates in days; ValueError where it has others."""
    kind = getattr(values.dtype, "numpy_dtype", values.dtype)
    if getattr(kind, "kind", "O") in "mM":
        if kind.kind == "M" and values.dt.tz is not None:
            values = values.dt.tz_convert(None)
        from_zero = values.to_numpy().astype(f"{kind.kind}8[ns]")
        days = from_zero.astype(np.int64) / (24 * 3600 * 1e9)
        return np.where(np.isnat(from_zero), np.nan, days)
    try:
        found: Floats = values.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The column {values.name!r} must hold numbers: {error}") from error
    if np.isinf(found).any():
        raise ValueError(
            f"The column {values.name!r} holds infinity in row {np.isinf(found).argmax()}."
        )
    return found


def category(value: Any) -> str:
    """Return a category as text; a whole number has no fraction, whatever its type."""
    text = str(value).strip()
    return text.partition(".")[0] if _WHOLE.fullmatch(text) else text


def _texts(values: Any) -> Iterator[str | None]:
    """Give categories as text, None for missing ones."""
    for value, missing in zip(values.tolist(), values.isna(), strict=True):
        yield None if missing else category(value)
