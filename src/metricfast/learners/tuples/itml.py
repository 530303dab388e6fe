"""Information-theoretic metric learning."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.arguments import check_count, check_range
from metricfast._core.deprecation import DEPRECATED
from metricfast._core.dispatch import get_kernels
from metricfast._core.initialize import check_n_components
from metricfast._core.progress import Progress
from metricfast._core.scaling import times_power_of_two
from metricfast._core.tuples import TupleSet
from metricfast._core.warn import warn_user
from metricfast.constraints import wrap_indices
from metricfast.learners.base.classifiers import PairsClassifierMixin
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.base.thresholds import check_calibration_params
from metricfast.learners.tuples.distance_bounds import check_bounds, distance_percentiles
from metricfast.learners.tuples.drawn_pairs import draw_pairs
from metricfast.learners.tuples.factored import start_metric

__all__ = ["ITML", "ITML_Supervised"]

# Squares of numbers up to two to this power do not overflow.
_ORDINARY = 200


def _exponent(X: NDArray[Any]) -> int:
    """Return the power of two just above the largest coordinate."""
    return math.frexp(max(float(X.max()), -float(X.min())))[1]


class _BaseITML(MahalanobisMixin):
    """What the learners on given and on drawn pairs share."""

    def __init__(
        self,
        gamma: float = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-3,
        prior: str | NDArray[Any] = "identity",
        verbose: bool = False,
        preprocessor: ArrayLike | Callable[..., Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        convergence_threshold: float | str = DEPRECATED,
        *,
        n_components: int | None = None,
    ) -> None:
        self._take(locals())

    def _check_parameters(self) -> float:
        """Check what needs no data, and return the tolerance."""
        tol = self._current("tol")
        check_count("max_iter", self.max_iter)
        check_range("tol", tol)
        if not (isinstance(self.gamma, float) and self.gamma == math.inf):
            check_range("gamma", self.gamma, positive=True)
        return float(tol)

    def _fit(self, tuples: TupleSet, bounds: ArrayLike | None, tol: float) -> None:
        check_n_components(self.n_features_in_, self.n_components)
        M = start_metric(tuples, self.prior, self.random_state, strictly_positive=True)
        # The step depends on the ratio of a distance to its bound alone, so that both can be
        # brought to units in which no square overflows.
        points = tuples.used_points()
        exponent = _exponent(points)
        if abs(exponent) > _ORDINARY:
            varies = (points != points[0]).any(axis=0)
            exponent = _exponent(points * varies)
            points = times_power_of_two(tuples.points * varies, -exponent)
            tuples = replace(tuples, points=points)
        else:
            exponent = 0
        if bounds is None:
            scaled = distance_percentiles(tuples, M)
            self.bounds_ = times_power_of_two(scaled, exponent)
        else:
            self.bounds_ = check_bounds(bounds)
            scaled = times_power_of_two(self.bounds_, -exponent)
        order = np.argsort(tuples.y != 1, kind="stable")
        similar = int(np.count_nonzero(tuples.y == 1))
        pairs, duals = tuples.index[order], np.zeros(len(order))
        progress = Progress(type(self).__name__, self.max_iter, "change") if self.verbose else None
        upper, lower = (float(bound) * float(bound) for bound in scaled)
        if min(upper, lower) == 0 or max(upper, lower) == math.inf:
            raise ValueError(f"`bounds` {self.bounds_} are too far from the scale of the points.")
        self.n_iter_, size, converged, any_held = 0, 0.0, False, False

        def after_sweep(moved: float, norm: float, held: int) -> bool:
            nonlocal size, converged, any_held
            self.n_iter_ += 1
            change = moved / (size + norm) if moved > 0 else 0.0
            size, converged, any_held = norm, moved == 0 or change < tol, held > 0
            if progress is not None:
                progress(self.n_iter_, change)
            return not converged and self.n_iter_ < self.max_iter

        try:
            get_kernels().itml(
                tuples.points, pairs, similar, M, duals, upper, lower, self.gamma, after_sweep
            )
        finally:
            if progress is not None:
                progress.close()
            positive = _nearest_psd(M)
            self._set_metric(positive, self.n_components, tuples.points.dtype)
        if any_held or positive is not M:
            _warn("M is singular but for rounding errors: bring the bounds closer together")
        elif not converged:
            _warn(f"No convergence in {self.max_iter} sweeps over the pairs: raise max_iter or tol")


class ITML(_BaseITML, PairsClassifierMixin):
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
    verbose : bool, default=False
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
        n_features.

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
    validation_ : dict
        Only after ``fit(..., validate=True)``: how the learned and the Euclidean distance do on
        held-out pairs.

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
    >>> itml = ITML().fit(pairs, [1, 1, -1, -1])  # the first feature tells what is similar
    >>> itml.predict(pairs)
    array([ 1,  1, -1, -1])
    """

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
            Pairs of points, or of indicators for the preprocessor.
        y : array-like of shape (n_pairs,)
            1 for similar pairs, -1 for dissimilar ones.
        bounds : array-like of 2 numbers, optional
            Distances (not squared): the largest for similar points and the smallest for dissimilar
            ones. A zero becomes 1e-5 of the other. By default the 5th and 95th percentile of the
            distances, under the prior, of the different points that are in a pair.
        calibration_params : dict, optional
            Parameters of `calibrate_threshold`.
        validate : bool, default=False
            Also fit a clone to four fifths of the pairs, compare its score on the others with that
            of the Euclidean distance, keep the numbers in `validation_`, and warn if it is worse.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or a parameter has a value that cannot be used.
        LinAlgError
            If the prior is not positive definite.
        """
        calibration = check_calibration_params(calibration_params)
        tol = self._check_parameters()
        tuples = self._prepare_tuples(pairs, y)
        self._fit(tuples, bounds, tol)
        self.calibrate_threshold(pairs, y, **calibration)
        if validate:
            self._validate_fit(pairs, y, bounds=bounds, calibration_params=calibration_params)
        return self


class ITML_Supervised(_BaseITML):  # noqa: N801
    """Information-theoretic metric learning from class labels.

    Draws pairs of points of one class as similar pairs, as many pairs of points of different
    classes as dissimilar ones, and learns from them as :class:`ITML` does.

    Parameters
    ----------
    gamma, max_iter, tol : float, int, float
        As for :class:`ITML`, and so are their defaults.
    n_constraints : int, optional
        Number of similar and number of dissimilar pairs, by default ``20 * n_classes**2``.
    prior, verbose, preprocessor : str or ndarray, bool, array-like or callable
        As for :class:`ITML`.
    random_state : int, RandomState or None, default=None
        For the draw of pairs, and for ``prior="random"``.
    num_constraints, convergence_threshold : int, float
        Former names of `n_constraints` and `tol`.

        .. deprecated:: 0.1
    n_components : int, optional
        As for :class:`ITML`.

    Attributes
    ----------
    bounds_, components_, n_iter_
        As those of :class:`ITML`.
    validation_ : dict
        Only after ``fit(..., validate=True)``: errors of the learned and of the Euclidean distance
        on held-out points.

    See Also
    --------
    ITML : Learns from given pairs.

    Notes
    -----
    All points of a class should come near each other, which suits classes of one cluster each. For
    classes of several clusters no metric can do that, and with the default `gamma` trying to can
    make neighbours worse than Euclidean ones: lower `gamma`, and fit with ``validate=True``.

    References
    ----------
    J. V. Davis, B. Kulis, P. Jain, S. Sra and I. S. Dhillon, "Information-theoretic metric
    learning", ICML 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from metricfast import ITML_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> itml = ITML_Supervised(gamma=0.1, n_constraints=200, random_state=0).fit(X, y)
    >>> itml.transform(X).shape
    (150, 4)
    """

    _requires_y = True
    _partial_labels = True

    def __init__(
        self,
        gamma: float = 1.0,
        max_iter: int = 1000,
        tol: float = 1e-3,
        n_constraints: int | None = None,
        prior: str | NDArray[Any] = "identity",
        verbose: bool = False,
        preprocessor: ArrayLike | Callable[..., Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        num_constraints: int | str = DEPRECATED,
        convergence_threshold: float | str = DEPRECATED,
        *,
        n_components: int | None = None,
    ) -> None:
        self._take(locals())

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        bounds: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
    ) -> ITML_Supervised:
        """Draw pairs and learn the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples,)
            Points, or indicators for the preprocessor.
        y : array-like of shape (n_samples,)
            Class labels. Numbers below 0 mean that the class is unknown.
        bounds : array-like of 2 numbers, optional
            As for :meth:`ITML.fit`.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights, to which the chances of points to be in a pair are in proportion.
        validate : bool, default=False
            Also fit a clone to four fifths of the points, compare the errors of 3 nearest
            neighbours in the learned and in the Euclidean distance on the others, keep the numbers
            in `validation_`, and warn if the learned one is worse.

        Returns
        -------
        self

        Raises
        ------
        ValueError, LinAlgError
            As :meth:`ITML.fit`.
        """
        tol = self._check_parameters()
        points, labels = self._prepare_inputs(X, y, ensure_min_samples=2)
        drawn = draw_pairs(self, labels, sample_weight, self.random_state)
        self._fit(TupleSet(points, *wrap_indices(drawn)), bounds, tol)
        if validate:
            self._validate_fit(X, y, sample_weight=sample_weight, bounds=bounds)
        return self


def _nearest_psd(M: NDArray[np.float64]) -> NDArray[np.float64]:
    """Drop what negative eigenvalues rounding has left."""
    eigenvalues, eigenvectors = np.linalg.eigh(M)
    if eigenvalues[0] >= 0:
        return M
    return np.asarray((eigenvectors * np.maximum(eigenvalues, 0)) @ eigenvectors.T)


def _warn(found: str) -> None:
    advice = f"{found}, lower gamma, or leave out pairs that contradict each other."
    warn_user(advice, ConvergenceWarning)
