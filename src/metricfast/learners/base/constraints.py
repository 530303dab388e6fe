"""Learners of constraints in two forms: of given tuples, and of class labels to draw them from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from metricfast._core.arguments import check_random_state
from metricfast._core.types import Array, RandomState
from metricfast.learners.base.learner import BaseMetricLearner
from metricfast.learners.base.thresholds import check_calibration_params
from metricfast.training.callbacks import reports_to_sklearn

__all__ = ["ConstraintLearner", "Drawn", "FromClasses", "Weight"]

Self = TypeVar("Self", bound="ConstraintLearner")
Weight = ArrayLike | None
# Constraints, and what else is told of them.
Drawn = tuple[Any, dict[str, Any]]


class ConstraintLearner(BaseMetricLearner):
    """Base of learners of constraints: of pairs, triplets, quadruplets or chunks.

    A learner defines `_learn`, and `_checked` where it has parameters to check.
    """

    def _checked(self) -> dict[str, Any] | None:
        """Check parameters that need no data, and return what `_learn` shall know of them."""
        return None

    def _learn(self, *args: Any, **kwargs: Any) -> None:
        """Learn from constraints, and a RandomState."""
        raise NotImplementedError

    def _fit_tuples(
        self: Self,
        tuples: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        calibration_params: Mapping[str, Any] | None = None,
        validate: bool = False,
        **given: Any,
    ) -> Self:
        """Fit to tuples; what else `fit` was given is passed on to `_learn`."""
        calibration = check_calibration_params(calibration_params)
        known = self._checked() or {}
        found = self._prepare_tuples(tuples, y).weighted(sample_weight)
        self._learn(found, check_random_state(self.random_state), **known, **given)
        if calibrated := hasattr(self, "calibrate_threshold") and self._tuple_size == 2:
            self.calibrate_threshold(tuples, y, **calibration, sample_weight=sample_weight)
        if validate:
            if calibrated:
                given["calibration_params"] = calibration_params
            self._validate_fit(tuples, y, sample_weight=sample_weight, **given)
        return self

    def _fit_classes(
        self: Self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        validate: bool,
        **given: Any,
    ) -> Self:
        """Fit to what is drawn from classes; what else `fit` was given is passed on to `_learn`."""
        known = self._checked() or {}
        how: dict[str, Any] = {"ensure_min_samples": 2, "accept_sources": not validate}
        points, labels = self._prepare_inputs(X, y, **how)
        rng = check_random_state(getattr(self, "random_state", None))
        drawn, found = self._draw(points, labels, sample_weight, rng)
        self._learn(drawn, rng, **known, **found, **given)
        if validate:
            self._validate_fit(X, y, sample_weight=sample_weight, **given)
        return self

    def _draw(self, points: Array, labels: Array, sample_weight: Weight, rng: RandomState) -> Drawn:
        """Return constraints on checked points, and what else `_learn` shall know of them."""
        raise NotImplementedError


class FromClasses(ConstraintLearner):
    """Base of learners of class labels, of which `_draw` makes what `_learn` is given."""

    _requires_y = True
    _partial_labels = True

    @reports_to_sklearn
    def fit(
        self: Self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
    ) -> Self:
        """Learn from classes, or from constraints that are formed of them.

        Parameters
        ----------
        X : array-like or source of shape (n_samples, n_features), or (n_samples,)
            Points, or indicators for the preprocessor. float32 is kept, everything else becomes
            float64. Points that are not in memory may be a memory map, an array of zarr or h5py, an
            Arrow table, or a `metricfast.sources.Source`.
        y : array-like of shape (n_samples,)
            Class labels, of at least two classes. For the learners whose names end in
            "_Supervised", numbers below 0 mean that the class is unknown.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the points; the notes on the learner say what they do.
        validate : bool, default=False
            Also fit a clone to four fifths of the points, compare the errors of 3 nearest
            neighbours in the learned and in the Euclidean distance on the others (for a learner of
            a similarity: of the 3 most similar ones, by it and by the inner product), keep the
            numbers in `validation_`, and warn if the learned one is worse.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used, or the classes give no
            constraints.
        numpy.linalg.LinAlgError
            If a `prior` that must be is not positive definite.
        """
        return self._fit_classes(X, y, sample_weight, validate)
