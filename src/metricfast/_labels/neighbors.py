"""Neighbours in label space. A fit finds them once, because labels do not change."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from metricfast._core.arrays import as_threads, scaled_alike
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast._labels.distance import LabelDistance, rows_per_block
from metricfast._labels.metric_tree import MetricTree
from metricfast._labels.named import named_distance
from metricfast.distances.neighbors import kneighbors


def label_neighbors(
    y: Array,
    k: int,
    *,
    distance: LabelDistance | None = None,
    ties: str = "keep",
    rng: RandomState | None = None,
    n_jobs: int | None = None,
) -> Integers:
    """Return the k points with the nearest labels for each point, excluding the point itself.

    If labels can be searched as points, the search is one among distinct labels. Other metrics use
    a vantage-point tree, and any other distance is computed for all pairs, in blocks. Points with
    the same label are put in random cyclic order, and each point takes those after it, so that
    every point appears equally often.

    `y`: labels as the distance takes them, which is by default the Euclidean one.
    `ties`: {"keep", "drop"}; whether points of the same label as the anchor are neighbours.
    `rng`: orders points with equal labels at random; the default order is by index.
    Returns row indices, nearest label first, and -1 where there are fewer neighbours.
    """
    n = len(y)
    distance = named_distance("euclidean") if distance is None else distance
    places = distance.places(y)
    if places is None:
        order = np.arange(n) if rng is None else rng.permutation(n)
        search = _by_tree if distance.metric else _by_blocks
        return search(y, k, distance, ties == "drop", order)
    points, how = places
    labels, group = _different(points if "boxsize" in how else scaled_alike(points)[0])
    near = _nearest(labels, min(k, len(labels) - 1), as_threads(n_jobs), how)
    if len(labels) == n:
        only = np.empty(n, np.int64)
        only[group] = np.arange(n)
        return np.ascontiguousarray(only[near[group]])
    shuffled = np.arange(n) if rng is None else rng.permutation(n)
    group = group[shuffled]
    members = np.argsort(group, kind="stable")  # rows of `shuffled`, sorted by group
    counts = np.bincount(group, minlength=len(labels))
    starts = np.cumsum(counts) - counts
    place = np.empty(n, np.int64)  # position of each shuffled point in its group
    place[members] = np.arange(n) - np.repeat(starts, counts)

    found = np.full((n, k), -1)
    filled = np.zeros(n, np.int64)
    columns = [group] if ties == "keep" else []
    own = len(columns)
    columns += [near[group, j] for j in range(near.shape[1])]
    for j, other in enumerate(columns):
        # The point itself comes after all others of its group.
        available = counts[other] - 1 if j < own else counts[other]
        for step in range(k):
            rows = np.flatnonzero((step < available) & (filled < k))
            if len(rows) == 0:
                break
            at = (place[rows] + step + (j < own)) % counts[other[rows]]
            found[rows, filled[rows]] = members[starts[other[rows]] + at]
            filled[rows] += 1
    result = np.empty((n, k), np.int64)
    result[shuffled] = np.where(found < 0, -1, shuffled[found])
    return result


def label_neighbors_between(
    y: Array,
    y_database: Array,
    k: int,
    distance: LabelDistance,
    *,
    ties: str = "keep",
    rng: RandomState | None = None,
    n_jobs: int | None = None,
) -> Integers:
    """Return the k database points with the nearest labels for each query.

    `ties`: {"keep", "drop"}; whether points with the query's own label are neighbours. `rng`:
        orders points with equal labels at random; the default order is by index.
    Returns database rows, nearest label first, and -1 where there are fewer.
    """
    m = len(y_database)
    order = np.arange(m) if rng is None else rng.permutation(m)
    places = None if ties == "drop" else distance.places(np.concatenate([y, y_database]))
    if places is not None and not places[1]:
        points = scaled_alike(places[0].reshape(len(y) + m, -1))[0]
        found = kneighbors(points[: len(y)], points[len(y) :][order], k, n_jobs=n_jobs)[1]
        return np.asarray(order[found])
    labels, references = distance.encode(y), distance.encode(y_database)[order]
    if distance.metric:
        tree = MetricTree(references, distance)
        found = tree.nearest(labels, k, np.arange(m), drop=ties == "drop")
        return np.where(found < 0, -1, order[found])
    found = np.full((len(y), k), -1)
    step = rows_per_block(2 * m)
    for start in range(0, len(y), step):
        rows = slice(start, start + step)
        away = distance.between(labels[rows], references)
        if ties == "drop":
            away = np.where(away == 0, np.inf, away)
        chosen, near = _smallest(away, k)
        found[rows] = np.where(near, order[chosen], -1)
    return found


def _different(y: Floats) -> tuple[Floats, Integers]:
    """Return the distinct labels in lexicographic order, and the index of each point's label."""
    if y.ndim == 1 or y.shape[1] == 1:
        y = y.reshape(len(y))
        order = np.argsort(y, kind="stable")
        changes = np.diff(y[order]) != 0
    else:
        order = np.lexsort(y.T[::-1])
        changes = (np.diff(y[order], axis=0) != 0).any(axis=1)
    group = np.empty(len(y), np.int64)
    group[order] = np.concatenate([[0], np.cumsum(changes)])
    return y[order[np.concatenate([[True], changes])]], group


