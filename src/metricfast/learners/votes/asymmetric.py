"""Asymmetric similarity: different maps of queries and of database points."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from metricfast._core.arguments import check_bool
from metricfast._core.checks import check_points
from metricfast._core.initialize import as_given_map
from metricfast._core.scaling import log2_spread
from metricfast._core.targets import check_classification_target, check_sample_weight
from metricfast._core.threadpool import one_blas_thread
from metricfast.embeddings import Asymmetric, Embedding, Linear
from metricfast.learners.base.callers import refuse_passed_on
from metricfast.learners.embedding.metric import EmbeddedMetricMixin
from metricfast.learners.votes.asymmetric_fit import (
    DatabaseTraining,
    is_linear,
    mean_of_points,
    mean_of_queries,
)
from metricfast.learners.votes.stored_database import VotesOfDatabase
from metricfast.learners.votes.training import VoteMonitor, VoteTraining
from metricfast.learners.votes.voting import forgetting_failures, vote_loss
from metricfast.training.coordinates import flat
from metricfast.training.monitor import DivergedError, SolverState

__all__ = ["AsymmetricSimilarity"]

Array = NDArray[Any]


class AsymmetricSimilarity(VotesOfDatabase, VoteTraining, EmbeddedMetricMixin):
    r"""Asymmetric similarity, trained on the votes of nearest neighbours.

    The distance of a query x and a database point x' is :math:`\|Ux - Vx'\|` with two maps, of
    points less the mean of their side, learned by neighbourhood gerrymandering (see
    `NeighborhoodGerrymandering`): of use where queries and database differ, such as in their noise,
    or in where they come from. It is not symmetric, and that of a point from itself need not be
    zero.

    Parameters
    ----------
    n_neighbors : int, default=3
        Number of neighbours that vote.
    n_components : int, optional
        Number of rows of U and V, by default n_features (or those of `init`); at most twice that,
        where every quadratic form of stacked points has its maps.
    tied : bool, default=False
        Learn one map for both sides, for comparison: U = V, or `query` alone.
    query, database : Embedding, optional
        Embeddings of `metricfast.embeddings` in place of linear maps, both or one of them.
    loss_matrix, ties, inference, C
        As of `NeighborhoodGerrymandering`.
    regularizer : {"frobenius2", "frobenius", "notes", "factors2", "factors", "trace"} or None, \
            default="frobenius2"
        With :math:`W = [U, -V]^T [U, -V]`: the squared norm of W, or its norm; "factors2" is
        :math:`\|U^TU\|^2 + \|V^TV\|^2`, "factors" :math:`\|U\| + \|V\|`, and "trace" that of W,
        :math:`\|U\|^2 + \|V\|^2`. "notes" is :math:`\frac12 \|U^TU\|^2 + 2 \|U^TV\|^2 + \frac12
        \|V^TV\|^2`: the squared norm with the cross term counted twice, after unpublished notes on
        the method, which print its gradient for that of the norm. With ``tied=True`` the penalty is
        that of `NeighborhoodGerrymandering` on the one map L: with U = V = L, 1/4 of the above for
        "frobenius2", 1/3 for "notes", and 1/2 for the others. Where not all maps are linear, the
        weight of every layer is penalized as one map is, such as by :math:`\sum_l \|W_l^TW_l\|^2`,
        or :math:`\sum_l \|W_l\|^2` for "trace"; those of an embedding with a `weight_decay` c of
        its own by :math:`\frac c2 \|W_l\|^2` in its place.
    init : {"auto", "pca", "lda", "identity", "random"} or array-like, default="auto"
        The map that both start from, scaled as in `NeighborhoodGerrymandering`. With more rows than
        n_features, "auto" is the identity with small random rows below (a hundredth of the length
        of the others); those of "identity" are zero, and stay so.
    solver, batch_size, max_iter, max_epochs, learning_rate, tol, early_stopping
        As of `NeighborhoodGerrymandering`.
    validation_fraction
        As of `NeighborhoodGerrymandering`.
    warm_start, preprocessor, verbose, random_state, n_jobs, power_t, checkpoint
        As of `NeighborhoodGerrymandering`.
    callbacks : iterable of callables, optional
        Each is called after every epoch or iteration with an object of the attributes `iteration`,
        `objective`, `score` (the share of right votes of held-out points, with early stopping),
        `parameters` (copies) and `estimator`. One that returns True ends the training.

    Attributes
    ----------
    components_query_, components_database_ : ndarray of shape (n_components, n_features)
        U and V, where the maps are linear. They map points less the means below: so functions that
        take `U` and `V` get ``X - mean_query_`` and ``X_database - mean_``.
    embedding_ : Embedding
    parameters_ : list of ndarray
        Its parameters.
    mean_ : ndarray of shape (n_features,)
        The mean of the database, subtracted from its points, and
    mean_query_ : ndarray of shape (n_features,)
        what is subtracted from queries: with ``tied=True`` the same, else the mean that they had if
        their classes were as frequent as in the database. Both are zero after sparse points. A warm
        start keeps them.
    classes_ : ndarray of shape (n_classes,)
    database_embedding_ : ndarray of shape (n_database, n_components)
        The database of `fit`, embedded, and
    database_labels_ : ndarray of int64 of shape (n_database,)
        its classes, as indices into `classes_`.
    query_embedding_ : ndarray of shape (n_database, n_components)
        The points of `fit` as queries, where they are the database too.
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
        callbacks: Iterable[Callable[[SolverState], object]] | None = None,
        power_t: float = 0.5,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self._take(locals())

    def fit(
        self,
        X: Any,
        y: Any,
        X_database: Any = None,
        y_database: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> AsymmetricSimilarity:
        """Learn the maps.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or (n_samples,) with a \
                preprocessor
            Queries. Sparse points are not centred.
        y : array-like of shape (n_samples,)
            Their classes.
        X_database : {array-like, sparse matrix} of shape (n_database, n_features), optional
            By default the queries, each left out of its own neighbours. In pipelines, searches and
            cross-validation, `FixedDatabase` holds it.
        y_database : array-like of shape (n_database,), optional
            Given with `X_database`: at least the classes of `y`.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the queries. As neighbours all points count alike.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used, no set of neighbours is
            right for any query, or a tool of scikit-learn has passed `X_database` on other than
            `X`. A parameter that is refused before the data are looked at leaves an
            earlier fit as it was; after any other error the learner is not fitted.

        Warns
        -----
        UserWarning
            If no set of neighbours is right for some queries: they are left out.
        ConvergenceWarning
            If training diverged: the best maps are kept. With "lbfgs": if it ended before
            convergence.
        """
        refuse_passed_on(self, X, X_database)
        callbacks = self._check_votes()
        check_bool("tied", self.tied)
        embedding = self._make_embedding()
        kept = None
        if self.warm_start and hasattr(self, "parameters_"):
            kept, origins = self.parameters_, (self.mean_, self._mean("query"))
        with forgetting_failures(self):
            X, y = self._prepare_inputs(X, y, ensure_min_samples=2, accept_sparse="csr")
            weight = check_sample_weight(sample_weight, X.shape[0])
            self._check_rows(X.shape[1])
            if (X_database is None) != (y_database is None):
                raise ValueError("X_database and y_database must be given together.")
            if X_database is None:
                self.classes_, codes = check_classification_target(y)
                database, database_codes = X, codes
            else:
                database, database_codes = self._check_database(X_database, y_database)
                codes = self._codes(y, "y")
                dtype = np.result_type(X.dtype, database.dtype)
                X, database = X.astype(dtype, copy=False), database.astype(dtype, copy=False)
            if issparse(X) or issparse(database):
                self.mean_ = self.mean_query_ = np.zeros(X.shape[1], X.dtype)
                queries, centred = (csr_array(A) if issparse(A) else A for A in (X, database))
            else:
                if kept is not None and origins[0].shape == (X.shape[1],):
                    means = origins  # the distance that was learned depends on them
                elif X_database is None or self.tied:
                    means = (mean_of_points(database),) * 2
                else:
                    of_queries = mean_of_queries(X, codes, weight, database, database_codes)
                    means = mean_of_points(database), of_queries
                self.mean_, self.mean_query_ = (mean.astype(X.dtype) for mean in means)
                queries, centred = X - self.mean_query_, database - self.mean_
                _check_units(centred)
            training = DatabaseTraining(
                self, embedding, vote_loss(self, len(self.classes_)), queries, codes,
                None if X_database is None else centred, database_codes, weight,
            )  # fmt: skip
            of = queries, codes, centred, database_codes, weight
            rng, checkpoint, found = self._begin(*of, embedding)
            start = training.start(rng, kept)
            self.embedding_ = embedding
            self._keep_parameters(start)
            train, test = self._hold_out(codes, len(codes), rng)
            if test is not None:
                train, test = np.sort(train), np.sort(test)
            objective = training.objective(start, train)
            x0 = flat([array.astype(np.float64) for array in start])
            monitor = VoteMonitor(
                x0, rng, objective, None if weight is None else weight[train], self.tol,
                self.n_iter_no_change,
            )  # fmt: skip
            if test is not None:
                monitor.judge(
                    lambda x: training.error(objective, train, test, x), self.n_iter_no_change
                )

            def embed_database() -> None:
                self.database_embedding_ = self._embed(database, "database")
                self.database_labels_ = database_codes
                if X_database is None:
                    self.query_embedding_ = self._embed(X)

            def keep(x: Array, last: bool) -> None:
                self._keep_parameters(objective.coordinates.arrays(x))
                lowest = min(monitor.curve, default=np.inf)
                self._keep_course(monitor, lowest if last else monitor.curve[-1])
                if not last:
                    embed_database()

            def parameters(x: Array) -> list[Array]:
                return [array.astype(X.dtype) for array in objective.coordinates.arrays(x)]

            try:
                try:
                    with (
                        self._watching(
                            monitor, keep, parameters, callbacks, checkpoint=checkpoint, found=found
                        ),
                        one_blas_thread(),
                    ):
                        self._solve_votes(objective, monitor)
                except DivergedError:
                    self._report_divergence(monitor)
                self._settle_on(
                    objective, monitor,
                    lambda x: self._keep_parameters(objective.coordinates.arrays(x)),
                )  # fmt: skip
            finally:
                embed_database()
        return self

    def _side(self, side: str | None) -> str:
        if side is None and self.embedding_.asymmetric and self._own_queries() is None:
            raise ValueError(
                "side must be 'query' or 'database': fit had a database, and there are two maps. "
                "Points that are searched in are of the database."
            )
        return super()._side(side)

    def _make_embedding(self) -> Embedding:
        for name in ("query", "database"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, Embedding):
                raise TypeError(f"{name} must be one of metricfast.embeddings, got {given!r}.")
            if given is not None and given.asymmetric:
                raise TypeError(f"{name} must be an embedding of one kind of points, got {given}.")
        linear = Linear(self.n_components, self.init)
        if self.tied:
            if self.query is not None and self.database is not None:
                raise ValueError("tied=True is for one map: give query, and leave database out.")
            return clone(self.query or self.database or linear)  # type: ignore[no-any-return]
        both = Asymmetric(self.query or linear, self.database or linear)
        return clone(both)  # type: ignore[no-any-return]

    def _check_rows(self, width: int) -> None:
        """Refuse more rows than any quadratic form of stacked points needs."""
        rows = self.n_components
        if rows is None and np.ndim(as_given_map(self.init)) == 2:
            rows = len(self.init)
        if isinstance(rows, Integral) and rows > 2 * width:
            raise ValueError(
                f"n_components must be at most {2 * width}, twice the number of features; found "
                f"{rows}."
            )

    def _check_database(self, X: Any, y: Any) -> tuple[Array, NDArray[np.int64]]:
        points = check_points(
            self, X, preprocessor=self.preprocessor_, reset=False, name="X_database", order="C",
            accept_sparse="csr",
        )  # fmt: skip
        self.classes_, codes = check_classification_target(y, points.shape[0], "y_database")
        return points, codes

    def _keep_parameters(self, arrays: list[Array]) -> None:
        self.parameters_ = [np.array(array, self.mean_.dtype) for array in arrays]
        self.n_components_ = len(self.parameters_[-1])
        first, last = self.embedding_, self.embedding_
        if isinstance(self.embedding_, Asymmetric):
            first, last = self.embedding_.query, self.embedding_.database
        if is_linear(first) and is_linear(last):
            self.components_query_ = self.parameters_[0]
            self.components_database_ = self.parameters_[-1]

    def get_mahalanobis_matrix(self) -> Array:
        r"""Return W, the quadratic form of a query stacked on a database point, less their means.

        Returns
        -------
        ndarray of shape (2 * n_features, 2 * n_features)
            :math:`[U, -V]^T [U, -V]`.

        Raises
        ------
        AttributeError
            If the maps are not linear, as of perceptrons or with ``normalize=True``.
        """
        check_is_fitted(self, "parameters_")
        if not hasattr(self, "components_query_"):
            raise AttributeError("No matrix: the maps of this learner are not linear.")
        both = np.hstack([self.components_query_, -self.components_database_])
        return np.asarray(both.T @ both)


def _check_units(centred: Array) -> None:
    """Refuse units in which squares, or their inverses, overflow."""
    spread = log2_spread(centred) if np.isfinite(centred).all() else (np.inf, 0.0)
    if spread is not None and abs(spread[0]) > np.finfo(centred.dtype).maxexp // 5:
        raise ValueError(
            f"The database is spread over about 2^{spread[0]}, too much or too little for "
            f"{centred.dtype}: multiply all points by a number that makes its spread about 1."
        )
