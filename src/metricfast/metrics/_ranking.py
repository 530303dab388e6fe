"""The order in which a database answers queries, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricfast._core.progress import Progress
from metricfast._core.types import Array, Integers
from metricfast._labels.distance import block_rows
from metricfast.distances.database import Database

__all__ = ["Block", "Search"]


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
    """Queries, and the database that they are searched in."""

    queries: Array
    database: Array
    exclude: Integers | None
    k: int  # the largest
    options: dict[str, Any]  # the maps and `n_jobs` of a `Database`
    verbose: bool

    def blocks(self, depth: int, width: int) -> Iterator[Block]:
        """Search the `depth` nearest references of all queries, or all, in bounded memory.

        `width` is how many entries a query needs in the arrays of a block.
        """
        n, m = len(self.queries), len(self.database)
        out = np.full(n, -1) if self.exclude is None else self.exclude
        # Read-only, so that no copy is made.
        points = np.asarray(self.database.data.toreadonly())
        database = Database(points, **self.options)
        step, done = block_rows(width), 0
        with Progress("retrieval", n, "queries", shown=self.verbose) as progress:
            for leaves_out in (False, True):
                members = np.flatnonzero((out >= 0) == leaves_out)
                n_candidates = m - leaves_out
                for start in range(0, len(members), step):
                    rows = members[start : start + step]
                    left_out = out[rows] if leaves_out else None
                    found = database.kneighbors(
                        self.queries[rows], min(depth, n_candidates), exclude=left_out,
                        n_jobs=self.options.get("n_jobs"),
                    )  # fmt: skip
                    yield Block(rows, *found, left_out, n_candidates)
                    done += len(rows)
                    progress(done, done)
