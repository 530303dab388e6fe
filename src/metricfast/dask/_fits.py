"""Distributed fits: each divides the work into parts, and sums their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from metricfast._core.arrays import as_points
from metricfast._core.checks import check_points
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.targets import as_label_array, check_sample_weight, codes_among, encode
from metricfast._core.thresholds import best_threshold
from metricfast._core.types import Array, Floats, Integers
from metricfast.dask._rows import AlignedRows, join_rows
from metricfast.dask._training import ByParts, fit_by_epochs
from metricfast.dask._workers import N_PARTS, Shared, threads_here, total
from metricfast.learners.base.closed_form import (
    ClosedFormLearner,
    Statistics,
    add_statistics,
    fit_points,
)
from metricfast.learners.base.inputs import begin_fit
from metricfast.learners.closed.anmm import ANMM
from metricfast.learners.closed.dmlmj import DMLMJ
from metricfast.learners.closed.lfda import LFDA, local_sums
from metricfast.learners.closed.neighborhoods import scatters_of_anchors
from metricfast.learners.closed.rca import RCA_Supervised
from metricfast.learners.trained import TrainedLearner
from metricfast.learners.tuples.drawing import SupervisedForm
from metricfast.learners.tuples.pair_sums import pair_sums
from metricfast.learners.tuples.sdml import SDML_Supervised

# A function that fits a learner to points, labels and weights, in n parts, and returns it.
Fit = Callable[..., Any]


def fit_of(learner: Any, sync: str, arguments: list[str]) -> Fit:
    """Return the function that fits a learner, or raise TypeError for unsupported arguments."""
    if getattr(learner, "_exact_in_parts", False):
        if arguments:
            raise TypeError(f"Sums take no further arguments; found {arguments}.")
        return _by_sums
    if isinstance(learner, LFDA):
        return _by_classes
    if isinstance(learner, (ANMM, DMLMJ)):
        return _by_anchors
    if isinstance(learner, (SupervisedForm, RCA_Supervised, SDML_Supervised)):
        return _of_draws
    if not isinstance(learner, TrainedLearner):
        raise TypeError(
            "learner must be of sums (Covariance, RCA; GMML, SDML of pairs), from classes (LFDA, "
            "ANMM, DMLMJ and those whose names end in _Supervised), or trained iteration by "
            f"iteration, such as NCA, LMNN or EmbeddingLearner; found {learner!r}. Fit others in "
            "one place."
        )
    if sync == "gradients":
        return _by_gradients
    if not hasattr(learner, "partial_fit"):
        raise ValueError(
            "sync='epochs' needs a learner of mini-batches: set solver='adam', or "
            f"sync='gradients'; found {learner!r}."
        )
    if arguments:
        raise TypeError(f"sync='epochs' takes no further arguments; found {arguments}.")
    return fit_by_epochs


def _by_sums(learner: Any, rows: AlignedRows, n_parts: int | None) -> Any:
    """Fit to the sums of all partitions; the client holds only the total."""
    found = rows.workers.sum(_sums, rows.blocks, learner=learner)
    if found is None:
        raise ValueError("X must hold at least 2 points; found 0.")
    fitted = found.learner
    setting = fitted._unjudged_setting() if isinstance(fitted, ClosedFormLearner) else None
    add_statistics(fitted, found.statistics, setting)
    if fitted._tuple_size is not None:
        judged = join_rows(
            rows.workers.computed(rows.workers.tasks(_judged, rows.blocks, learner=fitted))
        )
        fitted.threshold_ = best_threshold(*judged)
    return fitted


@dataclass(frozen=True)
class _Sums:
    """Statistics of a partition, and the learner with its column names."""

    statistics: Statistics
    learner: Any

    def __add__(self, other: _Sums) -> _Sums:
        """Return the sum of both statistics, with the first learner."""
        return _Sums(self.statistics + other.statistics, self.learner)


def _sums(block: tuple[Any, ...], threads: int, learner: Any) -> _Sums | None:
    """Return the statistics of a partition, and the learner with its column names."""
    X, y, weight = block
    if not X.shape[0]:
        return None
    learner = clone(learner)
    if learner._tuple_size is not None:
        pairs = learner._prepare_tuples(X, y).weighted(weight)
        return _Sums(Statistics((pair_sums(pairs),)), learner)
    begin_fit(learner)
    y = y if learner._requires_y else None
    checked = check_points(learner, X, y, preprocessor=learner.preprocessor_, reset=True, order="C")
    points, labels = (checked, None) if y is None else checked
    weights = check_sample_weight(weight, len(points))
    return _Sums(learner._statistics(points, labels, weights, partial=True), learner)


def _judged(block: tuple[Any, ...], threads: int, learner: Any) -> tuple[Any, ...]:
    """Return distances, labels and weights of pairs."""
    pairs, y, weight = block
    labels = np.asarray(y)
    distances = -learner.decision_function(pairs) if len(labels) else np.empty(0)
    return distances, labels, np.ones(len(labels)) if weight is None else np.asarray(weight)


def _by_classes(learner: Any, rows: AlignedRows, n_parts: int | None, **params: Any) -> Any:
    """Fit to sums of statistics over groups of classes; each class is in one group."""
    labels, weight = rows.others()

    def sums(
        X: Any, classes: Array, codes: Integers, weights: Floats, k: int, n_jobs: int | None
    ) -> Any:
        n_groups, ends = n_parts or N_PARTS, np.cumsum(np.bincount(codes))
        shares = np.arange(1, n_groups) * len(codes) / n_groups
        first = np.unique([0, *(np.searchsorted(ends, shares) + 1)])
        first = first[first < len(classes)]
        scale = 1.0 if weight is None else float(weights.sum() / np.sum(weight))
        groups = rows.dealt(len(first), _group_of_class, classes, first)
        how = {"classes": classes, "k": k, "scale": scale, "dtype": X.dtype}
        return rows.workers.sum(_sums_of_classes, groups, **how)

    fit_points(learner, rows.points(), labels, weight, **params, execute=sums)
    return learner


def _codes_of(y: Any, classes: Array) -> Integers:
    own, codes = encode(as_label_array(y, "y"), "y")
    return codes_among(own, classes, "y")[codes]


def _group_of_class(i: int, block: tuple[Any, ...], classes: Array, first: Integers) -> Integers:
    """Return the group of each row's class, for rows with weight."""
    _, y, weight = block
    groups = np.searchsorted(first, _codes_of(y, classes), side="right") - 1
    return groups if weight is None else np.where(np.asarray(weight) > 0, groups, -1)


