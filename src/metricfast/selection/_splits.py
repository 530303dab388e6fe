"""Splits of points into training points, held-out queries, and the database of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from metricfast._core.scaling import center_and_rescale
from metricfast._core.scatter import repetitions
from metricfast._core.targets import by_appearance
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, Integers, RandomState

# Classes are held out, instead of points, if the median class has fewer points than the first
# number, or if there are more classes per point of it than the second: new classes are then likely.
_FEW_POINTS, _MANY_CLASSES = 5, 2
# Sufficient number of held-out points, and their maximum number in a part.
ENOUGH = 1000
# Maximum number of values of sparse points to look for copies, which needs a dense array.
DENSE_VALUES = 10**6


# Training rows and test rows.
Fold = tuple[Integers, Integers]


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a table that train, rows that are queries, and rows among which these search.

    Attributes
    ----------
    train, queries, database : ndarray of int64
        The database has one row for each distinct point.
    weight, database_weight : ndarray of float64
        Weights of queries and database, with those of their copies.
    exclude : ndarray of int64 or None
        The place of each query in `database`, if it is there.
    where : tuple of two ndarray of int64, or None
        The views of queries and database. A query searches only points of other views.
    unit : {"points", "classes", "groups"}
        What is held out.
    """

    train: Integers
    queries: Integers
    database: Integers
    weight: Floats
    database_weight: Floats
    exclude: Integers | None = None
    where: tuple[Integers, Integers] | None = None
    unit: str = "points"


def draw_rows(codes: Integers, weight: Floats | None, most: int) -> Integers:
    """Return rows of known class and positive weight, in order; `most` of them at most."""
    rows = np.flatnonzero(codes >= 0 if weight is None else (codes >= 0) & (weight > 0))
    if len(rows) > most:
        rows = np.sort(rows[np.random.RandomState(0).permutation(len(rows))[:most]])
    return rows


def split_points(
    X: Any, codes: Integers, weight: Floats | None = None, *, n_splits: int = 3, least: int = 1,
    unit: str = "auto", n_enough: int = ENOUGH, groups: Integers | None = None,
    views: Integers | None = None,
) -> list[Part]:  # fmt: skip
    """Hold out points of each class, or whole classes or groups.

    Points of each class are divided evenly. Held-out points search among the training points. One
    part after the other is held out until `n_enough` points were, `n_enough` of a part at most.
    Copies of a point are in the same part. Parts depend neither on the order of points, nor on
    rotations, nor on names of classes.

    If classes are held out (:func:`class_halves` decides), each half of them is in turn, and its
    points search among all points.

    `codes`: class indices, negative for points of no known class, which are left out, as are points
        without weight. All 0 for points without classes.
    `least`: number of training points that each class keeps, or else is not held out. There are no
        parts unless two classes, or the only one, can be held out.
    `groups`: group indices. Whole groups are held out, and search among the training points.
    `views`: view indices, such as of cameras. Points search only points of other views.
    Raises ValueError if `unit` is "groups" and there are no groups, or if there are groups and it
        is "points" or "classes".
    """
    if groups is None and unit == "groups":
        raise ValueError(
            "Judge(unit='groups') needs the group of each point: give `groups` to a `fit` that "
            "takes them, or set another unit."
        )
    if groups is not None and unit not in ("auto", "groups"):
        raise ValueError(
            f"groups are held out whole, and Judge(unit={unit!r}) holds out {unit}: leave one out."
        )
    rows = draw_rows(codes, weight, len(codes))
    share = repetitions(None if weight is None else weight[rows], len(rows))
    if not len(rows):
        return []
    marks = [each[rows] for each in (groups, views) if each is not None]
    first, copies, ranked = _ranked_points(X[rows], codes[rows], *marks)
    labels, total = codes[rows[first]], np.bincount(copies, share).astype(np.float64)
    shuffled = ranked[np.random.RandomState(0).permutation(len(ranked))]
    if groups is not None:
        tests = deal_groups(groups[rows[first]], n_splits)
        found, unit = [(np.setdiff1d(ranked, test), test) for test in tests], "groups"
    else:
        halves = class_halves(labels[ranked], least, unit)
        if unit == "classes" and not halves:
            return []
        found, unit = [(ranked[train], ranked[test]) for train, test in halves], "classes"
    if not found:
        tests = _deal(ranked, labels, n_splits, least)
        found, unit = [(ranked, test) for test in tests], "points"
    parts: list[Part] = []
    for train, test in found:
        if sum(len(part.queries) for part in parts) >= n_enough:
            break
        held, trains = (np.bincount(each, minlength=len(first)) > 0 for each in (test, train))
        queries, database = shuffled[held[shuffled]][:n_enough], shuffled
        if unit != "classes":
            trains[queries] = False
            database = shuffled[trains[shuffled]]
        asked, among, exclude, where = rows[first[queries]], rows[first[database]], None, None
        if views is not None:
            where = views[asked], views[among]
        elif unit == "classes":
            exclude = np.argsort(database)[queries]
        weights = total[queries], total[database]
        parts.append(Part(rows[trains[copies]], asked, among, *weights, exclude, where, unit))
    return parts


def class_halves(
    codes: Integers, least: int = 2, unit: str = "auto"
) -> list[tuple[Integers, Integers]]:
    """Return two splits: each half of the classes is for training and for validation once.

    Points of classes with fewer than `least` points, or with a single point, are only used as
    neighbours. There are no splits unless two classes remain in each half.

    `codes`: class indices of distinct points. The halves depend on the order of the classes' first
        points, not on the codes.
    `unit`: with "classes" there are splits, and with "auto" there are if the median class has fewer
        than 5 points, or fewer than half as many as there are classes.
    """
    if unit not in ("auto", "classes"):
        return []
    codes = by_appearance(codes)
    sizes = np.bincount(codes)
    if unit == "auto" and np.median(sizes) >= max(_FEW_POINTS, len(sizes) / _MANY_CLASSES):
        return []
    several = np.flatnonzero(sizes >= max(2, least))
    if len(several) < 4:
        return []
    halves = np.array_split(np.random.RandomState(0).permutation(several), 2)
    first, second = (np.flatnonzero(np.isin(codes, half)) for half in halves)
    return [(first, second), (second, first)]


