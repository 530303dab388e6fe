"""Information-theoretic metric learning."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from metricfast._core.arguments import as_real, check_range
from metricfast._core.dispatch import get_kernels
from metricfast._core.initialize import check_n_components, components_from_metric
from metricfast._core.memory import block_rows
from metricfast._core.parameters import (
    DEPRECATED,
    NonNegativeFloat,
    PositiveInt,
    Seed,
    Share,
    Verbosity,
    positional,
)
from metricfast._core.prior import is_identity
from metricfast._core.progress import iteration_progress
from metricfast._core.scaling import ORDINARY_SQUARES, times_power_of_two
from metricfast._core.thresholds import check_calibration_params
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast._core.warn import warn_user
from metricfast.distances.neighbors import paired_distances
from metricfast.learners.base.classifiers import PairsClassifierMixin
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.tuples.drawing import FitArguments, SupervisedForm, draw_pairs
from metricfast.learners.tuples.factored import start_metric
from metricfast.learners.tuples.shrinking import half_of_pairs, representative_sample, shrink_metric
from metricfast.selection._judge import JudgeParameter
from metricfast.training.callbacks import CallbackMixin, reports_to_sklearn
from metricfast.training.span import GivenAxes, distinct_rows, in_span

# Percentiles of a sample of this many distances are accurate to 0.1 percent of the pairs.
_MOST_DISTANCES = 250_000
_BLOCK = 4 << 20  # bytes of points that fit into the cache


_Gamma = Annotated[float, partial(check_range, positive=True, infinite=True)]


@dataclass(eq=False, repr=False)
class _ITML(CallbackMixin, MahalanobisMixin):
    """Parameters and solver of ITML and ITML_Supervised."""

    gamma: _Gamma = 1.0
    max_iter: PositiveInt = 1000
    tol: NonNegativeFloat = 1e-3
    prior: str | Array = "identity"
    verbose: Verbosity = False
    preprocessor: ArrayLike | Callable[..., Any] | None = None
    random_state: Seed = None
    convergence_threshold: float | str = DEPRECATED
    _: KW_ONLY
    n_components: int | None = None

    _renamed: ClassVar[dict[str, str]] = {"convergence_threshold": "tol"}

    def _project(self, given: TupleSet, bounds: ArrayLike | None, span: GivenAxes) -> None:
        """Project the metric onto one constraint after the other, in coordinates of the span."""
        tuples = span.tuples(given)
        check_n_components(tuples.points.shape[1], self.n_components)
        M = start_metric(tuples, self.prior, self.random_state, strictly_positive=True)
        # A step depends only on the ratio of a distance to its bound, so both can be rescaled to
        # avoid overflow of squares.
        points = tuples.used_points()
        exponent = _exponent(points)
        if abs(exponent) > ORDINARY_SQUARES:
            varies = (points != points[0]).any(axis=0)
            exponent = _exponent(points * varies)
            points = times_power_of_two(tuples.points * varies, -exponent)
            tuples = replace(tuples, points=points)
        else:
            exponent = 0
        if bounds is None:
            scaled = _distance_percentiles(tuples.points, given.unique_rows(), M)
            self.bounds_ = times_power_of_two(scaled, exponent)
        else:
            self.bounds_ = _check_bounds(bounds)
            scaled = times_power_of_two(self.bounds_, -exponent)
        order = np.argsort(tuples.y != 1, kind="stable")
        similar = int(np.count_nonzero(tuples.y == 1))
        pairs, duals = tuples.index[order], np.zeros(len(order))
        gram = _gram_matrix(tuples.points, pairs, M)
        given_points: Array | None = tuples.points
        state = M
        if gram is not None:
            given_points, pairs, state = None, gram.pairs, gram.products
        upper, lower = (float(bound) * float(bound) for bound in scaled)
        if min(upper, lower) == 0 or max(upper, lower) == math.inf:
            raise ValueError(f"`bounds` {self.bounds_} are too far from the scale of the points.")
        self.n_iter_, size, converged, any_held = 0, 0.0, False, False

        def after_sweep(moved: float, norm: float, held: int) -> bool:
            nonlocal size, converged, any_held
            self.n_iter_ += 1
            change = moved / (size + norm) if size + norm > 0 else float(moved > 0)
            size, converged, any_held = norm, moved == 0 or change < self.tol, held > 0
            converged = progress(self.n_iter_, change) or converged
            return not converged and self.n_iter_ < self.max_iter

        def set_fitted() -> bool:
            found = M if gram is None else gram.metric(duals, similar)
            positive = _nearest_psd(found)
            L = components_from_metric(positive, n_components=self.n_components)
            self.components_ = L.astype(tuples.points.dtype, copy=False)
            return positive is found

        try:
            with iteration_progress(self, self.max_iter, set_fitted, "change") as progress:
                get_kernels().itml(
                    given_points, pairs, similar, state, duals, upper, lower, self.gamma,
                    after_sweep,
                )  # fmt: skip
        finally:
            positive = set_fitted()
        if any_held or not positive:
            _warn("M is singular up to rounding errors: bring the bounds closer together")
        elif not converged:
            _warn(f"No convergence in {self.max_iter} sweeps over the pairs: raise max_iter or tol")


@dataclass(eq=False, repr=False)
class ITML(PairsClassifierMixin, _ITML):
    r"""Information-theoretic metric learning from pairs of similar and of dissimilar points.

    Learns a matrix M close to a prior :math:`M_0` in LogDet divergence
    :math:`D(M, M_0) = \mathrm{tr}(M M_0^{-1}) - \log\det(M M_0^{-1}) - d`, under which similar
    points are at most a distance :math:`b_0` apart and dissimilar ones at least :math:`b_1`, up to
    slack that costs :math:`\gamma` for each pair:

    .. math::

        \min_{M \succ 0,\, \xi} D(M, M_0) + \gamma \sum_i D(\xi_i, b_i^2), \qquad
        \|x_i - x'_i\|_M^2 \le \xi_i \text{ (similar)}, \;
        \|x_i - x'_i\|_M^2 \ge \xi_i \text{ (dissimilar)}

    by projecting M onto one pair after the other, the similar ones first. A projection is a
    rank-one update, which leaves M positive definite.

    Parameters
    ----------
    gamma : float, default=1.0
        Weight of keeping the bounds, of each pair. Infinity: no slack. The more pairs there are,
        the less the prior counts; 0.01 to 0.1 is often better with thousands of pairs.
    max_iter : int, default=1000
        Largest number of sweeps over the pairs.
    tol : float, default=1e-3
        Sweeps end when the sum of the changes of the dual variables falls below this part of the
        norm of the dual variables before and after the sweep, added.
    prior : {"identity", "covariance", "random"} or ndarray, default="identity"
        :math:`M_0`. "covariance" is the inverse of the covariance of the points. An array of shape
        (n_features, n_features) must be symmetric and positive definite.
    verbose : bool or int, default=False
        Show progress on standard error.
    preprocessor : array-like of shape (n_points, n_features), callable or None, default=None
        Turns indicators of points into points.
    random_state : int, RandomState or None, default=None
        For ``prior="random"``.
    convergence_threshold : float
        Former name of `tol`.

        .. deprecated:: 0.1
    n_components : int, optional
        Number of rows of `components_`: the leading eigenvectors of M, scaled. By default
        n_features. With more features than points, eigenvectors in the span of the points come
        first, and are at most as many as the points.

    Attributes
    ----------
    bounds_ : ndarray of shape (2,), float64
        The distances :math:`b_0` and :math:`b_1`.
    components_ : ndarray of shape (n_components, n_features)
        The map L of :math:`M = L^T L`, float32 for float32 points.
    n_iter_ : int
        Number of sweeps over the pairs.
    threshold_ : float
        Pairs of at most this distance count as similar.
    validation_, n_features_in_, preprocessor_
        As for :class:`BaseMetricLearner`.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` sweeps were not enough, or M became singular but for rounding errors.

    See Also
    --------
    ITML_Supervised : Draws the pairs from class labels.

    Notes
    -----
    Pairs of points that coincide are passed over, and no step takes a distance down into the
    rounding errors of M. All arithmetic is in float64. Other units give the same M.

    References
    ----------
    J. V. Davis, B. Kulis, P. Jain, S. Sra and I. S. Dhillon, "Information-theoretic metric
    learning", ICML 2007.

    Examples
    --------
    >>> from metricfast import ITML
    >>> pairs = [[[1.2, 7.5], [1.3, 1.5]], [[6.4, 2.6], [6.2, 7.7]],
    ...          [[1.3, 4.5], [3.2, 4.6]], [[6.2, 5.5], [2.4, 5.4]]]
    >>> itml = ITML().fit(pairs, [1, 1, -1, -1])  # similar points share the first feature
    >>> itml.predict(pairs)
    array([ 1,  1, -1, -1])
    """

    _requires_y = True

    @reports_to_sklearn
    def fit(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        bounds: ArrayLike | None = None,
        calibration_params: dict[str, Any] | None = None,
        *,
        validate: bool = False,
    ) -> ITML:
        """Learn the metric, and the threshold that classifies the given pairs best.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
        y : array-like of shape (n_pairs,)
            As for :meth:`SDML.fit`, like the last two, and the errors.
        bounds : array-like of 2 numbers, optional
            Distances (not squared): the largest for similar points and the smallest for dissimilar
            ones. A zero becomes 1e-5 of the other. By default the 5th and 95th percentile of the
            distances, under the prior, of the different points that are in a pair.
        calibration_params : dict, optional
        validate : bool, default=False

        Returns
        -------
        self
        """
        calibration = check_calibration_params(calibration_params)
        tuples = self._prepare_tuples(pairs, y)
        with in_span(self, tuples.used_points(), when=is_identity(self.prior)) as span:
            self._project(tuples, bounds, span)
        self.calibrate_threshold(pairs, y, **calibration)
        if validate:
            self._validate_fit(pairs, y, bounds=bounds, calibration_params=calibration_params)
        return self


@positional(
    "gamma max_iter tol n_constraints prior verbose preprocessor random_state num_constraints "
    "convergence_threshold"
)
@dataclass(eq=False, repr=False)
class ITML_Supervised(SupervisedForm, _ITML):  # noqa: N801
    """Information-theoretic metric learning from class labels.

    Draws pairs of points of one class as similar pairs, as many pairs of points of different
    classes as dissimilar ones, and learns from them as :class:`ITML` does.

    Parameters
    ----------
    gamma, max_iter, tol : float, int, float
        As for :class:`ITML`, and so are their defaults.
    n_constraints : int, optional
        Number of similar and number of dissimilar pairs, by default ``20 * n_classes**2``. For more
        than 40 classes at most ``max(32000, n_samples, n_features)``, with a warning where that is
        less.
    prior, verbose, preprocessor : str or ndarray, bool, array-like or callable
        As for :class:`ITML`.
    random_state : int, RandomState or None, default=None
        For the draw of pairs, and for ``prior="random"``.
    num_constraints, convergence_threshold : int, float
        Former names of `n_constraints` and `tol`.

        .. deprecated:: 0.1
    n_components : int, optional
        As for :class:`ITML`.
    shrinkage : float from 0 to 1, optional
        Move the learned metric towards the Euclidean one, of the same mean distance, by this
        fraction. 0 leaves it as it is, as metric-learn does; 1 is the Euclidean distance. By
        default the judge chooses among 0, 0.1, 0.6 and 1, towards the Euclidean distance, given or
        with standardized features.
    judge : "auto", None or Judge, default="auto"
        Chooses `shrinkage` by held-out points, see :class:`~metricfast.selection.Judge`. With None,
        `shrinkage` is 0 by default.

    Attributes
    ----------
    shrinkage_ : float
        The fraction in use.
    shrinkage_target_ : {"identity", "variance"}
        The simpler metric: the Euclidean distance, or the one of standardized features.
    judgement_ : metricfast.selection.Judgement
        What the judge tried. If it chose standardized features, the tuples are learned from these,
        and `bounds_` are of distances between them.
    bounds_, components_, n_iter_, validation_, n_features_in_, feature_names_in_, preprocessor_
        As for :class:`ITML`.

    Notes
    -----
    All points of a class should come near each other, which suits classes of one cluster each. For
    classes of several clusters no metric can do that, and with the default `gamma` trying to can
    make neighbours worse than Euclidean ones: lower `gamma`, and fit with ``validate=True``.

    The chances of points to be in a pair are in proportion to `sample_weight`.

    References
    ----------
    As for :class:`ITML`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from metricfast import ITML_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> itml = ITML_Supervised(gamma=0.1, n_constraints=200, random_state=0).fit(X, y)
    >>> itml.transform(X).shape
    (150, 4)
    """

    n_constraints: PositiveInt | None = None
    num_constraints: int | str = DEPRECATED
    shrinkage: Share | None = None
    judge: JudgeParameter = "auto"

    _draw = draw_pairs
    _renamed: ClassVar[dict[str, str]] = {"num_constraints": "n_constraints", **_ITML._renamed}

    @reports_to_sklearn
    def fit(  # type: ignore[override]
        self,
        X: ArrayLike,
        y: ArrayLike,
        bounds: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        views: ArrayLike | None = None,
        validate: bool = False,
    ) -> ITML_Supervised:
        """Draw pairs and learn the metric.

        Parameters
        ----------
        X : array-like or source of shape (n_samples, n_features), or (n_samples,)
            As for :meth:`MMC_Supervised.fit`, and so are `y`, weights, `validate` and the errors.
        y : array-like of shape (n_samples,)
        bounds : array-like of 2 numbers, optional
            As for :meth:`ITML.fit`.
        sample_weight, groups, views : array-like of shape (n_samples,), optional
        validate : bool, default=False

        Returns
        -------
        self
        """
        marks: dict[str, Any] = {"groups": groups, "views": views}
        self._fit_drawn(X, y, sample_weight, **marks, validate=validate, bounds=bounds)
        return self

    def _learn(self, tuples: TupleSet, given: FitArguments, rng: RandomState, **how: Any) -> None:
        sample = representative_sample(*given[:3])
        spanning = tuples.used_points(), sample[0]
        with in_span(self, *spanning, when=is_identity(self.prior)) as span:
            learn = partial(self._project, tuples, how["bounds"], span)
            shrink_metric(self, learn, sample, given, half_of_pairs(tuples), span, **how)


class _Gram:
    """The inner products of few points under M, on which projections take less time."""

    def __init__(self, X: Floats, pairs: Integers, M: Floats) -> None:
        self.pairs, self.products = pairs, X @ M @ X.T
        self._X, self._inverse = X, np.linalg.inv(M)

    def metric(self, duals: Floats, similar: int) -> Floats:
        """Return M. Its inverse is the inverse of the prior plus the weighted scatter of pairs."""
        weights = np.where(np.arange(len(duals)) < similar, duals, -duals)
        laplacian = np.zeros_like(self.products)
        np.subtract.at(laplacian, tuple(self.pairs.T), weights)
        laplacian += laplacian.T
        laplacian[np.diag_indices_from(laplacian)] -= laplacian.sum(axis=1)
        M = np.linalg.inv(self._inverse + self._X.T @ laplacian @ self._X)
        return np.asarray((M + M.T) / 2)


def _gram_matrix(points: Array, pairs: Integers, M: Floats) -> _Gram | None:
    """Return the products of the points in pairs, if they are at most twice the features."""
    used, places = np.unique(pairs, return_inverse=True)
    # With more points, and a third of the pairs violated, updates of M take less time.
    if len(used) > 2 * len(M):
        return None
    X = points[used].astype(np.float64)
    first, copies = distinct_rows(X)
    return _Gram(X[first] - X[first].mean(axis=0), copies[places.reshape(pairs.shape)], M)


def _exponent(X: Array) -> int:
    """Return the exponent of the power of two just above the largest coordinate."""
    return math.frexp(max(float(X.max()), -float(X.min())))[1]


def _check_bounds(bounds: ArrayLike) -> Floats:
    """Return a copy of the user's bounds, without zeros.

    Raises ValueError unless they are two finite, non-negative numbers, not both zero.
    """
    given = check_array(
        as_real(bounds, "bounds"),
        dtype=np.float64,
        ensure_2d=False,
        ensure_min_samples=0,
        input_name="bounds",
    )
    result: Floats = np.array(given).ravel()
    if result.size != 2:
        raise ValueError("`bounds` should be an array-like of two elements.")
    if (result < 0).any() or not result.any():
        raise ValueError(
            f"`bounds` are distances: they must not be negative, nor both zero, got {bounds!r}."
        )
    result[result == 0] = 1e-5 * result.max()  # only a singular M could satisfy a bound of zero
    return result


def _distance_percentiles(points: Array, rows: Integers, M: Floats) -> Floats:
    """Return the 5th and 95th percentile of distances under M between distinct points.

    Uses a fixed sample if there are many pairs. Raises ValueError for a single point.
    """
    n = len(rows)
    if n < 2:
        raise ValueError(
            "All pairs hold the same point, so there is no distance to learn from: "
            "give pairs of different points."
        )
    if n * (n - 1) // 2 <= _MOST_DISTANCES:
        left, right = np.triu_indices(n, 1)
    else:
        rng = np.random.RandomState(0)
        left = rng.randint(n, size=_MOST_DISTANCES)
        right = (left + rng.randint(1, n, size=_MOST_DISTANCES)) % n
    L = components_from_metric(M)
    step = block_rows(16 * points.shape[1], most=_BLOCK)
    parts = (slice(start, start + step) for start in range(0, len(left), step))
    distances = [
        paired_distances(
            *(points[rows[side[part]]].astype(np.float64) for side in (left, right)), L=L
        )
        for part in parts
    ]
    return np.asarray(np.percentile(np.concatenate(distances), (5, 95)))


def _nearest_psd(M: Floats) -> Floats:
    """Remove negative eigenvalues, which come from rounding."""
    eigenvalues, eigenvectors = np.linalg.eigh(M)
    if eigenvalues[0] >= 0:
        return M
    return np.asarray((eigenvectors * np.maximum(eigenvalues, 0)) @ eigenvectors.T)


def _warn(found: str) -> None:
    advice = f"{found}, lower gamma, or leave out pairs that contradict each other."
    warn_user(advice, ConvergenceWarning)
