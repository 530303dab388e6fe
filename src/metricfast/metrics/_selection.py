"""Selection of the metrics of a report, by the kind of labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.multiclass import type_of_target

from metricfast._core.arguments import did_you_mean
from metricfast._core.types import Array
from metricfast._labels.binding import agreed
from metricfast._labels.distance import label_array
from metricfast._labels.tags import are_tags
from metricfast.metrics._classes import CLASS_METRICS
from metricfast.metrics._continuous import CONTINUOUS_METRICS
from metricfast.metrics._shots import SHOT_METRICS

# The metric and the k of each score.
Wanted = dict[str, tuple[str, int]]
METRICS: dict[str, Any] = CLASS_METRICS | SHOT_METRICS | CONTINUOUS_METRICS


def chosen_metrics(
    metrics: str | Sequence[str] | None, labels: ArrayLike, continuous: bool | None = None
) -> list[str]:
    """Return the names of the metrics; by default those that fit the labels."""
    if metrics is None:
        continuous = are_continuous(labels) if continuous is None else continuous
        return list(CONTINUOUS_METRICS if continuous else CLASS_METRICS)
    one = isinstance(metrics, str) or not np.iterable(metrics)
    names: list[Any] = [metrics] if one else list(metrics)
    unknown = [name for name in names if not (isinstance(name, str) and name in METRICS)]
    if unknown or not names:
        meant = "".join(did_you_mean(name, METRICS) for name in unknown[:1])
        raise ValueError(f"metrics must be among {', '.join(METRICS)}; found {unknown}.{meant}")
    return names


def scores_of(names: Iterable[str], k: Any) -> Wanted:
    """Return the metric and the k of each score. With several k, names end in their k."""
    several = np.iterable(k) and not isinstance(k, str)
    counts = list(k) if several else [k]
    for each in counts:
        if not isinstance(each, (int, np.integer)) or isinstance(each, bool) or each < 1:
            raise ValueError(f"k must be a positive integer, or several; found {each!r}.")
    counts = [int(each) for each in counts]
    if not counts:
        raise ValueError("k must be a positive integer, or several; found none.")
    wanted: Wanted = {}
    for name in names:
        if several and name.endswith("_at_k"):
            wanted |= {f"{name[:-1]}{each}": (name, each) for each in counts}
        else:
            wanted[name] = name, max(counts)
    return wanted


def are_continuous(labels: Any, name: str = "labels") -> bool:
    """Return whether labels look continuous: vectors, or numbers that are not all integers.

    Raises ValueError if they are rows that encode classes, or objects that are neither classes nor
    numbers.
    """
    if are_tags(labels):
        return False
    array = label_array(labels, name)
    if array.ndim == 2 and array.shape[1] > 1 and array.dtype.kind in "biuf":
        if np.isin(array, (0, 1)).all() and (array.sum(axis=1) == 1).all():
            raise ValueError(
                f"{name} encode classes in rows of a single 1: give the classes, "
                f"np.argmax({name}, axis=1), or booleans, which are tags. If "
                "they are vectors, give label_distance."
            )
        return True
    try:
        kind = type_of_target(array)
    except TypeError:  # labels cannot be sorted
        kind = "unknown"
    if kind == "unknown" and array.dtype.kind == "O":
        raise ValueError(
            f"{name} must hold classes or numbers; for other labels, give label_distance."
        )
    return array.ndim > 1 or bool(kind.startswith("continuous"))


def look_continuous(labels: Array) -> bool:
    """Return whether labels are fractions, or mostly unique integers."""
    rare = labels.dtype.kind in "iuf" and len(labels) < 2 * len(np.unique(labels))
    return bool(are_continuous(labels, "y") or rare)


def nested(estimator: Any, *attributes: str) -> list[Any]:
    """Yield an estimator, the last step or the attribute that it wraps, and so on."""
    found = []
    while estimator is not None:
        found.append(estimator)
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        else:
            inside = (getattr(estimator, name) for name in attributes if hasattr(estimator, name))
            estimator = next(inside, None)
    return found


def unwrapped(estimator: Any) -> tuple[list[Pipeline], Any]:
    """Return the steps before the last one of a fitted estimator, and the last step."""
    *outer, final = nested(estimator, "best_estimator_")
    return [each[:-1] for each in outer if isinstance(each, Pipeline) and len(each) > 1], final


def label_distance_of(estimator: Any, given: Any) -> Any:
    """Return the label distance of an estimator, or the given one. Both must agree."""
    fitted = nested(estimator, "estimator", "learner")[-1]
    said = getattr(fitted, "_said_label_distance", None)
    return agreed({"the estimator": said, "label_distance=": given})


def takes_numbers(estimator: Any) -> bool:
    """Return whether an estimator, or the one that it wraps, takes numbers as labels."""
    fitted = nested(estimator, "estimator", "learner")[-1]
    return not getattr(fitted, "_has_classes", not isinstance(fitted, RegressorMixin))
