"""Compare a learned distance with the given one on held-out data."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from metricfast._core.checks import check_points
from metricfast._core.points import dense, stacked
from metricfast._core.scaling import center_and_rescale
from metricfast._core.targets import (
    check_marks,
    check_regression_target,
    encode_together,
    labels_of_samples,
)
from metricfast._core.tuples import index_tuples
from metricfast._core.types import Array, Integers
from metricfast._core.warn import warn_user, without_advice
from metricfast._core.wide_map import WideMap
from metricfast._labels.binding import label_sequence
from metricfast._labels.distance import subset
from metricfast.selection._judge import Judge, Judgement, as_judge, judge_path, judge_tuples
from metricfast.selection._measures import Measure, label_distance, of_distances, pair_order
from metricfast.selection._splits import ENOUGH, Part, split_points, split_tuples

_NAMES = ["given distance", "learned distance"]
# Maximum number of pairs of points for the order of pairs.
_MOST_PAIRS = 10**7
# Arguments of `fit` with one value per point or tuple.
_OF_SAMPLES = ("sample_weight", "weights", "groups", "views")
# Fits a clone of a learner: to points or tuples, their labels, and some of their rows.
Refit = Callable[..., Any]


def validate_fit(learner: Any, X: Any, y: Any = None, **params: Any) -> Judgement:
    """Compare a learner with the given distance on held-out data, and warn if it is worse.

    A bilinear similarity is compared with the inner product. A meta-estimator (with `learner_`) is
    compared as a whole with the Euclidean distance of the given points.

    `learner`: a fitted learner, whose clone is fitted to the rest of the data. Its judge, or else
        the default one, decides what is held out and the measure. Learners of continuous labels
        are measured by label distances, learners on chunks by the order of pairs within and across
        held-out chunks, and learners of tuples by the order of held-out tuples.
    `X`, `y`, `**params`: the arguments of `fit`.
    Raises ValueError if the data are too few for training or for validation.
    """
    kind = learner
    while hasattr(kind, "learner_"):
        kind = kind.learner_
    judge = as_judge(getattr(kind, "judge", None)) or Judge()
    params = {name: value for name, value in params.items() if value is not None}
    marks = {name: np.asarray(params.pop(name)) for name in _OF_SAMPLES if name in params}

    def refit(X: Any, y: Any, rows: Array, preprocessor: Any = None) -> Any:
        trained = clone(learner)
        if hasattr(trained, "set_callbacks"):
            trained.set_callbacks()
        known, unset = trained.get_params(), {"callbacks": None, "preprocessor": preprocessor}
        trained.set_params(**{name: value for name, value in unset.items() if name in known})
        labels = () if y is None else (subset(y, rows),)
        of_rows = {name: each[rows] for name, each in marks.items()}
        with without_advice():
            return trained.fit(X[rows], *labels, **of_rows, **params)

    if kind._tuple_size is None:
        found = _on_points(learner, kind, judge, refit, X, y, {**params, **marks})
    else:
        found = _on_tuples(learner, kind, judge, refit, X, y)
    if not found.n_held_out:
        raise ValueError(f"validate=True cannot compare distances: {found.reason}.")
    given, learned = found.costs
    if learned > given:
        what = "similarity" if hasattr(kind, "bilinear_") else "distance"
        warn_user(
            f"The {what} that {type(learner).__name__} learned is worse than the given one: "
            f"{found.measure} {learned:.4g} against {given:.4g} on {found.n_held_out} held-out "
            f"{found.unit}. Rescale the features, give it more data or constraints, choose another "
            "initialisation or prior, or use another learner."
        )
    return found


def _on_points(
    learner: Any, kind: Any, judge: Judge, refit: Refit, X: Any, y: Any, given: dict[str, Any]
) -> Judgement:
    """Compare the costs of a fifth of the points, or of half of the classes."""
    if y is None:
        raise ValueError("validate=True needs labels: pass y.")
    check = partial(check_points, learner, reset=False, accept_sparse="csr")
    X = check(X, preprocessor=learner.preprocessor_)
    n, others, of = X.shape[0], given.get("y_database"), "classes"
    codes: Integers = np.zeros(n, np.int64)
    measure: tuple[str, Measure] | None = None
    if hasattr(kind, "_retrieval_score") and not kind._has_classes:
        y = label_sequence(kind._said_label_distance, y, "y")
        distance, *labels = kind._bind_labels(y, others)
        of = "numbers" if distance.is_euclidean else "distances"
        if of == "distances":
            measure = "label_distance", partial(label_distance, distance=distance)
    else:
        y = labels_of_samples(y, n, "y")
        if not kind._has_classes or (y.dtype.kind == "f" and bool((y % 1).any())):
            of, labels = "numbers", [check_regression_target(y, vary=False)]
    if of == "classes":
        y = y.astype(np.int64) if kind._on_chunks else y
        labels = encode_together([y] if others is None else [y, others], "y")[1]
        known = y >= 0 if kind._partial_labels and y.dtype.kind in "if" else np.ones(n, bool)
        codes = np.where(known, labels[0], -1)
    how: dict[str, Any] = check_marks(n, groups=given.get("groups"), views=given.get("views"))
    how |= {"unit": "points" if others is not None and judge.unit == "auto" else judge.unit}
    points, rows = X, None
    if kind._on_chunks:  # a held-out chunk is compared with all others
        measure, rows = ("order", of_distances(pair_order)), np.flatnonzero(codes >= 0)
        how |= {"groups": codes, "n_enough": min(ENOUGH, _MOST_PAIRS // n + 1)}
        codes = np.minimum(codes, 0)
    if labels[0].dtype.kind == "f" and np.abs(labels[0]).max() > 1e18:
        raise ValueError("y is too large for validate=True, which squares it: divide it.")
    parts = split_points(X, codes, given.get("sample_weight"), n_splits=5, **how)[:1]
    if others is not None:
        points = stacked([X, check(given["X_database"], preprocessor=None)])
        labels, rows = [np.concatenate(labels)], np.arange(n, points.shape[0])
    if rows is not None and parts:
        part, weight = parts[0], np.ones(len(rows))
        place = None if others is not None else np.searchsorted(rows, part.queries)
        parts = [replace(part, database=rows, database_weight=weight, exclude=place)]

    def path(part: Part, _: Sequence[int]) -> Iterator[tuple[Array, Array]]:
        yield _embedded(None, kind, points[part.queries], points[part.database])
        trained = refit(X, y, part.train)
        yield _embedded(trained, kind, points[part.queries], points[part.database])

    how = {"measure": measure, "kind": of, "n_jobs": getattr(kind, "n_jobs", None)}
    return judge_path(judge, _NAMES, parts, path, labels[0], **how)


def _on_tuples(learner: Any, kind: Any, judge: Judge, refit: Refit, X: Any, y: Any) -> Judgement:
    """Compare the order of half of the tuples."""
    how: dict[str, Any] = {"preprocessor": learner.preprocessor_, "tuple_size": kind._tuple_size}
    tuples = index_tuples(learner, X, y, reset=False, **how)
    held = split_tuples(tuples, np.random.RandomState(0))

    def scores() -> Iterator[Array]:
        trained = refit(tuples.index, tuples.y, np.flatnonzero(~held), tuples.points)
        plain, d = copy.copy(kind), tuples.points.shape[1]
        plain.preprocessor_, plain.n_features_in_ = trained.preprocessor_, d
        if hasattr(plain, "bilinear_"):
            plain.bilinear_ = np.eye(d)
        else:
            plain.components_ = WideMap(np.ones(d))
        for each in (plain, trained):
            yield each.decision_function(tuples.index[held])

    return judge_tuples(judge, _NAMES, None if tuples.y is None else tuples.y[held], scores())


def _embedded(learner: Any, kind: Any, *points: Any) -> tuple[Array, Array]:
    """Return queries and database in one space, where the most similar are the nearest.

    `learner`: None for points as they are.
    """
    Z = [dense(each) for each in points]
    while hasattr(learner, "learner_"):
        points, learner = tuple(learner._mapped(each) for each in points), learner.learner_
    if hasattr(kind, "bilinear_"):  # a further coordinate, so that distances are in their order
        if learner is not None:
            Z = [dense(points[0]), dense(points[1]) @ learner.bilinear_.T]
        squares = np.einsum("ij,ij->i", Z[1], Z[1])
        more = [np.zeros(len(Z[0])), np.sqrt(squares.max() - squares)]
        Z = [np.column_stack(each) for each in zip(Z, more, strict=True)]
    elif hasattr(learner, "_retrieval_score"):
        sides = zip(points, ("query", "database"), strict=True)
        Z = [learner.transform(each, side) for each, side in sides]
    elif learner is not None:
        Z = [np.asarray(learner.transform(each)) for each in points]
    both = center_and_rescale(np.concatenate(Z).astype(np.float64))[0]
    return both[: len(Z[0])], both[len(Z[0]) :]
