"""Cross-validation of retrieval: a learner is scored on labels that it has not seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, has_fit_parameter

from metricfast._core.arguments import check_choice, check_count, check_random_state
from metricfast._core.frames import as_readable
from metricfast._core.scatter import svd
from metricfast._core.sparse import check_structure
from metricfast._core.stores import as_source
from metricfast._core.targets import by_appearance, encode, labels_of_samples
from metricfast._core.types import Floats, Integers, RandomState
from metricfast._core.warn import warn_user
from metricfast._labels.binding import bind_labels, label_sequence
from metricfast._labels.distance import label_array, subset
from metricfast._labels.named import KERNELS
from metricfast._labels.tags import are_tags
from metricfast.metrics._classes import CLASS_METRICS
from metricfast.metrics._continuous import CONTINUOUS_METRICS
from metricfast.metrics._report import report_of, retrieval_report
from metricfast.metrics._score import RetrievalReport, Score
from metricfast.metrics._selection import (
    are_continuous,
    chosen_metrics,
    label_distance_of,
    nested,
    takes_numbers,
)
from metricfast.selection._splits import Fold, check_folds, deal_groups

# Number of landmark labels; every label is described by its distances to them.
_LANDMARKS = 64


class CrossValidation(RetrievalReport):
    """Scores with one value for each fold.

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
    random_state: int | RandomState | None = None,
    label_distance: Any = None,
) -> list[Fold]:
    """Split points so that a test fold has labels which its training points do not have.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, q), or sequence of n objects
        Classes or continuous labels. Classes are divided among the folds. Sorted numbers are cut
        into blocks of about the same size. K-means divides vectors, with columns of unit variance.
        Labels of another `label_distance` are cut in the order of the principal component of their
        distances to some of them. Equal labels are in one fold.
    n_splits : int, default=5
    continuous : bool, optional
        Whether labels are continuous. By default, vectors and numbers that are not all integers
        are. Set it to True if numbers to predict are whole.
    random_state : int, RandomState or None, default=None
        Random numbers for the folds of classes, for k-means, and for the labels that others are
        compared with. With None, the sizes of the classes decide the folds.
    label_distance : str, tuple or callable, optional
        Distance of continuous labels, as in :class:`metricfast.losses.LogRatio`.

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
    how = continuous, random_state, label_distance
    return _disjoint(y, n_splits, "n_splits", *how)


def _refuse_tags(y: Any, label_distance: Any) -> None:
    if label_distance is None and are_tags(y):
        raise ValueError(
            "y holds tags, which points of two folds may share: split points as you see fit, and "
            "judge each part by retrieval_report, which takes tags."
        )


def _disjoint(
    y: Any, n: int, name: str, continuous: bool | None, random_state: Any, label_distance: Any
) -> list[Fold]:
    """Return `n` folds; error messages call the parameter `name`."""
    _refuse_tags(y, label_distance)
    if label_distance is not None:
        continuous = True
        if isinstance(label_distance, str) and label_distance in KERNELS:
            _, y, _ = bind_labels(label_distance, y)
        else:
            y = label_sequence(label_distance, y, "y")
            y = _main_order(y, label_distance, check_random_state(random_state))
    labels = label_array(y, "y")
    check_choice("continuous", continuous, (None, True, False))
    if continuous is None:
        continuous = are_continuous(labels, "y")
    if (labels.ndim > 1 or continuous) and labels.dtype.kind not in "biuf":
        raise ValueError(
            f"y must hold one class per point, or numbers; found shape {labels.shape}."
        )
    n_labels = len(encode(labels, "y")[0] if labels.ndim == 1 else np.unique(labels, axis=0))
    n_splits = check_count(name, n)
    if not 2 <= n_splits <= n_labels:
        raise ValueError(
            f"{name} must be from 2 to {n_labels}, the number of different labels; "
            f"found {n_splits}."
        )
    if continuous:
        blocks = _blocks(labels.reshape(len(labels), -1).astype(np.float64), n_splits, random_state)
        tests = [np.flatnonzero(blocks == i) for i in range(n_splits)]
    else:
        rng = None if random_state is None else check_random_state(random_state)
        tests = deal_groups(by_appearance(labels), n_splits, rng)
    return [(np.setdiff1d(np.arange(len(labels)), test), test) for test in tests]


def _main_order(y: Any, label_distance: Any, rng: np.random.RandomState) -> Floats:
    """Return a number for each label; labels at distance 0 get equal numbers."""
    distance, labels, _ = bind_labels(label_distance, y)
    some = rng.permutation(len(labels))[:_LANDMARKS]
    away = distance(labels, labels[some])
    # Equal labels have equal rows, up to rounding.
    rows, own = np.unique(np.round(away / max(away.max(), 1e-300), 12), axis=0, return_inverse=True)
    centred = rows - rows.mean(axis=0)
    order: Floats = centred @ svd(centred.T @ centred)[0][:, 0]
    return order[own.ravel()]


def _blocks(labels: Floats, n_blocks: int, random_state: Any) -> Integers:
    """Return the block of each label."""
    if labels.shape[1] > 1:
        scale = labels.std(axis=0)
        means = KMeans(n_blocks, n_init=10, random_state=check_random_state(random_state))
        found: Integers = means.fit_predict(labels / np.where(scale == 0, 1, scale))
        return found
    _, codes, counts = np.unique(labels[:, 0], return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2
    blocks = (middle * n_blocks / len(labels)).astype(np.int64)
    # If one label fills more than a block, the remaining labels still get one block each.
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
    views: ArrayLike | None = None,
    folds: int | Iterable[Fold] = 5,
    metrics: str | Sequence[str] | None = None,
    k: int | Sequence[int] = 10,
    continuous: bool | None = None,
    random_state: int | RandomState | None = None,
    confidence: float = 0.95,
    **search: Any,
) -> CrossValidation:
    """Fit a learner to all folds but one, and search the points of this fold among themselves.

    Parameters
    ----------
    estimator : transformer
        Cloned for every fold; it must have `fit` and `transform`, as all learners and pipelines of
        transformers do.
    X : {array-like, sparse matrix} or source of shape (n, d)
        Points. If they are not in memory, the estimator gets a source.
    y : array-like of shape (n,) or (n, q), or sequence of n objects
        Classes or continuous labels, or the distances of these, of shape (n, n), where the label
        distance is "precomputed".
    views : array-like of shape (n,), optional
        The view of each point, such as the camera. Points of a test fold search only points of
        other views. An estimator whose `fit` takes views gets the views of its training points.
    folds : int or iterable of (train, test), default=5
        A number stands for :func:`label_disjoint_folds`, so that no test label has been trained on.
    metrics, k
        As for :func:`retrieval_report`; `k` must be smaller than each test fold.
    continuous : bool, optional
        Whether labels are continuous. This decides the folds, as in :func:`label_disjoint_folds`,
        and the default metrics. By default labels are continuous if the estimator is a regressor
        or has a loss of continuous labels, if they are vectors or not all integers, or if all
        `metrics` are metrics of continuous labels.
    random_state : int, RandomState or None, default=None
        Random numbers for the folds.
    confidence : float, default=0.95
        Confidence level of the intervals, over the folds.
    **search
        Further keywords of :func:`retrieval_report`. By default the `label_distance` of the
        estimator is used. A different one raises an error.

    Returns
    -------
    CrossValidation
        A dictionary of :class:`Score` by metric, with a value for each fold. Its attribute
        `untrained` holds the same for the given points: the Euclidean baseline.

    Raises
    ------
    ValueError
        If the folds or the metrics do not fit the labels, or `where` is given in addition to
        `views`; if `estimator` is a pipeline with a learner of views, unless scikit-learn routes
        metadata, and the learner requests `views`.

    Warns
    -----
    UserWarning
        If a test fold holds one class alone: every order of its points is right.

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
    if not hasattr(estimator, "fit"):
        raise TypeError(f"estimator must have `fit` and `transform`, got {estimator!r}.")
    if views is not None and search.get("where") is not None:
        raise ValueError("views and where cannot both be given: views decide who may be found.")
    said = label_distance_of(estimator, search.get("label_distance"))
    _refuse_tags(y, said)
    labels = label_sequence(said, y, "y")
    if continuous is None and (said is not None or takes_numbers(estimator)):
        continuous = True
    names = chosen_metrics(metrics, labels, continuous)
    if continuous is None and labels.dtype.kind in "iuf" and set(names) <= set(CONTINUOUS_METRICS):
        continuous = True
    search["label_distance"] = said
    options = {"metrics": names, "k": k, "confidence": confidence, **search}
    if not np.iterable(folds) or isinstance(folds, (str, bytes)):
        check_count("folds", folds, least=2)
        folds = _disjoint(labels, folds, "folds", continuous, random_state, said)
    X = _table(X, len(labels))
    if views is not None:
        views = encode(labels_of_samples(views, len(labels), "views"), "views")[1]
    trained, untrained = [], []
    for train, test in check_folds("folds", folds, len(labels)):
        seen = None if views is None else views[train]
        fitted = _fitted(estimator, _safe_indexing(X, train), subset(labels, train), seen)
        options["where"] = search.get("where") if views is None else (views[test], views[test])
        held_out = _safe_indexing(X, test)
        if set(names) & set(CLASS_METRICS) and len(np.unique(subset(labels, test))) == 1:
            warn_user(
                "a test fold holds one class alone, so that every order of its points is right: "
                "use fewer folds, with at least two classes each."
            )
        trained.append(report_of(fitted, held_out, subset(labels, test), **options))
        if not issparse(X):
            untrained.append(retrieval_report(held_out, subset(labels, test), **options))
    result = CrossValidation(_over_folds(trained, confidence))
    result.untrained = RetrievalReport(_over_folds(untrained, confidence))
    return result


