"""This library."""

from __future__ import annotations

__all__ = ["fit", "fit_tuples", "inference", "neighbors", "pair_distance", "pairwise"]

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


def inference(data: Data, threads: int, k: int) -> Call:
    """Time targeted and loss-augmented inference in one search."""
    queries, database = data["queries"], data["database"]

    def run() -> Any:
        return metricfast.inference.both(
            queries, database, data["y"], data["y_database"], k, n_jobs=threads
        )

    return Call(run, lambda result: {"values": result[1].values - result[0].values})


def fit(data: Data, threads: int, learner: str, target: str = "y", **params: Any) -> Call:
    """Time a learner; the environment sets the number of threads."""
    return fitting(getattr(metricfast, learner)(**params), data, target)


def fit_tuples(data: Data, threads: int, learner: str) -> Call:
    """Time a learner on tuples."""
    return fitting_tuples(getattr(metricfast, learner)(random_state=0), data)


def pair_distance(data: Data, threads: int) -> Call:
    """Time the distances of pairs."""
    return distances_of_pairs(metricfast.Covariance(), data)
