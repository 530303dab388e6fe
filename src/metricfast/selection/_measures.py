"""Costs of held-out points, from their nearest neighbours or their distances.

A measure takes embedded queries and an embedded database, with the labels of both, and returns one
cost for each query; lower is better. A second column holds costs that must not get worse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.neighbors import kneighbors, pairwise_distances

__all__ = ["MEASURES", "Measure", "count_votes", "mean_error", "neighbor_error", "of_distances"]

# Called with embedded queries, their labels, the embedded database, its labels and weights, and the
# keyword arguments of the search: `exclude`, `where` and `n_jobs`. `search` is a function in place
# of `kneighbors`, where distances are not those of embedded points.
Measure = Callable[..., Array]
# Number of neighbours in a majority vote, and in the cost of a point (more, to reduce noise).
_VOTERS, _NEIGHBORS = 3, 5
# Weight of a neighbour by its rank: the mean of 1/5 and of the probability that it is the nearest
# in a random half of the database.
_SHARES = (np.array([4.0, 2.0, 1.0, 0.0, 0.0]) / 7 + 1 / _NEIGHBORS) / 2
# Share of the pairs of different classes that are accepted, for verification.
_FALSE_ACCEPTS = 0.01


def nearest(
    queries: Array, y: Array, database: Array, y_database: Array, weight: Floats | None, **how: Any
) -> Array:
    """Return 1 where the nearest neighbour is of another class, else 0."""
    del weight
    return np.asarray(_neighbor_labels(queries, database, y_database, 1, how)[0] != y, np.float32)


def neighbors(
    queries: Array, y: Array, database: Array, y_database: Array, weight: Floats | None, **how: Any
) -> Array:
    """Return the weighted share of other classes among the 5 nearest neighbours.

    It is the mean of two costs: the expected error of the nearest neighbour in a random half of the
    database, and the share of other classes among the 5 nearest neighbours. A second column has the
    costs of `nearest`, which must not get worse.
    """
    del weight
    wrong = _neighbor_labels(queries, database, y_database, _NEIGHBORS, how) != y
    shares = _SHARES[: len(wrong)] / _SHARES[: len(wrong)].sum()
    return np.column_stack([shares @ wrong, wrong[0]]).astype(np.float32)


def vote(
    queries: Array, y: Array, database: Array, y_database: Array, weight: Floats | None, **how: Any
) -> Array:
    """Return the share of other classes among the 5 nearest points of the database.

    A point counts as many times as its weight.
    """
    near, votes = _votes(queries, database, weight, how)
    return np.asarray((votes * (y_database[near] != y[:, None])).sum(axis=1), np.float32)


def squared_error(
    queries: Array, y: Array, database: Array, y_database: Array, weight: Floats | None, **how: Any
) -> Array:
    """Return the squared error of the mean target of the 5 nearest points of the database."""
    near, votes = _votes(queries, database, weight, how)
    return np.asarray(((votes * y_database[near]).sum(axis=1) - y) ** 2, np.float32)


def retrieval(
    queries: Array, y: Array, database: Array, y_database: Array, weight: Floats | None, **how: Any
) -> Array:
    """Return 1 - average precision at R, where R points of the database have the query's class.

    Queries whose class is not in the database have cost 0.
    """
    del weight
    candidates = y[:, None] == y_database
    if how.get("where") is not None:
        candidates &= how["where"][0][:, None] != how["where"][1]
    relevant = candidates.sum(axis=1)
    if how.get("exclude") is not None:
        relevant -= (how["exclude"] >= 0) & (y == y_database[how["exclude"]])
    most = int(relevant.max(initial=0))
    if most == 0:
        return np.zeros(len(y), np.float32)
    hits = y[:, None] == _neighbor_labels(queries, database, y_database, most, how).T
    counted = np.arange(1, hits.shape[1] + 1) <= relevant[:, None]
    precisions = hits.cumsum(axis=1) / np.arange(1, hits.shape[1] + 1)
    found = (precisions * hits * counted).sum(axis=1) / np.maximum(relevant, 1)
    return np.asarray(np.where(relevant > 0, 1 - found, 0.0), np.float32)


def of_distances(function: Callable[[Floats, Array], Any]) -> Measure:
    """Return the measure of a function of distances and relevance, both of shape (n, m).

    Excluded points of the database have infinite distances, and are not relevant.
    """

    def measure(
        queries: Array, y: Array, database: Array, y_database: Array, weight: Floats | None,
        exclude: Integers | None = None, where: Any = None, n_jobs: int | None = None,
        search: Any = None,
    ) -> Array:  # fmt: skip
        del weight
        if search is None:
            distances = pairwise_distances(queries, database, n_jobs=n_jobs)
        else:
            near, index = search(queries, database, len(database), n_jobs=n_jobs)
            distances = np.empty_like(near)
            np.put_along_axis(distances, index, near, 1)
        left_out = np.zeros(distances.shape, bool)
        if exclude is not None:
            left_out[np.flatnonzero(exclude >= 0), exclude[exclude >= 0]] = True
        if where is not None:
            left_out |= where[0][:, None] == where[1]
        distances[left_out] = np.inf
        costs = np.asarray(function(distances, (y[:, None] == y_database) & ~left_out), float)
        if costs.shape != y.shape[:1]:
            raise ValueError(
                f"measure must return {len(y)} costs, one per query; found shape {costs.shape}."
            )
        return costs

    return measure


def verification(distances: Floats, relevant: Array) -> Array:
    """Return the share of each query's pairs of its class that are refused.

    The threshold accepts 1 % of all pairs of different classes. Queries without a pair of their
    class have cost 0.
    """
    impostors = distances[~relevant & np.isfinite(distances)]
    if not len(impostors):
        raise ValueError("held-out points form no pairs of different classes.")
    threshold = np.quantile(impostors, _FALSE_ACCEPTS)
    n_pairs = relevant.sum(axis=1)
    return np.asarray((relevant & (distances > threshold)).sum(axis=1) / np.maximum(n_pairs, 1))


MEASURES: dict[str, Measure] = {
    "neighbors": neighbors,
    "nearest": nearest,
    "vote": vote,
    "retrieval": retrieval,
    "verification": of_distances(verification),
    "squared_error": squared_error,
}


def neighbor_error(
    database: Array,
    y_database: Any,
    queries: Array,
    y: Any,
    numeric: bool,
    n_neighbors: int = _VOTERS,
    **how: Any,
) -> float:
    """Return the error of nearest-neighbour predictions; for numbers, the mean squared error.

    `how`: arguments of the search, `exclude`, `where` and `n_jobs`.
    """
    found = _neighbor_labels(queries, database, y_database, n_neighbors, how)
    return mean_error(found.T, y, numeric)


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


def count_votes(weights: Array, k: int | Array) -> Array:
    """Return how many of k votes each neighbour has; a neighbour has as many votes as its weight.

    `weights`: of shape (n, n_neighbors), nearest first.
    `k`: an integer, or an array of shape (n, 1).
    """
    return np.asarray(np.clip(k - (weights.cumsum(axis=1) - weights), 0, weights))


def _neighbor_labels(
    queries: Array, database: Array, y_database: Any, n_neighbors: int, how: dict[str, Any]
) -> Any:
    """Return the labels of the nearest neighbours, one row for each rank; -1 stands for none."""
    k = min(n_neighbors, len(database) - (how.get("exclude") is not None))
    index = _nearest(queries, database, k, **how)
    found = y_database[index]
    found[index < 0] = -1
    return found.T


def _nearest(
    queries: Array, database: Array, k: int, search: Any = kneighbors, **how: Any
) -> Integers:
    """Return the nearest points of each query."""
    return np.asarray(search(queries, database, k, **how)[1])


def _votes(
    queries: Array, database: Array, weight: Floats | None, how: dict[str, Any]
) -> tuple[Integers, Floats]:
    """Return the 5 nearest points of each query, and their shares of the votes.

    Missing neighbours (-1) have no votes.
    """
    k = min(_NEIGHBORS, len(database) - (how.get("exclude") is not None))
    near = _nearest(queries, database, k, **how)
    votes = count_votes((near >= 0) * (1.0 if weight is None else weight[near]), k)
    return near, votes / np.maximum(votes.sum(axis=1, keepdims=True), 1e-150)
