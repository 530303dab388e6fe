"""Asymmetric similarity: different maps of queries and of database points."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from metricfast._core.arguments import check_together
from metricfast._core.checks import check_points
from metricfast._core.initialize import as_given_map
from metricfast._core.parameters import NonNegativeFloat, PositiveFloat, PositiveInt
from metricfast._core.scaling import log2_spread
from metricfast._core.targets import check_classification_target, check_kinds, check_sample_weight
from metricfast._core.types import Array, RandomState
from metricfast._core.wide_map import FittedMap
from metricfast.distances.inference import Ties
from metricfast.distances.neighbors import check_neighbors
from metricfast.embeddings import Asymmetric, Embedding, Linear
from metricfast.embeddings._asymmetric import with_length
from metricfast.learners.embedding.metric import EmbeddedMetricMixin
from metricfast.learners.gerrymandering.classifier import DatabaseClassifierMixin, codes_of
from metricfast.learners.gerrymandering.history import keep_best, usual_batch, vote_problem
from metricfast.learners.gerrymandering.regularizers import Regularizer
from metricfast.learners.gerrymandering.two_sides import (
    initial_maps,
    is_linear_map,
    mean_of_queries,
    two_sided_penalty,
)
from metricfast.learners.gerrymandering.voting import largest_cost, vote_loss
from metricfast.learners.trained import Given, Plan, TrainedLearner, for_mini_batches
from metricfast.selection._judge import Judge, JudgeParameter
from metricfast.training.adapters import in_wide_span
from metricfast.training.embedded import embed_samples
from metricfast.training.history import History, Vector
from metricfast.training.model_selection import Candidates
from metricfast.training.objective import Objective
from metricfast.training.problem import Problem
from metricfast.training.samples import Samples, center, hold
from metricfast.training.solvers import LBFGS
from metricfast.training.splits import holds_classes_out
from metricfast.training.train import warn_of_cost


@dataclass(eq=False, repr=False)
class AsymmetricSimilarity(DatabaseClassifierMixin, TrainedLearner, EmbeddedMetricMixin):
    r"""Asymmetric similarity, which optimises the k-NN vote itself.

    The distance of a query x and a database point x' is :math:`\|Ux - Vx'\|`. Each side has a map
    and a mean, which is subtracted first. `NeighborhoodGerrymandering` describes the objective. Use
    it if queries and database differ: another sensor, another domain, other features. The distance
    is not symmetric, and the distance of a point from itself need not be zero.

    Parameters
    ----------
    n_neighbors : int, default=3
        Number of neighbours that vote.
    n_components : int, optional
        Number of rows of U and V, by default n_features (or the rows of `init`). At most the sum of
        the numbers of features of both sides: more rows give no other distances.
    tied : bool, default=False
        Learn one map for both sides, for comparison: U = V, or `query` alone.
    query, database : Embedding, optional
        Embeddings of `metricfast.embeddings` in place of linear maps, both or one of them.
    loss_matrix, ties, inference, C
        See `NeighborhoodGerrymandering`.
    regularizer : {"frobenius2", "frobenius", "notes", "factors2", "factors", "trace"} or None, \
            default="frobenius2"
        With :math:`W = [U, -V]^T [U, -V]`: the squared norm of W, or its norm; "factors2" is
        :math:`\|U^TU\|^2 + \|V^TV\|^2`, "factors" :math:`\|U\| + \|V\|`, and "trace" the trace of
        W, :math:`\|U\|^2 + \|V\|^2`. "notes" is
        :math:`\frac{1}{2} \|U^TU\|^2 + 2 \|U^TV\|^2 + \frac{1}{2} \|V^TV\|^2`: the squared norm
        with the cross term counted twice, after unpublished notes on the method, which print its
        gradient for the gradient of the norm. With ``tied=True`` the penalty is the same
        as in `NeighborhoodGerrymandering` on the one map L: with U = V = L, 1/4 of the above for
        "frobenius2", 1/3 for "notes", and 1/2 for the others. If not all maps are linear, the
        weight of every layer is penalized as one map is, such as by
        :math:`\sum_l \|W_l^TW_l\|^2`, or :math:`\sum_l \|W_l\|^2` for "trace"; weights of an
        embedding with a `weight_decay` c of its own by :math:`\frac{c}{2} \|W_l\|^2` in its place.
    init : {"auto", "pca", "lda", "identity", "random"} or array-like, default="auto"
        The map that both start from, scaled as in `NeighborhoodGerrymandering`. With more rows than
        n_features, "auto" is the identity with small random rows below (a hundredth of the length
        of the others). The rows of "identity" are zero, and stay so.
    solver, tol, warm_start, preprocessor, verbose, random_state, n_jobs
        See `NeighborhoodGerrymandering`.
    judge : "auto", None or Judge, default="auto"
        Chooses the number of iterations, see :class:`~metricfast.selection.Judge`. "auto" does so
        if classes are held out, because they are many and small; other data are trained on to the
        end.
    early_stopping : bool or HeldOut, default=False
        True, or a `metricfast.stopping.HeldOut`: hold queries out, and keep the maps with the
        lowest error.
    callbacks : iterable of callables, optional
        See `NCA`. The `score` of a state is the share of held-out queries with a right vote.

    Attributes
    ----------
    components_query_ : ndarray of shape (n_components, n_features)
    components_database_ : ndarray of shape (n_components, n_features_database)
        U and V, if the maps are linear. They map centred points: give ``X - mean_query_`` and
        ``X_database - mean_`` to functions that take `U` and `V`.
    embedding_ : Embedding
    parameters_ : list of ndarray
        Its parameters.
    mean_ : ndarray of shape (n_features_database,)
        The mean of the database, subtracted from its points. Zero after sparse points.
    mean_query_ : ndarray of shape (n_features,)
        The mean of the queries, subtracted from queries. Each class has the weight of its frequency
        in the database. With ``tied=True`` it is `mean_`. Zero after sparse points. A warm start
        keeps both means.
    classes_ : ndarray of shape (n_classes,)
    database_embedding_ : ndarray of shape (n_database, n_components)
        The database of `fit`, embedded.
    database_labels_ : ndarray of int64 of shape (n_database,)
        The classes of the database, as indices into `classes_`.
    query_embedding_ : ndarray of shape (n_database, n_components)
        The points of `fit`, embedded as queries, if `fit` had no other database.
    history_, loss_curve_, objective_, n_iter_
        See `NeighborhoodGerrymandering`.
    n_components_ : int
    n_features_in_, feature_names_in_, preprocessor_
        See `NCA`.

    Notes
    -----
    An orthogonal map of both U and V changes no distance. Zero maps are a stationary point, and
    raise an error as `init`.

    Square maps of 1000 features and more are trained in the span of the points, if these are fewer.
    In all directions without points, both maps are one multiple of the identity.

    References
    ----------
    S. Trivedi, D. McAllester, G. Shakhnarovich, "Discriminative metric learning by neighborhood
    gerrymandering", NIPS 2014.

    Examples
    --------
    >>> from metricfast import AsymmetricSimilarity
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = AsymmetricSimilarity(random_state=0).fit(X[::2], y[::2])
    >>> learner.score(X[1::2], y[1::2]) > 0.9
    True
    """

    n_neighbors: PositiveInt = 3
    n_components: int | None = None
    _: KW_ONLY
    ties: Ties = "pessimistic"
    inference: Literal["exact", "greedy"] = "exact"
    C: PositiveFloat = 1.0
    regularizer: Regularizer = "frobenius2"
    init: str | Array = "auto"
    solver: Any = "adam"
    tied: bool = False
    query: Embedding | None = None
    database: Embedding | None = None
    loss_matrix: ArrayLike | None = None
    tol: NonNegativeFloat = 1e-4
    judge: JudgeParameter = "auto"

    _requires_y = True
    _solver_names = ("lbfgs", "adam", "subgradient")
    _state = ("parameters_",)

    components_query_, components_database_ = FittedMap(), FittedMap()

    def fit(
        self,
        X: Any,
        y: Any,
        X_database: Any = None,
        y_database: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        views: ArrayLike | None = None,
        validate: bool = False,
    ) -> AsymmetricSimilarity:
        """Learn the maps.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or (n_samples,) with a \
                preprocessor
            Queries. Sparse points are not centred. With mini-batches, X and `X_database` may
            be sources that do not fit into memory, such as memory maps.
        y : array-like of shape (n_samples,)
            Their classes.
        X_database : {array-like, sparse matrix} of shape (n_database, n_features_database), \
                optional
            By default the queries, each excluded from its own neighbours. With two maps it may have
            other features than the queries: give `n_components`. For pipelines, searches and
            cross-validation, use `FixedDatabase`: scikit-learn does not transform `X_database`, and
            splits it like `X` if it is as long.
        y_database : array-like of shape (n_database,), optional
            Given with `X_database`: at least the classes of `y`.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the queries. As neighbours all points count alike.
        groups, views : array-like of shape (n_samples,), optional
        validate : bool, default=False
            All as for :meth:`LFDA.fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used, no set of neighbours is
            right for any query, or a tool of scikit-learn has not treated `X_database` as `X`. If a
            parameter is wrong, an earlier fit stays as it was. After any other error the learner is
            not fitted.

        Warns
        -----
        UserWarning
            If no set of neighbours is right for some queries: they are left out.
        ConvergenceWarning
            If training diverged: the best maps are kept. With "lbfgs": if it ended before
            convergence.
        """
        marks: dict[str, Any] = {"groups": groups, "views": views}
        return self._fit(X, y, sample_weight, X_database, y_database, **marks, validate=validate)

    @for_mini_batches
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
            As for `fit`. All calls subtract the means of the first. The database of the last call
            is stored.
        classes : array-like, optional
            Ignored; scikit-learn's classifiers take it.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As for `fit`. With `early_stopping` or a checkpoint, which need all points.
        """
        del classes
        return self._partial_fit(Given(X, y, sample_weight, X_database, y_database))

    def _plan(self) -> Plan:
        return replace(super()._plan(), parts=(_embedding_of(self),))

    @property
    def _lbfgs(self) -> LBFGS:
        return LBFGS(tol=self.tol, min_iter=1)

    def _load(self, plan: Plan, given: Given, kept: Any, *, reset: bool) -> Samples:
        check_together(X_database=given.X_database, y_database=given.y_database)
        # The learned distance depends on the means of the earlier fit.
        means = None if kept is None else (self._mean("query"), self.mean_)
        how: dict[str, Any] = {"accept_sparse": "csr", "accept_sources": True}
        if reset:
            X, y = self._prepare_inputs(given.X, given.y, ensure_min_samples=2, **how)
        how |= {"preprocessor": self.preprocessor_, "reset": False, "order": "C"}
        if not reset:
            X, y = check_points(self, given.X, given.y, **how)
        check_kinds(self, not reset, y=y)
        X, weight = hold(X, plan.in_memory), check_sample_weight(given.sample_weight, X.shape[0])
        if given.X_database is None:
            self.classes_, codes = check_classification_target(y)
            samples = Samples(X, codes, self.classes_, weight)
        else:
            if self.tied:
                database = check_points(self, given.X_database, name="X_database", **how)
            else:
                del how["preprocessor"], how["reset"]
                database = self._database_points(given.X_database, reset=reset, **how)
            database = hold(database, plan.in_memory, "X_database")
            self.classes_, labels = check_classification_target(
                given.y_database, database.shape[0], "y_database"
            )
            codes = codes_of(y, self.classes_, "y")
            others = Samples(database, labels, self.classes_)
            samples = Samples(X, codes, self.classes_, weight, database=others)
        _check_rows(self, samples.points.n_features, samples.n_features)
        samples, (self.mean_query_, self.mean_) = center(
            samples,
            means,
            shared=self.tied,
            centers=plan.parts[0].centers,
            mean_of_queries=mean_of_queries,
        )
        sample = samples.representative
        if all(isinstance(side, np.ndarray) for side in (sample.points.X, sample.X)):
            _check_units(sample.points.X, "database is")
            if samples.n_features != samples.points.n_features:
                _check_units(sample.X, "queries are")
        if plan.spans and kept is None:
            samples = in_wide_span(plan.parts[0], samples, "mixed")
        return samples

    def _problem(self, samples: Samples) -> Problem:
        embedding = self.embedding_
        return vote_problem(
            samples, vote_loss(self, len(self.classes_)), C=self.C, tol=self.tol,
            n_jobs=self.n_jobs, store=_set_database, finish=_finish, embedding=embedding,
            preconditioner=samples.with_rest if samples.outer else None,
            penalty=lambda arrays, _: two_sided_penalty(
                embedding, self.regularizer, arrays, self.n_jobs
            ),
        )  # fmt: skip

    def _initialize(self, plan: Plan, samples: Samples, rng: RandomState, kept: Any) -> Any:
        (embedding,), cost = plan.parts, largest_cost(vote_loss(self, len(self.classes_)))
        earlier = None if kept is None else kept[0]
        start = initial_maps(self, embedding, samples, rng, earlier, cost)
        self.embedding_ = embedding
        self._set_parameters([samples.outer_map(array) for array in start])
        n, m = samples.X.shape[0], samples.points.X.shape[0]
        if samples.database is None:
            check_neighbors(self.n_neighbors, n - 1)
        batch = usual_batch(n) if plan.solver.by_batches else n
        warn_of_cost(
            [array.shape for array in start], n, min(m, batch), batch, plan.solver, self.n_jobs
        )
        return start

    def _begin(
        self, plan: Plan, samples: Samples, initial: Any, rng: RandomState, start: str | None
    ) -> Objective:
        return Objective(self._problem(samples), initial)

    def _candidates(self, plan: Plan, samples: Samples) -> Candidates | None:
        if not (isinstance(self.judge, Judge) or samples.marks or holds_classes_out(samples)):
            return None
        (embedding,), cost = plan.parts, largest_cost(vote_loss(self, len(self.classes_)))

        def begin(part: Samples, name: str | None) -> Objective:
            own = initial_maps(self, embedding, part, np.random.RandomState(0), None, cost)
            return Objective(self._problem(part), own)

        return Candidates(begin, [None], None)

    def _set_map(self, objective: Objective, x: Vector) -> None:
        self._set_parameters(objective.learned(x))

    def _set_parameters(self, arrays: list[Any]) -> None:
        self.parameters_ = arrays = [each.astype(self.mean_.dtype, order="K") for each in arrays]
        self.n_components_ = len(arrays[-1])
        first, last = self.embedding_, self.embedding_
        if isinstance(self.embedding_, Asymmetric):
            first, last = self.embedding_.query, self.embedding_.database
        if is_linear_map(first) and is_linear_map(last):
            self.components_query_, self.components_database_ = arrays[0], arrays[-1]

    @property
    def _has_database(self) -> bool:
        return not hasattr(self, "query_embedding_")

    def get_mahalanobis_matrix(self) -> Array:
        r"""Return the matrix W of the squared distance :math:`z^T W z`.

        z is a query followed by a database point, each minus its mean.

        Returns
        -------
        ndarray of shape (2 * n_features, 2 * n_features), or the sum of both numbers of features
            :math:`[U, -V]^T [U, -V]`.

        Raises
        ------
        AttributeError
            If the maps are not linear.
        """
        check_is_fitted(self, "parameters_")
        if not hasattr(self, "components_query_"):
            raise AttributeError("No matrix: the maps of this learner are not linear.")
        both = np.hstack([self.components_query_, -self.components_database_])
        return np.asarray(both.T @ both)


