"""Sparse distance metric learning."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cholesky, inv
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.arguments import check_random_state, check_range
from metricfast._core.deprecation import DEPRECATED
from metricfast._core.scaling import times_power_of_two
from metricfast._core.sums import Sums
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, RandomState
from metricfast._core.warn import warn_user
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.base.one_pass import OnePassOfClasses, Summed
from metricfast.learners.tuples.factored import start_metric
from metricfast.learners.tuples.forms import (
    GivenPairsInParts,
    PairsFromClasses,
    pair_sums,
    prior_alone,
)
from metricfast.learners.tuples.graphical_lasso import MAX_ITER, graphical_lasso
from metricfast.learners.tuples.iterated import IteratedLearner, ToldProgress

__all__ = ["SDML", "SDML_Supervised"]


# Smallest eigenvalue, relative to the prior, that dissimilar pairs may leave in the matrix.
_MARGIN = 0.3


class _BaseSDML(IteratedLearner, MahalanobisMixin):
    """What the learners on given and on drawn pairs share."""

    balance_param: float
    sparsity_param: float
    prior: str | Array

    def _checked(self) -> None:
        check_range("balance_param", self.balance_param)
        check_range("sparsity_param", self.sparsity_param)

    def _learn(self, tuples: TupleSet, _: RandomState) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            loss = tuples.pair_scatter(1) - tuples.pair_scatter(-1)
        _check_finite(loss)
        prior = start_metric(tuples, self.prior, self.random_state, strictly_positive=True)
        self._minimize(loss, prior, tuples.points.dtype)

    def _learn_sums(self, sums: tuple[Sums, ...], **found: Any) -> None:
        (pairs,) = sums
        prior = prior_alone(self, len(pairs.origin), strictly_positive=True)
        loss = pairs.of_group(1)[1] - pairs.of_group(-1)[1]
        loss = times_power_of_two(loss, 2 * pairs.exponent)
        self._minimize(_check_finite(loss), prior, pairs.dtype)

    def _minimize(self, loss: Floats, prior: Floats, precision: np.dtype[Any]) -> None:
        """Learn from the scatter of similar pairs less that of dissimilar ones."""
        with np.errstate(over="ignore", invalid="ignore"):
            self.balance_param_ = self._bounded_balance(loss, prior)
            matrix = _check_finite(inv(prior) + self.balance_param_ * loss)
        M = prior

        def keep() -> None:
            self._set_metric(M, self.n_components, precision)

        def observer(iteration: int, off: float, present: Floats) -> bool:
            nonlocal M
            M = present
            return progress(iteration, off)

        try:
            with ToldProgress(self, MAX_ITER, keep) as progress:
                M = graphical_lasso((matrix + matrix.T) / 2, float(self.sparsity_param), observer)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                "The matrix that balance_param makes of the points has no inverse in float64: "
                "lower it, or leave out points that are far from all others."
            ) from error
        keep()

    def _bounded_balance(self, loss: Floats, prior: Floats) -> float:
        """Return the largest balance, up to the one asked for, that leaves a minimum."""
        root = cholesky(prior)
        least = float(np.linalg.eigvalsh(_check_finite(root @ loss @ root.T))[0])
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


def _check_finite(matrix: Floats) -> Floats:
    if not np.isfinite(matrix).all():
        raise ValueError(
            "Squared distances of the points exceed the largest float: rescale the points."
        )
    return matrix


class SDML(_BaseSDML, GivenPairsInParts):
    r"""Sparse distance metric learning from pairs.

    Finds the matrix M, with few entries off its diagonal, that stays near a prior :math:`M_0` while
    the distances of similar pairs are small and those of dissimilar pairs large:

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
        Keep this many eigenvectors of M, those of the largest eigenvalues. By default all.
    prior, verbose, preprocessor, random_state
        As for :class:`ITML`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map, in float32 for float32 points, else in float64.
    balance_param_ : float
        The weight of the pairs in use.
    threshold_, validation_, n_features_in_, preprocessor_
        As of :class:`ITML`.

    Notes
    -----
    The sum over pairs has negative eigenvalues where dissimilar pairs prevail. If :math:`\eta`
    times one of them outweighs the prior, the objective falls without end along its eigenvector,
    and there is nothing to find. Then :math:`\eta` is reduced so far that the matrix before M is
    positive definite, with a smallest eigenvalue of 0.3 in coordinates in which :math:`M_0` is the
    identity, and ConvergenceWarning names the value. The sum grows with the number of pairs and
    with the square of the units of the points, so a useful :math:`\eta` depends on both.

    The result is always positive definite. The problem is solved by the alternating direction
    method of multipliers; ConvergenceWarning says so if its iterations run out.

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

    def __init__(
        self,
        balance_param: float = 0.5,
        sparsity_param: float = 0.01,
        prior: str | Array = "identity",
        verbose: bool | int = False,
        preprocessor: Any = None,
        random_state: int | RandomState | None = None,
        *,
        n_components: int | None = None,
    ) -> None:
        self._take(locals())


class SDML_Supervised(OnePassOfClasses, PairsFromClasses, _BaseSDML):  # noqa: N801
    """Sparse distance metric learning from pairs drawn from classes.

    Parameters
    ----------
    balance_param, sparsity_param, prior, verbose, preprocessor, n_components
        As for :class:`SDML`, and so are their defaults.
    n_constraints : int, optional
        Number of similar pairs, and of dissimilar pairs, to draw. By default 20 times the square of
        the number of classes.
    random_state : int, RandomState or None, default=None
        For the pairs, and for the "random" prior.
    num_constraints : int
        Former name of `n_constraints`.

        .. deprecated:: 0.1

    Attributes
    ----------
    components_, validation_, n_features_in_, feature_names_in_, preprocessor_
        As of :class:`SDML`.
    balance_param_ : float
        The weight of the pairs in use: pairs drawn from classes are usually so many that it is
        less than what was asked for, see :class:`SDML`.

    Notes
    -----
    The chances of points to be in a pair are in proportion to `sample_weight`.

    References
    ----------
    As of :class:`SDML`.

    Examples
    --------
    >>> from metricfast import SDML_Supervised
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> sdml = SDML_Supervised(balance_param=1e-4, random_state=0).fit(X, y)
    >>> sdml.transform(X).shape
    (150, 4)
    """

    def __init__(
        self,
        balance_param: float = 0.5,
        sparsity_param: float = 0.01,
        prior: str | Array = "identity",
        n_constraints: int | None = None,
        verbose: bool | int = False,
        preprocessor: Any = None,
        random_state: int | RandomState | None = None,
        num_constraints: Any = DEPRECATED,
        *,
        n_components: int | None = None,
    ) -> None:
        self._take(locals())

    def _sums_of(self, data: Any, labels: Any, weight: Floats | None) -> Summed:
        tuples, _ = self._draw(data, labels, weight, check_random_state(self.random_state))
        return (pair_sums(tuples),), {}
