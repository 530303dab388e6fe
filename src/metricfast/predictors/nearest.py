"""Search without labels."""

from __future__ import annotations

from typing import Any

from sklearn.neighbors import NearestNeighbors as _Theirs

from metricfast.predictors.base import KNeighborsMixin, NeighborsBase, RadiusNeighborsMixin

__all__ = ["NearestNeighbors"]


class NearestNeighbors(KNeighborsMixin, RadiusNeighborsMixin, NeighborsBase, _Theirs):  # type: ignore[misc]
    """Search for neighbours, exactly, under a metric that is learned or given.

    Takes the place of scikit-learn's class of this name, from which it derives.

    Parameters
    ----------
    n_neighbors : int or None, default=5
        Number of neighbours; None if every call gives it.
    radius : float or None, default=1.0
        Radius of `radius_neighbors`. None if every call gives one.
    algorithm : {"auto", "ball_tree", "kd_tree", "brute"}, default="auto"
        Method of scikit-learn's search. The search of metricfast ignores it.
    leaf_size : int, default=30
        Size of the leaves of scikit-learn's trees.
    p : float or None, default=2
        Exponent of "minkowski".
    metric : estimator, array-like, tuple, str or callable, default="minkowski"
        The metric is one of these, and the search is our own:

        - a learner of this library, another transformer, or a pipeline that ends in one: the
          distances of the points that it embeds. One that is not fitted is cloned, and the clone
          is fitted to what `fit` is given, labels included. One that is fitted is used as it is.
          Tools that clone this estimator, such as `GridSearchCV`, clone the learner too, and so fit
          it anew; in a :class:`sklearn.frozen.FrozenEstimator` a fitted one stays as it is.
        - a matrix L of shape (n_components, n_features): ``||Lx - Ly||``. The result of
          `get_metric` of a learner of such a matrix stands for the matrix. A square symmetric
          matrix is refused, since it may be L or M = LᵀL: give a tuple that names it.
        - ``("L", L)``, the same, or ``("M", M)``: ``sqrt((x - y).T @ M @ (x - y))``, M being
          symmetric and positive semidefinite. `metric_` is then L, with ``L.T @ L == M``.
        - a tuple of two such matrices: ``||Ux - Vy||``, y being a point that is searched.
        - "euclidean", "l2", or "minkowski" with p = 2 and no weights.
        - "cosine": one minus the cosine. A zero vector is at distance 1 from others.
        - "inner_product": minus the inner product. A radius of -0.5 finds products of at least 0.5.

        Every other name or function that scikit-learn takes is left to its search: "manhattan",
        "precomputed", a `DistanceMetric`, a function of two points. So are sparse points of more
        than 2,000 features, unless the metric is learned, a matrix or "inner_product".

        A learner of two maps embeds queries by one and the points of `fit` by the other. A
        `FixedDatabase` brings the points to search, and their classes, with it: the queries of
        `fit` are what it learns from.
    metric_params : dict, optional
        Parameters of a metric of scikit-learn.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs.

    Attributes
    ----------
    metric_ : estimator, str, ndarray or tuple of ndarray
        The metric in use; of a learner, the fitted one.
    n_samples_fit_ : int
        Number of points in the database.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    See Also
    --------
    metricfast.Database : The points of a search; it can be saved and mapped.
    metricfast.kneighbors : The same for points that are searched once.

    Notes
    -----
    Inner products and cosines are computed in float64 from the given points. For integers they are
    exact, except for the square root in the cosine. They decide which points are the nearest, and
    which are within a radius. Equal ones are in the order of the index.

    `fit` prepares a database of the points for all calls of `kneighbors`. `radius_neighbors`
    prepares them at each call. Several threads may search, each with `n_jobs` threads, but not
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

    def fit(self, X: Any, y: Any = None) -> NearestNeighbors:
        """Store points to search. Fit the metric to them if it is a learner that is not fitted.

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
        """Add points to search; the metric of the first call stays.

        The database is prepared again: add many points at a time.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), optional
            Labels for the first call, which is the same as `fit`.

        Returns
        -------
        self
        """
        if not hasattr(self, "metric_"):
            return self.fit(X, y)
        self._append_points(X)
        return self
