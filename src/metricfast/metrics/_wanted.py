"""Which scores a report holds: metrics that fit the labels, for one k or several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast.metrics._classes import CLASS_METRICS
from metricfast.metrics._continuous import CONTINUOUS_METRICS
from metricfast.metrics._labels import are_continuous

__all__ = ["METRICS", "Wanted", "chosen_metrics", "scores_of"]

# The metric and the k of each score.
Wanted = dict[str, tuple[str, int]]
METRICS = CLASS_METRICS | CONTINUOUS_METRICS


def chosen_metrics(
    metrics: str | Sequence[str] | None, labels: ArrayLike, continuous: bool | None = None
) -> list[str]:
    """Names of the metrics, those that fit the labels where none are given."""
    if metrics is None:
        continuous = are_continuous(labels) if continuous is None else continuous
        return list(CONTINUOUS_METRICS if continuous else CLASS_METRICS)
    one = isinstance(metrics, str) or not np.iterable(metrics)
    names: list[Any] = [metrics] if one else list(metrics)
    unknown = [name for name in names if not (isinstance(name, str) and name in METRICS)]
    if unknown or not names:
        raise ValueError(f"metrics must be among {', '.join(METRICS)}; found {unknown}.")
    return names


def scores_of(names: Iterable[str], k: Any) -> Wanted:
    """Return the metric and the k of each score; the names of several k end in theirs."""
    several = np.iterable(k) and not isinstance(k, str)
    counts = list(k) if several else [k]
    for each in counts:
        if not isinstance(each, (int, np.integer)) or isinstance(each, bool) or each < 1:
            raise ValueError(f"k must be a positive integer, or several; found {each!r}.")
    if not counts:
        raise ValueError("k must be a positive integer, or several; found none.")
    wanted: Wanted = {}
    for name in names:
        if several and name.endswith("_at_k"):
            wanted |= {f"{name[:-1]}{each}": (name, each) for each in counts}
        else:
            wanted[name] = name, max(counts)
    return wanted
