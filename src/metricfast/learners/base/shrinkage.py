"""Shrinkage of a scatter matrix towards another, by the fraction of the lowest neighbour error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Annotated, Any

import numpy as np

from metricfast._core.scatter import repetitions
from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.neighbors import kneighbors
from metricfast.learners.base.span import Target
from metricfast.metrics._neighbor_error import count_votes

__all__ = [
    "Shrinkage",
    "check_shrinkage",
    "judged_rows",
    "least_error",
    "neighbor_error",
    "share_of_others",
    "shrunk",
]


# Points that the error is measured on, and their number of neighbours.
_JUDGED = 1000
_NEIGHBORS = 3


def shrunk(scatter: Floats, shrinkage: float, target: Target) -> Floats:
    """Move a scatter matrix towards the multiple of another that has the same trace."""
    matrix, trace = target
    share = shrinkage * np.trace(scatter) / trace
    return np.asarray((1 - shrinkage) * scatter + share * matrix)


def least_error(
    scatter: Floats,
    targets: Mapping[str, tuple[Target, Sequence[float]]],
    error: Callable[[Floats], float],
) -> tuple[str, float, Floats]:
    """Return the target, the fraction and the shrunk scatter with the least error.

    Each target has its own fractions. Ties go to the first.
    """
    tried = [
        (name, fraction, shrunk(scatter, fraction, target))
        for name, (target, fractions) in targets.items()
        for fraction in fractions
    ]
    return min(tried, key=lambda found: error(found[2]))


def neighbor_error(
    points: Array, codes: Integers, weights: Floats, chunks: Integers | None = None
) -> Callable[[Floats], float]:
    """Return a function of maps: the share of other classes among the 3 nearest points.

    It is measured on at most 1000 points. Points with a class below 0 are left out. Points of a
    chunk (from 0 on) and equal points of a class are not neighbours of each other.
    """
    rows = judged_rows(codes)
    chunk = np.full(len(rows), -1) if chunks is None else chunks[rows]
    distinct, place = np.unique(
        np.column_stack([codes[rows], chunk, points[rows]]), axis=0, return_inverse=True
    )
    y, chunk, X = distinct[:, 0], distinct[:, 1], distinct[:, 2:] - distinct[:, 2:].mean(axis=0)
    weight = np.bincount(place.ravel(), repetitions(weights[rows], len(rows)))
    own = np.where(chunk >= 0, chunk, -1 - np.arange(len(y)))
    largest = np.unique(own, return_counts=True)[1].max()
    n_neighbors = min(len(y), _NEIGHBORS + int(largest))

    def error(L: Floats) -> float:
        Z = X @ L.T
        # Rounded, so that ties do not depend on last digits, which the origin changes.
        Z = (Z / (np.abs(Z).max() or 1)).astype(np.float32)
        near = kneighbors(Z, Z, n_neighbors)[1]
        others = weight[near] * (own[near] != own[:, None])
        return share_of_others(others, y[near] != y[:, None], weight)

    return error


def judged_rows(codes: Integers) -> Integers:
    """Return the rows for the error of maps: at most 1000, with a class from 0 on."""
    return np.random.RandomState(0).permutation(np.flatnonzero(codes >= 0))[:_JUDGED]


def share_of_others(others: Array, wrong: Array, weight: Array, k: int = _NEIGHBORS) -> float:
    """Return the share of other classes among the k nearest points of some points.

    `others`: of shape (n, n_neighbors); how often each neighbour counts, nearest first.
    `wrong`: of the same shape; whether it is of another class.
    `weight`: of shape (n,); how often each point counts.
    """
    votes = count_votes(others, k)
    return float(weight @ (votes * wrong).sum(axis=1) / max(weight @ votes.sum(axis=1), 1e-300))


def check_shrinkage(value: Any) -> float | None:
    """Return the fraction, or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) <= 1:
        raise ValueError(f"shrinkage must be a number from 0 to 1, got {value!r}.")
    return float(value)


Shrinkage = Annotated[float | str, lambda _, value: check_shrinkage(value)]
