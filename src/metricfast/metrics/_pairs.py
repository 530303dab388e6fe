"""Pairs with scores: how well similarities follow them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score

from metricfast._core.arrays import as_numbers
from metricfast._core.thresholds import best_threshold
from metricfast._core.types import Floats

__all__ = ["PairReport", "pair_report"]


class PairReport(dict[str, float]):
    """A dictionary of values by metric name, displayed as a table."""

    def __repr__(self) -> str:
        """Return the table."""
        width = max(map(len, self), default=0)
        return "\n".join(f"{name:{width}}  {value:6.4f}" for name, value in self.items())


def pair_report(y_true: ArrayLike, similarities: ArrayLike) -> PairReport:
    """Score the similarities of pairs, of which the true scores are known.

    Parameters
    ----------
    y_true : array-like of shape (n_pairs,)
        Scores, such as 0 to 5, greater for pairs that are more alike; or two different numbers, of
        which the greater is for similar pairs.
    similarities : array-like of shape (n_pairs,)
        Similarities, such as cosines or `pair_score` of a learner; or distances, each multiplied by
        -1.

    Returns
    -------
    PairReport
        A dictionary, which is shown as a table:

        - "spearman" and "pearson": the correlation of ranks, where ties share their mean rank, and
          of values; NaN if all similarities are equal;
        - "average_precision", if there are two kinds of pairs: the mean precision at the similar
          ones, in the order of similarities;
        - "accuracy", if there are two kinds: the share of pairs that are on the right side of the
          threshold, which is the best for these very pairs;
        - "threshold": the least similarity above the threshold.

    Raises
    ------
    ValueError
        If an argument is not as above, there are fewer than 2 pairs, or all scores are equal.

    See Also
    --------
    verification_report : The accuracy at thresholds that are chosen on other pairs.

    Examples
    --------
    >>> from metricfast.metrics import pair_report
    >>> pair_report([5, 4, 1, 0], [0.9, 0.6, 0.7, 0.1])
    spearman  0.8000
    pearson   0.7611
    >>> pair_report([1, 1, -1, -1], [0.9, 0.6, 0.7, 0.1])
    spearman           0.4472
    pearson            0.5937
    average_precision  0.8333
    accuracy           0.7500
    threshold          0.9000
    """
    found = as_numbers(similarities, "similarities")
    y = as_numbers(y_true, "y_true", len(found))
    if len(y) < 2:
        raise ValueError(f"y_true must hold at least 2 pairs; found {len(y)}.")
    values = np.unique(y)
    if len(values) < 2:
        raise ValueError(f"y_true must hold different scores: all are {y[0]:g}.")
    report = PairReport(
        spearman=_correlation(rankdata(y), rankdata(found)), pearson=_correlation(y, found)
    )
    if len(values) == 2:
        similar = y == values[1]
        report["average_precision"] = float(average_precision_score(similar, found))
        threshold = -best_threshold(-found, np.where(similar, 1, -1))
        report["accuracy"] = float(np.mean((found >= threshold) == similar))
        report["threshold"] = threshold
    return report


def _correlation(a: Floats, b: Floats) -> float:
    """Return Pearson's correlation, of numbers of any size."""
    a, b = (each / (np.abs(each).max() or 1.0) for each in (a, b))
    a, b = a - a.mean(), b - b.mean()
    length = np.linalg.norm(a) * np.linalg.norm(b)
    return float(np.clip(a @ b / length, -1, 1)) if length > 0 else np.nan
