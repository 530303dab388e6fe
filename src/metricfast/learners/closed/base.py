"""What learners share that find their map in closed form, from scatter matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arrays import as_threads
from metricfast._core.initialize import check_n_components
from metricfast._core.memory import working_memory
from metricfast._core.scaling import center_and_rescale, undo_scale
from metricfast._core.scatter import pair_scatter, repetitions
from metricfast._core.sources import Part, Source, take
from metricfast._core.stores import in_memory
from metricfast._core.sums import Sums, centered
from metricfast._core.targets import check_classification_target, check_sample_weight
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast.constraints import class_neighbors
from metricfast.learners.base.constraints import Drawn, Weight
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.base.one_pass import OnePassOfClasses

__all__ = [
    "ClosedFormLearner",
    "ClosedFormOfClasses",
    "Labelled",
    "classes_in_turn",
    "divided",
    "divided_by",
    "neighborhood_scatters",
    "scatters_of_anchors",
    "weighted",
]

# Points, their classes and weights.
Labelled = tuple[Array, Array, Floats | None]
_Work = TypeVar("_Work", bound=Callable[..., Any])
_divider: ContextVar[Callable[..., Any] | None] = ContextVar("divider", default=None)


class ClosedFormLearner(MahalanobisMixin):
    """Base of learners that compute their map from scatter matrices of points."""

    def _keep(self, rows: Floats, n_rows: int, exponent: int, precision: np.dtype[Any]) -> None:
        """Keep a map of the rescaled points, with zero rows where it has fewer than `n_rows`."""
        components = np.zeros((n_rows, rows.shape[1]))
        components[: len(rows)] = rows[:n_rows]
        self.components_ = undo_scale(components, exponent, precision)


class ClosedFormOfClasses(OnePassOfClasses, ClosedFormLearner):
    """Base of those of class labels: a learner defines `_sums_of` and `_learn_sums`."""

    _partial_labels = False

    def _learn(self, data: Labelled, rng: RandomState) -> None:
        check_classification_target(data[1])
        sums, found = self._sums_of(*data)
        self._learn_sums(sums, **found)

    def _draw(self, points: Array, labels: Array, sample_weight: Weight, rng: RandomState) -> Drawn:
        as_threads(self.n_jobs)
        check_n_components(points.shape[1], self.n_components)
        return (points, labels, check_sample_weight(sample_weight, len(points))), {}


def weighted(
    X: Any, y: Any, sample_weight: ArrayLike | None
) -> tuple[Any, Any, Floats, int | None]:
    """Prepare checked points.

    Returns X, of shape (n_samples, n_features): points of positive weight less their mean, times
    ``2**-exponent``; y, ndarray of shape (n_samples,), or None: what was given for them; weights,
    ndarray of shape (n_samples,), float64: how often each counts; exponent, int. A source stays as
    it is, since nothing is known of it yet, and has an exponent of None.
    """
    weights = repetitions(check_sample_weight(sample_weight, len(X)), len(X))
    seen = weights > 0
    if not seen.all():
        X, y, weights = take(X, seen), None if y is None else y[seen], weights[seen]
    if isinstance(X, Source):
        return X, y, weights, None
    X, exponent = center_and_rescale(X)
    return X, y, weights, exponent


def classes_in_turn(X: Any, codes: Integers) -> Iterator[tuple[int, Integers, Array]]:
    """Return each class, its rows and its points.

    A source is read once for as many classes as memory has room for, and one at least.
    """
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))
    starts = np.append(0, ends[:-1])
    if not isinstance(X, Source):
        for label, (start, end) in enumerate(zip(starts, ends, strict=True)):
            yield label, order[start:end], X[order[start:end]]
        return
    row_bytes = X.dtype.itemsize * X.shape[1]
    most, first = working_memory() // (4 * row_bytes), 0
    while first < len(ends):
        last = max(first + 1, int(np.searchsorted(ends, starts[first] + most, side="right")))
        rows = np.sort(order[starts[first] : ends[last - 1]])
        what = f"A class of {len(rows)} points, which is learned from as a whole,"
        block = in_memory(Part(X, rows), what, "give fewer points")
        for label in range(first, last):
            members = order[starts[label] : ends[label]]
            yield label, members, block[np.searchsorted(rows, members)]
        first = last


def neighborhood_scatters(
    X: Any,
    labels: Integers,
    weight: Floats | None,
    k_genuine: int,
    k_impostor: int,
    n_jobs: int | None,
) -> tuple[Sums, Sums]:
    """Sum the mean outer products of points less their nearest neighbours, weighted by point.

    `X`: of shape (n_samples, n_features); points as given.
    `labels`: ndarray of shape (n_samples,); codes of classes.
    `weight`: ndarray of shape (n_samples,), or None.
    `k_genuine`, `k_impostor`: neighbours of the same class and of other classes.
    Returns sums of two groups: differences from neighbours of the same class, 0, and of other
    classes, 1, with the weight of the points that have such; and the sums of all points.
    """
    weights = repetitions(weight, len(X))
    X, exponent, points = centered(X)
    how = X, labels, weights, k_genuine, k_impostor, n_jobs
    scatters, totals = divided(scatters_of_anchors)(*how)
    return Sums.of_scatters(np.arange(2), totals, scatters, exponent, X.dtype), points


def scatters_of_anchors(
    X: Any,
    labels: Integers,
    weights: Floats,
    k_genuine: int,
    k_impostor: int,
    n_jobs: int | None,
    anchors: Integers | None = None,
) -> tuple[Floats, Floats]:
    """Return the two scatters of differences from neighbours, and the weights of the points.

    Of all points or of some, `anchors`, ascending: those of parts add up.
    """
    scatters, totals = np.zeros((2, X.shape[1], X.shape[1])), np.zeros(2)
    how: dict[str, Any] = {"n_jobs": n_jobs, "anchors": anchors}
    for members, *found in class_neighbors(X, labels, k_genuine, k_impostor, **how):
        for side, near in enumerate(found):
            k = near.shape[1]
            if k:
                pairs = np.column_stack((np.repeat(members, k), near.ravel()))
                scatters[side] += pair_scatter(X, pairs, np.repeat(weights[members] / k, k))
                totals[side] += weights[members].sum()
    return scatters, totals


def divided(work: _Work) -> _Work:
    """Return what does this work: another that divides it, or the function itself."""
    divider: Any = _divider.get()
    return work if divider is None else divider


@contextmanager
def divided_by(divider: Callable[..., Any]) -> Iterator[None]:
    """Have the sums of a learner found by another, called as the learner's own, in this thread."""
    token = _divider.set(divider)
    try:
        yield
    finally:
        _divider.reset(token)
