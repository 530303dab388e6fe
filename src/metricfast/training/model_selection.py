"""Selection of the start and the number of iterations by the judge.

Every start trains on the same splits. The costs of held-out points, before training and after each
iteration, are rows of one matrix, from which the judge chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from metricfast._core.threadpool import one_blas_thread
from metricfast._core.types import Array
from metricfast._core.warn import without_advice
from metricfast.selection._evidence import means, near_best
from metricfast.selection._judge import Judge, Judgement, join_parts, judge_costs, split_columns
from metricfast.selection._measures import Search
from metricfast.training.history import PATIENCE, DivergedError, History
from metricfast.training.objective import Objective
from metricfast.training.samples import Samples
from metricfast.training.solvers import Solver
from metricfast.training.splits import Split, splits_of
from metricfast.training.train import solve

# Errors of a training on a part of the points.
_FAILURES = (DivergedError, ValueError, np.linalg.LinAlgError)


@dataclass(frozen=True)
class Candidates:
    """The starts to choose from.

    Attributes
    ----------
    begin : callable
        ``begin(samples, name)`` returns the objective of some samples at a start.
    names : list of (str or None)
        None for the start that parameters name.
    given : str or None
        The start that changes distances least, which no training must lose to.
    contest : list of str
        Further starts, of which only the best without training is trained.
    least : int
        Points of a class that a training needs.
    equal : float
        Standard errors of a paired difference, below which two settings count as equally good. A
        start is given up after some of the splits beyond twice as many.
    shortest : bool
        Whether the shortest of equally good trainings is chosen, not the longest.
    patience : int
        Iterations without improvement that end the training of a fold.
    """

    begin: Callable[[Samples, str | None], Objective]
    names: Sequence[str | None]
    given: str | None
    contest: Sequence[str] = ()
    least: int = 2
    equal: float = 1.0
    shortest: bool = True
    patience: int = PATIENCE


def select_training(
    candidates: Candidates, data: Samples, judge: Judge, solver: Solver
) -> tuple[str | None, int | None, Judgement | None]:
    """Return the chosen start, the number of iterations, and the judgement.

    The start is None for that of the parameters. The number is 0 if the start is better without
    training, and None if the last iteration is the best.

    The given distance is chosen if no point can be held out, or if all starts fail. If each
    training diverges, nothing is chosen, because training on all points will explain it.
    """
    if judge._verdict is not None:
        judgement, setting, to_the_end = judge._verdict
        start, n_iter = setting if judgement.chosen else (candidates.given, 0)
        judgement.warn()
        return start, None if to_the_end else n_iter, judgement
    measure, costs_of = judge.costs_by(data.kind, data.distance)
    splits = splits_of(data, costs_of, judge, least=candidates.least)
    starts = judge._starts
    if starts is None:
        starts = [*candidates.names, *_best_of(candidates, solver, splits)] if splits else []
    # The costs on the splits so far, one row for each iteration.
    given, weight, found = np.empty((1, 0)), np.empty(0), dict.fromkeys(starts, np.empty((1, 0)))
    unit, failure = "points", None
    try:
        for split in splits:
            unit, weight = split.part.unit, np.append(weight, split.part.weight)
            given = _beside(
                given, _costs(candidates, solver, split, candidates.given, trained=False)
            )
            for start in list(found):
                try:
                    found[start] = _beside(found[start], _costs(candidates, solver, split, start))
                except _FAILURES:  # this start has lost
                    del found[start]
                    if not found:
                        raise
            goals = {start: split_columns(costs)[0] for start, costs in found.items()}
            found = {start: found[start] for start in near_best(goals, weight, candidates.equal)}
    except DivergedError:
        return None, None, None
    except (ValueError, np.linalg.LinAlgError) as error:
        splits, failure = [], error
    if not splits:
        given, weight, found, unit = np.empty((1, 0)), np.empty(0), {}, "points"
        _begin_on_all(candidates, data, solver)
    names, rows, order = ["given distance"], [(candidates.given, 0)], [0.0]
    for start, costs in found.items():
        for n in range(len(costs)):
            rows.append((start, n))
            names.append(f"{start or 'init'}, {n} iterations")
            # Among equally good settings, those without training come last.
            order.append(np.inf if n == 0 else n if candidates.shortest else -n)
    matrix = np.concatenate([given, *found.values()])
    judgement = judge_costs(
        judge, names, matrix, weight, measure, unit, failure, data.kind, settings=rows,
        equal=candidates.equal, order=np.array(order),
    )  # fmt: skip
    judgement.warn()
    start, n_iter = rows[judgement.chosen]
    is_last = judgement.chosen and n_iter == len(found[start]) - 1 > 1
    return start, None if is_last else n_iter, judgement


def _beside(costs: Array, more: Array) -> Array:
    """Append the costs of further points; `costs` has shape (1, 0) before the first points."""
    return join_parts([costs, more]) if costs.size else more


def _costs(
    candidates: Candidates, solver: Solver, split: Split, start: str | None, *, trained: bool = True
) -> Array:
    """Return the cost of each held-out point, before training and after each iteration."""
    # Training on all points will issue the warnings.
    with np.errstate(all="ignore"), one_blas_thread():
        objective, costs = candidates.begin(split.train, start), list[Array]()
        part, queries, among = split.part, split.held_out, split.held_out.points

        def cost(x: Array) -> float:
            Z, database = objective.embed(queries, x)
            search = Search(Z, database, part.exclude, part.where, objective.n_jobs)
            costs.append(split.measure(search, queries.labels, among.labels, among.weight))
            return float(means(split_columns(costs[-1][None])[0][0], part.weight))

        cost(objective.x0)
        if trained:
            history = History(
                objective.x0, cost=cost, patience=candidates.patience,
                rng=np.random.RandomState(0), quiet=True,
            )  # fmt: skip
            try:
                solver.minimize(objective, history, objective.batches(history.rng, solver))
            except DivergedError:
                if not history.curve:
                    raise
    return np.asarray(costs)


def _best_of(candidates: Candidates, solver: Solver, splits: list[Split]) -> list[str]:
    """Return the start of the contest that has the lowest cost before training."""
    if len(candidates.contest) < 2:
        return list(candidates.contest)
    weight = np.concatenate([split.part.weight for split in splits])
    means_of: dict[str, float] = {}
    for name in candidates.contest:
        with suppress(*_FAILURES):
            parts = [_costs(candidates, solver, split, name, trained=False) for split in splits]
            means_of[name] = float(means(split_columns(join_parts(parts))[0], weight)[0])
    return sorted(means_of, key=means_of.__getitem__)[:1]


def _begin_on_all(candidates: Candidates, data: Samples, solver: Solver) -> None:
    """Make one iteration with all samples, which raises the errors of arguments that do not fit."""
    objective = candidates.begin(data, candidates.given)
    history = objective.history(np.random.RandomState(0), quiet=True)
    history.max_iter = 1
    with np.errstate(all="ignore"), without_advice():
        solve(objective, history, solver)
