"""Rows of `never_worse` for `AdapterLearner`."""

from __future__ import annotations

__all__ = ["KINDS", "Kind", "task"]

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.adapter_data import Pairs, Task, clicks, close, docstrings, judged, made

_SIZES = (50, 500, 5000)


class Kind(NamedTuple):
    """A kind of pairs.

    `new`: what training pairs lack: queries, or documents as well.
    `make`: returns all pairs, by the side to map.
    """

    new: str
    make: Callable[[str], Task]


_SOURCES = {
    "scores": Kind("documents", judged),
    "close": Kind("documents", close),
    "docstrings": Kind("documents", docstrings),
    "clicks": Kind("queries", clicks),
    "made-scores": Kind("documents", partial(made, n=5000, n_features=128, scored=True)),
    "made-positives": Kind("documents", partial(made, n=5000, n_features=128)),
    "alike": Kind("documents", partial(made, n=5000, n_features=64, noise=0)),
    "alike-scores": Kind(
        "documents", partial(made, n=5000, n_features=64, scored=True, noise=0)
    ),
}  # fmt: skip
KINDS = {f"adapter-{name}-{n}": (kind, n) for name, kind in _SOURCES.items() for n in _SIZES}


def task(name: str, side: str, seed: int) -> Task | None:
    """Return pairs of a draw; None if there are fewer queries than half of those in the name."""
    kind, n = KINDS[name]
    found = kind.make(side)
    size = len(found.train.queries)
    if 2 * size < n:
        return None
    rows = np.sort(np.random.RandomState(seed).permutation(size)[:n])
    return found._replace(train=_chosen(found.train, rows, kind.new))


def _chosen(pairs: Pairs, rows: np.ndarray, new: str) -> Pairs:
    """Return some queries; of new documents, the database has their own alone."""
    found = pairs.take(rows)
    if pairs.scored or new == "queries":
        return found
    return Pairs(found.queries, found.y[:, rows], found.database[rows])
