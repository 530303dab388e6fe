"""Sparse distance metric learning."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cholesky, inv
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.arguments import check_no_overflow, check_random_state
from metricfast._core.initialize import components_from_metric
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
from metricfast._core.scaling import times_power_of_two
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats
from metricfast._core.warn import warn_user
from metricfast.learners.base.closed_form import ClosedFormLearner, Statistics
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.tuples.drawing import draw_pairs
from metricfast.learners.tuples.graphical_lasso import (
    MAX_ITER,
    BlockMatrix,
    ScatterOfSpan,
    graphical_lasso,
)
from metricfast.learners.tuples.pair_sums import PairSumsLearner, pair_sums, prior_matrix
from metricfast.selection._judge import JudgeParameter
from metricfast.training.callbacks import CallbackMixin, reports_to_sklearn
from metricfast.training.span import GIVEN, Span, span_of

# Smallest allowed eigenvalue of the matrix of the trace term, relative to the inverse prior.
_MARGIN = 0.3


@dataclass(eq=False, repr=False)
class _SDML(CallbackMixin, MahalanobisMixin):
    """Parameters and solver of SDML and SDML_Supervised."""

    balance_param: NonNegativeFloat = 0.5
    sparsity_param: NonNegativeFloat = 0.01
    prior: str | Array = "identity"
    verbose: Verbosity = False
    preprocessor: Any = None
    random_state: Seed = None
    _: KW_ONLY
    n_components: int | None = None

    @property
    def _spans(self) -> bool:
        """Whether rotations of the points do not change distances, so that the span is enough."""
        return is_identity(self.prior)

    def _learn(self, statistics: Statistics, shrinkage: float) -> None:
        """Learn from sums over pairs, whose weight is lowered by a fraction."""
        (pairs,) = statistics.sums
        with np.errstate(over="ignore", invalid="ignore"):
            loss = pairs.of_group(1)[1] - pairs.of_group(-1)[1]
            loss = _check_finite(times_power_of_two(loss, 2 * pairs.exponent))
        prior = prior_matrix(
            self.prior, self.random_state, statistics.tuples, len(loss), strictly_positive=True
        )
        with np.errstate(over="ignore", invalid="ignore"):
            balance = self._bounded_balance(loss, prior, statistics.tuples)
            self.balance_param_ = (1 - shrinkage) * balance
            inverse = prior if is_identity(self.prior) else inv(prior)
            loss = _check_finite(self.balance_param_ * loss)
            matrix = _check_finite(inverse + loss)
        S: Floats | ScatterOfSpan = (matrix + matrix.T) / 2
        n_components, sparsity = self.n_components, float(self.sparsity_param)
        if isinstance(self._span, Span) and sparsity:
            # The penalty is on features, so coordinates do not suffice.
            n = self._span.basis.shape[1]
            S, n_components = ScatterOfSpan(self._span.basis, loss[:n, :n]), self._span.n_rows
            M = BlockMatrix(np.ones(len(self._span.basis)), [])
        else:
            M = BlockMatrix(np.diag(prior), [(np.arange(len(prior)), prior)])

        def set_fitted() -> None:
            if isinstance(S, ScatterOfSpan):
                L = M.components(n_components)
            else:
                L = components_from_metric(M.array(), n_components=n_components)
            self.components_ = L.astype(pairs.dtype, copy=False)

        def observer(iteration: int, off: float, present: BlockMatrix) -> bool:
            nonlocal M
            M = present
            return progress(iteration, off)

        try:
            with iteration_progress(self, MAX_ITER, set_fitted) as progress:
                M = graphical_lasso(S, sparsity, observer)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                "The matrix that balance_param makes of the points has no inverse in float64: "
                "lower it, or leave out points that are far from all others."
            ) from error
        set_fitted()

    def _bounded_balance(self, loss: Floats, prior: Floats, pairs: TupleSet | None) -> float:
        """Return the largest balance, up to `balance_param`, for which a minimum exists."""
        if is_identity(self.prior):
            span = GIVEN if pairs is None else span_of(pairs.used_points())
            relative = span.within(_check_finite(loss))
        else:
            root = cholesky(prior)
            relative = _check_finite(root @ loss @ root.T)
        least = float(np.linalg.eigvalsh(relative)[0])
        balance = float(self.balance_param)
        if 1 + balance * least >= _MARGIN:
            return balance
        bounded = (1 - _MARGIN) / -least
        warn_user(
            f"Dissimilar pairs outweigh similar pairs and the prior, so that the objective has no "
            f"minimum: balance_param={balance:g} was reduced to {bounded:.3g}. Set it to at most "
            "that, give more similar or fewer dissimilar pairs, or rescale the points.",
            ConvergenceWarning,
        )
        return bounded


@dataclass(eq=False, repr=False)
class SDML(PairSumsLearner, _SDML):
    r"""Sparse distance metric learning from pairs.

    Finds the matrix M, with few entries off its diagonal, that stays near a prior :math:`M_0` while
    the distances of similar pairs are small and distances of dissimilar pairs large:

    .. math::

        \min_{M \succ 0} \operatorname{tr}\left(\left(M_0^{-1} + \eta \sum_p y_p
        (x_p - x'_p)(x_p - x'_p)^T\right) M\right) - \log\det M + \lambda \sum_{i \ne j} |M_{ij}|

    with :math:`y_p = 1` for similar and -1 for dissimilar pairs. This is the graphical lasso.

    Parameters
    ----------
    balance_param : float, default=0.5
        Weight :math:`\eta` of the pairs against the prior.
    sparsity_param : float, default=0.01
        Weight :math:`\lambda` of the entries off the diagonal.
    n_components : int, optional
        Keep this many eigenvectors of M, by descending eigenvalue. By default all.
    prior, verbose, preprocessor, random_state
        As for :class:`ITML`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map, in float32 for float32 points, else in float64.
    balance_param_ : float
        The weight of the pairs in use.
    threshold_, validation_, n_features_in_, preprocessor_
        As for :class:`ITML`.

    Notes
    -----
    The sum over pairs has negative eigenvalues where dissimilar pairs prevail. If :math:`\eta`
    times one of them outweighs the prior, the objective falls without end along its eigenvector,
    and there is nothing to find. Then :math:`\eta` is reduced so far that the matrix before M is
    positive definite, with a smallest eigenvalue of 0.3 in coordinates in which :math:`M_0` is the
    identity, and ConvergenceWarning names the value. The sum grows with the number of pairs and
    with the square of the units of the points, so a useful :math:`\eta` depends on both.

    The result is always positive definite. The problem is solved by the alternating direction
    method of multipliers; you get a ConvergenceWarning if its iterations run out. Each iteration
    takes time in proportion to the cube of the number of features that depend on each other.
    :math:`\lambda = 0` needs no iterations.

    References
    ----------
    G.-J. Qi, J. Tang, Z.-J. Zha, T.-S. Chua, H.-J. Zhang, "An efficient sparse metric learning in
    high-dimensional space via l1-penalized log-determinant regularization", ICML (2009).

    Examples
    --------
    >>> from metricfast import SDML
    >>> pairs = [[[1.0, 2.0], [1.2, 2.9]], [[3.0, 1.0], [2.8, 2.0]], [[1.0, 2.0], [2.0, 2.1]]]
    >>> sdml = SDML(balance_param=0.1).fit(pairs, [1, 1, -1])
    >>> sdml.predict(pairs)
    array([ 1,  1, -1])
    """

    fit = reports_to_sklearn(PairSumsLearner.fit)

    def _solve(self, statistics: Statistics, setting: None) -> None:
        del setting
        self._learn(statistics, 0.0)


@positional(
    "balance_param sparsity_param prior n_constraints verbose preprocessor random_state "
    "num_constraints"
)
@dataclass(eq=False, repr=False)
class SDML_Supervised(_SDML, ClosedFormLearner):  # type: ignore[override]  # noqa: N801
    """Sparse distance metric learning from pairs drawn from classes.

    Parameters
    ----------
    balance_param, sparsity_param, prior, verbose, preprocessor, n_components
        As for :class:`SDML`, and so are their defaults.
    n_constraints : int, optional
        As for :class:`ITML_Supervised`, and so is the default.
    random_state : int, RandomState or None, default=None
        For the pairs, and for the "random" prior.
    shrinkage : float from 0 to 1, optional
        Fraction by which the weight of the pairs is reduced: 0 is the published algorithm, and 1
        the prior. By default the judge chooses among 0, 0.5 and 1.
    judge : "auto", None or Judge, default="auto"
        Chooses `shrinkage` by held-out points, see :class:`~metricfast.selection.Judge`. With None,
        and in `partial_fit`, `shrinkage` is 0 by default.
    num_constraints : int
        Former name of `n_constraints`.

        .. deprecated:: 0.1

    Attributes
    ----------
    components_, validation_, n_features_in_, feature_names_in_, preprocessor_
        As for :class:`SDML`.
    balance_param_ : float
        The weight of the pairs in use: pairs drawn from classes are usually so many that it is
        less than what was asked for, see :class:`SDML`. It is reduced by `shrinkage`, too.
    shrinkage_ : float
        The fraction in use.
    judgement_ : metricfast.selection.Judgement
        What the judge tried.

    Notes
    -----
    The chances of points to be in a pair are in proportion to `sample_weight`.

    References
    ----------
    As for :class:`SDML`.

    Examples
    --------
    >>> from metricfast import SDML_Supervised
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> sdml = SDML_Supervised(balance_param=1e-4, random_state=0).fit(X, y)
    >>> sdml.transform(X).shape
    (150, 4)
    """

    n_constraints: PositiveInt | None = None
    num_constraints: int | str = DEPRECATED
    _: KW_ONLY
    shrinkage: Share | None = None
    judge: JudgeParameter = "auto"

    _renamed: ClassVar[dict[str, str]] = {"num_constraints": "n_constraints"}
    _partial_labels = True
    _beyond_span = True
    _tuned, _settings, _published = "shrinkage", (1.0, 0.5, 0.0), 0.0

    fit = reports_to_sklearn(ClosedFormLearner.fit)

    def _solve(self, statistics: Statistics, setting: float) -> None:
        self.shrinkage_ = float(setting)
        self._learn(statistics, self.shrinkage_)

    def _statistics(
        self, X: Any, y: Any, weight: Floats | None, *, partial: bool = False, execute: Any = None
    ) -> Statistics:
        pairs = draw_pairs(self, X, y, weight, check_random_state(self.random_state))
        return Statistics((pair_sums(pairs),), tuples=None if partial else pairs)


def _check_finite(matrix: Floats) -> Floats:
    check_no_overflow("squared distances", matrix)
    return matrix
