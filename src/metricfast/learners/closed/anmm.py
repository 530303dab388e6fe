"""Average neighbourhood margin maximisation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from metricfast._core.arguments import check_no_overflow
from metricfast._core.initialize import check_n_components
from metricfast._core.parameters import NumberOfJobs, PositiveInt, Share
from metricfast._core.scaling import undo_scale
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.targets import class_codes
from metricfast._core.types import Array, Floats
from metricfast.learners.base.closed_form import (
    ONE_CLASS,
    ClosedFormLearner,
    Statistics,
    given_distance,
)
from metricfast.learners.closed.neighborhoods import neighborhood_scatters
from metricfast.selection._judge import JudgeParameter


@dataclass(eq=False, repr=False)
class ANMM(ClosedFormLearner):
    r"""Average neighbourhood margin maximisation.

    Learns the projection W that pulls each point :math:`x_i` towards its nearest neighbours
    :math:`N_i^o` of the same class and pushes it from its nearest neighbours :math:`N_i^e` of other
    classes:

    .. math::

        \max_{W W^T = I} \sum_i \left(
        \frac{1}{|N_i^e|} \sum_{k \in N_i^e} \|W x_i - W x_k\|^2 -
        \frac{1}{|N_i^o|} \sum_{j \in N_i^o} \|W x_i - W x_j\|^2 \right)

    The leading eigenvectors of the difference of two scatter matrices are the solution. Nothing is
    inverted, so features may be constant, or outnumber the points. Features of larger scale count
    more: standardise them where their units mean nothing.

    Parameters
    ----------
    n_components : int, optional
        Number of rows of the projection, at most n_samples. By default as many as increase the
        margin, at least one. The margin is then the maximum over all projections.
    n_friends : int, default=3
        Nearest neighbours of the same class. A class that has fewer members gives all there are.
    n_enemies : int, default=3
        Nearest neighbours of other classes.
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    shrinkage : float from 0 to 1, optional
        The weight of the other directions, of which the projection leaves nothing:
        :math:`W^T W` is moved towards the identity by this fraction. 0 is the published algorithm.
        1 is the Euclidean distance, in the first principal components if `n_components` is given.
        By default the judge chooses among 0, 0.3 and 1.
    judge : "auto", None or Judge, default="auto"
        Chooses `shrinkage` by held-out points, see :class:`~metricfast.selection.Judge`. With None,
        `shrinkage` is 0 by default.
    n_jobs : int, optional
        Number of threads; results do not depend on it. By default all that the process may use.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map, in float32 for float32 points, else in float64. Without shrinkage, it is the
        projection. Its rows are orthonormal, by descending margin.
    margins_ : ndarray of shape (n_projected,)
        The average margin in the direction of each row of the projection.
    shrinkage_ : float
        The fraction in use.
    n_features_in_, feature_names_in_, preprocessor_, validation_
        As for :class:`BaseMetricLearner`.

    Notes
    -----
    `sample_weight` weights the points whose neighbours are found. All neighbours count alike,
    so a weight of 2 is not the same as a repeated point. In `partial_fit`, neighbours
    are sought among the points of the same call.

    References
    ----------
    F. Wang, C. Zhang, "Feature extraction by maximizing the average neighborhood margin",
    IEEE Conference on Computer Vision and Pattern Recognition (2007).

    Examples
    --------
    >>> from metricfast import ANMM
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> ANMM(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    _spans = True
    _tuned, _settings, _published = "shrinkage", (1.0, 0.3, 0.0), 0.0

    n_components: int | None = None
    n_friends: PositiveInt = 3
    n_enemies: PositiveInt = 3
    preprocessor: Any = None
    _: KW_ONLY
    shrinkage: Share | None = None
    judge: JudgeParameter = "auto"
    n_jobs: NumberOfJobs = None

    def _statistics(
        self, X: Any, y: Any, weight: Floats | None, *, partial: bool = False, execute: Any = None
    ) -> Statistics:
        k_same, k_other = int(self.n_friends), int(self.n_enemies)
        check_n_components(X.shape[1], self.n_components)
        some = X, class_codes(y, partial=partial)[1], weight
        return Statistics(neighborhood_scatters(*some, k_same, k_other, self.n_jobs, execute))

    def _solve(self, statistics: Statistics, setting: float) -> None:
        margins, rows = self._projection(statistics)
        differences, points = statistics.sums
        with np.errstate(over="ignore"):
            self.margins_ = np.ldexp(margins, 2 * differences.exponent)
        check_no_overflow("margins, which are squared distances,", self.margins_)
        self.shrinkage_ = setting
        self.components_ = self._moved(rows, setting, points)

    def _projection(self, statistics: Statistics) -> tuple[Floats, Floats]:
        """Return the margins, descending, and the directions of the projection."""
        differences = statistics.sums[0]
        most = check_n_components(len(differences.origin), self.n_components)
        _, compact = differences.of_group(0)
        total, scattered = differences.of_group(1)
        if not total:
            raise ValueError(ONE_CLASS)
        margins, directions = np.linalg.eigh((scattered - compact) / total)
        if self.n_components is None:
            rounding = len(margins) * np.finfo(np.float64).eps * np.abs(margins).max()
            most = max(1, int((margins > rounding).sum()))
        return margins[::-1][:most], directions.T[::-1][:most]

    def _maps(self, statistics: Statistics, settings: Sequence[float]) -> Iterator[Array]:
        rows = self._projection(statistics)[1]
        for fraction in settings:
            moved = self._moved(rows, fraction, statistics.sums[1])
            yield self._span.inside(moved) if fraction else moved

    def _moved(self, rows: Floats, fraction: float, points: ScatterStatistics) -> Any:
        """Return the map of a projection's metric, shrunk towards the identity."""
        if fraction == 0:
            return rows.astype(points.dtype)
        if fraction == 1:
            return given_distance(self, points.within, 1.0, 0, points.dtype)
        L, span = self._span.outer(rows, square=False), self._span
        weights = np.full(L.shape[1], fraction)
        moved = span.plus_diagonal(L, 1 - fraction, weights, self.n_components)
        return undo_scale(moved, 0, points.dtype)
