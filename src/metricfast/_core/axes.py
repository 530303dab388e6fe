"""Components of points that are not in memory, which are read once."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh

from metricfast._core.scaling import times_power_of_two
from metricfast._core.scatter import (
    check_discriminant,
    check_principal,
    discriminant_directions,
    with_signs,
)
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.sources import Source
from metricfast._core.types import Floats

__all__ = ["components_of_source"]


def components_of_source(X: Source, y: Any, weights: Floats, n_components: int) -> Floats:
    """Return what `discriminant_components` would of classes y, or `principal_components` of None.

    X must have more points than features.
    """
    if y is None:
        check_principal(X.shape[1], weights, n_components)
        return _principal(ScatterStatistics(X.shape[1]).add(X, weights).within, n_components)
    classes, group = np.unique(y, return_inverse=True)
    of_classes = np.bincount(group, weights)
    check_discriminant(X.shape[1], of_classes[of_classes > 0], n_components)
    sums = ScatterStatistics(X.shape[1], np.arange(len(classes))).add(X, weights, group)
    seen = sums.weights > 0
    means, counts, within = sums.means[seen], sums.weights[seen], sums.within / sums.total
    deviation = np.sqrt(np.diag(within))
    rounding = 16 * np.finfo(np.float64).eps * np.abs(means).max(axis=0)
    deviation = np.where(deviation > rounding, deviation, 1.0)
    values, vectors = eigh(within / deviation / deviation[:, None])
    found = discriminant_directions(
        np.maximum(values[::-1], 0), vectors.T[::-1], deviation, means, counts, n_components
    )
    if found is None:
        return _principal(sums.within + sums.between, n_components)
    return times_power_of_two(found, -sums.exponent)


def _principal(scatter: Floats, n_components: int) -> Floats:
    return with_signs(eigh(scatter)[1].T[::-1][:n_components])
