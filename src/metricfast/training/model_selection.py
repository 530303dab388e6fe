"""Selection of the start and the number of iterations by held-out points.

Every start trains on the same splits. After each iteration, the nearest neighbours of a held-out
point determine its cost. Two settings are compared by a paired test of these costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from metricfast._core.threadpool import one_blas_thread
from metricfast._core.types import Array, Floats
from metricfast._core.warn import warn_user
from metricfast.training.history import DivergedError, History
from metricfast.training.objective import Objective
from metricfast.training.samples import Samples
from metricfast.training.solvers import Solver
from metricfast.training.splits import Split, splits_of
from metricfast.training.stopping import CrossValidated
from metricfast.training.train import solve

__all__ = ["Candidates", "Choice", "select_training"]

# Standard errors by which training must be better than none, if a map can fit all points.
_SURELY = 2.0


class Choice(NamedTuple):
    """The chosen start and number of iterations, with their costs.

    Attributes
    ----------
    start : str or None
        The name of the start; None for the start of the parameters.
    n_iter : int or None
        0 if the start is better without training, None if the last iteration is the best.
    cost, given_cost : float
        The mean costs of held-out points under the choice, and under the given distance.
    error : float
        The standard error of their difference.
    """

    start: str | None = None
    n_iter: int | None = None
    cost: float = math.nan
    given_cost: float = math.nan
    error: float = math.nan


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
    least : int
        Points of a class that a training needs.
    equal : float
        Standard errors of a paired difference, below which two settings count as equally good. A
        start is given up after some of the splits beyond twice as many.
    shortest : bool
        Whether the shortest of equally good trainings is chosen, not the longest.
    evidence : float
        Standard errors by which training must be better than the given distance.
    vote : bool
        Whether held-out points are judged by five neighbours, not by the nearest.
    """

    begin: Callable[[Samples, str | None], Objective]
    names: Sequence[str | None]
    given: str | None
    least: int = 2
    equal: float = 1.0
    shortest: bool = True
    evidence: float = 0.0
    vote: bool = True


def select_training(
    candidates: Candidates, data: Samples, rule: CrossValidated, solver: Solver, *, required: bool
) -> Choice:
    """Return the start and the number of iterations with the lowest cost.

    `required`: whether to raise ValueError if the points cannot be split; otherwise nothing is
        selected.
    """
    kept = "points in memory" if data.in_chunks else "classes" if data.has_other_labels else None
    if kept is not None:
        if required:
            raise ValueError(f"CrossValidated needs {kept}: set early_stopping to True or False.")
        return Choice()
    least = candidates.least
    splits, unit, few = splits_of(
        data, rule, least, by_batches=solver.by_batches, vote=candidates.vote
    )
    if not splits:
        if not required:
            return Choice()
        if unit == "classes":
            raise ValueError(
                f"CrossValidated(unit='classes') needs four classes of more than {least - 1} "
                "different points: give more points, or set unit='points'."
            )
        raise ValueError(
            f"CrossValidated needs two classes of more than {least} different points: give more "
            "points, or set early_stopping to True or False."
        )
    weight = np.concatenate([split.weight for split in splits])
    costs_of = partial(_costs, candidates, solver, int(rule.patience))
    try:
        costs = _race(costs_of, splits, candidates.names, 2 * candidates.equal)
        choice = _select(costs, weight, candidates.equal, shortest=candidates.shortest)
        given = [costs_of(split, candidates.given, trained=False) for split in splits]
    except (DivergedError, ValueError):
        if required:
            raise
        return Choice()  # training on all points will raise it
    last = len(costs[choice.start]) - 1
    learned = costs[choice.start][last if choice.n_iter is None else min(choice.n_iter, last)]
    untrained = _joined(given)[0]
    of_given, difference = _means(untrained, weight), untrained.astype(np.float64) - learned
    error = math.sqrt(float(_means(difference**2, weight)) / weight.sum())
    wanted = _SURELY if few else candidates.evidence
    if _excess(untrained, learned, weight) >= wanted and choice[:2] != (candidates.given, 0):
        cost = float(_means(learned, weight))
        return choice._replace(cost=cost, given_cost=float(of_given), error=error)
    other = ", or CrossValidated(unit='points') if no new classes will come" * (unit == "classes")
    surely = {0.0: "", 1.0: " by a standard error"}.get(wanted, " by two standard errors")
    warn_user(
        f"No training was better than none{surely} on held-out {unit}, so the map is the initial "
        f"one: give more {unit}, or early_stopping=False to train anyway{other}."
    )
    return Choice(candidates.given, 0, float(of_given), float(of_given), 0.0)


