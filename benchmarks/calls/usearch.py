"""usearch: only its exact search, because its index is approximate."""

from __future__ import annotations

__all__ = ["neighbors"]

import numpy as np
from usearch.index import MetricKind, search

from benchmarks.calls import Call, Data, embedded, found

KINDS = {"euclidean": MetricKind.L2sq, "cosine": MetricKind.Cos, "inner_product": MetricKind.IP}


def neighbors(data: Data, threads: int, k: int, metric: str = "euclidean") -> Call:
    """Time the exact search, which needs no preparation; Euclidean distances are not squared."""
    database = embedded(data, "database")
    root = np.sqrt if metric == "euclidean" else np.asarray
    return Call(
        lambda: search(
            database, embedded(data, "queries"), k, KINDS[metric], exact=True, threads=threads
        ),
        lambda result: found(
            # For a single query, results lack the first axis.
            (root(result.distances).reshape(-1, k), result.keys.astype(np.int64).reshape(-1, k))
        ),
    )
