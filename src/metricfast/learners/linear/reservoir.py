"""Points of earlier calls, which those of later calls are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from metricfast._core.sources import Source
from metricfast._core.targets import check_comparable

__all__ = ["Reservoir"]

Array = NDArray[Any]
Weight = NDArray[np.float64] | None


class Reservoir:
    """A sample of the points of all calls, in which each of them is with the same probability.

    References
    ----------
    J. S. Vitter, "Random sampling with a reservoir", ACM Transactions on Mathematical Software 11
    (1985), 37-57.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size, self._rng, self._n_seen = size, np.random.RandomState(seed), 0
        self._kept: tuple[Any, Array, Weight] | None = None
        self._new: tuple[Any, Array, Weight] | None = None

    @property
    def points(self) -> Any:
        """The points, as they were given; None before a call has ended."""
        return None if self._kept is None else self._kept[0]

    def join(self, X: Any, y: Array, weight: Weight) -> tuple[Any, Array, Weight]:
        """Return the points of a call and, after them, those that are kept."""
        self._new = X, y, weight
        if self._kept is None:
            return self._new
        if isinstance(X, Source):
            raise ValueError(
                "reservoir must be 0 for X that does not fit into memory: give smaller parts of it."
            )
        check_comparable(y, self._kept[1], "y")
        return _both(self._new, self._kept)

    def settle(self) -> None:
        """Choose anew among what is kept and the points of the call."""
        assert self._new is not None
        X, y, weight = self._new
        n_kept, n = 0 if self._kept is None else self._kept[0].shape[0], X.shape[0]
        place = np.concatenate([np.arange(n_kept), np.full(self.size - n_kept, -1)])
        # The i-th of all points, from 1, takes a place with the chance size / i.
        seen = np.arange(self._n_seen, self._n_seen + n)
        drawn = np.where(seen < self.size, seen, (self._rng.rand(n) * (seen + 1)).astype(np.int64))
        taken = np.flatnonzero(drawn < self.size)
        place[drawn[taken]] = n_kept + taken  # of several, the last one stays
        place = place[place >= 0]
        old, new = place[place < n_kept], np.sort(place[place >= n_kept]) - n_kept
        chosen = X[new], y[new], None if weight is None else weight[new]
        if self._kept is not None:
            X, y, weight = self._kept
            chosen = _both((X[old], y[old], None if weight is None else weight[old]), chosen)
        self._kept, self._new, self._n_seen = chosen, None, self._n_seen + n


def _both(
    one: tuple[Any, Array, Weight], other: tuple[Any, Array, Weight]
) -> tuple[Any, Array, Weight]:
    """Return points after each other, as the first are: sparse or not, in their precision."""
    X, Y = one[0], other[0].astype(one[0].dtype, copy=False)
    if issparse(X):
        X = csr_array(vstack([X, csr_array(Y)], format="csr"))
    else:
        X = np.concatenate([X, Y.toarray() if issparse(Y) else Y])
    weight = None
    if one[2] is not None or other[2] is not None:
        weight = np.concatenate([np.ones(len(y)) if w is None else w for _, y, w in (one, other)])
    return X, np.concatenate([one[1], other[1]]), weight
