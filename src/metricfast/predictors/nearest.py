"""Search without labels."""

from __future__ import annotations

from typing import Any

from metricfast.predictors.base import KNeighborsMixin, NeighborsBase, RadiusNeighborsMixin

__all__ = ["NearestNeighbors"]


class NearestNeighbors(KNeighborsMixin, RadiusNeighborsMixin, NeighborsBase):
    """Search for neighbours, exactly, under a metric that is learned or given.

    Parameters
    ----------
    n_neighbors : int, default=5
        What `kneighbors` looks for.
    radius : float, default=1.0
        How far `radius_neighbors` looks.
    metric : estimator, array-like, tuple or "euclidean", default="euclidean"
        What distances are of:

        - a learner of this library, another transformer, or a pipeline that ends in one: the
          distances of the points that it embeds. One that is not fitted is cloned, and the clone
          is fitted to what `fit` is given, labels included. One that is fitted is used as it is.
          Tools that clone this estimator, such as `GridSearchCV`, clone the learner too, and so fit
          it anew; in a :class:`sklearn.frozen.FrozenEstimator` a fitted one stays as it is.
        - a matrix L of shape (n_components, n_features): ``||Lx - Ly||``. What `get_metric` of a
          learner of such a matrix returns stands for the matrix. A square symmetric matrix is
          refused, since it may be L or M = LᵀL: give a tuple that names it.
        - ``("L", L)``, the same, or ``("M", M)``: ``sqrt((x - y).T @ M @ (x - y))``, M being
          symmetric and positive semidefinite. `metric_` is then L, with ``L.T @ L == M``.
        - a tuple of two such matrices: ``||Ux - Vy||``, y being a point that is searched.
        - "euclidean".

        A learner of two maps embeds queries by one and the points of `fit` by the other. A
        `FixedDatabase` brings the points to search, and their classes, with it: the queries of
        `fit` are what it learns from.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs.

    Attributes
    ----------
    metric_ : estimator, str, ndarray or tuple of ndarray
        The metric in use; of a learner, the fitted one.
    n_samples_fit_ : int
        How many points are searched.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    See Also
    --------
    metricfast.Database : What `kneighbors` searches; it can be saved and mapped.
    metricfast.kneighbors, metricfast.radius_neighbors : The same for points that are searched once.

    Notes
    -----
    `fit` makes a database of the points, once for all calls of `kneighbors`; `radius_neighbors`
    makes them ready at each call. Several threads may search, each with `n_jobs` threads, but not
    while another calls `fit` or `partial_fit`.

    Examples
    --------
    >>> from metricfast import LFDA, NearestNeighbors
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> search = NearestNeighbors(n_neighbors=3, metric=LFDA(n_components=2)).fit(X, y)
    >>> distances, indices = search.kneighbors(X[:5])
    >>> indices[:, 0]  # each point is its own nearest
    array([0, 1, 2, 3, 4])
    """

    def __init__(
        self,
        *,
        n_neighbors: int = 5,
        radius: float = 1.0,
        metric: Any = "euclidean",
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.radius = radius
        self.metric = metric
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> NearestNeighbors:
        """Keep points to search, and fit the metric to them where it is a learner to be fitted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), optional
            For a learner that needs labels.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If an argument or parameter has a value that cannot be used.
        """
        self._fit_points(X, y)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> NearestNeighbors:
        """Add points to those that are searched; the metric stays that of the first call.

        The database is made ready anew: add many points at a time.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), optional
            Of use in the first call, which does what `fit` does.

        Returns
        -------
        self
        """
        if not hasattr(self, "metric_"):
            return self.fit(X, y)
        self._append_points(X)
        return self
