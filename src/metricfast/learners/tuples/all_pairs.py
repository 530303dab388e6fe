"""Learn from the scatters of all similar and all dissimilar pairs.

The scatters are computed from the weight, mean and scatter of each class, without forming pairs.
With groups of points, such as cameras, only pairs across groups count. A cell then consists of the
points of one class in one group.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.scaling import center_and_rescale
from metricfast._core.scatter import group_means, repetitions, scatter_matrix
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.sources import on_disk, take
from metricfast._core.targets import (
    as_column,
    as_label_array,
    check_class_labels,
    check_partial_target,
    encode,
)
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.warn import without_advice
from metricfast.learners.base.closed_form import (
    ONE_CLASS,
    ClosedFormLearner,
    Statistics,
    fit_points,
    partial_fit_points,
)
from metricfast.learners.base.selection import Fold, held_out_folds, select

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ClassPairsLearner", "GroupedPairsLearner"]


class _OfCall(NamedTuple):
    """Data of a call of `fit`: sums over pairs, points (centred, or a source), cells and folds."""

    pairs: ScatterStatistics
    points: Any
    names: Array
    folds: list[Fold]


class ClassPairsLearner(ClosedFormLearner):
    """Base class of learners that solve for their map from all pairs of points with class labels.

    Subclasses define `_solve_pairs` and `_tried`.
    """

    _exact_in_parts = True
    _partial_labels = True
    # A parameter and the values that "auto" tries. The first value gives the Euclidean distance.
    # The last is used if no points can be held out.
    _tried: ClassVar[tuple[str, tuple[float | None, ...]]]

    @abstractmethod
    def _solve_pairs(self, pairs: ScatterStatistics, points: Any) -> None:
        """Set the fitted attributes, given the value of the parameter that may be "auto".

        `pairs`: the result of :func:`~metricfast.learners.tuples.pair_sums.pair_sums`.
        `points`: the points of `fit`, in any units; None in `partial_fit`.
        """

    def _statistics(
        self,
        X: Any,
        y: Any,
        weight: Floats | None,
        *,
        partial: bool = False,
        execute: Any = None,
        groups: ArrayLike | None = None,
    ) -> Statistics:
        n = X.shape[0]
        views = None if groups is None else _check_groups(groups, n)
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
        names = _cells(codes, None if views is None else encode(views[rows], "groups")[1])
        judged = isinstance(getattr(self, self._tried[0]), str)
        if on_disk(points):
            sums = ScatterStatistics(X.shape[1], per_group=True).add(points, weights, names)
            pairs = _pairs_of_cells(sums)
        else:
            points, exponent = center_and_rescale(points)
            pairs = _pairs_of_points(points, weights, names, exponent)
        folds = held_out_folds(points, codes, weights) if judged else []
        return Statistics(of_call=_OfCall(pairs, points, names, folds))

    def _solve(self, statistics: Statistics) -> None:
        name, tried = self._tried
        value, of_call = getattr(self, name), statistics.of_call
        if isinstance(value, str):
            value = tried[-1]
            if of_call is not None and of_call.folds:
                instead = f"{name}={tried[-1]}"
                chosen = select(
                    of_call.folds, lambda fold: self._maps(fold, of_call.names), instead
                )
                value = tried[chosen]
        setattr(self, f"{name}_", value)
        if of_call is None:
            self._solve_pairs(_pairs_of_cells(*statistics.sums), None)
        else:
            self._solve_pairs(of_call.pairs, of_call.points)

    def _maps(self, fold: Fold, names: Array) -> Iterator[Array]:
        """Return the maps for the training points of a fold, for all tried values."""
        part, (name, tried) = copy.copy(self), self._tried
        points, exponent = center_and_rescale(fold.points)
        pairs = _pairs_of_points(points, fold.weights, names[fold.rows], exponent)
        for value in tried:
            setattr(part, f"{name}_", value)
            with without_advice():
                part._solve_pairs(pairs, points)
            yield self._span.inside(part._map)


class GroupedPairsLearner(ClassPairsLearner):
    """Base class of learners from all pairs, optionally only pairs across groups."""

    def fit(  # type: ignore[override]
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        validate: bool = False,
    ) -> Self:
        """Learn the map from classes.

        Parameters
        ----------
        X : array-like or source of shape (n_samples, n_features), or (n_samples,)
            Points, or indicators for the preprocessor. float32 stays float32, everything else
            becomes float64. Points that are not in memory may be a memory map, an array of zarr or
            h5py, an Arrow table, or a `metricfast.sources.Source`.
        y : array-like of shape (n_samples,)
            Class labels, of at least two classes. Numbers below 0 mean that the class is unknown.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the points. Whole numbers mean the same as repeated points.
        groups : array-like of shape (n_samples,), optional
            The group of each point, such as the camera. Only pairs of points from different groups
            are used. By default all pairs.
        validate : bool, default=False
            Also fit a clone to four fifths of the points, compare the errors of 3 nearest
            neighbours in the learned and in the Euclidean distance on the others, store the numbers
            in `validation_`, and warn if the learned distance is worse.
            If classes have few points, half of the classes are held out instead, and the nearest
            neighbour among all points counts.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used, or there are no similar or
            no dissimilar pairs of different points.

        Warns
        -----
        UserWarning
            If the learner regularised a singular covariance, or keeps the given distance.
        """
        fit_points(self, X, y, sample_weight, validate=validate, groups=groups)
        return self

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn from these points and from the ones of earlier calls, as `fit` from all of them.

        Parameters
        ----------
        X : array-like or source of shape (n_samples, n_features)
            Points, as for `fit`.
        y : array-like of shape (n_samples,)
            Class labels. Classes may be missing in one call, and others may come.
        sample_weight : array-like of shape (n_samples,), optional
            As for `fit`.
        groups : array-like of shape (n_samples,), optional
            As for `fit`. Give them in every call or in none.

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
        partial_fit_points(self, X, y, sample_weight, groups=groups)
        return self


def _check_groups(groups: ArrayLike, n_samples: int) -> Array:
    found = as_column(as_label_array(groups, "groups"), "groups")
    if len(found) != n_samples:
        raise ValueError(f"groups must hold {n_samples} labels, one per sample, got {len(found)}.")
    return found


def _cells(classes: Array, views: Array | None) -> Array:
    """Return the cell of each point: its class, or a pair of class and group."""
    if views is None:
        return classes
    names = [each if each.dtype != object else np.array(each.tolist()) for each in (classes, views)]
    found = np.empty(len(classes), [("y", names[0].dtype), ("group", names[1].dtype)])
    found["y"], found["group"] = names
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
        (classes, y), (views, group) = (
            np.unique(cells[name], return_inverse=True) for name in ("y", "group")
        )
        if len(classes) < 2:
            raise ValueError(ONE_CLASS)
        if len(views) < 2:
            raise ValueError(
                "groups must hold at least 2 groups, together with earlier calls of partial_fit."
            )
        of_classes = np.bincount(y, counts)[y].astype(np.float64)
        sizes = np.bincount(group, counts).astype(np.float64)
        of_groups = sizes[group]
        similar = of_classes - counts
        partners = similar, total - of_groups - similar
        totals = counts * partners[0], counts * partners[1]
        same = _spread(means, counts, y, of_classes)
        across = _spread(means, counts, group, total - of_groups) + total * _spread(
            _means(means, counts, group), sizes, np.zeros(len(views), np.int64)
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