def _fitted(estimator: Any, X: Any, y: Any, views: Integers | None) -> Any:
    """Fit a clone to the training points of a fold, with their views if it takes any."""
    learner = nested(estimator, "estimator", "learner")[-1]
    takes = views is not None and hasattr(learner, "fit") and has_fit_parameter(learner, "views")
    try:
        return clone(estimator).fit(X, y, **({"views": views} if takes else {}))
    except ValueError as error:
        if y.ndim != 1 or len(np.unique(y)) > 1:
            raise
        raise ValueError(
            "folds leave a single class to train on: give more folds, or points of at least 4 "
            f"classes. {type(estimator).__name__} says: {error}"
        ) from error


def _table(X: Any, n: int) -> Any:
    """Return a table of points that supports selection of rows."""
    X = as_readable(X, "X")
    check_structure(X)
    X = X.tocsr() if hasattr(X, "tocsr") else X
    source = as_source(X)
    if source is not None and not isinstance(X, np.memmap):
        X = source
    try:
        found = _num_samples(X)
    except TypeError as error:
        raise TypeError(f"X must be a table of points: {error}") from error
    if found != n:
        raise ValueError(f"X and y must be as long as each other; found {found} and {n}.")
    dtypes: Any = getattr(X, "dtypes", None)
    if not hasattr(dtypes, "items"):
        return X
    # pandas cannot select rows of columns with non-native byte order.
    other = {name: each for name, each in dtypes.items() if not getattr(each, "isnative", True)}
    return X.astype({name: each.newbyteorder("=") for name, each in other.items()})


def _over_folds(reports: list[RetrievalReport], confidence: float) -> dict[str, Score]:
    def mean(name: str, part: str) -> Floats:
        return np.array([getattr(report[name], part) for report in reports])

    if not reports:
        return {}
    return {
        name: Score(
            mean(name, "mean"),
            float(mean(name, "chance").mean()),
            float(mean(name, "oracle").mean()),
            confidence,
            score.bounds,
        )
        for name, score in reports[0].items()
    }
