"""This library."""

from __future__ import annotations

__all__ = ["fit", "fit_tuples", "loss", "neighbors", "pair_distance", "pairwise"]

from typing import Any

import numpy as np

import metricfast
from benchmarks.calls import (
    Call,
    Data,
    distances_of_pairs,
    fitting,
    fitting_tuples,
    found,
    sampled,
    valued,
)


def pairwise(data: Data, threads: int, given: bool = False) -> Call:
    """Time all pairs of distances through L, into a new array or into a given one."""
    x, y, linear = data["X"], data["Y"], data["L"]
    out = np.zeros((len(x), len(y)), x.dtype) if given else None
    return Call(
        lambda: metricfast.pairwise_distances(x, y, L=linear, out=out, n_jobs=threads), sampled
    )


def neighbors(data: Data, threads: int, k: int) -> Call:
    """Time the k nearest neighbours."""
    queries, database = data["queries"], data["database"]
    return Call(lambda: metricfast.kneighbors(queries, database, k, n_jobs=threads), found)


def loss(data: Data, threads: int, name: str, rows: int | None = None, **params: Any) -> Call:
    """Time value and gradient of a loss on the first rows, all of them by default."""
    function = getattr(metricfast.losses, name)(**params)
    z, y = data["Z"][:rows], data["Y" if "Y" in data else "y"][:rows]
    return Call(lambda: function(z, y, n_jobs=threads), valued)


def fit(data: Data, threads: int, learner: str, target: str = "y", **params: Any) -> Call:
    """Time a learner; the environment sets the number of threads."""
    return fitting(getattr(metricfast, learner)(**params), data, target)


def fit_tuples(data: Data, threads: int, learner: str) -> Call:
    """Time a learner on tuples."""
    return fitting_tuples(getattr(metricfast, learner)(random_state=0), data)


def pair_distance(data: Data, threads: int) -> Call:
    """Time the distances of pairs."""
    return distances_of_pairs(metricfast.Covariance(), data)
