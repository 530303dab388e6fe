"""The rule by which held-out costs choose among candidates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from metricfast._core.types import Array, Floats

_Start = TypeVar("_Start")
# Standard errors of a difference that is surely not chance.
SURELY = 2.0


def means(costs: Array, weight: Floats) -> Array:
    """Return the weighted mean of each row, rounded so that shifts of the points do not matter."""
    return np.asarray(np.round(costs @ (weight / weight.sum()), 12))


def excess(costs: Array, others: Array, weight: Floats) -> Array:
    """Return the mean excess of costs over others, in standard errors of the paired difference.

    For costs of 0 and 1 without weights, this is McNemar's statistic, (b - c) / sqrt(b + c).
    """
    difference = (np.asarray(costs, np.float64) - others) * (weight / weight.max())
    error = np.sqrt(np.square(difference).sum(axis=-1))
    return np.asarray(np.round(difference.sum(axis=-1) / np.maximum(error, 1e-150), 6))


def near_best(costs: Mapping[_Start, Array], weight: Floats, equal: float) -> list[_Start]:
    """Return the starts that are within twice `equal` standard errors of the best start.

    `costs`: of each start, one row for each iteration, of which the best one counts.
    """
    best = {start: each[means(each, weight).argmin()] for start, each in costs.items()}
    lowest = min(best.values(), key=lambda each: float(means(each, weight)))
    return [start for start, each in best.items() if excess(each, lowest, weight) <= 2 * equal]


def in_reach(costs: Array, weight: Floats, guard: Array | None = None) -> Array:
    """Return whether each row may still turn out the best, by the held-out items so far.

    It may not if it has failed, or if it is worse by 2 standard errors than the best candidate,
    which may be the given distance, and no better in `guard`. Arguments are those of
    :func:`choose`.
    """
    mean, bounds = _finite_means(costs, weight), np.zeros(len(costs))
    if guard is not None:
        bounds = _finite_means(guard, weight)
    best = int(np.where(bounds <= bounds[0], mean, np.inf).argmin())
    near = excess(costs, costs[best], weight) <= SURELY
    return np.asarray(np.isfinite(mean) & (near | (bounds < bounds[best])))


def choose(
    costs: Array, weight: Floats, *, errors: float, equal: float = 0.0,
    order: Array | None = None, guard: Array | None = None,
) -> int:  # fmt: skip
    """Return the row to use; 0 is the given distance.

    Candidates are the rows with lower costs than the given distance, by a number of standard
    errors, and no higher costs in `guard`. Those within `equal` standard errors of the best
    candidate count as equally good, and the first of them by `order` is chosen.

    `costs`: one row for each candidate, one column for each held-out item. A row that is not finite
        has failed, and is never chosen.
    `order`: by default the order of the rows. Equal numbers are ordered by their mean costs.
    """
    mean = _finite_means(costs, weight)
    good = (mean < mean[0]) & (-excess(costs, costs[0], weight) >= errors)
    if guard is not None:
        bounds = _finite_means(guard, weight)
        good &= bounds <= bounds[0]
    if not good.any():
        return 0
    best = int(np.where(good, mean, np.inf).argmin())
    near = np.flatnonzero(good & (excess(costs, costs[best], weight) <= equal))
    places = np.arange(len(costs)) if order is None else order
    return int(near[np.lexsort((mean[near], places[near]))[0]])


def _finite_means(costs: Array, weight: Floats) -> Array:
    """Return the mean of each row, infinity for rows that are not finite."""
    finite = np.asarray(np.isfinite(costs).all(axis=1))
    return np.where(finite, means(np.where(finite[:, None], costs, 0), weight), np.inf)
