"""Geometric mean metric learning."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from metricfast._core.arguments import check_range
from metricfast._core.initialize import check_n_components, components_from_metric
from metricfast._core.parameters import Seed
from metricfast._core.prior import is_identity
from metricfast._core.scatter import has_full_rank
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.stores import in_memory
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats
from metricfast.learners.base.closed_form import ClosedFormLearner, Statistics
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.tuples.all_pairs import statistics_of_classes, sums_of
from metricfast.learners.tuples.pair_sums import PairSumsLearner, check_differ, prior_matrix
from metricfast.selection._judge import JudgeParameter

# Largest regularisation (the pairs then have no influence beyond it), and the values that the judge
# tries. With the first value, the metric is the prior, and the pairs only order the directions.
_MOST_REG = 1e12
_TRIED = (1e6, 1.0, 0.1, 1e-3)


@dataclass(eq=False, repr=False)
class _GMML(MahalanobisMixin):
    """Parameters and solver of GMML and GMML_Supervised."""

    t: float = 0.5
    reg: float = 1e-3
    prior: str | Array = "identity"
    preprocessor: Any = None
    random_state: Seed = None
    _: KW_ONLY
    n_components: int | None = None

    _exact_in_parts = True

    @property
    def _spans(self) -> bool:
        return is_identity(self.prior)

    def _solve_for(self, pairs: ScatterStatistics, tuples: TupleSet | None, reg: float) -> None:
        """Learn the metric from the scatters of similar and of dissimilar pairs, and the prior."""
        similar, dissimilar = (pairs.of_group(kind)[1] for kind in (1, -1))
        check_range("t", self.t, high=1)
        check_range("reg", reg, high=_MOST_REG)
        check_n_components(len(similar), self.n_components)
        trace = self._span.identity(similar)[1] if is_identity(self.prior) else None
        prior = inverse = prior_matrix(
            self.prior, self.random_state, tuples, len(similar), strictly_positive=reg > 0
        )
        if reg > 0:
            inverse = cho_solve(cho_factor(prior), np.eye(len(prior)))
        S = _blended("similar", similar, inverse, trace, reg)
        D = _blended("dissimilar", dissimilar, prior, trace, reg)
        M = _geometric_mean(S, D, float(self.t))
        L = components_from_metric(M, n_components=self.n_components)
        self.components_ = L.astype(pairs.dtype, copy=False)


@dataclass(eq=False, repr=False)
class GMML(PairSumsLearner, _GMML):
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
    n_components : int, optional
        Number of rows of `components_`: the leading eigenvectors of M. By default all.
    preprocessor, random_state
        As for :class:`ITML`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The linear map L with M = L.T @ L, in float32 for float32 points, else in float64.
    threshold_, validation_, n_features_in_, preprocessor_
        As for :class:`ITML`.

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

    def _solve(self, statistics: Statistics, setting: None) -> None:
        del setting
        (pairs,) = statistics.sums
        self._solve_for(pairs, statistics.tuples, self.reg)


@dataclass(eq=False, repr=False)
class GMML_Supervised(_GMML, ClosedFormLearner):  # type: ignore[override]  # noqa: N801
    r"""Geometric mean metric learning from class labels.

    All pairs of points of one class are similar and all others dissimilar. Their scatters follow
    from the means and scatters of the classes, so no pairs are drawn or formed, and time is of
    order n_samples n_features^2 + n_features^3. See :class:`GMML` for the objective.

    Parameters
    ----------
    reg : float, optional
        As for :class:`GMML`. By default the judge chooses among 0.001, 0.1, 1 and the prior alone,
        which is 10^6.
    t, prior, preprocessor, random_state, n_components
        As for :class:`GMML`, and so are their defaults.
    judge : "auto", None or Judge, default="auto"
        Chooses `reg` by held-out points, see :class:`~metricfast.selection.Judge`. With None, and
        in `partial_fit`, `reg` is 0.001 by default.

    Attributes
    ----------
    reg_ : float
        The value in use.
    components_, validation_, n_features_in_, feature_names_in_, preprocessor_
        As for :class:`GMML`.

    Notes
    -----
    A whole number as `sample_weight` means the same as a repeated point. `partial_fit` stores the
    scatter of each class.

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

    reg: Annotated[float, partial(check_range, high=_MOST_REG)] | None = None  # type: ignore[assignment]
    judge: JudgeParameter = "auto"

    _beyond_span = True
    _partial_labels = True
    _tuned, _settings, _published = "reg", _TRIED, _TRIED[-1]
    _statistics = statistics_of_classes

    def _solve(self, statistics: Statistics, setting: float) -> None:
        tuples = statistics.tuples
        if tuples is not None and isinstance(self.prior, str) and self.prior == "covariance":
            points = in_memory(
                tuples.points, "X, for prior='covariance',", "give the prior as a matrix"
            )
            tuples = replace(tuples, points=points)
        self.reg_ = float(setting)
        self._solve_for(sums_of(statistics), tuples, self.reg_)


def _blended(kind: str, scatter: Floats, target: Floats, size: float | None, reg: float) -> Floats:
    """Return a scatter scaled to trace 1, blended with a target of trace 1.

    `size`: the trace of the target, if some directions of the features are missing.
    """
    check_differ(kind, scatter)
    return np.asarray(scatter / np.trace(scatter) + reg * target / (size or np.trace(target)))


def _geometric_mean(S: Floats, D: Floats, t: float) -> Floats:
    """Return ``inv(S) #_t D``; with S = C C', that is ``inv(C') (C' D C)^t inv(C)``."""
    tiny = len(S) * np.finfo(np.float64).eps
    if not has_full_rank(S, tiny * np.abs(S).max()):
        raise ValueError(
            "the scatter of similar pairs has not full rank: there are too few pairs, or constant "
            "or linearly dependent features. Give a positive `reg`."
        )
    C = np.linalg.cholesky(S)
    values, vectors = np.linalg.eigh(C.T @ D @ C)
    root = solve_triangular(C, vectors, trans="T", lower=True) * np.maximum(values, 0) ** (t / 2)
    return np.asarray(root @ root.T)
