"""Neighbours of each query, and statistics of their labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from scipy.sparse import csr_matrix

from metricfast._core.types import Array, Floats, Integers

# Larger weights are scaled, because their sums and products with values might overflow.
_LARGE = 2.0**500


def _check_weights(_: str, weights: Any) -> None:
    """Raise an error unless `weights` is a valid name or a function."""
    named = isinstance(weights, str) and weights in ("uniform", "distance")
    function = callable(weights) and not isinstance(weights, type)
    if not (named or weights is None or function):
        raise ValueError(
            f"weights must be 'uniform', 'distance', None or a function of distances, got "
            f"{weights!r}."
        )


Weights = Annotated[str | Callable[[Array], Any] | None, _check_weights]


@dataclass(frozen=True)
class Neighborhoods:
    """Neighbours of queries in compressed sparse row format.

    Attributes
    ----------
    distances : ndarray of shape (n_found,)
    indices : ndarray of int64 of shape (n_found,)
    row_starts : ndarray of int64 of shape (n_queries + 1,)
    k : int or None
        Number of neighbours per query; None if it differs between queries.
    """

    distances: Array
    indices: Integers
    row_starts: Integers
    k: int | None = None

    @classmethod
    def of_k(cls, distances: Array, indices: Integers) -> Neighborhoods:
        """Build neighbourhoods from arrays of shape (n_queries, k)."""
        n, k = indices.shape
        return cls(distances.ravel(), indices.ravel(), np.arange(n + 1) * k, k)

    @classmethod
    def of_each(cls, distances: Array, indices: Array) -> Neighborhoods:
        """Build neighbourhoods from one array of distances and one of indices per query."""
        ends = np.cumsum([len(some) for some in indices])
        return cls(
            np.concatenate(list(distances)), np.concatenate(list(indices)), np.append(0, ends)
        )

    @property
    def sizes(self) -> Integers:
        """Number of neighbours of each query."""
        return np.diff(self.row_starts)

    @cached_property
    def rows(self) -> Integers:
        """Index of the query of each neighbour."""
        return np.repeat(np.arange(len(self.row_starts) - 1), self.sizes)

    def split(self, values: Array) -> Array:
        """Split values into one array per query."""
        parts = np.empty(len(self.row_starts) - 1, dtype=object)
        for i, (first, end) in enumerate(zip(self.row_starts, self.row_starts[1:], strict=False)):
            parts[i] = values[first:end]
        return parts

    def graph(self, values: Array | None, n_database: int) -> csr_matrix:
        """Return a sparse matrix of values, by default ones, of shape (n_queries, n_points)."""
        shape = (len(self.row_starts) - 1, n_database)
        small = max(len(self.indices), *shape) < 2**31
        dtype = np.int32 if small else np.int64
        data = np.ones(len(self.indices)) if values is None else values
        return csr_matrix(
            (data, self.indices.astype(dtype), self.row_starts.astype(dtype)), shape=shape
        )

    def weigh(self, weights: Weights, of_points: Floats | None = None) -> Floats:
        """Return the weight of each neighbour. If some are infinite, all others count as 0.

        `of_points`: weights of the database points, which multiply the weights by distance. A point
        of weight 0 does not count, not even at distance 0. Raises ValueError if a function does not
        return one weight per distance, or returns negative weights or NaN; or if all neighbours of
        a query have weight 0.
        """
        if callable(weights):
            found = self._asked(weights)
        elif weights == "distance":
            if len(self.distances) and self.distances.min() < 0:
                raise ValueError(
                    f"weights='distance' needs distances from 0, found {self.distances.min()}: "
                    "give weights a function of distances."
                )
            with np.errstate(divide="ignore", over="ignore"):
                found = 1.0 / self.distances.astype(np.float64)
        elif of_points is None:
            return np.ones(len(self.indices))
        else:
            found = np.ones(len(self.indices))
        own = None if of_points is None else of_points[self.indices]
        if own is not None:
            found = np.where(own > 0, found, 0.0)
        if len(found) and found.max() > _LARGE:
            found = self._tamed(found)
        if own is not None:
            found = found * own
        nothing = (self.sum(found) == 0) & (self.sizes > 0)
        if nothing.any():
            name = "weights" if own is None else "weights times sample_weight (and class_weight)"
            raise ValueError(
                f"{name} leaves query {int(nothing.argmax())} without a neighbour: all of its "
                "neighbours have the weight 0, and there is no class or value to predict."
            )
        return found

    def _asked(self, weights: Callable[[Array], Any]) -> Floats:
        """Call the weight function: once if the distances form a matrix, else once per query."""
        if self.k is not None:
            distances = [self.distances.reshape(-1, self.k)]
        else:
            distances = [part for part in self.split(self.distances) if len(part)]
        with np.errstate(divide="ignore", over="ignore"):  # 1 / d**2 of equal points
            answers = [np.asarray(weights(part.copy()), dtype=np.float64) for part in distances]
        for part, answer in zip(distances, answers, strict=True):
            if answer.shape != part.shape:
                raise ValueError(
                    f"weights must return one weight a distance, of shape {part.shape}; found "
                    f"{answer.shape}."
                )
            wrong = ~(answer >= 0)  # NaN too
            if wrong.any():
                raise ValueError(
                    f"weights must return numbers from 0; found {answer[wrong][0]} for the "
                    f"distance {part[wrong][0]}."
                )
        return np.concatenate([answer.ravel() for answer in answers] or [np.empty(0)])

    def _tamed(self, weight: Floats) -> Floats:
        """Map infinite weights to 1, others of their query to 0; scale weights against overflow."""
        rows, infinite = self.rows, np.isinf(weight)
        weight = np.where(self.sum(infinite)[rows] > 0, infinite, weight)
        largest = np.zeros(len(self.row_starts) - 1)
        np.maximum.at(largest, rows, weight)
        scaled: Floats = np.ldexp(weight, -np.frexp(largest)[1][rows])  # exact
        return scaled

    def sum(self, values: Array) -> Floats:
        """Return the sum over the neighbours of each query."""
        return _sums(self.rows, values, len(self.row_starts) - 1)

    def winners(self, weight: Floats, codes: Integers, n_classes: int) -> Integers:
        """Return the class with the largest weight for each query; the first in a tie.

        It is 0 without neighbours. The memory does not depend on the number of classes.
        """
        places, at = np.unique(self.rows * n_classes + codes[self.indices], return_inverse=True)
        rows, classes = np.divmod(places, n_classes)
        order = np.lexsort((classes, -_sums(at, weight, len(places)), rows))
        queries, first = np.unique(rows[order], return_index=True)
        found = np.zeros(len(self.row_starts) - 1, np.int64)
        found[queries] = classes[order][first]
        return found

    def votes(self, weight: Floats, codes: Integers, n_classes: int) -> Floats:
        """Return the share of each class, of shape (n_queries, n_classes); 0 without neighbours."""
        n = len(self.row_starts) - 1
        places = self.rows * n_classes + codes[self.indices]
        counts = _sums(places, weight, n * n_classes).reshape(n, n_classes)
        total = counts.sum(axis=1, keepdims=True)
        shares: Floats = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
        return shares

    def means(self, weight: Floats, values: Floats) -> Floats:
        """Return the mean of the rows of values, of shape (n_queries, n_outputs).

        It is NaN for queries without neighbours.
        """
        total = self.sum(weight)
        sums = np.column_stack([self.sum(weight * column[self.indices]) for column in values.T])
        none = np.full_like(sums, np.nan)
        return np.divide(sums, total[:, None], out=none, where=total[:, None] > 0)


def _sums(places: Integers, values: Array, size: int) -> Floats:
    """Return the sum of the values at each index."""
    # np.bincount returns integers for empty input.
    sums: Floats = np.bincount(places, values, minlength=size).astype(np.float64, copy=False)
    return sums
