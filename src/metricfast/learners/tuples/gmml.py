"""Geometric mean metric learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from metricfast._core.arguments import check_range
from metricfast._core.initialize import check_n_components
from metricfast._core.scaling import center_and_rescale, moderate
from metricfast._core.scatter import repetitions, scatters_of_all_pairs
from metricfast._core.targets import check_partial_target, check_sample_weight
from metricfast._core.tuples import TupleSet
from metricfast.learners.base.classifiers import PairsClassifierMixin
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.base.thresholds import check_calibration_params
from metricfast.learners.tuples.factored import start_metric

__all__ = ["GMML", "GMML_Supervised"]

_Floats = NDArray[np.float64]
# From here on, nothing is left of the pairs.
_MOST_REG = 1e12


class _BaseGMML(MahalanobisMixin):
    """What both versions share: parameters, and the metric of two scatters."""

    def __init__(
        self,
        t: float = 0.5,
        reg: float = 1e-3,
        prior: str | NDArray[Any] = "identity",
        preprocessor: Any = None,
        random_state: int | np.random.RandomState | None = None,
        *,
        n_components: int | None = None,
    ) -> None:
        self._take(locals())

    def _check_parameters(self) -> Any:
        check_range("t", self.t, high=1)
        check_range("reg", self.reg, high=_MOST_REG)

    def _learn(
        self,
        tuples: TupleSet,
        similar: _Floats,
        dissimilar: _Floats,
    ) -> None:
        """Set the map of the metric of two scatters."""
        check_n_components(len(similar), self.n_components)
        positive = self.reg > 0
        prior = start_metric(tuples, self.prior, self.random_state, strictly_positive=positive)
        inverse = prior
        if self.reg > 0:
            inverse = cho_solve(cho_factor(prior), np.eye(len(prior)))
        S = _blended("similar", similar, inverse, self.reg)
        D = _blended("dissimilar", dissimilar, prior, self.reg)
        M = _geometric_mean(S, D, float(self.t))
        self._set_metric(M, self.n_components, tuples.points.dtype)


class GMML(_BaseGMML, PairsClassifierMixin):
    r"""Geometric mean metric learning from similar and dissimilar pairs.

    Learns the metric M that makes similar pairs near and dissimilar pairs far in the sense of

    .. math::

        \min_{M \succ 0} \operatorname{tr}(M S) + \operatorname{tr}(M^{-1} D),

    where S and D are the scatter matrices of the differences of similar and of dissimilar pairs.
    The solution is the midpoint of the geodesic from :math:`S^{-1}` to D, and other points of it
    weigh the two otherwise:

    .. math::

        M = S^{-1} \sharp_t D = S^{-1/2} (S^{1/2} D S^{1/2})^t S^{-1/2}

    It is computed in closed form: time is of order n_pairs n_features^2 + n_features^3.

    Parameters
    ----------
    t : float, default=0.5
        From 0, where M is the inverse of S, to 1, where it is D, both of trace 1: the unit of the
        points does not matter.
    reg : float, default=1e-3
        How much of the prior :math:`M_0` is added: :math:`M_0^{-1}` to S and :math:`M_0` to D,
        each first scaled to the trace of what it is added to. With 0, S must have full rank.
    prior : {"identity", "covariance", "random"} or ndarray, default="identity"
        "covariance" is the inverse of the covariance of the points. An array of shape
        (n_features, n_features) is taken as it is; only its shape counts, not its size.
    preprocessor : array-like or callable, optional
        Gives the points when pairs hold indicators of points.
    random_state : int, RandomState or None, default=None
        For the "random" prior.
    n_components : int, optional
        Number of rows of `components_`: the leading eigenvectors of M. By default all.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The linear map L with M = L.T @ L, in float32 for float32 points, else in float64.
    threshold_ : float
        Pairs of at most this distance count as similar.
    n_features_in_ : int
        Number of features seen in `fit`.
    preprocessor_ : callable or None
        The preprocessor in use.

    See Also
    --------
    GMML_Supervised : The same from class labels.

    References
    ----------
    P. H. Zadeh, R. Hosseini, S. Sra, "Geometric mean metric learning", ICML 2016.

    Examples
    --------
    >>> from metricfast import GMML
    >>> points = [[1.0, 7.0], [1.2, 3.0], [5.0, 4.0], [5.1, 8.0]]
    >>> pairs = [[0, 1], [2, 3], [0, 2], [0, 3], [1, 2], [1, 3]]
    >>> gmml = GMML(preprocessor=points).fit(pairs, [1, 1, -1, -1, -1, -1])
    >>> gmml.predict(pairs)
    array([ 1,  1, -1, -1, -1, -1])
    """

    _requires_y = True

    def fit(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        calibration_params: Mapping[str, Any] | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        validate: bool = False,
    ) -> GMML:
        """Learn the metric, and calibrate the threshold on the same pairs.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of points, or of indicators for the preprocessor.
        y : array-like of shape (n_pairs,)
            1 for similar pairs, -1 for dissimilar ones; both must be there.
        calibration_params : dict, optional
            Arguments of `calibrate_threshold`; by default the accuracy is maximised.
        sample_weight : array-like of shape (n_pairs,), optional
            Non-negative weights of the pairs; whole numbers mean the same as repeated pairs.
        validate : bool, default=False
            Also fit a clone to four fifths of the pairs, compare its score with that of the
            Euclidean distance on the others, keep the numbers in `validation_`, and warn if the
            learned one is worse.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used.
        """
        calibration = check_calibration_params(calibration_params)
        self._check_parameters()
        tuples = self._prepare_tuples(pairs, y).weighted(sample_weight)
        tuples = replace(tuples, points=moderate(tuples.points))
        self._learn(tuples, tuples.pair_scatter(1), tuples.pair_scatter(-1))
        self.calibrate_threshold(pairs, y, **calibration, sample_weight=sample_weight)
        if validate:
            self._validate_fit(
                pairs, y, sample_weight=sample_weight, calibration_params=calibration_params
            )
        return self


class GMML_Supervised(_BaseGMML):  # noqa: N801
    r"""Geometric mean metric learning from class labels.

    All pairs of points of one class are similar and all others dissimilar. Their scatters follow
    from the means and scatters of the classes, so no pairs are drawn or formed, and time is of
    order n_samples n_features^2 + n_features^3. See :class:`GMML` for what is learned.

    Parameters
    ----------
    t : float, default=0.5
        From 0, where M is the inverse of the scatter S of similar pairs, to 1, where it is the
        scatter D of dissimilar pairs, both of trace 1: the unit of the points does not matter.
    reg : float, default=1e-3
        How much of the prior :math:`M_0` is added: :math:`M_0^{-1}` to S and :math:`M_0` to D,
        each first scaled to the trace of what it is added to. With 0, S must have full rank.
    prior : {"identity", "covariance", "random"} or ndarray, default="identity"
        "covariance" is the inverse of the covariance of the points. An array of shape
        (n_features, n_features) is taken as it is; only its shape counts, not its size.
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    random_state : int, RandomState or None, default=None
        For the "random" prior.
    n_components : int, optional
        Number of rows of `components_`: the leading eigenvectors of M. By default all.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The linear map L with M = L.T @ L, in float32 for float32 points, else in float64.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if `X` has any.
    preprocessor_ : callable or None
        The preprocessor in use.

    See Also
    --------
    GMML : The same from pairs.

    References
    ----------
    P. H. Zadeh, R. Hosseini, S. Sra, "Geometric mean metric learning", ICML 2016.

    Examples
    --------
    >>> from metricfast import GMML_Supervised
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> GMML_Supervised(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    _requires_y = True
    _partial_labels = True

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
    ) -> GMML_Supervised:
        """Learn the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples,) with a preprocessor
            Points.
        y : array-like of shape (n_samples,)
            Class labels, of at least two classes. Numbers below 0 mean that the class is unknown.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights; whole numbers mean the same as repeated points.
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
            If an argument or parameter has a value that cannot be used.
        """
        self._check_parameters()
        points, labels = self._prepare_inputs(X, y, ensure_min_samples=2)
        weights = repetitions(check_sample_weight(sample_weight, len(points)), len(points))
        seen = np.flatnonzero(weights)
        _, codes = check_partial_target(labels[seen])
        seen, group = seen[codes >= 0], codes[codes >= 0]
        points, _ = center_and_rescale(points[seen])
        similar, dissimilar = scatters_of_all_pairs(points, group, weights[seen])
        self._learn(TupleSet(points, np.arange(len(points))), similar, dissimilar)
        if validate:
            self._validate_fit(X, y, sample_weight=sample_weight)
        return self


def _blended(kind: str, scatter: _Floats, target: _Floats, reg: float) -> _Floats:
    """Return a scatter of trace 1, plus a share of a target of that trace."""
    trace = np.trace(scatter)
    if not trace > 0:
        raise ValueError(
            f"there is no {kind} pair of different points: both similar and dissimilar pairs are "
            "needed."
        )
    return np.asarray(scatter / trace + reg * target / np.trace(target))


def _geometric_mean(S: _Floats, D: _Floats, t: float) -> _Floats:
    """Return ``inv(S) #_t D``; with S = C C', that is ``inv(C') (C' D C)^t inv(C)``."""
    tiny = len(S) * np.finfo(np.float64).eps
    if np.linalg.eigvalsh(S)[0] <= tiny * np.abs(S).max():
        raise ValueError(
            "the scatter of similar pairs has not full rank: there are too few pairs, or constant "
            "or linearly dependent features. Give a positive `reg`."
        )
    C = np.linalg.cholesky(S)
    values, vectors = np.linalg.eigh(C.T @ D @ C)
    root = solve_triangular(C, vectors, trans="T", lower=True) * np.maximum(values, 0) ** (t / 2)
    return np.asarray(root @ root.T)
