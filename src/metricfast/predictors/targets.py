"""What neighbours vote for or are averaged: classes or numbers, one or several a point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import column_or_1d

from metricfast._core.arguments import as_real
from metricfast._core.frames import as_readable, as_table
from metricfast._core.targets import (
    as_label_array,
    check_class_labels,
    check_comparable,
    encode,
    encode_together,
    join_labels,
)
from metricfast._core.types import Array, Floats, Integers

__all__ = ["Classes", "as_numbers", "check_given"]


def check_given(estimator: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return points and targets, of which there are as many, as scikit-learn knows them."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    X, y = as_table(X, "X"), y.toarray() if issparse(y) else as_readable(y, "y")
    check_consistent_length(X, y)
    return X, y


@dataclass(frozen=True)
class Classes:
    """Class labels as codes, of one output or several.

    Attributes
    ----------
    known : list of ndarray
        The classes of each output, sorted.
    codes : ndarray of int64 of shape (n_samples, n_outputs)
    several : bool
        Whether labels are of two dimensions.
    """

    known: list[Array]
    codes: Integers
    several: bool

    @classmethod
    def of(cls, y: Any, classes: Any = None) -> Classes:
        """Encode labels; `classes` may hold more, of several outputs as a list of arrays."""
        labels = as_label_array(y, "y")
        several = labels.ndim == 2 and labels.shape[1] > 1
        columns = list(labels.T) if several else [column_or_1d(labels, warn=True)]
        for column in columns:
            check_class_labels(column)
        encoded = [encode(column, "y") for column in columns]
        found = cls([known for known, _ in encoded], np.stack([c for _, c in encoded], 1), several)
        if classes is None:
            return found
        given = list(classes) if several else [classes]
        return found.knowing([as_label_array(each, "classes") for each in given], "classes")

    def knowing(self, more: list[Array], name: str) -> Classes:
        """Return the same labels among more classes; `name` is what errors call these."""
        if len(more) != len(self.known):
            raise ValueError(
                f"{name} must be of {len(self.known)} outputs, as before; found {len(more)}."
            )
        for one, other in zip(self.known, more, strict=True):
            check_comparable(other, one, name)
        pairs = zip(self.known, more, strict=True)
        found = [encode_together([one, other.ravel()], name) for one, other in pairs]
        columns = zip(found, self.codes.T, strict=True)
        codes = [places[column] for (_, (places, _)), column in columns]
        return Classes([known for known, _ in found], np.stack(codes, axis=1), self.several)

    def joined(self, other: Classes) -> Classes:
        """Return the labels of both, one after the other."""
        own, others = self.knowing(other.known, "y"), other.knowing(self.known, "y")
        return Classes(own.known, np.concatenate([own.codes, others.codes]), self.several)

    def labels(self, codes: Integers) -> Array:
        """Return labels of codes, of shape (n_samples, n_outputs), or (n_samples,) of one."""
        columns: list[Array] = [k[c] for k, c in zip(self.known, codes.T, strict=True)]
        if not self.several:
            return columns[0]
        return np.stack(np.split(join_labels(*columns), len(columns)), axis=1)


def as_numbers(y: Any) -> Floats:
    """Return finite numbers, of shape (n_samples,) or (n_samples, n_outputs)."""
    numbers: Floats = np.array(as_real(y, "y"), np.float64)
    if numbers.ndim not in (1, 2) or 0 in numbers.shape[1:]:
        raise ValueError(
            f"y should be a 1d array, or have a row a point, got an array of shape {numbers.shape}."
        )
    if not np.isfinite(numbers).all():
        raise ValueError("Input y contains NaN or infinity: leave these points out.")
    return numbers
