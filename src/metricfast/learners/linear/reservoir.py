"""Points of earlier calls, which those of later calls are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from metricfast._core.memory import memory_limit
from metricfast._core.scatter import blocks
from metricfast._core.sources import Source
from metricfast._core.targets import check_comparable, encode_together, join_labels

__all__ = ["Reservoir"]

Array = NDArray[Any]
Weight = NDArray[np.float64] | None
Samples = tuple[Any, Array, Weight]
# Points that are kept by default, unless they take more than this share of the memory.
_USUAL, _SHARE = 4096, 8


class Reservoir:
    """A sample of the points of all calls, in which each of them is with the same probability.

    Of equal points of a label one counts, so that none is compared with itself where calls repeat.
    Without a `size`, it is what is usual at the first call, and points that are not in memory are
    neither kept nor compared with others.

    References
    ----------
    J. S. Vitter, "Random sampling with a reservoir", ACM Transactions on Mathematical Software 11
    (1985), 37-57.
    """

    def __init__(self, size: int | None, seed: int) -> None:
        self.given, self._size = size, size
        self._rng, self._n_seen = np.random.RandomState(seed), 0
        self._kept: Samples | None = None
        self._new: Samples | None = None
        self._joined: Array = np.empty(0, np.int64)  # which of those that are kept
        self._fresh: Array = np.empty(0, np.int64)  # which of the call that are not kept yet

    @property
    def points(self) -> Any:
        """The points, as they were given; None before a call has ended."""
        return None if self._kept is None else self._kept[0]

    @property
    def joined(self) -> Any:
        """Those that the points of a call were joined with, until it has ended."""
        return self.points[self._joined]

    def join(self, X: Any, y: Array, weight: Weight) -> Samples:
        """Return the points of a call and, after them, those that are kept."""
        self._new = None
        if self._size is None:
            if isinstance(X, Source):
                return X, y, weight
            self._size = max(1, min(_USUAL, memory_limit() // _SHARE // _row_bytes(X)))
        self._new, self._fresh = (X, y, weight), np.arange(X.shape[0])
        if self._kept is None:
            return self._new
        if isinstance(X, Source):
            if self.given is None:
                self._new = None
                return X, y, weight
            raise ValueError(
                "reservoir must be 0 for X that does not fit into memory: give smaller parts of it."
            )
        check_comparable(y, self._kept[1], "y")
        own, kept = _marks(self._new, self._kept)
        self._joined = np.flatnonzero(~np.isin(kept, own))
        self._fresh = np.flatnonzero(~np.isin(own, kept))
        return _both(self._new, _taken(self._kept, self._joined))

    def settle(self) -> None:
        """Choose anew among what is kept and the points of the call."""
        if self._new is None:
            return
        assert self._size is not None
        n_kept, n = 0 if self._kept is None else self._kept[0].shape[0], len(self._fresh)
        place = np.concatenate([np.arange(n_kept), np.full(self._size - n_kept, -1)])
        # The i-th of all points, from 1, takes a place with the chance size / i.
        seen = np.arange(self._n_seen, self._n_seen + n)
        drawn = np.where(seen < self._size, seen, (self._rng.rand(n) * (seen + 1)).astype(np.int64))
        taken = np.flatnonzero(drawn < self._size)
        place[drawn[taken]] = n_kept + taken  # of several, the last one stays
        place = place[place >= 0]
        old, new = place[place < n_kept], np.sort(place[place >= n_kept]) - n_kept
        chosen = _taken(self._new, self._fresh[new])
        if self._kept is not None:
            chosen = _both(_taken(self._kept, old), chosen)
        self._kept, self._new, self._n_seen = chosen, None, self._n_seen + n
        self._joined = self._joined[:0]


def _taken(samples: Samples, rows: Any) -> Samples:
    X, y, weight = samples
    return X[rows], y[rows], None if weight is None else weight[rows]


def _both(one: Samples, other: Samples) -> Samples:
    """Return points after each other, as the first are: sparse or not, in their precision."""
    X, Y = one[0], other[0].astype(one[0].dtype, copy=False)
    if issparse(X):
        X = csr_array(vstack([X, csr_array(Y)], format="csr"))
    else:
        X = np.concatenate([X, Y.toarray() if issparse(Y) else Y])
    weight = None
    if one[2] is not None or other[2] is not None:
        weight = np.concatenate([np.ones(len(y)) if w is None else w for _, y, w in (one, other)])
    return X, join_labels(one[1], other[1]), weight


def _row_bytes(X: Any) -> int:
    """Return what a point takes, of sparse ones in the mean."""
    stored = X.data.nbytes + X.indices.nbytes if issparse(X) else X.nbytes
    return max(1, int(stored // X.shape[0]))


def _marks(one: Samples, other: Samples) -> list[Array]:
    """Return numbers that are the same for samples of equal points and labels, and seldom else."""
    both = encode_together([one[1], other[1]], "y")[1]
    factors = np.random.RandomState(0).randint(1, 2**63, one[0].shape[1] + 1, np.uint64)
    found, codes = [], [labels.astype(np.uint64) for labels in both]
    for (X, _, _), code in zip((one, other), codes, strict=True):
        marks = code * factors[-1]
        for rows in blocks(X):
            marks[rows] += _words(X[rows].astype(one[0].dtype, copy=False)) @ factors[:-1]
        found.append(marks)
    return found


def _words(X: Any) -> Any:
    """Return the bits of numbers, as whole numbers whose last bits differ as the first ones do."""
    values = X.data if issparse(X) else np.ascontiguousarray(X)
    half = 4 * values.itemsize
    bits = values.view(f"u{values.itemsize}").astype(np.uint64)
    bits ^= bits >> np.uint64(half)
    return type(X)((bits, X.indices, X.indptr), shape=X.shape) if issparse(X) else bits
