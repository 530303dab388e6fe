"""Identification: searches of people, some of whom are not in the database."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arrays import as_both, as_common_codes
from metricfast.distances.neighbors import kneighbors
from metricfast.metrics._pairs import PairReport
from metricfast.metrics._verification import check_rates

__all__ = ["identification_report"]


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
    rates = check_rates(fpir, "fpir")
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
