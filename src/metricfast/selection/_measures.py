"""Costs of held-out points, from their nearest neighbours or their distances.

A measure takes embedded queries and an embedded database, with the labels of both, and returns one
cost for each query; lower is better. A second column holds costs that must not get worse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse

from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.neighbors import kneighbors, nearest_of_arrays, pairwise_distances
from metricfast.exceptions import MeasureError

# Called with embedded queries, their labels, the embedded database, its labels and weights, and the
# keyword arguments of the search: `exclude`, `where` and `n_jobs`, and `search`, a function in
# place of `kneighbors` where distances are not those of embedded points. Labels are class indices;
# or sparse matrices of tags, which are of one class if they share a tag; or numbers.
Measure = Callable[..., Array]
# Number of neighbours in the cost of a point (more than one, to reduce noise).
_NEIGHBORS = 5
# Weight of a neighbour by its rank: the mean of 1/5 and of the probability that it is the nearest
# in a random half of the database.
_SHARES = (np.array([4.0, 2.0, 1.0, 0.0, 0.0]) / 7 + 1 / _NEIGHBORS) / 2
# Share of the pairs of different classes that are accepted, for verification.
_FALSE_ACCEPTS = 0.01


def nearest(
    queries: Array, y: Array, database: Array, y_database: Array, _weight: Floats | None, **how: Any
) -> Array:
    """Return 1 where the nearest neighbour is of another class, else 0."""
    near = _nearest(queries, database, 1, how)
    return np.asarray(_differ(y, y_database, near)[:, 0], np.float32)


def neighbors(
    queries: Array, y: Array, database: Array, y_database: Array, _weight: Floats | None, **how: Any
) -> Array:
    """Return the weighted share of other classes among the 5 nearest neighbours.

    It is the mean of two costs: the expected error of the nearest neighbour in a random half of the
    database, and the share of other classes among the 5 nearest neighbours. A second column has the
    costs of `nearest`, which must not get worse.
    """
    wrong = _differ(y, y_database, _nearest(queries, database, _NEIGHBORS, how))
    shares = _SHARES[: wrong.shape[1]] / _SHARES[: wrong.shape[1]].sum()
    return np.column_stack([wrong @ shares, wrong[:, 0]]).astype(np.float32)


def vote(
    queries: Array, y: Array, database: Array, y_database: Array, weight: Floats | None, **how: Any
) -> Array:
    """Return the share of other classes among the 5 nearest points of the database.

    A point counts as many times as its weight.
    """
    near, votes = _votes(queries, database, weight, how)
    return np.asarray((votes * _differ(y, y_database, near)).sum(axis=1), np.float32)


def squared_error(
    queries: Array, y: Array, database: Array, y_database: Array, weight: Floats | None, **how: Any
) -> Array:
    """Return the squared error of the mean target of the 5 nearest points of the database.

    Targets are numbers, or vectors.
    """
    near, votes = _votes(queries, database, weight, how)
    errors = np.einsum("nk,nk...->n...", votes, y_database[near]) - y
    return np.asarray(np.square(errors).reshape(len(errors), -1).sum(axis=1))


def label_distance(
    queries: Array, y: Array, database: Array, y_database: Array, weight: Floats | None,
    distance: Any, **how: Any,
) -> Array:  # fmt: skip
    """Return the mean label distance of the 5 nearest points of the database.

    `distance`: the distance of the labels.
    """
    near, votes = _votes(queries, database, weight, how)
    y, y_database = distance.encode(y), distance.encode(y_database)
    found = [distance.between(y[i : i + 1], y_database[row])[0] for i, row in enumerate(near)]
    return np.asarray((votes * np.array(found)).sum(axis=1), np.float32)


def retrieval(
    queries: Array, y: Array, database: Array, y_database: Array, _weight: Floats | None, **how: Any
) -> Array:
    """Return 1 - average precision at R, where R points of the database have the query's class.

    Queries whose class is not in the database have cost 0.
    """
    relevant = _relevance(y, y_database, how)[0].sum(axis=1)
    most = int(relevant.max(initial=0))
    if most == 0:
        return np.zeros(len(queries), np.float32)
    hits = ~_differ(y, y_database, _nearest(queries, database, most, how))
    counted = np.arange(1, hits.shape[1] + 1) <= relevant[:, None]
    precisions = hits.cumsum(axis=1) / np.arange(1, hits.shape[1] + 1)
    found = (precisions * hits * counted).sum(axis=1) / np.maximum(relevant, 1)
    return np.asarray(np.where(relevant > 0, 1 - found, 0.0), np.float32)


def of_distances(function: Callable[[Floats, Array], Any]) -> Measure:
    """Return the measure of a function of distances and relevance, both of shape (n, m).

    Excluded points of the database have infinite distances, and are not relevant.
    """

    def measure(
        queries: Array, y: Array, database: Array, y_database: Array, _weight: Any, **how: Any
    ) -> Array:
        search, n_jobs = how.get("search"), how.get("n_jobs")
        if search is None:
            distances = pairwise_distances(queries, database, n_jobs=n_jobs)
        else:
            near, index = search(queries, database, len(database), n_jobs=n_jobs)
            distances = np.empty_like(near)
            np.put_along_axis(distances, index, near, 1)
        relevant, left_out = _relevance(y, y_database, how)
        distances[left_out] = np.inf
        costs = np.asarray(function(distances, relevant), float)
        if costs.shape != distances.shape[:1]:
            raise MeasureError(
                f"measure must return {len(distances)} costs, one per query; found shape "
                f"{costs.shape}."
            )
        if not np.isfinite(costs).all():
            query = int(np.flatnonzero(~np.isfinite(costs))[0])
            raise MeasureError(
                f"measure must return finite costs; found {costs[query]} for query {query}."
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


def pair_order(distances: Floats, relevant: Array) -> Array:
    """Return the share of wrong order between the relevant points of each query and the others."""
    own = np.take_along_axis(relevant, distances.argsort(axis=1), axis=1)
    n_pairs = np.count_nonzero(own, axis=1) * np.count_nonzero(~own, axis=1)
    return np.asarray(((~own).cumsum(axis=1) * own).sum(axis=1) / np.maximum(n_pairs, 1))


def order(scores: Floats, y: Array | None) -> Floats:
    """Return the cost of each tuple, of which similar pairs, or tuples in order, score higher.

    `y`: 1 for similar pairs, -1 for dissimilar ones. A pair costs the share of pairs of the other
        kind in wrong order with it; their mean over the pairs of one kind is 1 minus the area under
        the ROC curve. Without `y`, a tuple costs 1 if its score is negative, and 1/2 if it is 0.
    """
    if y is None:
        return np.asarray((1 - np.sign(scores)) / 2)
    costs = np.empty(len(y))
    for label in (-1, 1):
        chosen, others = y == label, np.sort(-label * scores[y != label])
        if not (len(others) and chosen.any()):
            raise ValueError("held-out pairs are all similar, or all dissimilar.")
        places = [
            np.searchsorted(others, -label * scores[chosen], side) for side in ("left", "right")
        ]
        costs[chosen] = (places[0] + places[1]) / (2 * len(others))
    return costs


MEASURES: dict[str, Measure] = {
    "neighbors": neighbors,
    "nearest": nearest,
    "vote": vote,
    "retrieval": retrieval,
    "verification": of_distances(verification),
    "squared_error": squared_error,
    "label_distance": label_distance,
}


def _nearest(queries: Array, database: Array, n_neighbors: int, how: dict[str, Any]) -> Integers:
    """Return the nearest neighbours of each query, in ascending order; -1 stands for none."""
    k = min(n_neighbors, len(database) - (how.get("exclude") is not None))
    search, how = how.get("search"), {n: each for n, each in how.items() if n != "search"}
    if search is None and how.get("where") is None:
        return nearest_of_arrays(queries, database, k, how.get("exclude"), how.get("n_jobs"))
    return np.asarray((search or kneighbors)(queries, database, k, **how)[1])


def _differ(y: Any, y_database: Any, near: Integers) -> Array:
    """Return whether neighbours are of another class; missing neighbours (-1) are."""
    if issparse(y):
        shared = [np.ravel(y.multiply(y_database[each]).sum(axis=1)) for each in near.T]
        return np.asarray((np.column_stack(shared) == 0) | (near < 0))
    return np.asarray((y_database[near] != y[:, None]) | (near < 0))


def _relevance(y: Any, y_database: Any, how: dict[str, Any]) -> tuple[Array, Array]:
    """Return which points of the database have the class of each query, and which are left out."""
    relevant = (y @ y_database.T).toarray() > 0 if issparse(y) else y[:, None] == y_database
    left_out, exclude, where = np.zeros(relevant.shape, bool), how.get("exclude"), how.get("where")
    if exclude is not None:
        left_out[np.flatnonzero(exclude >= 0), exclude[exclude >= 0]] = True
    if where is not None:
        left_out |= where[0][:, None] == where[1]
    return relevant & ~left_out, left_out


def _votes(
    queries: Array, database: Array, weight: Floats | None, how: dict[str, Any]
) -> tuple[Integers, Floats]:
    """Return the 5 nearest points of each query, and their shares of the votes.

    A neighbour has as many of the 5 votes as its weight. Missing neighbours (-1) have none.
    """
    near = _nearest(queries, database, _NEIGHBORS, how)
    weights = (near >= 0) * (1.0 if weight is None else weight[near])
    votes = np.clip(near.shape[1] - (weights.cumsum(axis=1) - weights), 0, weights)
    return near, votes / np.maximum(votes.sum(axis=1, keepdims=True), 1e-150)
