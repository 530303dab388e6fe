"""What learners share that find their map in closed form, from scatter matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arrays import as_threads
from metricfast._core.scaling import center_and_rescale, undo_scale
from metricfast._core.scatter import repetitions
from metricfast._core.targets import check_sample_weight
from metricfast._core.types import Array, Floats, RandomState
from metricfast.learners.base.constraints import Drawn, FromClasses, Weight
from metricfast.learners.base.learner import MahalanobisMixin

__all__ = ["ClosedFormLearner", "ClosedFormOfClasses", "Labelled", "weighted"]

# Points, their classes and weights.
Labelled = tuple[Array, Array, Floats | None]


class ClosedFormLearner(MahalanobisMixin):
    """Base of learners that compute their map from scatter matrices of points."""

    def _keep(self, rows: Floats, n_rows: int, exponent: int, precision: np.dtype[Any]) -> None:
        """Keep a map of the rescaled points, with zero rows where it has fewer than `n_rows`."""
        components = np.zeros((n_rows, rows.shape[1]))
        components[: len(rows)] = rows[:n_rows]
        self.components_ = undo_scale(components, exponent, precision)


class ClosedFormOfClasses(FromClasses, ClosedFormLearner):
    """Base of those of class labels: a learner defines `_learn`, of points, labels and weights."""

    _partial_labels = False

    def _draw(self, points: Array, labels: Array, sample_weight: Weight, rng: RandomState) -> Drawn:
        as_threads(self.n_jobs)
        return (points, labels, check_sample_weight(sample_weight, len(points))), {}


def weighted(X: Array, y: Any, sample_weight: ArrayLike | None) -> tuple[Array, Any, Floats, int]:
    """Prepare checked points.

    Returns X, ndarray of shape (n_samples, n_features): points of positive weight less their mean,
    times ``2**-exponent``; y, ndarray of shape (n_samples,), or None: what was given for them;
    weights, ndarray of shape (n_samples,), float64: how often each counts; exponent, int.
    """
    weights = repetitions(check_sample_weight(sample_weight, len(X)), len(X))
    seen = weights > 0
    if not seen.all():
        X, y, weights = X[seen], None if y is None else y[seen], weights[seen]
    X, exponent = center_and_rescale(X)
    return X, y, weights, exponent
