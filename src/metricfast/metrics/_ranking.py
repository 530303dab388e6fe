"""Rankings of a database by distance from queries, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from metricfast._core.arrays import as_maps, as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.memory import working_memory
from metricfast._core.progress import Progress
from metricfast._core.sources import Source, on_disk
from metricfast._core.types import Array, Integers
from metricfast._labels.distance import rows_per_block
from metricfast.distances.database import Database
from metricfast.distances.filters import Filter
from metricfast.distances.neighbors import kneighbors
from metricfast.metrics._classes import ClassRanks

# Bytes per entry of a block, including temporary arrays of metrics.
_ENTRY = 256
_RANKS = np.dtype(list(zip(ClassRanks._fields, "qqdd", strict=True)))


@dataclass
class Ranking:
    """Some queries and their nearest references, in the order of (distance, index)."""

    rows: Integers  # indices of the queries
    distances: Array  # (n_rows, depth), like the indices
    indices: Integers
    search: RankingSearch
    n_candidates: int  # number of references that a query may find

    @property
    def left_out(self) -> NDArray[np.bool_]:
        """Mask of the references that each query must not find, (n_rows, n_references)."""
        search = self.search
        references = np.arange(len(search.database))
        found = ~search.where.allows(self.rows[:, None], references)
        if search.exclude is not None:
            out = search.exclude[self.rows]
            found[np.flatnonzero(out >= 0), out[out >= 0]] = True
        return found


@dataclass
class RankingSearch:
    """Queries, and the database that they are searched in; either may be on disk."""

    queries: Array | Source
    database: Array | Source
    exclude: Integers | None
    where: Filter
    k: int  # the largest k
    options: dict[str, Any]  # the metric, the maps and `n_jobs` of a `Database`
    verbose: bool | int

    def __post_init__(self) -> None:
        self.nearest = np.zeros(len(self.queries), np.int64)  # filled by the search
        every = np.zeros(len(self.database), np.int64)
        self.n_candidates = self.allowed(every) - self.excludes

    def allowed(self, of_references: Integers, of_queries: Integers | None = None) -> Integers:
        """Return, for each query, the number of references with its class that `where` allows."""
        n = len(self.queries)
        numbers = np.zeros(n, np.int64) if of_queries is None else of_queries
        mask, labels = self.where
        if mask is not None and mask.ndim == 2:
            found = np.empty(n, np.int64)
            every = np.arange(len(of_references))
            for rows in gen_batches(n, rows_per_block(len(of_references))):
                allowed = self.where.allows(np.arange(n)[rows, None], every)
                found[rows] = (allowed & (numbers[rows, None] == of_references)).sum(axis=1)
            return found
        known = of_references if mask is None else of_references[mask]
        size = int(max(numbers.max(), of_references.max())) + 1
        found = np.bincount(known, minlength=size)[numbers]
        if labels is not None:
            own, others, equal = labels
            others = others if mask is None else others[mask]
            _, both = np.unique(np.concatenate([own, others]), return_inverse=True)
            pairs = both * size + np.concatenate([numbers, known])
            of_pairs, places = np.unique(pairs, return_inverse=True)
            same = np.bincount(places[n:], minlength=len(of_pairs))[places[:n]]
            found = same if equal else found - same
        return found

    @property
    def excludes(self) -> NDArray[np.bool_]:
        """Whether `exclude` removes a reference that `where` allows, for each query."""
        n = len(self.queries)
        if self.exclude is None:
            return np.zeros(n, bool)
        return (self.exclude >= 0) & self.where.allows(np.arange(n), self.exclude)

    def blocks(self, depth: int, width: int) -> Iterator[Ranking]:
        """Search the `depth` nearest references of all queries in blocks, with bounded memory.

        `width` is the number of entries per query in the arrays of a block.
        """
        n = len(self.queries)
        step, done, ready = rows_per_block(width), 0, self._made_ready()
        if ready is None:  # every block reads the database once
            step = max(step, working_memory() // (_ENTRY * width))
        find = partial(self._find, ready)
        with Progress("retrieval", n, "queries", shown=self.verbose) as progress:
            for n_candidates in np.unique(self.n_candidates[self.n_candidates > 0]).tolist():
                members = np.flatnonzero(self.n_candidates == n_candidates)
                for start in range(0, len(members), step):
                    rows = members[start : start + step]
                    found = find(
                        self.queries[rows], n_neighbors=min(depth, n_candidates),
                        exclude=None if self.exclude is None else self.exclude[rows],
                        where=self.where.of_queries(rows).argument,
                        n_jobs=self.options.get("n_jobs"),
                    )  # fmt: skip
                    self.nearest[rows] = found[1][:, 0]
                    yield Ranking(rows, *found, self, n_candidates)
                    done += len(rows)
                    progress(done, done)

    def class_ranks(self, of_queries: Integers, of_references: Integers) -> ClassRanks:
        """Return the ranks of references with the query's class. Points must be in memory."""
        queries, database = np.asarray(self.queries), np.asarray(self.database)
        options = dict(self.options)
        n_jobs, metric = options.pop("n_jobs", None), options.pop("metric", "euclidean")
        n = len(queries)
        with Progress("retrieval", n, "queries", shown=self.verbose) as progress:
            L, U, V = map(options.get, "LUV")
            found = np.empty(n, _RANKS)
            get_kernels().rank_classes(
                queries, database, as_maps(L, U, V, queries.shape[1]), of_queries, of_references,
                (self.exclude, *self.where.arguments()), metric, found, as_threads(n_jobs),
            )  # fmt: skip
            progress(n, n)
        if self.exclude is None and self.where.argument is None:
            some = self.sample
            _, near = kneighbors(queries[some], database, 1, metric=metric, **options)
            self.nearest[some] = near[:, 0]
        return ClassRanks(*(found[name].copy() for name in ClassRanks._fields))

    @property
    def sample(self) -> Integers:
        """Up to 20 queries, evenly spaced."""
        n = len(self.queries)
        return np.linspace(0, n - 1, min(n, 20)).astype(np.int64)

    def _made_ready(self) -> Database | None:
        """Return the prepared database if it is in memory, else None."""
        database: Any = self.database
        if on_disk(database):
            return None
        # Read-only arrays are not copied.
        points = np.asarray(database.data.toreadonly())
        return Database(points, **self.options)

    def _find(self, ready: Database | None, queries: Array, **how: Any) -> tuple[Array, Integers]:
        if ready is not None:
            return ready.kneighbors(queries, **how)
        maps = {name: value for name, value in self.options.items() if name != "n_jobs"}
        return kneighbors(queries, self.database, **maps, **how)
