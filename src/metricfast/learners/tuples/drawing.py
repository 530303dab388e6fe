"""Base classes of learners that draw tuples from class labels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import check_count, check_random_state
from metricfast._core.stores import in_memory
from metricfast._core.targets import (
    check_marks,
    check_partial_target,
    check_sample_weight,
    check_several_classes,
)
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Integers, RandomState, Self
from metricfast._core.warn import warn_user
from metricfast.constraints import Constraints, wrap_indices
from metricfast.learners.base.choice import GIVEN_UNITS, choose_units
from metricfast.learners.base.learner import BaseMetricLearner
from metricfast.training.callbacks import reports_to_sklearn
from metricfast.training.span import SquareOf

# Points, labels, weights, and further arguments of `judge_settings`.
FitArguments = tuple[Any, Array, ArrayLike | None, dict[str, Any]]


class SupervisedForm(BaseMetricLearner):
    """Base class of learners that draw tuples from class labels.

    A subclass also derives from the base class that it shares with the learner on tuples, which has
    the parameters and the solver. It defines `_draw` and `_learn`.
    """

    _requires_y = True
    _partial_labels = True
    judge: Any = None
    _tuned: ClassVar[str | None] = "shrinkage"  # as for `ClosedFormLearner`
    _across_views = False

    _draw: Callable[[Any, Array, ArrayLike | None, RandomState], TupleSet]

    @abstractmethod
    def _learn(self, tuples: TupleSet, given: FitArguments, rng: RandomState, **how: Any) -> None:
        """Set the fitted attributes.

        `given`: the data from which the tuples were drawn.
        `rng`: the random generator after the draw.
        `how`: further arguments of `fit`.
        """

    @reports_to_sklearn
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        views: ArrayLike | None = None,
        validate: bool = False,
    ) -> Self:
        """Draw tuples from class labels, and learn from them.

        Parameters
        ----------
        X : array-like or source of shape (n_samples, n_features), or (n_samples,)
            Points, or indicators for the preprocessor. float32 stays float32, everything else
            becomes float64. Points that are not in memory may be a memory map, an array of zarr or
            h5py, an Arrow table, or a `metricfast.sources.Source`.
        y : array-like of shape (n_samples,)
            Class labels, of at least two classes. Numbers below 0 mean that the class is unknown.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the points; the notes on the learner describe their effect.
        groups, views : array-like of shape (n_samples,), optional
        validate : bool, default=False
            All as for :meth:`LFDA.fit`.

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
        self._fit_drawn(X, y, sample_weight, groups=groups, views=views, validate=validate)
        return self

    def _fit_drawn(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, *, groups: ArrayLike | None,
        views: ArrayLike | None, validate: bool, **how: Any,
    ) -> None:  # fmt: skip
        points, labels = self._prepare_inputs(
            X, y, ensure_min_samples=2, accept_sources=not validate
        )
        rng = check_random_state(self.random_state)
        marks: dict[str, Any] = check_marks(points.shape[0], groups=groups, views=views)
        weight = check_sample_weight(sample_weight, points.shape[0])
        in_units = any(value is not None for value in how.values())  # of the points
        units = GIVEN_UNITS if in_units else choose_units(self, points, labels, weight, **marks)
        if units.factors is not None:
            points = points * units.factors
        drawn = self._draw(points, labels, sample_weight, rng)
        try:
            given = points, labels, sample_weight, marks | {"units": units}
            self._learn(drawn, given, rng, **how)
        finally:  # an interrupt keeps what is learned
            if units.factors is not None and "components_" in vars(self):
                _convert(self, units.factors)
        if validate:
            how |= {"groups": groups, "views": views}
            self._validate_fit(X, y, sample_weight=sample_weight, **how)


def _convert(learner: Any, units: Array) -> None:
    """Convert the fitted map, and the matrix if there is one, of points multiplied by units."""
    learner.components_ = learner._map * units
    A = vars(learner).get("A_")
    if isinstance(A, SquareOf):
        learner.A_ = SquareOf(A.L * units)
    elif A is not None:
        learner.A_ = A * np.outer(units, units)


