"""Mahalanobis metric learning for clustering."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.arguments import check_count, check_random_state, check_range
from metricfast._core.deprecation import DEPRECATED
from metricfast._core.initialize import check_n_components
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.tuples import TupleSet
from metricfast.constraints import wrap_indices
from metricfast.learners.base.classifiers import PairsClassifierMixin
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.base.thresholds import check_calibration_params
from metricfast.learners.tuples.drawn_pairs import draw_pairs
from metricfast.learners.tuples.factored import minimize_factor, start_metric
from metricfast.learners.tuples.mmc_solver import ClusteringProblem, check_diagonal

__all__ = ["MMC", "MMC_Supervised"]

_Floats = NDArray[np.float64]


class _BaseMMC(MahalanobisMixin):
    """What the learners on given and on drawn pairs share."""

    def __init__(
        self,
        max_iter: int = 100,
        max_proj: int = 10000,
        tol: float = 1e-3,
        init: str | NDArray[Any] = "identity",
        diagonal: bool = False,
        diagonal_c: float = 1.0,
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
        check_count("max_proj", self.max_proj)
        check_range("tol", tol)
        check_diagonal(self.diagonal)
        check_range("diagonal_c", self.diagonal_c, positive=True)
        return float(tol)

    @one_blas_thread()
    def _fit(
        self, tuples: TupleSet, y: NDArray[Any], tol: float, rng: np.random.RandomState
    ) -> None:
        n_features, dtype = tuples.points.shape[1], tuples.points.dtype
        if self.n_components is not None:
            check_n_components(n_features, self.n_components)
        for label, kind in ((1, "similar"), (-1, "dissimilar")):
            if not (y == label).any():
                raise ValueError(
                    f"{type(self).__name__} needs similar pairs (1) and dissimilar ones (-1), but "
                    f"y holds no {kind} pair."
                )
        A = start_metric(tuples, self.init, rng, name="init")
        problem = ClusteringProblem(tuples.points, tuples.index, y, A, diagonal=bool(self.diagonal))
        size = self.diagonal_c / 2 if self.diagonal else problem.initial_size / 100

        def finish(F: _Floats) -> None:
            self.A_ = problem.metric(F, size)
            self._set_metric(self.A_, self.n_components, dtype)

        self.converged_ = False
        self.converged_ = (
            minimize_factor(self, problem.objective, problem.start, tol, finish) <= tol
        )


class MMC(_BaseMMC, PairsClassifierMixin):
    r"""Mahalanobis metric learning for clustering, from similar and dissimilar pairs.

    Learns the matrix A that brings dissimilar points as far apart as possible while similar ones
    stay near:

    .. math::

        \max_{A \succeq 0} \sum_{\text{dissimilar}} \|x - x'\|_A \quad\text{subject to}\quad
        \sum_{\text{similar}} \|x - x'\|_A^2 \le t

    The problem is convex. The bound t, a hundredth of the sum for the initial matrix, only sets the
    scale of A. With ``diagonal=True``, A is diagonal and minimises

    .. math::

        \sum_{\text{similar}} \|x - x'\|_A^2 - c \log \sum_{\text{dissimilar}} \|x - x'\|_A

    Parameters
    ----------
    max_iter : int, default=100
        Largest number of iterations of L-BFGS.
    max_proj : int, default=10000
        Has no effect: the search needs no projections.
    tol : float, default=1e-3
        The search ends when the sum of distances of dissimilar points is known to be within this
        part of its maximum.
    init : {"identity", "covariance", "random"} or ndarray, default="identity"
        Matrix to start from, which sets the scale of A. "covariance" is the pseudo-inverse of the
        covariance of the points. An array of shape (n_features, n_features) must be symmetric and
        positive semidefinite.
    diagonal : bool, default=False
        Learn a weight for each feature only.
    diagonal_c : float, default=1.0
        The constant c, which sets the scale of a diagonal A and nothing else: the sum over similar
        pairs is c / 2.
    verbose : bool, default=False
        Show progress on standard error.
    preprocessor : array-like of shape (n_points, n_features), callable or None, default=None
        Turns indicators of points into points.
    random_state : int, RandomState or None, default=None
        For ``init="random"``.
    convergence_threshold : float
        Former name of `tol`.

        .. deprecated:: 0.1
    n_components : int, optional
        Number of rows of `components_`: the leading eigenvectors of A, scaled. By default
        n_features.

    Attributes
    ----------
    A_ : ndarray of shape (n_features, n_features), float64
        The learned matrix.
    components_ : ndarray of shape (n_components, n_features)
        A map L with :math:`A = L^T L`, float32 for float32 points.
    converged_ : bool
        Whether `tol` was reached.
    n_iter_ : int
        Number of iterations.
    threshold_ : float
        Pairs of at most this distance count as similar.
    n_features_in_ : int
        Number of features of a point.
    validation_ : dict
        Only after ``fit(..., validate=True)``: how the learned and the Euclidean distance do on
        held-out pairs.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` iterations were not enough.

    See Also
    --------
    MMC_Supervised : Draws the pairs from class labels.

    Notes
    -----
    The best A has a low rank: a direction is of use only where it separates dissimilar points as
    well as the best ones do, for the same cost. On handwritten digits 3 of 64 directions are left.
    That suits clustering into few groups, but the nearer A is to it, the more neighbours suffer:
    the error of 3 nearest neighbours there is 1.4 % in the Euclidean distance and 16 % in the best
    one. For neighbours take another learner, or stop early by a `tol` of 0.3, and fit with
    ``validate=True``.

    A is searched for as :math:`L^T L` with the constraint absorbed into the objective, by L-BFGS in
    coordinates in which the similar pairs have the identity as their scatter. The concave problem
    gives an upper bound of its maximum at every A, which `tol` refers to. Along directions in
    which similar points do not differ the maximum is infinite; they count as if the similar points
    differed by 0.1 % of what is usual. Constant features get no weight. All arithmetic is float64.

    References
    ----------
    E. P. Xing, A. Y. Ng, M. I. Jordan and S. Russell, "Distance metric learning, with application
    to clustering with side-information", NIPS 2002.

    Examples
    --------
    >>> from metricfast import MMC
    >>> pairs = [[[1.2, 7.5], [1.3, 1.5]], [[6.4, 2.6], [6.2, 9.7]],
    ...          [[1.3, 4.5], [3.2, 4.6]], [[6.2, 5.5], [5.4, 5.4]]]
    >>> mmc = MMC().fit(pairs, [1, 1, -1, -1])  # the first feature tells what is similar
    >>> mmc.predict(pairs)
    array([ 1,  1, -1, -1])
    """

    def fit(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        calibration_params: dict[str, Any] | None = None,
        *,
        validate: bool = False,
    ) -> MMC:
        """Learn the metric, and the threshold that classifies the given pairs best.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of points, or of indicators for the preprocessor.
        y : array-like of shape (n_pairs,)
            1 for similar pairs, -1 for dissimilar ones.
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
            If an argument or a parameter has a value that cannot be used, or if there are no
            similar or no dissimilar pairs.
        """
        calibration = check_calibration_params(calibration_params)
        tol = self._check_parameters()
        tuples = self._prepare_tuples(pairs, y)
        assert tuples.y is not None
        self._fit(tuples, tuples.y, tol, check_random_state(self.random_state))
        self.calibrate_threshold(pairs, y, **calibration)
        if validate:
            self._validate_fit(pairs, y, calibration_params=calibration_params)
        return self


class MMC_Supervised(_BaseMMC):  # noqa: N801
    """Mahalanobis metric learning for clustering, from class labels.

    Draws pairs of points of one class as similar pairs, as many pairs of points of different
    classes as dissimilar ones, and learns from them as :class:`MMC` does.

    Parameters
    ----------
    max_iter : int, default=100
        Largest number of iterations of L-BFGS.
    max_proj : int, default=10000
        Has no effect: the search needs no projections.
    tol : float, default=1e-6
        The search ends when the sum of distances of dissimilar points is known to be within this
        part of its maximum.
    n_constraints : int, optional
        Number of similar and number of dissimilar pairs, by default ``20 * n_classes**2``.
    init : {"identity", "covariance", "random"} or ndarray, default="identity"
        Matrix to start from, which sets the scale of A. "covariance" is the pseudo-inverse of the
        covariance of the points. An array of shape (n_features, n_features) must be symmetric and
        positive semidefinite.
    diagonal : bool, default=False
        Learn a weight for each feature only.
    diagonal_c : float, default=1.0
        Sets the scale of a diagonal A, see :class:`MMC`.
    verbose : bool, default=False
        Show progress on standard error.
    preprocessor : array-like of shape (n_points, n_features), callable or None, default=None
        Turns indicators of points into points.
    random_state : int, RandomState or None, default=None
        For the draw of pairs, and for ``init="random"``.
    num_constraints : int
        Former name of `n_constraints`.

        .. deprecated:: 0.1
    convergence_threshold : float
        Former name of `tol`.

        .. deprecated:: 0.1
    n_components : int, optional
        Number of rows of `components_`: the leading eigenvectors of A, scaled. By default
        n_features.

    Attributes
    ----------
    A_ : ndarray of shape (n_features, n_features), float64
        The learned matrix.
    components_ : ndarray of shape (n_components, n_features)
        A map L with :math:`A = L^T L`, float32 for float32 points.
    converged_ : bool
        Whether `tol` was reached.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of features of a point.
    validation_ : dict
        Only after ``fit(..., validate=True)``: errors of the learned and of the Euclidean distance
        on held-out points.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` iterations were not enough.

    See Also
    --------
    MMC : Learns from given pairs, and says what kind of matrix is the best one.

    References
    ----------
    E. P. Xing, A. Y. Ng, M. I. Jordan and S. Russell, "Distance metric learning, with application
    to clustering with side-information", NIPS 2002.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from metricfast import MMC_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> MMC_Supervised(n_constraints=200, random_state=0).fit(X, y).transform(X).shape
    (150, 4)
    """

    _requires_y = _partial_labels = True

    def __init__(
        self,
        max_iter: int = 100,
        max_proj: int = 10000,
        tol: float = 1e-6,
        n_constraints: int | None = None,
        init: str | NDArray[Any] = "identity",
        diagonal: bool = False,
        diagonal_c: float = 1.0,
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
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
    ) -> MMC_Supervised:
        """Draw pairs and learn the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples,)
            Points, or indicators for the preprocessor.
        y : array-like of shape (n_samples,)
            Class labels. Numbers below 0 mean that the class is unknown.
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
        ValueError
            If an argument or a parameter has a value that cannot be used.
        """
        tol = self._check_parameters()
        points, labels = self._prepare_inputs(X, y, ensure_min_samples=2)
        rng = check_random_state(self.random_state)
        drawn = draw_pairs(self, labels, sample_weight, rng, need_similar=True)
        index, kinds = wrap_indices(drawn)
        self._fit(TupleSet(points, index), kinds, tol, rng)
        if validate:
            self._validate_fit(X, y, sample_weight=sample_weight)
        return self
