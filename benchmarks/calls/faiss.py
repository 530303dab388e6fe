"""faiss, which computes squared distances in float32."""

from __future__ import annotations

__all__ = ["neighbors", "pairwise"]

import faiss
import numpy as np

from benchmarks.calls import Call, Data, embedded, found, sampled


def pairwise(data: Data, threads: int) -> Call:
    """Time pairwise_distances on mapped points."""
    faiss.omp_set_num_threads(threads)
    x, y, linear = data["X"], data["Y"], data["L"]
    return Call(
        lambda: faiss.pairwise_distances(x @ linear.T, y @ linear.T),
        lambda squared: {"sample": np.sqrt(sampled(squared)["sample"])},
    )


def neighbors(data: Data, threads: int, k: int) -> Call:
    """Time the search of a flat index; adding the points to it is not counted."""
    faiss.omp_set_num_threads(threads)
    database = embedded(data, "database")
    index = faiss.IndexFlatL2(database.shape[1])
    index.add(database)
    return Call(
        lambda: index.search(embedded(data, "queries"), k),
        lambda result: found((np.sqrt(result[0]), result[1])),
    )
