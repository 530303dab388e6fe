"""What learners share that find their map in closed form, from scatter matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arrays import as_threads
from metricfast._core.scaling import center_and_rescale, undo_scale
from metricfast._core.scatter import pair_scatter, repetitions
from metricfast._core.targets import check_sample_weight
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast.constraints import class_neighbors
from metricfast.learners.base.constraints import Drawn, FromClasses, Weight
from metricfast.learners.base.learner import MahalanobisMixin

__all__ = [
    "ClosedFormLearner",
    "ClosedFormOfClasses",
    "Labelled",
    "neighborhood_scatters",
    "weighted",
]

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


def neighborhood_scatters(
    X: Array,
    labels: Integers,
    weight: Floats | None,
    k_genuine: int,
    k_impostor: int,
    n_jobs: int | None,
) -> tuple[Floats, Floats, Floats]:
    """Sum the mean outer products of points less their nearest neighbours, weighted by point.

    `X`: ndarray of shape (n_samples, n_features).
    `labels`: ndarray of shape (n_samples,); codes of classes.
    `weight`: ndarray of shape (n_samples,), or None.
    `k_genuine`, `k_impostor`: neighbours of the same class and of other classes.
    Returns within, between, ndarrays of shape (n_features, n_features): for neighbours of the same
    class, and of other classes; totals, ndarray of shape (2,): weight of the points that have
    neighbours of the same class, and of other classes.
    """
    d, weights = X.shape[1], repetitions(weight, len(X))
    scatters, totals = np.zeros((2, d, d)), np.zeros(2)
    for members, *found in class_neighbors(X, labels, k_genuine, k_impostor, n_jobs):
        for side, near in enumerate(found):
            k = near.shape[1]
            if k:
                pairs = np.column_stack((np.repeat(members, k), near.ravel()))
                scatters[side] += pair_scatter(X, pairs, np.repeat(weights[members] / k, k))
                totals[side] += weights[members].sum()
    return scatters[0], scatters[1], totals
