"""Distributed fits of closed forms: statistics of partitions, merged in a fixed order."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from dask import delayed
from sklearn.base import clone

from metricfast._core.checks import check_points
from metricfast._core.memory import in_caller_memory
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.targets import check_sample_weight
from metricfast._core.thresholds import best_threshold
from metricfast.dask._rows import row_blocks
from metricfast.dask._workers import Workers
from metricfast.learners.base.closed_form import Statistics
from metricfast.learners.base.inputs import begin_fit
from metricfast.learners.tuples.pair_sums import pair_sums

__all__ = ["fit_by_sums", "is_exact"]

# A learner that has seen the points of a part, and their sums.
Part = tuple[Any, tuple[ScatterStatistics, ...]]


def is_exact(learner: Any) -> bool:
    """Return whether the statistics of parts add up: nothing is drawn or searched."""
    return bool(getattr(learner, "_exact_in_parts", False))


def fit_by_sums(learner: Any, workers: Workers, X: Any, y: Any, weight: Any) -> Any:
    """Return the learner, fitted to the sums of all partitions, of which the client sees these."""
    blocks = row_blocks(X, y=y, sample_weight=weight)
    parts = [delayed(in_caller_memory(_summed))(learner, block) for block in blocks]
    while len(parts) > 1:  # neighbours, so that no worker ever has more than two
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [delayed(_merged)(*pair) if len(pair) > 1 else pair[0] for pair in pairs]
    (found,) = workers.computed(parts)
    if found is None:
        raise ValueError("X must hold at least 2 points; found 0.")
    fitted, sums = found
    fitted._solve(Statistics(sums).normalized())
    fitted._sums = sums
    if fitted._tuple_size is not None:
        judged = [delayed(in_caller_memory(_judged))(fitted, block) for block in blocks]
        distances, labels, weights = (
            np.concatenate(column) for column in zip(*workers.computed(judged), strict=True)
        )
        fitted.threshold_ = best_threshold(distances, labels, weights)
    return fitted


def _summed(learner: Any, block: tuple[Any, ...]) -> Part | None:
    X, y, weight = block
    if not X.shape[0]:
        return None
    learner = clone(learner)
    if learner._tuple_size is not None:
        tuples = learner._prepare_tuples(X, y).weighted(weight)
        return learner, (pair_sums(tuples),)
    begin_fit(learner)
    y = y if learner._requires_y else None
    checked = check_points(learner, X, y, preprocessor=learner.preprocessor_, reset=True, order="C")
    points, labels = (checked, None) if y is None else checked
    weights = check_sample_weight(weight, len(points))
    return learner, learner._statistics(points, labels, weights, partial=True).sums


def _merged(first: Part | None, second: Part | None) -> Part | None:
    if first is None or second is None:
        return second if first is None else first
    pairs = zip(first[1], second[1], strict=True)
    return first[0], tuple(copy.deepcopy(sums).merge(more) for sums, more in pairs)


def _judged(learner: Any, block: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return distances, labels and weights of pairs."""
    pairs, y, weight = block
    labels = np.asarray(y)
    distances = -learner.decision_function(pairs) if len(labels) else np.empty(0)
    return distances, labels, np.ones(len(labels)) if weight is None else np.asarray(weight)
