"""usearch, its exact search: the index is approximate."""

from __future__ import annotations

__all__ = ["neighbors"]

import numpy as np
from usearch.index import MetricKind, search

from benchmarks.calls import Call, Data, embedded, found


def neighbors(data: Data, threads: int, k: int) -> Call:
    """Time the exact search of squared distances, which needs nothing prepared."""
    database = embedded(data, "database")
    return Call(
        lambda: search(
            database, embedded(data, "queries"), k, MetricKind.L2sq, exact=True, threads=threads
        ),
        lambda result: found(
            # The matches of a single query come without its axis.
            (np.sqrt(result.distances).reshape(-1, k), result.keys.astype(np.int64).reshape(-1, k))
        ),
    )
