"""Scatter of points around their neighbours."""

from __future__ import annotations

import numpy as np

from metricfast._core.scatter import pair_scatter, repetitions
from metricfast._core.types import Array, Floats, Integers
from metricfast.constraints import class_neighbors

__all__ = ["neighborhood_scatters"]


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
