"""Asymmetric similarity: different maps of queries and of database points."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from metricfast._core.arguments import check_random_state
from metricfast.distances.neighbors import check_neighbors
from metricfast.embeddings import Embedding
from metricfast.learners.base.callers import refuse_passed_on
from metricfast.learners.base.told import tells_callbacks
from metricfast.learners.base.trained import with_batches
from metricfast.learners.base.validation import naming_held_out
from metricfast.learners.votes.sides import initial_maps
from metricfast.learners.votes.two_sided import TwoSidedVotes
from metricfast.learners.votes.voting import forgetting_failures
from metricfast.training.monitor import SolverState
from metricfast.training.steps import run_epoch

__all__ = ["AsymmetricSimilarity"]

Array = NDArray[Any]


class AsymmetricSimilarity(TwoSidedVotes):
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
    warm_start, preprocessor, verbose, random_state, n_jobs, power_t, checkpoint, n_iter_no_change
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
        verbose: bool | int = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        callbacks: Iterable[Callable[[SolverState], object]] | None = None,
        power_t: float = 0.5,
        checkpoint: str | os.PathLike[str] | None = None,
        n_iter_no_change: int = 10,
    ) -> None:
        self._take(locals())

    @tells_callbacks
    def fit(
        self,
        X: Any,
        y: Any,
        X_database: Any = None,
        y_database: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        validate: bool = False,
    ) -> AsymmetricSimilarity:
        """Learn the maps.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or (n_samples,) with a \
                preprocessor
            Queries. Sparse points are not centred. Of sources that do not fit into memory, such as
            memory maps, here and in `X_database`, mini-batches hold a part at a time.
        y : array-like of shape (n_samples,)
            Their classes.
        X_database : {array-like, sparse matrix} of shape (n_database, n_features), optional
            By default the queries, each left out of its own neighbours. In pipelines, searches and
            cross-validation, `FixedDatabase` holds it.
        y_database : array-like of shape (n_database,), optional
            Given with `X_database`: at least the classes of `y`.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the queries. As neighbours all points count alike.
        validate : bool, default=False
            As of every learner: also measure a clone on queries that it has not seen, by its score
            and that of the points as they were given.

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
        callbacks, embedding = self._check_parameters()
        kept = self.parameters_ if self.warm_start and hasattr(self, "parameters_") else None
        self._course = None
        with forgetting_failures(self):
            data = self._check_data(
                X, y, X_database, y_database, sample_weight, kept is not None, validate=validate
            )
            rng, checkpoint, found = self._begin(*vars(data).values(), embedding)
            start = initial_maps(self, embedding, data, rng, kept, self._largest_cost())
            self.embedding_ = embedding
            self._keep_parameters(start)
            train, test = self._hold_out(data.y, data.X, rng)
            part = data if test is None else data.take(np.sort(train))
            if part.database is None:
                with naming_held_out(test, len(data.y)):
                    check_neighbors(self.n_neighbors, len(part.y) - 1)
            objective = self._objective(part, start)
            monitor = self._monitor(part, objective, start, rng)
            if test is not None:
                cost = partial(self._cost, objective, data.judged(np.sort(test), part))
                monitor.judge(cost, self.n_iter_no_change)
            try:
                with self._keeping(monitor, objective, data, callbacks, checkpoint, found):
                    self._solve(objective, monitor, self._batches_of(monitor.rng, objective))
                self._settle_on(
                    objective, monitor,
                    lambda x: self._keep_parameters(objective.coordinates.arrays(x)),
                )  # fmt: skip
            finally:
                self._keep_voters(data)
        if validate:
            self._validate_fit(
                X, y, sample_weight=sample_weight, X_database=X_database, y_database=y_database
            )
        return self

    @with_batches
    def partial_fit(
        self,
        X: Any,
        y: Any,
        X_database: Any = None,
        y_database: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> AsymmetricSimilarity:
        """Train for one epoch, from where the last call, or `fit`, has ended.

        Parameters
        ----------
        X, y, X_database, y_database
            As of `fit`. The means of the first call are subtracted from the points of all; the
            database of the last one is that which is kept.
        classes : array-like, optional
            Not needed: those of the database of a call are meant.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As of `fit`; and with `early_stopping` or `checkpoint`, which need all points.
        """
        del classes
        callbacks, embedding = self._check_parameters()
        self._refuse_in_parts()
        begun = hasattr(self, "parameters_")
        data = self._check_data(X, y, X_database, y_database, sample_weight, begun, not begun)
        rng = check_random_state(self.random_state)
        if not begun:
            self.embedding_, cost = embedding, self._largest_cost()
            self._keep_parameters(initial_maps(self, embedding, data, rng, None, cost))
        objective = self._objective(data, self.parameters_)
        if self._course is None:
            course = self._monitor(data, objective, self.parameters_, rng)
            self._course = course, course.start
        course, x0 = self._course
        course.restart(course.x)
        course.look_at(objective, data.weight, len(data.y))
        steps = self._steps(objective, x0, None)
        with self._keeping(course, objective, data, callbacks, None, None):
            batches = self._batches_of(course.rng, objective)
            course(run_epoch(objective, batches(), course, steps), course.x)
        self._keep_voters(data)
        return self

    def _side(self, side: str | None) -> str:
        if side is None and self.embedding_.asymmetric and self._own_queries() is None:
            raise ValueError(
                "side must be 'query' or 'database': fit had a database, and there are two maps. "
                "Points that are searched in are of the database."
            )
        return super()._side(side)

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
