"""The loss of LMNN with one metric per class."""

from __future__ import annotations

import numpy as np

from metricfast._core.memory import block_rows
from metricfast._core.types import Floats, Integers

__all__ = ["LocalObjective"]


class LocalObjective:
    """Value of the loss, and its gradient by the maps of all classes.

    The distance from x to a point x' of class c is ``D = ||L_c (x - x')||^2``. The loss is that of
    :class:`metricfast.losses.LMNN` with reduction "sum" and margin 1. It is computed for blocks of
    anchors, to limit the memory for distances.

    `X`: float64 points, sorted by class.
    `codes`: classes of the points, from 0, in ascending order.
    `targets`: indices of target neighbours, of shape (n, k).
    `pull`: weight of the pull of target neighbours, from 0 to 1.
    """

    def __init__(self, X: Floats, codes: Integers, targets: Integers, pull: float) -> None:
        self.X, self.codes, self.targets, self.pull = X, codes, targets, pull
        ends = np.cumsum(np.bincount(codes))
        self.classes = [slice(int(end - size), int(end)) for end, size in
                        zip(ends, np.bincount(codes), strict=True)]  # fmt: skip

    def __call__(self, maps: Floats) -> tuple[float, Floats]:
        """Return the loss, and its gradient by maps of shape (n_classes, n_components, d)."""
        X, classes = self.X, self.classes
        n, d = X.shape
        scatters = np.zeros((len(classes), d, d))
        received = np.zeros(n)
        value, step = 0.0, block_rows(4 * 8 * n)
        mapped = [X[part] @ L.T for part, L in zip(classes, maps, strict=True)]
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            distances = self._distances(rows, maps, mapped)
            value += self._push_and_pull(rows, distances, maps, scatters, received)
        for c, part in enumerate(classes):
            scatters[c] += X[part].T @ (received[part, None] * X[part])
        gradient: Floats = 2 * maps @ scatters
        return value, gradient

    def _distances(self, rows: slice, maps: Floats, mapped: list[Floats]) -> Floats:
        """Return squared distances of anchors to all points, infinite within their class."""
        found = np.empty((rows.stop - rows.start, len(self.X)))
        for part, L, points in zip(self.classes, maps, mapped, strict=True):
            anchors = self.X[rows] @ L.T
            block = anchors @ points.T
            block *= -2
            block += np.einsum("ij,ij->i", anchors, anchors)[:, None]
            block += np.einsum("ij,ij->i", points, points)
            found[:, part] = block
        own = self.codes[rows, None] == self.codes
        found[own] = np.inf
        return found

    def _push_and_pull(
        self, rows: slice, distances: Floats, maps: Floats, scatters: Floats, received: Floats
    ) -> float:
        """Add the contributions of anchors to the scatter matrices of the gradient."""
        X, push = self.X, 1 - self.pull
        value, weights = 0.0, np.zeros_like(distances)
        for column in self.targets[rows].T:
            apart = X[rows] - X[column]
            moved = np.empty((len(column), maps.shape[1]))
            for c in np.unique(self.codes[rows]):
                its = self.codes[rows] == c
                moved[its] = apart[its] @ maps[c].T
            near = np.einsum("ij,ij->i", moved, moved)
            active = distances < 1 + near[:, None]
            counts = active.sum(axis=1)
            value += self.pull * near.sum() + push * (counts * (1 + near)).sum()
            value -= push * distances.sum(where=active)
            weights -= push * active
            pulled = (self.pull + push * counts)[:, None] * apart
            for c in np.unique(self.codes[rows]):
                its = self.codes[rows] == c
                scatters[c] += apart[its].T @ pulled[its]
        received += weights.sum(axis=0)
        for c, part in enumerate(self.classes):
            w = weights[:, part]
            mixed = X[rows].T @ (w @ X[part])
            scatters[c] += X[rows].T @ (w.sum(axis=1)[:, None] * X[rows]) - mixed - mixed.T
        return float(value)
