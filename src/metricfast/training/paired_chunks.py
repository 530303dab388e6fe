"""Mini-batches of queries and a database, if one side or both are on disk."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import Any

import numpy as np

from metricfast._core.types import Integers, RandomState
from metricfast.samplers import Batch
from metricfast.training.chunks import POOL, Chunked


def is_beyond(*sides: Any) -> bool:
    """Return whether one of the sides is read in chunks."""
    return any(isinstance(side, Chunked) for side in sides)


def batches_of_both(
    X: Any, database: Chunked, rng: RandomState, size: int
) -> Callable[[], Iterable[Batch]]:
    """Return a function that draws the batches of an epoch, of at most `size` queries each.

    In a batch, database points follow the anchors, with at most `POOL` points of a chunk.
    """
    return lambda: _Epoch(X, database, rng, size)


class _Epoch:
    """Pairs of a chunk of queries and a chunk of the database.

    If the database has more chunks than the queries, the chunks of queries are divided, so that an
    epoch visits the whole database. If it has fewer, its chunks repeat.
    """

    def __init__(self, X: Any, database: Chunked, rng: RandomState, size: int) -> None:
        self._X, self._database, self._rng, self._size = X, database, rng, size

    def __len__(self) -> int:
        """Return the approximate number of batches."""
        return math.ceil(int(self._X.shape[0]) / self._size)

    def __iter__(self) -> Iterator[Batch]:
        n_chunks = self._X.n_chunks if isinstance(self._X, Chunked) else 1
        ends = np.arange(n_chunks + 1) * self._database.n_chunks // n_chunks
        with closing(self._queries()) as queries, closing(self._voters()) as voters:
            for rows, n_met in zip(queries, np.diff(ends), strict=True):
                n_parts = min(len(rows), max(1, int(n_met)))
                for part in np.array_split(self._rng.permutation(rows), n_parts):
                    among = next(voters)
                    for some in np.array_split(part, -(-len(part) // self._size)):
                        chosen = among
                        if len(among) > POOL:
                            chosen = np.sort(self._rng.choice(among, POOL, replace=False))
                        yield Batch(np.concatenate([some, chosen]), len(some))

    def _queries(self) -> Generator[Integers, None, None]:
        if isinstance(self._X, Chunked):
            with closing(self._X.chunks(self._rng)) as chunks:
                yield from chunks
        else:
            yield np.arange(self._X.shape[0])

    def _voters(self) -> Generator[Integers, None, None]:
        while True:
            with closing(self._database.chunks(self._rng)) as chunks:
                yield from chunks
