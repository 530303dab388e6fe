"""Votes of all points that are searched, by a softmax over their distances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from metricfast._core.memory import block_rows
from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.database import Database
from metricfast.distances.neighbors import pairwise_distances
from metricfast.predictors.neighborhoods import Neighborhoods

__all__ = ["SoftVotes"]

# Neighbours looked for at first, and the share of the votes that may be left out.
_FEW, _LEAST = 64, 1e-4


class SoftVotes:
    """Points, each of which votes by the exponential of its negative distance, times its weight.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Embedded points.
    weight : ndarray of shape (n_samples,), optional
        Above 0.
    n_jobs : int, optional
    """

    def __init__(self, Z: Array, weight: Floats | None = None, n_jobs: int | None = None) -> None:
        self.database = Database(Z, n_jobs=n_jobs)
        self._log_weight = np.zeros(len(Z)) if weight is None else np.log(weight)

    def shares(
        self, queries: Array, exclude: Integers | None = None, n_jobs: int | None = None
    ) -> Iterator[tuple[Integers, Any]]:
        """Give rows of queries, and the shares of points in their votes, which add up to 1.

        Shares are an array, or a sparse one where few points have all but a ten-thousandth of the
        votes: that many neighbours are searched for. A point without a share is farther than these.
        """
        n = len(self.database)
        left, k = np.arange(len(queries)), _FEW
        while len(left) and k < n // 2:
            undecided = []
            for rows in _blocks(left, 16 * k):
                out = None if exclude is None else exclude[rows]
                found = self.database.kneighbors(queries[rows], k, exclude=out, n_jobs=n_jobs)
                share, missing = self._softmax(*found)
                enough = missing <= _LEAST
                undecided.append(rows[~enough])
                if enough.any():
                    near = Neighborhoods.of_k(found[0][enough], found[1][enough])
                    yield rows[enough], near.graph(share[enough].ravel(), n)
            left, k = np.concatenate(undecided), 4 * k
        for rows in _blocks(left, 16 * n):
            D = pairwise_distances(queries[rows], self.database.points_, n_jobs=n_jobs)
            logits = self._log_weight - D
            if exclude is not None:
                logits[np.arange(len(rows)), exclude[rows]] = -np.inf
            yield rows, _normalized(logits)[0]

    def _softmax(self, distances: Array, indices: Integers) -> tuple[Floats, Floats]:
        """Return the shares of neighbours, and at most what share all others would have."""
        logits = self._log_weight[indices] - distances
        share, log_total = _normalized(logits)
        rest = np.exp(self._log_weight).sum() - np.exp(self._log_weight[indices]).sum(axis=1)
        return share, np.maximum(rest, 0) * np.exp(-distances[:, -1] - log_total)

    def means(
        self, values: Any, queries: Array, exclude: Integers | None = None,
        n_jobs: int | None = None,
    ) -> Floats:  # fmt: skip
        """Return the mean of rows of values, (n_samples, n_outputs), by the votes of queries."""
        found = np.empty((len(queries), values.shape[1]))
        for rows, share in self.shares(queries, exclude, n_jobs):
            mean = share @ values
            found[rows] = mean if isinstance(mean, np.ndarray) else mean.toarray()
        return found


def _blocks(rows: Integers, row_bytes: int) -> Iterator[Integers]:
    """Give rows in blocks that memory has room for."""
    size = block_rows(row_bytes)
    return (rows[first : first + size] for first in range(0, len(rows), size))


def _normalized(logits: Floats) -> tuple[Floats, Floats]:
    """Return the softmax of each row, in place, and the logarithm of its denominator."""
    highest = logits.max(axis=1, keepdims=True)
    np.exp(logits - highest, out=logits)
    total = logits.sum(axis=1, keepdims=True)
    logits /= total
    return logits, (highest + np.log(total))[:, 0]
