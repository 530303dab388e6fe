"""Reports on pairs: similarities with scores, verification, and identification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from metricfast._core.arguments import as_array, as_numbers, check_range
from metricfast._core.arrays import as_both, as_common_codes
from metricfast._core.checks import check_both_kinds
from metricfast._core.targets import as_column, encode
from metricfast._core.thresholds import best_threshold
from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.neighbors import kneighbors
from metricfast.selection._splits import deal_in_order


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
    far: float | Sequence[float] = (1e-1, 1e-2, 1e-3, 1e-4),
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
    rates = _check_rates(far, "far")
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


def _check_rates(rates: float | Sequence[float], name: str) -> list[float]:
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


def identification_report(
    queries: ArrayLike,
    labels: ArrayLike,
    database: ArrayLike,
    database_labels: ArrayLike,
    *,
    fpir: float | Sequence[float] = (1e-1, 1e-2, 1e-3),
    L: ArrayLike | None = None,
    U: ArrayLike | None = None,
    V: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> PairReport:
    """Score searches for the class of each query, which the database may not have.

    A query returns the class of its nearest point of the database (in the order of distance and
    index), if their distance is at most a threshold; else it returns nothing. Queries of classes of
    the database are known, and all others are unknown.

    Parameters
    ----------
    queries, database : array-like of shape (n, d) and (m, d)
        Embedded points, or points that `L`, or `U` and `V`, embed.
    labels, database_labels : array-like of shape (n,) and (m,)
        Their classes.
    fpir : float or sequence of float, default=(0.1, 0.01, 0.001)
        False-positive identification rates: shares of unknown queries that may return a class.
    L, U, V : array-like, optional
        Maps, as for :func:`metricfast.kneighbors`.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs.

    Returns
    -------
    PairReport
        A dictionary, which is shown as a table:

        - "rank_1": the share of known queries whose nearest point has their class, without a
          threshold;
        - "fnir_at_fpir_0.1" and so on, one for each of `fpir`: the false-negative identification
          rate, which is the share of known queries that do not return their class, at the largest
          threshold at which no more than this share of unknown queries returns a class; NaN if
          that is less than one unknown query;
        - "threshold_at_fpir_0.1" and so on: the distance of the last query that returns a class
          then; -inf if none does.

    Raises
    ------
    ValueError
        If an argument is not as above, or all queries are known or all are unknown.

    See Also
    --------
    verification_report : Pairs, of which some are similar.
    retrieval_report : Searches in which all classes are known.

    References
    ----------
    Grother, Ngan, Hanaoka. Face recognition vendor test, part 2: identification. NIST IR 8271,
    2019 (FPIR and FNIR; the rank R is 1 here).

    Examples
    --------
    >>> from metricfast.metrics import identification_report
    >>> people, database = ["Ann", "Ben"], [[0.0], [5.0]]
    >>> queries = [[0.1], [4.0], [2.0], [8.0]]
    >>> who = ["Ann", "Ben", "a stranger", "another"]
    >>> identification_report(queries, who, database, people, fpir=0.5)
    rank_1                 1.0000
    fnir_at_fpir_0.5       0.0000
    threshold_at_fpir_0.5  2.0000
    """
    points, references = as_both(queries, database, ("queries", "database"))
    sizes = len(points), len(references)
    names = "labels", "database_labels"
    _, codes, known_codes = as_common_codes(labels, database_labels, names, sizes)
    rates = _check_rates(fpir, "fpir")
    is_known = np.isin(codes, known_codes)
    if is_known.all() or not is_known.any():
        raise ValueError(
            "labels must have some classes of database_labels and some others; found "
            f"{'only' if is_known.all() else 'no'} classes of database_labels."
        )
    found, rows = kneighbors(points, references, 1, L=L, U=U, V=V, n_jobs=n_jobs)
    distances, right = found[:, 0], known_codes[rows[:, 0]] == codes
    ordered, unknown = np.sort(distances), np.sort(distances[~is_known])
    report = PairReport(rank_1=float(right[is_known].mean()))
    shares = np.arange(1, len(unknown) + 1) / len(unknown)
    for rate in rates:
        allowed = int(np.count_nonzero(shares <= rate))
        fnir = threshold = np.nan
        if allowed:
            n_returned = len(ordered)
            if allowed < len(unknown):  # the next unknown query is one too many
                n_returned = int(np.searchsorted(ordered, unknown[allowed]))
            threshold = float(ordered[n_returned - 1]) if n_returned else -np.inf
            returned = right & (distances <= threshold)
            fnir = float(np.mean(~returned[is_known]))
        report[f"fnir_at_fpir_{rate:g}"] = fnir
        report[f"threshold_at_fpir_{rate:g}"] = threshold
    return report
