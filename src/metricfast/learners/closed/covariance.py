"""The Mahalanobis distance in the original sense: the inverse covariance."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.initialize import check_n_components
from metricfast._core.scatter import whitening, with_signs
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.types import Floats
from metricfast.learners.base.closed_form import (
    ClosedFormLearner,
    Statistics,
    fit_points,
    padded_components,
)


@dataclass(eq=False, repr=False)
class Covariance(ClosedFormLearner):
    r"""The distance of the inverse covariance.

    M is the pseudo-inverse of the covariance :math:`\frac{1}{n - 1} \sum_i (x_i - m)(x_i - m)^T` of
    the points: in the embedding all features have variance 1 and none are correlated. No labels
    are used.

    Parameters
    ----------
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    n_components : int, optional
        Keep this many principal components, of greatest variance, each divided by its standard
        deviation. By default all of M.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map, in float32 for float32 points, else in float64. Without `n_components` it is
        square and upper triangular with a non-negative diagonal: the transposed Cholesky factor of
        M. Rows beyond the rank of the covariance are zero. With more features than points the
        rows are as many as the rank, and not triangular.
    n_features_in_, feature_names_in_, preprocessor_, validation_
        As for :class:`BaseMetricLearner`.

    Notes
    -----
    Features that are constant, or combinations of others, take no part: directions whose standard
    deviation, each feature being measured in units of its own, is below a millionth of the largest
    (1e-4 for float32 points) have no weight. The units of single features do not change the
    distance of points that lie where the training points do.

    Directions that hardly vary count as much as those that vary most. If these are noise, as
    the pixels at the margin of an image are, nearest neighbours become worse than in the Euclidean
    distance: choose `n_components`, or a learner that uses labels. So it is with few points, whose
    smallest variances are far too small: with 4 points for each feature the error of the nearest
    neighbour can still be three times as large as in the Euclidean distance.

    References
    ----------
    P. C. Mahalanobis, "On the generalised distance in statistics", Proceedings of the National
    Institute of Sciences of India 2 (1936).

    Examples
    --------
    >>> from metricfast import Covariance
    >>> covariance = Covariance().fit([[0.0, 0.0], [2.0, 0.0], [0.0, 4.0], [2.0, 4.0]])
    >>> covariance.get_mahalanobis_matrix().round(4)
    array([[0.75  , 0.    ],
           [0.    , 0.1875]])
    """

    preprocessor: Any = None
    _: KW_ONLY
    n_components: int | None = None

    _exact_in_parts = True
    _requires_y = False
    _spans = True

    def fit(  # type: ignore[override]
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
    ) -> Covariance:
        """Compute the map.

        Parameters
        ----------
        X : array-like or source of shape (n_samples, n_features), or (n_samples,)
            Points, or indicators for the preprocessor. Points that are not in memory may be a
            memory map, an array of zarr or h5py, an Arrow table, or a `metricfast.sources.Source`.
        y : array-like of shape (n_samples,), optional
            Not used, except by `validate`.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights. Whole numbers mean the same as repeated points; others are scaled
            to a mean of 1.
        validate : bool, default=False
            As for :meth:`LFDA.fit`. This needs `y`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the input is not as above, or all points are equal.
        """
        fit_points(self, X, y, sample_weight, validate=validate)
        return self

    def _statistics(self, X: Any, y: Any, weight: Floats | None, **_: Any) -> Statistics:
        return Statistics((ScatterStatistics(X.shape[1]).add(X, weight),))

    def _solve(self, statistics: Statistics, setting: None) -> None:
        del setting
        (points,) = statistics.sums
        n_features = len(points.origin)
        n_components = check_n_components(n_features, self.n_components)
        if not points.within.any():
            raise ValueError("X must hold at least 2 different points of positive weight.")
        covariance = points.within / (points.total - 1)
        if n_components < n_features:
            values, vectors = np.linalg.eigh(covariance)
            kept = np.flatnonzero(values > values[-1] * n_features * np.finfo(float).eps)
            kept = kept[::-1][:n_components]
            rows = with_signs(vectors.T[kept]) / np.sqrt(values[kept])[:, None]
        else:
            rows = np.linalg.qr(whitening(covariance, points.dtype), mode="r")
            rows = rows * np.where(np.diag(rows) < 0, -1.0, 1.0)[:, None]
        self.components_ = padded_components(rows, n_components, points.exponent, points.dtype)