def _nearest(labels: Array, k: int, threads: int, how: dict[str, Any]) -> Integers:
    """Return the k nearest others of each distinct label; `how` configures SciPy's k-d tree."""
    if k == 0:
        return np.empty((len(labels), 0), np.int64)
    if not how:
        if labels.ndim == 1:
            return _nearest_sorted(labels, k)
        return kneighbors(labels, n_neighbors=k, n_jobs=threads)[1]
    labels = labels.reshape(len(labels), -1)
    # Distinct labels differ, so each is its own nearest, unless squared differences underflow.
    tree = KDTree(labels, balanced_tree=False, compact_nodes=False, boxsize=how.get("boxsize"))
    found = tree.query(labels, k + 1, p=how.get("p", 2), workers=threads)[1].astype(np.int64)
    own = found == np.arange(len(labels))[:, None]
    own[~own.any(axis=1), -1] = True
    return np.asarray(found[~own].reshape(len(labels), k))


def _nearest_sorted(labels: Floats, k: int) -> Integers:
    """Return the k nearest others of each of the sorted distinct numbers, with a growing window."""
    n = len(labels)
    padded = np.concatenate([[-np.inf], labels, [np.inf]])
    low, high = np.arange(n), np.arange(2, n + 2)  # indices of the next candidates in `padded`
    found = np.empty((n, k), np.int64)
    for j in range(k):
        left = labels - padded[low] <= padded[high] - labels
        found[:, j] = np.where(left, low, high) - 1
        low -= left
        high += ~left
    return found


def _by_tree(y: Array, k: int, distance: LabelDistance, drop: bool, order: Integers) -> Integers:
    """Return the same as :func:`_by_blocks`, for a metric, with a vantage-point tree."""
    place = np.empty(len(y), np.int64)
    place[order] = np.arange(len(y))
    labels = distance.encode(y)
    tree = MetricTree(labels, distance)
    return tree.nearest(labels, k, place, first=place + 1, own=True, drop=drop)


def _by_blocks(y: Array, k: int, distance: LabelDistance, drop: bool, order: Integers) -> Integers:
    """Return the k nearest, from all distances, computed block by block."""
    n, labels = len(y), distance.encode(y)
    found = np.full((n, k), -1)
    step = rows_per_block(2 * n)
    for start in range(0, n, step):
        places = np.arange(start, min(start + step, n))
        distances = distance.between(labels[order[places]], labels)
        # For each point all others, in cyclic order, starting with the next one.
        others = order[(places[:, None] + np.arange(1, n)) % n]
        away = np.take_along_axis(distances, others, axis=1)
        if drop:
            away[away == 0] = np.inf
        chosen, near = _smallest(away, k)
        found[order[places]] = np.where(near, np.take_along_axis(others, chosen, axis=1), -1)
    return found


def _smallest(values: Floats, k: int) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the indices of the k smallest values of each row, ascending, and which are finite.

    The lower index wins ties.
    """
    if k == 0:
        return np.empty((len(values), 0), np.int64), np.empty((len(values), 0), bool)
    last = np.partition(values, k - 1, axis=1)[:, k - 1, None]
    below, equal = values < last, values == last
    taken = below | (equal & (np.cumsum(equal, axis=1) <= k - below.sum(axis=1, keepdims=True)))
    columns = np.nonzero(taken)[1].reshape(len(values), k)
    smallest = np.take_along_axis(values, columns, axis=1)
    order = np.argsort(smallest, axis=1, kind="stable")
    near = np.isfinite(np.take_along_axis(smallest, order, axis=1))
    return np.take_along_axis(columns, order, axis=1), near
