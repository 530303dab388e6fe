"""Asymmetric similarity: different maps of queries and of database points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from metricfast._checks import check_points
from metricfast._targets import check_classification_target
from metricfast.embeddings import Asymmetric, Embedding, Linear
from metricfast.learners._asymmetric_fit import DatabaseTraining
from metricfast.learners._embedded_metric import EmbeddedMetricMixin
from metricfast.learners._votes import check_vote_parameters, vote, vote_loss
from metricfast.neighbors import kneighbors

__all__ = ["AsymmetricSimilarity"]

Array = NDArray[Any]
_FITTED = (
    *("embedding_", "parameters_", "mean_", "n_components_", "classes_", "database_embedding_"),
    *("components_query_", "components_database_", "database_labels_", "history_"),
    *("loss_curve_", "objective_", "n_iter_", "threshold_"),
)


class AsymmetricSimilarity(ClassifierMixin, EmbeddedMetricMixin):  # type: ignore[misc]
    r"""Asymmetric similarity, trained on the votes of nearest neighbours.

    The distance of a query x and a database point x' is :math:`\|Ux - Vx'\|` with two maps, learned
    by neighbourhood gerrymandering (see `NeighborhoodGerrymandering`): of use where queries and
    database differ, such as in their noise, or in where they come from. It is not symmetric, and
    that of a point from itself need not be zero.

    Parameters
    ----------
    n_neighbors : int, default=3
        Number of neighbours that vote.
    n_components : int, optional
        Number of rows of U and V, by default n_features; at most twice that, where every quadratic
        form of stacked points has its maps. Above n_features `init` must be "identity", "random" or
        an array.
    tied : bool, default=False
        Learn one map, U = V, for comparison.
    query, database : Embedding, optional
        Embeddings of `metricfast.embeddings` in place of linear maps, both or one of them. The
        regularizer is then their own ``weight_decay``.
    loss_matrix, ties, inference, C
        As of `NeighborhoodGerrymandering`.
    regularizer : {"frobenius2", "frobenius", "notes", "factors2", "factors"} or None, \
            default="frobenius2"
        With :math:`W = [U, -V]^T [U, -V]`: the squared norm of W, or its norm; "notes" counts the
        cross term twice, :math:`\frac12 \|U^TU\|^2 + 2 \|U^TV\|^2 + \frac12 \|V^TV\|^2`, whose
        gradient the running notes on the method print for the norm of W; "factors2" is
        :math:`\|U^TU\|^2 + \|V^TV\|^2`, and "factors" :math:`\|U\| + \|V\|`. The notes also leave C
        out of their update, and take the norm for its square.
    init : {"auto", "pca", "lda", "identity", "random"} or ndarray, default="auto"
        The map that both start from, scaled as in `NeighborhoodGerrymandering`.
    solver, batch_size, max_iter, max_epochs, learning_rate, tol, early_stopping
        As of `NeighborhoodGerrymandering`.
    validation_fraction
        As of `NeighborhoodGerrymandering`.
    warm_start, preprocessor, verbose, random_state, n_jobs
        As of `NeighborhoodGerrymandering`.

    Attributes
    ----------
    components_query_, components_database_ : ndarray of shape (n_components, n_features)
        U and V, where they are linear.
    embedding_ : Embedding
    parameters_ : list of ndarray
        Its parameters.
    mean_ : ndarray of shape (n_features,)
        The mean of the database, subtracted from all points.
    classes_ : ndarray of shape (n_classes,)
    database_embedding_ : ndarray of shape (n_database, n_components)
        The database of `fit`, embedded, and
    database_labels_ : ndarray of int64 of shape (n_database,)
        its classes, as indices into `classes_`.
    history_, loss_curve_, objective_, n_iter_
        As of `NeighborhoodGerrymandering`.
    n_components_ : int
    n_features_in_, feature_names_in_, preprocessor_
        As of every learner.

    Notes
    -----
    U and V are determined up to one orthogonal map of both. The zero maps are a stationary point,
    and are refused as `init`.

    References
    ----------
    S. Trivedi, D. McAllester, G. Shakhnarovich, "Discriminative metric learning by neighborhood
    gerrymandering", NIPS 2014.

    Examples
    --------
    >>> from metricfast import AsymmetricSimilarity
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = AsymmetricSimilarity(random_state=0, max_epochs=5).fit(X[::2], y[::2])
    >>> learner.score(X[1::2], y[1::2]) > 0.9
    True
    """

    _requires_y = True
    _has_classes = True

    def __init__(
        self,
        n_neighbors: int = 3,
        n_components: int | None = None,
        *,
        tied: bool = False,
        query: Embedding | None = None,
        database: Embedding | None = None,
        loss_matrix: ArrayLike | None = None,
        ties: str = "pessimistic",
        inference: str = "exact",
        C: float = 1.0,
        regularizer: str | None = "frobenius2",
        init: str | Array = "auto",
        solver: str = "sgd",
        batch_size: int | None = None,
        max_iter: int = 100,
        max_epochs: int = 50,
        learning_rate: float = 0.03,
        tol: float = 1e-4,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        preprocessor: Any = None,
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(preprocessor)
        self.n_neighbors = n_neighbors
        self.n_components = n_components
        self.tied = tied
        self.query = query
        self.database = database
        self.loss_matrix = loss_matrix
        self.ties = ties
        self.inference = inference
        self.C = C
        self.regularizer = regularizer
        self.init = init
        self.solver = solver
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: Any,
        y: Any,
        X_database: ArrayLike | None = None,
        y_database: ArrayLike | None = None,
    ) -> AsymmetricSimilarity:
        """Learn the maps.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples,) with a preprocessor
            Queries.
        y : array-like of shape (n_samples,)
            Their classes.
        X_database : array-like of shape (n_database, n_features), optional
            By default the queries, each left out of its own neighbours.
        y_database : array-like of shape (n_database,), optional
            Given with `X_database`: at least the classes of `y`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used.
        """
        check_vote_parameters(self)
        embedding = self._make_embedding()
        kept = None
        if self.warm_start and hasattr(self, "parameters_"):
            kept = self.parameters_
        for name in _FITTED:
            self.__dict__.pop(name, None)
        X, y = self._prepare_inputs(X, y, ensure_min_samples=2)
        if (X_database is None) != (y_database is None):
            raise ValueError("X_database and y_database must be given together.")
        if X_database is None:
            self.classes_, codes = check_classification_target(y)
            database, database_codes = X, codes
        else:
            database, database_codes = self._check_database(X_database, y_database)
            codes = self._codes(y, "y")
            dtype = np.result_type(X, database)
            X, database = X.astype(dtype, copy=False), database.astype(dtype, copy=False)
        mean = database[0] + (database - database[0]).mean(axis=0, dtype=np.float64)
        self.mean_ = mean.astype(X.dtype)
        training = DatabaseTraining(
            self, embedding, vote_loss(self, len(self.classes_)), X - self.mean_, codes,
            None if X_database is None else database - self.mean_, database_codes,
        )  # fmt: skip
        rng = check_random_state(self.random_state)
        start = training.start(rng, kept)
        self.embedding_ = embedding
        self._keep(start)
        try:
            training.run(start, rng, self._keep)
        finally:
            self.database_embedding_ = self._embed(database, "database")
            self.database_labels_ = database_codes
        return self

    def _make_embedding(self) -> Embedding:
        for name in ("query", "database"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, Embedding):
                raise TypeError(f"{name} must be one of metricfast.embeddings, got {given!r}.")
        linear = Linear(self.n_components, self.init)
        if self.tied:
            if self.query is not None or self.database is not None:
                raise ValueError("tied=True is for linear maps: leave query and database out.")
            return linear
        return Asymmetric(self.query or linear, self.database or linear)

    def _check_database(self, X: Any, y: Any) -> tuple[Array, NDArray[np.int64]]:
        points = check_points(self, X, preprocessor=self.preprocessor_, reset=False)
        self.classes_, codes = check_classification_target(y)
        if len(codes) != len(points):
            raise ValueError(
                f"y_database must hold {len(points)} labels, one for each point of X_database, "
                f"got {len(codes)}."
            )
        return points, codes

    def _codes(self, y: ArrayLike, name: str) -> NDArray[np.int64]:
        labels = np.asarray(y)
        codes = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        unknown = self.classes_[codes] != labels
        if unknown.any():
            raise ValueError(
                f"{name} holds class {labels[unknown][0]!r}, of which the database has no point."
            )
        return codes.astype(np.int64)

    def _keep(self, arrays: list[Array]) -> None:
        self.parameters_ = [np.array(array, self.mean_.dtype) for array in arrays]
        self.n_components_ = len(self.parameters_[-1])
        first, last = self.embedding_, self.embedding_
        if isinstance(self.embedding_, Asymmetric):
            first, last = self.embedding_.query, self.embedding_.database
        if isinstance(first, Linear) and isinstance(last, Linear):
            self.components_query_ = self.parameters_[0]
            self.components_database_ = self.parameters_[-1]

    def get_mahalanobis_matrix(self) -> Array:
        r"""Return W, the quadratic form of a query stacked on a database point.

        Returns
        -------
        ndarray of shape (2 * n_features, 2 * n_features)
            :math:`[U, -V]^T [U, -V]`.

        Raises
        ------
        AttributeError
            If the maps are not linear.
        """
        check_is_fitted(self, "parameters_")
        both = np.hstack([self.components_query_, -self.components_database_])
        return np.asarray(both.T @ both)

    def predict(
        self, X: ArrayLike, X_database: ArrayLike | None = None, y_database: ArrayLike | None = None
    ) -> Array:
        """Let the nearest neighbours vote; ties go to the class of the nearest neighbour in it.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
        X_database, y_database : array-like, optional
            By default those of `fit`.

        Returns
        -------
        ndarray of shape (n_queries,)
        """
        winners = self._vote(X, X_database, y_database)[0]
        return np.asarray(self.classes_[winners])

    def predict_proba(
        self, X: ArrayLike, X_database: ArrayLike | None = None, y_database: ArrayLike | None = None
    ) -> Array:
        """Return the share of the votes of each class; unlike `predict`, without a word on ties.

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
        X: ArrayLike,
        y: ArrayLike,
        X_database: ArrayLike | None = None,
        y_database: ArrayLike | None = None,
    ) -> float:
        """Return the share of queries whose class is predicted.

        Parameters
        ----------
        X, X_database, y_database
            As for :meth:`predict`.
        y : array-like of shape (n_queries,)

        Returns
        -------
        float
        """
        found = self.predict(X, X_database, y_database)
        labels = np.asarray(y)
        if labels.shape != found.shape:
            raise ValueError(f"y must have shape {found.shape}; found {labels.shape}.")
        return float(np.mean(found == labels))

    def _vote(
        self, X: ArrayLike, X_database: ArrayLike | None, y_database: ArrayLike | None
    ) -> tuple[NDArray[np.int64], Array]:
        check_is_fitted(self, "database_embedding_")
        queries = self.transform(X)
        if (X_database is None) != (y_database is None):
            raise ValueError("X_database and y_database must be given together.")
        if X_database is None or y_database is None:
            points, labels = self.database_embedding_, self.database_labels_
        else:
            points = self.transform(X_database, side="database")
            labels = self._codes(y_database, "y_database")
        if len(labels) != len(points):
            raise ValueError(
                f"y_database must hold {len(points)} labels, one a point; found {len(labels)}."
            )
        found = kneighbors(queries, points, self.n_neighbors, n_jobs=self.n_jobs)[1]
        return vote(found, labels, len(self.classes_))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags
