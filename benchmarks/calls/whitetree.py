"""whitetree, k-d trees of a stream of points."""

from __future__ import annotations

__all__ = ["stream"]

from itertools import count
from typing import Any

import numpy as np
from whitetree import DynamicKDTree

from benchmarks.calls import Call, Data, found_in_steps


def stream(data: Data, threads: int, k: int) -> Call:
    """Time steps: add a query, remove the oldest point, search for the query."""
    database, oldest = data["database"], count()
    tree = DynamicKDTree(database.shape[1])
    tree.bulk_load(database)

    def step(query: np.ndarray) -> Any:
        tree.insert(query)
        tree.delete(next(oldest))
        return tree.query(query[None], k, workers=threads)

    return Call(lambda: [step(query) for query in data["queries"]], found_in_steps)
