"""Shrinkage of a metric, learned from pairs of class labels, towards a simpler metric."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.initialize import components_from_metric
from metricfast._core.scaling import center_and_rescale, times_power_of_two, undo_scale
from metricfast._core.scatter import repetitions
from metricfast._core.targets import check_partial_target, check_sample_weight
from metricfast._core.types import Array, Floats, Integers
from metricfast.learners.base.shrinkage import (
    check_shrinkage,
    judged_rows,
    neighbor_error,
)

__all__ = ["representative_sample", "shrink_metric"]

# The fractions that "auto" tries.
_FRACTIONS = (0.1, 0.3, 0.6, 1.0)
# Points, codes of their classes, and weights.
Sample = tuple[Array, Integers, Floats]


def representative_sample(points: Any, labels: Array, sample_weight: ArrayLike | None) -> Sample:
    """Return up to 1000 points of known classes and positive weight."""
    weights = repetitions(check_sample_weight(sample_weight, len(points)), len(points))
    codes = np.where(weights > 0, check_partial_target(labels)[1], -1)
    rows = judged_rows(codes)
    return points[rows], codes[rows], weights[rows]


def shrink_metric(
    components: Array, shrinkage: float | str, sample: Sample, n_components: int | None
) -> tuple[str, float, Array]:
    """Move the metric of a map towards a simpler one.

    `shrinkage`: the fraction by which to move it towards the Euclidean distance. "auto" chooses the
        fraction and the simpler metric for which the neighbour error of the sample is lowest.
    `sample`: as :func:`representative_sample` returns it.
    Returns the name of the simpler metric, the fraction, and the new map.
    """
    fraction = check_shrinkage(shrinkage)
    unchanged = "identity", fraction or 0.0, components
    X, codes, weights = sample
    if fraction == 0 or len(X) < 2:
        return unchanged
    X, exponent = center_and_rescale(X)
    covariance = np.atleast_2d(np.cov(X, rowvar=False, aweights=weights, dtype=np.float64))
    if not np.trace(covariance) > 0:
        return unchanged
    L = times_power_of_two(components.astype(np.float64), exponent)
    M, simpler = L.T @ L, _simpler_metrics(L.T @ L, covariance)
    if fraction is None:
        error = neighbor_error(X, codes, weights)
        tried = [("identity", 0.0, M)]
        for name, other in simpler.items():
            tried += [(name, f, (1 - f) * M + f * other) for f in _FRACTIONS]
        errors = [error(components_from_metric(m, n_components=n_components)) for _, _, m in tried]
        name, fraction, M = tried[int(np.argmin(errors))]
    else:
        name, M = "identity", (1 - fraction) * M + fraction * simpler["identity"]
    if fraction == 0:
        return name, fraction, components
    L = components_from_metric(M, n_components=n_components)
    return name, fraction, undo_scale(L, exponent, components.dtype)


def _simpler_metrics(M: Floats, covariance: Floats) -> dict[str, Floats]:
    """Return the metrics of the Euclidean distance and of standardized features.

    Both are scaled such that points of the covariance have the same mean squared distance as by M.
    """
    variances = np.diag(covariance)
    metrics = {
        "identity": np.eye(len(M)),
        "variance": np.diag(np.divide(1, variances, out=np.zeros(len(M)), where=variances > 0)),
    }
    size = float(np.sum(M * covariance))
    return {n: m * (size / float(np.sum(m * covariance))) for n, m in metrics.items()}
