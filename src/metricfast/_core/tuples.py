"""Tuples of points, stored as row indices into an array of points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length

from metricfast._core.checks import (
    ArrayIndexer,
    Preprocessor,
    as_readable_labels,
    check_pair_labels,
    check_tuples,
)
from metricfast._core.memory import block_rows
from metricfast._core.points import dense
from metricfast._core.scatter import pair_scatter, repetitions
from metricfast._core.sources import row_bytes
from metricfast._core.targets import as_column, check_sample_weight
from metricfast._core.types import Array, Floats, Integers


@dataclass(frozen=True)
class TupleSet:
    """Tuples of points, which refer to shared rows instead of copying points."""

    points: Array  # (n_points, n_features) in C order; some may be in no tuple
    index: Integers  # (n_tuples, t) in C order: rows of `points`
    y: Array | None = None
    weight: Floats | None = None  # positive

    @classmethod
    def of_rows(cls, points: Any, index: Integers, y: Array | None = None) -> TupleSet:
        """Return tuples of rows. Of sparse points and sources, only the rows in use are stored."""
        if isinstance(points, np.ndarray):
            return cls(points, index, y)
        used, rows = np.unique(index, return_inverse=True)
        return cls(dense(points[used]), rows.reshape(index.shape), y)

    def weighted(self, sample_weight: ArrayLike | None) -> TupleSet:
        """Return only the tuples with positive weight."""
        weight = check_sample_weight(sample_weight, len(self.index))
        if weight is None:
            return self
        seen = weight > 0
        y = None if self.y is None else self.y[seen]
        return TupleSet(self.points, self.index[seen], y, weight[seen])

    def pair_scatter(self, label: int) -> Floats:
        """Return the scatter of the differences of pairs with a label; see :func:`repetitions`."""
        chosen = self.y == label
        weight = None if self.weight is None else repetitions(self.weight, len(self.index))[chosen]
        return pair_scatter(self.points, self.index[chosen], weight)

    def used_points(self) -> Array:
        """Return the points that are in a tuple, without a copy if all are."""
        used = self._used()
        return self.points if used.all() else self.points[used]

    def unique_rows(self) -> Integers:
        """Return one row of each distinct point that is in a tuple, in lexicographic order."""
        points = self.used_points()
        # Points with equal first features are usually equal in all features.
        for n_keys in (1, points.shape[1]):
            order = np.lexsort(points.T[:n_keys][::-1])
            different, decided = np.ones(len(order), bool), True
            size = block_rows(row_bytes(points), most=2 << 20)
            for start in range(0, len(order) - 1, size):
                block = points[order[start : start + size + 1]]
                unequal = block[1:] != block[:-1]
                found = unequal.any(axis=1)
                different[start + 1 : start + len(block)] = found
                decided &= bool((found == unequal[:, :n_keys].any(axis=1)).all())
            if decided:
                break
        return np.flatnonzero(self._used())[order[different]]

    def unique_points(self) -> Array:
        """Return the distinct points that are in a tuple, in lexicographic order."""
        return self.points[self.unique_rows()]

    def _used(self) -> NDArray[np.bool_]:
        used = np.zeros(len(self.points), bool)
        used[self.index] = True
        return used


def index_tuples(
    estimator: BaseEstimator,
    tuples: ArrayLike,
    y: ArrayLike | None = None,
    *,
    preprocessor: Preprocessor | None,
    reset: bool,
    tuple_size: int | None,
) -> TupleSet:
    """Check tuples, given as points or as indicators, and labels if there are any.

    `estimator`: errors carry its name. Its `n_features_in_` is set (with `reset`, in `fit`) or
        compared.
    `tuples`: array-like of shape (n_tuples, t, n_features) or (n_tuples, t).
    `y`: labels; labels of pairs are -1 and 1.
    `tuple_size`: the required t.
    Returns a TupleSet, which shares memory with the input if possible.
    """
    shared = _rows_of_array(tuples, preprocessor, tuple_size)
    if shared is not None and (reset or shared.points.shape[1] == estimator.n_features_in_):
        points, index = shared.points, shared.index
        if reset:
            estimator.n_features_in_ = points.shape[1]
    else:
        formed = check_tuples(
            estimator,
            tuples,
            preprocessor=preprocessor,
            reset=reset,
            tuple_size=tuple_size,
            order="C",
        )
        index = np.arange(formed.shape[0] * formed.shape[1]).reshape(formed.shape[:2])
        points = formed.reshape(index.size, -1)
    if y is None:
        return TupleSet(points, index)
    labels = as_column(as_readable_labels(y), "y")
    check_consistent_length(index, labels)
    if index.shape[1] == 2:
        check_pair_labels(labels)
    return TupleSet(points, index, labels)


def _rows_of_array(
    tuples: ArrayLike, preprocessor: Preprocessor | None, tuple_size: int | None
) -> TupleSet | None:
    """Return tuples of rows if `tuples` are indices into an array that needs no conversion.

    This saves the memory of formed tuples. Returns None in all other cases and for invalid input;
    the checks of formed tuples then raise the error.
    """
    if not isinstance(preprocessor, ArrayIndexer):
        return None
    points = preprocessor.X
    try:
        index = np.asarray(tuples)
    except ValueError:
        return None
    if points.dtype not in (np.float32, np.float64) or points.ndim != 2 or points.shape[1] == 0:
        return None
    n_points, whole = points.shape[0], isinstance(points, np.ndarray)
    if whole and (not points.flags.c_contiguous or not 0 < n_points <= index.size):
        return None
    if index.dtype.kind not in "iu" or index.ndim != 2 or index.size == 0:
        return None
    if tuple_size is not None and index.shape[1] != tuple_size:
        return None
    if index.max() >= n_points:  # before large unsigned numbers become negative
        return None
    index = index.astype(np.int64, order="C")
    index[index < 0] += n_points
    if index.min() < 0:
        return None
    found = TupleSet.of_rows(points, index)
    with np.errstate(over="ignore", invalid="ignore"):
        return found if np.isfinite(found.points.sum()) else None
