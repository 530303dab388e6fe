"""Targets of classification and regression, with one or several outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing, check_consistent_length
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _num_samples

from metricfast._core.arguments import check_choice
from metricfast._core.checks import check_enough
from metricfast._core.frames import as_readable, as_table
from metricfast._core.sparse import made_dense
from metricfast._core.targets import (
    as_column,
    as_label_array,
    check_class_labels,
    check_comparable,
    check_sample_weight,
    encode,
    encode_together,
    join_labels,
)
from metricfast._core.types import Array, Floats, Integers
from metricfast.predictors.metric import is_searched
from metricfast.selection._judge import Judge, as_judge


def check_given(estimator: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Validate that points and targets have the same length, and return both."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    y = as_readable(made_dense(y, "y"), "y")
    if is_searched(X):
        return X, y
    X = as_table(X, "X")
    check_consistent_length(X, y)
    check_enough(estimator, X.shape if hasattr(X, "shape") else (_num_samples(X), 1))
    return X, y


def judge_of_points(value: Any) -> Judge | None:
    """Return the judge for the parameter `judge` of a predictor, which holds points out."""
    judge = as_judge(value)
    if judge is not None and judge.unit not in ("auto", "points"):
        raise ValueError(
            f"unit of the judge must be 'auto' or 'points' to predict; got {judge.unit!r}."
        )
    return judge


def rows_of_table(X: Any, rows: Integers) -> Any:
    """Return some rows of a table, a sparse matrix, points on disk or an array-like."""
    if hasattr(X, "columns"):
        return _safe_indexing(X, rows)
    return (X if hasattr(X, "dtype") else np.asarray(X))[rows]


@dataclass(frozen=True)
class Classes:
    """Class labels encoded as integers, for one or several outputs.

    Attributes
    ----------
    known : list of ndarray
        The classes of each output, sorted.
    codes : ndarray of int64 of shape (n_samples, n_outputs)
    several : bool
        Whether the labels are two-dimensional.
    """

    known: list[Array]
    codes: Integers
    several: bool

    @classmethod
    def of(cls, y: Any, classes: Any = None) -> Classes:
        """Encode labels; `classes` may hold more, as a list of arrays for several outputs."""
        labels = as_label_array(y, "y")
        several = labels.ndim == 2 and labels.shape[1] > 1
        columns = list(labels.T) if several else [as_column(labels, "y")]
        for column in columns:
            check_class_labels(column)
        encoded = [encode(column, "y") for column in columns]
        found = cls([known for known, _ in encoded], np.stack([c for _, c in encoded], 1), several)
        if classes is None:
            return found
        given = list(classes) if several else [classes]
        return found.knowing([as_label_array(each, "classes") for each in given], "classes")

    def knowing(self, more: list[Array], name: str) -> Classes:
        """Return the same labels with more classes. Errors refer to the classes by `name`."""
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
        """Concatenate the labels of both."""
        own, others = self.knowing(other.known, "y"), other.knowing(self.known, "y")
        return Classes(own.known, np.concatenate([own.codes, others.codes]), self.several)

    def labels(self, codes: Integers) -> Array:
        """Decode labels, of shape (n_samples, n_outputs), or (n_samples,) for one output."""
        columns: list[Array] = [k[c] for k, c in zip(self.known, codes.T, strict=True)]
        if not self.several:
            return columns[0]
        return np.stack(np.split(join_labels(*columns), len(columns)), axis=1)


def with_class_weight(weight: Floats | None, class_weight: Any, y: Any) -> Floats | None:
    """Return the sample weights times the class weights; None if there are neither.

    `class_weight`: None, "balanced", a dict, or a list of dicts for several outputs, as in
    scikit-learn; the weights of several outputs are multiplied. "balanced" counts samples with
    weight above 0.
    """
    if class_weight is None:
        return weight
    if isinstance(class_weight, str):
        check_choice("class_weight", class_weight, ("balanced", None))
    elif not isinstance(class_weight, (dict, list)):
        raise TypeError(
            'class_weight must be "balanced", or a dict of weights by class (a list of '
            f"them for several outputs), got {class_weight!r}."
        )
    try:
        named = isinstance(class_weight, str)
        rows = np.flatnonzero(weight) if named and weight is not None else None
        of_classes = compute_sample_weight(class_weight, y, indices=rows)
    except (TypeError, ValueError) as error:
        raise ValueError(f"class_weight={class_weight!r}: {error}") from error
    of_classes = check_sample_weight(of_classes, len(of_classes), "class_weight")
    if weight is None or of_classes is None:
        return of_classes
    return check_sample_weight(weight * of_classes, len(weight), "sample_weight times class_weight")


def joined_weights(
    weight: Floats | None, n_samples: int, added: Floats | None, n_added: int
) -> Floats | None:
    """Concatenate the weights of samples and of added samples; None stands for ones."""
    if weight is None and added is None:
        return None
    parts = ((weight, n_samples), (added, n_added))
    return np.concatenate([np.ones(n) if part is None else part for part, n in parts])
