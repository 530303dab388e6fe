"""scipy."""

from __future__ import annotations

__all__ = ["neighbors", "pairwise"]

from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from benchmarks.calls import Call, Data, found, sampled


def pairwise(data: Data, threads: int) -> Call:
    """Time cdist with a Mahalanobis matrix."""
    x, y, linear = data["X"], data["Y"], data["L"]
    return Call(lambda: cdist(x, y, "mahalanobis", VI=linear.T @ linear), sampled)


def neighbors(data: Data, threads: int, k: int) -> Call:
    """Time the search of a tree, excluding its construction."""
    tree = cKDTree(data["database"])
    return Call(lambda: tree.query(data["queries"], k, workers=threads), found)
