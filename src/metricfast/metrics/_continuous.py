"""Metrics of continuous labels, from label distances between the query and its neighbours.

A block holds the label distances to the neighbours, in the order of the search. If a metric needs
them, it also holds the label distances to all candidates, infinite for an excluded one. A metric
has its value, the value expected by chance, and the value of the best order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import rankdata

from metricfast._core.types import Array
from metricfast._labels.distance import LabelDistance
from metricfast.metrics._ranking import Ranking


@dataclass
class LabelDistances:
    """The label distances of a block of queries."""

    block: Ranking
    labels: Any
    references: Any
    distance: LabelDistance
    k: int

    @cached_property
    def found(self) -> Array:
        """Label distances to the neighbours."""
        if self.block.indices.shape[1] == self.block.n_candidates:
            return np.take_along_axis(self.all, self.block.indices, axis=1)
        rows = zip(self.block.rows[:, None], self.block.indices, strict=True)
        between, references = self.distance.between, self.references
        return np.concatenate([between(self.labels[row], references[near]) for row, near in rows])

    @cached_property
    def all(self) -> Array:
        """Label distances to all references."""
        distances = self.distance.between(self.labels[self.block.rows], self.references)
        distances[self.block.left_out] = np.inf
        return distances

    @cached_property
    def nearest(self) -> Array:
        """The k smallest label distances, ascending."""
        return np.asarray(np.sort(np.partition(self.all, self.k - 1, axis=1)[:, : self.k], axis=1))


@dataclass(frozen=True)
class _ContinuousMetric:
    """Description of a metric at k: text, functions, its ranks ("k" or "all"), and bounds."""

    summary: str
    example: str
    value: Callable[[LabelDistances, int], Array]
    chance: Callable[[LabelDistances, int], Array | float]
    oracle: Callable[[LabelDistances, int], Array | float]
    depth: str
    bounds: tuple[float, float]
    binary = False


def _discount(k: int) -> Array:
    return np.asarray(1 / np.log2(np.arange(2, k + 2)))


def _gain(distances: Array, k: int) -> Array:
    return np.asarray((1 / (1 + distances[:, :k])) @ _discount(k))


def _ndcg_by_chance(given: LabelDistances, k: int) -> Array:
    mean_gain = (1 / (1 + given.all)).sum(axis=1) / given.block.n_candidates
    return np.asarray(mean_gain * _discount(k).sum() / _gain(given.nearest, k))


def _mean_label_distance(given: LabelDistances, k: int) -> Array:
    known = np.where(np.isinf(given.all), 0, given.all)
    return np.asarray(known.sum(axis=1) / given.block.n_candidates)


def _spearman(given: LabelDistances, k: int) -> Array:
    """Return Pearson's correlation of ranks; ties get their mean rank."""
    if np.isinf(given.block.distances).any():
        raise ValueError(
            "X, or queries and database, are so far apart that distances overflow: divide them by "
            "a number that makes their spread about 1."
        )
    centre = (given.block.n_candidates + 1) / 2
    by_distance = rankdata(given.block.distances, axis=1) - centre
    by_label = rankdata(given.found, axis=1) - centre
    norm = np.sqrt((by_distance**2).sum(axis=1) * (by_label**2).sum(axis=1))
    value: Array = (by_distance * by_label).sum(axis=1) / np.where(norm == 0, 1, norm)
    value[(by_label == 0).all(axis=1)] = np.nan
    return value


CONTINUOUS_METRICS = {
    "ndcg_at_k": _ContinuousMetric(
        """Normalised discounted cumulative gain, with gain ``1 / (1 + label distance)``.

    The discount is ``1 / log2(rank + 1)``. The value depends on the unit of the labels.""",
        "1.0",
        lambda given, k: _gain(given.found, k) / _gain(given.nearest, k),
        _ndcg_by_chance,
        lambda given, k: 1.0,
        "k",
        (0.0, 1.0),
    ),
    "mean_label_distance_at_k": _ContinuousMetric(
        "The mean label distance of the first k references; less is better.",
        "1.25",
        lambda given, k: given.found[:, :k].mean(axis=1),
        _mean_label_distance,
        lambda given, k: given.nearest[:, :k].mean(axis=1),
        "k",
        (0.0, np.inf),
    ),
    "spearman": _ContinuousMetric(
        "The rank correlation of distances and label distances over all references.",
        "0.93...",
        _spearman,
        lambda given, k: 0.0,
        lambda given, k: 1.0,
        "all",
        (-1.0, 1.0),
    ),
}
