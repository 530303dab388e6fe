"""Regression by the mean of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import neighbors as theirs
from sklearn.metrics import r2_score
from sklearn.utils import Tags

from metricfast._core.targets import check_sample_weight, numeric_labels
from metricfast._core.types import Floats, Self
from metricfast._core.warn import warn_user
from metricfast.predictors.base import KNeighborsMixin, NeighborsBase, RadiusNeighborsMixin
from metricfast.predictors.metric import is_learner
from metricfast.predictors.neighborhoods import Weights
from metricfast.predictors.targets import check_given, joined_weights


class Means(NeighborsBase):
    """Base class of regressors. The subclass provides the neighbours by its method `_found`."""

    weights: Weights
    _found: Any
    _y: Floats
    _weight: Floats | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store points and their values. Fit the metric if it is a learner that is not fitted.

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
        return self._begin(X, y)

    def _begin(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        X, y = check_given(self, X, y)
        values = numeric_labels(y).copy()
        weight = check_sample_weight(sample_weight, len(values))
        self._fit_points(X, y, weight)
        self._check_weighted(sample_weight)
        own = self._space.own_database
        self._y = values if own is None else numeric_labels(own[1]).copy()
        self._weight = weight
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Add points to the points of `fit`; the metric stays. A first call is `fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)

        Returns
        -------
        self
        """
        return self._add(X, y)

    def _add(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        if not hasattr(self, "metric_"):
            return self._begin(X, y, sample_weight)
        X, y = check_given(self, X, y)
        values = numeric_labels(y).copy()
        if values.shape[1:] != self._y.shape[1:]:
            raise ValueError(
                f"y must have rows of the shape {self._y.shape[1:]}, as before; found shape "
                f"{values.shape}."
            )
        added = check_sample_weight(sample_weight, len(values))
        weight = joined_weights(self._weight, len(self._y), added, len(values))
        both = np.concatenate([self._y, values])
        self._append_points(X, weight)
        self._weight, self._y = weight, both
        return self

    def predict(self, X: Any) -> Floats:
        """Return the weighted mean of the neighbours.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), or None
            None stands for the points of `fit` of weight above 0, in order, each left out of its
            own neighbours.

        Returns
        -------
        ndarray of shape (n_queries,) or (n_queries, n_outputs)
            NaN, and a UserWarning, where there are no neighbours within a radius.
        """
        found = self._found(X)
        alone = int((found.sizes == 0).sum())
        if alone:
            warn_user(
                "One or more samples have no neighbors within specified radius; predicting NaN. "
                f"These are {alone} queries: choose a larger radius."
            )
        columns = self._y.reshape(len(self._y), -1)
        means: Floats = found.means(found.weigh(self.weights, self._weight), columns)
        return means.reshape(len(means), *self._y.shape[1:])

    @property
    def loo_score_(self) -> float:
        """R² on the points of `fit`, each left out of its own neighbours.

        One search tells, at the first access. A learned metric has seen the points, so that this
        judges `n_neighbors` and `weights`, not the metric. NaN where a point has no neighbours.
        """

        def score() -> float:
            predicted = self.predict(None)
            missing = bool(np.isnan(predicted).any())
            return (
                float("nan") if missing else float(r2_score(self._of_searched(self._y), predicted))
            )

        return self._scored_once(score)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = not is_learner(self.metric)
        return tags


class KNeighborsRegressor(KNeighborsMixin, Means, theirs.KNeighborsRegressor):  # type: ignore[misc]
    """Regression by the mean of k nearest neighbours.

    Takes the place of scikit-learn's class of this name, from which it derives, and predicts the
    same where no distances are equal. The metric may be learned.

    Parameters
    ----------
    n_neighbors : int, default=5
    weights : {"uniform", "distance"}, callable or None, default="uniform"
        Equal weights, or inverse to the distance (points at distance 0 then count alone), or what a
        function makes of the distances, an array of shape (n_queries, n_neighbors). If some
        neighbours have infinite weight, only these count.
    algorithm, leaf_size, p, metric_params
        See :class:`NearestNeighbors`.
    metric : estimator, array-like, tuple, str or callable, default="minkowski"
        A learner, fitted or not, a matrix L, a pair (U, V), or a metric of scikit-learn: see
        :class:`NearestNeighbors`.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs.

    Attributes
    ----------
    loo_score_ : float
        R² on the points of `fit`, each left out of its own neighbours.
    metric_, n_samples_fit_, n_features_in_, feature_names_in_
        As in :class:`NearestNeighbors`.

    Examples
    --------
    >>> from metricfast import KNeighborsRegressor, MLKR
    >>> from sklearn.datasets import load_iris
    >>> X, _ = load_iris(return_X_y=True)
    >>> model = KNeighborsRegressor(metric=MLKR(max_iter=20)).fit(X[::2, :3], X[::2, 3])
    >>> bool(model.score(X[1::2, :3], X[1::2, 3]) > 0.9)
    True
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KNeighborsRegressor:
        """Store points and their values. Fit the metric if it is a learner that is not fitted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of points, 1 by default. In the mean a neighbour has the weight that
            `weights` gives its distance, times its sample weight. A point of weight 2 is one
            neighbour. A point of weight 0 is no neighbour, nor a point for the fit of `metric`;
            indices of neighbours are still rows of X. Other weights do not change the search, nor
            the fit of `metric`, and `loo_score_` averages all points of weight above 0 alike.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If an argument or parameter has a value that cannot be used.
        """
        return self._begin(X, y, sample_weight)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> KNeighborsRegressor:
        """Add points to the points of `fit`; the metric stays. A first call is `fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            Weights of these points, as in :meth:`fit`.

        Returns
        -------
        self
        """
        return self._add(X, y, sample_weight)


class RadiusNeighborsRegressor(RadiusNeighborsMixin, Means, theirs.RadiusNeighborsRegressor):  # type: ignore[misc]
    """Regression by the mean of all neighbours within a radius.

    Parameters
    ----------
    radius : float, default=1.0
        Points exactly so far away count too.
    weights : {"uniform", "distance"}, callable or None, default="uniform"
        As in :class:`KNeighborsRegressor`. A function is called for each query that has neighbours,
        with their distances.
    algorithm, leaf_size, p, metric_params
        See :class:`NearestNeighbors`.
    metric : estimator, array-like, tuple, str or callable, default="minkowski"
        A learner, fitted or not, a matrix L, a pair (U, V), or a metric of scikit-learn: see
        :class:`NearestNeighbors`.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs.

    Attributes
    ----------
    loo_score_ : float
        R² on the points of `fit`, each left out of its own neighbours.
    metric_, n_samples_fit_, n_features_in_, feature_names_in_
        As in :class:`NearestNeighbors`.

    Examples
    --------
    >>> from metricfast.neighbors import RadiusNeighborsRegressor
    >>> RadiusNeighborsRegressor(2.0).fit([[0.0], [1.0], [4.0]], [1.0, 2.0, 6.0]).predict([[0.5]])
    array([1.5])
    """
