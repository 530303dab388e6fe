"""A vantage-point tree: nearest labels under any metric, without computing all distances.

P. N. Yianilos, "Data structures and algorithms for nearest neighbor search in general metric
spaces", SODA 1993.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from metricfast._core.types import Array, Floats, Integers
from metricfast._labels.distance import LabelDistance, rows_per_block

# Number of labels in a leaf.
_LEAF = 16
# Relative rounding error of a distance: a user's function may compute in float32.
_ROUNDING = 1e-6


class _Node(NamedTuple):
    """A vantage point and two shells around it; a leaf has no shells."""

    rows: Integers
    shells: tuple[_Shell, ...] = ()


class _Shell(NamedTuple):
    """Labels whose distance from the vantage point is within an interval."""

    low: float
    high: float
    node: _Node

    def within(self, away: Floats, radius: Floats) -> Array:
        """Return which balls intersect the shell, from their distances and radii."""
        gap = np.maximum(self.low - away, away - self.high)
        return np.asarray(gap <= radius + _ROUNDING * (away + self.high))


class MetricTree:
    """Labels, divided recursively by their distance from one of them, the vantage point.

    The triangle inequality bounds the distances to a whole shell; the search skips a shell if none
    of its labels can be among the nearest. A search processes many queries together: it calls the
    distance with an array of queries and either the vantage point or the labels of a leaf.
    """

    def __init__(self, labels: Any, distance: LabelDistance) -> None:
        """Build the tree; raise ValueError if the distance violates a metric axiom."""
        _check_metric(labels, distance)
        self._labels, self._distance = labels, distance
        self._root = self._divide(np.arange(labels.shape[0]))

    def nearest(
        self,
        queries: Any,
        k: int,
        place: Integers,
        *,
        first: Integers | None = None,
        own: bool = False,
        drop: bool = False,
    ) -> Integers:
        """Return the k nearest labels of each query, and -1 where there are fewer.

        `place`: the place of each label; of labels at one distance, the first ones are taken.
        `first`: the place at which each query begins, going round; by default 0.
        `own`: whether the queries are the labels, and none is its own neighbour.
        `drop`: whether labels at distance 0 are left out.
        """
        n = queries.shape[0]
        found = np.full((n, k), -1)
        if k == 0:
            return found
        step = rows_per_block(4 * (k + _LEAF))
        for start in range(0, n, step):
            rows = slice(start, start + step)
            search = _Search(self._labels, self._distance, queries[rows], k, drop)
            search.place = place
            search.first = np.zeros(n, np.int64)[rows] if first is None else first[rows]
            search.own = np.arange(n)[rows] if own else None
            search.visit(self._root, np.arange(len(search.nearest)))
            found[rows] = search.nearest
        return found

    def _divide(self, rows: Integers) -> _Node:
        """Return a tree node for some labels; the first becomes the vantage point."""
        if len(rows) <= _LEAF:
            return _Node(rows)
        vantage, others = rows[:1], rows[1:]
        away = self._distance.between(self._labels[others], self._labels[vantage])[:, 0]
        order = np.argsort(away, kind="stable")
        shells = []
        for part in np.array_split(order, 2):
            # The farthest label is the next vantage point: from a corner, shells are thin.
            node = self._divide(others[part[::-1]])
            shells.append(_Shell(float(away[part[0]]), float(away[part[-1]]), node))
        return _Node(vantage, tuple(shells))


class _Search:
    """The nearest labels of some queries found so far."""

    place: Integers
    first: Integers
    own: Integers | None

    def __init__(
        self, labels: Any, distance: LabelDistance, queries: Any, k: int, drop: bool
    ) -> None:
        self._labels, self._distance, self._queries, self._drop = labels, distance, queries, drop
        shape = queries.shape[0], k
        self.nearest = np.full(shape, -1)
        self._away = np.full(shape, np.inf)
        self._rank = np.zeros(shape, np.int64)  # order among labels at equal distances

    def visit(self, node: _Node, active: Integers) -> None:
        """Search a node for labels that are nearer to some queries."""
        if len(active) == 0:
            return
        away = self._distance.between(self._queries[active], self._labels[node.rows])
        self._compare(away, node.rows, active)
        if not node.shells:
            return
        inner, outer = node.shells
        from_vantage = away[:, 0]
        begins = from_vantage <= (inner.high + outer.low) / 2  # visits the inner shell first
        for shell, some in ((inner, begins), (outer, True), (inner, ~begins)):
            reached = shell.within(from_vantage, self._away[active, -1])
            self.visit(shell.node, active[reached & some])

    def _compare(self, away: Floats, rows: Integers, active: Integers) -> None:
        """Insert nearer rows into the neighbour lists of the active queries."""
        away = away.copy()
        if self._drop:
            away[away == 0] = np.inf
        if self.own is not None:
            away[self.own[active, None] == rows] = np.inf
        closer = (away <= self._away[active, -1:]).any(axis=1)
        away, active = away[closer], active[closer]
        rank = (self.place[rows] - self.first[active, None]) % len(self.place)
        columns = np.where(np.isinf(away), -1, rows)
        away = np.hstack([self._away[active], away])
        rank = np.hstack([self._rank[active], rank])
        columns = np.hstack([self.nearest[active], columns])
        order = np.lexsort((rank, away), axis=1)[:, : self.nearest.shape[1]]
        self._away[active] = np.take_along_axis(away, order, axis=1)
        self._rank[active] = np.take_along_axis(rank, order, axis=1)
        self.nearest[active] = np.take_along_axis(columns, order, axis=1)


def _check_metric(labels: Any, distance: LabelDistance) -> None:
    """Raise ValueError if the distance violates a metric axiom on 16 of the labels."""
    rows = np.unique(np.linspace(0, labels.shape[0] - 1, 16).astype(int))
    away = distance.between(labels[rows], labels[rows])
    allowed = _ROUNDING * away.max()
    if (np.diag(away) > allowed).any():
        found = "a label is not at distance 0 from itself"
    elif (np.abs(away - away.T) > allowed).any():
        found = "f(a, b) differs from f(b, a)"
    elif (away[:, None] > away[:, :, None] + away + allowed).any():
        found = "some f(a, c) is larger than f(a, b) + f(b, c)"
    else:
        return
    raise ValueError(
        f"label_distance ('metric', f) needs a function that is a metric, but {found}: "
        "give the function f alone."
    )
