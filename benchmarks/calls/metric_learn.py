"""metric-learn."""

from __future__ import annotations

__all__ = ["fit", "fit_tuples", "pair_distance"]

from typing import Any

import metric_learn

from benchmarks.calls import Call, Data, distances_of_pairs, fitting, fitting_tuples


def fit(data: Data, threads: int, learner: str, target: str = "y", **params: Any) -> Call:
    """Time a learner."""
    return fitting(getattr(metric_learn, learner)(**params), data, target)


def fit_tuples(data: Data, threads: int, learner: str) -> Call:
    """Time a learner on tuples."""
    return fitting_tuples(getattr(metric_learn, learner)(random_state=0), data)


def pair_distance(data: Data, threads: int) -> Call:
    """Time the distances of pairs."""
    return distances_of_pairs(metric_learn.Covariance(), data)
