"""Training of gerrymandering: the problem, metrics per epoch, the best map, and warnings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.threadpool import one_blas_thread
from metricfast._core.types import Array, Integers
from metricfast._core.warn import warn_user
from metricfast.distances.neighbors import kneighbors
from metricfast.learners.gerrymandering.voting import largest_cost
from metricfast.losses import Gerrymander
from metricfast.samplers import Batch
from metricfast.training.chunks import POOL, Chunked, batches_of
from metricfast.training.history import PATIENCE, History, Metrics
from metricfast.training.objective import Objective
from metricfast.training.paired_chunks import batches_of_both, is_beyond
from metricfast.training.problem import Problem, Traits
from metricfast.training.samples import Samples

_QUANTITIES = ("objective", "surrogate", "vote_loss", "error", "infeasible")
ZERO_START = "`init` is zero, where the objective has no slope: give another map."
_TRAITS = Traits(
    smooth=False,
    learning_rate=0.03,
    remedy="bring the features to a spread of about 1, or lower learning_rate, C or the costs of "
    "loss_matrix",
)


class VoteMetrics:
    """Objective, loss, cost and error of the votes per epoch.

    The objective updates these counts after every evaluation of the loss. Costs and errors are
    weighted means. "infeasible" is the number of points without a right set.
    """

    def __init__(self, objective: Objective) -> None:
        if not objective.x0.any():
            raise ValueError(ZERO_START)
        self.follow(objective)
        self.values: dict[str, list[float]] = {name: [] for name in _QUANTITIES}
        self._noted: dict[float, Array] = {}
        self._found = np.zeros(4)

    def follow(self, objective: Objective) -> None:
        """Switch to another objective."""
        self.n, weight = objective.X.shape[0], objective.samples.weight
        self.weight = float(self.n if weight is None else weight.sum())
        self._loss: Gerrymander = objective.loss.bound.loss
        objective.tally = self._count

    def _count(self, loss: float, value: float, batch: Batch | None) -> None:
        of = self._loss
        found = np.array([loss, of.vote_loss_, of.vote_errors_, of.n_infeasible_])
        if batch is None:  # may be a trial step of the solver
            self._noted[value] = found
        else:
            self._found = self._found + found  # a new array: unpickled ones may be read-only

    def record(self, value: float) -> bool:
        """Record an epoch; return whether no point has a right set."""
        found = self._noted.get(value, self._found) / (1, self.weight, self.weight, 1)
        for name, number in zip(_QUANTITIES, (value, *found), strict=True):
            self.values[name].append(float(number))
        self._noted.clear()
        self._found = np.zeros(4)
        return bool(self.values["infeasible"][-1] >= self.n)

    def check(self, values: dict[str, list[float]], n_done: int) -> None:
        """Raise an error unless the `values` of a snapshot fit a training of `n_done` epochs."""
        if tuple(values) != _QUANTITIES:
            raise ValueError(f"history cannot be of {list(values)}")
        for numbers in values.values():
            if len(numbers) != n_done or not all(type(number) is float for number in numbers):
                raise ValueError(f"history must have {n_done} numbers of each quantity")


def vote_problem(
    samples: Samples, loss: Gerrymander, *, C: float, tol: float, n_jobs: int | None, **parts: Any
) -> Problem:
    """Return the training problem of a vote loss with an embedding and a penalty."""
    return Problem(
        samples, loss, C=C, tol=tol, n_jobs=n_jobs, n_voters=int(loss.n_neighbors),
        database="batch" if is_beyond(samples.X) else "all", batches=_vote_batches,
        metrics=VoteMetrics, patience=PATIENCE, traits=_TRAITS, **parts,
    )  # fmt: skip


def usual_batch(n_points: int) -> int:
    """Return the default number of queries in a batch."""
    return min(1000, max(32, n_points // 20))


def _vote_batches(
    objective: Objective, rng: np.random.RandomState, batch_size: int | None
) -> Callable[[], Iterable[Batch]]:
    """Return a function that draws the batches of an epoch, each with database points."""
    X, database = objective.X, objective.loss.database
    size = int(batch_size or usual_batch(X.shape[0]))
    if isinstance(database, Chunked):
        return batches_of_both(X, database, rng, size)
    pooled = isinstance(database, str) and database == "batch"

    def draw(rows: Integers) -> Iterable[Batch]:
        n = len(rows)
        drawn = np.array_split(rng.permutation(n), -(-n // size))
        if not pooled:
            return [Batch(rows[some], len(some)) for some in drawn]
        return (
            Batch(np.concatenate([rows[some], np.delete(rows, some)]), len(some)) for some in drawn
        )

    return batches_of(X, draw, rng, size, POOL)


def _select_best(objective: Objective, history: History) -> tuple[Array, float]:
    """Return the best vector around the best epoch and the start, with its objective.

    The objective of an epoch is summed over batches, while the parameters change. So the candidates
    are evaluated again on all points.
    """
    candidates, cost = (history.best_x, history.before_best, history.start), history.cost
    with one_blas_thread():
        judged = [(0.0 if cost is None else cost(x), objective(x.copy())[0]) for x in candidates]
    best = min(range(len(candidates)), key=judged.__getitem__)
    return candidates[best], judged[best][1]


def keep_best(
    learner: Any, objective: Objective, history: History, start: list[Array], remedy: str
) -> None:
    """Set the best parameters around the best epoch and the start, and warn if they are useless.

    `start`: the initial parameters; a warning says if their penalty is large.
    `remedy`: advice, besides fewer neighbours, if no set of neighbours is right.
    """
    if history.curve and not is_beyond(objective.X, objective.loss.database):
        x, learner.objective_ = _select_best(objective, history)
        learner._set_map(objective, x)
        objective.problem.store(learner, objective, x, True)  # type: ignore[misc]
    if not objective.samples.in_chunks:
        _warn_of_penalty(objective, history.metrics, start)
    _check_feasible(history.metrics, learner.n_neighbors, remedy)


def _check_feasible(metrics: Metrics | None, n_neighbors: int, remedy: str) -> None:
    """Raise ValueError if no set of neighbours is right for any point; warn if for some points."""
    assert isinstance(metrics, VoteMetrics)
    infeasible = int(([0] + metrics.values["infeasible"])[-1])
    first = "lower n_neighbors" if n_neighbors > 1 else "give more points"
    if infeasible >= metrics.n:
        raise ValueError(
            f"no set of n_neighbors={n_neighbors} neighbours is right for any point: {first}, or "
            f"{remedy}."
        )
    if infeasible:
        warn_user(
            f"No set of n_neighbors={n_neighbors} neighbours is right for {infeasible} of "
            f"{metrics.n} points to train on, which are left out of the loss: {first}, or {remedy}."
        )


def _warn_of_penalty(objective: Objective, metrics: Metrics | None, start: list[Array]) -> None:
    """Warn if the penalty of the initial map is so large that the loss hardly matters."""
    problem = objective.problem
    assert problem.penalty is not None and isinstance(metrics, VoteMetrics)
    penalty = problem.penalty(start, start)[0]
    most = problem.C * metrics.weight * largest_cost(problem.loss)
    if penalty > 10 * most > 0:  # the loss hardly matters
        warn_user(
            f"At the initial map the regularizer is {penalty:.2g}, and C times the loss of wrong "
            f"votes alone at most {most:.2g}: little can be learned. Bring the features to a "
            "spread of about 1 (StandardScaler) or raise C.",
            ConvergenceWarning,
        )


def unit_scale(
    queries: Array, database: Array, exclude: Integers | None, k: int, largest: float
) -> float:
    """Return the factor that brings the mean sum of k squared distances to the largest loss."""
    some = np.linspace(0, len(queries) - 1, min(len(queries), 1000)).astype(int)
    left_out = None if exclude is None else exclude[some]
    found = kneighbors(queries[some], database, k, exclude=left_out, squared=True)[0]
    mean = float(found.sum(axis=1, dtype=np.float64).mean())
    return math.sqrt((largest or 1.0) / mean) if mean > 0 else 1.0
