"""scikit-learn-intelex, scikit-learn's estimators on oneDAL."""

from __future__ import annotations

__all__ = ["neighbors"]

from sklearnex.neighbors import NearestNeighbors

from benchmarks.calls import Call, Data, embedded, found


def neighbors(data: Data, threads: int, k: int) -> Call:
    """Time NearestNeighbors by brute force, excluding `fit`."""
    model = NearestNeighbors(n_neighbors=k, algorithm="brute", n_jobs=threads)
    model.fit(embedded(data, "database"))
    return Call(lambda: model.kneighbors(embedded(data, "queries")), found)
