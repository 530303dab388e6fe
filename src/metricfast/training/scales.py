"""The scale of the initial map, by which the loss is lowest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from metricfast._core.types import Array, Floats, RandomState
from metricfast._core.wide_map import AnyMap
from metricfast.exceptions import LossOverflowError
from metricfast.samplers import Batch, class_batches
from metricfast.training.embedded import map_points
from metricfast.training.embedded_loss import EmbeddedLoss
from metricfast.training.objective import Objective
from metricfast.training.preconditioner import FlatParameters, best_scale, near_scale
from metricfast.training.problem import Problem
from metricfast.training.samples import Samples

__all__ = ["choose_scale", "inner_map", "like", "sample_points", "scale_by_batch", "spread"]

# Number of points to choose a scale, and their root mean squared distance at its start.
_SAMPLE = 500
_FIRST_SPREAD = 4.0


def scale_by_batch(problem: Problem, L: AnyMap, rng: RandomState, batch_size: int | None) -> float:
    """Return the factor of a map that minimises the loss of the first mini-batch."""
    if not problem.searches_scale:
        return 1.0
    plain = Objective(replace(problem, preconditioner=None), [inner_map(problem, L)])
    first = next(iter(plain.batches(rng, batch_size)()))
    return best_scale(_loss_by_factor(problem, L, first))


def choose_scale(
    problem: Problem, forms: Sequence[AnyMap], batch: Batch, weight: Floats | None = None
) -> tuple[int, float]:
    """Return the map, and the `spread` of points under it, with the lowest value."""
    found = list[tuple[float, int, float]]()
    for L in forms:
        value = _loss_by_factor(problem, L, batch)
        own = spread(inner_map(problem, L), problem.samples.X, weight, batch.rows)
        scale = near_scale(value, _FIRST_SPREAD / own) if own > 0 else 1.0
        found.append((value(scale), len(found), scale * own))
    return min(found)[1:]


def _loss_by_factor(problem: Problem, L: AnyMap, batch: Batch) -> Callable[[float], float]:
    """Return the loss for choosing the scale, with the penalty, as a function of the factor."""
    inner, constrained = inner_map(problem, L), problem.preconditioner
    if isinstance(constrained, FlatParameters):
        (inner,) = constrained.arrays(constrained.vector([inner]))
    if problem.scale_loss is not None:
        problem = replace(problem, loss=problem.scale_loss)
    loss, inner = EmbeddedLoss(problem), inner.astype(np.float64)
    share, Z = batch.n_anchors / loss.X.shape[0], None
    if problem.evaluate is None:
        rows, anchors = loss.pool(batch, None)  # embedded points are scaled like the map
        own = np.ascontiguousarray(inner, loss.X.dtype)
        Z = map_points(loss.X if rows is None else loss.X[rows], own, loss.n_jobs)

    def value(factor: float) -> float:
        arrays = [factor * inner]
        if problem.extended is not None:
            arrays = problem.extended(arrays)
        try:
            if Z is None:
                found, _ = loss(arrays, batch)
            else:
                found, _ = loss.bound(Z * Z.dtype.type(factor), rows, anchors)
        except LossOverflowError:
            return math.inf
        found = problem.C * found
        if problem.penalty is not None:
            # Penalties are relative to the tried parameters, as at the start of a training.
            found += share * problem.penalty(arrays, arrays)[0]
        return found if math.isfinite(found) else math.inf

    return value


def inner_map(problem: Problem, L: Any) -> Array:
    """Return a map in the problem's coordinates: a basis of the span, or the features."""
    start = problem.of_span(L)
    inner: Array = L if start is None else start.inner
    return inner


def sample_points(data: Samples) -> Batch:
    """Return a fixed sample of points with positive weight, from all classes."""
    weight = np.ones(len(data.labels)) if data.weight is None else data.weight
    seen = np.flatnonzero(weight)
    rows = seen[class_batches(data.strata[seen], _SAMPLE, np.random.RandomState(0))[0]]
    return Batch(rows, len(rows))


def spread(L: AnyMap, X: Any, weight: Floats | None, rows: Any = slice(None)) -> float:
    """Return the root mean squared distance of some rows of points under a map."""
    weight = None if weight is None else weight[rows]
    Z = map_points(X[rows], L).astype(np.float64)
    Z -= np.average(Z, axis=0, weights=weight)
    return math.sqrt(2 * float(np.average(Z**2, axis=0, weights=weight).sum()))


def like(L: AnyMap, other: AnyMap, data: Samples) -> AnyMap:
    """Return the map `other`, scaled to the same spread of points as under L."""
    wanted, found = (spread(A, data.X, data.weight) for A in (L, other))
    return other * L.dtype.type(wanted / found) if wanted > 0 and found > 0 else L
