"""Normal scores: numbers by their ranks, as quantiles of the normal distribution."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from metricfast._core.types import Floats

__all__ = ["NormalScores"]

# Values of a column whose scores are stored; scores of others are interpolated.
_MOST = 1024
# The share of points below the lowest value, and above the highest, is at least this.
_LEAST = 1e-9


class NormalScores:
    """A monotone map of each column, after which its values are distributed normally.

    A value with a share p of the points below it has the score ``Phi^-1(p)``, half of the points
    of the same value included. Scores are brought to mean 0 and variance 1. New values between two
    others have a score between theirs; values beyond all others have the score of the nearest.
    Missing values have the mean score, 0.

    Parameters
    ----------
    numbers : ndarray of float64 of shape (n_samples, n_columns)
        As they were given: in other units, rounding may make numbers beside an outlier equal.
    weight : ndarray of shape (n_samples,), optional
    """

    def __init__(self, numbers: Floats, weight: Floats | None = None) -> None:
        weight = np.ones(len(numbers)) if weight is None else weight
        known = ~np.isnan(numbers)
        self._scores = [_scores(x[k], weight[k]) for x, k in zip(numbers.T, known.T, strict=True)]

    def of(self, numbers: Floats) -> Floats:
        """Return the scores of numbers."""
        found = np.zeros(numbers.shape)
        for j, (values, scores) in enumerate(self._scores):
            if len(values):
                found[:, j] = np.interp(numbers[:, j], values, scores)
        return np.nan_to_num(found, copy=False)


def _scores(column: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return values of a column in increasing order, and their scores."""
    values, place = np.unique(column, return_inverse=True)
    mass = np.bincount(place, weight) / weight.sum()
    rank = np.clip(np.cumsum(mass) - mass / 2, _LEAST, 1 - _LEAST)
    scores = ndtri(rank)
    scores -= mass @ scores
    scores /= np.sqrt(mass @ scores**2) or 1.0
    if len(values) > _MOST:
        places = np.searchsorted(rank, np.linspace(0, 1, _MOST))
        kept = np.unique(np.minimum(places, len(values) - 1))
        values, scores = values[kept], scores[kept]
    return values, scores
