"""Choose between the given distance and learned ones, by held-out points or classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from metricfast._core.scaling import center_and_rescale
from metricfast._core.scatter import repetitions
from metricfast._core.sources import Source
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.warn import warn_user
from metricfast.metrics._held_out import class_halves
from metricfast.metrics._neighbor_error import costs_in_half

__all__ = ["Fold", "held_out_folds", "is_better", "least_change", "select", "warn_given_up"]

# Maximum number of points in the folds, number of folds, and sufficient number of held-out points.
_DRAWN, _FOLDS, _ENOUGH = 5000, 3, 333
# Maximum number of held-out points per fold, and of training points to search for neighbours.
_HELD_OUT, _DATABASE = 1000, 2000
# Number of standard errors by which a learned distance must be better than the given one.
_EVIDENCE = 2.0


class Fold(NamedTuple):
    """Training points in memory, and held-out points that score a learned map."""

    rows: Integers  # indices of the training points among all points
    points: Array
    codes: Integers
    weights: Floats
    database: tuple[Floats, Integers]  # points and classes
    queries: tuple[Floats, Integers, Floats]  # points, classes and weights
    own: Integers | None = None  # index of each query in the database, to exclude it

    def costs(self, L: Array) -> Floats:
        """Return the expected error of the nearest neighbour of each held-out point."""
        (X, labels), (held, wanted, _) = self.database, self.queries
        Z, Q = X @ L.T, held @ L.T
        # Rounded, because a shift of the origin changes last digits, which would break ties.
        size = max(np.abs(Z).max(), np.abs(Q).max()) or 1.0
        Z, Q = (Z / size).astype(np.float32), (Q / size).astype(np.float32)
        return costs_in_half(Z, labels, Q, wanted, exclude=self.own)


def held_out_folds(X: Array | Source, codes: Integers, weights: Floats | None = None) -> list[Fold]:
    """Hold out points of each class, or whole classes if these have few points.

    :func:`class_halves` decides whether to hold out classes. Points of the held-out half then
    search among all points. Otherwise the points of each class are divided into three folds, and
    held-out points search among the training points. Copies of a point come to the same fold.

    One fold after the other is held out until 333 points were, 1000 points of it at most. The
    points of a class that has no other point are never held out. There are no folds where no class
    has two different points. Of more than 5000 points, 5000 are drawn before.
    """
    counted = codes >= 0 if weights is None else (codes >= 0) & (weights > 0)
    rows = np.flatnonzero(counted)
    share = repetitions(None if weights is None else weights[rows], len(rows))
    if len(rows) > _DRAWN:
        drawn = np.sort(np.random.RandomState(0).permutation(len(rows))[:_DRAWN])
        rows, share = rows[drawn], share[drawn]
    if not len(rows):
        return []
    given, labels = np.asarray(X[rows]), codes[rows]
    first, copies = _distinct(given, labels)
    points = center_and_rescale(given[first].astype(np.float64))[0]
    classes, total = labels[first], np.bincount(copies, share)
    ranked = _ranked(points, classes)
    shuffled = ranked[np.random.RandomState(0).permutation(len(ranked))]
    splits = class_halves(classes[ranked])
    by_classes = bool(splits)
    if by_classes:
        splits = [(ranked[train], ranked[held]) for train, held in splits]
    else:
        splits = _deal(ranked, shuffled, classes)
    folds: list[Fold] = []
    for train, test in splits:
        if sum(len(fold.queries[0]) for fold in folds) >= _ENOUGH:
            break
        held = shuffled[np.isin(shuffled, test)][:_HELD_OUT]
        database = shuffled if by_classes else shuffled[np.isin(shuffled, train)][:_DATABASE]
        kept = np.isin(copies, train)
        folds.append(
            Fold(
                rows[kept], given[kept], labels[kept], share[kept],
                (points[database], classes[database]),
                (points[held], classes[held], total[held].astype(np.float64)),
                np.argsort(database)[held] if by_classes else None,
            )
        )  # fmt: skip
    return folds


def select(
    folds: Sequence[Fold], maps: Callable[[Fold], Iterable[Array]], instead: str = "shrinkage=0"
) -> int:
    """Return the number of the candidate to use, 0 for the given distance.

    `maps`: returns the maps of all candidates, learned from the training points of a fold. The
        first is that of the given distance.
    `instead`: the parameter in place of "auto" with which the learner always learns, for a warning.

    The one with the lowest cost on held-out points is chosen, if it is better than the given
    distance by two standard errors of the paired difference. So learning must prove itself, and how
    far to go is then decided by the costs alone. A fold whose training points cannot be learned
    from does not count.
    """
    found, weights = [], []
    for fold in folds:
        try:
            found.append(np.array([fold.costs(L) for L in maps(fold)]))
        except (ValueError, np.linalg.LinAlgError):
            continue
        weights.append(fold.queries[2])
    if not found:
        return 0
    costs, weight = np.hstack(found), np.concatenate(weights)
    costs *= weight / weight.max()
    best = int(np.round(costs.sum(axis=1), 9).argmin())
    if best and is_better(costs[best], costs[0]):
        return best
    warn_given_up("points" if folds[0].own is None else "classes", instead)
    return 0


def warn_given_up(unit: str, instead: str) -> None:
    """Warn that the learner keeps the given distance, after a comparison on held-out data."""
    warn_user(
        f"Learning was not better than the given distance by two standard errors on held-out "
        f"{unit}, so that distance stays: give more {unit}, or a value in place of 'auto' (such "
        f"as {instead}) to learn anyway."
    )


def least_change(costs: Floats) -> int:
    """Return the first candidate that is within two standard errors of the best.

    `costs`: one row per candidate, in ascending order of their change of the given distance.
    """
    best = costs[int(np.round(costs.sum(axis=1), 9).argmin())]
    return next(i for i, each in enumerate(costs) if not is_better(best, each))


def is_better(costs: Floats, others: Floats) -> bool:
    """Return whether costs are lower than paired other costs by two standard errors."""
    gains = others - costs
    return bool(np.round(gains.sum(), 9) > _EVIDENCE * np.round(np.linalg.norm(gains), 9))


def _deal(
    ranked: Integers, shuffled: Integers, classes: Integers
) -> list[tuple[Integers, Integers]]:
    """Return the training rows and the held-out rows of each fold."""
    order = ranked[np.bincount(classes)[classes[ranked]] > 1]
    dealt = np.full(len(ranked), -1)
    dealt[order] = np.arange(len(order)) % _FOLDS
    tests = [shuffled[dealt[shuffled] == i][:_HELD_OUT] for i in range(min(_FOLDS, len(order)))]
    return [(np.setdiff1d(ranked, test), test) for test in tests]


def _distinct(X: Array, codes: Integers) -> tuple[Integers, Integers]:
    """Return the first row of each distinct point of a class, and each row's distinct point."""
    pairs = np.column_stack([codes, X + 0.0])  # -0.0 equals 0.0
    keys = np.ascontiguousarray(pairs).view(f"V{pairs.dtype.itemsize * pairs.shape[1]}").ravel()
    _, first, copies = np.unique(keys, return_index=True, return_inverse=True)
    return first, copies.ravel()


def _ranked(X: Array, codes: Integers) -> Integers:
    """Return the rows of distinct points, sorted by class and distance from the mean.

    So folds depend neither on the order of points, nor on rotations, nor on names of classes.
    """
    X = X - X.mean(axis=0)
    distance = np.einsum("ij,ij->i", X, X).astype(np.float32)
    nearest = np.full(int(codes.max()) + 1, np.inf, np.float32)
    np.minimum.at(nearest, codes, distance)
    return np.lexsort((distance, codes, nearest[codes]))
