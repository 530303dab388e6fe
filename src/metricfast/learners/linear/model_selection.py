"""Selection of the start and the number of iterations, by validation points.

The training set is split as it is: into five folds up to 2,000 points, else into one fifth and the
rest. Every start trains on the same splits. After each iteration the neighbours of validation
points give a cost for each of these points, so that two settings are compared by a paired test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from metricfast._core.scatter import repetitions
from metricfast._core.targets import by_appearance
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.types import Floats, Integers
from metricfast._core.warn import unwarned
from metricfast.distances.neighbors import kneighbors
from metricfast.learners.base.points import TrainingSet
from metricfast.learners.base.shrinkage import count_votes
from metricfast.learners.linear.copies import distinct
from metricfast.training.chunks import Chunked
from metricfast.training.monitor import DivergedError, Monitor
from metricfast.training.objective import Objective, map_points

__all__ = ["select_training"]

Array = NDArray[Any]
Split = tuple[Integers, Integers]
_N_FOLDS = 5
# Up to this number of points, every fold is a validation set once; beyond it, one fold is.
_CROSS_VALIDATED = 2000
# Values of sparse points up to which copies are looked for: that takes them as a dense array.
_DENSE_VALUES = 10**6
# Standard errors of a paired difference, below which two settings count as equally good,
_EQUAL = 1.0
# and beyond which a start is given up after some of the folds.
_BEHIND = 2.0
# Neighbours of a validation point: more than most uses look at, which is less noisy.
_NEIGHBORS = 5


def select_training(learner: Any, data: TrainingSet) -> tuple[str | None, int | None]:
    """Return the start and the number of iterations with the lowest validation cost.

    The start is one of `_other_starts`, or None: that of `init`. The number is 0 where a start is
    better without training; None where the last iteration is the best, or where nothing is
    selected: `early_stopping` does not ask for it, or "auto" cannot split the points. Raises
    ValueError where "folds" cannot split them.
    """
    how, least = learner.early_stopping, learner._least_of_class
    wanted = how == "folds" or (how == "auto" and learner.solver in learner._by_folds)
    if not wanted or (how == "auto" and isinstance(data.X, Chunked)):
        return None, None
    if isinstance(data.X, Chunked):
        raise ValueError("early_stopping='folds' needs points in memory: set True or False.")
    points = _distinct(data)
    splits = _splits(points.groups, least)
    if not splits and how == "auto":
        return None, None
    if not splits:
        raise ValueError(
            f"early_stopping='folds' needs two classes of more than {least} different points: "
            "give more of them, or set True or False."
        )
    starts, weight = [None, *learner._other_starts(data)], points.weight
    assert weight is not None
    try:
        costs = _race(partial(_costs, learner, points), splits, starts, weight)
    except (DivergedError, ValueError):
        if how == "auto":  # the training on all points raises it again
            return None, None
        raise
    judged = np.concatenate([weight[test] for _, test in splits])
    return _select(costs, judged, fewest=learner._fewest)


def _distinct(data: TrainingSet) -> TrainingSet:
    """Return the different points of positive weight, so that no copy is in both parts."""
    n, d = data.X.shape
    if not issparse(data.X) or n * d <= _DENSE_VALUES:
        return distinct(data)
    weight = repetitions(data.weight, n)
    rows = np.flatnonzero(weight)
    return replace(data.take(rows), weight=weight[rows])


def _splits(groups: Integers, least: int) -> list[Split]:
    """Return training and validation rows of each split, each class in the same proportion.

    Classes are dealt in the order in which their points come, so that their names do not matter.
    Points of a class stay in every training part where it would have fewer than `least` of them.
    There are no splits where fewer than two classes have enough points.
    """
    n = len(groups)
    codes = by_appearance(groups)
    sizes = np.bincount(codes)
    enough = sizes - -(-sizes // _N_FOLDS) >= least
    if not enough.any() or (len(sizes) > 1 and enough.sum() < 2):
        return []
    shuffled = np.random.RandomState(0).permutation(n)
    order = shuffled[np.argsort(codes[shuffled], kind="stable")]
    order = order[enough[codes[order]]]
    fold = np.full(n, -1)
    fold[order] = np.arange(len(order)) % _N_FOLDS
    n_splits = _N_FOLDS if n <= _CROSS_VALIDATED else 1
    return [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(n_splits)]


def _race(
    costs_of: Callable[..., Array],
    splits: list[Split],
    starts: list[str | None],
    weight: Floats,
) -> dict[str | None, Array]:
    """Return the validation costs of the starts that stay near the best until the last split.

    Each array has a row for no training and for every iteration, and a column for each point.
    """
    costs: dict[str | None, list[Array]] = {start: [] for start in starts}
    spreads = dict[str | None, Any]()
    joined: dict[str | None, Array] = {}
    for number, (train, test) in enumerate(splits):
        for start, found in costs.items():
            found.append(costs_of(train, test, start, spreads))
        joined = {start: _joined(found) for start, found in costs.items()}
        seen = np.concatenate([weight[rows] for _, rows in splits[: number + 1]])
        best = {start: each[_means(each, seen).argmin()] for start, each in joined.items()}
        lowest = min(best.values(), key=lambda each: float(_means(each, seen)))
        behind = {start: _excess(each, lowest, seen) > _BEHIND for start, each in best.items()}
        costs = {start: found for start, found in costs.items() if not behind[start]}
    return {start: joined[start] for start in costs}


def _costs(
    learner: Any,
    data: TrainingSet,
    train: Integers,
    test: Integers,
    start: str | None,
    spreads: dict[str | None, Any],
) -> Array:
    """Return the cost of each validation point, before training and after each iteration.

    `spreads`: the scales of starts that earlier splits have found.
    """
    part, weight = data.take(train), data.weight
    assert weight is not None
    # Training on all points gives the warnings.
    with unwarned(), np.errstate(all="ignore"), one_blas_thread():
        objective, x0 = learner._starting(part, np.random.RandomState(0), None, start, spreads)
        objective = objective.here()
        cost = _validation_cost(learner, objective, data, train, test)
        costs = [cost(x0)]

        def mean_cost(x: Array) -> float:
            costs.append(cost(x))
            return float(_means(costs[-1], weight[test]))

        monitor = Monitor(x0, cost=mean_cost, patience=learner.n_iter_no_change)
        try:
            learner._solve(objective, monitor, learner._batches(part, objective, monitor.rng))
        except DivergedError:
            if not monitor.curve:
                raise
    return np.asarray(costs)


def _validation_cost(
    learner: Any, objective: Objective, data: TrainingSet, train: Integers, test: Integers
) -> Callable[[Array], Array]:
    """Return the function from parameters to costs of validation points.

    A cost is the share of the nearest training points that are of another class, or the squared
    error of their mean target.
    """
    weight, y = data.weight, data.labels
    assert weight is not None
    k = min(len(train), _NEIGHBORS)

    def cost(x: Array) -> Array:
        # Together, since sparse points are centred where they are mapped to.
        Z = map_points(data.X, learner._map(objective, x), learner.n_jobs)
        near = train[kneighbors(Z[test], Z[train], k, n_jobs=learner.n_jobs)[1]]
        votes = count_votes(weight[near], k)
        votes /= votes.sum(axis=1, keepdims=True)
        if y.dtype.kind == "i":
            found = (votes * (y[near] != y[test][:, None])).sum(axis=1)
        else:
            found = ((votes * y[near]).sum(axis=1) - y[test]) ** 2
        return np.asarray(found, np.float32)

    return cost


def _joined(found: list[Array]) -> Array:
    """Return the costs of all splits side by side; a training that ended stays as it was."""
    most = max(map(len, found))
    return np.hstack([np.pad(each, ((0, most - len(each)), (0, 0)), "edge") for each in found])


def _means(costs: Array, weight: Floats) -> Array:
    return np.asarray(np.round(costs @ (weight / weight.sum()), 12))


def _excess(costs: Array, best: Array, weight: Floats) -> Array:
    """Return by how many standard errors costs exceed others of the same points, in the mean.

    That of costs 0 and 1 is McNemar's statistic: (b - c) / sqrt(b + c).
    """
    difference = costs.astype(np.float64) - best
    square = _means(difference**2, weight) / weight.sum()
    return np.asarray(np.round(_means(difference, weight) / np.sqrt(square + 1e-300), 6))


def _select(
    costs: dict[str | None, Array], weight: Floats, *, fewest: bool
) -> tuple[str | None, int | None]:
    """Return the start and the number of iterations, see `select_training`.

    Of settings that a paired test cannot tell from the best, that with the fewest iterations
    (`fewest=False`: the most), and of these the one with the lowest cost.
    """
    starts, joined = list(costs), _together(list(costs.values()))
    means = _means(joined, weight)
    trained = means[:, 1:] if means.shape[1] > 1 else means
    untrained = int(means[:, 0].argmin())
    best = np.unravel_index(trained.argmin(), trained.shape)
    lowest = joined[:, 1:][best] if means.shape[1] > 1 else joined[best]
    if _excess(lowest, joined[untrained, 0], weight) > _EQUAL:
        return starts[untrained], 0
    good = _excess(joined[:, -trained.shape[1] :], lowest, weight) <= _EQUAL
    n_iter = int(np.flatnonzero(good.any(axis=0))[0 if fewest else -1])
    start = int(np.where(good[:, n_iter], trained[:, n_iter], np.inf).argmin())
    n_iter += 1
    return starts[start], None if 1 < n_iter == trained.shape[1] else n_iter


def _together(costs: list[Array]) -> Array:
    most = max(map(len, costs))
    return np.stack([np.pad(each, ((0, most - len(each)), (0, 0)), "edge") for each in costs])
