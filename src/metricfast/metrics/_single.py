"""Each metric as a function of its own, from points and labels to one number."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from metricfast.metrics._report import report_of, retrieval_report
from metricfast.metrics._score import RetrievalReport
from metricfast.metrics._wanted import chosen_metrics

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "map_at_r",
    "mean_average_precision",
    "mean_label_distance_at_k",
    "mean_reciprocal_rank",
    "ndcg_at_k",
    "precision_at_1",
    "r_precision",
    "recall_at_k",
    "retrieval_scorer",
    "spearman",
]

_LESS_IS_BETTER = {"mean_label_distance_at_k"}


class _Search(TypedDict, total=False):
    """Keywords of `retrieval_report` that every metric takes."""

    L: ArrayLike | None
    U: ArrayLike | None
    V: ArrayLike | None
    exclude: ArrayLike | None
    label_distance: Any
    n_jobs: int | None
    verbose: bool


class _SearchToK(_Search, total=False):
    k: int


def precision_at_1(
    queries: ArrayLike,
    labels: ArrayLike,
    database: ArrayLike | None = None,
    database_labels: ArrayLike | None = None,
    **search: Unpack[_Search],
) -> float:
    """The share of queries whose nearest reference is of their class.

    Parameters
    ----------
    queries, database : array-like of shape (n, d) and (m, d)
    labels, database_labels : array-like of shape (n,)
    **search
        Further keywords of :func:`retrieval_report`, which see for all parameters, errors, chance
        and intervals.

    Returns
    -------
    float
        The mean over the queries that have a value.

    Examples
    --------
    >>> from metricfast.metrics import precision_at_1
    >>> precision_at_1([[0.0], [1.0], [3.0], [7.0]], [0, 0, 1, 1])
    0.75
    """
    return _mean("precision_at_1", queries, labels, database, database_labels, **search)


def r_precision(
    queries: ArrayLike,
    labels: ArrayLike,
    database: ArrayLike | None = None,
    database_labels: ArrayLike | None = None,
    **search: Unpack[_Search],
) -> float:
    """The share of hits in the first R, the number of references of the query's class.

    Parameters
    ----------
    queries, database : array-like of shape (n, d) and (m, d)
    labels, database_labels : array-like of shape (n,)
    **search
        Further keywords of :func:`retrieval_report`, which see for all parameters, errors, chance
        and intervals.

    Returns
    -------
    float
        The mean over the queries that have a value.

    Examples
    --------
    >>> from metricfast.metrics import r_precision
    >>> r_precision([[0.0], [1.0], [3.0], [7.0]], [0, 0, 1, 1])
    0.75
    """
    return _mean("r_precision", queries, labels, database, database_labels, **search)


def map_at_r(
    queries: ArrayLike,
    labels: ArrayLike,
    database: ArrayLike | None = None,
    database_labels: ArrayLike | None = None,
    **search: Unpack[_Search],
) -> float:
    """The precisions at the hits in the first R references, summed and divided by R.

    Parameters
    ----------
    queries, database : array-like of shape (n, d) and (m, d)
    labels, database_labels : array-like of shape (n,)
    **search
        Further keywords of :func:`retrieval_report`, which see for all parameters, errors, chance
        and intervals.

    Returns
    -------
    float
        The mean over the queries that have a value.

    Examples
    --------
    >>> from metricfast.metrics import map_at_r
    >>> map_at_r([[0.0], [1.0], [3.0], [7.0]], [0, 0, 1, 1])
    0.75
    """
    return _mean("map_at_r", queries, labels, database, database_labels, **search)


def mean_average_precision(
    queries: ArrayLike,
    labels: ArrayLike,
    database: ArrayLike | None = None,
    database_labels: ArrayLike | None = None,
    **search: Unpack[_Search],
) -> float:
    """The mean precision at the references of the query's class, in the whole order.

    Parameters
    ----------
    queries, database : array-like of shape (n, d) and (m, d)
    labels, database_labels : array-like of shape (n,)
    **search
        Further keywords of :func:`retrieval_report`, which see for all parameters, errors, chance
        and intervals.

    Returns
    -------
    float
        The mean over the queries that have a value.

    Examples
    --------
    >>> from metricfast.metrics import mean_average_precision
    >>> mean_average_precision([[0.0], [1.0], [3.0], [7.0]], [0, 0, 1, 1])
    0.8333333333333334
    """
    return _mean("mean_average_precision", queries, labels, database, database_labels, **search)


def mean_reciprocal_rank(
    queries: ArrayLike,
    labels: ArrayLike,
    database: ArrayLike | None = None,
    database_labels: ArrayLike | None = None,
    **search: Unpack[_Search],
) -> float:
    """One over the place of the first reference of the query's class.

    Parameters
    ----------
    queries, database : array-like of shape (n, d) and (m, d)
    labels, database_labels : array-like of shape (n,)
    **search
        Further keywords of :func:`retrieval_report`, which see for all parameters, errors, chance
        and intervals.

    Returns
    -------
    float
        The mean over the queries that have a value.

    Examples
    --------
    >>> from metricfast.metrics import mean_reciprocal_rank
    >>> mean_reciprocal_rank([[0.0], [1.0], [3.0], [7.0]], [0, 0, 1, 1])
    0.8333333333333334
    """
    return _mean("mean_reciprocal_rank", queries, labels, database, database_labels, **search)


def recall_at_k(
    queries: ArrayLike,
    labels: ArrayLike,
    database: ArrayLike | None = None,
    database_labels: ArrayLike | None = None,
    *,
    k: int = 10,
    **search: Unpack[_Search],
) -> float:
    """The share of queries with a reference of their class among the first k.

    Parameters
    ----------
    queries, database : array-like of shape (n, d) and (m, d)
    labels, database_labels : array-like of shape (n,)
    k : int, default=10
    **search
        Further keywords of :func:`retrieval_report`, which see for all parameters, errors, chance
        and intervals.

    Returns
    -------
    float
        The mean over the queries that have a value.

    Examples
    --------
    >>> from metricfast.metrics import recall_at_k
    >>> recall_at_k([[0.0], [1.0], [3.0], [7.0]], [0, 0, 1, 1], k=1)
    0.75
    """
    return _mean("recall_at_k", queries, labels, database, database_labels, k=k, **search)


def ndcg_at_k(
    queries: ArrayLike,
    labels: ArrayLike,
    database: ArrayLike | None = None,
    database_labels: ArrayLike | None = None,
    *,
    k: int = 10,
    **search: Unpack[_Search],
) -> float:
    """Normalised discounted cumulative gain, with gain ``1 / (1 + label distance)``.

    Parameters
    ----------
    queries, database : array-like of shape (n, d) and (m, d)
    labels, database_labels : array-like of shape (n,) or (n, q), and with m
    k : int, default=10
    **search
        Further keywords of :func:`retrieval_report`, which see for all parameters, errors, chance
        and intervals.

    Returns
    -------
    float
        The mean over the queries that have a value.

    Examples
    --------
    >>> from metricfast.metrics import ndcg_at_k
    >>> ndcg_at_k([[0.0], [1.0], [3.0], [7.0]], [0.0, 1.0, 2.0, 4.0], k=1)
    1.0
    """
    return _mean("ndcg_at_k", queries, labels, database, database_labels, k=k, **search)


def mean_label_distance_at_k(
    queries: ArrayLike,
    labels: ArrayLike,
    database: ArrayLike | None = None,
    database_labels: ArrayLike | None = None,
    *,
    k: int = 10,
    **search: Unpack[_Search],
) -> float:
    """The mean label distance of the first k references; less is better.

    Parameters
    ----------
    queries, database : array-like of shape (n, d) and (m, d)
    labels, database_labels : array-like of shape (n,) or (n, q), and with m
    k : int, default=10
    **search
        Further keywords of :func:`retrieval_report`, which see for all parameters, errors, chance
        and intervals.

    Returns
    -------
    float
        The mean over the queries that have a value.

    Examples
    --------
    >>> from metricfast.metrics import mean_label_distance_at_k
    >>> mean_label_distance_at_k([[0.0], [1.0], [3.0], [7.0]], [0.0, 1.0, 2.0, 4.0], k=1)
    1.25
    """
    return _mean(
        "mean_label_distance_at_k", queries, labels, database, database_labels, k=k, **search
    )


def spearman(
    queries: ArrayLike,
    labels: ArrayLike,
    database: ArrayLike | None = None,
    database_labels: ArrayLike | None = None,
    **search: Unpack[_Search],
) -> float:
    """The rank correlation of distances and label distances over all references.

    Parameters
    ----------
    queries, database : array-like of shape (n, d) and (m, d)
    labels, database_labels : array-like of shape (n,) or (n, q), and with m
    **search
        Further keywords of :func:`retrieval_report`, which see for all parameters, errors, chance
        and intervals.

    Returns
    -------
    float
        The mean over the queries that have a value.

    Examples
    --------
    >>> from metricfast.metrics import spearman
    >>> spearman([[0.0], [1.0], [3.0], [7.0]], [0.0, 1.0, 2.0, 4.0])
    0.93...
    """
    return _mean("spearman", queries, labels, database, database_labels, **search)


def _mean(name: str, *arrays: Any, **search: Any) -> float:
    return _only(retrieval_report(*arrays, metrics=name, baselines=False, **search))


def _only(report: RetrievalReport) -> float:
    if len(report) != 1:
        raise ValueError(
            "k must be one integer for a single metric; retrieval_report takes several."
        )
    return next(iter(report.values())).mean


def retrieval_scorer(metric: str, **search: Unpack[_SearchToK]) -> Any:
    """A scorer for scikit-learn's model selection: the points of a split searched among themselves.

    Parameters
    ----------
    metric : str
        As for :func:`retrieval_report`. The sign of a metric where less is better is changed.
    **search
        Further keywords of :func:`retrieval_report`, such as `k`.

    Returns
    -------
    callable
        From a fitted transformer, X and y to a float; it can be pickled.

    Raises
    ------
    ValueError
        If the metric is unknown.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from metricfast import LFDA
    >>> from metricfast.metrics import retrieval_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> grid = {"n_components": [1, 2]}
    >>> search = GridSearchCV(LFDA(), grid, scoring=retrieval_scorer("map_at_r"))
    >>> sorted(search.fit(X, y).best_params_)
    ['n_components']
    """
    (name,) = chosen_metrics([metric], [])
    return partial(_scored, name=name, search=search)


def _scored(
    estimator: BaseEstimator, X: ArrayLike, y: ArrayLike, *, name: str, search: _SearchToK
) -> float:
    score = _only(report_of(estimator, X, y, metrics=name, baselines=False, **search))
    return -score if name in _LESS_IS_BETTER else score
