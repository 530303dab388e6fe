"""Mahalanobis metric learning for clustering."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial, partialmethod
from numbers import Integral
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import check_random_state, check_unused
from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.initialize import check_n_components, components_from_metric, leading_rows
from metricfast._core.parameters import (
    DEPRECATED,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Seed,
    Share,
    Verbosity,
    positional,
)
from metricfast._core.prior import is_identity
from metricfast._core.scaling import moderate
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.thresholds import check_calibration_params
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast._core.wide_map import FittedMap
from metricfast.learners.base.classifiers import PairsClassifierMixin
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.tuples.drawing import FitArguments, SupervisedForm, draw_pairs
from metricfast.learners.tuples.factored import minimize_factor, set_factor, start_metric
from metricfast.learners.tuples.shrinking import (
    half_of_pairs,
    representative_sample,
    shrink_by_tuples,
    shrink_metric,
)
from metricfast.selection._judge import JudgeParameter
from metricfast.training.callbacks import CallbackMixin, reports_to_sklearn
from metricfast.training.span import GIVEN, Span, SquareOf, in_span, inverse_root, span_of

# Lower bound of the mean square of similar pairs along a direction, relative to all pairs. Without
# it, the objective is unbounded along directions in which similar points do not differ.
_FLOOR = 1e-6
# Fraction of the mean eigenvalue that is added to the initial matrix: directions with a weight of
# zero would keep it forever.
_SPREAD = 1e-3


def _check_diagonal(name: str, value: object) -> None:
    """Raise ValueError unless `value` is a boolean, or 0 or 1."""
    if not isinstance(value, (Integral, np.bool_)) or value not in (0, 1):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


Diagonal = Annotated[bool, _check_diagonal]


class _PairDistances:
    r"""Find the metric A that maximises the sum of distances g, given the sum of squared distances.

    The sum g is over dissimilar pairs, and scales with the square root of A. Let S be the scatter
    of similar pairs. The maximum of g under a bound on <A, S> has the direction that minimises
    :math:`\log\langle A, S \rangle / 2 - \log g(A)` without a constraint. The factor F of A has
    coordinates in which S is the identity, and :math:`\langle A, S \rangle = \|F\|^2`.

    `pairs`: both similar and dissimilar ones.
    `A`: ndarray of shape (n_features, n_features); the initial matrix, not zero.
    `diagonal`: whether only diagonal matrices count.
    `beyond`: for pairs of coordinates in units of :func:`_scale_of_features`, the trace of A in the
        directions outside, and the number of features.
    `start` is the initial factor; `initial_size` is <A, S> for the given A.
    """

    def __init__(
        self, pairs: TupleSet, A: Floats, *, diagonal: bool, beyond: tuple[float, int] | None = None
    ) -> None:
        # The best direction of A does not depend on the unit of the points, and its size is
        # relative to the initial one.
        similar, self._dissimilar = _pairs_by_kind(pairs, diagonal)
        S, D = similar.scatter(), self._dissimilar.scatter()
        variances = [s[0] if diagonal else np.diag(s) for s in (S, D)]
        if not variances[1].any():
            raise ValueError("The two points of every dissimilar pair coincide.")
        scale = variances[0] + len(similar) / len(self._dissimilar) * variances[1]
        trace, n_features = (0.0, len(A)) if beyond is None else beyond
        coordinates = _DiagonalCoordinates if diagonal else _FullCoordinates
        self._coordinates: Any = coordinates(S, scale if beyond is None else np.ones(len(A)))
        self.initial_size = self._coordinates.size(A) + _FLOOR * trace
        if not self.initial_size > 0:
            raise ValueError("`init` must not be zero for all features that vary.")
        self.start = self._coordinates.start(A / self.initial_size, n_features)

    def objective(self, F: Floats) -> tuple[float, Floats, float]:
        """Return the value and gradient at F, and an upper bound of the relative increase of g.

        Because g is concave, its maximum is at most g plus the gain of its linear approximation at
        the best matrix with the same <A, S>. That matrix follows the gradient's leading
        eigenvector.
        """
        g, scatter = self._dissimilar.distances(self._coordinates.map(F))
        slope, steepest = self._coordinates.slope(F, scatter)
        size = float(np.sum(F * F))
        value = math.log(size) / 2 - math.log(g)
        return value, F / size - slope / g, (size * steepest / g - 1) / 2

    def metric(self, F: Floats, size: float) -> Floats:
        """Return A, scaled to a given <A, S>."""
        return np.asarray(self._coordinates.square(self.map(F, size)))

    def map(self, F: Floats, size: float) -> Floats:
        """Return L of ``A = L.T @ L``, scaled to a given <A, S>."""
        return np.asarray(self._coordinates.map(F * np.sqrt(size / np.sum(F * F))))


def _scale_of_features(pairs: TupleSet) -> Floats:
    """Return the sums of squared differences of all pairs, for each feature."""
    similar, dissimilar = _pairs_by_kind(pairs, diagonal=True)
    share = len(similar) / len(dissimilar)
    return np.asarray(similar.scatter()[0] + share * dissimilar.scatter()[0])


class _Pairs:
    """Pairs of one kind, and the sums over them for training.

    `points`: ndarray of shape (n_points, n_features).
    `index`: ndarray of shape (n_pairs, 2), int64.
    `diagonal`: whether maps and scatters are diagonal, stored in shape (1, n_features).
    """

    def __init__(self, points: Array, index: Integers, diagonal: bool) -> None:
        self._points, self._index = points, np.ascontiguousarray(index)
        self._diagonal, self._threads = diagonal, as_threads(None)

    def __len__(self) -> int:
        return len(self._index)

    def distances(self, L: Floats) -> tuple[float, Floats]:
        """Return the sum of distances, and the sum of v v' / distance over differences v."""
        return self._sum(L, False)

    def scatter(self) -> Floats:
        """Return the sum of v v'."""
        return self._sum(np.zeros((1, self._points.shape[1])), True)[1]

    def _sum(self, L: Floats, squared: bool) -> tuple[float, Floats]:
        kernels, d = get_kernels(), self._points.shape[1]
        kernel = kernels.sum_of_squared_distances if squared else kernels.sum_of_distances
        scatter, L = np.empty((1 if self._diagonal else d, d)), np.ascontiguousarray(L)
        value = kernel(scatter, self._points, self._index, L, self._diagonal, self._threads)
        return value, scatter


