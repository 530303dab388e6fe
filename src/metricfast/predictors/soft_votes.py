"""Soft votes: a softmax over the negative distances to all database points."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.memory import block_rows
from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.database import Database
from metricfast.distances.neighbors import pairwise_distances
from metricfast.predictors.neighborhoods import Neighborhoods

# Number of sampled queries that determine the number of neighbours to search for, and the share of
# the votes that may be omitted.
_SAMPLE, _LEAST = 64, 1e-4


class SoftVotes:
    """Points that vote with the exponential of their negative distance, times their weight.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Embedded points.
    weight : ndarray of shape (n_samples,), optional
        Above 0.
    n_jobs : int, optional
    """

    def __init__(self, Z: Array, weight: Floats | None = None, n_jobs: int | None = None) -> None:
        self.points, self._n_jobs = Z, n_jobs
        self._log_weight = None if weight is None else np.log(weight)

    @cached_property
    def database(self) -> Database:
        """The points, prepared for a search."""
        return Database(self.points, n_jobs=self._n_jobs)

    def means(
        self, values: Array, queries: Array, exclude: Integers | None = None,
        n_jobs: int | None = None,
    ) -> Floats:  # fmt: skip
        """Return means of `values`, (n_samples, n_outputs), weighted by votes for each query.

        The computation uses the precision of `values`. With float64, votes are exact to 1e-6.
        """
        found = np.empty((len(queries), values.shape[1]))
        get_kernels().soft_votes(
            queries, self.points, values, self._log_weight, exclude, found, as_threads(n_jobs)
        )
        return found

    def shares(
        self, queries: Array, exclude: Integers | None = None, n_jobs: int | None = None
    ) -> Iterator[tuple[Integers, csr_matrix]]:
        """Yield slices of queries and the shares of points in their votes, which sum to 1.

        Points with less than 1e-4 of the votes in total may be omitted. A sample of queries
        determines the number of neighbours to search for.
        """
        queries = queries.astype(np.float64)
        n, rows = len(self.points), np.arange(len(queries))
        sample = rows[:: max(1, len(rows) // _SAMPLE)]
        share = np.sort(self._all_shares(queries, sample, exclude, n_jobs), axis=1)[:, ::-1]
        k = 1 + int((share.cumsum(axis=1) < 1 - _LEAST / 2).sum(axis=1).max(initial=0))
        if k > n // 8:
            left = [rows]
        else:
            left = []
            for block in _blocks(rows, 16 * k):
                out = None if exclude is None else exclude[block]
                found = self.database.kneighbors(queries[block], k, exclude=out, n_jobs=n_jobs)
                share, missing = self._softmax(*found)
                enough = missing <= _LEAST
                left.append(block[~enough])
                near = Neighborhoods.of_k(found[0][enough], found[1][enough])
                yield block[enough], near.graph(share[enough].ravel(), n)
        for block in _blocks(np.concatenate(left), 24 * n):
            share = self._all_shares(queries, block, exclude, n_jobs)
            share[share < _LEAST / n] = 0
            yield block, csr_matrix(share / share.sum(axis=1, keepdims=True))

    def _all_shares(
        self, queries: Array, rows: Integers, exclude: Integers | None, n_jobs: int | None
    ) -> Floats:
        """Return the share of each point in the votes for some queries."""
        D = pairwise_distances(queries[rows], self.points, n_jobs=n_jobs)
        logits = (0.0 if self._log_weight is None else self._log_weight) - D
        if exclude is not None:
            left_out = exclude[rows]
            places = np.flatnonzero(left_out >= 0)
            logits[places, left_out[places]] = -np.inf
        return _normalized(logits)[0]

    def _softmax(self, distances: Array, indices: Integers) -> tuple[Floats, Floats]:
        """Return the shares of neighbours, and an upper bound on the share of all others."""
        weight = np.ones(len(self.points)) if self._log_weight is None else np.exp(self._log_weight)
        logits = np.log(weight)[indices] - distances
        share, log_total = _normalized(logits)
        rest = weight.sum() - weight[indices].sum(axis=1)
        return share, np.maximum(rest, 0) * np.exp(-distances[:, -1] - log_total)


def _blocks(rows: Integers, row_bytes: int) -> Iterator[Integers]:
    """Yield slices of rows whose blocks fit into memory."""
    size = block_rows(row_bytes)
    return (rows[first : first + size] for first in range(0, len(rows), size))


def _normalized(logits: Any) -> tuple[Floats, Floats]:
    """Return the softmax of each row, in place, and the logarithm of its denominator."""
    highest = logits.max(axis=1, keepdims=True)
    np.exp(logits - highest, out=logits)
    total = logits.sum(axis=1, keepdims=True)
    logits /= total
    return logits, (highest + np.log(total))[:, 0]
