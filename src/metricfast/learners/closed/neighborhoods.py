"""Scatters of differences from nearest neighbours, within and between classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metricfast._core.scatter import pair_scatter, repetitions
from metricfast._core.scatter_statistics import ScatterStatistics, centered
from metricfast._core.types import Floats, Integers
from metricfast.constraints import nearest_by_class


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
    Returns sums of two groups, and the sums of all points. Group 0 has the differences from
    neighbours of the same class, group 1 from neighbours of other classes. The weight of a group is
    the weight of the points that have such neighbours.
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
    rows, *found = nearest_by_class(X, labels, k_genuine, k_impostor, n_jobs, anchors=anchors)
    for side, near in enumerate(found):
        known = near >= 0
        counts = np.count_nonzero(known, axis=1)
        pairs = np.column_stack((np.repeat(rows, counts), near[known]))
        shares = weights[rows] / np.maximum(counts, 1)
        scatters[side] = pair_scatter(X, pairs, np.repeat(shares, counts))
        totals[side] = weights[rows][counts > 0].sum()
    return scatters, totals
