"""Costs of held-out points, from their nearest neighbours or their distances.

A measure takes a search of embedded queries in an embedded database, with the labels of both, and
returns one cost for each query; lower is better. A second column holds costs that must not get
worse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import issparse

from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.neighbors import kneighbors, nearest_of_arrays, pairwise_distances
from metricfast.exceptions import MeasureError

# Takes a search, labels of its queries and of its database, and weights of the database or None.
# Labels are class indices; or sparse matrices of tags, which are of one class if they share a tag;
# or numbers.
Measure = Callable[["Search", Any, Any, "Floats | None"], Array]
# Number of neighbours in the cost of a point (more than one, to reduce noise).
_NEIGHBORS = 5
# Weight of a neighbour by its rank: the mean of 1/5 and of the probability that it is the nearest
# in a random half of the database.
_SHARES = (np.array([4.0, 2.0, 1.0, 0.0, 0.0]) / 7 + 1 / _NEIGHBORS) / 2
# Share of the pairs of different classes that are accepted, for verification.
_FALSE_ACCEPTS = 0.01


@dataclass(eq=False)
class Search:
    """The search of embedded queries in an embedded database, for one or several measures.

    Attributes
    ----------
    queries, database : ndarray
    exclude, where
        As in :class:`Part`.
    n_jobs : int or None
    function : callable, optional
        In place of `kneighbors`, if distances are not those of embedded points.
    """

    queries: Array
    database: Array
    exclude: Integers | None = None
    where: tuple[Integers, Integers] | None = None
    n_jobs: int | None = None
    function: Callable[..., tuple[Array, Integers]] | None = None

    _found: Integers | None = field(default=None, init=False)

    def nearest(self, n_neighbors: int) -> Integers:
        """Return the nearest neighbours of each query, in ascending order; -1 stands for none."""
        most = len(self.database) - (self.exclude is not None)
        if self._found is None or self._found.shape[1] < min(n_neighbors, most):
            given = self.queries, self.database, min(max(n_neighbors, _NEIGHBORS), most)
            if self.function is None and self.where is None:
                self._found = nearest_of_arrays(*given, self.exclude, self.n_jobs)
            else:
                how: dict[str, Any] = {"exclude": self.exclude, "where": self.where}
                search = self.function or kneighbors
                self._found = np.asarray(search(*given, **how, n_jobs=self.n_jobs)[1])
        return self._found[:, :n_neighbors]

    def distances(self) -> Array:
        """Return the distances of all pairs."""
        if self.function is None:
            return pairwise_distances(self.queries, self.database, n_jobs=self.n_jobs)
        near, index = self.function(
            self.queries, self.database, len(self.database), n_jobs=self.n_jobs
        )
        distances = np.empty_like(near)
        np.put_along_axis(distances, index, near, 1)
        return distances

    def relevance(self, y: Any, y_database: Any) -> tuple[Array, Array]:
        """Return which points of the database have each query's class, and which are left out."""
        relevant = (y @ y_database.T).toarray() > 0 if issparse(y) else y[:, None] == y_database
        left_out = np.zeros(relevant.shape, bool)
        if self.exclude is not None:
            queries = np.flatnonzero(self.exclude >= 0)
            left_out[queries, self.exclude[queries]] = True
        if self.where is not None:
            left_out |= self.where[0][:, None] == self.where[1]
        return relevant & ~left_out, left_out


def nearest(search: Search, y: Any, y_database: Any, _: Floats | None) -> Array:
    """Return 1 where the nearest neighbour is of another class, else 0."""
    return np.asarray(_differ(y, y_database, search.nearest(1))[:, 0], np.float32)


