"""Classification by votes of a stored or given database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from metricfast._core.arguments import check_length, check_together
from metricfast._core.targets import accuracy, as_column, as_label_array, known_codes
from metricfast._core.types import Array, Integers
from metricfast.distances.neighbors import kneighbors
from metricfast.learners.base.inputs import points_of
from metricfast.learners.gerrymandering.explanation import Explanation, explanation
from metricfast.learners.gerrymandering.voting import majority_vote, vote_loss


class DatabaseClassifierMixin(ClassifierMixin):  # type: ignore[misc]
    """Mixin of learners that store an embedded database, and classify by its nearest points.

    A learner has `_database_points`, which checks points of a database, and `_embed`, which embeds
    the points of a side.
    `database_labels_` are indices into `classes_`; `query_embedding_` is the database as queries,
    where it is the points of `fit` themselves and queries have a map of their own.
    """

    n_neighbors: int
    n_jobs: int | None
    _database_points: Callable[..., Any]
    _embed: Callable[..., Array]
    classes_: Array
    database_embedding_: Array
    database_labels_: Integers
    query_embedding_: Array
    _one_map = False  # whether both sides have the same map

    def kneighbors(
        self, X: Any = None, X_database: Any = None, n_neighbors: int | None = None
    ) -> tuple[Array, Integers]:
        """Return the nearest database points of each query, by the learned distance.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), optional
            By default the points of `fit`, each excluded from its own neighbours.
        X_database : {array-like, sparse matrix} of shape (n_database, n_features), optional
            By default the database of `fit`, where a point of `fit` finds itself.
        n_neighbors : int, optional
            By default the parameter of the learner.

        Returns
        -------
        distances, indices : ndarray of shape (n_queries, n_neighbors)
            Nearest first.

        Raises
        ------
        ValueError
            If X is left out with `X_database`, or where `fit` had a database of its own; or if
            there are fewer neighbours than asked for.
        """
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        queries, points, own = self._sides(X, X_database)
        return kneighbors(queries, points, k, exclude=own, n_jobs=self.n_jobs)

    def explain(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        X_database: Any = None,
        y_database: ArrayLike | None = None,
    ) -> Explanation:
        """Show the sets of neighbours behind the vote and the loss of each query.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), optional
            By default the points of `fit` and their classes, each excluded from its own sets.
        y : array-like of shape (n_queries,), optional
            The right classes. By default the predicted ones: the loss then measures how little it
            takes to overturn the answer.
        X_database, y_database
            As for :meth:`predict`.

        Returns
        -------
        Explanation
            Votes, losses, the nearest neighbours, the nearest set that votes right, the worst set
            that is near, and the points that training pulls and pushes; `table` is a frame of them.

        Raises
        ------
        ValueError
            If X is left out with `X_database`, or where `fit` had a database of its own; or if an
            argument is not as above.

        Examples
        --------
        >>> from metricfast import NeighborhoodGerrymandering
        >>> from metricfast.solvers import Adam
        >>> X, y = [[0.0], [1.0], [2.0], [4.0], [5.0], [6.0]], [0, 0, 0, 1, 1, 1]
        >>> learner = NeighborhoodGerrymandering(
        ...     1, init=[[1.0]], judge=None, random_state=0, solver=Adam(max_epochs=1)
        ... )
        >>> found = learner.fit(X, y).explain([[1.2]], [0])
        >>> found.vote, found.nearest
        (array([0]), array([[1]]))
        """
        queries, points, own = self._sides(X, X_database)
        labels = self._database_codes(len(points), X_database, y_database)
        codes = labels if X is None else None
        if y is not None:
            codes = codes_of(y, self.classes_, "y")
            check_length(codes, len(queries), "y")
        loss = vote_loss(self, len(self.classes_))
        return explanation(queries, points, codes, labels, self.classes_, loss, own, self.n_jobs)

    def predict(self, X: Any, X_database: Any = None, y_database: ArrayLike | None = None) -> Array:
        """Let the nearest neighbours vote; ties go to the class of the nearest neighbour in it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
        X_database : {array-like, sparse matrix} of shape (n_database, n_features), optional
        y_database : array-like of shape (n_database,), optional
            Its classes, all of them classes of `fit`. By default the database of `fit`.

        Returns
        -------
        ndarray of shape (n_queries,)
        """
        winners = self._vote(X, X_database, y_database)[0]
        return np.asarray(self.classes_[winners])

    def predict_proba(
        self, X: Any, X_database: Any = None, y_database: ArrayLike | None = None
    ) -> Array:
        """Return the share of the votes of each class.

        Among tied classes, the class that `predict` returns has a slightly larger share.

        Parameters
        ----------
        X, X_database, y_database
            As for :meth:`predict`.

        Returns
        -------
        ndarray of shape (n_queries, n_classes)
        """
        return self._vote(X, X_database, y_database)[1]

    def score(
        self,
        X: Any,
        y: ArrayLike,
        X_database: Any = None,
        y_database: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the share of queries whose class is predicted.

        Parameters
        ----------
        X, X_database, y_database
            As for :meth:`predict`.
        y : array-like of shape (n_queries,)
        sample_weight : array-like of shape (n_queries,), optional
            Non-negative weights of the queries.

        Returns
        -------
        float
        """
        return accuracy(y, self.predict(X, X_database, y_database), sample_weight)

    def _sides(self, X: Any, X_database: Any) -> tuple[Array, Array, Integers | None]:
        """Return embedded queries and database, and the database row to exclude for each query."""
        check_is_fitted(self, "database_embedding_")
        if X is None:
            name = "database_embedding_" if self._one_map else "query_embedding_"
            queries = getattr(self, name, None)
            if X_database is not None or queries is None:
                raise ValueError(
                    "X may be left out only where the database is the points of `fit` themselves: "
                    "give X, the queries of X_database."
                )
            return queries, self.database_embedding_, np.arange(len(queries))
        return self._embed(points_of(self, X)), self._database(X_database), None

    def _database(self, X_database: Any) -> Array:
        """Return the embedded database, that of `fit` if none is given."""
        if X_database is None:
            return self.database_embedding_
        return self._embed(self._database_points(X_database), "database")

    def _database_codes(self, n: int, X_database: Any, y_database: ArrayLike | None) -> Integers:
        """Return the classes of the n database points, as indices into `classes_`."""
        check_together(X_database=X_database, y_database=y_database)
        if y_database is None:
            return self.database_labels_
        labels = codes_of(y_database, self.classes_, "y_database")
        check_length(labels, n, "y_database")
        return labels

    def _vote(
        self, X: Any, X_database: Any, y_database: ArrayLike | None
    ) -> tuple[Integers, Array]:
        check_is_fitted(self, "database_embedding_")
        queries, points = self._embed(points_of(self, X)), self._database(X_database)
        labels = self._database_codes(len(points), X_database, y_database)
        found = kneighbors(queries, points, self.n_neighbors, n_jobs=self.n_jobs)[1]
        return majority_vote(found, labels, len(self.classes_))


def codes_of(y: ArrayLike, classes: Array, name: str) -> Integers:
    """Return the indices of labels in the classes of the database."""
    labels = as_column(as_label_array(y, name), name)
    return known_codes(labels, classes, name, "of which the database of `fit` has no point")
