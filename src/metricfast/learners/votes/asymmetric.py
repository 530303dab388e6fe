"""Asymmetric similarity: different maps of queries and of database points."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from metricfast._core.arguments import check_bool, check_random_state
from metricfast._core.checks import check_points
from metricfast._core.initialize import as_given_map
from metricfast._core.scaling import log2_spread
from metricfast._core.targets import check_classification_target, check_sample_weight
from metricfast._core.threadpool import one_blas_thread
from metricfast.embeddings import Asymmetric, Embedding, Linear
from metricfast.learners.base.callers import refuse_passed_on
from metricfast.learners.base.trained import Callback, with_batches
from metricfast.learners.embedding.metric import EmbeddedMetricMixin
from metricfast.learners.votes.asymmetric_fit import (
    Sides,
    initial_maps,
    is_linear,
    mean_of_points,
    mean_of_queries,
    penalty_of,
)
from metricfast.learners.votes.stored_database import VotesOfDatabase
from metricfast.learners.votes.training import VoteMonitor, VoteTraining
from metricfast.learners.votes.voting import (
    forgetting_failures,
    largest_cost,
    vote_error,
    vote_loss,
)
from metricfast.training.coordinates import Parts, flat
from metricfast.training.monitor import DivergedError, SolverState
from metricfast.training.objective import Labelled, Objective
from metricfast.training.steps import run_epoch

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
        validate: bool = False,
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
            data = self._check_data(X, y, X_database, y_database, sample_weight, kept is not None)
            rng, checkpoint, found = self._begin(*vars(data).values(), embedding)
            start = initial_maps(self, embedding, data, rng, kept, self._largest_cost())
            self.embedding_ = embedding
            self._keep_parameters(start)
            train, test = self._hold_out(data.y, len(data.y), rng)
            part = data if test is None else data.take(np.sort(train))
            objective = self._objective(part, start)
            monitor = self._monitor(part, objective, start, rng)
            if test is not None:
                cost = partial(self._cost, objective, part, data.take(np.sort(test)))
                monitor.judge(cost, self.n_iter_no_change)
            try:
                try:
                    with self._keeping(monitor, objective, data, callbacks, checkpoint, found):
                        self._solve_votes(objective, monitor)
                except DivergedError:
                    self._report_divergence(monitor)
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
        course: VoteMonitor | None = self._course
        rng = check_random_state(self.random_state) if course is None else course.rng
        if not begun:
            self.embedding_, cost = embedding, self._largest_cost()
            self._keep_parameters(initial_maps(self, embedding, data, rng, None, cost))
        objective = self._objective(data, self.parameters_)
        if course is None:
            self._course = course = self._monitor(data, objective, self.parameters_, rng)
        course.restart(course.x)
        course.look_at(objective, data.weight)
        steps = self._steps(course.start, None)
        try:
            with self._keeping(course, objective, data, callbacks, None, None):
                batches = self._batches_of(rng, course.n)
                course(run_epoch(objective, batches, course, steps), course.x)
        except DivergedError:
            self._report_divergence(course)
        course.observer = None
        self._keep_voters(data)
        return self

    def _check_parameters(self) -> tuple[tuple[Callback, ...], Embedding]:
        callbacks = self._check_votes()
        check_bool("tied", self.tied)
        return callbacks, self._make_embedding()

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

    def _check_data(
        self,
        X: Any,
        y: Any,
        X_database: Any,
        y_database: Any,
        sample_weight: ArrayLike | None,
        keep_means: bool,
        reset: bool = True,
    ) -> Sides:
        """Check both sides, and subtract their means; those of an earlier fit may be kept."""
        means = (self.mean_, self._mean("query")) if keep_means else None
        how: dict[str, Any] = {"accept_sparse": "csr"}
        if reset:
            X, y = self._prepare_inputs(X, y, ensure_min_samples=2, **how)
        how |= {"preprocessor": self.preprocessor_, "reset": False, "order": "C"}
        if not reset:
            X, y = check_points(self, X, y, **how)
        weight = check_sample_weight(sample_weight, X.shape[0])
        self._check_rows(X.shape[1])
        if (X_database is None) != (y_database is None):
            raise ValueError("X_database and y_database must be given together.")
        if X_database is None:
            self.classes_, codes = check_classification_target(y)
            database, labels = X, codes
        else:
            database = check_points(self, X_database, name="X_database", **how)
            self.classes_, labels = check_classification_target(
                y_database, database.shape[0], "y_database"
            )
            codes = self._codes(y, "y")
            dtype = np.result_type(X.dtype, database.dtype)
            X, database = X.astype(dtype, copy=False), database.astype(dtype, copy=False)
        if issparse(X) or issparse(database):
            self.mean_ = self.mean_query_ = np.zeros(X.shape[1], X.dtype)
            X, database = (
                csr_array(A) if issparse(A) else np.ascontiguousarray(A) for A in (X, database)
            )
        else:
            if means is None or means[0].shape != (X.shape[1],):
                means = (mean_of_points(database),) * 2
                if X_database is not None and not self.tied:
                    means = means[0], mean_of_queries(X, codes, weight, database, labels)
            # Else the distance that was learned depends on them.
            self.mean_, self.mean_query_ = (mean.astype(X.dtype) for mean in means)
            X, database = X - self.mean_query_, database - self.mean_
            _check_units(database)
        return Sides(X, codes, None if X_database is None else database, labels, weight)

    def _largest_cost(self) -> float:
        return largest_cost(vote_loss(self, len(self.classes_)))

    def _objective(self, data: Sides, start: list[Array]) -> Objective:
        embedding, own = self.embedding_, data.database is None
        loss = Labelled(
            vote_loss(self, len(self.classes_)), data.y, data.weight,
            None if own else data.database_labels, self.n_jobs,
        )  # fmt: skip
        return Objective(
            data.X, embedding, loss, Parts([array.shape for array in start]), C=self.C,
            penalty=lambda arrays: penalty_of(embedding, self.regularizer, arrays),
            database="all" if own else data.database, n_jobs=self.n_jobs,
        )  # fmt: skip

    def _monitor(
        self, data: Sides, objective: Objective, start: list[Array], rng: np.random.RandomState
    ) -> VoteMonitor:
        x0 = flat([array.astype(np.float64) for array in start])
        return VoteMonitor(x0, rng, objective, data.weight, self.tol, self.n_iter_no_change)

    def _cost(self, objective: Objective, train: Sides, test: Sides, x: Array) -> float:
        """Return the error of held-out queries."""
        arrays = objective.coordinates.arrays(x)
        both = replace(test, database=train.points, database_labels=train.database_labels)
        queries, database = both.embedded(self.embedding_, arrays, self.n_jobs)
        return vote_error(
            queries, test.y, database, train.database_labels, self.n_neighbors, self.n_jobs
        )

    @contextmanager
    def _keeping(
        self, monitor: VoteMonitor, objective: Objective, data: Sides, *how: Any
    ) -> Iterator[None]:
        """Set the fitted attributes for callbacks and in the end."""
        callbacks, checkpoint, found = how

        def keep(x: Array, last: bool) -> None:
            self._keep_parameters(objective.coordinates.arrays(x))
            lowest = min(monitor.curve, default=np.inf)
            self._keep_course(monitor, lowest if last else monitor.curve[-1])
            if not last:
                self._keep_voters(data)

        def parameters(x: Array) -> list[Array]:
            return [array.astype(data.X.dtype) for array in objective.coordinates.arrays(x)]

        with (
            self._watching(
                monitor, keep, parameters, callbacks, checkpoint=checkpoint, found=found
            ),
            one_blas_thread(),
        ):
            yield

    def _keep_voters(self, data: Sides) -> None:
        """Embed the database, which votes."""
        queries, self.database_embedding_ = data.embedded(
            self.embedding_, self.parameters_, self.n_jobs
        )
        self.database_labels_ = data.database_labels
        if data.database is None:
            self.query_embedding_ = queries

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