def draw_pairs(
    learner: Any,
    points: Any,
    labels: Array,
    sample_weight: ArrayLike | None,
    rng: RandomState,
    *,
    needs_similar: bool = False,
) -> TupleSet:
    """Draw pairs of points of one class, and as many pairs of points of different classes.

    `learner`: has the parameter `n_constraints`.
    `points`: checked points, an array or a source.
    `needs_similar`: raise ValueError if no pair of one class can be drawn.
    For the other parameters see :func:`draw_index_pairs`.
    """
    n, d = learner.n_constraints, points.shape[1]
    drawn = draw_index_pairs(labels, n, sample_weight, rng, d, needs_similar=needs_similar)
    return TupleSet.of_rows(points, *wrap_indices(drawn))


def draw_index_pairs(
    labels: Array,
    n_constraints: Any,
    sample_weight: ArrayLike | None,
    rng: RandomState,
    n_features: int,
    *,
    same_length: bool = False,
    needs_similar: bool = False,
) -> tuple[Integers, ...]:
    """Draw rows a, b, c, d: a[i] and b[i] have the same class, c[i] and d[i] different classes.

    `n_constraints`: number of pairs of either kind; None means :func:`_default_number`.
    `sample_weight`: points are drawn with probability in proportion to it; points of weight 0 are
        ignored.
    """
    _, codes = check_partial_target(labels)
    weight = check_sample_weight(sample_weight, len(codes))
    if weight is not None:
        codes = np.where(weight > 0, codes, -1)
    n_classes = len(np.unique(codes[codes >= 0]))
    check_several_classes(n_classes, " of a weight above 0 (sample_weight)")
    if n_constraints is None:
        n_constraints = _default_number(codes, n_classes, n_features)
    n_constraints = check_count("n_constraints", n_constraints)
    drawn = Constraints(codes).positive_negative_pairs(
        n_constraints, same_length, rng, sample_weight=sample_weight
    )
    if needs_similar and not len(drawn[0]):
        raise ValueError(
            "y must hold a class of at least 2 points of a weight above 0: there is no pair of "
            "similar points to draw."
        )
    return drawn


def _default_number(codes: Integers, n_classes: int, n_features: int) -> int:
    """Return 20 times the square of the number of classes, or less, with a warning.

    Above the number for 40 classes, the limit is one pair per point or per feature.
    """
    wanted = 20 * n_classes**2
    most = max(20 * 40**2, int(np.count_nonzero(codes >= 0)), n_features)
    if wanted > most:
        warn_user(
            f"n_constraints=None draws {most:,} pairs of either kind, not 20 * n_classes**2 = "
            f"{wanted:,}, for y holds {n_classes:,} classes. Set n_constraints for another number."
        )
    return min(wanted, most)


def draw_triplets(
    learner: Any, points: Any, labels: Array, sample_weight: ArrayLike | None, rng: RandomState
) -> TupleSet:
    """Form triplets of each point, a near point of its class, and a near point of another class.

    `learner`: an object with the attributes `k_genuine`, `k_impostor` and `n_jobs`.
    `sample_weight`: the weight of a triplet is the weight of its first point.
    """
    del rng
    name = type(learner).__name__
    what = f"X, all of which {name} makes triplets of,"
    points = in_memory(points, what, "give fewer points, or triplets of some")
    _, codes = check_partial_target(labels)
    weight = check_sample_weight(sample_weight, len(points))
    index = Constraints(codes).generate_knntriplets(
        points, learner.k_genuine, learner.k_impostor, n_jobs=learner.n_jobs
    )
    if weight is not None:
        index = index[weight[index[:, 0]] > 0]
        weight = weight[index[:, 0]]
    if not len(index):
        raise ValueError("There are no triplets: no class has two points and weight.")
    return TupleSet(points, index, weight=weight)
