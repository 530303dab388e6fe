"""What labels are, and what an estimator says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.multiclass import type_of_target

from metricfast._labels.binding import agreed
from metricfast._labels.distance import label_array

__all__ = ["are_continuous", "label_distance_of", "takes_numbers"]


def are_continuous(labels: Any, name: str = "labels") -> bool:
    """Tell whether labels look continuous: vectors, or numbers that are not all integers.

    Raises ValueError if they are rows that encode classes, or objects that are neither classes nor
    numbers.
    """
    array = label_array(labels, name)
    if array.ndim == 2 and array.shape[1] > 1 and array.dtype.kind in "biuf":
        if np.isin(array, (0, 1)).all() and (array.sum(axis=1) == 1).all():
            raise ValueError(
                f"{name} encode classes in rows of a single 1: give the classes, "
                f"np.argmax({name}, axis=1). Where they are vectors, say so by label_distance=."
            )
        return True
    try:
        kind = type_of_target(array)
    except TypeError:  # of labels that have no order
        kind = "unknown"
    if kind == "unknown" and array.dtype.kind == "O":
        raise ValueError(
            f"{name} must hold classes or numbers; say how far others are apart by label_distance."
        )
    return array.ndim > 1 or bool(kind.startswith("continuous"))


def label_distance_of(estimator: Any, given: Any) -> Any:
    """Return the label distance that an estimator has, or that is given; both must agree."""
    said = getattr(_innermost(estimator), "_said_label_distance", None)
    return agreed({"the estimator": said, "label_distance=": given})


def takes_numbers(estimator: Any) -> bool:
    """Tell whether the labels of an estimator, or of the one that it wraps, are numbers."""
    estimator = _innermost(estimator)
    return not getattr(estimator, "_has_classes", not isinstance(estimator, RegressorMixin))


def _innermost(estimator: Any) -> Any:
    """Return what pipelines, searches and learners around another one fit in the end."""
    inside = estimator
    while inside is not None:
        estimator = inside
        if isinstance(estimator, Pipeline):
            inside = estimator.steps[-1][1]
        else:
            inside = getattr(estimator, "estimator", getattr(estimator, "learner", None))
    return estimator
