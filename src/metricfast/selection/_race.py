"""A race of learners on the same held-out parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from metricfast._core.types import Floats
from metricfast.selection._evidence import SURELY, excess, means
from metricfast.selection._folds import Path, cross_fitted
from metricfast.selection._judge import Judge


class OutOfTimeError(Exception):
    """The time for a learner is over."""


def with_scores(path: Path) -> Path:
    """Return a path with 1 - cost as the score of each query, in a further column."""
    return replace(path, costs=np.concatenate([path.costs, 1 - path.costs[..., :1]], axis=2))


def is_behind(seen: Floats, best: Floats, weight: Floats) -> bool:
    """Return whether a learner is further behind the best one than other points may make good.

    That is, by one standard error of the difference on the other points, if these differ as much.

    `seen`: its scores of the first points; `best`, `weight`: of all points.
    """
    n, rest = len(seen), len(best) - len(seen)
    if not n or not rest:
        return False
    behind = -float(excess(seen, best[:n], weight[:n]))
    return behind > 0 and behind >= float(np.sqrt(weight[n:].sum() / weight[:n].sum()))


def may_win(seen: Floats, best: Floats, weight: Floats, highest: float) -> bool:
    """Return whether a learner would be surely better with the highest score of all other points.

    `seen`: its scores of the first points; `best`, `weight`: of all points.
    """
    ideal = np.concatenate([seen, np.maximum(best[len(seen) :], highest)])
    return float(excess(ideal, best, weight)) > SURELY


class Race:
    """The paths of learners on the same held-out parts, and the learner to beat.

    The last column of their costs holds scores. The costs of each part are those of the setting
    that the other parts choose.

    `labels`: their kind, as in :meth:`Judge.costs_by`.
    `weight`: the weights of all held-out points, by default 1.
    `highest`: the highest possible score.
    """

    def __init__(
        self, judge: Judge, labels: str, weight: Floats | None = None, highest: float = 1.0
    ) -> None:
        self.paths: dict[str, list[Path]] = {}
        self.costs: dict[str, Floats] = {}
        self.leader: str | None = None
        self._judge, self._labels, self._weight, self._highest = judge, labels, weight, highest

    def add(self, name: str, paths: list[Path]) -> list[Floats]:
        """Add a learner that was tried on all parts, and return its costs and scores on each."""
        found = cross_fitted(paths, self._judge, self._labels)
        self.paths[name], self.costs[name] = paths, np.concatenate(found)
        return found

    def standardizes(self, given: str, standardized: str) -> bool:
        """Return whether held-out points cost less with standardised features than with given ones.

        `given`, `standardized`: names of the distances that learn nothing.
        """
        costs = np.stack([self.costs[given], self.costs[standardized]])
        costs = costs[..., 0] if costs.shape[2] > 1 else -costs[..., 0]
        found = means(costs, self._weights)
        return bool(found[1] < found[0])

    @property
    def _weights(self) -> Floats:
        n = len(next(iter(self.costs.values())))
        return np.ones(n) if self._weight is None else self._weight

    def dropped(self, paths: Sequence[Path], n_parts: int) -> str:
        """Return why a learner cannot be expected to win, or an empty string.

        `paths`: of its first parts.
        """
        if self.leader is None:
            return ""
        leader, highest = self.costs[self.leader], self._highest
        found = leader[:0]
        if paths:
            found = np.concatenate(cross_fitted(paths, self._judge, self._labels))
        scores, seen = leader[:, -1], found[:, -1]
        weight = self._weights
        behind = float((scores[: len(seen)] - seen).mean()) if paths else 0.0
        to_gain = highest - float(np.average(scores, weights=weight))
        if paths and leader.shape[1] > 1 < found.shape[1]:
            # Costs of the judge are finer than scores.
            scores, seen, highest = -leader[:, 0], -found[:, 0], 0.0
        n, after = len(seen), f"dropped after fold {len(paths)} of {n_parts}: "
        if is_behind(seen, scores, weight):
            by = f"{behind:.3f} behind" if behind > 0 else "by the judge's measure behind"
            return f"{after}{by} {self.leader}"
        if may_win(seen, scores, weight, highest):
            return ""
        if n:
            return f"{after}could not become surely better than {self.leader} in the folds left"
        return f"not tried: at most {to_gain:.3f} to gain over {self.leader}"