def _pairs_by_kind(pairs: TupleSet, diagonal: bool) -> list[_Pairs]:
    """Return the similar pairs and the dissimilar pairs, in units in which no square overflows."""
    points, _ = moderate(pairs.points)
    return [_Pairs(points, pairs.index[pairs.y == kind], diagonal) for kind in (1, -1)]


class _FullCoordinates:
    r"""Coordinates in which the scatter S of similar pairs is the identity: L = F K^{-1}.

    `scatter`: ndarray of shape (n_features, n_features); S. Its eigenvalues, after scaling of
        features, are raised to a lower bound.
    `scale`: ndarray of shape (n_features,); sums of squares of features, summed like S. Features of
        scale zero get no weight.
    """

    def __init__(self, scatter: Floats, scale: Floats) -> None:
        root = np.sqrt(scale)
        inverse = _inverse(root)
        values, vectors = np.linalg.eigh(scatter * np.outer(inverse, inverse))
        values = np.sqrt(np.maximum(values, _FLOOR))
        self._factor = root[:, None] * vectors * values
        self._inverse = (vectors / values).T * inverse

    def size(self, A: Floats) -> float:
        """Return <A, S>."""
        return float(np.sum(A @ self._factor * self._factor))

    def start(self, A: Floats, n_features: int) -> Floats:
        """Return a factor F of A, after making A positive definite and scaling it to size 1."""
        B = self._factor.T @ A @ self._factor
        return np.asarray(np.linalg.cholesky(B + _SPREAD / n_features * np.eye(len(B))).T)

    def map(self, F: Floats) -> Floats:
        return np.asarray(F @ self._inverse)

    @staticmethod
    def square(L: Floats) -> Floats:
        return np.asarray(L.T @ L)

    def slope(self, F: Floats, scatter: Floats) -> tuple[Floats, float]:
        """Return F H and the largest eigenvalue of H, the scatter in these coordinates."""
        H = self._inverse @ scatter @ self._inverse.T
        return F @ H, float(np.linalg.eigvalsh(H)[-1])


