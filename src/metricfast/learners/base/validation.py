"""Compare a learned distance with the Euclidean distance on held-out data."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypedDict

import numpy as np
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils.multiclass import type_of_target

from metricfast._core.checks import check_points
from metricfast._core.pair_draws import draw_different_pairs
from metricfast._core.points import dense
from metricfast._core.targets import as_label_array, encode
from metricfast._core.types import Array, Integers
from metricfast._core.warn import warn_user
from metricfast._labels.binding import label_sequence
from metricfast._labels.distance import subset
from metricfast.distances.neighbors import paired_distances
from metricfast.learners.base.span import SpanMap
from metricfast.selection._measures import mean_error, neighbor_error
from metricfast.selection._splits import class_halves, split_points

__all__ = ["Validation", "naming_held_out", "validate_fit"]

_HELD_OUT = 0.2
_NEIGHBORS = 3
# Minimum number of chunks to divide, and maximum number of pairs of either kind to score.
_LEAST_CHUNKS, _MOST_PAIRS = 3, 100_000
# Arguments of `fit` with one value per point or tuple.
_OF_SAMPLES = ("sample_weight", "weights", "groups", "views")
# Queries per block of similarities to all points.
_BLOCK_SIZE = 256


class Validation(TypedDict):
    """Result of ``fit(..., validate=True)``.

    Attributes
    ----------
    measure : str
        Name of the next two values. Errors are better when lower, scores when higher.
    learned : float
        Its value for a clone of the learner, fitted to the other data.
    euclidean : float
        Its value for the Euclidean distance; where a similarity is learned, for the inner product.
    n_held_out : int
        Number of points or tuples that it was measured on.
    """

    measure: str
    learned: float
    euclidean: float
    n_held_out: int


def validate_fit(learner: Any, X: Any, y: Any = None, **params: Any) -> Validation:
    """Compare a learner with the Euclidean distance on held-out data, and warn if it is worse.

    A bilinear similarity is compared with the inner product. A meta-estimator (with `learner_`) is
    compared as a whole with the Euclidean distance of the given points.

    `learner`: a fitted learner, whose clone is fitted to the rest of the data. The measure of
        learners on points is the error of 3 nearest neighbours (mean squared error for a continuous
        target). Learners of embeddings and of tuples have their own score. For learners on chunks,
        whole chunks are held out. The measure is the area under the ROC curve of pairs within and
        across chunks. If classes have few points (:func:`class_halves`), half of the classes are
        held out, and the error is that of the nearest neighbour among all other points. With
        `views`, neighbours are points of other views. With `groups`, whole groups are held out.
    `X`, `y`, `**params`: the arguments of `fit`.
    Raises ValueError if the data are too few for training or for validation.
    """
    kind = _innermost(learner)
    params = {name: value for name, value in params.items() if value is not None}
    weights = {n: np.asarray(params.pop(n)) for n in _OF_SAMPLES if n in params}
    on_points = kind._tuple_size is None
    what = "points" if on_points else "tuples"
    if on_points:
        if y is None:
            raise ValueError("validate=True needs labels: pass y.")
        X = check_points(
            learner, X, preprocessor=learner.preprocessor_, reset=False, accept_sparse="csr"
        )
    else:
        X = np.asarray(X)
    retrieves = hasattr(kind, "_retrieval_score")
    if retrieves and not kind._has_classes:
        y = label_sequence(kind._said_label_distance, y, "y")
    else:
        y = None if y is None else as_label_array(y, "y")
        if y is not None:
            encode(y, "y")
            if not y.ndim:
                raise ValueError(f"y must hold {X.shape[0]} labels, one per {what[:-1]}, got {y}.")
            y = y.ravel() if y.shape[1:] == (1,) else y
    if y is not None and len(y) != X.shape[0]:
        raise ValueError(f"y must hold {X.shape[0]} labels, one per {what[:-1]}, got {len(y)}.")
    if kind._on_chunks:
        y = y.astype(np.int64)
    if y is not None and kind._partial_labels and y.dtype.kind in "if":
        known = y >= 0
        X, y = X[known], y[known]
        weights = {name: values[known] for name, values in weights.items()}
    numeric = y is not None and (not kind._has_classes or type_of_target(y) == "continuous")
    if numeric and on_points and not retrieves:
        y = y.astype(np.float64)
        with np.errstate(over="ignore"):
            if not np.isfinite(4 * np.abs(y).max(initial=0) ** 2):
                raise ValueError(
                    "validate=True squares differences of y, and y is so large that these "
                    "overflow: multiply it by a small number."
                )
    if X.shape[0] < 2:
        raise ValueError(f"validate=True needs at least 2 {what}; found {X.shape[0]}.")
    halves = []
    no_halves = numeric or kind._on_chunks or "X_database" in params or "groups" in weights
    if on_points and y is not None and not no_halves:
        halves = class_halves(encode(y, "y")[1])
    if "groups" in weights:
        of_one, groups = np.zeros(len(y), np.int64), encode(weights["groups"], "groups")[1]
        part = split_points(X, of_one, groups=groups, n_splits=round(1 / _HELD_OUT))[0]
        train, test = part.train, part.queries
    elif kind._on_chunks:
        train, test = _split_chunks(y)
    elif halves:
        train, test = halves[0]
    else:
        train, test = _split(X.shape[0], None if numeric else y)
    trained = clone(learner)
    if hasattr(trained, "set_callbacks"):
        trained.set_callbacks()
    unset = ("callbacks", *(("preprocessor",) if on_points else ()))
    known = trained.get_params(deep=False)
    trained.set_params(**{name: None for name in unset if name in known})
    params |= {name: values[train] for name, values in weights.items()}
    labels = () if y is None else (subset(y, train),)
    try:
        trained.fit(X[train], *labels, **params)
    except ValueError as error:
        raise ValueError(
            f"validate=True holds {len(test)} of {X.shape[0]} {what} out, and the rest cannot be "
            f"fitted: {error}"
        ) from error
    euclidean = _euclidean(trained)
    bilinear = hasattr(euclidean, "bilinear_")
    if kind._on_chunks:
        measure, sign = "area under the ROC curve of pairs", -1
        embedded = (each.transform(X[test]) for each in (trained, euclidean))
        values = [_chunk_score(Z, y[test]) for Z in embedded]
    elif retrieves:
        measure, sign = "negative label distance of the nearest", -1
        if kind._has_classes:
            measure = "precision at 1"
        values = _retrieval_scores(trained, X, y, train, test, params, new=bool(halves))
    elif on_points:
        k = 1 if halves else _NEIGHBORS
        measure, sign = f"{k}-NN {'mean squared ' if numeric else ''}error", 1
        among, own = (np.arange(len(y)), test) if halves else (train, None)
        codes, views = y if numeric else encode(y, "y")[1], weights.get("views")
        where = None if views is None else (views[test], views[among])
        values = [
            _error(each, X, codes, numeric, among, test, k, own, where)
            for each in (trained, euclidean)
        ]
    else:
        measure, sign = "score", -1
        if y is not None and len(np.unique(y[test])) < 2:
            raise ValueError(
                f"validate=True holds {len(test)} of {X.shape[0]} pairs out, all of one kind, but "
                "scores need similar and dissimilar pairs: give more of either kind."
            )
        held_out = (X[test],) if y is None else (X[test], y[test])
        values = [each.score(*held_out) for each in (trained, euclidean)]
    if sign * values[0] > sign * values[1]:
        found, other = (
            ("similarity", "inner product") if bilinear else ("distance", "Euclidean one")
        )
        warn_user(
            f"The {found} that {type(learner).__name__} learned is worse than the {other}: "
            f"{measure} {values[0]:.4g} against {values[1]:.4g} on {len(test)} held-out "
            f"{what}. Rescale the features, give it more data or "
            "constraints, choose another initialisation or prior, or use another learner."
        )
    return Validation(
        measure=measure, learned=float(values[0]), euclidean=float(values[1]), n_held_out=len(test)
    )


def _innermost(learner: Any) -> Any:
    while hasattr(learner, "learner_"):
        learner = learner.learner_
    return learner


def _euclidean(trained: Any) -> Any:
    """Return a copy of the innermost learner with the identity as its map."""
    plain = copy.copy(_innermost(trained))
    plain.preprocessor_, plain.n_features_in_ = trained.preprocessor_, trained.n_features_in_
    if hasattr(plain, "bilinear_"):
        plain.bilinear_ = np.eye(trained.n_features_in_)
    else:
        plain.components_ = SpanMap.of_features(np.ones(trained.n_features_in_))
    return plain


def _split(n: int, y: Array | None) -> tuple[Array, Array]:
    """Hold out a fifth, stratified by label if all labels are frequent enough."""
    n_held_out = max(1, round(_HELD_OUT * n))
    chooser: Any = ShuffleSplit
    if y is not None:
        counts = np.unique(y, return_counts=True)[1]
        if counts.min() >= 2 and len(counts) <= n_held_out:
            chooser = StratifiedShuffleSplit
    train, test = next(chooser(1, test_size=n_held_out, random_state=0).split(np.zeros(n), y))
    return train, test


def _split_chunks(chunks: Integers) -> tuple[Array, Array]:
    """Hold out a fifth of the chunks with at least two points."""
    found, counts = np.unique(chunks, return_counts=True)
    able = found[counts > 1]
    if len(able) < _LEAST_CHUNKS:
        raise ValueError(
            "validate=True holds at least two chunks of two or more points out, and fits to the "
            f"others: it needs at least {_LEAST_CHUNKS} of these; found {len(able)}."
        )
    n_held_out = max(2, round(_HELD_OUT * len(able)))
    out = np.isin(chunks, np.random.RandomState(0).permutation(able)[:n_held_out])
    return np.flatnonzero(~out), np.flatnonzero(out)


def _chunk_score(embedded: Array, chunks: Integers) -> float:
    """Return the area under the ROC curve of distances, for pairs within or across chunks."""
    counts = np.unique(chunks, return_counts=True)[1]
    within = int((counts * (counts - 1) // 2).sum())
    across = len(chunks) * (len(chunks) - 1) // 2 - within
    rng = np.random.RandomState(0)
    drawn = [
        np.column_stack(draw_different_pairs(chunks, min(total, _MOST_PAIRS), same, rng))
        for total, same in ((within, True), (across, False))
    ]
    similar = np.repeat([True, False], [len(pairs) for pairs in drawn])
    distances = paired_distances(embedded, pairs=np.concatenate(drawn))
    return float(roc_auc_score(similar, -distances))


def _retrieval_scores(
    trained: Any, X: Any, y: Any, train: Array, test: Array, params: dict[str, Any], *, new: bool
) -> list[float]:
    """Return the scores of embedded points and of the given points.

    `new`: whether the classes are new; all other points are then the database.
    """
    how: dict[str, Any] = {}
    if new:
        train, how = np.arange(len(y)), {"exclude": test}
    if not trained._has_classes:
        how["label_distance"], y, _ = trained._bind_labels(y)
    database, labels = X[train], y[train]
    if "X_database" in params:
        database, labels = check_points(
            trained, params["X_database"], params["y_database"], preprocessor=None, reset=False,
            accept_sparse="csr",
        )  # fmt: skip
    raw = [dense(points) for points in (X[test], database)]
    embedded = trained.transform(X[test], side="query"), trained.transform(database, "database")
    return [
        trained._retrieval_score(queries, y[test], points, labels, **how)
        for queries, points in (embedded, raw)
    ]


def _error(
    learner: Any, X: Any, y: Any, numeric: bool, train: Array, test: Array, k: int, own: Any,
    where: Any,
) -> float:  # fmt: skip
    """Return the error of the k nearest neighbours. Ties are decided by the nearest one.

    `own`: index of each test point in `train`, if the test points are part of it.
    `where`: views of test and training points, which only find points of other views.
    """
    while hasattr(learner, "learner_"):
        X, learner = learner._mapped(X), learner.learner_
    if hasattr(learner, "bilinear_"):
        k = min(k, len(train) - (own is not None))
        nearest = _most_similar(X[test], X[train] @ learner.bilinear_.T, k, own)
        return mean_error(y[train][nearest], y[test], numeric)
    embedded = np.ascontiguousarray(learner.transform(X))
    points = embedded[train], y[train], embedded[test], y[test]
    return neighbor_error(*points, numeric, k, exclude=own, where=where)


@contextmanager
def naming_held_out(rows: Any, n: int) -> Iterator[None]:
    """Mention the number of held-out points in errors about the number of points.

    `rows`: rows that early stopping holds out, or None.
    """
    try:
        yield
    except ValueError as error:
        if rows is None:
            raise
        raise ValueError(
            f"{error} These numbers leave out what early_stopping holds out: {len(rows)} of the "
            f"{n} points."
        ) from error


def _most_similar(queries: Array, database: Array, k: int, own: Integers | None) -> Integers:
    """Return the rows with the largest inner products for each query, in descending order.

    `own`: the row that each query excludes.
    """
    found = np.empty((len(queries), k), np.int64)
    for start in range(0, len(queries), _BLOCK_SIZE):
        opposite = -queries[start : start + _BLOCK_SIZE] @ database.T
        if own is not None:
            opposite[np.arange(len(opposite)), own[start : start + _BLOCK_SIZE]] = np.inf
        least = np.argpartition(opposite, k - 1, axis=1)[:, :k]
        order = np.argsort(np.take_along_axis(opposite, least, axis=1), axis=1)
        found[start : start + _BLOCK_SIZE] = np.take_along_axis(least, order, axis=1)
    return found
