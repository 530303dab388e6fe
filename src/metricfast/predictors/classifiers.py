"""Classification by the votes of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import neighbors as theirs
from sklearn.utils import Tags

from metricfast._core.targets import accuracy, check_sample_weight, join_labels
from metricfast._core.types import Array, Floats, Integers, Self
from metricfast._core.warn import warn_user
from metricfast.predictors.base import KNeighborsMixin, NeighborsBase, RadiusNeighborsMixin
from metricfast.predictors.metric import is_learner
from metricfast.predictors.neighborhoods import Neighborhoods, Weights
from metricfast.predictors.targets import Classes, check_given, joined_weights, with_class_weight


class Votes(NeighborsBase):
    """Base class of classifiers. The subclass provides the neighbours by its method `_found`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), or list of them
        A list if y has several outputs.
    outputs_2d_ : bool
        Whether y has several outputs.
    """

    weights: Weights
    class_weight: Any = None
    _found: Any
    _labels: Classes
    _y: Integers  # one-dimensional if y has one output
    _sample_weight: Floats | None = None
    _weight: Floats | None = None  # sample weights times class weights

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store labelled points. Fit the metric to them if it is a learner that is not fitted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Classes.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If an argument or parameter has a value that cannot be used.
        """
        return self._begin(X, y)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Add labelled points to the points of `fit`; the metric stays. A first call is `fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Classes, which may be new.
        classes : array-like, optional
            Classes that are to be known before they occur; of several outputs a list of arrays.

        Returns
        -------
        self
        """
        return self._add(X, y, classes)

    def _add(self, X: Any, y: Any, classes: Any, sample_weight: Any = None) -> Self:
        if not hasattr(self, "metric_"):
            return self._begin(X, y, classes, sample_weight)
        X, y = check_given(self, X, y)
        added = Classes.of(y, classes)
        n, n_added = len(self._labels.codes), len(added.codes)
        labels = self._labels.joined(added)
        own = check_sample_weight(sample_weight, n_added)
        both = joined_weights(self._sample_weight, n, own, n_added)
        weight = self._with_classes(both, labels)
        self._append_points(X, weight)
        self._sample_weight, self._weight = both, weight
        self._keep(labels)
        return self

    def _begin(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        X, y = check_given(self, X, y)
        labels = Classes.of(y, classes)
        own = check_sample_weight(sample_weight, len(labels.codes))
        weight = self._with_classes(own, labels)
        self._fit_points(X, y, weight)
        self._check_weighted(sample_weight)
        if self._space.own_database is not None:
            labels = Classes.of(self._space.own_database[1])
            weight = self._with_classes(None, labels)
        self._sample_weight, self._weight = own, weight
        self._keep(labels)
        return self

    def _with_classes(self, weight: Floats | None, labels: Classes) -> Floats | None:
        """Return the sample weights times the weights of the classes."""
        return with_class_weight(weight, self.class_weight, labels.labels(labels.codes))

    def _keep(self, labels: Classes) -> None:
        if hasattr(self, "outlier_label"):
            self.outlier_label_ = _labels_of_outliers(self.outlier_label, labels)
        self._labels = labels
        self._y = labels.codes if labels.several else labels.codes[:, 0]
        self.outputs_2d_ = labels.several
        self.classes_ = labels.known if labels.several else labels.known[0]

    def _winners(self, found: Neighborhoods) -> Array:
        weight, labels = found.weigh(self.weights, self._weight), self._labels
        codes = [
            found.winners(weight, codes, len(known))
            for codes, known in zip(labels.codes.T, labels.known, strict=True)
        ]
        return labels.labels(np.stack(codes, axis=1))

    def _shares(self, found: Neighborhoods) -> list[Floats]:
        """Return the share of each class in the votes, for each output."""
        weight, labels = found.weigh(self.weights, self._weight), self._labels
        return [
            found.votes(weight, codes, len(known))
            for codes, known in zip(labels.codes.T, labels.known, strict=True)
        ]

    def predict(self, X: Any) -> Array:
        """Return the class of largest total weight among the neighbours; the first in a tie.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), or None
            None stands for the points of `fit` of weight above 0, in order, each left out of its
            own neighbours.

        Returns
        -------
        ndarray of shape (n_queries,) or (n_queries, n_outputs)
        """
        return self._winners(self._found(X))

    def predict_proba(self, X: Any) -> Floats | list[Floats]:
        """Return the share of each class in the weights of the neighbours.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), or None
            As for :meth:`predict`.

        Returns
        -------
        ndarray of shape (n_queries, n_classes), or list of them where y has several outputs
        """
        shares = self._shares(self._found(X))
        return shares if self.outputs_2d_ else shares[0]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of queries whose class is predicted, for labels of every type.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), or None
            As for :meth:`predict`.
        y : array-like of shape (n_queries,)
            Classes. Several outputs count as right together, and must be labels that are there (1)
            or not (0).
        sample_weight : array-like of shape (n_queries,), optional

        Returns
        -------
        float
        """
        if self.outputs_2d_:
            return float(super().score(X, y, sample_weight))  # type: ignore[misc]
        return accuracy(y, self.predict(X), sample_weight)

    @property
    def loo_score_(self) -> float:
        """The share of points of `fit` that are classified rightly, each left out of its own votes.

        With several outputs, all must be right. The first access makes one search. A learned
        metric has seen the points, so the score judges `n_neighbors` and `weights`, not the metric.
        """

        def score() -> float:
            codes = self._of_searched(self._labels.codes)
            right = self.predict(None) == self._labels.labels(codes)
            return float(np.mean(right.reshape(len(right), -1).all(axis=1)))

        return self._scored_once(score)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = not is_learner(self.metric)
        tags.classifier_tags.multi_label = not is_learner(self.metric)
        return tags


class KNeighborsClassifier(KNeighborsMixin, Votes, theirs.KNeighborsClassifier):  # type: ignore[misc]
    """Classification by the vote of k nearest neighbours.

    Takes the place of scikit-learn's class of this name, from which it derives, and predicts the
    same where no distances are equal. The metric may be learned.

    Parameters
    ----------
    n_neighbors : int, default=5
    weights : {"uniform", "distance"}, callable or None, default="uniform"
        Weights of the neighbours: equal, or inverse to the distance (points at distance 0 then
        count alone), or the result of a function of the distances, an array of shape
        (n_queries, n_neighbors). If some neighbours have infinite weight, only these count.
    algorithm, leaf_size, p, metric_params
        See :class:`NearestNeighbors`.
    metric : estimator, array-like, tuple, str or callable, default="minkowski"
        A learner, fitted or not, a matrix L, a pair (U, V), or a metric of scikit-learn: see
        :class:`NearestNeighbors`.
    class_weight : dict, list of dict, "balanced" or None, default=None
        Weights of classes. The vote of a neighbour is the weight that `weights` gives its distance,
        times its sample weight, times the weight of its class. "balanced" weighs a class by
        n_samples / (n_classes · n_samples of the class), without sample weights; `partial_fit`
        counts all points again. With several outputs give a list of dicts; as in scikit-learn, a
        point has the product of the weights of its classes.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), or list of them
    loo_score_ : float
        Accuracy on the points of `fit`, each left out of its own neighbours.
    metric_, n_samples_fit_, n_features_in_, feature_names_in_
        As in :class:`NearestNeighbors`.

    Examples
    --------
    >>> from metricfast import KNeighborsClassifier, LFDA
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> model = KNeighborsClassifier(3, metric=make_pipeline(StandardScaler(), LFDA()))
    >>> search = GridSearchCV(model, {"metric__lfda__n_components": [1, 2, 3]}).fit(X, y)
    >>> bool(search.best_score_ > 0.95)
    True
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        weights: Weights = "uniform",
        algorithm: str = "auto",
        leaf_size: int = 30,
        p: float | None = 2,
        metric: Any = "minkowski",
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        class_weight: Any = None,
    ) -> None:
        super().__init__(
            n_neighbors, weights=weights, algorithm=algorithm, leaf_size=leaf_size, p=p,
            metric=metric, metric_params=metric_params, n_jobs=n_jobs,
        )  # fmt: skip
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KNeighborsClassifier:
        """Store labelled points. Fit the metric to them if it is a learner that is not fitted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Classes.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of points, 1 by default. The vote of a neighbour is the weight that
            `weights` gives its distance, times its sample weight. A point of weight 2 is one
            neighbour. A point of weight 0 is no neighbour, nor a point for the fit of `metric`;
            its class stays in `classes_`, and indices of neighbours are still rows of X. Other
            weights do not change the search, nor the fit of `metric`, and `loo_score_` averages
            all points of weight above 0 alike.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If an argument or parameter has a value that cannot be used.
        """
        return self._begin(X, y, None, sample_weight)

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> KNeighborsClassifier:
        """Add labelled points to the points of `fit`; the metric stays. A first call is `fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Classes, which may be new.
        classes : array-like, optional
            Classes that are to be known before they occur; of several outputs a list of arrays.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of these points, as in :meth:`fit`.

        Returns
        -------
        self
        """
        return self._add(X, y, classes, sample_weight)


class RadiusNeighborsClassifier(RadiusNeighborsMixin, Votes, theirs.RadiusNeighborsClassifier):  # type: ignore[misc]
    """Classification by the vote of all neighbours within a radius.

    Parameters
    ----------
    radius : float, default=1.0
        Points exactly so far away vote too.
    weights : {"uniform", "distance"}, callable or None, default="uniform"
        As in :class:`KNeighborsClassifier`. A function is called for each query that has
        neighbours, with their distances.
    algorithm, leaf_size, p, metric_params
        See :class:`NearestNeighbors`.
    metric : estimator, array-like, tuple, str or callable, default="minkowski"
        A learner, fitted or not, a matrix L, a pair (U, V), or a metric of scikit-learn: see
        :class:`NearestNeighbors`.
    outlier_label : label, list of them, "most_frequent" or None, default=None
        The class of queries without neighbours, of several outputs one each. None: an error.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), or list of them
    outlier_label_ : list, or None
        The class of queries without neighbours, of each output.
    loo_score_ : float
        Accuracy on the points of `fit`, each left out of its own neighbours.
    metric_, n_samples_fit_, n_features_in_, feature_names_in_
        As in :class:`NearestNeighbors`.

    Examples
    --------
    >>> from metricfast.neighbors import RadiusNeighborsClassifier
    >>> model = RadiusNeighborsClassifier(1.0, outlier_label="b").fit([[0.0], [5.0]], ["a", "b"])
    >>> model.predict([[0.5], [4.0], [9.0]]).tolist()
    ['a', 'b', 'b']
    """

    def _outliers(self, found: Neighborhoods) -> tuple[Array, list[Any]]:
        """Return a mask of the queries without neighbours, and their label for each output."""
        outliers = found.sizes == 0
        if self.outlier_label_ is None and outliers.any():
            raise ValueError(
                f"No neighbors found for queries {np.flatnonzero(outliers)[:5].tolist()} within "
                "the radius: choose a larger radius, or an outlier_label for them."
            )
        for known, label in zip(self._labels.known, self.outlier_label_ or [], strict=False):
            if outliers.any() and not (known == label).any():
                warn_user(
                    f"Outlier label {label!r} is not in training classes: all class probabilities "
                    "of queries without neighbours are 0."
                )
        return outliers, self.outlier_label_ or []

    def predict(self, X: Any) -> Array:
        """Return the class of largest total weight among the neighbours; the first in a tie.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), or None
            None stands for the points of `fit` of weight above 0, in order, each left out of its
            own neighbours.

        Returns
        -------
        ndarray of shape (n_queries,) or (n_queries, n_outputs)
            `outlier_label` for a query without neighbours. A UserWarning follows if `outlier_label`
            is no class of `fit`.

        Raises
        ------
        ValueError
            If a query has no neighbours, and there is no `outlier_label`.
        """
        found = self._found(X)
        outliers, of_outliers = self._outliers(found)
        labels = self._winners(found)
        if outliers.any():
            label = np.array(of_outliers if self.outputs_2d_ else of_outliers[0])
            both = join_labels(labels, label[None])
            labels = both[:-1]
            labels[outliers] = both[-1]
        return labels

    def predict_proba(self, X: Any) -> Floats | list[Floats]:
        """Return the share of each class in the weights of the neighbours.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), or None
            As for :meth:`predict`.

        Returns
        -------
        ndarray of shape (n_queries, n_classes), or list of them where y has several outputs
            A query without neighbours has share 1 of `outlier_label`. If that is no class of `fit`,
            all shares are 0, and a UserWarning follows.
        """
        found = self._found(X)
        outliers, of_outliers = self._outliers(found)
        shares = self._shares(found)
        if outliers.any():
            for known, share, label in zip(self._labels.known, shares, of_outliers, strict=True):
                share[np.ix_(outliers, known == label)] = 1.0
        return shares if self.outputs_2d_ else shares[0]


def _labels_of_outliers(given: Any, labels: Classes) -> list[Any] | None:
    """Return the label of queries without neighbours for each output; raise unless it fits."""
    if given is None:
        return None
    if isinstance(given, str) and given == "most_frequent":
        columns = zip(labels.known, labels.codes.T, strict=True)
        return [known[np.bincount(codes).argmax()] for known, codes in columns]
    listed = np.ndim(given) > 0
    found = list(given) if listed else [given] * len(labels.known)
    if len(found) != len(labels.known):
        raise ValueError(
            f"outlier_label must be one label, or one for each of {len(labels.known)} outputs, "
            f"got {given!r}."
        )
    for known, label in zip(labels.known, found, strict=True):
        same = np.ndim(label) == 0
        if same:
            kinds = {known.dtype.kind, join_labels(known, np.array([label])).dtype.kind}
            same = len(kinds) == 1 or kinds == {"i", "u"}
        if not same:
            raise TypeError(
                f"outlier_label must be of the type of the classes in y, {known.dtype}, got "
                f"{label!r}."
            )
    return found
