"""Training data: points and labels, validated once and brought into units that are safe to sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse

from metricfast._core.checks import check_points
from metricfast._core.scaling import (
    center_and_rescale,
    log2_spread,
    rescale_targets,
    times_power_of_two,
    undo_scale,
)
from metricfast._core.scatter import repetitions
from metricfast._core.sources import Scaled, Source
from metricfast._core.sparse import rescale
from metricfast._core.targets import (
    check_classification_target,
    check_regression_target,
    check_sample_weight,
)
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.warn import warn_user
from metricfast.training.chunks import Chunked, hold, mean_and_exponent, rows_of
from metricfast.training.span import Span

__all__ = [
    "Dataset",
    "Target",
    "as_classes",
    "as_targets",
    "deduplicate",
    "deduplicate_if_smaller",
    "load_dataset",
]

# Logarithm of the spread of mapped points, up to a sign, from which a given map is rescaled.
_USUAL_START = 20
# Share of distinct points above which deduplication saves little.
_FEW = 0.8

# Classes or targets, their codes, and the unit of the objective.
Target = Callable[[Any], tuple[Array, Array, float]]


@dataclass(frozen=True)
class Dataset:
    """Points and labels of a training.

    Attributes
    ----------
    X : {ndarray, csr_array, Chunked} of shape (n_samples, n_features)
        Points less their mean, times ``2**-exponent``. Sparse points are not centred. `Chunked`
        points are read from a source by chunks.
    labels : ndarray of shape (n_samples,)
        int64 indices into `classes`, or float64 targets of a regression.
    classes : ndarray of shape (n_classes,)
        Empty for a regression.
    weight : ndarray of shape (n_samples,) or None
    exponent : int
        Not 0 if the points came in unusual units.
    unit : float, default=1
        Factor that turns the objective into units of the given targets.
    given : array, sparse array or Source, optional
        The points as they were given, if the learner keeps them.
    span : Span, optional
        The span of points of many more features than there are points, if a problem may be
        trained in it.
    outer : int, optional
        The number of features of points that are given by their coordinates in a basis.
    """

    X: Any
    labels: Array
    classes: Array
    weight: Floats | None
    exponent: int
    unit: float = 1.0
    given: Any = None
    span: Span | None = None
    outer: int | None = None

    @property
    def n_features(self) -> int:
        """The number of features, of points in a basis of their span as well."""
        return int(self.X.shape[1] if self.outer is None else self.outer)

    @cached_property
    def in_span(self) -> Dataset:
        """The samples, with points by their coordinates in a basis of `span` if there is one."""
        if self.span is None:
            return self
        X = (self.X @ self.span.basis).astype(self.X.dtype)
        return replace(self, X=X, span=None, outer=self.n_features)

    @property
    def has_classes(self) -> bool:
        """Whether labels are classes, not targets of a regression."""
        return bool(self.labels.dtype.kind == "i")

    @property
    def groups(self) -> Integers:
        """The class of each point. All points of a regression are in one group."""
        return self.labels if self.has_classes else np.zeros(len(self.labels), np.int64)

    def take(self, rows: Any) -> Dataset:
        """Return some of the samples."""
        return self._with_points(rows_of(self.X, rows), rows)

    @cached_property
    def representative(self) -> Dataset:
        """All samples; of points that are not in memory, a sample from all classes."""
        rows = self.representative_rows
        return self._with_points(self.X[rows], rows) if isinstance(self.X, Chunked) else self

    @cached_property
    def representative_rows(self) -> Any:
        """The rows of `representative`."""
        if not isinstance(self.X, Chunked):
            return slice(None)
        return self.X.sample(self.labels if self.has_classes else None, self.weight)

    def validation(self, train: Any, test: Any) -> tuple[Dataset, Any, Any]:
        """Return samples in memory, and the rows of training and validation samples in them."""
        if not isinstance(self.X, Chunked):
            return self, train, test
        sample = self.take(train).representative
        labels = np.concatenate([sample.labels, self.labels[test]])
        X, n = np.concatenate([sample.X, self.X[test]]), len(sample.labels)
        both = replace(self, X=X, labels=labels, weight=None)
        return both, np.arange(n), np.arange(n, len(labels))

    def undo_scale(self, L: Array) -> Array:
        """Turn a map of `X` into a map of the points as given."""
        return undo_scale(L, self.exponent, self.X.dtype)

    def rescale_map(self, L: Array, *, quiet: bool = False) -> Array:
        """Turn a map of the points as given into a map of `X`.

        A map under which no loss has a slope is multiplied by a power of two, with a warning
        unless it is `quiet`.
        """
        size = math.frexp(float(np.abs(L).max()))[1]
        unit = times_power_of_two(L.astype(np.float64), -size)
        Z = self.representative.X @ unit.T
        spread = log2_spread(Z - Z.mean(axis=0))
        shift = size + self.exponent
        if spread is not None and abs(shift + sum(spread)) > _USUAL_START:
            shift = -spread[0]
            if not quiet:
                warn_user(
                    f"`init` spreads the points over about 2^{spread[0] + size + self.exponent}, "
                    f"where no loss has a slope: it was multiplied by "
                    f"2^{shift - size - self.exponent}."
                )
        return times_power_of_two(unit, shift)

    def _with_points(self, X: Any, rows: Any) -> Dataset:
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, X=X, labels=self.labels[rows], weight=weight, given=None)


def load_dataset(
    learner: Any,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    *,
    target: Target,
    accept_sparse: str | bool = "csr",
    in_memory: tuple[str, str] | None = None,
    exponent: int | None = None,
    keep: bool = False,
) -> Dataset:
    """Validate the data of `fit`, or of a later call of `partial_fit`, and centre the points.

    Parameters
    ----------
    learner : BaseMetricLearner
        `preprocessor_`, `n_features_in_` and `feature_names_in_` are set, unless the call is a
        later one.
    X, y, sample_weight
        What the method was given.
    target : callable
        Turns y into classes, labels and unit, such as `as_classes`.
    accept_sparse : str or bool, default="csr"
    in_memory : tuple of two str, optional
        Why all points must be in memory, such as "validate=True needs in memory", and the remedy,
        for the error message. By default they need not be.
    exponent : int, optional
        The `exponent` of the first call, for a later one.
    keep : bool, default=False
        Whether to keep the points as `given`.

    Returns
    -------
    Dataset
    """
    later = exponent is not None
    how: dict[str, Any] = {
        "ensure_min_samples": 2, "accept_sparse": accept_sparse, "accept_sources": True
    }  # fmt: skip
    if later:
        how |= {"preprocessor": learner.preprocessor_, "reset": False, "order": "C"}
        X, y = check_points(learner, X, y, **how)
    else:
        X, y = learner._prepare_inputs(X, y, **how)
    weight = check_sample_weight(sample_weight, X.shape[0])
    X = csr_array(X) if issparse(X) else hold(X, in_memory)
    given = X if keep else None
    classes, labels, unit = target(y)
    if isinstance(X, Source):
        mean, own = mean_and_exponent(X)
        exponent = own if exponent is None else exponent
        X = Chunked(Scaled(X, mean, exponent))
        return Dataset(X, labels, classes, weight, exponent, unit, given)
    if exponent is None:
        X, exponent = rescale(X) if issparse(X) else center_and_rescale(X)
    elif issparse(X):
        X = X.copy()
        X.data = times_power_of_two(X.data, -exponent)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            X = times_power_of_two(X - X.mean(axis=0), -exponent)
    values = X.data if issparse(X) else X
    # Sums of squares must not overflow.
    if later and not np.abs(values).max(initial=0) < np.finfo(X.dtype).max ** 0.25:
        raise ValueError(
            "X is too large for the units of the first call: scale it as those points were."
        )
    return Dataset(X, labels, classes, weight, exponent, unit, given)


def as_classes(y: Any) -> tuple[Array, Array, float]:
    """Return the classes of labels, their codes, and 1."""
    return *check_classification_target(y), 1.0


def as_targets(y: Any) -> tuple[Array, Array, float]:
    """Return no classes, the targets of a regression in a safe unit, and the unit of squares."""
    targets, exponent = rescale_targets(check_regression_target(y))
    return np.empty(0), targets, math.ldexp(1.0, 2 * exponent)


def deduplicate(data: Dataset) -> Dataset:
    """Return the distinct points of positive weight; a point that came twice weighs twice."""
    weights = repetitions(data.weight, len(data.labels))
    points = data.X.toarray() if issparse(data.X) else data.X
    rows = np.flatnonzero(weights)
    # Labels come last, so that the order of points does not depend on the names of classes.
    labelled = np.column_stack([points[rows], data.labels[rows]])
    _, first, place = np.unique(labelled, axis=0, return_index=True, return_inverse=True)
    weight = np.bincount(place.ravel(), weights[rows]).astype(np.float64)
    return replace(data.take(rows[first]), weight=weight)


def deduplicate_if_smaller(data: Dataset) -> Dataset:
    """Return the distinct points if they are much fewer.

    Only whole weights mean repetition to a loss. Data with other weights are returned as they are.
    """
    weight = data.weight
    whole = weight is None or np.array_equal(weight, np.floor(weight))
    if not whole or isinstance(data.X, Chunked) or issparse(data.X):
        return data
    distinct = deduplicate(data)
    return distinct if len(distinct.labels) <= _FEW * len(data.labels) else data
