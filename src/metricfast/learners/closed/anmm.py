"""Average neighbourhood margin maximisation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import check_count
from metricfast._core.arrays import as_threads
from metricfast._core.initialize import check_n_components
from metricfast.learners.base.points import PointsLearner
from metricfast.learners.closed.neighborhoods import neighborhood_scatters

__all__ = ["ANMM"]


class ANMM(PointsLearner):
    r"""Average neighbourhood margin maximisation.

    Learns the projection W that pulls each point :math:`x_i` towards its nearest neighbours
    :math:`N_i^o` of the same class and pushes it from its nearest neighbours :math:`N_i^e` of other
    classes:

    .. math::

        \max_{W W^T = I} \sum_i \left(
        \frac{1}{|N_i^e|} \sum_{k \in N_i^e} \|W x_i - W x_k\|^2 -
        \frac{1}{|N_i^o|} \sum_{j \in N_i^o} \|W x_i - W x_j\|^2 \right)

    The solution are the leading eigenvectors of the difference of two scatter matrices. Nothing is
    inverted, so features may be constant, and more than points. Features of larger scale count
    more: standardise them where their units mean nothing.

    Parameters
    ----------
    n_components : int, optional
        Number of rows of the projection. By default as many as increase the margin, which is its
        maximum over all projections, but at least one.
    n_friends : int, default=3
        Nearest neighbours of the same class. A class that has fewer members gives all there are.
    n_enemies : int, default=3
        Nearest neighbours of other classes.
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    n_jobs : int, optional
        Number of threads; results do not depend on it. By default all that the process may use.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The learned projection, in float32 for float32 points, else in float64. Its rows are
        orthonormal, by descending margin.
    margins_ : ndarray of shape (n_components,)
        The average margin in the direction of each row.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if `X` has any.
    preprocessor_ : callable or None
        The preprocessor in use.

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

    def __init__(
        self,
        n_components: int | None = None,
        n_friends: int = 3,
        n_enemies: int = 3,
        preprocessor: Any = None,
        *,
        n_jobs: int | None = None,
    ) -> None:
        self._take(locals())

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
    ) -> ANMM:
        """Learn the projection.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples,) with a preprocessor
            Points.
        y : array-like of shape (n_samples,)
            Class labels, of at least two classes.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the points whose neighbours are looked at. As neighbours all
            points count alike, so a weight of 2 is not the same as a repeated point.
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
        check_count("n_friends", self.n_friends)
        check_count("n_enemies", self.n_enemies)
        as_threads(self.n_jobs)
        data = self._check_data(X, y, sample_weight)
        n_components = self.n_components
        if n_components is not None:
            n_components = check_n_components(data.X.shape[1], n_components)
        compact, scattered, totals = neighborhood_scatters(
            data, self.n_friends, self.n_enemies, self.n_jobs
        )
        margins, directions = np.linalg.eigh((scattered - compact) / totals[1])
        if n_components is None:
            n_components = max(1, int((margins > 0).sum()))
        with np.errstate(over="ignore"):
            self.margins_ = np.ldexp(margins[::-1][:n_components], 2 * data.exponent)
        if not np.isfinite(self.margins_).all():
            raise ValueError(
                "X is so large that margins, which are squared distances, overflow: scale its "
                "features."
            )
        self.components_ = directions.T[::-1][:n_components].astype(data.X.dtype)
        if validate:
            self._validate_fit(X, y, sample_weight=sample_weight)
        return self
