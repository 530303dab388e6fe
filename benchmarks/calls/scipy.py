"""scipy."""

from __future__ import annotations

__all__ = ["pairwise"]

from scipy.spatial.distance import cdist

from benchmarks.calls import Call, Data, sampled


def pairwise(data: Data, threads: int) -> Call:
    """Time cdist with a Mahalanobis matrix."""
    x, y, linear = data["X"], data["Y"], data["L"]
    return Call(lambda: cdist(x, y, "mahalanobis", VI=linear.T @ linear), sampled)
