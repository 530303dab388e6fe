"""Selection of the start and the number of iterations, by validation points.

Up to 2,000 points, the training set is split into five folds. Above, one fifth of it validates.
Classes of few points are held out as a whole, half of them at a time.
Every start trains on the same splits. After each iteration, the nearest training points of a
validation point give its cost. A paired test of these costs compares two settings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from metricfast._core.scatter import repetitions
from metricfast._core.targets import by_appearance
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.warn import warn_user
from metricfast.distances.neighbors import kneighbors
from metricfast.metrics._neighbor_error import costs_in_half, neighbor_costs
from metricfast.training.embedded import embed
from metricfast.training.history import DivergedError, History
from metricfast.training.initialization import Initialization
from metricfast.training.samples import Samples, deduplicate
from metricfast.training.solvers import Solver
from metricfast.training.stopping import CrossValidated
from metricfast.training.train import solve

__all__ = ["select_training"]

Split = tuple[Integers, Integers]
# Up to this number of points, every fold is a validation set once; beyond it, one fold is.
_CROSS_VALIDATED = 2000
# Values of sparse points up to which copies are looked for: that takes them as a dense array.
_DENSE_VALUES = 10**6
# Standard errors of a paired difference, below which two settings count as equally good,
_EQUAL = 1.0
# and beyond which a start is given up after some of the folds, or training is better than none.
_BEHIND = _SURELY = 2.0
# Points of the median class below which classes are held out, not points.
_FEW_POINTS = 5
# Points for each feature up to which a map can fit all of them.
_WIDE = 2


def select_training(
    learner: Any,
    data: Samples,
    rule: CrossValidated,
    solver: Solver,
    initialization: Initialization,
    *,
    required: bool,
) -> tuple[str | None, int | None]:
    """Return the initial map and the number of iterations with the lowest validation cost.

    Parameters
    ----------
    learner : LinearLearner
        Its `_problem` returns what each fold minimises.
    data : Samples
    rule : CrossValidated
    solver : solver
    initialization : Initialization
    required : bool
        Whether to raise ValueError where the points cannot be split. Otherwise nothing is selected.

    Returns
    -------
    start : str or None
        One of the alternatives of `initialization`, or None for the map of `init`.
    n_iter : int or None
        0 if the map is better without training; None if the last iteration is the best.
    """
    if data.in_chunks:
        if required:
            raise ValueError("CrossValidated needs points in memory: set early_stopping=False.")
        return None, None
    least, points = learner._min_class_size, _distinct(data)
    splits = _class_splits(points.class_codes, least, rule.unit)
    by_classes = bool(splits)
    if not splits and rule.unit != "classes":
        splits = _splits(points.groups, least, rule.n_folds)
    if not splits:
        if not required:
            return None, None
        if rule.unit == "classes":
            raise ValueError(
                f"CrossValidated(unit='classes') needs four classes of more than {least - 1} "
                "different points: give more points, or set unit='points'."
            )
        raise ValueError(
            f"CrossValidated needs two classes of more than {least} different points: give more "
            "points, or set early_stopping to True or False."
        )
    starts, weight = [None, *initialization.alternatives(data)], points.weight
    assert weight is not None
    initialization = replace(initialization, chosen={})
    # A map can fit so few points exactly, which says nothing of others.
    n_samples, n_features = points.X.shape
    wide = points.has_classes and n_samples <= _WIDE * n_features
    costs_of = _costs_of_new if by_classes else _costs_of_few if wide else neighbor_costs
    fold = _Fold(learner, points, weight, solver, initialization, int(rule.patience), costs_of)
    judged = np.concatenate([weight[test] for _, test in splits])
    try:
        costs = _race(fold.costs, splits, starts, weight)
        start, n_iter = _select(costs, judged, shortest=learner._selects_shortest)
        if not (by_classes or wide):
            return start, n_iter
        given = initialization.given
        untrained = [fold.costs(*split, given, trained=False) for split in splits]
    except (DivergedError, ValueError):
        if required:
            raise
        return None, None  # the training on all points raises it again
    last = len(costs[start]) - 1
    learned = costs[start][last if n_iter is None else min(n_iter, last)]
    if _excess(_joined(untrained)[0], learned, judged) > _SURELY:
        return start, n_iter
    unit = "classes" if by_classes else "points"
    warn_user(
        f"No training was better than none by two standard errors on held-out {unit}, so the map "
        f"is the initial one: give more {unit}, or early_stopping=False to train all the same."
    )
    return given, 0


@dataclass(frozen=True)
class _Fold:
    """Trainings on the folds: their common arguments."""

    learner: Any
    data: Samples
    weight: Floats
    solver: Solver
    initialization: Initialization
    patience: int
    costs_of: Callable[..., Array]

    def costs(
        self, train: Integers, test: Integers, start: str | None, *, trained: bool = True
    ) -> Array:
        """Return the cost of each validation point, before training and after each iteration."""
        rng, weight = np.random.RandomState(0), self.weight
        # Training on all points gives the warnings.
        with np.errstate(all="ignore"), one_blas_thread():
            part = self.data.take(train)
            L = self.initialization.initial_map(part, rng, quiet=True)
            problem = self.learner._problem(part)
            objective = self.initialization.start(problem, part, L, rng, start)
            data, x0 = objective.coordinates(self.data), objective.x0
            n_jobs = objective.n_jobs

            def costs_at(x: Array) -> Array:
                # Mapped together: sparse points are centred where they are mapped to.
                Z = embed(objective.embedding, objective.parameters(x), data.X, n_jobs=n_jobs)
                return self.costs_of(Z, data.labels, train, test, weight, n_jobs)

            costs = [costs_at(x0)]
            if not trained:
                return np.asarray(costs)

            def mean_cost(x: Array) -> float:
                costs.append(costs_at(x))
                return float(_means(costs[-1], weight[test]))

            history = History(x0, cost=mean_cost, patience=self.patience, quiet=True)
            try:
                solve(objective, history, self.solver)
            except DivergedError:
                if not history.curve:
                    raise
        return np.asarray(costs)


def _distinct(data: Samples) -> Samples:
    """Return the distinct points of positive weight, so that no copy is in both parts."""
    n, d = data.X.shape
    if not issparse(data.X) or n * d <= _DENSE_VALUES:
        return deduplicate(data)
    weight = repetitions(data.weight, n)
    rows = np.flatnonzero(weight)
    return replace(data.take(rows), weight=weight[rows])


def _splits(groups: Integers, least: int, n_folds: int = 5) -> list[Split]:
    """Return training and validation rows of each split, each class in the same proportion.

    Classes are dealt in the order in which their points come, so that their names do not matter.
    Points of a class stay in every training part where it would have fewer than `least` of them.
    There are no splits where fewer than two classes have enough points.
    """
    n = len(groups)
    codes = by_appearance(groups)
    sizes = np.bincount(codes)
    enough = sizes - -(-sizes // n_folds) >= least
    if not enough.any() or (len(sizes) > 1 and enough.sum() < 2):
        return []
    shuffled = np.random.RandomState(0).permutation(n)
    order = shuffled[np.argsort(codes[shuffled], kind="stable")]
    order = order[enough[codes[order]]]
    fold = np.full(n, -1)
    fold[order] = np.arange(len(order)) % n_folds
    n_splits = n_folds if n <= _CROSS_VALIDATED else 1
    return [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(n_splits)]


def _class_splits(codes: Integers | None, least: int, unit: str) -> list[Split]:
    """Return training and validation rows, each of half of the classes, and the other way round.

    Points of classes with fewer than `least` of them, or without a second, only take part as
    neighbours. There are no splits unless two classes of each half are left, nor if classes have
    enough points to be divided and `unit` does not name them.
    """
    if codes is None or unit == "points":
        return []
    codes = by_appearance(codes)
    sizes = np.bincount(codes)
    if unit == "auto" and np.median(sizes) >= _FEW_POINTS:
        return []
    several = np.flatnonzero(sizes >= max(2, least))
    if len(several) < 4:
        return []
    halves = np.array_split(np.random.RandomState(0).permutation(several), 2)
    first, second = (np.flatnonzero(np.isin(codes, half)) for half in halves)
    return [(first, second), (second, first)]


def _costs_of_new(
    Z: Array, y: Array, train: Integers, test: Integers, weight: Floats, n_jobs: int | None
) -> Array:
    """Return, of each held-out point, whether the nearest of all others has another class."""
    del train, weight
    near = kneighbors(Z[test], Z, 1, exclude=test, n_jobs=n_jobs)[1][:, 0]
    return np.asarray(y[near] != y[test], np.float32)


def _costs_of_few(
    Z: Array, y: Array, train: Integers, test: Integers, weight: Floats, n_jobs: int | None
) -> Array:
    """Return the expected error of the nearest in a random half of the training points."""
    del weight
    return costs_in_half(Z[train], y[train], Z[test], y[test], n_jobs).astype(np.float32)


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
    joined: dict[str | None, Array] = {}
    for number, (train, test) in enumerate(splits):
        for start, found in costs.items():
            found.append(costs_of(train, test, start))
        joined = {start: _joined(found) for start, found in costs.items()}
        seen = np.concatenate([weight[rows] for _, rows in splits[: number + 1]])
        best = {start: each[_means(each, seen).argmin()] for start, each in joined.items()}
        lowest = min(best.values(), key=lambda each: float(_means(each, seen)))
        behind = {start: _excess(each, lowest, seen) > _BEHIND for start, each in best.items()}
        costs = {start: found for start, found in costs.items() if not behind[start]}
    return {start: joined[start] for start in costs}


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
    costs: dict[str | None, Array], weight: Floats, *, shortest: bool
) -> tuple[str | None, int | None]:
    """Return the start and the number of iterations, see `select_training`.

    Among settings that a paired test does not separate from the best, the result has the fewest
    iterations (the most with `shortest=False`). Ties go to the lowest cost.
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
    n_iter = int(np.flatnonzero(good.any(axis=0))[0 if shortest else -1])
    start = int(np.where(good[:, n_iter], trained[:, n_iter], np.inf).argmin())
    n_iter += 1
    return starts[start], None if 1 < n_iter == trained.shape[1] else n_iter


def _together(costs: list[Array]) -> Array:
    most = max(map(len, costs))
    return np.stack([np.pad(each, ((0, most - len(each)), (0, 0)), "edge") for each in costs])
