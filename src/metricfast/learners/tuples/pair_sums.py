"""Learn from the scatters of similar and of dissimilar pairs, which can be added over calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.prior import initialize_metric
from metricfast._core.scaling import moderate
from metricfast._core.scatter import pair_scatter
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.thresholds import check_calibration_params
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, RandomState, Self
from metricfast.learners.base.classifiers import PairsClassifierMixin
from metricfast.learners.base.closed_form import Statistics, add_statistics, continues
from metricfast.learners.base.inputs import tuples_of
from metricfast.learners.tuples.factored import start_metric
from metricfast.training.span import in_span


class PairSumsLearner(PairsClassifierMixin):
    """Base class of learners that solve for their map from sums over pairs.

    Subclasses define `_solve` and `_spans`, like those of `ClosedFormLearner`.
    """

    _requires_y = True
    _exact_in_parts = True
    _sums: tuple[ScatterStatistics, ...] = ()  # sums over all calls of `partial_fit`
    _spans: Any
    _solve: Any

    def fit(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        calibration_params: Mapping[str, Any] | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        validate: bool = False,
    ) -> Self:
        """Learn the metric, and the threshold that classifies the given pairs best.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of points, or of indicators for the preprocessor.
        y : array-like of shape (n_pairs,)
            1 for similar pairs, -1 for dissimilar ones.
        calibration_params : dict, optional
            Arguments of `calibrate_threshold`; by default the accuracy is maximised.
        sample_weight : array-like of shape (n_pairs,), optional
            Non-negative weights of the pairs; whole numbers mean the same as repeated pairs.
        validate : bool, default=False
            Also fit a clone to a part of the data, compare it with the given distance on the rest,
            and warn if it is worse. `validation_` has the result.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used, or pairs of a kind that is
            needed are missing.
        numpy.linalg.LinAlgError
            If a prior that must be is not positive definite.
        """
        calibration = check_calibration_params(calibration_params)
        self._sums = ()
        tuples = self._prepare_tuples(pairs, y).weighted(sample_weight)
        with in_span(self, tuples.used_points(), when=self._spans) as span:
            tuples = span.tuples(tuples)
            self._solve(Statistics((pair_sums(tuples),), tuples=tuples).normalized(), None)
        self.calibrate_threshold(pairs, y, **calibration, sample_weight=sample_weight)
        if validate:
            self._validate_fit(
                pairs, y, sample_weight=sample_weight, calibration_params=calibration_params
            )
        return self

    def partial_fit(
        self, pairs: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from these pairs and from the ones of earlier calls, as `fit` from all of them.

        The threshold is the one that classifies the pairs of this call best.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            As for `fit`, like the others. All calls use the preprocessor of the first.
        y : array-like of shape (n_pairs,)
        sample_weight : array-like of shape (n_pairs,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As for `fit`; and with ``prior="covariance"``, which needs all points at once. The
            results of earlier calls stay.

        Warns
        -----
        UserWarning
            If `fit` was called before: it stores no sums, so the learner starts again.
        """
        tuples = tuples_of(self, pairs, 2, y) if continues(self) else self._prepare_tuples(pairs, y)
        add_statistics(self, Statistics((pair_sums(tuples.weighted(sample_weight)),)))
        self.calibrate_threshold(pairs, y, sample_weight=sample_weight)
        return self


def pair_sums(tuples: TupleSet) -> ScatterStatistics:
    """Sum outer products of differences: group -1 holds dissimilar pairs, group 1 similar ones."""
    d, index, groups = tuples.points.shape[1], tuples.index, np.array([-1, 1])
    weights = np.ones(len(index)) if tuples.weight is None else tuples.weight
    if not len(index):
        return ScatterStatistics.of_scatters(
            groups, np.zeros(2), np.zeros((2, d, d)), 0, tuples.points.dtype
        )
    points, exponent = moderate(tuples.points)
    scatters, totals = np.zeros((2, d, d)), np.zeros(2)
    for place, group in enumerate(groups):
        chosen = tuples.y == group
        scatters[place] = pair_scatter(points, index[chosen], weights[chosen])
        totals[place] = weights[chosen].sum()
    found = ScatterStatistics.of_scatters(groups, totals, scatters, exponent, points.dtype)
    found.n_points, found.whole = len(index), bool((weights == np.floor(weights)).all())
    return found


def check_differ(kind: str, scatter: Floats, rounding: float = 0.0) -> None:
    """Raise ValueError unless the points of some pair differ by more than rounding."""
    if not np.trace(scatter) > rounding:
        raise ValueError(
            f"there is no {kind} pair of different points: both similar and dissimilar pairs are "
            "needed."
        )


def prior_matrix(
    prior: str | Array,
    random_state: int | RandomState | None,
    tuples: TupleSet | None,
    n_features: int,
    *,
    strictly_positive: bool,
) -> Floats:
    """Return the matrix of a prior.

    `tuples`: all tuples; None in `partial_fit`, which stores no points.
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
