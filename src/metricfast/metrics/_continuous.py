"""Metrics of continuous labels: how far the labels of the references found are from the query's.

A block gives the label distances to all candidates (infinite to one that is left out) and to the
references found, in their order. A metric returns its values, those that chance would have on
average, and those of the best order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import rankdata

from metricfast.metrics._ranking import Block

__all__ = ["CONTINUOUS_METRICS", "ContinuousMetric", "LabelDistances"]

Values = NDArray[Any]
Results = tuple[Values, Values, Values]


class LabelDistances:
    """The label distances of a block of queries."""

    def __init__(
        self, block: Block, labels: Values, references: Values, metric: Any, k: int
    ) -> None:
        self.block, self.k = block, k
        self.all: Values = cdist(labels[block.rows], references, metric)
        if not np.isfinite(self.all).all() or (self.all < 0).any():
            raise ValueError(
                "label_distance must give finite distances, none negative; "
                f"found {self.all.min()} to {self.all.max()}."
            )
        if block.exclude is not None:
            self.all[np.arange(len(self.all)), block.exclude] = np.inf
        self.found: Values = np.take_along_axis(self.all, block.indices, axis=1)

    @property
    def nearest(self) -> Values:
        """The k smallest, in order."""
        found: Values = np.sort(np.partition(self.all, self.k - 1, axis=1)[:, : self.k], axis=1)
        return found


@dataclass(frozen=True)
class ContinuousMetric:
    """How to compute a metric, and how many places it looks at ("k" or "all")."""

    results: Callable[[LabelDistances], Results]
    depth: str


def _ndcg(given: LabelDistances) -> Results:
    discount = 1 / np.log2(np.arange(2, given.k + 2))
    ideal = (1 / (1 + given.nearest)) @ discount
    value = (1 / (1 + given.found[:, : given.k])) @ discount
    mean_gain = (1 / (1 + given.all)).sum(axis=1) / given.block.n_candidates
    return value / ideal, mean_gain * discount.sum() / ideal, np.ones(len(ideal))


def _mean_label_distance(given: LabelDistances) -> Results:
    mean = np.where(np.isinf(given.all), 0, given.all).sum(axis=1) / given.block.n_candidates
    return given.found[:, : given.k].mean(axis=1), mean, given.nearest.mean(axis=1)


def _spearman(given: LabelDistances) -> Results:
    """Pearson's correlation of ranks, ties sharing their mean rank."""
    centre = (given.block.n_candidates + 1) / 2
    by_distance = rankdata(given.block.distances, axis=1) - centre
    by_label = rankdata(given.found, axis=1) - centre
    norm = np.sqrt((by_distance**2).sum(axis=1) * (by_label**2).sum(axis=1))
    value = (by_distance * by_label).sum(axis=1) / np.where(norm == 0, 1, norm)
    value[(by_label == 0).all(axis=1)] = np.nan
    return value, np.zeros(len(value)), np.ones(len(value))


CONTINUOUS_METRICS = {
    "ndcg_at_k": ContinuousMetric(_ndcg, "k"),
    "mean_label_distance_at_k": ContinuousMetric(_mean_label_distance, "k"),
    "spearman": ContinuousMetric(_spearman, "all"),
}
