"""Where to start, and how many iterations to train for: what serves points that are left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricfast._core.scatter import repetitions
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.types import Integers
from metricfast._core.warn import unwarned
from metricfast.distances.neighbors import kneighbors
from metricfast.learners.base.points import TrainingSet
from metricfast.learners.base.shrinkage import share_of_others
from metricfast.learners.linear.copies import distinct
from metricfast.training.chunks import Chunked
from metricfast.training.monitor import DivergedError, Monitor
from metricfast.training.objective import Objective, map_points

__all__ = ["chosen"]

Array = NDArray[Any]
_N_FOLDS = 5
# Points that are looked at: those of more folds are left alone.
_MOST = 1000
# Values of points in which copies are looked for.
_VALUES = 10**6
# Share of the standard error of a judgement that tells nothing.
_CHANCE = 0.25
# Standard errors behind the best start after which another is given up.
_BEHIND = 2.0
# Neighbours that left out points are judged by: more than vote in most uses, which is less noisy.
_NEIGHBORS = 5


def chosen(learner: Any, data: TrainingSet) -> tuple[str | None, int | None]:
    """Return from which start, and for how many iterations, to train a linear learner.

    Those under which left out points are judged best. The start is one of `_other_starts`, or None:
    that of `init`. The iterations are 0 where a start is better as it is, None where none before
    the last is better, and where `early_stopping` asks for no folds, or "auto" finds none. Raises
    ValueError where they are asked for and cannot be made.
    """
    how, least = learner.early_stopping, learner._least_of_class
    wanted = how == "folds" or (how == "auto" and learner.solver in learner._by_folds)
    if not wanted or (how == "auto" and isinstance(data.X, Chunked)):
        return None, None
    if isinstance(data.X, Chunked):
        raise ValueError("early_stopping='folds' needs points in memory: set True or False.")
    some = _some(data)
    folds = _folds(some.labels, least)
    if not folds and how == "auto":
        return None, None
    if not folds:
        raise ValueError(
            f"early_stopping='folds' needs {least} different points of each class in every "
            f"{_N_FOLDS - 1} of {_N_FOLDS} parts: give more of them, or set True or False."
        )
    starts = [None, *learner._other_starts(data)]
    try:
        costs = _race(partial(_costs, learner, some), folds, starts)
    except (DivergedError, ValueError):
        if how == "auto":  # the training of all points will tell, if it fails, too
            return None, None
        raise
    n_judged = sum(len(test) for _, test in folds)
    means = _means(list(costs.values()))
    untrained, means = means[:, 0], means[:, 1:] if means.shape[1] > 1 else means
    if untrained.min() < means.min() - _by_chance(means.min(), n_judged):
        return list(costs)[int(untrained.argmin())], 0
    best, most = _serving(means, n_judged, fewest=learner._fewest)
    return list(costs)[best], None if 1 < most == means.shape[1] else most


def _some(data: TrainingSet) -> TrainingSet:
    """Return points that folds are made of, each once, and how often they are there."""
    n_features = data.X.shape[1]
    most = min(10 * _MOST, max(_MOST, _VALUES // n_features))
    weight = repetitions(data.weight, len(data.labels))
    rows = np.flatnonzero(weight)
    if len(rows) > most:
        some = _by_classes(data.labels[rows])[np.linspace(0, len(rows) - 1, most).astype(np.int64)]
        rows = rows[np.sort(some)]
    seen = replace(data.take(rows), weight=weight[rows])
    return distinct(seen) if _MOST * n_features <= _VALUES else seen


def _race(
    costs_of: Callable[..., list[float]],
    folds: list[tuple[Integers, Integers]],
    starts: list[str | None],
) -> dict[str | None, list[list[float]]]:
    """Return the costs of all folds, of the starts that stay near the best until the last fold."""
    costs: dict[str | None, list[list[float]]] = {start: [] for start in starts}
    n_judged, spreads = 0, dict[str | None, Any]()
    for train, test in folds:
        for start, found in costs.items():
            found.append(costs_of(train, test, start, spreads))
        n_judged += len(test)
        lowest = {start: float(_means([found]).min()) for start, found in costs.items()}
        least = min(lowest.values())
        bound = least + _BEHIND * np.sqrt(max(least * (1 - least), 1 / n_judged) / n_judged)
        costs = {start: costs[start] for start in costs if lowest[start] <= bound}
    return costs


def _costs(
    learner: Any,
    data: TrainingSet,
    train: Integers,
    test: Integers,
    start: str | None,
    spreads: dict[str | None, Any],
) -> list[float]:
    """Return how left out points are judged before training, and after each iteration.

    `spreads`: how far points are spread by the starts of the folds before.
    """
    part = data.take(train)
    # The training of all points will tell.
    with unwarned(), np.errstate(all="ignore"), one_blas_thread():
        objective, x0 = learner._starting(part, np.random.RandomState(0), None, start, spreads)
        objective = objective.here()
        cost = _judge(learner, objective, data, train, test)
        monitor = Monitor(x0, cost=cost, patience=learner.n_iter_no_change)
        try:
            learner._solve(objective, monitor, learner._batches(part, objective, monitor.rng))
        except DivergedError:
            if not monitor.curve:
                raise
    return [cost(x0), *monitor.costs]


def _folds(labels: Integers, least: int) -> list[tuple[Integers, Integers]]:
    """Return which points are trained on and which are left out, in each fold; classes alike.

    There are none where fewer than `least` points of a class would be trained on.
    """
    fold = np.empty(len(labels), np.int64)
    fold[_by_classes(labels)] = np.arange(len(labels)) % max(
        _N_FOLDS, -(-len(labels) * _N_FOLDS // _MOST)
    )
    used = fold < _N_FOLDS
    found = [
        (np.flatnonzero(used & (fold != i)), np.flatnonzero(fold == i)) for i in range(_N_FOLDS)
    ]
    codes = np.unique(labels, return_inverse=True)[1]
    fewest = min(np.bincount(codes[train], minlength=codes.max() + 1).min() for train, _ in found)
    return found if codes.max() > 0 and fewest >= least else []


def _by_classes(labels: Integers) -> Integers:
    """Return where the points of each class are, one class after the other, each in any order."""
    shuffled = np.random.RandomState(0).permutation(len(labels))
    return np.asarray(shuffled[np.argsort(labels[shuffled], kind="stable")])


def _judge(
    learner: Any, objective: Objective, data: TrainingSet, train: Integers, test: Integers
) -> Callable[[Array], float]:
    """Return what tells of parameters how often neighbours of left out points are of others."""
    weight, y = data.weight, data.labels
    assert weight is not None
    k = min(len(train), _NEIGHBORS)

    def cost(x: Array) -> float:
        # Together, since sparse points are centred where they are mapped to.
        Z = map_points(data.X, learner._map(objective, x), learner.n_jobs)
        near = train[kneighbors(Z[test], Z[train], k, n_jobs=learner.n_jobs)[1]]
        return share_of_others(weight[near], y[near] != y[test][:, None], weight[test], k)

    return cost


def _means(costs: list[list[list[float]]]) -> Array:
    """Return the mean cost of folds, for each start and number of iterations.

    A training that ended before stays as it was.
    """
    most = max(len(found) for of_start in costs for found in of_start)
    filled = [[found + found[-1:] * (most - len(found)) for found in some] for some in costs]
    return np.asarray(np.round(np.mean(filled, axis=1), 12))


def _by_chance(cost: float, n_judged: int) -> float:
    """Return how far judgements may be apart that tell nothing."""
    return float(_CHANCE * np.sqrt(cost * (1 - cost) / n_judged))


def _serving(costs: Array, n_judged: int, *, fewest: bool) -> tuple[int, int]:
    """Return the start and the fewest iterations that are as good as the best, but for chance.

    `costs`: after one iteration, and so on. `fewest`: False asks for the most iterations.
    """
    good = costs <= costs.min() + _by_chance(costs.min(), n_judged)
    last = int(np.flatnonzero(good.any(axis=0))[0 if fewest else -1])
    return int(np.where(good[:, last], costs[:, last], np.inf).argmin()), 1 + last
