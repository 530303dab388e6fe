"""This library on the workers of a cluster, which are processes of one thread each."""

from __future__ import annotations

__all__ = ["fit", "nothing", "search", "sums"]

import atexit
from typing import Any

import dask.array
import distributed
import numpy as np

import metricfast
from benchmarks.calls import Call, Data, found
from metricfast.dask import DistributedLearner, _workers, kneighbors

CHUNKS = 8
SEARCHED = 4  # chunks of queries; the database is one chunk


def _client(n_workers: int) -> Any:
    """Start workers, and load the library on them."""
    cluster = distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, dashboard_address=":0"
    )
    client = distributed.Client(cluster)
    atexit.register(cluster.close)
    atexit.register(client.close)
    client.wait_for_workers(n_workers)
    client.run(lambda: __import__("metricfast.dask"))
    return client


def _cut(values: np.ndarray, n_chunks: int = CHUNKS) -> Any:
    return dask.array.from_array(values, chunks=(-(-len(values) // n_chunks), *values.shape[1:]))


def fit(data: Data, threads: int, learner: str, **params: Any) -> Call:
    """Time a fit, including the transfer of points to the workers."""
    client = _client(threads)
    made = DistributedLearner(getattr(metricfast, learner)(**params), client)
    return Call(
        lambda: made.fit(_cut(data["X"]), _cut(data["y"])).learner_,
        lambda fitted: {"components": fitted.components_},
    )


def search(data: Data, threads: int, k: int, lazy: bool = False) -> Call:
    """Time a search among points on the workers.

    `lazy`: return dask arrays, then compute them.
    """
    client = _client(threads)
    sides = client.persist([_cut(data["queries"], SEARCHED), _cut(data["database"], 1)])
    distributed.wait(sides)

    def run() -> Any:
        if lazy:
            return client.gather(client.compute(list(kneighbors(*sides, k))))
        return kneighbors(*sides, k, compute=True, client=client)

    return Call(run, found)


def sums(data: Data, threads: int) -> Call:
    """Time the sums over points for Covariance."""
    client = _client(threads)
    points = client.persist(_cut(data["X"]))
    distributed.wait(points)
    made = DistributedLearner(metricfast.Covariance(), client)
    return Call(
        lambda: made.fit(points).learner_, lambda fitted: {"components": fitted.components_}
    )


def nothing(data: Data, threads: int, n_tasks: int) -> Call:
    """Time a round trip of parameters, without work."""
    workers = _workers.Workers(_client(threads))
    shared, arrays = _workers.Shared(data["X"][:1]), [data["L"]]
    return Call(lambda: workers.run(_same, range(n_tasks), shared, arrays=arrays))


def _same(item: int, shared: np.ndarray, threads: int, arrays: list[np.ndarray]) -> Any:
    return arrays
