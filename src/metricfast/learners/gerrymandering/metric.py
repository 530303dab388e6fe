"""Neighbourhood gerrymandering: a metric that lowers a bound of the k-NN error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.initialize import as_given_map
from metricfast._core.parameters import NonNegativeFloat, PositiveFloat, PositiveInt, positional
from metricfast._core.types import Array, Floats
from metricfast.distances.gradient import metric_gradient
from metricfast.distances.inference import Ties
from metricfast.distances.neighbors import check_neighbors
from metricfast.learners.base.inputs import points_of
from metricfast.learners.gerrymandering.classifier import DatabaseClassifierMixin
from metricfast.learners.gerrymandering.history import (
    ZERO_START,
    keep_best,
    unit_scale,
    usual_batch,
    vote_problem,
)
from metricfast.learners.gerrymandering.regularizers import Regularizer, penalty
from metricfast.learners.gerrymandering.voting import largest_cost, vote_loss
from metricfast.learners.linear import LinearLearner
from metricfast.learners.trained import Plan
from metricfast.losses import Gerrymander
from metricfast.samplers import Batch
from metricfast.selection._judge import JudgeParameter
from metricfast.training.embedded import PlainLinear, map_points
from metricfast.training.history import History, Vector
from metricfast.training.objective import EmbeddedLoss, Objective
from metricfast.training.preconditioner import PSDProjection
from metricfast.training.problem import Problem
from metricfast.training.samples import Samples
from metricfast.training.solvers import LBFGS, Solver
from metricfast.training.train import warn_of_cost


def _check_init(_: str, init: Any) -> None:
    given = as_given_map(init)
    if not isinstance(given, str) and not np.any(given):
        raise ValueError(ZERO_START)


InitialMap = Annotated[str | Array, _check_init]


@dataclass(eq=False, repr=False, kw_only=True)
class GerrymanderingLearner(LinearLearner):
    """Base class of gerrymandering learners, which store the embedded points of `fit`."""

    n_neighbors: PositiveInt = 3
    n_components: int | None = None
    ties: Ties = "pessimistic"
    inference: Literal["exact", "greedy"] = "exact"
    C: PositiveFloat = 1.0
    regularizer: Regularizer = "frobenius2"
    solver: Any = "adam"
    parameterization: Literal["L", "M"] = "L"
    tol: NonNegativeFloat = 1e-4
    init: InitialMap = "auto"

    _solver_names = ("lbfgs", "adam", "subgradient")
    _lbfgs_params = ()  # all solvers use `tol`
    _selects_batches = True
    _batches_in_span = True
    _keeps_points = True
    _costs: ClassVar[Floats | None] = None  # the costs of votes, in place of `loss_matrix`

    def _plan(self) -> Plan:
        plan = super()._plan()
        if self._learns_matrix:
            self._check_matrix(plan.solver)
        return plan

    def _check_matrix(self, solver: Solver) -> None:
        if self.n_components is not None:
            raise ValueError("n_components must be None with parameterization='M'.")
        if self.regularizer == "factors":
            raise ValueError(
                "regularizer must be another than 'factors' with parameterization='M', which has "
                "no map to penalize: take 'frobenius2'."
            )
        if not solver.by_batches:
            raise ValueError("solver must be 'adam' or 'subgradient' with parameterization='M'.")

    @property
    def _lbfgs(self) -> LBFGS:
        return LBFGS(tol=self.tol, min_iter=1)

    @property
    def _learns_matrix(self) -> bool:  # type: ignore[override]
        return self.parameterization == "M"

    @property
    def _accept_sparse(self) -> str | bool:  # type: ignore[override]
        return False if self._learns_matrix else "csr"

    def _warn_of_cost(
        self, shape: tuple[int, int], n: int, samples: Samples, solver: Solver
    ) -> None:
        # A query is compared with all points.
        batch = usual_batch(n) if solver.by_batches else n
        warn_of_cost([shape], n, n, batch, solver, self.n_jobs)

    def _problem(self, samples: Samples) -> Problem:
        check_neighbors(self.n_neighbors, samples.X.shape[0] - 1)
        loss = vote_loss(self, len(samples.classes), self._costs)
        d = samples.X.shape[1]
        over_matrix: dict[str, Any] = {}
        # The best map is zero outside of the span, where no distance depends on it.
        samples = samples.in_span
        if self._learns_matrix:
            over_matrix = {
                "embedding": PlainLinear(_root), "evaluate": _loss_of_matrix,
                "preconditioner": PSDProjection([(d, d)]),
            }  # fmt: skip
        penalize = _penalty_of_matrix if over_matrix else penalty
        return vote_problem(
            samples, loss, C=self.C, tol=self.tol, n_jobs=self.n_jobs, searches_scale=False,
            penalty=lambda arrays, _: penalize(self.regularizer, arrays),
            rescale=partial(_factor, samples, loss, self.n_jobs), store=_set_database,
            finish=_finish, **over_matrix,
        )  # fmt: skip


def _set_database(
    learner: GerrymanderingLearner, objective: Objective, x: Vector, final: bool
) -> None:
    """Embed the points of `fit`, as the database for `predict`."""
    del x, final
    data = objective.all_samples
    if learner._has_classes:
        learner.classes_, learner.database_labels_ = data.classes, data.labels
    learner.database_embedding_ = learner._embed(data.given)


def _finish(
    learner: GerrymanderingLearner, objective: Objective, history: History, diverged: bool
) -> None:
    """Set the best map, and warn if it is useless."""
    del diverged
    start, L = objective.start, objective.initial_map
    if history.max_iter is not None and isinstance(learner.init, str) and L is not None:
        assert objective.problem.rescale is not None
        L = objective.samples.inner_map(L)
        vector = objective.preconditioner.vector([L * objective.problem.rescale(L)])
        start = objective.parameters(vector)
    remedy = "lower n_bins" if hasattr(learner, "n_bins") else "leave small classes out"
    keep_best(learner, objective, history, start, remedy)


@positional("n_neighbors n_components")
@dataclass(eq=False, repr=False)
class NeighborhoodGerrymandering(DatabaseClassifierMixin, GerrymanderingLearner):
    r"""Neighbourhood gerrymandering.

    Learns a Mahalanobis distance that lowers a bound on the error of k nearest neighbours. For
    every point, the nearest set of k neighbours with a right vote shall be nearer than any other
    set, by the cost of the vote of that other set. The objective is

    .. math:: \Omega + C \sum_i s_i \left( \max_h [S(x_i, h) + \Delta(y_i, h)]
              - \max_{h: \Delta(y_i, h) = 0} S(x_i, h) \right)

    with S(x, h) minus the sum of the squared distances of the set h, :math:`\Delta` what its vote
    costs, and both maxima found exactly (`metricfast.inference`).

    Parameters
    ----------
    n_neighbors : int, default=3
        Size of the sets.
    n_components : int, optional
        Number of rows of the map, by default n_features. For ``parameterization="L"`` only.
    parameterization : {"L", "M"}, default="L"
        Learn the map L; or the matrix :math:`M = L^T L`, with eigenvalues below zero set to zero
        before every step. "M" needs ``n_components=None``, another solver than
        "lbfgs" and another regularizer than "factors", and learns more slowly at the same
        learning rate: .1 suits it where .03 suits "L".
    loss_matrix : array-like of shape (n_classes, n_classes), optional
        ``loss_matrix[i, j]`` is the cost of the answer j where i is right, of the sorted classes.
        By default 1 for every wrong answer.
    ties : {"pessimistic", "optimistic", "label", "nearest"}, default="pessimistic"
        The winner among classes with equally many neighbours: the class that costs most, or least,
        the first, or the class of the nearest of these points. Only with "pessimistic" ties is the
        objective a bound for every way of predicting.
    inference : {"exact", "greedy"}, default="exact"
        "greedy" is the heuristic of the literature, for comparison.
    C : float, default=1.0
        Weight of the loss.
    regularizer : {"frobenius2", "frobenius", "notes", "factors2", "factors", "trace"} or None, \
            default="frobenius2"
        :math:`\Omega`: the squared norm of M, its norm, or, for "factors" (not with
        ``parameterization="M"``), the norm of L. "trace" is the trace of M, the squared norm of L.
        For one map, "notes" and "factors2" are "frobenius2".
    init : {"auto", "pca", "lda", "identity", "random"} or array-like, default="auto"
        The initial map, see `NCA`. A map that is named is scaled so that the sum of `n_neighbors`
        squared distances is about the largest loss.
    solver : {"adam", "lbfgs", "subgradient"} or solver, default="adam"
        "adam" takes a step for every mini-batch of queries, against all points. Its learning rate
        is .03 by default, relative to the size of the initial map; a batch has a twentieth of the
        points, from 32 to 1000. "subgradient" takes plain steps :math:`L \leftarrow L - \eta_t
        g_t` with :math:`\eta_t = \eta_1 / t^p`. It is slower at the same rate, and diverges
        sooner: try .1. "lbfgs" looks at all points in every iteration. Solvers with parameters are
        in `metricfast.solvers`.
    tol : float, default=1e-4
        Mini-batches stop after ten epochs in which the objective (with held-out points, the
        validation error) has not fallen by this share; "lbfgs" where it falls by less in an
        iteration.
    judge, early_stopping
        See `NCA`; here the judge also chooses the epochs of mini-batches.
    warm_start, preprocessor, verbose, random_state, n_jobs, callbacks
        See `NCA`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The best, by the objective of all points (with early stopping, by the validation error
        first), of the maps before and after the best epoch and of the initial one.
    history_ : dict of lists of float
        For every epoch the "objective", the "surrogate" (the sum of the losses), the "vote_loss"
        (the mean cost of the vote of the nearest neighbours), the "error" (the leave-one-out share
        of points whose nearest neighbours vote for another class, ties going to the class of the
        nearest), and the number of "infeasible" points, for which no set has a right vote. They are
        left out of the objective. All are sums over the batches of the epoch, while the map moves.
        With early stopping, also the "validation_error".
    validation_scores_ : list of float
        With early stopping, the share of held-out points that are right after each epoch.
    loss_curve_ : list of float
        The objective after each epoch.
    objective_ : float
        The objective of `components_`, computed with all points; after an interrupt, of the best
        epoch.
    n_iter_ : int
        Number of epochs.
    classes_ : ndarray of shape (n_classes,)
    database_embedding_ : ndarray of shape (n_samples, n_components)
        The points of `fit`, embedded, which vote in `predict`, and
    database_labels_ : ndarray of int64 of shape (n_samples,)
        their classes, as indices into `classes_`.
    n_features_in_, feature_names_in_, preprocessor_
        As in every learner.

    Notes
    -----
    The gradient of a query's loss by its distances is 1 on the points of the right set and -1 on
    the points of the other: only some distances of each query change. The zero map is a
    stationary point, and is refused as `init`.

    The regularizer measures the map, which is large where the features are small: of features a
    tenth as large, C must be ten thousand times as large. Standardize them. Data whose largest
    standard deviation of a feature is below 2^-10 or above 2^10 are trained on times a power of two
    that makes it about 1, which `components_` undo; `objective_` belongs to the rescaled data.

    If there are many more features than points, the map of their span is trained and regularized.
    In other directions, which do not change who is a neighbour, the initial map stays.

    References
    ----------
    S. Trivedi, D. McAllester, G. Shakhnarovich, "Discriminative metric learning by neighborhood
    gerrymandering", NIPS 2014.

    Examples
    --------
    >>> from metricfast import NeighborhoodGerrymandering
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = NeighborhoodGerrymandering(n_components=2, random_state=0).fit(X[::2], y[::2])
    >>> learner.transform(X).shape
    (150, 2)
    >>> learner.score(X[1::2], y[1::2]) > 0.9
    True
    """

    loss_matrix: ArrayLike | None = None
    judge: JudgeParameter = "auto"

    _one_map = True

    def _database_points(self, X: Any) -> Any:
        """Check points of a database, which must have the features of the queries."""
        return points_of(self, X, "X_database")


def _factor(samples: Samples, loss: Gerrymander, n_jobs: int | None, L: Array) -> float:
    """Return the factor of a map that brings sums of k squared distances to the largest loss."""
    X = samples.representative.X
    Z, own = map_points(X, L, n_jobs), np.arange(X.shape[0])
    return unit_scale(Z, Z, own, min(int(loss.n_neighbors), len(Z) - 1), largest_cost(loss))


def _root(parameters: list[Array]) -> Array:
    """Return a map L of M = L^T L, where M is the only parameter."""
    values, vectors = np.linalg.eigh(parameters[0])
    return np.asarray(np.sqrt(np.maximum(values, 0))[:, None] * vectors.T)


def _penalty_of_matrix(name: str | None, arrays: list[Array]) -> tuple[float, list[Array]]:
    """Return a penalty on M, a key of `REGULARIZERS`, and its gradient."""
    (M,) = arrays
    square = float((M * M).sum())
    if name is None:
        return 0.0, [np.zeros_like(M)]
    if name == "trace":
        return float(np.trace(M)), [np.eye(len(M))]
    if name == "frobenius":
        norm = float(np.sqrt(square))
        return norm, [M / (norm or 1.0)]
    return square, [2 * M]


def _loss_of_matrix(
    loss: EmbeddedLoss, arrays: list[Array], batch: Batch | None, part: slice | None = None
) -> tuple[float, list[Array]]:
    """Return the loss of queries as a function of M, and its gradient."""
    (M,), bound, (rows, anchors) = arrays, loss.bound, loss.pool(batch, part)
    X = loss.X if rows is None else loss.X[rows]
    exclude = np.arange(X.shape[0])[anchors]
    labelled = exclude if rows is None else rows[anchors]
    Z = map_points(X, _root([M]), loss.n_jobs)
    call = bound.call(Z[anchors], Z, labelled, rows, exclude)
    value, weights = bound.loss.of_distances(call)
    gradient = metric_gradient(X[anchors], weights, X, M=M, n_jobs=loss.n_jobs)
    return value, [np.asarray(gradient)]