def _costs(
    candidates: Candidates, solver: Solver, patience: int, split: Split, start: str | None, *,
    trained: bool = True,
) -> Array:  # fmt: skip
    """Return the cost of each held-out point, before training and after each iteration."""
    # Training on all points will issue the warnings.
    with np.errstate(all="ignore"), one_blas_thread():
        objective = candidates.begin(split.train, start)
        held_out = objective.coordinates(split.held_out)

        def costs_at(x: Array) -> Array:
            return split.costs(*objective.embed(held_out, x), objective.n_jobs)

        costs = [costs_at(objective.x0)]
        if not trained:
            return np.asarray(costs)

        def mean_cost(x: Array) -> float:
            costs.append(costs_at(x))
            return float(_means(costs[-1], split.weight))

        rng = np.random.RandomState(0)
        history = History(objective.x0, cost=mean_cost, patience=patience, rng=rng, quiet=True)
        try:
            solve(objective, history, solver)
        except DivergedError:
            if not history.curve:
                raise
    return np.asarray(costs)


def _race(
    costs_of: Callable[..., Array], splits: list[Split], starts: Sequence[str | None], behind: float
) -> dict[str | None, Array]:
    """Return the validation costs of the starts that remain near the best until the last split.

    Each array has one row for no training and one per iteration, and one column per point.
    """
    costs: dict[str | None, list[Array]] = {start: [] for start in starts}
    joined: dict[str | None, Array] = {}
    for number, split in enumerate(splits, 1):
        for start, found in costs.items():
            found.append(costs_of(split, start))
        joined = {start: _joined(found) for start, found in costs.items()}
        seen = np.concatenate([each.weight for each in splits[:number]])
        best = {start: each[_means(each, seen).argmin()] for start, each in joined.items()}
        lowest = min(best.values(), key=lambda each: float(_means(each, seen)))
        near = {start: _excess(each, lowest, seen) <= behind for start, each in best.items()}
        costs = {start: found for start, found in costs.items() if near[start]}
    return {start: joined[start] for start in costs}


def _joined(found: list[Array]) -> Array:
    """Return the costs of all splits side by side; shorter trainings repeat their last row."""
    most = max(map(len, found))
    return np.hstack([np.pad(each, ((0, most - len(each)), (0, 0)), "edge") for each in found])


def _means(costs: Array, weight: Floats) -> Array:
    return np.asarray(np.round(costs @ (weight / weight.sum()), 12))


def _excess(costs: Array, best: Array, weight: Floats) -> Array:
    """Return the mean excess of costs over the best, in standard errors of the paired difference.

    For costs of 0 and 1, this is McNemar's statistic, (b - c) / sqrt(b + c).
    """
    difference = costs.astype(np.float64) - best
    square = _means(difference**2, weight) / weight.sum()
    return np.asarray(np.round(_means(difference, weight) / np.sqrt(square + 1e-300), 6))


def _select(
    costs: dict[str | None, Array], weight: Floats, equal: float = 1.0, *, shortest: bool
) -> Choice:
    """Return the start and the number of iterations with the lowest cost.

    Among settings that a paired test does not separate from the best, the result has the fewest
    iterations (the most with `shortest=False`). Ties go to the lowest cost.
    """
    starts, joined = list(costs), _together(list(costs.values()))
    means = _means(joined, weight)
    trained = means[:, 1:] if means.shape[1] > 1 else means
    untrained = int(means[:, 0].argmin())
    best = np.unravel_index(trained.argmin(), trained.shape)
    lowest = joined[:, 1:][best] if means.shape[1] > 1 else joined[best]
    if _excess(lowest, joined[untrained, 0], weight) > equal:
        return Choice(starts[untrained], 0)
    good = _excess(joined[:, -trained.shape[1] :], lowest, weight) <= equal
    n_iter = int(np.flatnonzero(good.any(axis=0))[0 if shortest else -1])
    start = int(np.where(good[:, n_iter], trained[:, n_iter], np.inf).argmin())
    n_iter += 1
    return Choice(starts[start], None if 1 < n_iter == trained.shape[1] else n_iter)


def _together(costs: list[Array]) -> Array:
    most = max(map(len, costs))
    return np.stack([np.pad(each, ((0, most - len(each)), (0, 0)), "edge") for each in costs])
