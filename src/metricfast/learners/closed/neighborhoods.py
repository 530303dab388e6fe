"""Scatters of differences from nearest neighbours, within and between classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metricfast._core.scatter import pair_scatter, repetitions
from metricfast._core.scatter_statistics import ScatterStatistics, centered
from metricfast._core.types import Floats, Integers
from metricfast.constraints import class_neighbors

__all__ = ["neighborhood_scatters", "scatters_of_anchors"]


def neighborhood_scatters(
    X: Any,
    labels: Integers,
    weight: Floats | None,
    k_genuine: int,
    k_impostor: int,
    n_jobs: int | None,
    execute: Callable[..., Any] | None = None,
) -> tuple[ScatterStatistics, ScatterStatistics]:
    """Sum the weighted mean outer products of differences from nearest neighbours.

    `X`: of shape (n_samples, n_features); points as given.
    `labels`: ndarray of shape (n_samples,); codes of classes.
    `weight`: ndarray of shape (n_samples,), or None.
    `k_genuine`, `k_impostor`: neighbours of the same class and of other classes.
    `execute`: called in place of :func:`scatters_of_anchors`.
    Returns sums of two groups: differences from neighbours of the same class, 0, and of other
    classes, 1, with the weight of the points that have such; and the sums of all points.
    """
    weights = repetitions(weight, X.shape[0])
    X, exponent, points = centered(X)
    scatters, totals = (execute or scatters_of_anchors)(
        X, labels, weights, k_genuine, k_impostor, n_jobs
    )
    return ScatterStatistics.of_scatters(np.arange(2), totals, scatters, exponent, X.dtype), points


def scatters_of_anchors(
    X: Any,
    labels: Integers,
    weights: Floats,
    k_genuine: int,
    k_impostor: int,
    n_jobs: int | None,
    anchors: Integers | None = None,
) -> tuple[Floats, Floats]:
    """Return both scatters of differences from neighbours, and the weights of the points.

    `anchors`: ascending rows of the points whose neighbours are searched; by default all. Results
        of disjoint anchors can be added.
    """
    scatters, totals = np.zeros((2, X.shape[1], X.shape[1])), np.zeros(2)
    how: dict[str, Any] = {"n_jobs": n_jobs, "anchors": anchors}
    for members, *found in class_neighbors(X, labels, k_genuine, k_impostor, **how):
        for side, near in enumerate(found):
            k = near.shape[1]
            if k:
                pairs = np.column_stack((np.repeat(members, k), near.ravel()))
                scatters[side] += pair_scatter(X, pairs, np.repeat(weights[members] / k, k))
                totals[side] += weights[members].sum()
    return scatters, totals
