"""KISSME and XQDA: metrics from covariances of differences in similar and dissimilar pairs."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from scipy.linalg import eigh

from metricfast._core.initialize import check_n_components
from metricfast._core.parameters import NonNegativeFloat
from metricfast._core.scatter import RANK_TOL, RANK_TOL_DOUBLE, has_full_rank, whitening, with_signs
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.types import Floats
from metricfast._core.warn import warn_user
from metricfast.learners.base.closed_form import Statistics, given_distance, padded_components
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.tuples.all_pairs import ViewPairsLearner, sums_of
from metricfast.learners.tuples.pair_sums import PairSumsLearner, check_differ
from metricfast.selection._judge import JudgeParameter

# The regularisation of singular covariances, and the values that the judge tries; the first gives
# the Euclidean distance.
_LEAST = 1e-3
_TRIED = (np.inf, 1.0, 0.1, 0.01)


@dataclass(eq=False, repr=False)
class _KISSME(MahalanobisMixin):
    """Parameters and solver of KISSME and KISSME_Supervised."""

    n_components: int | None = None
    preprocessor: Any = None
    _: KW_ONLY
    regularization: NonNegativeFloat | None = None

    _spans = True

    def _learn(self, pairs: ScatterStatistics, regularization: float | None) -> None:
        """Learn from sums over similar and dissimilar pairs."""
        n_components = check_n_components(len(pairs.origin), self.n_components)
        self.regularization_ = float(regularization or 0)
        if self.regularization_ == np.inf:
            _keep_given(self, pairs)
            return
        try:
            ratios, axes = _directions(self, pairs, self.regularization_, noise_in_both=True)
        except _SingularError as error:
            if regularization is not None:
                raise
            warn_user(f"regularization={_LEAST} is used, since {error}")
            self.regularization_ = _LEAST
            ratios, axes = _directions(self, pairs, _LEAST, noise_in_both=True)
        values, vectors = eigh((axes * (1 - 1 / ratios)) @ axes.T)
        rows = with_signs(vectors.T * np.sqrt(np.maximum(values, 0))[:, None])[::-1]
        self.components_ = padded_components(rows, n_components, pairs.exponent, pairs.dtype)


@dataclass(eq=False, repr=False)
class KISSME(PairSumsLearner, _KISSME):
    r"""Keep it simple and straightforward metric learning from similar and dissimilar pairs.

    The differences of similar and of dissimilar pairs are taken as normally distributed with mean
    zero and covariances :math:`\Sigma_1` and :math:`\Sigma_0`. The logarithm of their likelihood
    ratio is, but for a constant and a factor, the squared distance of

    .. math::

        M = \Sigma_1^{-1} - \Sigma_0^{-1}.

    M is projected to the cone of positive semidefinite matrices: negative eigenvalues become zero.
    Time is of order n_pairs n_features^2 + n_features^3.

    Parameters
    ----------
    n_components : int, optional
        Number of rows of `components_`: the leading eigenvectors of M. By default n_features.
    preprocessor : array-like or callable, optional
        Gives the points when `pairs` holds indicators of points.
    regularization : float, optional
        This multiple of the mean variance of :math:`\Sigma_1` is added to the diagonals of both
        covariances. 0 is the published algorithm. It needs similar and dissimilar pairs that differ
        in the same directions. None is 0.001 with a warning if they do not, and otherwise 0.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The linear map L with M = L.T @ L, in float32 for float32 points, else in float64. Rows are
        by descending eigenvalue of M, and zero for eigenvalues below zero.
    regularization_ : float
        The regularisation in use.
    threshold_, validation_, n_features_in_, preprocessor_
        As for :class:`ITML`.

    See Also
    --------
    KISSME_Supervised : The same from class labels.
    XQDA : Fewer components, chosen by the ratio of the two variances.

    Notes
    -----
    The projection depends on the units of the features: standardise them, or project them to
    their principal components, as the authors do.

    References
    ----------
    M. Köstinger, M. Hirzer, P. Wohlhart, P. M. Roth, H. Bischof, "Large scale metric learning from
    equivalence constraints", CVPR (2012).

    Examples
    --------
    >>> from metricfast import KISSME
    >>> points = [[1.0, 7.0], [1.2, 3.0], [5.0, 4.0], [5.1, 8.0]]
    >>> pairs = [[0, 1], [2, 3], [0, 2], [0, 3], [1, 2], [1, 3]]
    >>> kissme = KISSME(preprocessor=points).fit(pairs, [1, 1, -1, -1, -1, -1])
    >>> kissme.predict(pairs)
    array([ 1,  1, -1, -1, -1, -1])
    """

    def _solve(self, statistics: Statistics, setting: None) -> None:
        del setting
        (pairs,) = statistics.sums
        self._learn(pairs, self.regularization)


@dataclass(eq=False, repr=False)
class KISSME_Supervised(_KISSME, ViewPairsLearner):  # noqa: N801
    r"""Keep it simple and straightforward metric learning from class labels.

    All pairs of points of one class are similar and all others dissimilar. Their covariances follow
    from the means and scatters of the classes, so no pairs are drawn or formed, and time is of
    order n_samples n_features^2 + n_features^3. If `fit` gets `views`, such as the cameras that
    took images, only pairs of points of different views count. See :class:`KISSME` for M.

    Parameters
    ----------
    regularization : float, optional
        As for :class:`KISSME`. By default the judge chooses among None, 0.01, 0.1, 1 and the
        Euclidean distance, in the first principal components if `n_components` is given.
    n_components, preprocessor
        As for :class:`KISSME`, and so are their defaults.
    judge : "auto", None or Judge, default="auto"
        Chooses `regularization` by held-out points, see :class:`~metricfast.selection.Judge`. With
        None, and in `partial_fit`, it is not chosen.

    Attributes
    ----------
    regularization_ : float
        The regularisation in use; infinite for the Euclidean distance.
    components_, validation_, n_features_in_, feature_names_in_, preprocessor_
        As for :class:`KISSME`.

    Notes
    -----
    The learner is made for many classes of few points each. Classes of several clusters differ most
    along the directions that separate their clusters; nearest neighbours may then be worse than in
    the Euclidean distance.

    A whole number as `sample_weight` means the same as a repeated point. `partial_fit` stores the
    scatter of each class, or of each class in each view.

    References
    ----------
    As for :class:`KISSME`.

    Examples
    --------
    >>> from metricfast import KISSME_Supervised
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> KISSME_Supervised(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    judge: JudgeParameter = "auto"

    _tuned, _settings = "regularization", (*_TRIED, None)

    def _solve(self, statistics: Statistics, setting: float | None) -> None:
        self._learn(sums_of(statistics), setting)


@dataclass(eq=False, repr=False)
class XQDA(ViewPairsLearner):
    r"""Cross-view quadratic discriminant analysis.

    Finds the directions in which dissimilar pairs differ more than similar ones, and learns the
    metric of :class:`KISSME` in these. With the covariances :math:`\Sigma_1` of the differences of
    similar and :math:`\Sigma_0` of dissimilar pairs, directions are the generalised eigenvectors

    .. math::

        \Sigma_0 w = \rho\, \Sigma_1 w, \qquad w^T \Sigma_1 w = 1, \qquad \rho > 1,

    and the rows of the map are :math:`\sqrt{1 - 1/\rho}\; w^T`. All pairs of classes count. If
    `fit` gets `views`, such as the cameras that took images, only pairs of points of different
    views count. One map embeds the points of all views.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of directions, of largest :math:`\rho`. "auto" is the number of directions with
        :math:`\rho > 1`, at least one.
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    regularization : float, optional
        This multiple of the mean variance of :math:`\Sigma_1` is added to its diagonal. With 0,
        similar pairs must differ in all directions in which dissimilar ones do. By default the
        judge chooses among 0.001, 0.01, 0.1, 1 and the Euclidean distance, as for
        :class:`KISSME_Supervised`.
    judge : "auto", None or Judge, default="auto"
        Chooses `regularization` by held-out points, see :class:`~metricfast.selection.Judge`. With
        None, and in `partial_fit`, `regularization` is 0.001 by default.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map, in float32 for float32 points, else in float64. Rows are by descending
        :math:`\rho`, and zero for :math:`\rho \le 1`.
    regularization_ : float
        The regularisation in use; infinite for the Euclidean distance.
    n_features_in_, feature_names_in_, preprocessor_, validation_
        As for :class:`BaseMetricLearner`.

    See Also
    --------
    KISSME_Supervised : The metric of all directions.

    Notes
    -----
    Without regularisation, the result does not depend on the units of the features.

    The learner is made for many classes of few points each, see :class:`KISSME_Supervised`.

    A whole number as `sample_weight` means the same as a repeated point. `partial_fit` stores the
    scatter of each class, or of each class in each view.

    References
    ----------
    S. Liao, Y. Hu, X. Zhu, S. Z. Li, "Person re-identification by local maximal occurrence
    representation and metric learning", CVPR (2015).

    Examples
    --------
    >>> from metricfast import XQDA
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> XQDA(regularization=0.001).fit(X, y).components_.shape
    (2, 4)
    """

    n_components: Literal["auto"] | int = "auto"  # type: ignore[assignment]
    preprocessor: Any = None
    _: KW_ONLY
    regularization: NonNegativeFloat | None = None
    judge: JudgeParameter = "auto"

    _spans = True
    _tuned, _settings, _published = "regularization", (*_TRIED, _LEAST), _LEAST

    def _solve(self, statistics: Statistics, setting: float) -> None:
        pairs, self.regularization_ = sums_of(statistics), float(setting)
        if self.n_components != "auto":
            check_n_components(len(pairs.origin), self.n_components)
        if self.regularization_ == np.inf:
            _keep_given(self, pairs)
            return
        ratios, axes = _directions(self, pairs, self.regularization_, noise_in_both=False)
        if self.n_components == "auto":
            n_components = max(1, int(np.count_nonzero(ratios > 1)))
        else:
            n_components = int(self.n_components)
        rows = with_signs(axes.T) * np.sqrt(1 - 1 / np.maximum(ratios, 1))[:, None]
        self.components_ = padded_components(rows[::-1], n_components, pairs.exponent, pairs.dtype)


class _SingularError(ValueError):
    """A covariance does not have full rank."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"the covariance of {kind} pairs is singular: some directions vary only between other "
            "pairs. Give more pairs, or a larger `regularization`."
        )


def _covariances(pairs: ScatterStatistics) -> list[Floats]:
    """Return the covariances of both kinds of pairs; raise ValueError if all pairs coincide."""
    (n_similar, similar), (n_dissimilar, dissimilar) = map(pairs.of_group, (1, -1))
    rounding = 4 * np.finfo(pairs.dtype).eps ** 2 * np.trace(dissimilar)
    check_differ("similar", similar, rounding)
    check_differ("dissimilar", dissimilar)
    return [similar / n_similar, dissimilar / n_dissimilar]


def _keep_given(learner: Any, pairs: ScatterStatistics) -> None:
    """Set the Euclidean distance, scaled so that similar pairs have variance 1."""
    similar, dissimilar = _covariances(pairs)
    variance = np.trace(similar) / learner._span.identity(similar)[1]
    total = similar + dissimilar
    learner.components_ = given_distance(learner, total, variance, pairs.exponent, pairs.dtype)


def _directions(
    learner: Any, pairs: ScatterStatistics, regularization: float, *, noise_in_both: bool
) -> tuple[Floats, Floats]:
    """Return generalised eigenvectors as columns, scaled so that similar pairs have variance 1.

    Also returns the ascending variances of dissimilar pairs along them. Directions in which no
    pairs differ are left out.

    `noise_in_both`: whether the regularisation is also added to the dissimilar covariance.
    """
    similar, dissimilar = _covariances(pairs)
    W = whitening(similar + dissimilar, pairs.dtype)
    level = regularization * np.trace(similar) / learner._span.identity(similar)[1]
    similar, dissimilar = (W @ C @ W.T for C in (similar, dissimilar))
    noise = level * W @ W.T
    similar = similar + noise
    if noise_in_both:
        dissimilar = dissimilar + noise
    least = (RANK_TOL if pairs.dtype == np.float32 else RANK_TOL_DOUBLE) ** 2
    if not has_full_rank(similar, least):
        raise _SingularError("similar")
    if noise_in_both and not has_full_rank(dissimilar, least):
        raise _SingularError("dissimilar")
    ratios, vectors = eigh(dissimilar, similar)
    return ratios, W.T @ vectors
