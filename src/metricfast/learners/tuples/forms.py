"""The forms of learners of tuples: given pairs, and tuples drawn from class labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import check_count
from metricfast._core.initialize import components_from_metric
from metricfast._core.prior import initialize_metric
from metricfast._core.scaling import center_and_rescale, times_power_of_two, undo_scale
from metricfast._core.scatter import pair_scatter, repetitions
from metricfast._core.stores import in_memory
from metricfast._core.sums import Sums
from metricfast._core.targets import check_partial_target, check_sample_weight
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast.constraints import Constraints, wrap_indices
from metricfast.learners.base.classifiers import PairsClassifierMixin
from metricfast.learners.base.constraints import ConstraintLearner, Drawn, FromClasses, Weight
from metricfast.learners.base.one_pass import OnePass, Summed
from metricfast.learners.base.shrinkage import (
    check_shrinkage,
    judged_rows,
    neighbor_error,
    towards,
)
from metricfast.training.callbacks import reports_to_sklearn

__all__ = [
    "GivenPairs",
    "GivenPairsInParts",
    "PairsFromClasses",
    "ShrunkFromPairs",
    "TripletsFromClasses",
    "pair_sums",
    "prior_alone",
]

Self = TypeVar("Self", bound="GivenPairs")
InParts = TypeVar("InParts", bound="GivenPairsInParts")


class GivenPairs(ConstraintLearner, PairsClassifierMixin):
    """Base of learners of pairs that may have weights."""

    _requires_y = True

    @reports_to_sklearn
    def fit(
        self: Self,
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
            Also fit a clone to four fifths of the pairs, compare its score on the others with that
            of the Euclidean distance, keep the numbers in `validation_`, and warn if it is worse.

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
        return self._fit_tuples(
            pairs,
            y,
            sample_weight=sample_weight,
            calibration_params=calibration_params,
            validate=validate,
        )


class GivenPairsInParts(OnePass, GivenPairs):
    """Base of those of the scatters of similar and of dissimilar pairs."""

    _exact_in_parts = True

    def partial_fit(
        self: InParts,
        pairs: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> InParts:
        """Learn from these pairs and from those of earlier calls, as `fit` from all of them.

        The threshold is that which classifies the pairs of this call best.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            As for `fit`, like the others. The preprocessor is that of the first call.
        y : array-like of shape (n_pairs,)
        sample_weight : array-like of shape (n_pairs,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As of `fit`; and with ``prior="covariance"``, which needs all points at once. What the
            calls before have learned stays.

        Warns
        -----
        UserWarning
            After `fit`, which keeps no sums: this begins anew.
        """
        self._checked()
        begun = self._goes_on()
        given = self._look_up(pairs, 2, y=y) if begun else self._prepare_tuples(pairs, y)
        self._add(given.weighted(sample_weight), None, None)
        return self.calibrate_threshold(pairs, y, sample_weight=sample_weight)

    def _sums_of(self, data: Any, labels: Any, weight: Floats | None) -> Summed:
        return (pair_sums(data),), {}


def pair_sums(tuples: TupleSet) -> Sums:
    """Sum the outer products of differences, of groups -1, of dissimilar pairs, and 1."""
    d, index, groups = tuples.points.shape[1], tuples.index, np.array([-1, 1])
    weights = np.ones(len(index)) if tuples.weight is None else tuples.weight
    if not len(index):
        return Sums.of_scatters(groups, np.zeros(2), np.zeros((2, d, d)), 0, tuples.points.dtype)
    points, exponent = center_and_rescale(tuples.points)
    scatters, totals = np.zeros((2, d, d)), np.zeros(2)
    for place, group in enumerate(groups):
        chosen = tuples.y == group
        scatters[place] = pair_scatter(points, index[chosen], weights[chosen])
        totals[place] = weights[chosen].sum()
    found = Sums.of_scatters(groups, totals, scatters, exponent, points.dtype)
    found.n_points, found.whole = len(index), bool((weights == np.floor(weights)).all())
    return found


def prior_alone(learner: Any, n_features: int, *, strictly_positive: bool) -> Floats:
    """Make the matrix that the prior of a learner names without points, which are not kept."""
    if isinstance(learner.prior, str) and learner.prior == "covariance":
        raise ValueError(
            "prior='covariance' needs all points at once, and partial_fit keeps none: give the "
            "matrix, as Covariance().fit(X).get_mahalanobis_matrix() does."
        )
    return initialize_metric(
        np.empty((0, n_features)),
        learner.prior,
        learner.random_state,
        strictly_positive=strictly_positive,
    )


class PairsFromClasses(FromClasses):
    """Base of learners that draw similar and dissimilar pairs."""

    n_constraints: int | None
    _needs_similar: bool = False

    def _draw(self, points: Any, labels: Array, sample_weight: Weight, rng: RandomState) -> Drawn:
        drawn = wrap_indices(self._pairs(labels, sample_weight, rng))
        return TupleSet.of_rows(points, *drawn), {}

    def _pairs(
        self, labels: Array, sample_weight: Weight, rng: RandomState, same_length: bool = False
    ) -> tuple[Integers, ...]:
        """Draw `n_constraints` pairs of a class, and as many of different classes."""
        classes, codes = check_partial_target(labels)
        n_constraints = self._current("n_constraints")
        if n_constraints is None:
            n_constraints = 20 * len(classes) ** 2
        n_constraints = check_count("n_constraints", n_constraints)
        drawn = Constraints(codes).positive_negative_pairs(
            n_constraints, same_length, rng, sample_weight=sample_weight
        )
        if self._needs_similar and not len(drawn[0]):
            raise ValueError(
                "y must hold a class of at least 2 points: there is no pair of similar points to "
                "draw."
            )
        return drawn


class ShrunkFromPairs(PairsFromClasses):
    """Base of those whose metric is moved towards a simpler one as far as serves neighbours."""

    shrinkage: float | str
    components_: Any
    A_: Any

    def _checked(self) -> Any:
        check_shrinkage(self.shrinkage)
        return super()._checked()

    def _draw(self, points: Any, labels: Array, sample_weight: Weight, rng: RandomState) -> Drawn:
        drawn, found = super()._draw(points, labels, sample_weight, rng)
        if check_shrinkage(self.shrinkage) == 0:
            return drawn, found
        weights = repetitions(check_sample_weight(sample_weight, len(points)), len(points))
        codes = np.where(weights > 0, check_partial_target(labels)[1], -1)
        rows = judged_rows(codes)
        judged = points[rows], codes[rows], weights[rows]
        return drawn, found | {"judged": judged}

    def _learn(self, *drawn: Any, **known: Any) -> None:
        judged = known.pop("judged", None)
        super()._learn(*drawn, **known)
        fraction = check_shrinkage(self.shrinkage)
        self.shrinkage_, self.shrinkage_target_ = fraction or 0.0, "identity"
        if judged is None or len(judged[0]) < 2:
            return
        points, exponent = center_and_rescale(judged[0])
        L = times_power_of_two(self.components_.astype(np.float64), exponent)
        covariance = np.cov(points, rowvar=False, aweights=judged[2], dtype=np.float64)
        if not np.trace(covariance := np.atleast_2d(covariance)) > 0:
            return
        judge = neighbor_error(points, *judged[1:]) if fraction is None else None
        self.shrinkage_target_, self.shrinkage_, M = towards(
            L.T @ L, covariance, fraction or 0.0, judge, self.n_components
        )
        if self.shrinkage_ > 0:
            L = components_from_metric(M, n_components=self.n_components)
            self.components_ = undo_scale(L, exponent, self.components_.dtype)
            if hasattr(self, "A_"):
                self.A_ = self.get_mahalanobis_matrix()


class TripletsFromClasses(FromClasses):
    """Base of learners from each point with its nearest ones of its own and of other classes."""

    k_genuine: int
    k_impostor: int

    def _draw(self, points: Any, labels: Array, sample_weight: Weight, rng: RandomState) -> Drawn:
        what = f"X, all of which {type(self).__name__} makes triplets of,"
        points = in_memory(points, what, "give fewer points, or triplets of some")
        _, codes = check_partial_target(labels)
        weight = check_sample_weight(sample_weight, len(points))
        index = Constraints(codes).generate_knntriplets(
            points, self.k_genuine, self.k_impostor, n_jobs=self.n_jobs
        )
        if weight is not None:
            index = index[weight[index[:, 0]] > 0]
            weight = weight[index[:, 0]]
        if not len(index):
            raise ValueError("There are no triplets: no class has two points and weight.")
        return TupleSet(points, index, weight=weight), {}