def _sums_of_classes(
    group: tuple[Any, ...], threads: int, classes: Array, k: int, scale: float, dtype: Any
) -> tuple[ScatterStatistics, ScatterStatistics]:
    X, y, weight = group
    points, codes = as_points(np.asarray(X, dtype), "X"), _codes_of(y, classes)
    weights = np.ones(len(codes)) if weight is None else np.asarray(weight, np.float64) * scale
    first, last = int(codes.min()), int(codes.max()) + 1
    own = classes[first:last]
    return local_sums(points, own, codes - first, weights, k, threads_here(threads))


def _by_anchors(learner: Any, rows: AlignedRows, n_parts: int | None, **params: Any) -> Any:
    """Fit to the scatters of parts of the points; every worker holds all points."""

    def scatters(X: Any, labels: Integers, weights: Floats, *how: Any) -> tuple[Floats, Floats]:
        order = np.argsort(labels, kind="stable")  # each part then has few classes
        n = min(n_parts or N_PARTS, len(order))
        parts = [np.sort(part) for part in np.array_split(order, n)]
        shared = Shared((X, labels, weights, *how[:-1]))
        found: tuple[Floats, Floats] = total(rows.workers.run(_scatters, parts, shared))
        return found

    points, labels, weights = rows.joined()
    fit_points(learner, points, labels, weights, **params, execute=scatters)
    return learner


def _scatters(anchors: Integers, shared: tuple[Any, ...], threads: int) -> tuple[Floats, Floats]:
    X, labels, weights, *k = shared
    how: dict[str, Any] = {"n_jobs": threads_here(threads), "anchors": anchors}
    return scatters_of_anchors(X, labels, weights, *k, **how)


def _of_draws(learner: Any, rows: AlignedRows, n_parts: int | None, **params: Any) -> Any:
    """Fit to tuples or chunks that the client draws; the client fetches only their rows."""
    labels, weights = rows.others()
    if weights is not None:
        params["sample_weight"] = weights
    return learner.fit(rows.points(), labels, **params)


def _by_gradients(learner: Any, rows: AlignedRows, n_parts: int | None, **params: Any) -> Any:
    """Train; each worker evaluates the objective and its gradient for a part of the anchors."""
    points, labels, weights = rows.joined()
    return learner._fit(points, labels, weights, **params, evaluator=ByParts(rows.workers, n_parts))
