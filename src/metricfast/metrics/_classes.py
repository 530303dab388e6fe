"""Metrics of class labels, from the ranks of references with the query's class.

`hits` is a boolean array: whether the reference at each rank has the class of the query. `relevant`
is R, the number of references with the class of the query, at least 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metricfast._core.types import Array, Floats, Integers

_Hits = NDArray[np.bool_]


class ClassRanks(NamedTuple):
    """Statistics of the ranks of the R references of each query's class."""

    first: Integers  # the rank of the first; 0 if there is none
    hits: Integers  # the number of those among the first R
    precisions_of_hits: Floats  # the sum of the precisions at these
    precisions: Floats  # the sum of the precisions at all R

    def of_queries(self, rows: Integers) -> ClassRanks:
        """Return the statistics of some queries."""
        first, hits, precisions_of_hits, precisions = self
        return ClassRanks(first[rows], hits[rows], precisions_of_hits[rows], precisions[rows])


@dataclass(frozen=True)
class ClassMetric:
    """Description of a metric per query, from 0 to 1.

    `value`: function of hits, R and k.
    `of_ranks`: the same value as a function of :class:`ClassRanks`, R and k.
    `chance`: function of R, the number of candidates and k: the expectation over random orders.
    `depth`: number of ranks that the value depends on: "one", "k", "relevant" or "all".
    `binary`: whether values are 0 or 1 only.
    `summary`, `example`: for documentation: the definition, and the value for four points.
    """

    value: Callable[[_Hits, Integers, int], Array]
    chance: Callable[[int, int, int], float]
    depth: str
    binary: bool = False
    of_ranks: Callable[[ClassRanks, Integers, int], Array] | None = None
    summary: str = ""
    example: str = ""
    bounds = (0.0, 1.0)

    def baselines(self, relevant: Integers, candidates: Integers, k: int) -> tuple[Array, Array]:
        """Return the expectation over random orders and the value of the best order, per query."""
        sizes = np.stack([relevant, candidates])
        pairs, inverse = np.unique(sizes, axis=1, return_inverse=True)
        found = [(self.chance(R, n, k), self._oracle(R, n, k)) for R, n in pairs.T.tolist()]
        chance, oracle = np.reshape(found, (-1, 2))[inverse.ravel()].T
        return chance, oracle

    def _oracle(self, relevant: int, n: int, k: int) -> float:
        """Return the value of an order of `n` references that begins with all hits."""
        places = n if self.depth == "all" else max(relevant, k)
        hits = np.arange(places)[None] < relevant
        return float(self.value(hits, np.array([relevant]), k)[0])


def _at(cumulated: Array, relevant: Integers) -> Array:
    """Return entry R - 1 of each row."""
    return np.asarray(np.take_along_axis(cumulated, relevant[:, None] - 1, axis=1)[:, 0])


def sum_of_precisions(hits: _Hits) -> Array:
    """Return, for each rank, the sum of the precisions at all hits up to it."""
    places = np.arange(1, hits.shape[1] + 1)
    return np.asarray(np.cumsum(np.cumsum(hits, axis=1) / places * hits, axis=1))


def sum_by_chance(relevant: int, n: int, places: int) -> float:
    """Return the expectation of :func:`sum_of_precisions` over random orders, at the given rank.

    For a hit at rank i, the other R - 1 hits are distributed over n - 1 ranks, i - 1 of which
    precede it.
    """
    i = np.arange(1, places + 1)
    others = (i - 1) * (relevant - 1) / max(n - 1, 1)
    return float(np.sum((1 + others) / i) * relevant / n)


def _no_hit(relevant: int, n: int) -> Array:
    """Return the probability that a random order has no hit in the first 0, 1, ... n ranks."""
    i = np.arange(n)
    none_yet = np.cumprod(np.maximum(n - relevant - i, 0) / (n - i))
    return np.concatenate([[1.0], none_yet])


def chance_of_hit(relevant: int, n: int) -> Array:
    """Return for each place the probability that a random order has its first hit there."""
    return np.asarray(-np.diff(_no_hit(relevant, n)))


CLASS_METRICS = {
    "precision_at_1": ClassMetric(
        lambda hits, relevant, k: hits[:, 0].astype(float),
        lambda relevant, n, k: relevant / n,
        "one",
        True,
        summary="The share of queries whose nearest reference is of their class.",
        example="0.75",
        of_ranks=lambda ranks, relevant, k: (ranks.first == 1).astype(float),
    ),
    "r_precision": ClassMetric(
        lambda hits, relevant, k: _at(np.cumsum(hits, axis=1), relevant) / relevant,
        lambda relevant, n, k: relevant / n,
        "relevant",
        summary="The share of hits in the first R, the number of references of the query's class.",
        example="0.75",
        of_ranks=lambda ranks, relevant, k: ranks.hits / relevant,
    ),
    "map_at_r": ClassMetric(
        lambda hits, relevant, k: _at(sum_of_precisions(hits), relevant) / relevant,
        lambda relevant, n, k: sum_by_chance(relevant, n, relevant) / relevant,
        "relevant",
        summary="""The precisions at the hits in the first R references, summed and divided by R.

    R is the number of references of the query's class.""",
        example="0.75",
        of_ranks=lambda ranks, relevant, k: ranks.precisions_of_hits / relevant,
    ),
    "mean_average_precision": ClassMetric(
        lambda hits, relevant, k: sum_of_precisions(hits)[:, -1] / relevant,
        lambda relevant, n, k: sum_by_chance(relevant, n, n) / relevant,
        "all",
        summary="The mean precision at the references of the query's class, in the whole order.",
        example="0.8333333333333334",
        of_ranks=lambda ranks, relevant, k: ranks.precisions / relevant,
    ),
    "mean_reciprocal_rank": ClassMetric(
        lambda hits, relevant, k: 1 / (hits.argmax(axis=1) + 1),
        lambda relevant, n, k: float(np.sum(chance_of_hit(relevant, n) / np.arange(1, n + 1))),
        "all",
        summary="One over the place of the first reference of the query's class.",
        example="0.8333333333333334",
        of_ranks=lambda ranks, relevant, k: 1 / ranks.first,
    ),
    "recall_at_k": ClassMetric(
        lambda hits, relevant, k: hits[:, :k].any(axis=1).astype(float),
        lambda relevant, n, k: 1 - float(_no_hit(relevant, n)[k]),
        "k",
        True,
        summary="""The share of queries with a reference of their class among the first k.

    The recall of the metric learning literature. :func:`relevance_report` calls it "hit_at_k"; its
    "recall_at_k" is the share of the relevant points that are found.""",
        example="0.75",
        of_ranks=lambda ranks, relevant, k: (ranks.first <= k).astype(float),
    ),
}