def neighbors(search: Search, y: Any, y_database: Any, _: Floats | None) -> Array:
    """Return the weighted share of other classes among the 5 nearest neighbours.

    It is the mean of two costs: the expected error of the nearest neighbour in a random half of the
    database, and the share of other classes among the 5 nearest neighbours. A second column has the
    costs of `nearest`, which must not get worse.
    """
    wrong = _differ(y, y_database, search.nearest(_NEIGHBORS))
    shares = _SHARES[: wrong.shape[1]] / _SHARES[: wrong.shape[1]].sum()
    return np.column_stack([wrong @ shares, wrong[:, 0]]).astype(np.float32)


def vote(search: Search, y: Any, y_database: Any, weight: Floats | None) -> Array:
    """Return the share of other classes among the 5 nearest points of the database.

    A point counts as many times as its weight.
    """
    near, votes = _votes(search, weight)
    return np.asarray((votes * _differ(y, y_database, near)).sum(axis=1), np.float32)


def squared_error(search: Search, y: Array, y_database: Array, weight: Floats | None) -> Array:
    """Return the squared error of the mean target of the 5 nearest points of the database.

    Targets are numbers, or vectors.
    """
    near, votes = _votes(search, weight)
    errors = np.einsum("nk,nk...->n...", votes, y_database[near]) - y
    return np.asarray(np.square(errors).reshape(len(errors), -1).sum(axis=1))


def label_distance(
    search: Search, y: Any, y_database: Any, weight: Floats | None, distance: Any = None
) -> Array:
    """Return the mean label distance of the 5 nearest points of the database.

    `distance`: the distance of the labels.
    """
    near, votes = _votes(search, weight)
    y, y_database = distance.encode(y), distance.encode(y_database)
    found = [distance.between(y[i : i + 1], y_database[row])[0] for i, row in enumerate(near)]
    return np.asarray((votes * np.array(found)).sum(axis=1), np.float32)


def retrieval(search: Search, y: Any, y_database: Any, _: Floats | None) -> Array:
    """Return 1 - average precision at R, where R points of the database have the query's class.

    Queries whose class is not in the database have cost 0.
    """
    relevant = search.relevance(y, y_database)[0].sum(axis=1)
    most = int(relevant.max(initial=0))
    if most == 0:
        return np.zeros(len(relevant), np.float32)
    hits = ~_differ(y, y_database, search.nearest(most))
    counted = np.arange(1, hits.shape[1] + 1) <= relevant[:, None]
    precisions = hits.cumsum(axis=1) / np.arange(1, hits.shape[1] + 1)
    found = (precisions * hits * counted).sum(axis=1) / np.maximum(relevant, 1)
    return np.asarray(np.where(relevant > 0, 1 - found, 0.0), np.float32)


def of_distances(function: Callable[[Floats, Array], Any]) -> Measure:
    """Return the measure of a function of distances and relevance, both of shape (n, m).

    Excluded points of the database have infinite distances, and are not relevant.
    """

    def measure(search: Search, y: Any, y_database: Any, _: Floats | None) -> Array:
        distances = search.distances()
        relevant, left_out = search.relevance(y, y_database)
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


def _differ(y: Any, y_database: Any, near: Integers) -> Array:
    """Return whether neighbours are of another class; missing neighbours (-1) are."""
    if issparse(y):
        shared = [np.ravel(y.multiply(y_database[each]).sum(axis=1)) for each in near.T]
        return np.asarray((np.column_stack(shared) == 0) | (near < 0))
    return np.asarray((y_database[near] != y[:, None]) | (near < 0))


def _votes(search: Search, weight: Floats | None) -> tuple[Integers, Floats]:
    """Return the 5 nearest points of each query, and their shares of the votes.

    A neighbour has as many of the 5 votes as its weight. Missing neighbours (-1) have none.
    """
    near = search.nearest(_NEIGHBORS)
    weights = (near >= 0) * (1.0 if weight is None else weight[near])
    votes = np.clip(near.shape[1] - (weights.cumsum(axis=1) - weights), 0, weights)
    return near, votes / np.maximum(votes.sum(axis=1, keepdims=True), 1e-150)
