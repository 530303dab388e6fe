"""usearch: only its exact search, because its index is approximate."""

from __future__ import annotations

__all__ = ["neighbors"]

import numpy as np
from usearch.index import MetricKind, search

from benchmarks.calls import Call, Data, embedded, found


def neighbors(data: Data, threads: int, k: int) -> Call:
    """Time the exact search by squared distances, which needs no preparation."""
    database = embedded(data, "database")
    return Call(
        lambda: search(
            database, embedded(data, "queries"), k, MetricKind.L2sq, exact=True, threads=threads
        ),
        lambda result: found(
            # For a single query, results lack the first axis.
            (np.sqrt(result.distances).reshape(-1, k), result.keys.astype(np.int64).reshape(-1, k))
        ),
    )
