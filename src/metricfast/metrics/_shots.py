"""Cumulative match characteristic with a single gallery shot, as an expectation over all draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metricfast._core.types import Array, Floats, Integers

__all__ = ["SHOT_METRICS", "ShotMetric", "single_shot"]


@dataclass(frozen=True)
class ShotMetric:
    """Description of a metric with one random reference per class."""

    depth = "all"
    binary = False
    bounds = (0.0, 1.0)


SHOT_METRICS = {"cmc_at_k": ShotMetric()}


def single_shot(ranked: Integers, own: int, k: int) -> tuple[Floats, int]:
    """Return the probability of the class among the first 1, ..., k classes, and the class count.

    One reference of each class is drawn. The probability that another class precedes the drawn
    reference of the query's class is the share of its references that precede it. Classes are
    independent, so the number of preceding classes is a sum of independent Bernoulli variables.

    `ranked`: the classes of all references, nearest first.
    `own`: the class of the query; it occurs in `ranked`.
    """
    classes, code, sizes = np.unique(ranked, return_inverse=True, return_counts=True)
    mine = int(np.searchsorted(classes, own))
    places = np.flatnonzero(code == mine)
    # Count the references of each class before each reference of the query's class.
    between = np.searchsorted(places, np.arange(len(ranked)), side="right")
    before = np.zeros((len(places) + 1, len(classes)))
    np.add.at(before, (between, code), 1)
    shares = np.cumsum(before, axis=0)[:-1] / sizes
    shares[:, mine] = 0
    return _fewer(shares, k).mean(axis=0), len(classes)


def _fewer(shares: Array, k: int) -> Floats:
    """Return, by row, the probabilities that fewer than 1, ..., k independent events occur."""
    certain = (shares == 1).sum(axis=1)
    chances = np.zeros((len(shares), k))
    some = certain < k
    chances[np.flatnonzero(some), certain[some]] = 1
    uncertain = np.where(shares == 1, 0, shares)
    for share in uncertain[:, uncertain.any(axis=0)].T[:, :, None]:
        chances = chances * (1 - share) + np.pad(chances[:, :-1], ((0, 0), (1, 0))) * share
    return np.cumsum(chances, axis=1)
