"""Indicators of categories: columns of zeros and ones in place of columns of objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from metricfast._core.targets import encode
from metricfast._core.types import Array, Integers

__all__ = ["Indicators"]

# As many categories of a column as gradient boosting by histograms takes; rarer ones are one.
_MOST = 255


class Indicators:
    """The categories of columns, each with an indicator of its own.

    A column of more than 255 categories has 254 indicators of the most frequent ones, and a last
    one that all others share, unseen ones included. In other columns, unseen categories have no
    indicator.

    Parameters
    ----------
    columns : ndarray of object of shape (n_samples, n_columns)
        Categories; None is one of them.

    Attributes
    ----------
    known : list of ndarray of object
        Of each column, the categories that have an indicator of their own, sorted, None last.
    shared : ndarray of bool of shape (n_columns,)
        Whether the other categories share an indicator.
    """

    def __init__(self, columns: Array) -> None:
        found = [_frequent(column) for column in columns.T]
        self.known = [known for known, _ in found]
        self.shared = np.array([is_shared for _, is_shared in found])

    @property
    def sizes(self) -> Integers:
        """The number of indicators of each column."""
        found: Integers = np.array([len(known) for known in self.known]) + self.shared
        return found

    def of(self, columns: Array) -> Array:
        """Return the indicators of each row, in float32."""
        parts = []
        for column, known, is_shared, size in zip(
            columns.T, self.known, self.shared, self.sizes, strict=True
        ):
            places = {category: place for place, category in enumerate(known)}
            other = len(known) if is_shared else -1
            with _naming_lists():
                place = np.array([places.get(category, other) for category in column], np.int64)
            parts.append((place[:, None] == np.arange(size)).astype(np.float32))
        return np.concatenate(parts, axis=1)


def _frequent(column: Array) -> tuple[Array, bool]:
    """Return the categories of a column, or the most frequent ones and that there are others."""
    with _naming_lists():
        counts = Counter(column)
    present = np.fromiter((each for each in counts if each is not None), dtype=object)
    known = np.append(encode(present, "a column of categories in X")[0], [None] * (None in counts))
    if len(known) <= _MOST:
        return known, False
    order = np.argsort([counts[category] for category in known], kind="stable")
    return known[np.sort(order[1 - _MOST :])], True


@contextmanager
def _naming_lists() -> Iterator[None]:
    try:
        yield
    except TypeError as error:  # they cannot be hashed
        raise TypeError(f"X must hold numbers or text as categories; found an {error}.") from error
