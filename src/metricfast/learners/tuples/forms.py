"""The forms of learners of tuples: given pairs, and tuples drawn from class labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from metricfast._core.arguments import check_count
from metricfast._core.targets import check_partial_target, check_sample_weight
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Integers, RandomState
from metricfast.constraints import Constraints, wrap_indices
from metricfast.learners.base.classifiers import PairsClassifierMixin
from metricfast.learners.base.constraints import ConstraintLearner, Drawn, FromClasses, Weight

__all__ = ["GivenPairs", "PairsFromClasses", "TripletsFromClasses"]

Self = TypeVar("Self", bound="GivenPairs")


class GivenPairs(ConstraintLearner, PairsClassifierMixin):
    """Base of learners of pairs that may have weights."""

    _requires_y = True

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


class PairsFromClasses(FromClasses):
    """Base of learners that draw similar and dissimilar pairs."""

    n_constraints: int | None
    _needs_similar: bool = False

    def _draw(self, points: Array, labels: Array, sample_weight: Weight, rng: RandomState) -> Drawn:
        return TupleSet(points, *wrap_indices(self._pairs(labels, sample_weight, rng))), {}

    def _pairs(
        self, labels: Array, sample_weight: Weight, rng: RandomState, same_length: bool = False
    ) -> tuple[Integers, ...]:
        """Draw `n_constraints` pairs of a class, and as many of different classes."""
        classes, codes = check_partial_target(labels)
        n_constraints = self._current("n_constraints")
        if n_constraints is None:
            n_constraints = 20 * len(classes) ** 2
        check_count("n_constraints", n_constraints)
        drawn = Constraints(codes).positive_negative_pairs(
            n_constraints, same_length, rng, sample_weight=sample_weight
        )
        if self._needs_similar and not len(drawn[0]):
            raise ValueError(
                "y must hold a class of at least 2 points: there is no pair of similar points to "
                "draw."
            )
        return drawn


class TripletsFromClasses(FromClasses):
    """Base of learners from each point with its nearest ones of its own and of other classes."""

    k_genuine: int
    k_impostor: int

    def _draw(self, points: Array, labels: Array, sample_weight: Weight, rng: RandomState) -> Drawn:
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
