"""Regression by the mean of neighbours."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import Tags

from metricfast._core.targets import check_sample_weight
from metricfast._core.types import Floats
from metricfast._core.warn import warn_user
from metricfast.predictors.base import KNeighborsMixin, NeighborsBase, RadiusNeighborsMixin
from metricfast.predictors.metric import is_learner
from metricfast.predictors.neighborhoods import Weights, check_weights
from metricfast.predictors.targets import as_numbers, check_given, joined_weights

__all__ = ["KNeighborsRegressor", "RadiusNeighborsRegressor"]

_Self = TypeVar("_Self", bound="Means")


class Means(RegressorMixin, NeighborsBase):  # type: ignore[misc]
    """A regressor by the neighbours that its `_found` returns."""

    weights: Weights
    _found: Any
    _values: Floats
    _weight: Floats | None = None

    def _check_parameters(self) -> None:
        check_weights(self.weights)
        super()._check_parameters()

    def fit(self: _Self, X: Any, y: Any) -> _Self:
        """Keep points and their values, and fit the metric where it is a learner to be fitted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If an argument or parameter has a value that cannot be used.
        """
        return self._fit(X, y)

    def _fit(self: _Self, X: Any, y: Any, sample_weight: Any = None) -> _Self:
        X, y = check_given(self, X, y)
        values = as_numbers(y)
        weight = check_sample_weight(sample_weight, len(values))
        self._fit_points(X, y)
        self._check_weighted(sample_weight)
        own = self._space.own_database
        self._values = values if own is None else as_numbers(own[1])
        self._weight = weight
        return self

    def partial_fit(self: _Self, X: Any, y: Any) -> _Self:
        """Add points; the metric stays that of the first call, which does what `fit` does.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)

        Returns
        -------
        self
        """
        return self._add(X, y)

    def _add(self: _Self, X: Any, y: Any, sample_weight: Any = None) -> _Self:
        if not hasattr(self, "metric_"):
            return self._fit(X, y, sample_weight)
        X, y = check_given(self, X, y)
        values = as_numbers(y)
        if values.shape[1:] != self._values.shape[1:]:
            raise ValueError(
                f"y must have rows of the shape {self._values.shape[1:]}, as before; found shape "
                f"{values.shape}."
            )
        added = check_sample_weight(sample_weight, len(values))
        self._append_points(X)
        self._weight = joined_weights(self._weight, len(self._values), added, len(values))
        self._values = np.concatenate([self._values, values])
        return self

    def predict(self, X: Any) -> Floats:
        """Return the weighted mean of the neighbours.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), or None
            None stands for the points of `fit`, each left out of its own neighbours.

        Returns
        -------
        ndarray of shape (n_queries,) or (n_queries, n_outputs)
            NaN, and a UserWarning, where there are no neighbours within a radius.
        """
        found = self._found(X)
        alone = int((found.sizes == 0).sum())
        if alone:
            warn_user(
                f"{alone} queries have no neighbours within the radius: NaN is predicted for them. "
                "Choose a larger radius."
            )
        columns = self._values.reshape(len(self._values), -1)
        means: Floats = found.means(found.weigh(self.weights, self._weight), columns)
        return means.reshape(len(means), *self._values.shape[1:])

    @property
    def loo_score_(self) -> float:
        """R² on the points of `fit`, each left out of its own neighbours.

        One search tells, at the first access. A learned metric has seen the points, so that this
        judges `n_neighbors` and `weights`, not the metric. NaN where a point has no neighbours.
        """

        def score() -> float:
            predicted = self.predict(None)
            missing = bool(np.isnan(predicted).any())
            return float("nan") if missing else float(r2_score(self._values, predicted))

        return self._scored_once(score)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = not is_learner(self.metric)
        return tags


class KNeighborsRegressor(KNeighborsMixin, Means):
    """Regression by the mean of so many nearest neighbours.

    Predicts what scikit-learn's estimator of this name does where no distances are equal, under a
    metric that is learned or given.

    Parameters
    ----------
    n_neighbors : int, default=5
    weights : {"uniform", "distance"}, callable or None, default="uniform"
        Equal weights, or inverse to the distance (points at distance 0 then count alone), or what a
        function makes of the distances, an array of shape (n_queries, n_neighbors). Neighbours of
        infinite weight count alone.
    metric : estimator, array-like, tuple or "euclidean", default="euclidean"
        A learner, fitted or not, a matrix L, a pair (U, V) or "euclidean": see
        :class:`NearestNeighbors`.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs.

    Attributes
    ----------
    loo_score_ : float
        R² on the points of `fit`, each left out of its own neighbours.
    metric_, n_samples_fit_, n_features_in_, feature_names_in_
        As of :class:`NearestNeighbors`.

    Examples
    --------
    >>> from metricfast import KNeighborsRegressor, MLKR
    >>> from sklearn.datasets import load_iris
    >>> X, _ = load_iris(return_X_y=True)
    >>> model = KNeighborsRegressor(metric=MLKR(max_iter=20)).fit(X[::2, :3], X[::2, 3])
    >>> bool(model.score(X[1::2, :3], X[1::2, 3]) > 0.9)
    True
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        weights: Weights = "uniform",
        metric: Any = "euclidean",
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.metric = metric
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KNeighborsRegressor:
        """Keep points and their values, and fit the metric where it is a learner to be fitted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of points, 1 by default. In the mean a neighbour has the weight that
            `weights` gives its distance, times its sample weight. The search ignores sample
            weights: a point of weight 2 is one neighbour, and a point of weight 0 is a neighbour
            that does not count. The fit of `metric` ignores them too, and `loo_score_` averages
            all points alike.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If an argument or parameter has a value that cannot be used.
        """
        return self._fit(X, y, sample_weight)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> KNeighborsRegressor:
        """Add points; the metric stays that of the first call, which does what `fit` does.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            Weights of these points, as of :meth:`fit`.

        Returns
        -------
        self
        """
        return self._add(X, y, sample_weight)


class RadiusNeighborsRegressor(RadiusNeighborsMixin, Means):
    """Regression by the mean of all neighbours within a radius.

    Parameters
    ----------
    radius : float, default=1.0
        Points exactly so far away count too.
    weights : {"uniform", "distance"}, callable or None, default="uniform"
        As of :class:`KNeighborsRegressor`. A function is called for each query that has neighbours,
        with their distances.
    metric : estimator, array-like, tuple or "euclidean", default="euclidean"
        A learner, fitted or not, a matrix L, a pair (U, V) or "euclidean": see
        :class:`NearestNeighbors`.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs.

    Attributes
    ----------
    loo_score_ : float
        R² on the points of `fit`, each left out of its own neighbours.
    metric_, n_samples_fit_, n_features_in_, feature_names_in_
        As of :class:`NearestNeighbors`.

    Examples
    --------
    >>> from metricfast import RadiusNeighborsRegressor
    >>> RadiusNeighborsRegressor(2.0).fit([[0.0], [1.0], [4.0]], [1.0, 2.0, 6.0]).predict([[0.5]])
    array([1.5])
    """

    def __init__(
        self,
        radius: float = 1.0,
        *,
        weights: Weights = "uniform",
        metric: Any = "euclidean",
        n_jobs: int | None = None,
    ) -> None:
        self.radius = radius
        self.weights = weights
        self.metric = metric
        self.n_jobs = n_jobs
