"""Metric learning from relative comparisons by minimising the squared residual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.arguments import check_count, check_random_state, check_range
from metricfast._core.arrays import as_threads, as_vector
from metricfast._core.deprecation import DEPRECATED
from metricfast._core.dispatch import get_kernels
from metricfast._core.initialize import check_n_components, components_from_metric
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.tuples import TupleSet
from metricfast.learners.base.classifiers import QuadrupletsClassifierMixin
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.tuples.drawn_pairs import draw_pairs
from metricfast.learners.tuples.factored import (
    minimize_factor,
    start_metric,
)

__all__ = ["LSML", "LSML_Supervised"]

_Floats = NDArray[np.float64]


class _BaseLSML(MahalanobisMixin):
    """What the learners on given and on drawn quadruplets share."""

    def __init__(
        self,
        tol: float = 1e-3,
        max_iter: int = 1000,
        prior: str | NDArray[Any] = "identity",
        verbose: bool = False,
        preprocessor: ArrayLike | Callable[..., Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        *,
        n_components: int | None = None,
    ) -> None:
        self._take(locals())

    def _check_parameters(self) -> None:
        """Check what needs no data."""
        check_count("max_iter", self.max_iter)
        check_range("tol", self.tol)

    @one_blas_thread()
    def _fit(self, tuples: TupleSet, weights: ArrayLike | None, rng: np.random.RandomState) -> None:
        points, index = tuples.points, tuples.index
        n_features = points.shape[1]
        if self.n_components is not None:
            check_n_components(n_features, self.n_components)
        self.w_ = _shares(weights, len(index))
        prior = start_metric(tuples, self.prior, rng, strictly_positive=True)
        threads = as_threads(None)

        def loss(L: _Floats) -> tuple[float, _Floats]:
            found: tuple[float, _Floats] = get_kernels().lsml_loss(
                points, index, self.w_, np.ascontiguousarray(L), threads
            )
            return found

        root = components_from_metric(prior)
        # Of the multiples tP of the prior, the best has loss(tP) + <tP, inv(P)> = n_features.
        initial = loss(root)[0]
        if not np.isfinite(initial):
            raise ValueError(
                "Squared distances of the points under the prior exceed the largest float: "
                "rescale the points."
            )
        scale = n_features / (n_features + initial)
        root = np.sqrt(scale) * root

        # M = (B root)' (B root), so <M, inv(P)> is scale times |B|^2. With E, the gradient in M
        # where M is the unit of length, the value is within sum(e - log(1 + e)) over the
        # eigenvalues e of E of the minimum, about half of the squared norm of E.
        def objective(B: _Floats) -> tuple[float, _Floats, float]:
            value, scatter = loss(B @ root)
            log_det = np.linalg.slogdet(B)[1]
            slope = B @ (root @ scatter @ root.T + scale * np.eye(n_features))
            value += scale * float(np.sum(B * B)) - 2 * float(log_det)
            relative = slope @ B.T - np.eye(n_features)
            return value, 2 * (slope - np.linalg.inv(B).T), float(np.linalg.norm(relative))

        def finish(B: _Floats) -> None:
            L = B @ root
            self._set_metric(L.T @ L, self.n_components, points.dtype)

        minimize_factor(self, objective, np.eye(n_features), self.tol, finish)


class LSML(_BaseLSML, QuadrupletsClassifierMixin):
    r"""Metric learning from comparisons of pairs, with a squared residual.

    Learns a matrix M from quadruplets (a, b, c, d) of which the points a and b should be nearer to
    each other than c and d. It minimises

    .. math::

        \sum_i w_i \max(0,\; d_M(a_i, b_i) - d_M(c_i, d_i))^2
        + \mathrm{tr}(M M_0^{-1}) - \log\det M

    over positive definite M, where the weights :math:`w_i` sum to one and :math:`M_0` is a prior.
    The function is strictly convex: the minimum does not depend on where the search starts.

    Parameters
    ----------
    tol : float, default=1e-3
        The search ends when the gradient has a Frobenius norm of at most `tol`, M being the unit:
        :math:`\|L \nabla L^T\|_F` with :math:`M = L^T L`. The objective is then within about
        ``tol**2 / 2`` of its minimum.
    max_iter : int, default=1000
        Largest number of iterations of L-BFGS.
    prior : {"identity", "covariance", "random"} or ndarray, default="identity"
        :math:`M_0`. "covariance" is the inverse of the covariance of the points. An array of shape
        (n_features, n_features) must be symmetric and positive definite.
    verbose : bool, default=False
        Show progress on standard error.
    preprocessor : array-like of shape (n_points, n_features), callable or None, default=None
        Turns indicators of points into points.
    random_state : int, RandomState or None, default=None
        For ``prior="random"``.
    n_components : int, optional
        Number of rows of `components_`: the leading eigenvectors of M, scaled. By default
        n_features.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map L of :math:`M = L^T L`, float32 for float32 points.
    n_iter_ : int
        Number of iterations.
    w_ : ndarray of shape (n_quadruplets,), float64
        Weights of the quadruplets, which sum to one.
    n_features_in_ : int
        Number of features of a point.
    validation_ : dict
        Only after ``fit(..., validate=True)``: how the learned and the Euclidean distance do on
        held-out quadruplets.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` iterations were not enough.

    See Also
    --------
    LSML_Supervised : Draws the quadruplets from class labels.

    Notes
    -----
    M is searched for as :math:`L^T L` by L-BFGS, which needs no eigendecomposition and where every
    M is positive definite. An iteration takes time in proportion to n_quadruplets times
    n_features². All arithmetic is in float64.

    References
    ----------
    E. Y. Liu, Z. Guo, X. Zhang, V. Jojic and W. Wang, "Metric learning from relative comparisons by
    minimizing squared residual", ICDM 2012.

    Examples
    --------
    >>> from metricfast import LSML
    >>> quadruplets = [[[0.0, 1.0], [1.0, 9.0], [0.0, 1.0], [5.0, 2.0]],
    ...                [[2.0, 8.0], [3.0, 1.0], [2.0, 8.0], [7.0, 7.0]]]
    >>> M = LSML().fit(quadruplets).get_mahalanobis_matrix()
    >>> bool(M[0, 0] > 2 * M[1, 1])  # what differs in the first feature is farther apart
    True
    """

    def fit(
        self,
        quadruplets: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        validate: bool = False,
    ) -> LSML:
        """Learn the metric.

        Parameters
        ----------
        quadruplets : array-like of shape (n_quadruplets, 4, n_features) or (n_quadruplets, 4)
            Quadruplets of points, or of indicators for the preprocessor. The first two points
            should be nearer to each other than the last two.
        weights : array-like of shape (n_quadruplets,), optional
            Non-negative weights; only their proportions count.
        validate : bool, default=False
            Also fit a clone to four fifths of the quadruplets, compare its score on the others with
            that of the Euclidean distance, keep the numbers in `validation_`, and warn if it is
            worse.

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
        self._check_parameters()
        tuples = self._prepare_tuples(quadruplets)
        self._fit(tuples, weights, check_random_state(self.random_state))
        if validate:
            self._validate_fit(quadruplets, weights=weights)
        return self


class LSML_Supervised(_BaseLSML):  # noqa: N801
    """Metric learning from comparisons of pairs that are drawn from class labels.

    Draws pairs of points of one class and as many pairs of points of different classes, and learns
    from the quadruplets that they make as :class:`LSML` does.

    Parameters
    ----------
    tol : float, default=1e-3
        Largest norm of the gradient to end with, see :class:`LSML`.
    max_iter : int, default=1000
        Largest number of iterations of L-BFGS.
    prior : {"identity", "covariance", "random"} or ndarray, default="identity"
        The matrix to stay close to. "covariance" is the inverse of the covariance of the points. An
        array of shape (n_features, n_features) must be symmetric and positive definite.
    n_constraints : int, optional
        Number of quadruplets, by default ``20 * n_classes**2``.
    weights : array-like of shape (n_constraints,), optional
        Non-negative weights of the quadruplets; only their proportions count.
    verbose : bool, default=False
        Show progress on standard error.
    preprocessor : array-like of shape (n_points, n_features), callable or None, default=None
        Turns indicators of points into points.
    random_state : int, RandomState or None, default=None
        For the draw of quadruplets, and for ``prior="random"``.
    num_constraints : int
        Former name of `n_constraints`.

        .. deprecated:: 0.1
    n_components : int, optional
        Number of rows of `components_`: the leading eigenvectors of M, scaled. By default
        n_features.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map L of :math:`M = L^T L`, float32 for float32 points.
    n_iter_ : int
        Number of iterations.
    w_ : ndarray of shape (n_quadruplets,), float64
        Weights of the quadruplets, which sum to one.
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
    LSML : Learns from given quadruplets.

    References
    ----------
    E. Y. Liu, Z. Guo, X. Zhang, V. Jojic and W. Wang, "Metric learning from relative comparisons by
    minimizing squared residual", ICDM 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from metricfast import LSML_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> LSML_Supervised(n_constraints=200, random_state=0).fit(X, y).transform(X).shape
    (150, 4)
    """

    _requires_y = True
    _partial_labels = True

    def __init__(
        self,
        tol: float = 1e-3,
        max_iter: int = 1000,
        prior: str | NDArray[Any] = "identity",
        n_constraints: int | None = None,
        weights: ArrayLike | None = None,
        verbose: bool = False,
        preprocessor: ArrayLike | Callable[..., Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        num_constraints: int | str = DEPRECATED,
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
    ) -> LSML_Supervised:
        """Draw quadruplets and learn the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples,)
            Points, or indicators for the preprocessor.
        y : array-like of shape (n_samples,)
            Class labels. Numbers below 0 mean that the class is unknown.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights, to which the chances of points to be in a quadruplet are in
            proportion.
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
        LinAlgError
            If the prior is not positive definite.
        """
        self._check_parameters()
        points, labels = self._prepare_inputs(X, y, ensure_min_samples=2)
        rng = check_random_state(self.random_state)
        drawn = draw_pairs(self, labels, sample_weight, rng, same_length=True, need_similar=True)
        self._fit(TupleSet(points, np.column_stack(drawn)), self.weights, rng)
        if validate:
            self._validate_fit(X, y, sample_weight=sample_weight)
        return self


def _shares(weights: ArrayLike | None, n_quadruplets: int) -> _Floats:
    """Return weights that sum to one."""
    if weights is None:
        return np.full(n_quadruplets, 1 / n_quadruplets)
    given = as_vector(weights, "weights", n_quadruplets)
    if not given.any():
        raise ValueError("weights must not be zero throughout.")
    relative = given / given.max()  # whose sum cannot overflow
    return np.asarray(relative / relative.sum())