def _set_database(
    learner: AsymmetricSimilarity, objective: Objective, x: Vector, final: bool
) -> None:
    """Embed and store the database for `predict`."""
    del final
    samples, arrays = objective.all_samples, objective.parameters(x)
    found = embed_samples(learner.embedding_, arrays, samples, learner.n_jobs)
    queries, learner.database_embedding_ = map(samples.outer_points, found)
    learner.database_labels_ = samples.points.labels
    if samples.database is None:
        learner.query_embedding_ = queries


def _finish(
    learner: AsymmetricSimilarity, objective: Objective, history: History, diverged: bool
) -> None:
    """Set the best maps, and warn if they are useless."""
    del diverged
    keep_best(learner, objective, history, objective.start, "leave small classes out")


def _embedding_of(learner: AsymmetricSimilarity) -> Embedding:
    """Return the unfitted embedding that the parameters describe."""
    for name in ("query", "database"):
        given = getattr(learner, name)
        if given is not None and not isinstance(given, Embedding):
            raise TypeError(f"{name} must be one of metricfast.embeddings, got {given!r}.")
        if given is not None and given.asymmetric:
            raise TypeError(f"{name} must be an embedding of one kind of points, got {given}.")
    linear = Linear(learner.n_components, learner.init)
    if learner.tied:
        if learner.query is not None and learner.database is not None:
            raise ValueError("tied=True is for one map: give query, and leave database out.")
        given = learner.query or learner.database or linear
    else:
        given = Asymmetric(learner.query or linear, learner.database or linear)
    found: Embedding = with_length(given, False)
    return found


def _check_rows(learner: AsymmetricSimilarity, width: int, width_of_queries: int) -> None:
    """Raise ValueError for more rows than a quadratic form of stacked points can use."""
    rows = learner.n_components
    if rows is None and np.ndim(as_given_map(learner.init)) == 2:
        rows = len(learner.init)
    most = width + width_of_queries
    if isinstance(rows, Integral) and rows > most:
        raise ValueError(
            f"n_components must be at most {most}, the features of queries and database "
            f"together; found {rows}."
        )


def _check_units(centred: Array, name: str) -> None:
    """Raise ValueError if squares of coordinates, or their inverses, overflow."""
    spread = log2_spread(centred) if np.isfinite(centred).all() else (np.inf, 0.0)
    if spread is not None and abs(spread[0]) > np.finfo(centred.dtype).maxexp // 5:
        raise ValueError(
            f"The {name} spread over about 2^{spread[0]}, too much or too little for "
            f"{centred.dtype}: multiply all points by a number that makes its spread about 1."
        )
