"""Neighbours in label space, found once: labels do not change."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from metricfast._arrays import as_threads, scaled_alike
from metricfast.neighbors import kneighbors

__all__ = ["label_neighbors"]

# From more dimensions on, a tree looks at most of the points anyway.
_TREE = 8


def label_neighbors(
    y: NDArray[np.float64],
    k: int,
    *,
    ties: str = "keep",
    rng: np.random.RandomState | None = None,
    n_jobs: int | None = None,
) -> NDArray[np.int64]:
    """Return the k points of the nearest labels (Euclidean) for each point, itself left out.

    The search is one among different labels; points of the same label are taken in cyclic order of
    a random arrangement, each point beginning with those after it, so that none is left out.

    Parameters
    ----------
    y : ndarray of shape (n,) or (n, n_labels)
    k : int
    ties : {"keep", "drop"}
        Whether points of the same label as the anchor are neighbours.
    rng : RandomState, optional
        Arranges points of equal labels; by default they are in the order of their indices.
    n_jobs : int, optional

    Returns
    -------
    ndarray of int64 of shape (n, k)
        Nearest label first; -1 where there are fewer (other labels).
    """
    n = len(y)
    labels, group = _different(scaled_alike(y)[0])
    near = _nearest(labels, min(k, len(labels) - 1), as_threads(n_jobs))
    if len(labels) == n:
        only = np.empty(n, np.int64)
        only[group] = np.arange(n)
        return np.ascontiguousarray(only[near[group]])
    shuffled = np.arange(n) if rng is None else rng.permutation(n)
    group = group[shuffled]
    members = np.argsort(group, kind="stable")  # rows of `shuffled`, group by group
    counts = np.bincount(group, minlength=len(labels))
    starts = np.cumsum(counts) - counts
    place = np.empty(n, np.int64)  # of each shuffled point in its group
    place[members] = np.arange(n) - np.repeat(starts, counts)

    found = np.full((n, k), -1)
    filled = np.zeros(n, np.int64)
    columns = [group] if ties == "keep" else []
    own = len(columns)
    columns += [near[group, j] for j in range(near.shape[1])]
    for j, other in enumerate(columns):
        # A point of its own group comes after all others of it.
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


def _different(y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the different labels in lexicographic order and which of them each point has."""
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


def _nearest(labels: NDArray[Any], k: int, threads: int) -> NDArray[np.int64]:
    """Return the k nearest others of different labels."""
    if k == 0:
        return np.empty((len(labels), 0), np.int64)
    if labels.ndim == 1:
        return _nearest_sorted(labels, k)
    if labels.shape[1] > _TREE:
        return kneighbors(labels, n_neighbors=k, n_jobs=threads)[1]
    # Different labels are apart, so that each is its own nearest; but their squares may underflow.
    found = (
        KDTree(labels, balanced_tree=False, compact_nodes=False)
        .query(labels, k + 1, workers=threads)[1]
        .astype(np.int64)
    )
    own = found == np.arange(len(labels))[:, None]
    own[~own.any(axis=1), -1] = True
    return np.asarray(found[~own].reshape(len(labels), k))


def _nearest_sorted(labels: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Return the k nearest others of sorted different numbers, by growing a window around each."""
    n = len(labels)
    padded = np.concatenate([[-np.inf], labels, [np.inf]])
    low, high = np.arange(n), np.arange(2, n + 2)  # of the next ones, into `padded`
    found = np.empty((n, k), np.int64)
    for j in range(k):
        left = labels - padded[low] <= padded[high] - labels
        found[:, j] = np.where(left, low, high) - 1
        low -= left
        high += ~left
    return found
