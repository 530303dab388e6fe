"""Sparse distance metric learning."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, inv
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.arguments import check_range
from metricfast._core.deprecation import DEPRECATED
from metricfast._core.progress import Progress
from metricfast._core.tuples import TupleSet
from metricfast._core.warn import warn_user
from metricfast.constraints import wrap_indices
from metricfast.learners.base.classifiers import PairsClassifierMixin
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.base.thresholds import check_calibration_params
from metricfast.learners.tuples.drawn_pairs import draw_pairs
from metricfast.learners.tuples.factored import start_metric
from metricfast.learners.tuples.graphical_lasso import MAX_ITER, graphical_lasso

__all__ = ["SDML", "SDML_Supervised"]

_Floats = NDArray[np.float64]

# Smallest eigenvalue, relative to the prior, that dissimilar pairs may leave in the matrix.
_MARGIN = 0.3


class _SparseLearner(MahalanobisMixin):
    """What SDML and its supervised version share."""

    balance_param: float
    sparsity_param: float
    prior: str | NDArray[Any]
    verbose: bool
    random_state: int | np.random.RandomState | None
    n_components: int | None

    def _fit(self, tuples: TupleSet) -> None:
        check_range("balance_param", self.balance_param)
        check_range("sparsity_param", self.sparsity_param)
        with np.errstate(over="ignore", invalid="ignore"):
            loss = tuples.pair_scatter(1) - tuples.pair_scatter(-1)
            _check_finite(loss)
            prior = start_metric(tuples, self.prior, self.random_state, strictly_positive=True)
            self.balance_param_ = self._bounded_balance(loss, prior)
            matrix = _check_finite(inv(prior) + self.balance_param_ * loss)
        progress = Progress(type(self).__name__, MAX_ITER) if self.verbose else None
        try:
            M = graphical_lasso((matrix + matrix.T) / 2, float(self.sparsity_param), progress)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                "The matrix that balance_param makes of the points has no inverse in float64: "
                "lower it, or leave out points that are far from all others."
            ) from error
        finally:
            if progress is not None:
                progress.close()
        self._set_metric(M, self.n_components, tuples.points.dtype)

    def _bounded_balance(self, loss: _Floats, prior: _Floats) -> float:
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


def _check_finite(matrix: _Floats) -> _Floats:
    if not np.isfinite(matrix).all():
        raise ValueError(
            "Squared distances of the points exceed the largest float: rescale the points."
        )
    return matrix


class SDML(_SparseLearner, PairsClassifierMixin):
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
    prior : {"identity", "covariance", "random"} or ndarray, default="identity"
        :math:`M_0`: "covariance" is the inverse covariance of the points, "random" a random
        positive definite matrix. An array of shape (n_features, n_features) is positive definite.
    verbose : bool, default=False
        Show progress on standard error.
    preprocessor : array-like or callable, optional
        Gives the points when pairs hold indicators of points.
    random_state : int, RandomState or None, default=None
        For the "random" prior.
    n_components : int, optional
        Keep this many eigenvectors of M, those of the largest eigenvalues. By default all.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map, in float32 for float32 points, else in float64.
    balance_param_ : float
        The weight of the pairs in use.
    threshold_ : float
        Pairs of at most this distance count as similar.
    n_features_in_ : int
        Number of features of a point.
    preprocessor_ : callable or None
        The preprocessor in use.

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
        prior: str | NDArray[Any] = "identity",
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: int | np.random.RandomState | None = None,
        *,
        n_components: int | None = None,
    ) -> None:
        self._take(locals())

    def fit(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        calibration_params: dict[str, Any] | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        validate: bool = False,
    ) -> SDML:
        """Learn the map, and the threshold from the same pairs.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of points, or of indicators for the preprocessor.
        y : array-like of shape (n_pairs,)
            1 for similar pairs, -1 for dissimilar ones.
        calibration_params : dict, optional
            Keyword arguments of `calibrate_threshold`.
        sample_weight : array-like of shape (n_pairs,), optional
            Non-negative weights of the pairs; whole numbers mean the same as repeated pairs.
        validate : bool, default=False
            Also fit a clone to four fifths of the pairs, compare its score with that of the
            Euclidean distance on the others, keep the numbers in `validation_`, and warn if the
            learned distance is worse.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the input is not as above.
        numpy.linalg.LinAlgError
            If the prior is not positive definite.
        """
        calibration = check_calibration_params(calibration_params)
        self._fit(self._prepare_tuples(pairs, y).weighted(sample_weight))
        self.calibrate_threshold(pairs, y, **calibration, sample_weight=sample_weight)
        if validate:
            self._validate_fit(
                pairs, y, sample_weight=sample_weight, calibration_params=calibration_params
            )
        return self


class SDML_Supervised(_SparseLearner):  # noqa: N801
    """Sparse distance metric learning from pairs drawn from classes.

    Parameters
    ----------
    balance_param : float, default=0.5
        As for `SDML`.
    sparsity_param : float, default=0.01
        As for `SDML`.
    prior : {"identity", "covariance", "random"} or ndarray, default="identity"
        As for `SDML`.
    n_constraints : int, optional
        Number of similar pairs, and of dissimilar pairs, to draw. By default 20 times the square of
        the number of classes.
    verbose : bool, default=False
        Show progress on standard error.
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    random_state : int, RandomState or None, default=None
        For the pairs, and for the "random" prior.
    num_constraints : int
        Former name of `n_constraints`.

        .. deprecated:: 0.1
    n_components : int, optional
        As for `SDML`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map, in float32 for float32 points, else in float64.
    balance_param_ : float
        The weight of the pairs in use: pairs drawn from classes are usually so many that it is
        less than what was asked for, see `SDML`.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if `X` has any.
    preprocessor_ : callable or None
        The preprocessor in use.

    References
    ----------
    G.-J. Qi, J. Tang, Z.-J. Zha, T.-S. Chua, H.-J. Zhang, "An efficient sparse metric learning in
    high-dimensional space via l1-penalized log-determinant regularization", ICML (2009).

    Examples
    --------
    >>> from metricfast import SDML_Supervised
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> sdml = SDML_Supervised(balance_param=1e-4, random_state=0).fit(X, y)
    >>> sdml.transform(X).shape
    (150, 4)
    """

    _requires_y = True
    _partial_labels = True

    def __init__(
        self,
        balance_param: float = 0.5,
        sparsity_param: float = 0.01,
        prior: str | NDArray[Any] = "identity",
        n_constraints: int | None = None,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: int | np.random.RandomState | None = None,
        num_constraints: Any = DEPRECATED,
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
    ) -> SDML_Supervised:
        """Draw pairs and learn the map.

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
            If the input is not as above.
        numpy.linalg.LinAlgError
            If the prior is not positive definite.
        """
        points, labels = self._prepare_inputs(X, y, ensure_min_samples=2)
        drawn = draw_pairs(self, labels, sample_weight, self.random_state)
        self._fit(TupleSet(points, *wrap_indices(drawn)))
        if validate:
            self._validate_fit(X, y, sample_weight=sample_weight)
        return self