class _DiagonalCoordinates:
    """Coordinates for diagonal A: only the diagonal of S counts; factors and maps are rows."""

    def __init__(self, scatter: Floats, scale: Floats) -> None:
        self._square = np.maximum(scatter[0], _FLOOR * scale)
        self._inverse = _inverse(np.sqrt(self._square))

    def size(self, A: Floats) -> float:
        return float(np.diag(A) @ self._square)

    def start(self, A: Floats, n_features: int) -> Floats:
        return np.asarray(np.sqrt(np.diag(A) * self._square + _SPREAD / n_features)[None])

    def map(self, F: Floats) -> Floats:
        return np.asarray(F * self._inverse)

    @staticmethod
    def square(L: Floats) -> Floats:
        return np.diag(L[0] ** 2)

    def slope(self, F: Floats, scatter: Floats) -> tuple[Floats, float]:
        H = scatter * self._inverse**2
        return np.asarray(F * H), float(H.max())


def _inverse(values: Floats) -> Floats:
    """Return inverses of values, and zero for zero."""
    return np.asarray(np.divide(1, values, out=np.zeros_like(values), where=values > 0))


@dataclass(eq=False, repr=False)
class _MMC(CallbackMixin, MahalanobisMixin):
    """Parameters and solver of MMC and MMC_Supervised, with the matrix as an attribute."""

    max_iter: PositiveInt = 100
    max_proj: PositiveInt = 10000
    tol: NonNegativeFloat = 1e-3
    init: str | Array = "identity"
    diagonal: Diagonal = False
    diagonal_c: PositiveFloat = 1.0
    verbose: Verbosity = False
    preprocessor: ArrayLike | Callable[..., Any] | None = None
    random_state: Seed = None
    convergence_threshold: float | str = DEPRECATED
    _: KW_ONLY
    n_components: int | None = None
    shrinkage: Share | None = None
    judge: JudgeParameter = "auto"

    _renamed: ClassVar[dict[str, str]] = {"convergence_threshold": "tol"}

    A_ = FittedMap()
    _set_fitted = set_factor

    @one_blas_thread()
    def _minimize(self, tuples: TupleSet, rng: RandomState) -> None:
        """Learn the matrix from pairs."""
        check_n_components(tuples.points.shape[1], self.n_components)
        if not self.diagonal:
            check_unused(self, ["diagonal_c"], "with diagonal=False")
        for label, kind in ((1, "similar"), (-1, "dissimilar")):
            if not np.any(tuples.y == label):
                raise ValueError(
                    f"{type(self).__name__} needs similar pairs (1) and dissimilar ones (-1), "
                    f"but y holds no {kind} pair."
                )
        self.converged_, span, scale = False, GIVEN, np.empty(0)
        if not self.diagonal:
            scale = _scale_of_features(tuples)
            span = span_of(tuples.used_points(), units=inverse_root(scale))
        if isinstance(span, Span):
            problem = self._problem_in_span(tuples, span, scale, rng)
        else:
            A = start_metric(tuples, self.init, rng, name="init")
            problem = _PairDistances(tuples, A, diagonal=bool(self.diagonal))
        size = self.diagonal_c / 2 if self.diagonal else problem.initial_size / 100

        def map_of(F: Floats) -> Array:
            if isinstance(span, Span):
                L = span.outer(problem.map(F, size), square=True)
                self.A_ = SquareOf(L)
                L = leading_rows(L, self.n_components)
            else:
                self.A_ = problem.metric(F, size)
                L = components_from_metric(self.A_, n_components=self.n_components)
            return L.astype(tuples.points.dtype, copy=False)

        self.converged_ = minimize_factor(
            self, tuples.points, problem.objective, problem.start, map_of
        )

    def _problem_in_span(
        self, tuples: TupleSet, span: Span, scale: Floats, rng: RandomState
    ) -> _PairDistances:
        """Return the problem in the span of the points, with scaled features.

        The best matrix is zero outside of the span.
        """
        if is_identity(self.init):
            A, trace = span.diagonal(scale), float(scale.sum())
        else:
            given = start_metric(tuples, self.init, rng, name="init")
            A, trace = span.within(given, np.sqrt(scale)), float(np.diag(given) @ scale)
        beyond = trace - float(np.trace(A)), len(scale)
        return _PairDistances(span.tuples(tuples), A, diagonal=False, beyond=beyond)


