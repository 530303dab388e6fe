"""Starts: the initial map of a training, by name, and the scale by which its loss is lowest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import issparse

from metricfast._core.initialize import initialize_components
from metricfast._core.points import dense
from metricfast._core.scatter import (
    LOCAL_NEIGHBORS,
    local_scatters,
    repetitions,
    svd,
    with_signs,
    within_scatter,
)
from metricfast._core.types import Floats, RandomState
from metricfast._core.wide_map import AnyMap, WideMap, to_array
from metricfast.exceptions import LossOverflowError
from metricfast.samplers import Batch, class_batches
from metricfast.training.embedded import map_points
from metricfast.training.objective import EmbeddedLoss, Objective
from metricfast.training.preconditioner import FlatParameters
from metricfast.training.problem import Problem
from metricfast.training.samples import Samples
from metricfast.training.solvers import Solver

GIVEN_START, LINEAR, STANDARDIZED, WHITENED = "given", "linear", "standardized", "whitened"
# Multiple of the identity that is added to the scatter within classes, relative to its mean
# variance.
_WITHIN = 0.05
# Variance of noise, relative to the mean variance, that every feature has within classes.
_NOISE = 1e-6
# Number of points to choose a scale, and their root mean squared distance at its start.
_SAMPLE = 500
_FIRST_SPREAD = 4.0
# As exponents of two: only the longest step is repeated, up to this distance from the start.
# Duplicates have the lowest loss at the largest scale, where other points have no gradient.
_LONGEST, _FAR = 2.0, 4


def given(samples: Samples, n_rows: int) -> AnyMap:
    """Return the map that changes distances least: the identity, or principal components."""
    if n_rows < samples.X.shape[1]:
        return initialize_components(samples.X, None, "pca", n_rows)
    return _identity(samples, n_rows)


def linear(samples: Samples, n_rows: int) -> AnyMap:
    """Return the map of ``init="auto"``, of at most as many rows as features."""
    return initialize_components(
        samples.X, samples.class_codes, "auto", min(n_rows, samples.X.shape[1])
    )


def standardized(samples: Samples, n_rows: int) -> AnyMap:
    """Return the map that standardises the features."""
    return in_units(_identity(samples, n_rows), samples)


def whitened(samples: Samples, n_rows: int) -> AnyMap:
    """Return the directions of greatest variance after whitening within classes."""
    X, y, weight = dense(samples.X), samples.labels, samples.weight
    within = within_scatter(X, y, weight, diagonal=False)
    total = within_scatter(X, np.zeros_like(y), weight, diagonal=False)
    trace = np.trace(within) or np.trace(total) or 1.0
    ridge = _WITHIN * trace / samples.n_features  # more than the columns of coordinates
    within += ridge * np.eye(len(within))
    directions = eigh(total, within)[1].T[::-1]
    L = np.zeros((n_rows, len(total)))
    L[: len(directions)] = directions[:n_rows]
    beyond = samples.n_features - len(within)  # rows of the same length as in the last direction
    return np.asarray(L * np.sqrt((min(L.shape) + beyond) / (np.sum(L**2) + beyond / ridge)))


def discriminant(
    samples: Samples, n_rows: int, *, share: float = 0.0, towards: str = "total"
) -> AnyMap:
    r"""Return the directions of `LFDA`, which separate the classes.

    They are the eigenvectors of :math:`T v = \lambda S v` with the largest :math:`\lambda`, times
    :math:`\sqrt{\lambda - 1}`, for the local scatter S within classes and its sum T with the
    scatter between classes. S is moved by a share towards T ("total"), the variances of the
    features ("variances") or the identity ("identity").
    """
    d, weight = samples.X.shape[1], repetitions(samples.weight, samples.X.shape[0])
    units = np.ones(d) if towards == "identity" else deviations(samples)
    Z, axes = dense(samples.X)[weight > 0] / units, None
    if len(Z) < d:  # the scatters of coordinates in the span of the points are smaller
        axes = svd(Z)[2]
        Z = Z @ axes.T
    codes = np.unique(samples.labels[weight > 0], return_inverse=True)[1]
    T, S = local_scatters(Z, codes, weight[weight > 0], LOCAL_NEIGHBORS)[:2]
    size, eye = np.trace(T) or 1.0, np.eye(len(T)) / d
    target = T / size if towards == "total" else eye
    S = (1 - share) * S + share * np.trace(S) * target + _NOISE * size * eye
    ratios, directions = eigh(T, S)
    rows = with_signs((directions * np.sqrt(np.maximum(ratios - 1, 0))).T[::-1][:n_rows])
    L = np.zeros((n_rows, d), samples.X.dtype)
    L[: len(rows)] = (rows if axes is None else rows @ axes) / units
    return L


# The discriminant maps, of which the judge chooses one before training.
DISCRIMINANTS: dict[str, Callable[[Samples, int], AnyMap]] = {
    "discriminant": discriminant,
    "discriminant, 0.3 towards total": partial(discriminant, share=0.3),
    "discriminant, 0.6 towards variances": partial(discriminant, share=0.6, towards="variances"),
    "discriminant, 0.6 towards identity": partial(discriminant, share=0.6, towards="identity"),
}
STARTS: dict[str, Callable[[Samples, int], AnyMap]] = {
    GIVEN_START: given, LINEAR: linear, STANDARDIZED: standardized, WHITENED: whitened,
    **DISCRIMINANTS,
}  # fmt: skip


def begin_at(
    problem: Problem, samples: Samples, L: AnyMap, rng: RandomState, name: str | None,
    solver: Solver, *, rescales: bool, searches: bool,
    chosen: dict[str | None, tuple[int, float]] | None = None,
) -> Objective:  # fmt: skip
    """Return the objective of a training that starts from a map.

    Parameters
    ----------
    problem : Problem
        Of a linear map.
    samples : Samples
        Of all features, also if the problem is trained in a span.
    L : ndarray or WideMap
    rng : RandomState
        Draws the batch for the search of a scale.
    name : str or None
        A key of `STARTS`, to start from in place of L, with as many rows.
    solver : solver
    rescales : bool
        Whether the problem may rescale the map.
    searches : bool
        Whether to multiply the map by the factor at which the loss is lowest: of the first batch,
        or, with a solver of all points, of up to 500 points.
    chosen : dict, optional
        Forms and spreads that were chosen for other splits of the same data; more are added.
    """
    initial = L = L if problem.samples.outer is not None else to_array(L)
    if name is not None:
        start = STARTS[name](samples, len(L))
        L = like(L, start if problem.samples.outer is not None else to_array(start), samples)
    if rescales and problem.rescale is not None:
        L = L * L.dtype.type(problem.rescale(problem.samples.inner_map(L)))
    if searches and solver.by_batches and problem.searches_scale:
        plain = Objective(replace(problem, preconditioner=None), [problem.samples.inner_map(L)])
        batches = plain.batches(rng, solver)
        assert batches is not None
        L = L * best_scale(_loss_by_factor(problem, L, next(iter(batches()))))
    elif searches and not solver.by_batches:
        batch, forms, chosen = sample_points(samples), [L], {} if chosen is None else chosen
        if problem.standardizes and name is None and _is_identity(L):
            forms.append(in_units(L, samples))
        if name not in chosen:
            chosen[name] = choose_scale(problem, forms, batch, samples.weight)
        form, wanted = chosen[name]
        L = forms[form]
        found = spread(problem.samples.inner_map(L), problem.samples.X, samples.weight, batch.rows)
        L = L * L.dtype.type(wanted / found) if wanted > 0 and found > 0 else L
    if name is not None and problem.refresh is not None:
        problem.refresh(problem.samples.inner_map(L))
    objective = Objective(problem, [L])
    objective.initial_map = initial
    return objective


def in_units(L: AnyMap, samples: Samples) -> AnyMap:
    """Return the map that standardises the features before L."""
    units = deviations(samples)
    return L * (1 / units) if isinstance(L, WideMap) else np.asarray(L / units, L.dtype)


def deviations(samples: Samples) -> Floats:
    """Return standard deviations, relative to the largest; 1 for constant features."""
    samples = samples.representative
    group = np.zeros(len(samples.labels), np.int64)
    squares = within_scatter(samples.X, group, samples.weight, diagonal=True)
    # A feature that is constant in a fold differs from its mean by rounding.
    size = abs(samples.X).max(axis=0)
    size = size.toarray().ravel() if issparse(size) else size
    rounding = len(group) * np.finfo(np.float64).eps * size.astype(np.float64)
    varying = squares > repetitions(samples.weight, len(group)).sum() * rounding**2
    units = np.sqrt(squares / (squares.max(initial=0) or 1.0))
    return np.where(varying & (units > 0), units, 1.0)


def _identity(samples: Samples, n_rows: int) -> AnyMap:
    """Return the identity, as a `WideMap` if the points have a span."""
    n_features, dtype = samples.X.shape[1], samples.X.dtype
    if samples.span is not None and samples.outer is None and n_rows == n_features:
        return WideMap(np.ones(n_features), dtype=dtype)
    return np.eye(n_rows, n_features, dtype=dtype)


def _is_identity(L: AnyMap) -> bool:
    if isinstance(L, WideMap):
        return bool((L.diagonal == 1).all())
    return np.array_equal(L, np.eye(*L.shape))


def choose_scale(
    problem: Problem, forms: Sequence[AnyMap], batch: Batch, weight: Floats | None = None
) -> tuple[int, float]:
    """Return the map, and the `spread` of points under it, with the lowest value."""
    found = list[tuple[float, int, float]]()
    for L in forms:
        value = _loss_by_factor(problem, L, batch)
        own = spread(problem.samples.inner_map(L), problem.samples.X, weight, batch.rows)
        scale = near_scale(value, _FIRST_SPREAD / own) if own > 0 else 1.0
        found.append((value(scale), len(found), scale * own))
    return min(found)[1:]


def _loss_by_factor(problem: Problem, L: AnyMap, batch: Batch) -> Callable[[float], float]:
    """Return the loss for choosing the scale, with the penalty, as a function of the factor."""
    inner, constrained = problem.samples.inner_map(L), problem.preconditioner
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
    wanted, found = spread(L, data.X, data.weight), spread(other, data.X, data.weight)
    return other * L.dtype.type(wanted / found) if wanted > 0 and found > 0 else L


def best_scale(value: Callable[[float], float]) -> float:
    """Return the minimiser of `value` from 2^-20 to 2^20, to an eighth of a power of two."""
    best: float = min((2.0**k for k in range(-20, 21)), key=value)
    # Refine: from twice or half the best scale, mini-batches would need epochs to correct it.
    eighths = (0, *range(-4, 0), *range(1, 5))
    return min((best * float(2.0 ** (k / 8)) for k in eighths), key=value)


def near_scale(value: Callable[[float], float], start: float) -> float:
    """Return a local minimiser of `value` near `start`, to a quarter of a power of two.

    It needs about a dozen evaluations, and `best_scale` about 48.
    """
    at, best = cache(lambda exponent: value(start * 2.0**exponent)), 0.0
    for step in (2.0, 1.0, 0.5, 0.25):
        while (found := min((best, best - step, best + step), key=at)) != best:
            best = found
            if step < _LONGEST or abs(best) >= _FAR:
                break
    return start * float(2.0**best)
