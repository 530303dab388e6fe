"""A fixed database, for use in scikit-learn's pipelines and model selection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from metricfast._core.arguments import takes_side
from metricfast._core.types import Array, Integers

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _learner_of(estimator: Any) -> Any:
    """Return the last step of nested pipelines."""
    while isinstance(estimator, Pipeline):
        estimator = estimator[-1]
    return estimator


def _if_learner_has(name: str) -> Callable[[_Method], _Method]:
    decorator: Callable[[_Method], _Method] = available_if(
        lambda self: hasattr(_learner_of(self.estimator), name)
    )
    return decorator


@dataclass(eq=False, repr=False)
class FixedDatabase(TransformerMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A learner with a database, for pipelines, grid searches and cross-validation.

    Cross-validation and searches split the arguments of `fit`, and pipelines transform X alone.
    Here the database is a parameter. So only the queries are split, and the steps of a pipeline
    transform both sides.

    Parameters
    ----------
    estimator : estimator
        An `AsymmetricSimilarity`, an `EmbeddingLearner` or one of its presets, or a
        `sklearn.pipeline.Pipeline` that ends in one. Its other steps are fitted to the queries, and
        transform queries and database. Give the pipeline here: steps before a `FixedDatabase`
        transform the queries alone.
    X_database : {array-like, sparse matrix, frame} of shape (n_database, n_features_database)
        It may have other features than the queries where the learner has two maps, and no other
        steps.
    y_database : array-like of shape (n_database,) or (n_database, n_labels)
        Labels. An `AsymmetricSimilarity` needs at least the classes of the queries.

    Attributes
    ----------
    preparation_ : Pipeline or None
        The other steps, fitted.
    learner_ : estimator
        The learner, fitted. An `AsymmetricSimilarity` holds the embedded database.
    classes_ : ndarray of shape (n_classes,)

    Examples
    --------
    Parameters of the steps have the prefix ``estimator__`` and the step's name:

    >>> from metricfast import AsymmetricSimilarity, FixedDatabase
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> steps = make_pipeline(StandardScaler(), AsymmetricSimilarity(random_state=0))
    >>> search = GridSearchCV(
    ...     FixedDatabase(steps, X[::2], y[::2]), {"estimator__asymmetricsimilarity__C": [0.1, 1]}
    ... )
    >>> bool(search.fit(X[1::2], y[1::2]).best_score_ > 0.9)
    True
    """

    estimator: Any
    X_database: Any
    y_database: ArrayLike

    def fit(self, X: Any, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> FixedDatabase:
        """Fit the steps to queries, and the learner to queries and database.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            Queries.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the queries, for the learner.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            If `estimator` does not end in a learner whose `fit` takes a database.
        ValueError
            If the learner refuses the data.
        """
        learner, before = clone(self.estimator), []
        while isinstance(learner, Pipeline):
            before += [learner[:-1]] if len(learner) > 1 else []
            learner = learner[-1]
        preparation = before[0] if len(before) == 1 else make_pipeline(*before) if before else None
        if not all(has_fit_parameter(learner, name) for name in ("X_database", "y_database")):
            raise TypeError(
                "estimator must be a learner whose fit takes X_database and y_database, as "
                "AsymmetricSimilarity and EmbeddingLearner, or a pipeline that ends in one; got "
                f"{self.estimator!r}."
            )
        database = self.X_database
        if preparation is not None:
            X, database = preparation.fit_transform(X, y), preparation.transform(database)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        learner.fit(X, y, database, self.y_database, **weights)
        self.preparation_, self.learner_ = preparation, learner
        self._given: dict[str, Any] = {}  # the database, for learners that do not store it
        if not hasattr(learner, "database_embedding_"):
            self._given = {"X_database": database}
        return self

    @property
    def classes_(self) -> Array:
        """The classes, sorted."""
        return np.asarray(self.learner_.classes_)

    @property
    def n_features_in_(self) -> int:
        """The number of features before the first step."""
        return int((self.preparation_ or self.learner_).n_features_in_)

    @_if_learner_has("predict")
    def predict(self, X: Any) -> Array:
        """Let the nearest database points vote.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_queries, n_features)

        Returns
        -------
        ndarray of shape (n_queries,)
        """
        return np.asarray(self._prepared(X, "predict"))

    @_if_learner_has("predict_proba")
    def predict_proba(self, X: Any) -> Array:
        """Return the share of each class in the vote.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_queries, n_features)

        Returns
        -------
        ndarray of shape (n_queries, n_classes)
        """
        return np.asarray(self._prepared(X, "predict_proba"))

    def score(self, X: Any, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
        """Return the learner's score: of predictions, or of retrieval from the database.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_queries, n_features)
        y : array-like of shape (n_queries,)
        sample_weight : array-like of shape (n_queries,), optional

        Returns
        -------
        float
        """
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        given = {**self._given, "y_database": self.y_database} if self._given else {}
        return float(self._prepared(X, "score", y, **weights, **given))

    def kneighbors(self, X: Any, n_neighbors: int | None = None) -> tuple[Array, Integers]:
        """Return the nearest points of `X_database` of each query, by the learned distance.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_queries, n_features)
        n_neighbors : int, optional
            By default the parameter of the learner.

        Returns
        -------
        distances, indices : ndarray of shape (n_queries, n_neighbors)
            Nearest first.
        """
        wanted = {} if n_neighbors is None else {"n_neighbors": n_neighbors}
        distances, indices = self._prepared(X, "kneighbors", **wanted, **self._given)
        return distances, indices

    def transform(self, X: Any, side: str | None = None) -> Any:
        """Embed points, after the other steps.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
        side : {"query", "database"}, optional
            Required if the learner has two maps.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        return self._prepared(X, "transform", side=side)

    @_if_learner_has("get_feature_names_out")
    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the embedded features, which `set_output` uses.

        Parameters
        ----------
        input_features : array-like of str, optional
            Ignored.

        Returns
        -------
        ndarray of shape (n_components,)
        """
        del input_features
        check_is_fitted(self, "learner_")
        return np.asarray(self.learner_.get_feature_names_out())

    def _searched(self) -> tuple[Array, Any]:
        """Return the embedded database, and its labels."""
        learner = self.learner_
        if not self._given:
            return learner.database_embedding_, learner.classes_[learner.database_labels_]
        how = {"side": "database"} if takes_side(learner) else {}
        return learner.transform(self._given["X_database"], **how), self.y_database

    def _prepared(self, X: Any, method: str, *args: Any, **params: Any) -> Any:
        """Call a method of the learner with points after the other steps."""
        check_is_fitted(self, "learner_")
        if self.preparation_ is not None:
            X = self.preparation_.transform(X)
        return getattr(self.learner_, method)(X, *args, **params)

    def __sklearn_tags__(self) -> Tags:
        return get_tags(self.estimator)
