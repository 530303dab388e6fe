"""Cross-validation over labels: what a learner is judged on, it has not seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.cluster import KMeans
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.multiclass import type_of_target

from metricfast.metrics._continuous import CONTINUOUS_METRICS
from metricfast.metrics._report import chosen_metrics, report_of, retrieval_report
from metricfast.metrics._score import RetrievalReport, Score

__all__ = ["CrossValidation", "cross_validate_retrieval", "label_disjoint_folds"]

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]


class CrossValidation(RetrievalReport):
    """Scores whose values are those of the folds.

    Attributes
    ----------
    untrained : RetrievalReport
        The same folds with the points as they came; empty where X is sparse.
    """

    untrained: RetrievalReport


def label_disjoint_folds(
    y: ArrayLike,
    n_splits: int = 5,
    *,
    continuous: bool | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> list[Fold]:
    """Split points so that a test fold has labels which its training points do not have.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, q)
        Classes, which are divided among the folds, or continuous labels: numbers, whose order is
        cut into blocks of about the same size, or vectors, which k-means divides after every
        column has been scaled to unit variance. Equal labels are in one fold.
    n_splits : int, default=5
    continuous : bool, optional
        Whether labels are continuous; by default, vectors and numbers that are not all integers:
        say True where numbers to predict happen to be whole.
    random_state : int, RandomState or None, default=None
        Of the choice of classes, which None bases on their sizes alone, and of k-means.

    Returns
    -------
    list of (train, test)
        Indices.

    Raises
    ------
    ValueError
        If there are fewer different labels than folds.

    Examples
    --------
    >>> from metricfast.metrics import label_disjoint_folds
    >>> train, test = label_disjoint_folds([0.1, 0.9, 0.3, 0.7], 2)[0]
    >>> test
    array([0, 2])
    """
    labels = np.asarray(y)
    if continuous is None:
        continuous = labels.ndim > 1 or type_of_target(labels).startswith("continuous")
    n_labels = len(np.unique(labels, axis=0))
    if not 2 <= n_splits <= n_labels:
        raise ValueError(
            f"n_splits must be from 2 to {n_labels}, the number of different labels; "
            f"found {n_splits}."
        )
    if not continuous:
        shuffled = GroupKFold(n_splits, shuffle=random_state is not None, random_state=random_state)
        return list(shuffled.split(labels, groups=labels))
    blocks = _blocks(labels.reshape(len(labels), -1).astype(np.float64), n_splits, random_state)
    return [(np.flatnonzero(blocks != i), np.flatnonzero(blocks == i)) for i in range(n_splits)]


def _blocks(labels: NDArray[np.float64], n_blocks: int, random_state: Any) -> NDArray[np.int64]:
    """The block of each label."""
    if labels.shape[1] > 1:
        scale = labels.std(axis=0)
        means = KMeans(n_blocks, n_init=10, random_state=check_random_state(random_state))
        found: NDArray[np.int64] = means.fit_predict(labels / np.where(scale == 0, 1, scale))
        return found
    _, codes, counts = np.unique(labels[:, 0], return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2
    blocks = (middle * n_blocks / len(labels)).astype(np.int64)
    # Where one label fills a block and more, the others still get one each.
    for i in range(1, len(blocks)):
        blocks[i] = min(blocks[i], blocks[i - 1] + 1)
    blocks -= blocks[0]
    for i in range(len(blocks)):
        blocks[i] = max(blocks[i], n_blocks - len(blocks) + i)
    return blocks[codes]


def cross_validate_retrieval(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    folds: int | Iterable[Fold] = 5,
    metrics: str | Sequence[str] | None = None,
    k: int = 10,
    continuous: bool | None = None,
    random_state: int | np.random.RandomState | None = None,
    confidence: float = 0.95,
    **search: Any,
) -> CrossValidation:
    """Fit a learner to all folds but one, and search the points of that one among themselves.

    Parameters
    ----------
    estimator : transformer
        Cloned for every fold; it must have `fit` and `transform`, as all learners and pipelines of
        transformers do.
    X : {array-like, sparse matrix} of shape (n, d)
    y : array-like of shape (n,) or (n, q)
        Classes or continuous labels.
    folds : int or iterable of (train, test), default=5
        A number stands for :func:`label_disjoint_folds`, so that no test label has been trained on.
    metrics, k
        As for :func:`retrieval_report`; `k` must be smaller than each test fold.
    continuous : bool, optional
        Whether labels are continuous, which decides on the folds as in
        :func:`label_disjoint_folds`, and on the metrics where none are given. By default all that
        the estimator takes for numbers (it is a regressor, or its loss is of continuous labels),
        vectors, numbers that are not all integers, and all numbers where every metric given is one
        of continuous labels.
    random_state : int, RandomState or None, default=None
        Of the folds.
    confidence : float, default=0.95
        Of the intervals, over the folds.
    **search
        Further keywords of :func:`retrieval_report`.

    Returns
    -------
    CrossValidation
        A dictionary of :class:`Score` by metric, with a value for each fold. Its attribute
        `untrained` holds the same of the points as they came, the metric to beat.

    Raises
    ------
    ValueError
        If the folds or the metrics do not fit the labels.

    References
    ----------
    Musgrave, Belongie, Lim. A metric learning reality check. ECCV 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from metricfast import LFDA
    >>> from metricfast.metrics import cross_validate_retrieval
    >>> X, y = load_digits(return_X_y=True)
    >>> found = cross_validate_retrieval(LFDA(n_components=8), X[:500], y[:500], metrics="map_at_r")
    >>> len(found["map_at_r"].values), sorted(found) == sorted(found.untrained)
    (5, True)
    """
    labels = np.asarray(y)
    if continuous is None and _takes_numbers(estimator):
        continuous = True
    names = chosen_metrics(metrics, labels, continuous)
    if continuous is None and labels.dtype.kind in "iuf" and set(names) <= set(CONTINUOUS_METRICS):
        continuous = True
    options = {"metrics": names, "k": k, "confidence": confidence, **search}
    if isinstance(folds, (int, np.integer)):
        folds = label_disjoint_folds(
            labels, int(folds), continuous=continuous, random_state=random_state
        )
    trained, untrained = [], []
    for train, test in folds:
        fitted = clone(estimator).fit(_safe_indexing(X, train), labels[train])
        held_out = _safe_indexing(X, test)
        trained.append(report_of(fitted, held_out, labels[test], **options))
        if not issparse(X):
            untrained.append(retrieval_report(held_out, labels[test], **options))
    if not trained:
        raise ValueError("folds must hold at least one (train, test).")
    result = CrossValidation(_over_folds(trained, names, confidence))
    result.untrained = RetrievalReport(_over_folds(untrained, names, confidence))
    return result


def _takes_numbers(estimator: Any) -> bool:
    """Tell whether the labels of an estimator, or of the one that it wraps, are numbers."""
    inside = estimator
    while inside is not None:
        estimator = inside
        if isinstance(estimator, Pipeline):
            inside = estimator.steps[-1][1]
        else:
            inside = getattr(estimator, "estimator", getattr(estimator, "learner", None))
    return not getattr(estimator, "_has_classes", not isinstance(estimator, RegressorMixin))


def _over_folds(
    reports: list[RetrievalReport], names: list[str], confidence: float
) -> dict[str, Score]:
    def mean(name: str, part: str) -> NDArray[np.float64]:
        return np.array([getattr(report[name], part) for report in reports])

    if not reports:
        return {}
    return {
        name: Score(
            mean(name, "mean"),
            float(mean(name, "chance").mean()),
            float(mean(name, "oracle").mean()),
            confidence,
        )
        for name in names
    }
