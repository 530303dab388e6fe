"""Retrieval of the points that are relevant to each query, from a matrix of their grades."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse

from metricfast._core.arguments import as_real
from metricfast._core.arrays import as_both
from metricfast._core.types import Floats, Integers
from metricfast.distances.filters import as_filter, known_rows
from metricfast.distances.neighbors import SearchMetric, check_metric
from metricfast.metrics._classes import (
    CLASS_METRICS,
    ClassMetric,
    chance_of_hit,
    sum_by_chance,
    sum_of_precisions,
)
from metricfast.metrics._ranking import RankingSearch
from metricfast.metrics._score import RetrievalReport, check_confidence, score_of
from metricfast.metrics._selection import scores_of

_NDCG = "ndcg_at_k"
_METRICS = {
    "hit_at_k": CLASS_METRICS["recall_at_k"],
    "recall_at_k": ClassMetric(
        lambda hits, relevant, k: hits[:, :k].sum(axis=1) / relevant,
        lambda relevant, n, k: k / n,
        "k",
    ),
    "mrr_at_k": ClassMetric(
        lambda hits, relevant, k: hits[:, :k].any(axis=1) / (hits.argmax(axis=1) + 1),
        lambda relevant, n, k: float(np.sum(chance_of_hit(relevant, n)[:k] / np.arange(1, k + 1))),
        "k",
    ),
    "map_at_k": ClassMetric(
        lambda hits, relevant, k: sum_of_precisions(hits[:, :k])[:, -1] / np.minimum(relevant, k),
        lambda relevant, n, k: sum_by_chance(relevant, n, k) / min(relevant, k),
        "k",
    ),
}


def relevance_report(
    queries: ArrayLike,
    relevance: Any,
    database: ArrayLike,
    *,
    k: int | Sequence[int] = 10,
    metric: SearchMetric = "euclidean",
    confidence: float = 0.95,
    n_jobs: int | None = None,
) -> RetrievalReport:
    """Score searches for the points that are relevant to each query.

    Points of the database are ordered by distance, and by index if that is equal.

    Parameters
    ----------
    queries : array-like or source of shape (n, d)
        Embedded queries.
    relevance : sparse matrix or array-like of shape (n, m)
        Above 0 where a point of the database is relevant to a query; greater numbers for points
        that are more relevant.
    database : array-like or source of shape (m, d)
        Embedded points to search.
    k : int or sequence of int, default=10
        The number of nearest points that are found. Several k give a score each, named by its k:
        "recall_at_1", "recall_at_5".
    metric : {"euclidean", "cosine", "inner_product"}, default="euclidean"
        The distance, as for :func:`metricfast.kneighbors`. Points of length 1, such as
        `AdapterLearner.transform` returns, have the same order under all three.
    confidence : float, default=0.95
        Confidence level of the intervals.
    n_jobs : int, optional
        Number of threads; None for the default count, -1 for all CPUs.

    Returns
    -------
    RetrievalReport
        A dictionary of :class:`Score` by metric, which is shown as a table. With R the number of
        points that are relevant to a query:

        - "hit_at_k": whether one of them is found;
        - "recall_at_k": the share of the R that are found. The `recall_at_k` of
          :func:`retrieval_report` is "hit_at_k";
        - "mrr_at_k": one over the place of the first one, or 0 if none is found;
        - "map_at_k": the precisions at those that are found, summed and divided by the lesser of R
          and k;
        - "ndcg_at_k": the sum of ``relevance / log2(place + 1)``, divided by the greatest possible
          one.

        Queries without relevant points are left out; `n_undefined` counts them.

    Raises
    ------
    ValueError
        If an argument is not as above, `k` exceeds the number of points of the database, or no
        query has a relevant point.

    Examples
    --------
    >>> from scipy.sparse import csr_array, issparse
    >>> from metricfast.metrics import relevance_report
    >>> queries, database = [[0.0], [5.0]], [[0.1], [1.0], [6.0], [4.5]]
    >>> relevance = csr_array([[1, 0, 0, 1], [0, 0, 1, 0]])
    >>> report = relevance_report(queries, relevance, database, k=2)
    >>> report["recall_at_k"].mean, report["mrr_at_k"].mean
    (0.75, 0.75)
    """
    check_confidence(confidence)
    check_metric(metric)
    points, references = as_both(queries, database, ("queries", "database"))
    sizes = n, m = len(points), len(references)
    grades, keys = _grades(relevance, sizes)
    wanted = scores_of([*_METRICS, _NDCG], k)
    most = max(each for _, each in wanted.values())
    if most > m:
        raise ValueError(f"k must be at most {m}, the points of database; found {most}.")
    ideal, totals = _ideal(grades, most), np.asarray(grades.sum(axis=1)).ravel()
    relevant = np.diff(grades.indptr)
    options = {"metric": metric, "n_jobs": n_jobs}
    where = as_filter(None, sizes, known_rows(m))
    search = RankingSearch(points, references, None, where, most, options, False)
    values = {key: np.full((3, n), np.nan) for key in wanted}
    for block in search.blocks(most, most):
        some = relevant[block.rows] > 0
        rows, of_rows = block.rows[some], relevant[block.rows[some]]
        found = _entries(grades, keys, rows[:, None] * m + block.indices[some])
        for key, (name, each) in wanted.items():
            value, chance, oracle = values[key]
            if name == _NDCG:
                discount = 1 / np.log2(np.arange(2, each + 2))
                best = ideal[rows, :each] @ discount
                value[rows] = found[:, :each] @ discount / best
                chance[rows], oracle[rows] = totals[rows] / m * discount.sum() / best, 1
                continue
            of_hits, candidates = _METRICS[name], np.full(len(rows), m)
            value[rows] = of_hits.value(found > 0, of_rows, each)
            chance[rows], oracle[rows] = of_hits.baselines(of_rows, candidates, each)
    return RetrievalReport(
        (key, score_of(values[key], confidence, binary=name == "hit_at_k"))
        for key, (name, _) in wanted.items()
    )


def _grades(relevance: Any, sizes: tuple[int, int]) -> tuple[csr_array, Integers]:
    """Return the entries above 0 in order, and their places in the flat matrix."""
    given = relevance if issparse(relevance) else np.atleast_2d(as_real(relevance, "relevance"))
    grades = csr_array(given, dtype=np.float64, copy=True)
    if grades.shape != sizes:
        raise ValueError(
            f"relevance must have shape {sizes}, a row for each query and a column for each point "
            f"of database; found {grades.shape}."
        )
    grades.sum_duplicates()
    if not np.isfinite(grades.data).all() or (grades.data < 0).any():
        raise ValueError("relevance must hold finite numbers, 0 or greater.")
    grades.eliminate_zeros()
    if not grades.nnz:
        raise ValueError("relevance must be above 0 somewhere: no query has a relevant point.")
    rows = np.repeat(np.arange(sizes[0]), np.diff(grades.indptr))
    return grades, rows * sizes[1] + grades.indices


def _entries(grades: csr_array, keys: Integers, places: Integers) -> Floats:
    """Return the entries at some places of the flat matrix."""
    near = np.minimum(np.searchsorted(keys, places), len(keys) - 1)
    return np.where(keys[near] == places, grades.data[near], 0.0)


def _ideal(grades: csr_array, k: int) -> Floats:
    """Return the k greatest entries of each row, in order; zeros where there are fewer."""
    found = np.zeros((grades.shape[0], k))
    rows = np.repeat(np.arange(grades.shape[0]), np.diff(grades.indptr))
    order = np.lexsort((-grades.data, rows))
    places = np.arange(grades.nnz) - grades.indptr[rows]
    first = places < k
    found[rows[first], places[first]] = grades.data[order][first]
    return found
