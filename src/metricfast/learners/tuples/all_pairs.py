"""Learn from the scatters of all similar and all dissimilar pairs.

The scatters are computed from the weight, mean and scatter of each class, without forming pairs.
With views of points, such as cameras, only pairs across views count. A cell then consists of the
points of one class in one view.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.scaling import center_and_rescale
from metricfast._core.scatter import group_means, repetitions, scatter_matrix
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.sources import on_disk, take
from metricfast._core.targets import as_label_array, check_class_labels, check_partial_target
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, Integers, Self
from metricfast.learners.base.closed_form import (
    ONE_CLASS,
    ClosedFormLearner,
    Statistics,
    partial_fit_points,
)


@dataclass(frozen=True, kw_only=True)
class _Pairs(Statistics):
    """Sums over all pairs of the points of one call, in which no further points take part."""

    pairs: ScatterStatistics


def statistics_of_classes(
    learner: ClosedFormLearner,
    X: Any,
    y: Any,
    weight: Floats | None,
    *,
    partial: bool = False,
    execute: Any = None,
    views: Array | None = None,
) -> Statistics:
    """Return sums over pairs of points with class labels: `_statistics` of a learner."""
    del learner, execute
    n = X.shape[0]
    if partial:
        check_class_labels(y)
        names = as_label_array(y, "y")
        weights = np.ones(n) if weight is None else weight
        if names.dtype.kind in "if":
            weights = np.where(names < 0, 0, weights)  # points of unknown class
        sums = ScatterStatistics(X.shape[1], per_group=True)
        return Statistics((sums.add(X, weights, _cells(names, views)),))
    rows = np.arange(n) if weight is None else np.flatnonzero(weight)
    _, codes = check_partial_target(y[rows])
    rows, codes = rows[codes >= 0], codes[codes >= 0]
    weights = repetitions(None if weight is None else weight[rows], len(rows))
    points = take(X, rows)
    names = _cells(codes, None if views is None else views[rows])
    if on_disk(points):
        sums = ScatterStatistics(X.shape[1], per_group=True).add(points, weights, names)
        pairs = _pairs_of_cells(sums)
    else:
        points, exponent = center_and_rescale(points)
        pairs = _pairs_of_points(points, weights, names, exponent)
    return _Pairs(pairs=pairs, tuples=TupleSet(points, np.arange(points.shape[0])))


def sums_of(statistics: Statistics) -> ScatterStatistics:
    """Return the sums over similar and dissimilar pairs, in the form of :func:`pair_sums`."""
    if isinstance(statistics, _Pairs):
        return statistics.pairs
    return _pairs_of_cells(*statistics.sums)


class ViewPairsLearner(ClosedFormLearner):
    """Base class of learners that solve for their map from all pairs, or all pairs across views.

    Subclasses define `_solve`, with the sums that :func:`sums_of` returns.
    """

    _exact_in_parts = True
    _partial_labels = True
    _across_views = True

    _statistics = statistics_of_classes

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        views: ArrayLike | None = None,
    ) -> Self:
        """Learn from these points and from the ones of earlier calls, as `fit` from all of them.

        Parameters
        ----------
        X : array-like or source of shape (n_samples, n_features)
            Points, as for `fit`.
        y : array-like of shape (n_samples,)
            Class labels, of one type in all calls. Classes may be missing in one call, and others
            may come.
        sample_weight : array-like of shape (n_samples,), optional
            As for `fit`.
        views : array-like of shape (n_samples,), optional
            As for `fit`. Give them in every call or in none, of one type.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As for `fit`. Results of earlier calls stay.

        Warns
        -----
        UserWarning
            If `fit` was called before: it stores no sums, so the learner starts again.
        """
        partial_fit_points(self, X, y, sample_weight, views=views)
        return self


def _cells(classes: Array, views: Array | None) -> Array:
    """Return the cell of each point: its class, or a pair of class and view."""
    if views is None:
        return classes
    names = [each if each.dtype != object else np.array(each.tolist()) for each in (classes, views)]
    found = np.empty(len(classes), [("y", names[0].dtype), ("view", names[1].dtype)])
    found["y"], found["view"] = names
    return found


def _pairs_of_cells(cells: ScatterStatistics) -> ScatterStatistics:
    """Return sums over all pairs, from sums over the points of each cell."""

    def inner(factors: Floats) -> Floats:
        return np.asarray(np.einsum("i,ijk->jk", factors, cells.scatters))

    given = cells.groups, cells.weights, cells.means, inner
    return _sums_of_pairs(*given, cells.exponent, cells.dtype)


def _pairs_of_points(X: Array, weights: Floats, names: Array, exponent: int) -> ScatterStatistics:
    """Return sums over all pairs of points that were divided by ``2**exponent``."""
    cells, code = np.unique(names, return_inverse=True)
    means = group_means(X, weights, code, len(cells))

    def inner(factors: Floats) -> Floats:
        return scatter_matrix(X, weights * factors[code], code, means)

    counts = np.bincount(code, weights).astype(np.float64)
    return _sums_of_pairs(cells, counts, means, inner, exponent, X.dtype)


def _sums_of_pairs(
    cells: Array,
    counts: Floats,
    means: Floats,
    inner: Callable[[Floats], Floats],
    exponent: int,
    dtype: np.dtype[Any],
) -> ScatterStatistics:
    """Return statistics of similar and dissimilar pairs, from the weights and means of cells.

    `inner`: a function of factors that returns the weighted sum of the cells' scatters. The scatter
        of all pairs within a set is its weight times the scatter around its mean. So the factor of
        a cell is the total weight of the points with which its points form pairs.
    """
    total, everything = counts.sum(), np.zeros(len(counts), np.int64)
    if cells.dtype.names is None:
        if len(cells) < 2:
            raise ValueError(ONE_CLASS)
        partners = counts, total - counts
        totals = counts * np.maximum(counts - 1, 0), counts * partners[1]
        between = np.zeros((means.shape[1],) * 2), total * _spread(means, counts, everything)
    else:
        (classes, y), (views, view) = (
            np.unique(cells[name], return_inverse=True) for name in ("y", "view")
        )
        if len(classes) < 2:
            raise ValueError(ONE_CLASS)
        if len(views) < 2:
            raise ValueError(
                "views must hold at least 2 views, together with earlier calls of partial_fit."
            )
        of_classes = np.bincount(y, counts)[y].astype(np.float64)
        sizes = np.bincount(view, counts).astype(np.float64)
        of_views = sizes[view]
        similar = of_classes - counts
        partners = similar, total - of_views - similar
        totals = counts * partners[0], counts * partners[1]
        same = _spread(means, counts, y, of_classes)
        across = _spread(means, counts, view, total - of_views) + total * _spread(
            _means(means, counts, view), sizes, np.zeros(len(views), np.int64)
        )
        between = same, across - same
    scatters = np.array([inner(f) + b for f, b in zip(partners, between, strict=True)])[::-1]
    weights = np.array([each.sum() / 2 for each in totals])[::-1]
    return ScatterStatistics.of_scatters(np.array([-1, 1]), weights, scatters, exponent, dtype)


def _means(points: Floats, weights: Floats, group: Integers) -> Floats:
    return group_means(points, weights, group, int(group.max()) + 1)


def _spread(
    points: Floats, weights: Floats, group: Integers, factors: Floats | float = 1.0
) -> Floats:
    """Return the scatter of points around the means of their groups, weighted by group."""
    return scatter_matrix(points, weights * factors, group, _means(points, weights, group))
