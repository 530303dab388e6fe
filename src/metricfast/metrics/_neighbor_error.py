"""Errors of nearest-neighbour predictions: by majority, per point, and by class shares."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.neighbors import kneighbors

__all__ = ["costs_in_half", "count_votes", "mean_error", "neighbor_costs", "neighbor_error"]

# Number of neighbours in a majority vote, and in the cost of a point (more, to reduce noise).
_VOTERS, _NEIGHBORS = 3, 5
# Probability, by rank, that a neighbour is the nearest in a random half of the training points.
_CHANCES = np.array([4.0, 2.0, 1.0]) / 7


def neighbor_error(
    database: Array,
    y_database: Any,
    queries: Array,
    y: Any,
    numeric: bool,
    n_neighbors: int = _VOTERS,
    n_jobs: int | None = None,
    exclude: Integers | None = None,
) -> float:
    """Return the error of nearest-neighbour predictions; for numbers, the mean squared error.

    `exclude`: the database row that each query excludes.
    """
    k = min(n_neighbors, len(database) - (exclude is not None))
    nearest = kneighbors(queries, database, k, exclude=exclude, n_jobs=n_jobs)[1]
    return mean_error(y_database[nearest], y, numeric)


def mean_error(neighbor_labels: Any, y: Any, numeric: bool) -> float:
    """Return the error of nearest-neighbour predictions.

    `neighbor_labels`: of shape (n, n_neighbors), nearest first. For classes, the prediction is the
        most frequent label, and the nearest one on ties. For numbers it is the mean, and the error
        is the mean squared error.
    """
    if numeric:
        return float(np.mean((neighbor_labels.mean(axis=1) - y) ** 2))
    votes = (neighbor_labels[:, :, None] == neighbor_labels[:, None, :]).sum(axis=2)
    places = votes.argmax(axis=1)[:, None]
    return float(np.mean(np.take_along_axis(neighbor_labels, places, axis=1)[:, 0] != y))


def neighbor_costs(
    database: Array, y_database: Array, queries: Array, y: Array, weight: Floats | None = None,
    n_jobs: int | None = None,
) -> Array:  # fmt: skip
    """Return the cost of each query, in float32.

    The cost is the share of other classes among the 5 nearest points of the database, or the
    squared error of their mean target. A point counts as many times as its weight.
    """
    k = min(len(database), _NEIGHBORS)
    near = kneighbors(queries, database, k, n_jobs=n_jobs)[1]
    votes = count_votes(np.ones(near.shape) if weight is None else weight[near], k)
    votes /= votes.sum(axis=1, keepdims=True)
    if y.dtype.kind == "i":
        costs = (votes * (y_database[near] != y[:, None])).sum(axis=1)
    else:
        costs = ((votes * y_database[near]).sum(axis=1) - y) ** 2
    return np.asarray(costs, np.float32)


def costs_in_half(
    database: Array,
    y_database: Any,
    queries: Array,
    y: Any,
    n_jobs: int | None = None,
    exclude: Integers | None = None,
) -> Floats:
    """Return the expected error of each query's nearest neighbour in a random half of the database.

    Thereby also the second and third neighbours count.

    `exclude`: the database row that each query excludes.
    """
    k = min(len(database) - (exclude is not None), len(_CHANCES))
    near = kneighbors(queries, database, k, exclude=exclude, n_jobs=n_jobs)[1]
    return np.asarray((y_database[near] != y[:, None]) @ _CHANCES[:k])


def count_votes(weights: Array, k: int | Array) -> Array:
    """Return how many of k votes each neighbour has; a neighbour has as many votes as its weight.

    `weights`: of shape (n, n_neighbors), nearest first.
    `k`: an integer, or an array of shape (n, 1).
    """
    return np.asarray(np.clip(k - (weights.cumsum(axis=1) - weights), 0, weights))
