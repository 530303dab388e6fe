"""The order in which a database answers queries, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricfast._core.types import Array, Integers
from metricfast.distances.neighbors import kneighbors

__all__ = ["Block", "ranked_blocks"]

_MEMORY = 2**27  # bytes of a block's arrays, of which there are about four
_ENTRY = 32


@dataclass
class Block:
    """Some queries and their nearest references, in the order of (distance, index).

    Attributes
    ----------
    rows : ndarray of shape (b,)
        The queries.
    distances, indices : ndarrays of shape (b, depth)
        As :func:`metricfast.kneighbors` returns them.
    exclude : ndarray of shape (b,) or None
        The reference that each query leaves out, for all queries of a block or for none.
    n_candidates : int
        References that each query may have.
    """

    rows: Integers
    distances: Array
    indices: Integers
    exclude: Integers | None
    n_candidates: int


def ranked_blocks(
    queries: Array,
    database: Array,
    exclude: Integers | None,
    depth: int | None,
    width: int,
    **options: Any,
) -> Iterator[Block]:
    """Search the `depth` nearest references of all queries (None: all), in bounded memory.

    `width` is how many entries a query needs in the arrays of a block; `options` are the maps and
    `n_jobs` of :func:`metricfast.kneighbors`.
    """
    out = np.full(len(queries), -1) if exclude is None else exclude
    step = max(1, _MEMORY // (_ENTRY * width))
    for leaves_out in (False, True):
        members = np.flatnonzero((out >= 0) == leaves_out)
        n_candidates = len(database) - leaves_out
        reach = n_candidates if depth is None else min(depth, n_candidates)
        for start in range(0, len(members), step):
            rows = members[start : start + step]
            left_out = out[rows] if leaves_out else None
            distances, indices = kneighbors(
                queries[rows], database, reach, exclude=left_out, **options
            )
            yield Block(rows, distances, indices, left_out, n_candidates)
