"""Shrinkage of a metric, learned from pairs of class labels, towards a simpler metric."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.scaling import center_and_rescale
from metricfast._core.scatter import repetitions
from metricfast._core.targets import check_partial_target, check_sample_weight
from metricfast._core.types import Array, Floats, Integers
from metricfast.learners.base.shrinkage import (
    check_shrinkage,
    judged_rows,
    neighbor_error,
)
from metricfast.learners.base.span import GIVEN, GivenAxes

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
    components: Any,
    shrinkage: float | str,
    sample: Sample,
    n_components: int | None,
    span: GivenAxes = GIVEN,
) -> tuple[str, float, Any]:
    """Move the metric of a map of points towards a simpler one.

    `shrinkage`: the fraction by which to move it towards the Euclidean distance. "auto" chooses the
        fraction and the simpler metric for which the neighbour error of the sample is lowest.
    `sample`: as :func:`representative_sample` returns it.
    `span`: the coordinates in which to work.
    Returns the name of the simpler metric, the fraction, and the new map.
    """
    fraction = check_shrinkage(shrinkage)
    unchanged = "identity", fraction or 0.0, components
    X, codes, weights = sample
    if fraction == 0 or len(X) < 2:
        return unchanged
    X, exponent = center_and_rescale(span.points(X))
    covariance = np.atleast_2d(np.cov(X, rowvar=False, aweights=weights, dtype=np.float64))
    if not np.trace(covariance) > 0:
        return unchanged
    L = span.rescaled(components, exponent)
    simpler = _simpler_metrics(span.inside(L), span.variances(covariance), covariance)

    def moved(name: str, share: float) -> Any:
        return span.plus_diagonal(L, 1 - share, share * simpler[name], n_components)

    name = "identity"
    if fraction is None:
        error = neighbor_error(X, codes, weights)
        tried = [(name, f) for name in simpler for f in _FRACTIONS]
        errors = [error(span.inside(L)), *(error(span.inside(moved(*each))) for each in tried)]
        name, fraction = [("identity", 0.0), *tried][int(np.argmin(errors))]
    if fraction == 0:
        return name, fraction, components
    return name, fraction, span.given_scale(moved(name, fraction), exponent, components.dtype)


def _simpler_metrics(L: Floats, variances: Floats, covariance: Floats) -> dict[str, Floats]:
    """Return the weights of features in the Euclidean distance, and if they are standardized.

    Both are scaled such that points of the covariance have the same mean squared distance as by L.
    """
    size = float(np.sum((L.T @ L) * covariance))
    inverse = np.divide(1, variances, out=np.zeros(len(variances)), where=variances > 0)
    metrics = {"identity": np.ones(len(variances)), "variance": inverse}
    return {name: w * (size / float(w @ variances)) for name, w in metrics.items()}
