"""Sparse compositional metric learning: weights of given bases, learned from triplets."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.arguments import check_count, check_no_overflow, check_random_state
from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.initialize import check_n_components, components_from_metric, leading_rows
from metricfast._core.parameters import (
    NonNegativeFloat,
    NumberOfJobs,
    PositiveFloat,
    Seed,
    Share,
    Verbosity,
    check_parameters,
    positional,
)
from metricfast._core.progress import iteration_progress
from metricfast._core.scaling import center_and_rescale, times_power_of_two, undo_scale
from metricfast._core.targets import check_partial_target
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast._core.warn import SECONDS, warn_if_long, warn_user
from metricfast.learners.base.classifiers import TripletsClassifierMixin
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.tuples.bases import (
    check_given_basis,
    cost_of_discriminants,
    local_discriminants,
    triplet_directions,
)
from metricfast.learners.tuples.drawing import FitArguments, SupervisedForm, draw_triplets
from metricfast.learners.tuples.shrinking import (
    representative_sample,
    shrink_by_tuples,
    shrink_metric,
)
from metricfast.selection._judge import JudgeParameter
from metricfast.training.callbacks import CallbackMixin, reports_to_sklearn
from metricfast.training.span import GIVEN, GivenAxes, Span, in_span, span_of


def _check_integer(name: str, value: object) -> None:
    """Raise ValueError unless a value is an integer, with the message of metric-learn."""
    if not isinstance(value, Integral):
        raise ValueError(f"{name} should be an integer, instead it is of type {type(value)}")
    check_count(name, value)


Integer = Annotated[int, _check_integer]


@dataclass(eq=False, repr=False)
class _SCML(CallbackMixin, MahalanobisMixin):
    """Parameters and solver of SCML and SCML_Supervised."""

    beta: NonNegativeFloat = 1e-5
    basis: str | Array = "triplet_diffs"
    n_basis: Integer | None = None
    gamma: PositiveFloat = 5e-3
    max_iter: Integer = 10000
    output_iter: Integer = 500
    batch_size: Integer = 10
    verbose: Verbosity = False
    preprocessor: Any = None
    random_state: Seed = None
    _: KW_ONLY
    n_components: int | None = None
    shrinkage: Share | None = None
    judge: JudgeParameter = "auto"
    n_jobs: NumberOfJobs = None

    _bases: ClassVar[tuple[str, ...]] = ("triplet_diffs",)  # accepted names of bases

    def _check_parameters(self) -> None:
        """Raise ValueError unless parameters are valid and consistent."""
        check_parameters(self)
        if self.output_iter > self.max_iter:
            raise ValueError("The value of output_iter must be equal or smaller than max_iter.")
        names, basis = self._bases, self.basis
        if not isinstance(basis, np.ndarray) and (not isinstance(basis, str) or basis not in names):
            raise ValueError(
                "`basis` must be one of the options '{}' or an array of shape "
                "(n_basis, n_features).".format("', '".join(names))
            )
        if isinstance(basis, np.ndarray) and self.n_basis not in (None, len(basis)):
            raise ValueError(
                f"n_basis must be None where `basis` is an array, of {len(basis)} rows; "
                f"got {self.n_basis!r}."
            )

    def _triplet_basis(self, triplets: TupleSet, span: GivenAxes, rng: RandomState) -> Floats:
        """Return the user's bases, or bases computed from triplets, in coordinates of the span."""
        n_features = triplets.points.shape[1]
        if isinstance(self.basis, str):
            inside = span.tuples(triplets)
            return triplet_directions(inside, self.n_basis, rng, n_features=n_features)
        return check_given_basis(self.basis, n_features)

    def _warn_of_cost(self, n_basis: int, width: int, of_bases: float) -> None:
        """Warn before a fit that may take minutes.

        `width`: the number of features, or of directions of the span.
        `of_bases`: multiplications that it takes to compute the bases.
        """
        n_reports, n_draws = (
            self.max_iter / self.output_iter,
            float(self.max_iter) * self.batch_size,
        )
        # A base takes 25 multiplications for each triplet that is drawn.
        products = of_bases + n_basis * (n_reports * width**2 + 25 * n_draws)
        if self.judge is not None and self.shrinkage is None:
            products *= 2.5  # trainings of the judge
        work = f"Weighing {n_basis:,} bases of {width:,} features"
        faster = "a smaller n_basis, or PCA of the points before `fit`"
        warn_if_long(SECONDS["multiplication"] * products, work, faster)

    def _minimize(
        self, triplets: TupleSet, rng: RandomState, basis: Floats, span: GivenAxes
    ) -> None:
        """Learn the weights of bases from triplets.

        `basis`: basis vectors in features, or in coordinates of the span.
        `span`: the coordinates in which to work.
        """
        weight = triplets.weight
        if weight is not None and (weight == weight[0]).all():
            weight = None
        dtype = triplets.points.dtype
        points, exponent = center_and_rescale(triplets.points)
        check_n_components(points.shape[1], self.n_components)
        if span is not GIVEN:
            points = times_power_of_two(span.points(triplets.points), -exponent)
        triplets = TupleSet(points, triplets.index, weight=weight)
        inner = basis if basis.shape[1] == points.shape[1] else span.inside(basis)
        weights = np.zeros(len(basis), dtype)
        best, best_value = weights.copy(), math.inf
        curve: list[float] = []
        n_reports = -(-int(self.max_iter) // int(self.output_iter))
        self.n_iter_ = 0

        def set_fitted() -> None:
            L = span.outer(_components(basis, best), square=False)
            if self.n_components is not None:
                L = _leading(L, self.n_components)
            self.components_ = undo_scale(L, exponent, dtype)
            self.weights_ = times_power_of_two(best.astype(np.float64), -2 * exponent)
            self.loss_curve_, self.objective_ = curve.copy(), best_value

        progress = iteration_progress(self, n_reports, set_fitted)

        def report() -> bool:
            nonlocal best, best_value
            value, scale = self._objective(triplets, inner, weights)
            curve.append(value)
            # The zero metric is useless, but may have the lowest objective.
            if value < best_value and weights.any():
                best, best_value = (scale * weights).astype(dtype), value
            return progress(len(curve), value)

        def next_draws(n_iter: int) -> Integers | None:
            if n_iter > 0:
                self.n_iter_ = n_iter
                if report():
                    return None
            size = min(int(self.output_iter), int(self.max_iter) - n_iter)
            shape = size, int(self.batch_size)
            return _draws(rng, len(triplets.index), shape, weight) if size else None

        try:
            get_kernels().scml(
                triplets.points,
                np.ascontiguousarray(triplets.index),
                np.ascontiguousarray(inner, dtype),
                (self.beta, self.gamma, self.batch_size),
                weights,
                next_draws,
            )
        finally:
            progress.close()
            if not curve:
                best = weights
            elif not best.any():
                best_value = curve[-1]
            set_fitted()
        if not np.isfinite(self.weights_).all():
            raise ValueError(
                "X is so small that the weights of its bases overflow: multiply it by a number "
                "that makes its spread about 1."
            )
        if self.objective_ >= 1 or not best.any():
            warn_user(
                f"The objective is {self.objective_:.4g} at the best weights found; without any "
                "it is 1. Increase `max_iter`, use a larger `gamma` (shorter steps) or other "
                "bases, or rescale the features.",
                ConvergenceWarning,
            )

    def _objective(self, triplets: TupleSet, basis: Floats, weights: Array) -> tuple[float, float]:
        """Return the objective at the best multiple of the weights, and the multiple."""
        value, scale = get_kernels().triplet_objective(
            triplets.points,
            np.ascontiguousarray(_components(basis, weights)),
            np.ascontiguousarray(triplets.index),
            triplets.weight,
            self.beta * float(weights.sum(dtype=np.float64)),
            as_threads(self.n_jobs),
        )
        remedy = "scale its features, or use a larger gamma"
        check_no_overflow("learned distances", value, remedy=remedy)
        return value, scale


@dataclass(eq=False, repr=False)
class SCML(TripletsClassifierMixin, _SCML):
    r"""Sparse compositional metric learning from triplets.

    Learns :math:`M = \sum_k w_k b_k b_k^T` from triplets (a, b, c) of which a should be nearer to b
    than to c, as sparse non-negative weights of many bases:

    .. math::

        \min_{w \ge 0}\; \beta \sum_k w_k
        + \frac{1}{m} \sum_{(a, b, c)} \left[1 + D_M(a, b) - D_M(a, c)\right]_+

    by stochastic regularised dual averaging with adaptive steps, which finds the direction of w,
    and a line search, which finds its length; D is the squared distance.

    Parameters
    ----------
    beta : float, default=1e-5
        Weight of the sum of weights; larger values give sparser ones.
    basis : {"triplet_diffs"} or ndarray of shape (n_basis, n_features), default="triplet_diffs"
        The bases. "triplet_diffs" are directions in which n_features random triplets differ most,
        for as many draws as it takes; there must be as many triplets as features.
    n_basis : int, optional
        Number of bases of "triplet_diffs"; by default ``80 * n_features``.
    gamma : float, default=5e-3
        Strength of the term that holds weights back: larger values mean shorter steps.
    max_iter : int, default=10000
        Number of iterations.
    output_iter : int, default=500
        Number of iterations after which the objective is evaluated, at the multiple of the weights
        that is best for it. The best weights then seen are the result.
    batch_size : int, default=10
        Triplets drawn for an iteration.
    random_state : int, RandomState or None, default=None
        For bases and batches.
    n_components : int, optional
        Keep that many leading eigenvectors of M.
    shrinkage : float from 0 to 1, optional
        Move M towards the Euclidean distance, scaled to the same mean, by this fraction. 0 is the
        published algorithm, and 1 the Euclidean distance. By default the judge chooses among 0,
        0.1, 0.3, 0.6 and 1.
    judge : "auto", None or Judge, default="auto"
        Chooses `shrinkage` by held-out triplets, see :class:`~metricfast.selection.Judge`: a clone
        is fitted to half of the triplets, and the others, which have points of their own, are
        counted as right or wrong. The largest fraction that is as good as the best within two
        standard errors is used. With None, `shrinkage` is 0 by default.
    n_jobs : int, optional
        Number of threads that evaluate the objective; results do not depend on it. By default all
        that the process may use.
    verbose, preprocessor
        As for :class:`ITML`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The learned map, in float32 for float32 points, else in float64. Without `n_components` it
        has a row for each base of positive weight, but at most n_features.
    shrinkage_ : float
        The fraction in use.
    weights_ : ndarray of shape (n_basis,)
        Weights of the bases. If `shrinkage_` is positive, they are of the metric before.
    n_iter_ : int
        Number of iterations done.
    objective_ : float
        The objective at `weights_`.
    loss_curve_ : list of float
        The objective after each `output_iter` iterations, and at the end, at the best multiple of
        the weights.
    validation_, n_features_in_, preprocessor_
        As for :class:`ITML`.

    Notes
    -----
    The length of the steps suits features of about unit spread: standardize them. An interrupted
    `fit` (Ctrl-C) raises KeyboardInterrupt and leaves the best map so far in `components_`. Memory
    does not grow with the product of triplets and bases. The projections of the points onto the
    bases are stored if they take at most half a gigabyte, and the points are at most half as many
    as the triplets drawn in `output_iter` iterations.

    References
    ----------
    Y. Shi, A. Bellet, F. Sha, "Sparse compositional metric learning", AAAI (2014).

    Examples
    --------
    >>> from metricfast import SCML
    >>> points = [[1.2, 7.5], [1.3, 1.5], [6.2, 9.7], [5.4, 5.4], [3.2, 4.6]]
    >>> scml = SCML(preprocessor=points, shrinkage=0, random_state=0)
    >>> scml.fit([[0, 1, 2], [1, 4, 3], [1, 0, 3]]).predict([[0, 1, 3]])
    array([1])
    """

    @reports_to_sklearn
    def fit(self, triplets: ArrayLike, y: Any = None, *, validate: bool = False) -> SCML:
        """Learn the metric.

        Parameters
        ----------
        triplets : array-like of shape (n_triplets, 3, n_features) or (n_triplets, 3)
            Points, or indicators for the preprocessor. The first of a triplet should be nearer to
            the second than to the third.
        y : ignored
        validate : bool, default=False
            As for :meth:`SDML.fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used.
        """
        self._check_parameters()
        given = self._prepare_tuples(triplets)
        rng = check_random_state(self.random_state)
        span, d = span_of(given.used_points()), given.points.shape[1]
        width = span.width if isinstance(span, Span) else d
        n_basis = 80 * d if self.n_basis is None else int(self.n_basis)
        # A decomposition takes 12 multiplications for each entry and row.
        self._warn_of_cost(n_basis, width, 12 * n_basis / d * width**3)
        self._minimize(given, rng, self._triplet_basis(given, span, rng), span)
        shrink_by_tuples(self, given)
        if validate:
            self._validate_fit(triplets)
        return self


@positional(
    "k_genuine k_impostor beta basis n_basis gamma max_iter output_iter batch_size verbose "
    "preprocessor random_state"
)
@dataclass(eq=False, repr=False)
class SCML_Supervised(SupervisedForm, _SCML):  # noqa: N801
    """Sparse compositional metric learning from class labels.

    Triplets are each point with each of its nearest points of the same class and each of its
    nearest points of other classes; see :class:`SCML` for the objective.

    Parameters
    ----------
    k_genuine : int, default=3
        Nearest points of the same class to make triplets of.
    k_impostor : int, default=10
        Nearest points of other classes to make triplets of.
    beta, gamma, max_iter, output_iter, batch_size, verbose, preprocessor, random_state, \
            n_components, n_jobs
        As for :class:`SCML`, and so are their defaults.
    basis : {"lda", "triplet_diffs"} or ndarray of shape (n_basis, n_features), default="lda"
        "lda" are linear discriminants of the neighbourhoods of cluster centres, at two scales.
    n_basis : int, optional
        Number of bases to make: by default ``80 * n_features`` with "triplet_diffs" and
        ``20 * n_features`` with "lda", or fewer if there are few samples. With "lda", regions of
        low rank give fewer.
    shrinkage, judge
        As for :class:`ITML_Supervised`.

    Attributes
    ----------
    shrinkage_, shrinkage_target_
        As for :class:`ITML_Supervised`. If `shrinkage_` is positive, `weights_` are of the metric
        before.
    components_, weights_, n_iter_, objective_, loss_curve_, validation_, n_features_in_, \
            feature_names_in_, preprocessor_
        As for :class:`SCML`.

    Notes
    -----
    Where points are few for their features, the learned metric is of no use to neighbours at any
    fraction, and the judge keeps the Euclidean distance: ``shrinkage_`` is then 1.

    `sample_weight` weights the triplets whose first point it belongs to. A repeated point would
    find its copy as the nearest of its class, so a weight of 2 is not the same as a repeated point.

    References
    ----------
    Y. Shi, A. Bellet, F. Sha, "Sparse compositional metric learning", AAAI (2014).

    Examples
    --------
    >>> from metricfast import SCML_Supervised
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> scml = SCML_Supervised(random_state=33, n_components=2).fit(X, y)
    >>> scml.transform(X).shape
    (150, 2)
    """

    k_genuine: Integer = 3
    k_impostor: Integer = 10
    basis: str | Array = "lda"

    _bases = ("triplet_diffs", "lda")

    def _draw(self, *given: Any) -> TupleSet:
        self._check_parameters()
        return draw_triplets(self, *given)

    def _learn(self, tuples: TupleSet, given: FitArguments, rng: RandomState, **_: Any) -> None:
        labels, sample_weight, marks = given[1:]
        ours = tuples.points, labels, sample_weight, marks
        span = span_of(tuples.used_points())
        if isinstance(self.basis, str) and self.basis == "lda":
            codes = check_partial_target(labels)[1]
            known = codes >= 0
            sizes = int(np.count_nonzero(known)), int(tuples.points.shape[1]), int(codes.max()) + 1
            self._warn_of_cost(*cost_of_discriminants(*sizes, self.n_basis))
            basis = local_discriminants(tuples.points[known], codes[known], self.n_basis, rng)
        else:
            basis = self._triplet_basis(tuples, span, rng)
        learn = partial(self._minimize, tuples, rng, basis, span)
        sample = representative_sample(tuples.points, labels, sample_weight)
        cheaper = {"max_iter": max(int(self.output_iter), int(self.max_iter) // 2)}
        with in_span(self, tuples.used_points(), sample[0]) as axes:
            shrink_metric(self, learn, sample, ours, cheaper, axes)


def _components(basis: Floats, weights: Array) -> Floats:
    """Return the map of the metric, with one row for each base of positive weight if possible."""
    active = weights > 0
    rows = np.sqrt(weights[active].astype(np.float64))[:, None] * basis[active]
    if len(rows) < basis.shape[1]:
        return rows if len(rows) else np.zeros((1, basis.shape[1]))
    return components_from_metric(rows.T @ rows)


def _leading(L: Floats, n_components: int) -> Floats:
    """Return the map from the leading eigenvectors of the metric of map L."""
    if len(L) < L.shape[1]:
        return leading_rows(L, n_components)
    return components_from_metric(L.T @ L, n_components=n_components)


def _draws(rng: RandomState, n: int, shape: tuple[int, int], weight: Floats | None) -> Integers:
    """Draw triplets with probabilities in proportion to their weights."""
    if weight is None:
        return np.asarray(rng.randint(n, size=shape), np.int64)
    chances = np.cumsum(weight)
    drawn = np.searchsorted(chances, rng.random_sample(shape) * chances[-1], side="right")
    return np.asarray(np.minimum(drawn, n - 1), np.int64)