def deal_pairs(
    pairs: Integers, sizes: tuple[int, int], n_parts: int, rng: RandomState, together: bool
) -> tuple[Integers, Integers]:
    """Return the part of each query and of each document.

    `pairs`: indices of a query and of its document, in the rows of two columns.
    `sizes`: the numbers of queries and of documents.
    `together`: each point of the larger side gets the part of a point that belongs to it.
    """
    queries, documents = (rng.permutation(size) % n_parts for size in sizes)
    if together:
        left, right = pairs[rng.permutation(len(pairs))].T
        if sizes[0] <= len(np.unique(pairs[:, 1])):
            documents[right] = queries[left]
        else:
            queries[left] = documents[right]
    return queries, documents


def deal_in_order(codes: Integers, n_parts: int) -> Integers:
    """Return the part of each row, which is contiguous among the rows of its class."""
    place = np.empty(len(codes), np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        place[rows] = np.arange(len(rows)) * n_parts // len(rows)
    return place


def check_folds(name: str, folds: Any, n: int) -> list[Fold]:
    """Return the training rows and the test rows of each fold, out of n rows.

    Raises ValueError, which calls the folds `name`, if these are no pairs of indices.
    """
    found = list[Fold]()
    for fold in folds:
        try:
            train, test = (np.arange(n)[np.asarray(part)] for part in fold)
            if not train.ndim == test.ndim == 1:
                raise ValueError("indices must be one-dimensional")
        except (IndexError, TypeError, ValueError) as error:
            raise ValueError(
                f"{name} must hold pairs (train, test) of indices below {n}; found {fold!r}."
            ) from error
        found.append((train, test))
    if not found:
        raise ValueError(f"{name} must hold at least one (train, test).")
    return found


def split_tuples(tuples: TupleSet, rng: RandomState) -> Array:
    """Return a mask of about half of the tuples, to be held out.

    Tuples that share a point tend to be in one half.
    """
    n, size = tuples.index.shape
    # Equal points have equal products, also if a point is stored once for each tuple.
    products = np.einsum("ij,j->i", tuples.points, rng.uniform(1, 2, tuples.points.shape[1]))
    index = np.unique(products, return_inverse=True)[1].reshape(-1)[tuples.index]
    drawn, order = np.full(len(products), n), rng.permutation(n)
    np.minimum.at(drawn, index[order].ravel(), np.repeat(np.arange(n), size))
    first = drawn[index].min(axis=1)
    held = np.asarray(first < np.median(first))
    return held if held.any() else np.isin(np.arange(n), order[: n // 2])


def _deal(ranked: Integers, classes: Integers, n_splits: int, least: int) -> list[Integers]:
    """Return the held-out points of each part; points of small classes are never held out."""
    sizes = np.bincount(classes)
    enough = sizes - -(-sizes // n_splits) >= least
    if not enough.any() or (np.count_nonzero(sizes) > 1 and enough.sum() < 2):
        return []
    order = ranked[enough[classes[ranked]]]
    places = np.arange(len(order)) % n_splits
    return [order[places == i] for i in range(min(n_splits, len(order)))]


def deal_groups(groups: Integers, n_splits: int, rng: RandomState | None = None) -> list[Integers]:
    """Return the points of the held-out groups of each part, about as many in each.

    `rng`: draws among groups of one size; by default they are dealt in order.
    """
    if rng is not None:
        groups = rng.permutation(int(groups.max()) + 1)[groups]
    numbers, sizes = np.unique(groups, return_counts=True)
    if len(numbers) < 2:
        raise ValueError("groups must hold at least 2 groups, to hold one out; found 1.")
    load, part = np.zeros(min(n_splits, len(numbers))), np.empty(len(numbers), np.int64)
    for i in np.argsort(-sizes, kind="stable"):
        part[i] = load.argmin()
        load[part[i]] += sizes[i]
    dealt = part[np.searchsorted(numbers, groups)]
    return [np.flatnonzero(dealt == i) for i in range(len(load))]


def _ranked_points(
    X: Any, codes: Integers, *marks: Integers
) -> tuple[Integers, Integers, Integers]:
    """Return the first row of each distinct point, each row's distinct point, and ranks.

    Equal points of different classes or `marks`, such as groups, are distinct. Ranks are the
    distinct points, sorted by class and distance from the mean.
    """
    n = X.shape[0]
    if issparse(X):
        if n * X.shape[1] > DENSE_VALUES:
            return np.arange(n), np.arange(n), np.lexsort((np.arange(n), by_appearance(codes)))
        X = X.toarray()
    X = np.asarray(X)
    rows = np.column_stack([codes, *marks, X + 0.0])  # -0.0 equals 0.0
    keys = np.ascontiguousarray(rows).view(f"V{rows.dtype.itemsize * rows.shape[1]}").ravel()
    _, first, copies = np.unique(keys, return_index=True, return_inverse=True)
    points, classes = center_and_rescale(X[first].astype(np.float64))[0], codes[first]
    points -= points.mean(axis=0)
    distance = np.einsum("ij,ij->i", points, points).astype(np.float32)
    closest = np.full(int(classes.max()) + 1, np.inf, np.float32)
    np.minimum.at(closest, classes, distance)
    return first, copies.ravel(), np.lexsort((distance, classes, closest[classes]))
