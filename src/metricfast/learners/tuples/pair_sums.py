"""Learning from the scatters of similar and of dissimilar pairs, which add up over calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.prior import initialize_metric
from metricfast._core.scaling import center_and_rescale
from metricfast._core.scatter import pair_scatter
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, RandomState
from metricfast.learners.base.closed_form import Statistics, add_statistics, continues
from metricfast.learners.base.inputs import tuples_of
from metricfast.learners.base.span import in_span
from metricfast.learners.base.thresholds import check_calibration_params
from metricfast.learners.tuples.factored import start_metric

__all__ = ["fit_pairs", "pair_sums", "partial_fit_pairs", "prior_matrix"]


def fit_pairs(
    learner: Any,
    pairs: ArrayLike,
    y: ArrayLike,
    calibration_params: Mapping[str, Any] | None,
    sample_weight: ArrayLike | None,
    validate: bool,
) -> None:
    """Fit a learner that has `_solve` to given pairs, and calibrate its threshold."""
    calibration = check_calibration_params(calibration_params)
    learner._sums = ()
    tuples = learner._prepare_tuples(pairs, y).weighted(sample_weight)
    with in_span(learner, tuples.used_points(), when=learner._spans) as span:
        tuples = span.tuples(tuples)
        learner._solve(Statistics((pair_sums(tuples),), of_call=tuples).normalized())
    learner.calibrate_threshold(pairs, y, **calibration, sample_weight=sample_weight)
    if validate:
        learner._validate_fit(
            pairs, y, sample_weight=sample_weight, calibration_params=calibration_params
        )


def partial_fit_pairs(
    learner: Any, pairs: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
) -> None:
    """Fit a learner that has `_solve` to these pairs and to the ones of earlier calls."""
    if continues(learner):
        tuples = tuples_of(learner, pairs, 2, y)
    else:
        tuples = learner._prepare_tuples(pairs, y)
    add_statistics(learner, Statistics((pair_sums(tuples.weighted(sample_weight)),)))
    learner.calibrate_threshold(pairs, y, sample_weight=sample_weight)


def pair_sums(tuples: TupleSet) -> ScatterStatistics:
    """Sum the outer products of differences, of groups -1, of dissimilar pairs, and 1."""
    d, index, groups = tuples.points.shape[1], tuples.index, np.array([-1, 1])
    weights = np.ones(len(index)) if tuples.weight is None else tuples.weight
    if not len(index):
        return ScatterStatistics.of_scatters(
            groups, np.zeros(2), np.zeros((2, d, d)), 0, tuples.points.dtype
        )
    points, exponent = _in_safe_units(tuples.points)
    scatters, totals = np.zeros((2, d, d)), np.zeros(2)
    for place, group in enumerate(groups):
        chosen = tuples.y == group
        scatters[place] = pair_scatter(points, index[chosen], weights[chosen])
        totals[place] = weights[chosen].sum()
    found = ScatterStatistics.of_scatters(groups, totals, scatters, exponent, points.dtype)
    found.n_points, found.whole = len(index), bool((weights == np.floor(weights)).all())
    return found


def _in_safe_units(points: Array) -> tuple[Array, int]:
    """Return points whose squares neither overflow nor vanish, and the exponent of their unit.

    Ordinary points are not copied.
    """
    largest = max(float(points.max()), -float(points.min()))
    if 2.0**-200 < largest < 2.0**200:
        return points, 0
    scaled: tuple[Array, int] = center_and_rescale(points)
    return scaled


def prior_matrix(
    prior: str | Array,
    random_state: int | RandomState | None,
    tuples: TupleSet | None,
    n_features: int,
    *,
    strictly_positive: bool,
) -> Floats:
    """Return the matrix that a prior names.

    `tuples`: tuples of all points; None in `partial_fit`, which stores no points.
    """
    if tuples is not None:
        return start_metric(tuples, prior, random_state, strictly_positive=strictly_positive)
    if isinstance(prior, str) and prior == "covariance":
        raise ValueError(
            "prior='covariance' needs all points at once, and partial_fit keeps none: give the "
            "matrix, as Covariance().fit(X).get_mahalanobis_matrix() does."
        )
    return initialize_metric(
        np.empty((0, n_features)), prior, random_state, strictly_positive=strictly_positive
    )
