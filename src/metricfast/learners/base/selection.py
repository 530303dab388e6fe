"""Selection among maps by the neighbour error of points that were not learned from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from metricfast._core.scaling import center_and_rescale
from metricfast._core.scatter import repetitions
from metricfast._core.sources import Source
from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.neighbors import kneighbors
from metricfast.metrics._neighbor_error import count_votes

__all__ = ["Fold", "held_out_folds", "select"]

# Points that are dealt to folds; points that are held out, of all folds together; and training
# points among which their neighbours are found, in one fold, at most.
_DRAWN, _HELD_OUT, _DATABASE = 5000, 1000, 2000
_NEIGHBORS = 3
# Standard errors of a paired difference, below which two candidates count as equally good.
_EQUAL = 1.0


class Fold:
    """Points to learn from, and points that judge what is learned.

    Parameters
    ----------
    X : ndarray of shape (n_points, n_features)
        Different points.
    codes : ndarray of shape (n_points,)
        Their classes.
    weights : ndarray of shape (n_points,)
    database, queries : ndarray of int
        Rows of training points and of held-out points.
    train : ndarray of bool of shape (n_samples,)
        The points to learn from: all that are not held out.

    Attributes
    ----------
    train : ndarray of bool of shape (n_samples,)
    weights : ndarray of shape (n_queries,)
        Weights of the held-out points.
    """

    def __init__(
        self, X: Array, codes: Integers, weights: Floats, database: Integers, queries: Integers,
        train: Array,
    ) -> None:  # fmt: skip
        self.train, self.weights = train, weights[queries]
        self._database, self._queries = X[database], X[queries]
        self._votes = weights[database]
        self._labels, self._wanted = codes[database], codes[queries]
        own = np.bincount(self._labels, self._votes, minlength=int(codes.max()) + 1)
        self._k = np.clip(own[self._wanted], 1, _NEIGHBORS)[:, None]

    def costs(self, L: Array) -> Floats:
        """Return the share of other classes among the nearest training points, by held-out point.

        The neighbours are 3, or as many as the class has training points.
        """
        Z, Q = self._database @ L.T, self._queries @ L.T
        # Rounded, so that ties do not depend on last digits, which the origin changes.
        size = max(np.abs(Z).max(), np.abs(Q).max()) or 1.0
        Z, Q = (Z / size).astype(np.float32), (Q / size).astype(np.float32)
        near = kneighbors(Q, Z, min(len(Z), _NEIGHBORS))[1]
        votes = count_votes(self._votes[near], self._k)
        wrong = self._labels[near] != self._wanted[:, None]
        return np.asarray((votes * wrong).sum(axis=1) / votes.sum(axis=1))


def held_out_folds(
    X: Array | Source, codes: Integers, weights: Floats | None = None, n_folds: int = 5
) -> list[Fold]:
    """Deal points of each class to folds, copies of a point to the same one.

    At most 1000 points are held out, by fewer folds than `n_folds` where these are large. The
    points of a class that has no other point are always learned from. There are no folds where no
    class has two different points. Of more than 5000 points, 5000 are drawn before.
    """
    counted = codes >= 0 if weights is None else (codes >= 0) & (weights > 0)
    known = np.flatnonzero(counted)
    share = repetitions(None if weights is None else weights[known], len(known))
    if len(known) > _DRAWN:
        drawn = np.sort(np.random.RandomState(0).permutation(len(known))[:_DRAWN])
        known, share = known[drawn], share[drawn]
    if not len(known):
        return []
    points = center_and_rescale(np.asarray(X[known], np.float64))[0]
    first, copies = _distinct(points, codes[known])
    total: Floats = np.bincount(copies, share).astype(np.float64)
    points, classes = points[first], codes[known[first]]
    ranked = _ranked(points, classes)
    order = ranked[np.bincount(classes)[classes[ranked]] > 1]
    if not len(order):
        return []
    dealt = np.full(len(first), -1)
    dealt[order] = np.arange(len(order)) % n_folds
    shuffled = ranked[np.random.RandomState(0).permutation(len(first))]
    size = -(-len(order) // n_folds)
    folds = []
    for i in range(int(np.clip(_HELD_OUT // size, 1, n_folds))):
        out = np.zeros(len(first), bool)
        out[shuffled[dealt[shuffled] == i][:_HELD_OUT]] = True
        if not out.any():
            continue
        train = np.ones(len(codes), bool)
        train[known[out[copies]]] = False
        rest, held = shuffled[~out[shuffled]][:_DATABASE], shuffled[out[shuffled]]
        folds.append(Fold(points, classes, total, rest, held, train))
    return folds


def select(folds: Sequence[Fold], maps: Callable[[int], Iterable[Array]]) -> int:
    """Return the number of the candidate whose maps have the lowest cost on held-out points.

    `maps`: returns the maps of all candidates, learned from the training points of a fold. The
        candidate that changes least comes first, and is chosen among those that a paired test does
        not separate from the best.

    A fold whose training points cannot be learned from does not count. Without any, the first
    candidate is chosen.
    """
    found, weights = [], []
    for i, fold in enumerate(folds):
        try:
            found.append(np.array([fold.costs(L) for L in maps(i)]))
        except (ValueError, np.linalg.LinAlgError):
            continue
        weights.append(fold.weights)
    if not found:
        return 0
    costs, weight = np.hstack(found), np.concatenate(weights)
    means = np.round(costs @ weight / weight.sum(), 12)
    excess = means - means.min()
    squares = (costs - costs[means.argmin()]) ** 2 @ weight**2 / weight.sum() ** 2
    return int(np.argmax(excess <= _EQUAL * np.sqrt(squares)))


def _distinct(X: Array, codes: Integers) -> tuple[Integers, Integers]:
    """Return the first row of each different point of a class, and which one each row is like."""
    pairs = np.column_stack([codes, X + 0.0])  # -0.0 equals 0.0
    keys = np.ascontiguousarray(pairs).view(f"V{pairs.dtype.itemsize * pairs.shape[1]}").ravel()
    _, first, copies = np.unique(keys, return_index=True, return_inverse=True)
    return first, copies.ravel()


def _ranked(X: Array, codes: Integers) -> Integers:
    """Return the rows of different points, by class and distance from the mean.

    So folds depend neither on the order of points, nor on the axes and names of classes.
    """
    X = X - X.mean(axis=0)
    distance = np.einsum("ij,ij->i", X, X).astype(np.float32)
    nearest = np.full(int(codes.max()) + 1, np.inf, np.float32)
    np.minimum.at(nearest, codes, distance)
    return np.lexsort((distance, codes, nearest[codes]))
