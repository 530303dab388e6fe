"""Search without labels: nearest neighbours, and graphs of neighbours."""

from __future__ import annotations

from typing import Any, Literal

from scipy.sparse import csr_matrix
from sklearn import neighbors as theirs
from sklearn.neighbors import NearestNeighbors as _Theirs

from metricfast._core.arguments import check_bool
from metricfast._core.parameters import PositiveInt
from metricfast._core.types import Self
from metricfast.predictors.base import KNeighborsMixin, NeighborsBase, RadiusNeighborsMixin
from metricfast.predictors.metric import is_searched


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


class Graphs(NeighborsBase):
    """Base class of transformers of points into the graph of their neighbours."""

    mode: Literal["connectivity", "distance"]
    transform: Any

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store points to search. Fit the metric to them if it is a learner that is not fitted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), optional
            For a learner that needs labels.

        Returns
        -------
        self
        """
        self._fit_points(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Return the graph of the points of `fit`, each its own neighbour too.

        Parameters
        ----------
        X, y
            As for :meth:`fit`.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_samples, n_samples)
        """
        return self.fit(X, y).transform(X)

    @property
    def _n_features_out(self) -> int:
        return self.n_samples_fit_


class KNeighborsTransformer(KNeighborsMixin, Graphs, theirs.KNeighborsTransformer):  # type: ignore[misc]
    """The graph of nearest neighbours, as scikit-learn's ``metric="precomputed"`` takes it.

    Parameters
    ----------
    mode : {"distance", "connectivity"}, default="distance"
        Entries are distances, or 1.
    n_neighbors : int, default=5
        With "distance" there is one more of each query, for those that are points of `fit` and so
        their own nearest neighbours, as in scikit-learn.
    algorithm, leaf_size, p, metric_params
        See :class:`NearestNeighbors`.
    metric : estimator, array-like, tuple, str or callable, default="minkowski"
        A learner, fitted or not, a matrix L, a pair (U, V), or a metric of scikit-learn: see
        :class:`NearestNeighbors`.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs.

    Attributes
    ----------
    metric_, n_samples_fit_, n_features_in_, feature_names_in_
        As in :class:`NearestNeighbors`.

    Examples
    --------
    >>> from metricfast import LFDA
    >>> from metricfast.neighbors import KNeighborsTransformer
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> KNeighborsTransformer(n_neighbors=4, metric=LFDA()).fit(X, y).transform(X[:10]).nnz
    50
    """

    n_neighbors: PositiveInt  # not None


class RadiusNeighborsTransformer(RadiusNeighborsMixin, Graphs, theirs.RadiusNeighborsTransformer):  # type: ignore[misc]
    """The graph of neighbours within a radius, as ``metric="precomputed"`` takes it.

    Parameters
    ----------
    mode : {"distance", "connectivity"}, default="distance"
        Entries are distances, or 1.
    radius : float, default=1.0
        Points exactly so far away are neighbours too.
    algorithm, leaf_size, p, metric_params
        See :class:`NearestNeighbors`.
    metric : estimator, array-like, tuple, str or callable, default="minkowski"
        A learner, fitted or not, a matrix L, a pair (U, V), or a metric of scikit-learn: see
        :class:`NearestNeighbors`.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs.

    Attributes
    ----------
    metric_, n_samples_fit_, n_features_in_, feature_names_in_
        As in :class:`NearestNeighbors`.

    Examples
    --------
    >>> from metricfast.neighbors import RadiusNeighborsTransformer
    >>> RadiusNeighborsTransformer(radius=2.0).fit_transform([[0.0], [1.0], [4.0]]).toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 0., 0.]])
    """


def kneighbors_graph(
    X: Any,
    n_neighbors: int,
    *,
    mode: str = "connectivity",
    metric: Any = "minkowski",
    p: float | None = 2,
    metric_params: dict[str, Any] | None = None,
    include_self: bool | str = False,
    n_jobs: int | None = None,
) -> csr_matrix:
    """Return the nearest points of each point as a sparse matrix.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features), or fitted estimator
        Points, or a nearest-neighbour estimator with its points; `metric`, `p` and `metric_params`
        must then be the same as in the estimator.
    n_neighbors : int
    mode : {"connectivity", "distance"}, default="connectivity"
        Entries are 1, or distances.
    metric, p, metric_params, n_jobs
        Parameters of :class:`NearestNeighbors`.
    include_self : bool or "auto", default=False
        Whether each point is its own first neighbour. "auto": with "connectivity".

    Returns
    -------
    scipy.sparse.csr_matrix of shape (n_samples, n_samples)

    Raises
    ------
    ValueError, TypeError
        If an argument has a value that cannot be used.

    Examples
    --------
    >>> from metricfast.neighbors import kneighbors_graph
    >>> kneighbors_graph([[0.0], [1.0], [3.0]], 1, mode="distance").toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 2., 0.]])
    """
    given = {"metric": metric, "p": p, "metric_params": metric_params}
    search, queries = _searched(X, given, include_self, mode, n_jobs)
    return search.kneighbors_graph(queries, n_neighbors, mode)


def radius_neighbors_graph(
    X: Any,
    radius: float,
    *,
    mode: str = "connectivity",
    metric: Any = "minkowski",
    p: float | None = 2,
    metric_params: dict[str, Any] | None = None,
    include_self: bool | str = False,
    n_jobs: int | None = None,
) -> csr_matrix:
    """Return all points within a distance of each point as a sparse matrix.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features), or fitted estimator
        Points, or a nearest-neighbour estimator with its points; `metric`, `p` and `metric_params`
        must then be the same as in the estimator.
    radius : float
        Points exactly so far away are neighbours too.
    mode : {"connectivity", "distance"}, default="connectivity"
        Entries are 1, or distances.
    metric, p, metric_params, n_jobs
        Parameters of :class:`NearestNeighbors`.
    include_self : bool or "auto", default=False
        Whether each point is a neighbour of itself. "auto": with "connectivity".

    Returns
    -------
    scipy.sparse.csr_matrix of shape (n_samples, n_samples)

    Raises
    ------
    ValueError, TypeError
        If an argument has a value that cannot be used.

    Examples
    --------
    >>> from metricfast.neighbors import radius_neighbors_graph
    >>> radius_neighbors_graph([[0.0], [1.0], [3.0]], 2.0).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    given = {"metric": metric, "p": p, "metric_params": metric_params}
    search, queries = _searched(X, given, include_self, mode, n_jobs)
    return search.radius_neighbors_graph(queries, radius, mode)


def _searched(
    X: Any, given: dict[str, Any], include_self: bool | str, mode: str, n_jobs: int | None
) -> tuple[Any, Any]:
    """Return an estimator fitted to the points, and queries; None excludes each point itself."""
    if include_self == "auto":
        include_self = mode == "connectivity"
    check_bool("include_self", include_self)
    if not is_searched(X):
        return NearestNeighbors(**given, n_jobs=n_jobs).fit(X), X if include_self else None
    for name, value in given.items():
        own = getattr(X, name)
        if own is not value and not (isinstance(own, (str, int, float)) and own == value):
            raise ValueError(
                f"{name} must be that of the estimator, {own!r}, got {value!r}: give the points, "
                "or the same."
            )
    if include_self and X._fit_X is None:
        raise ValueError(
            "include_self must be False: the estimator has embedded points only. Give the points."
        )
    return X, X._fit_X if include_self else None
