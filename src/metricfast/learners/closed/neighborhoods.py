"""Scatter of points around their neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricfast._core.scatter import pair_scatter, repetitions
from metricfast.constraints import class_neighbors
from metricfast.learners.base.points import TrainingSet

__all__ = ["neighborhood_scatters"]

_Floats = NDArray[np.float64]


def neighborhood_scatters(
    data: TrainingSet, k_genuine: int, k_impostor: int, n_jobs: int | None
) -> tuple[_Floats, _Floats, _Floats]:
    """Sum the mean outer products of points less their nearest neighbours, weighted by point.

    Parameters
    ----------
    data : TrainingSet
    k_genuine, k_impostor : int
        Neighbours of the same class and of other classes.
    n_jobs : int or None

    Returns
    -------
    within, between : ndarrays of shape (n_features, n_features)
        For neighbours of the same class, and of other classes.
    totals : ndarray of shape (2,)
        Weight of the points that have neighbours of the same class, and of other classes.
    """
    d, weights = data.X.shape[1], repetitions(data.weight, len(data.X))
    scatters, totals = np.zeros((2, d, d)), np.zeros(2)
    for members, *found in class_neighbors(data.X, data.labels, k_genuine, k_impostor, n_jobs):
        for side, near in enumerate(found):
            k = near.shape[1]
            if k:
                pairs = np.column_stack((np.repeat(members, k), near.ravel()))
                scatters[side] += pair_scatter(data.X, pairs, np.repeat(weights[members] / k, k))
                totals[side] += weights[members].sum()
    return scatters[0], scatters[1], totals
