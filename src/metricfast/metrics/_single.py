"""Each retrieval metric as a function of points and labels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from metricfast._core.arguments import called_like
from metricfast.distances.neighbors import SearchMetric
from metricfast.metrics._continuous import CONTINUOUS_METRICS
from metricfast.metrics._report import report_of, retrieval_report
from metricfast.metrics._score import RetrievalReport
from metricfast.metrics._selection import METRICS, chosen_metrics

_P = ParamSpec("_P")
_LESS_IS_BETTER = {"mean_label_distance_at_k"}
_DOC = """{summary}

    Parameters
    ----------
    queries, database : array-like of shape (n, d) and (m, d)
    labels, database_labels : array-like of shape {shape}
    k : int, default=10
        Number of neighbours, for metrics "at k".
    metric, L, U, V, exclude, where, groups, label_distance, confidence, n_jobs, verbose
        As for :func:`retrieval_report`, which documents all parameters and errors.

    Returns
    -------
    float
        The mean over the queries that have a value.

    Examples
    --------
    >>> from metricfast.metrics import {name}
    >>> {name}([[0.0], [1.0], [3.0], [7.0]], {labels})
    {value}
    """


def _search(
    queries: ArrayLike,
    labels: ArrayLike,
    database: ArrayLike | None = None,
    database_labels: ArrayLike | None = None,
    *,
    k: int = 10,
    metric: SearchMetric = "euclidean",
    L: ArrayLike | None = None,
    U: ArrayLike | None = None,
    V: ArrayLike | None = None,
    exclude: ArrayLike | None = None,
    where: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    groups: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    label_distance: Any = None,
    confidence: float = 0.95,
    n_jobs: int | None = None,
    verbose: bool | int = False,
) -> float:
    """The signature of all metrics."""
    raise NotImplementedError


def _metric(like: Callable[_P, float], name: str) -> Callable[_P, float]:
    def metric(*args: Any, **search: Any) -> float:
        return _only(retrieval_report(*args, metrics=name, baselines=False, **search))

    about, continuous = METRICS[name], name in CONTINUOUS_METRICS
    metric.__name__ = metric.__qualname__ = name
    metric.__doc__ = _DOC.format(
        name=name,
        summary=about.summary,
        value=about.example,
        shape="(n,) or (n, q), and with m" if continuous else "(n,) and (m,)",
        labels=("[0.0, 1.0, 2.0, 4.0]" if continuous else "[0, 0, 1, 1]")
        + (", k=1" if name.endswith("_at_k") else ""),
    )
    return called_like(like)(metric)


precision_at_1 = _metric(_search, "precision_at_1")
r_precision = _metric(_search, "r_precision")
map_at_r = _metric(_search, "map_at_r")
mean_average_precision = _metric(_search, "mean_average_precision")
mean_reciprocal_rank = _metric(_search, "mean_reciprocal_rank")
recall_at_k = _metric(_search, "recall_at_k")
cmc_at_k = _metric(_search, "cmc_at_k")
ndcg_at_k = _metric(_search, "ndcg_at_k")
mean_label_distance_at_k = _metric(_search, "mean_label_distance_at_k")
spearman = _metric(_search, "spearman")


def _only(report: RetrievalReport) -> float:
    if len(report) != 1:
        raise ValueError(
            "k must be one integer for a single metric; retrieval_report takes several."
        )
    return next(iter(report.values())).mean


def retrieval_scorer(metric: str, **search: Any) -> Any:
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
    estimator: BaseEstimator, X: ArrayLike, y: ArrayLike, *, name: str, search: dict[str, Any]
) -> float:
    score = _only(report_of(estimator, X, y, metrics=name, baselines=False, **search))
    return -score if name in _LESS_IS_BETTER else score
