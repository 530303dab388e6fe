"""Cumulative match characteristic with a single gallery shot, as an expectation over all draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metricfast._core.types import Array, Floats, Integers


@dataclass(frozen=True)
class _ShotMetric:
    """Description of a metric with one random reference per class."""

    summary: str
    example: str
    depth = "all"
    binary = False
    bounds = (0.0, 1.0)


SHOT_METRICS = {
    "cmc_at_k": _ShotMetric(
        "The chance that the query's class is among the first k, of one reference of each class.",
        "0.75",
    )
}


def single_shots(
    ranked: Integers, own: Integers, k: int, n_classes: int
) -> tuple[Integers, Floats, Integers]:
    """Return the queries with a reference of their class, and two numbers of each.

    These are the probabilities of its class among the first 1, ..., k classes, (n_found, k), and
    the number of classes. One reference of each class is drawn. The probability that another class
    precedes the drawn reference of the query's class is the share of its references that precede
    it. Classes are independent, so the number of preceding classes is a sum of independent
    Bernoulli variables.

    `ranked`: (n_queries, n_references); the classes of all references, nearest first.
    `own`: (n_queries,); the class of each query.
    """
    rows, places = np.arange(len(ranked))[:, None], np.arange(ranked.shape[1])
    hits = ranked == own[:, None]
    sizes = _counts(rows, ranked, len(ranked), n_classes)
    last = np.zeros((len(ranked), n_classes), np.int64)
    last[rows, ranked] = places
    # Count the classes of which all references precede a place. No more than k - 1 may.
    certain = np.cumsum((last[rows, ranked] == places) & ~hits, axis=1)
    near = hits & (certain < k)
    query, place = np.nonzero(near)
    # Count the references of each class from one place to the next, and sum up.
    n_near = near.sum(axis=1)
    ends = np.cumsum(n_near + 1)
    segments = (ends - n_near - 1)[:, None] + near.cumsum(axis=1)
    before = np.cumsum(_counts(segments, ranked, ends[-1], n_classes), axis=0)
    before -= np.repeat(before[ends - 1] - sizes, n_near + 1, axis=0)
    shares = np.delete(before, ends - 1, axis=0) / np.maximum(sizes[query], 1)
    shares[np.arange(len(query)), own[query]] = 0
    totals = np.zeros((len(ranked), k))
    np.add.at(totals, query, _fewer(shares, certain[query, place], k))
    found = np.flatnonzero(hits.any(axis=1))
    chances = totals[found] / hits[found].sum(axis=1, keepdims=True)
    return found, chances, np.count_nonzero(sizes[found], axis=1)


def _counts(rows: Integers, classes: Integers, n_rows: int, n_classes: int) -> Integers:
    """Count the references of each row and class."""
    counts = np.bincount((rows * n_classes + classes).ravel(), minlength=n_rows * n_classes)
    return counts.reshape(n_rows, n_classes)


def _fewer(shares: Array, certain: Integers, k: int) -> Floats:
    """Return, by row, the probabilities that fewer than 1, ..., k independent events occur.

    `certain`: the number of shares that are 1.

    The probability of i other events is the coefficient of x^i in the product of
    ``1 - share + share x``. Polynomials are multiplied in pairs.
    """
    shares = np.where(shares == 1, 0, shares)
    shares = shares[:, shares.any(axis=0)]
    n = max(shares.shape[1], 1)
    shares = np.pad(shares, ((0, 0), (0, 2 ** (n - 1).bit_length() - shares.shape[1])))
    factors = np.stack([1 - shares, shares], axis=2)[:, :, :k]
    while factors.shape[1] > 1:
        a, b = factors[:, ::2], factors[:, 1::2]
        size = a.shape[2]
        factors = np.zeros((*a.shape[:2], min(2 * size - 1, k)))
        for i in range(size):
            terms = factors[:, :, i : i + size]
            terms += a[:, :, i, None] * b[:, :, : terms.shape[2]]
    chances = np.minimum(np.cumsum(factors[:, 0], axis=1), 1)
    events = np.arange(k) - certain[:, None]
    found = np.take_along_axis(chances, np.clip(events, 0, chances.shape[1] - 1), axis=1)
    return np.where(events < 0, 0, found)
