"""Distance metric learning through maximisation of the Jeffrey divergence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from metricfast._core.initialize import check_n_components
from metricfast._core.parameters import NumberOfJobs, PositiveInt, Share
from metricfast._core.scaling import undo_scale
from metricfast._core.scatter import has_full_rank
from metricfast._core.targets import class_codes
from metricfast._core.types import Array, Floats, Integers
from metricfast.learners.base.closed_form import (
    ONE_CLASS,
    ClosedFormLearner,
    Statistics,
    given_distance,
)
from metricfast.learners.base.shrinkage import shrunk_roots
from metricfast.learners.closed.neighborhoods import neighborhood_scatters
from metricfast.selection._judge import JudgeParameter


@dataclass(eq=False, repr=False)
class DMLMJ(ClosedFormLearner):
    r"""Distance metric learning through maximisation of the Jeffrey divergence.

    Looks at the differences of points from their nearest neighbours of the same class and from
    their nearest neighbours of other classes as two normal distributions of mean zero and
    covariances P and N, and finds the linear map A under which they differ most, in terms of the
    sum of the Kullback-Leibler divergences both ways:

    .. math::

        \max_A \operatorname{tr}\left((A P A^T)^{-1} A N A^T + (A N A^T)^{-1} A P A^T\right)

    The generalised eigenvectors, :math:`N v = \lambda P v`, of largest
    :math:`\lambda + 1/\lambda` are the solution. Any invertible map of the result is as good. This
    one makes differences within classes uncorrelated and of unit variance, :math:`A P A^T = I`.

    Parameters
    ----------
    n_components : int, optional
        Number of rows of the map, by default n_features; at most n_samples. Directions in which
        no points differ have the least divergence, and come last.
    n_neighbors : int, default=3
        Nearest neighbours of the same class, and as many of other classes. A class that has fewer
        members gives all there are.
    reg : float from 0 to 1, optional
        The share of P and N that is replaced by a multiple of the identity, the same for both, of
        their mean trace. With 0, P and N must have full rank. 1 is the Euclidean distance, in the
        first principal components if `n_components` is given. By default the judge chooses among
        0.001, 0.1, 0.6 and 1.
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    judge : "auto", None or Judge, default="auto"
        Chooses `reg` by held-out points, see :class:`~metricfast.selection.Judge`. With None,
        `reg` is 0.001 by default.
    n_jobs : int, optional
        Number of threads; results do not depend on it. By default all that the process may use.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The learned map, in float32 for float32 points, else in float64, by descending divergence.
        Constant features have weight zero, unless `reg_` is 1; rows beyond the number of others are
        zero.
    eigenvalues_ : ndarray of shape (n_components,)
        :math:`\lambda` of each row: the variance of differences between classes, in units
        of the variance of differences within classes. It is 1 for rows of zeros.
    reg_ : float
        The share in use.
    n_features_in_, feature_names_in_, preprocessor_, validation_
        As for :class:`BaseMetricLearner`.

    Notes
    -----
    `sample_weight` weights the points whose neighbours are found. All neighbours count alike,
    so a weight of 2 is not the same as a repeated point. In `partial_fit`, neighbours
    are sought among the points of the same call.

    References
    ----------
    B. Nguyen, C. Morell, B. De Baets, "Supervised distance metric learning through maximization of
    the Jeffrey divergence", Pattern Recognition 64 (2017), 215-225.

    Examples
    --------
    >>> from metricfast import DMLMJ
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> DMLMJ(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    _spans = True
    _tuned, _settings, _published = "reg", (1.0, 0.6, 0.1, 0.001), 0.001

    n_components: int | None = None
    n_neighbors: PositiveInt = 3
    reg: Share | None = None
    preprocessor: Any = None
    _: KW_ONLY
    judge: JudgeParameter = "auto"
    n_jobs: NumberOfJobs = None

    def _statistics(
        self, X: Any, y: Any, weight: Floats | None, *, partial: bool = False, execute: Any = None
    ) -> Statistics:
        k = int(self.n_neighbors)
        check_n_components(X.shape[1], self.n_components)
        some = X, class_codes(y, partial=partial)[1], weight
        return Statistics(neighborhood_scatters(*some, k, k, self.n_jobs, execute))

    def _solve(self, statistics: Statistics, setting: float) -> None:
        differences, points = statistics.sums
        d = len(points.origin)
        n_components = check_n_components(d, self.n_components)
        positive, negative, variance, varies = self._covariances(statistics)
        self.reg_ = float(setting)
        if self.reg_ == 1:
            unit = variance, differences.exponent, points.dtype
            self.components_ = given_distance(self, points.within, *unit)
            self.eigenvalues_ = np.ones(self._span.n_rows or self._map.shape[0])
            return
        values, rows = _axes(positive, negative, variance, self.reg_)
        size = min(n_components, len(rows))
        self.eigenvalues_ = np.ones(self._span.n_rows or n_components)
        components = np.zeros((n_components, d))
        self.eigenvalues_[:size] = values[:size]
        components[:size, varies] = rows[:size]
        self.components_ = undo_scale(components, differences.exponent, points.dtype)

    def _maps(self, statistics: Statistics, settings: Sequence[float]) -> Iterator[Array]:
        positive, negative, variance, varies = self._covariances(statistics)
        if not np.trace(positive) > 0:
            raise ValueError("no class has two different points.")
        points = statistics.sums[1]
        n_components = check_n_components(len(points.origin), self.n_components)
        if 1 in settings:
            yield self._span.inside(given_distance(self, points.within, variance, 0, points.dtype))
        learned = [reg for reg in settings if reg < 1]
        # Shrinkage by the mean trace of P and N, expressed by the trace of P.
        target = np.eye(len(varies)), np.trace(positive) / variance
        found = shrunk_roots(positive, target, learned, points.dtype)
        if n_components < len(varies):
            found = (_axes(positive, negative, variance, reg)[1] for reg in learned)
        # With all directions, the inverse square root of P gives the same distance with one
        # decomposition.
        for rows in found:
            L = np.zeros((len(rows), len(points.origin)))
            L[:, varies] = rows
            yield L[:n_components]

    def _covariances(self, statistics: Statistics) -> tuple[Floats, Floats, float, Integers]:
        """Return P and N of the non-constant features, their mean variance, and their indices."""
        differences, points = statistics.sums
        varies = np.flatnonzero(np.diag(points.within))
        totals, scatters = zip(*map(differences.of_group, (0, 1)), strict=True)
        if not totals[1]:
            raise ValueError(ONE_CLASS)
        within, between = (scatter[np.ix_(varies, varies)] for scatter in scatters)
        positive, negative = within / max(totals[0], 1), between / totals[1]
        trace = float(np.trace(positive + negative))
        if not trace > 0:
            raise ValueError("no point differs from its nearest neighbours: give more of them.")
        variance = trace / 2 / np.count_nonzero(self._span.variances(points.within))
        return positive, negative, variance, varies


def _axes(positive: Floats, negative: Floats, variance: float, reg: float) -> tuple[Floats, Floats]:
    """Return eigenvalues and eigenvectors, one per row, by descending divergence."""
    positive = _shrunk("the same class", positive, variance, reg)
    negative = _shrunk("other classes", negative, variance, reg)
    values, vectors = eigh(negative, positive)
    values = np.maximum(values, np.finfo(np.float64).tiny)
    order = np.argsort(-(values + 1 / values), kind="stable")
    return values[order], vectors.T[order]


def _shrunk(kind: str, covariance: Floats, variance: float, reg: float) -> Floats:
    """Shrink a covariance towards a multiple of the identity."""
    shrunk = (1 - reg) * covariance + reg * variance * np.eye(len(covariance))
    if not has_full_rank(shrunk, len(shrunk) * np.finfo(np.float64).eps * np.abs(shrunk).max()):
        raise ValueError(
            f"the differences from neighbours of {kind} have not full rank: there are too few "
            "points, or linearly dependent features. Give a positive `reg`."
        )
    return np.asarray(shrunk)