@dataclass(eq=False, repr=False)
class MMC(PairsClassifierMixin, _MMC):
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
    random_state : int, RandomState or None, default=None
        For ``init="random"``.
    convergence_threshold : float
        Former name of `tol`.

        .. deprecated:: 0.1
    n_components : int, optional
        Number of rows of `components_`: the leading eigenvectors of A, scaled. By default
        n_features.
    verbose, preprocessor
        As for :class:`ITML`.
    shrinkage : float from 0 to 1, optional
        Move A towards the Euclidean distance, scaled to the same mean, by this fraction. 0 is the
        published algorithm, and 1 the Euclidean distance. By default the judge chooses among 0,
        0.1, 0.3, 0.6 and 1.
    judge : "auto", None or Judge, default="auto"
        Chooses `shrinkage` by held-out pairs, see :class:`~metricfast.selection.Judge`: a clone is
        fitted to half of the pairs, and the others, which have points of their own, are
        compared by the area under their ROC curve. The largest fraction that is as good as
        the best within two standard errors is used. With None, `shrinkage` is 0 by default.

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
    shrinkage_ : float
        The fraction in use.
    threshold_, validation_, n_features_in_, preprocessor_
        As for :class:`ITML`.

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
    one. By default a share of the Euclidean distance stays, see `shrinkage`.

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
    >>> mmc = MMC(shrinkage=0).fit(pairs, [1, 1, -1, -1])  # the first feature makes them similar
    >>> mmc.predict(pairs)
    array([ 1,  1, -1, -1])
    """

    _requires_y = True

    @reports_to_sklearn
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
        y : array-like of shape (n_pairs,)
        calibration_params : dict, optional
        validate : bool, default=False
            All as for :meth:`SDML.fit`, and so are the errors. Pairs of both kinds are needed.

        Returns
        -------
        self
        """
        calibration = check_calibration_params(calibration_params)
        tuples = self._prepare_tuples(pairs, y)
        self._minimize(tuples, check_random_state(self.random_state))
        shrink_by_tuples(self, tuples)
        if self.shrinkage_ > 0:
            self.A_ = SquareOf(self._map)
        self.calibrate_threshold(pairs, y, **calibration)
        if validate:
            self._validate_fit(pairs, y, calibration_params=calibration_params)
        return self


@positional(
    "max_iter max_proj tol n_constraints init diagonal diagonal_c verbose preprocessor "
    "random_state num_constraints convergence_threshold"
)
@dataclass(eq=False, repr=False)
class MMC_Supervised(SupervisedForm, _MMC):  # noqa: N801
    """Mahalanobis metric learning for clustering, from class labels.

    Draws pairs of points of one class as similar pairs, as many pairs of points of different
    classes as dissimilar ones, and learns from them as :class:`MMC` does. Its notes describe the
    best matrix.

    Parameters
    ----------
    max_iter, max_proj : int, default=100 and 10000
        As for :class:`MMC`.
    tol : float, default=1e-6
        As for :class:`MMC`, which stops far earlier.
    n_constraints : int, optional
        As for :class:`ITML_Supervised`, and so is the default.
    init, diagonal, diagonal_c, verbose, preprocessor, n_components
        As for :class:`MMC`, and so are their defaults.
    random_state : int, RandomState or None, default=None
        For the draw of pairs, and for ``init="random"``.
    num_constraints, convergence_threshold : int, float
        Former names of `n_constraints` and `tol`.

        .. deprecated:: 0.1
    shrinkage, judge
        As for :class:`ITML_Supervised`.

    Attributes
    ----------
    shrinkage_, shrinkage_target_
        As for :class:`ITML_Supervised`.
    A_, components_, converged_, n_iter_, validation_, n_features_in_, feature_names_in_, \
            preprocessor_
        As for :class:`MMC`.

    Notes
    -----
    Where points are few for their features, the learned metric is of no use to neighbours at any
    fraction, and the judge keeps the Euclidean distance: ``shrinkage_`` is then 1.

    The chances of points to be in a pair are in proportion to `sample_weight`.

    References
    ----------
    As for :class:`MMC`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from metricfast import MMC_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> MMC_Supervised(n_constraints=200, random_state=0).fit(X, y).transform(X).shape
    (150, 4)
    """

    tol: NonNegativeFloat = 1e-6
    n_constraints: PositiveInt | None = None
    num_constraints: int | str = DEPRECATED

    _draw = partialmethod(draw_pairs, needs_similar=True)
    _renamed: ClassVar[dict[str, str]] = {"num_constraints": "n_constraints", **_MMC._renamed}

    def _learn(self, tuples: TupleSet, given: FitArguments, rng: RandomState, **_: Any) -> None:
        sample, learn = representative_sample(*given[:3]), partial(self._minimize, tuples, rng)
        with in_span(self, tuples.used_points(), sample[0]) as span:
            shrink_metric(self, learn, sample, given, half_of_pairs(tuples), span)
        if self.shrinkage_ > 0:
            self.A_ = SquareOf(self._map)
