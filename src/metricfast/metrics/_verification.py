"""Verification: how well distances separate similar pairs from dissimilar ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import roc_auc_score, roc_curve

from metricfast._core.arguments import as_array, check_range
from metricfast._core.arrays import as_numbers
from metricfast._core.checks import check_both_kinds
from metricfast._core.targets import as_column, encode
from metricfast._core.thresholds import best_threshold
from metricfast._core.types import Array, Floats, Integers
from metricfast.metrics._pairs import PairReport
from metricfast.selection._splits import deal_in_order

__all__ = ["VerificationReport", "check_rates", "equal_error_rate", "verification_report"]

_FAR = (1e-1, 1e-2, 1e-3, 1e-4)


class VerificationReport(PairReport):
    """A dictionary of values by metric name, displayed as a table.

    Attributes
    ----------
    fold_accuracies : ndarray of shape (n_folds,)
        The accuracy on each fold.
    """

    fold_accuracies: Floats


def verification_report(
    y_true: ArrayLike,
    distances: ArrayLike,
    *,
    far: float | Sequence[float] = _FAR,
    folds: int | ArrayLike = 10,
) -> VerificationReport:
    """Score the distances of pairs, of which some are similar.

    Parameters
    ----------
    y_true : array-like of shape (n_pairs,)
        1 for similar pairs, -1 for dissimilar ones.
    distances : array-like of shape (n_pairs,)
        Distances, such as `pair_distance` of a learner; or similarities, each multiplied by -1.
    far : float or sequence of float, default=(0.1, 0.01, 0.001, 0.0001)
        False acceptance rates: shares of dissimilar pairs that may be accepted.
    folds : int or array-like of shape (n_pairs,), default=10
        Number of folds, or the fold of each pair. A number cuts the similar and the dissimilar
        pairs into contiguous folds in their order.

    Returns
    -------
    VerificationReport
        A dictionary, which is shown as a table:

        - "roc_auc": the area under the ROC curve;
        - "equal_error_rate": the share of errors at the threshold at which equal shares of similar
          and of dissimilar pairs are wrong;
        - "tar_at_far_0.1" and so on, one for each of `far`: the share of similar pairs that are
          accepted at the largest threshold that accepts no more than this share of dissimilar
          pairs; NaN if that is less than one dissimilar pair;
        - "threshold_at_far_0.1" and so on: the distance of the last pair that is accepted then;
          -inf if none is;
        - "accuracy": the mean accuracy on the folds, with the threshold that is best on the others;
        - "accuracy_error": the standard error of this mean.

    Raises
    ------
    ValueError
        If an argument is not as above, all pairs are of one kind, or there are too few for `folds`.

    Examples
    --------
    >>> from metricfast.metrics import verification_report
    >>> y = [1, 1, 1, 1, -1, -1, -1, -1]
    >>> distances = [0.1, 0.4, 0.3, 0.6, 0.5, 0.7, 0.9, 0.8]
    >>> verification_report(y, distances, far=[0.25], folds=2)
    roc_auc                0.9375
    equal_error_rate       0.2500
    tar_at_far_0.25        1.0000
    threshold_at_far_0.25  0.6000
    accuracy               0.7500
    accuracy_error         0.0000
    """
    known = as_numbers(distances, "distances")
    y = check_both_kinds(y_true, len(known), "y_true")
    rates = check_rates(far, "far")
    accepted, kept, thresholds = roc_curve(y, -known, pos_label=1, drop_intermediate=False)
    n_dissimilar = np.count_nonzero(y != 1)
    report = VerificationReport(roc_auc=float(roc_auc_score(y, -known)))
    report["equal_error_rate"] = equal_error_rate(accepted, kept)
    for rate in rates:
        last, enough = int(np.sum(accepted <= rate)) - 1, 1 / n_dissimilar <= rate
        report[f"tar_at_far_{rate:g}"] = float(kept[last]) if enough else np.nan
        report[f"threshold_at_far_{rate:g}"] = -float(thresholds[last]) if enough else np.nan
    report.fold_accuracies = values = _fold_accuracies(y, known, folds)
    report["accuracy"] = float(values.mean())
    report["accuracy_error"] = float(values.std(ddof=1) / np.sqrt(len(values)))
    return report


def check_rates(rates: float | Sequence[float], name: str) -> list[float]:
    """Return the rates, of which each must be greater than 0 and at most 1."""
    found: list[Any] = list(rates) if np.iterable(rates) and not isinstance(rates, str) else [rates]
    for rate in found:
        check_range(name, rate, high=1, positive=True)
    return found


def equal_error_rate(accepted: Floats, kept: Floats) -> float:
    """Return the equal error rate of a ROC curve.

    `accepted`, `kept`: false and true positive rates, ascending.
    """
    excess = accepted - (1 - kept)
    i = int(np.argmax(excess >= 0))
    part = excess[i] / (excess[i] - excess[i - 1])
    return float(accepted[i] - part * (accepted[i] - accepted[i - 1]))


def _fold_accuracies(y: Array, distances: Floats, folds: Any) -> Floats:
    place, found = _folds(y, folds), []
    for i in range(place.max() + 1):
        fold = place == i
        threshold = best_threshold(distances[~fold], y[~fold])
        found.append(np.mean((distances[fold] <= threshold) == (y[fold] == 1)))
    return np.array(found)


def _folds(y: Array, folds: Any) -> Integers:
    """Return the fold of each pair."""
    if np.ndim(folds):
        given = as_column(as_array(folds, "folds"), "folds")
        if len(given) != len(y):
            raise ValueError(f"folds must hold {len(y)} folds, one per pair, got {len(given)}.")
        names, codes = encode(given, "folds")
        if len(names) < 2:
            raise ValueError("folds must hold at least 2 folds, got 1.")
        return codes
    least = int(min(np.count_nonzero(y == 1), np.count_nonzero(y != 1)))
    whole = isinstance(folds, (int, np.integer)) and not isinstance(folds, bool)
    if not whole or not 2 <= folds <= least:
        raise ValueError(
            f"folds must be an integer from 2 to {least}, the pairs of the rarer kind, or the fold "
            f"of each pair; found {folds!r}."
        )
    return deal_in_order(y, int(folds))
