"""LSML: metric learning from relative comparisons by minimising the squared residual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import as_vector, check_no_overflow, check_random_state
from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.initialize import check_n_components, components_from_metric
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
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, RandomState
from metricfast.distances.neighbors import paired_distances
from metricfast.learners.base.classifiers import QuadrupletsClassifierMixin
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.tuples.drawing import FitArguments, SupervisedForm, draw_index_pairs
from metricfast.learners.tuples.factored import minimize_factor, set_factor, start_metric
from metricfast.learners.tuples.shrinking import representative_sample, shrink_metric
from metricfast.selection._judge import JudgeParameter
from metricfast.training.callbacks import CallbackMixin, reports_to_sklearn
from metricfast.training.span import in_span


@dataclass(eq=False, repr=False)
class _LSML(CallbackMixin, MahalanobisMixin):
    """Parameters and solver of LSML and LSML_Supervised."""

    tol: NonNegativeFloat = 1e-3
    max_iter: PositiveInt = 1000
    prior: str | Array = "identity"
    verbose: Verbosity = False
    preprocessor: ArrayLike | Callable[..., Any] | None = None
    random_state: Seed = None
    _: KW_ONLY
    n_components: int | None = None

    _set_fitted = set_factor

    @one_blas_thread()
    def _minimize(
        self, tuples: TupleSet, weights: ArrayLike | None, rng: RandomState, strength: float = 1.0
    ) -> None:
        """Learn from quadruplets. `strength`: weight of the loss; the weight of the prior is 1."""
        points, index = tuples.points, tuples.index
        n_features = points.shape[1]
        check_n_components(n_features, self.n_components)
        self.w_ = _shares(weights, len(index))
        prior = start_metric(tuples, self.prior, rng, strictly_positive=True)
        threads = as_threads(None)

        def loss(L: Floats) -> tuple[float, Floats]:
            scatter = np.empty((points.shape[1], points.shape[1]))
            value = get_kernels().lsml_loss(
                scatter, points, index, self.w_, np.ascontiguousarray(L), threads
            )
            return strength * value, strength * scatter

        root = components_from_metric(prior)
        # The best multiple tP of the prior has loss(tP) + <tP, inv(P)> = n_features.
        initial = loss(root)[0]
        check_no_overflow("squared distances under the prior", initial)
        scale = n_features / (n_features + initial)
        root = np.sqrt(scale) * root

        # M = (B root)' (B root), so <M, inv(P)> equals scale times |B|^2. Let E be the gradient by
        # M in coordinates in which M is the identity, with eigenvalues e. The value exceeds the
        # minimum by at most sum(e - log(1 + e)), which is about half of the squared norm of E.
        def objective(B: Floats) -> tuple[float, Floats, float]:
            value, scatter = loss(B @ root)
            log_det = np.linalg.slogdet(B)[1]
            slope = B @ (root @ scatter @ root.T + scale * np.eye(n_features))
            value += scale * float(np.sum(B * B)) - 2 * float(log_det)
            relative = slope @ B.T - np.eye(n_features)
            return value, 2 * (slope - np.linalg.inv(B).T), float(np.linalg.norm(relative))

        def map_of(B: Floats) -> Array:
            L = B @ root
            L = components_from_metric(L.T @ L, n_components=self.n_components)
            return L.astype(points.dtype, copy=False)

        minimize_factor(self, points, objective, np.eye(n_features), map_of)


@dataclass(eq=False, repr=False)
class LSML(QuadrupletsClassifierMixin, _LSML):
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
    prior, verbose, preprocessor, random_state, n_components
        As for :class:`ITML`.

    Attributes
    ----------
    n_iter_ : int
        Number of iterations.
    w_ : ndarray of shape (n_quadruplets,), float64
        Weights of the quadruplets, which sum to one.
    components_, validation_, n_features_in_, preprocessor_
        As for :class:`ITML`.

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

    @reports_to_sklearn
    def fit(
        self, quadruplets: ArrayLike, weights: ArrayLike | None = None, *, validate: bool = False
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
            As for :meth:`SDML.fit`.

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
        tuples = self._prepare_tuples(quadruplets)
        rng = check_random_state(self.random_state)
        with in_span(self, tuples.used_points(), when=is_identity(self.prior)) as span:
            self._minimize(span.tuples(tuples), weights, rng)
        if validate:
            self._validate_fit(quadruplets, weights=weights)
        return self


@positional(
    "tol max_iter prior n_constraints weights verbose preprocessor random_state num_constraints"
)
@dataclass(eq=False, repr=False)
class LSML_Supervised(SupervisedForm, _LSML):  # noqa: N801
    """Metric learning from comparisons of pairs that are drawn from class labels.

    Draws pairs of points of one class and as many pairs of points of different classes, and learns
    from the quadruplets that they make as :class:`LSML` does.

    Parameters
    ----------
    tol, max_iter, prior, verbose, preprocessor, n_components
        As for :class:`LSML`, and so are their defaults.
    n_constraints : int, optional
        Number of quadruplets, by default as many as :class:`ITML_Supervised` draws pairs of a kind.
    weights : array-like of shape (n_constraints,), optional
        Non-negative weights of the quadruplets; only their proportions count.
    random_state : int, RandomState or None, default=None
        For the draw of quadruplets, and for ``prior="random"``.
    num_constraints : int
        Former name of `n_constraints`.

        .. deprecated:: 0.1
    shrinkage, judge
        As for :class:`ITML_Supervised`.

    Attributes
    ----------
    shrinkage_, shrinkage_target_
        As for :class:`ITML_Supervised`.
    components_, n_iter_, w_, validation_, n_features_in_, feature_names_in_, preprocessor_
        As for :class:`LSML`.

    Notes
    -----
    The chances of points to be in a quadruplet are in proportion to `sample_weight`.

    If points lie near other points of their class, as with features between 0 and 1, residuals
    are so small that the prior would decide alone. They count in units of the spread within classes
    (half of the mean squared distance of the pairs of one class), where that is below 1. For the
    objective as it stands, give :class:`LSML` the quadruplets of
    :meth:`Constraints.positive_negative_pairs`.

    References
    ----------
    As for :class:`LSML`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from metricfast import LSML_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> LSML_Supervised(n_constraints=200, random_state=0).fit(X, y).transform(X).shape
    (150, 4)
    """

    n_constraints: PositiveInt | None = None
    num_constraints: int | str = DEPRECATED
    weights: ArrayLike | None = None
    shrinkage: Share | None = None
    judge: JudgeParameter = "auto"

    _renamed: ClassVar[dict[str, str]] = {"num_constraints": "n_constraints"}

    def _draw(
        self, points: Any, labels: Array, sample_weight: ArrayLike | None, rng: RandomState
    ) -> TupleSet:
        n, d = self.n_constraints, points.shape[1]
        rows = draw_index_pairs(
            labels, n, sample_weight, rng, d, same_length=True, needs_similar=True
        )
        return TupleSet.of_rows(points, np.column_stack(rows))

    def _learn(self, tuples: TupleSet, given: FitArguments, rng: RandomState, **_: Any) -> None:
        near = paired_distances(tuples.points, pairs=tuples.index[:, :2], squared=True)
        spread = float(near.mean()) / 2
        strength = max(1.0, 1 / spread) if spread > 1e-100 else 1.0
        sample, fewer = representative_sample(*given[:3]), dict[str, Any]()
        if self.weights is None:
            fewer = {"n_constraints": max(1, len(tuples.index) // 2)}
        spanning = tuples.used_points(), sample[0]
        with in_span(self, *spanning, when=is_identity(self.prior)) as span:
            learn = partial(self._minimize, span.tuples(tuples), self.weights, rng, strength)
            shrink_metric(self, learn, sample, given, fewer, span)


def _shares(weights: ArrayLike | None, n_quadruplets: int) -> Floats:
    """Return weights that sum to one."""
    if weights is None:
        return np.full(n_quadruplets, 1 / n_quadruplets)
    given = as_vector(weights, "weights", n_quadruplets)
    if not given.any():
        raise ValueError("weights must not be zero throughout.")
    relative = given / given.max()  # avoids overflow of the sum
    return np.asarray(relative / relative.sum())
