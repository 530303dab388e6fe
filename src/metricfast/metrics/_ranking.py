"""Rankings of a database by distance from queries, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from metricfast._core.memory import working_memory
from metricfast._core.progress import Progress
from metricfast._core.sources import Source
from metricfast._core.types import Array, Integers
from metricfast._labels.distance import block_rows
from metricfast.distances.database import Database
from metricfast.distances.neighbors import kneighbors

__all__ = ["Block", "Search"]

# Bytes of an entry of a block, with what metrics make of it.
_ENTRY = 256


@dataclass
class Block:
    """Some queries and their nearest references, in the order of (distance, index)."""

    rows: Integers  # the queries
    distances: Array  # (n_rows, depth), as the indices
    indices: Integers
    exclude: Integers | None  # what each query leaves out, for all queries of a block or for none
    n_candidates: int  # references that each query may have


@dataclass
class Search:
    """Queries, and the database that they are searched in; either may be on disk."""

    queries: Array | Source
    database: Array | Source
    exclude: Integers | None
    k: int  # the largest
    options: dict[str, Any]  # the maps and `n_jobs` of a `Database`
    verbose: bool | int

    def __post_init__(self) -> None:
        self.nearest = np.zeros(len(self.queries), np.int64)  # of each, once it is searched

    def blocks(self, depth: int, width: int) -> Iterator[Block]:
        """Search the `depth` nearest references of all queries, or all, in bounded memory.

        `width` is how many entries a query needs in the arrays of a block.
        """
        n, m = len(self.queries), len(self.database)
        out = np.full(n, -1) if self.exclude is None else self.exclude
        step, done, ready = block_rows(width), 0, self._made_ready()
        if ready is None:  # the database is gone over once for each block
            step = max(step, working_memory() // (_ENTRY * width))
        find = partial(self._find, ready)
        with Progress("retrieval", n, "queries", shown=self.verbose) as progress:
            for leaves_out in (False, True):
                members = np.flatnonzero((out >= 0) == leaves_out)
                n_candidates = m - leaves_out
                for start in range(0, len(members), step):
                    rows = members[start : start + step]
                    left_out = out[rows] if leaves_out else None
                    found = find(
                        self.queries[rows], n_neighbors=min(depth, n_candidates), exclude=left_out,
                        n_jobs=self.options.get("n_jobs"),
                    )  # fmt: skip
                    self.nearest[rows] = found[1][:, 0]
                    yield Block(rows, *found, left_out, n_candidates)
                    done += len(rows)
                    progress(done, done)

    def _made_ready(self) -> Database | None:
        """Return the database ready to be searched, if it is in memory."""
        if isinstance(self.database, Source):
            return None
        # Read-only, so that no copy is made.
        points = np.asarray(self.database.data.toreadonly())
        return Database(points, **self.options)

    def _find(self, ready: Database | None, queries: Array, **how: Any) -> tuple[Array, Integers]:
        if ready is not None:
            return ready.kneighbors(queries, **how)
        maps = {name: self.options[name] for name in "LUV"}
        return kneighbors(queries, self.database, **maps, **how)
