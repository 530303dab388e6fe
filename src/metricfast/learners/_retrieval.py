"""How well points find points of like labels: what embedding learners are judged by."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricfast.neighbors import kneighbors

__all__ = ["retrieval_score"]

_NEIGHBORS = 10


def retrieval_score(
    queries: NDArray[Any],
    y: NDArray[Any],
    database: NDArray[Any],
    y_database: NDArray[Any],
    *,
    continuous: bool,
    exclude: NDArray[np.int64] | None = None,
    n_jobs: int | None = None,
) -> float:
    """Return precision at 1; or, of numbers, the negative mean label distance of 10 neighbours.

    Parameters
    ----------
    queries, database : ndarray of shape (n, n_components) and (m, n_components)
        Embedded points.
    y, y_database : ndarray
        Their labels; numbers have shape (n,) or (n, n_labels), and their distance is Euclidean.
    exclude : ndarray of int64 of shape (n,), optional
        For each query a database index to leave out, -1 for none.

    Returns
    -------
    float
        Greater is better.
    """
    available = len(database) - (exclude is not None)
    k = min(_NEIGHBORS, available) if continuous else 1
    found = kneighbors(queries, database, k, exclude=exclude, n_jobs=n_jobs)[1]
    if not continuous:
        return float(np.mean(y_database[found[:, 0]] == y))
    away = y_database.reshape(len(database), -1)[found] - y.reshape(len(queries), 1, -1)
    return -float(np.linalg.norm(away, axis=-1).mean())
