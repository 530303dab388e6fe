"""Graphs of neighbours, for estimators with precomputed distances."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from sklearn import neighbors as theirs

from metricfast._core.parameters import PositiveInt
from metricfast.predictors.base import KNeighborsMixin, NeighborsBase, RadiusNeighborsMixin

__all__ = ["KNeighborsTransformer", "RadiusNeighborsTransformer"]

_Self = TypeVar("_Self", bound="Graphs")


class Graphs(NeighborsBase):
    """Base class of transformers of points into the graph of their neighbours."""

    mode: Literal["connectivity", "distance"]
    transform: Any

    def fit(self: _Self, X: Any, y: Any = None) -> _Self:
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
