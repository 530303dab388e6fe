"""Splits of samples into training and validation samples.

Up to 2,000 points, each fold is held out in turn; above, only one fold. With mini-batches, folds
are held out until there are enough validation points. If there are many small classes, each half of
the classes is held out in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from metricfast._core.scatter import repetitions
from metricfast._core.targets import by_appearance
from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.neighbors import kneighbors
from metricfast.metrics._held_out import class_halves
from metricfast.metrics._neighbor_error import costs_in_half, neighbor_costs
from metricfast.training.samples import Samples, deduplicate
from metricfast.training.stopping import CrossValidated

__all__ = ["Split", "holds_classes_out", "splits_of"]

# Up to this number of points, every fold is held out once; above it, only one fold.
_CROSS_VALIDATED = 2000
# With mini-batches: sufficient number of validation points, and maximum number per fold.
_ENOUGH, _HELD_OUT = 333, 1000
# Maximum number of values of sparse points to search for duplicates, which needs a dense array.
_DENSE_VALUES = 10**6
# Number of points per feature up to which a map can fit all points.
_WIDE = 2


@dataclass(frozen=True, eq=False)
class Split:
    """Training samples and validation samples.

    Attributes
    ----------
    train, held_out : Samples
        The database of `held_out` holds the points among which neighbours are searched.
    weight : ndarray
        The weights of the held-out points.
    exclude : ndarray or None
        The indices of the held-out points in this database, if they are in it.
    cost : callable
        The cost of each held-out point, ``cost(Z_database, y_database, Z, y, ...)``.
    """

    train: Samples
    held_out: Samples
    weight: Floats
    exclude: Integers | None
    cost: Callable[..., Array]

    def costs(self, Z: Array, Z_database: Array, n_jobs: int | None) -> Array:
        """Embed the held-out points and the database, and return the cost of each point."""
        held, among = self.held_out, self.held_out.points
        return self.cost(
            Z_database, among.labels, Z, held.labels, among.weight, self.exclude, n_jobs
        )


def splits_of(
    data: Samples, rule: CrossValidated, least: int, *, by_batches: bool = False, vote: bool = True
) -> tuple[list[Split], str, bool]:
    """Return the splits, the unit that is held out, and whether a map can fit all points.

    `least`: minimum number of training points per class. There are no splits if too few classes
        have this many points. `by_batches`: hold out few points, because training is slow. `vote`:
        compute costs from five neighbours.
    """
    points = _distinct(data)
    assert points.weight is not None
    n_samples, n_features = points.X.shape
    wide = points.has_classes and n_samples <= _WIDE * n_features
    found = _class_splits(points, least, rule.unit)
    if found:
        return found, "classes", True
    if rule.unit == "classes":
        return [], "classes", True
    cost = _costs_of_many if vote and not wide else _costs_of_nearest
    folds = _folds(points.groups, least, rule.n_folds, by_batches=by_batches)
    return [_point_split(points, *fold, cost) for fold in folds], "points", wide


def holds_classes_out(data: Samples) -> bool:
    """Return whether to hold out classes instead of points: if there are many small classes."""
    return bool(_class_halves(data, 2, "auto"))


def _distinct(data: Samples) -> Samples:
    """Return the distinct points with positive weight, so that no duplicates are in both parts."""
    n, d = data.X.shape
    if data.database is not None and _same(data, data.database):
        data = replace(data, database=None)
    if data.database is None and (not issparse(data.X) or n * d <= _DENSE_VALUES):
        return deduplicate(data)
    weight = repetitions(data.weight, n)
    rows = np.flatnonzero(weight)
    return replace(data.take(rows), weight=weight[rows])


def _same(queries: Samples, database: Samples) -> bool:
    """Return whether the database holds the queries themselves, which would find each other."""
    pairs = (queries.X, database.X), (queries.labels, database.labels)
    return all(isinstance(a, np.ndarray) and np.array_equal(a, b) for a, b in pairs)


def _point_split(
    data: Samples, train: Integers, test: Integers, cost: Callable[..., Array]
) -> Split:
    assert data.weight is not None
    return Split(data.take(train), data.validation(train, test), data.weight[test], None, cost)


def _folds(
    groups: Integers, least: int, n_folds: int = 5, *, by_batches: bool = False
) -> list[tuple[Integers, Integers]]:
    """Return training and validation rows of each split, stratified by class.

    Classes are processed in the order of their first points, independent of their names. Points of
    a class remain in every training part if it would have fewer than `least` of them. There are no
    splits if fewer than two classes have enough points.
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
    if by_batches:
        n_splits = min(n_splits, -(-_ENOUGH * n_folds // len(order)))
        fold[order[_HELD_OUT * n_folds :]] = -1
    return [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(n_splits)]


def _class_splits(data: Samples, least: int, unit: str) -> list[Split]:
    """Return two splits; each holds out one half of the classes."""
    return [_class_split(data, *halves) for halves in _class_halves(data, least, unit)]


def _class_halves(data: Samples, least: int, unit: str) -> list[tuple[Integers, Integers]]:
    """Return the rows of both halves of the classes; queries precede the database."""
    if not data.has_classes:
        return []
    both = data.labels
    if data.database is not None:
        both = np.append(both, data.database.labels)
    return class_halves(both, least, unit)


def _class_split(data: Samples, known: Integers, new: Integers) -> Split:
    """Return a split into points of known classes and of new classes."""
    assert data.weight is not None
    n, database = len(data.labels), data.database
    asked = new[new < n]
    train = data.take(known[known < n])
    if database is not None:
        train = replace(train, database=database.take(known[known >= n] - n))
    held_out = replace(data.take(asked), database=data.points)
    exclude = asked if database is None else None
    return Split(train, held_out, data.weight[asked], exclude, _costs_of_new)


def _costs_of_new(
    Z_database: Array, y_database: Array, Z: Array, y: Array, weight: Any, exclude: Any,
    n_jobs: int | None,
) -> Array:  # fmt: skip
    """Return for each point whether its nearest neighbour among all others has another class."""
    del weight
    near = kneighbors(Z, Z_database, 1, exclude=exclude, n_jobs=n_jobs)[1][:, 0]
    return np.asarray(y_database[near] != y, np.float32)


def _costs_of_nearest(
    Z_database: Array, y_database: Array, Z: Array, y: Array, weight: Any, exclude: Any,
    n_jobs: int | None,
) -> Array:  # fmt: skip
    """Return the expected error of the nearest neighbour in a random half of the database."""
    del weight, exclude
    return costs_in_half(Z_database, y_database, Z, y, n_jobs).astype(np.float32)


def _costs_of_many(
    Z_database: Array, y_database: Array, Z: Array, y: Array, weight: Any, exclude: Any,
    n_jobs: int | None,
) -> Array:  # fmt: skip
    """Return the share of other classes among the nearest points, or the error of their mean."""
    del exclude
    return neighbor_costs(Z_database, y_database, Z, y, weight, n_jobs)
