"""Graphs of neighbours, for estimators that take distances precomputed."""

from __future__ import annotations

from typing import Any, TypeVar

from scipy.sparse import csr_matrix
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from metricfast._core.arguments import check_choice
from metricfast.predictors.base import KNeighborsMixin, NeighborsBase, RadiusNeighborsMixin

__all__ = ["KNeighborsTransformer", "RadiusNeighborsTransformer"]

_Self = TypeVar("_Self", bound="Graphs")


class Graphs(ClassNamePrefixFeaturesOutMixin, TransformerMixin, NeighborsBase):  # type: ignore[misc]
    """A transformer of points into the graph of their neighbours."""

    mode: str

    def _check_parameters(self) -> None:
        check_choice("mode", self.mode, ("connectivity", "distance"))
        super()._check_parameters()

    def fit(self: _Self, X: Any, y: Any = None) -> _Self:
        """Keep points to search, and fit the metric to them where it is a learner to be fitted.

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

    @property
    def _n_features_out(self) -> int:
        return self.n_samples_fit_


class KNeighborsTransformer(KNeighborsMixin, Graphs):
    """The graph of nearest neighbours, as scikit-learn's ``metric="precomputed"`` takes it.

    Parameters
    ----------
    mode : {"distance", "connectivity"}, default="distance"
        Entries are distances, or 1.
    n_neighbors : int, default=5
        With "distance" there is one more of each query, for those that are points of `fit` and so
        their own nearest neighbours, as in scikit-learn.
    metric : estimator, array-like, tuple or "euclidean", default="euclidean"
        A learner, fitted or not, a matrix L, a pair (U, V) or "euclidean": see
        :class:`NearestNeighbors`.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs.

    Attributes
    ----------
    metric_, n_samples_fit_, n_features_in_, feature_names_in_
        As of :class:`NearestNeighbors`.

    Examples
    --------
    >>> from metricfast import KNeighborsTransformer, LFDA
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> KNeighborsTransformer(n_neighbors=4, metric=LFDA()).fit(X, y).transform(X[:10]).nnz
    50
    """

    def __init__(
        self,
        *,
        mode: str = "distance",
        n_neighbors: int = 5,
        metric: Any = "euclidean",
        n_jobs: int | None = None,
    ) -> None:
        self.mode = mode
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.n_jobs = n_jobs

    def transform(self, X: Any) -> csr_matrix:
        """Return the nearest points of each query as a sparse matrix.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_queries, n_samples_fit)
        """
        more = self.mode == "distance"
        return self.kneighbors_graph(X, self.n_neighbors + more, self.mode)


class RadiusNeighborsTransformer(RadiusNeighborsMixin, Graphs):
    """The graph of neighbours within a radius, as ``metric="precomputed"`` takes it.

    Parameters
    ----------
    mode : {"distance", "connectivity"}, default="distance"
        Entries are distances, or 1.
    radius : float, default=1.0
        Points exactly so far away are neighbours too.
    metric : estimator, array-like, tuple or "euclidean", default="euclidean"
        A learner, fitted or not, a matrix L, a pair (U, V) or "euclidean": see
        :class:`NearestNeighbors`.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs.

    Attributes
    ----------
    metric_, n_samples_fit_, n_features_in_, feature_names_in_
        As of :class:`NearestNeighbors`.

    Examples
    --------
    >>> from metricfast import RadiusNeighborsTransformer
    >>> RadiusNeighborsTransformer(radius=2.0).fit_transform([[0.0], [1.0], [4.0]]).toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 0., 0.]])
    """

    def __init__(
        self,
        *,
        mode: str = "distance",
        radius: float = 1.0,
        metric: Any = "euclidean",
        n_jobs: int | None = None,
    ) -> None:
        self.mode = mode
        self.radius = radius
        self.metric = metric
        self.n_jobs = n_jobs

    def transform(self, X: Any) -> csr_matrix:
        """Return all points within the radius of each query as a sparse matrix.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_queries, n_samples_fit)
        """
        return self.radius_neighbors_graph(X, mode=self.mode, sort_results=True)
