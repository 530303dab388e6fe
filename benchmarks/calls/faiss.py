"""faiss, which computes squared distances in float32."""

from __future__ import annotations

__all__ = ["neighbors", "pairwise", "panorama", "panorama_stream", "similar", "stream"]

from itertools import count
from typing import Any

import faiss
import numpy as np

from benchmarks.calls import Call, Data, embedded, found, found_in_steps, sampled

LEVELS = 8  # groups of coordinates that Panorama reads in turn


def pairwise(data: Data, threads: int) -> Call:
    """Time pairwise_distances on mapped points."""
    faiss.omp_set_num_threads(threads)
    x, y, linear = data["X"], data["Y"], data["L"]
    return Call(
        lambda: faiss.pairwise_distances(x @ linear.T, y @ linear.T),
        lambda squared: {"sample": np.sqrt(sampled(squared)["sample"])},
    )


def neighbors(data: Data, threads: int, k: int) -> Call:
    """Time the search of a flat index, excluding the addition of points."""
    faiss.omp_set_num_threads(threads)
    database = embedded(data, "database")
    index = faiss.IndexFlatL2(database.shape[1])
    index.add(database)
    return Call(
        lambda: index.search(embedded(data, "queries"), k),
        lambda result: found((np.sqrt(result[0]), result[1])),
    )


def similar(data: Data, threads: int, k: int, metric: str) -> Call:
    """Time the search of a flat index by inner products, of normalised points for cosines."""
    faiss.omp_set_num_threads(threads)
    queries = data["queries"]

    def directions(points: np.ndarray) -> np.ndarray:
        points = points.copy()
        faiss.normalize_L2(points)
        return points

    of = directions if metric == "cosine" else np.asarray
    index = faiss.IndexFlatIP(queries.shape[1])
    index.add(of(data["database"]))
    return Call(lambda: index.search(of(queries), k), found)


def panorama(data: Data, threads: int, k: int) -> Call:
    """Time the search of principal components, level by level, without building the index."""
    faiss.omp_set_num_threads(threads)
    database = embedded(data, "database")
    width = database.shape[1]
    components = faiss.PCAMatrix(width, width)
    components.train(database)
    index = faiss.IndexFlatL2Panorama(width, LEVELS)
    index.add(components.apply(database))
    return Call(
        lambda: index.search(components.apply(embedded(data, "queries")), k),
        lambda result: found((np.sqrt(np.maximum(result[0], 0)), result[1])),
    )


def stream(data: Data, threads: int, k: int) -> Call:
    """Time steps of a flat index: add a query, remove the oldest point, search for the query."""
    return _stream(data, threads, k, faiss.IndexFlatL2(data["database"].shape[1]))


def panorama_stream(data: Data, threads: int, k: int) -> Call:
    """Time the same steps of a flat index that refines distances level by level."""
    width = data["database"].shape[1]
    return _stream(data, threads, k, faiss.IndexFlatL2Panorama(width, min(LEVELS, width)))


def _stream(data: Data, threads: int, k: int, flat: Any) -> Call:
    faiss.omp_set_num_threads(threads)
    database = data["database"]
    index = faiss.IndexIDMap(flat)
    index.add_with_ids(database, np.arange(len(database)))
    new, oldest = count(len(database)), count()

    def step(query: np.ndarray) -> Any:
        index.add_with_ids(query, np.array([next(new)]))
        index.remove_ids(np.array([next(oldest)]))
        squared, ids = index.search(query, k)
        return np.sqrt(np.maximum(squared, 0)), ids

    return Call(lambda: [step(query[None]) for query in data["queries"]], found_in_steps)
