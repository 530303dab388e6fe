"""The initial map of a training: the map of `init`, and the best scale for the loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from metricfast._core.arrays import as_threads
from metricfast._core.initialize import as_given_map, check_n_components, initialize_components
from metricfast._core.points import dense
from metricfast._core.scatter import repetitions, within_scatter
from metricfast._core.types import Array, Floats, RandomState
from metricfast._core.warn import warn_user
from metricfast._core.wide_map import AnyMap, WideMap
from metricfast.samplers import Batch, class_batches
from metricfast.training.embedded import map_points
from metricfast.training.objective import Objective
from metricfast.training.preconditioner import FlatParameters, best_scale, near_scale
from metricfast.training.problem import Problem
from metricfast.training.samples import Samples
from metricfast.training.solvers import Solver

__all__ = [
    "Initialization",
    "choose_scale",
    "inner_map",
    "n_rows",
    "sample_points",
    "spread",
    "warn_of_cost",
]

# Number of points to choose a scale, and their root mean squared distance at its start.
_SAMPLE = 500
_FIRST_SPREAD = 4.0
# Alternative initial maps to the one of `init="auto"`. LFDA costs n_features^3.
STANDARDIZED, DISCRIMINANT, GIVEN_START = "standardized", "discriminant", "given"
_WIDE = 500
# Seconds of a thread: for a pair of points, and for each of its coordinates; for an entry of a map
# and a point, and for a step of the solver.
_PAIR, _COORDINATE, _PRODUCT, _CHANGE = 2e-9, 1.25e-10, 4e-10, 6e-9
# Most iterations that a training usually needs; copies of the parameters, with moments.
_ITERATIONS, _COPIES = 100, 6
# Seconds, and gibibytes, that a user should know of.
_LONG, _LARGE = 60.0, 2.0


def warn_of_cost(
    shapes: Sequence[tuple[int, ...]], n_points: int, n_compared: int, batch: int, solver: Solver,
    n_jobs: int | None,
) -> None:  # fmt: skip
    """Warn before a training that may take more than a minute, or gigabytes of memory.

    `shapes`: of the parameters; the last has as many rows as there are components or proxies.
    `n_compared`: the number of points that a point is compared with in an iteration.
    `batch`: the number of points of a step.
    """
    n_entries, n_iter = sum(map(math.prod, shapes)), min(solver.n_iter, _ITERATIONS)
    width = shapes[-1][0] if shapes else 0  # `Identity` has no parameters
    pairs = float(n_points) * n_compared * (_PAIR + width * _COORDINATE)
    changes = n_entries * (n_points * _PRODUCT + n_points / batch * _CHANGE)
    n_threads = as_threads(n_jobs)
    seconds = n_iter * (pairs + changes) / n_threads
    size = _COPIES * 8 * n_entries / 2**30
    if seconds <= _LONG and size <= _LARGE:
        return
    work = f"changes all {n_entries:,} parameters"
    faster = "a small n_components, such as 64, or PCA of the points before `fit`"
    if pairs > changes:
        work = f"compares all pairs of {n_points:,} points"
        faster = "solver='adam', whose steps compare the points of one batch"
    if pairs > changes and solver.by_batches:
        work = f"compares {n_points:,} points with {n_compared:,} each"
        faster = "a smaller max_epochs"
    memory = f", and {size:,.1f} GiB of memory" if size > _LARGE else ""
    warn_user(
        f"Each iteration {work}: {n_iter} iterations may take {math.ceil(seconds / 60):,} "
        f"minute(s) on {n_threads} thread(s){memory}; the judge needs some more. Faster: {faster}."
    )


def n_rows(init: Any, n_components: int | None, n_features: int) -> int:
    """Return the number of rows of the map."""
    init = as_given_map(init)
    if isinstance(init, np.ndarray) and init.ndim == 2 and n_components is None:
        return len(init)
    return check_n_components(n_features, n_components)


@dataclass(frozen=True)
class Initialization:
    """How a training finds its initial map.

    Parameters
    ----------
    init : str or ndarray
        The parameter of the learner.
    n_components : int or None
    scale : str or None
        "auto" looks for the scale at which the loss is lowest.
    has_classes : bool
        Whether labels are classes to the learner.
    by_batches : bool
        Whether the solver takes mini-batches, of `batch_size` anchors.
    batch_size : int or None
    discriminant : callable, optional
        Returns a discriminant map, as ``discriminant(points, classes, weight, n_rows)``.
    verbose : bool
    warm : ndarray, optional
        The map of an earlier fit, of points as given, to start from.
    chosen : dict
        Forms and spreads that were chosen for other splits of the same data; more are added.
    """

    init: Any
    n_components: int | None
    scale: str | None
    has_classes: bool
    by_batches: bool
    batch_size: int | None = None
    discriminant: Callable[..., Array] | None = None
    verbose: bool = False
    warm: Array | None = None
    chosen: dict[str | None, tuple[int, float]] = field(default_factory=dict)

    def alternatives(self, data: Samples) -> list[str]:
        """Return the names of alternatives to the map of `init="auto"`."""
        n_features = data.X.shape[1]
        if not self._is_auto:
            return []
        # `scale` also tries standardised features.
        standardize = self.n_components in (None, n_features) and self.scale is None
        discriminant = self.discriminant is not None and self.has_classes and n_features <= _WIDE
        return [STANDARDIZED] * standardize + [DISCRIMINANT] * discriminant

    @property
    def given(self) -> str | None:
        """The name of the map that changes distances least, or None for the map of `init`."""
        return GIVEN_START if self._is_auto else None

    @property
    def _is_auto(self) -> bool:
        return isinstance(self.init, str) and self.init == "auto"

    def initial_map(self, data: Samples, rng: RandomState, *, quiet: bool = False) -> AnyMap:
        """Return the map of `init`, or the map of an earlier fit.

        If the points have a span, the identity is a `WideMap`.

        `quiet`: without a warning about its size.
        """
        init, n_features = as_given_map(self.init), data.X.shape[1]
        rows = n_rows(self.init, self.n_components, n_features)
        new = self.warm is None and isinstance(init, str) and init in ("auto", "identity")
        if new and data.span is not None and rows == n_features:
            return WideMap(np.ones(n_features), dtype=data.X.dtype)
        L = initialize_components(
            data.X,
            data.labels if self.has_classes else None,
            init,
            rows,
            rng,
            verbose=self.verbose,
            sample_weight=data.weight,
        )
        if self.warm is None:
            return data.rescale_map(L, quiet=quiet) if isinstance(init, np.ndarray) else L
        if self.warm.shape[1] != L.shape[1]:
            raise ValueError(
                f"warm_start needs points of {self.warm.shape[1]} features as in the fit before, "
                f"got {L.shape[1]}: set warm_start=False."
            )
        if self.warm.shape != L.shape:
            raise ValueError(
                f"warm_start needs a map of the same shape as in the fit before, "
                f"{self.warm.shape}, got {L.shape}: set warm_start=False."
            )
        return data.rescale_map(self.warm, quiet=quiet)

    def start(
        self, problem: Problem, data: Samples, L: AnyMap, rng: RandomState,
        name: str | None = None,
    ) -> Objective:  # fmt: skip
        """Return the objective that starts from the result of `initial_map`.

        `name`: one of `alternatives`, to start from it instead.
        """
        if isinstance(L, WideMap) and problem.samples.outer is None:
            L = L.array()
        initial, new = L, self.warm is None
        if name is not None:
            L = _spread_like(L, self._alternative(name, L, data), data)
        if new and isinstance(self.init, str) and problem.rescale is not None:
            L = L * L.dtype.type(problem.rescale(inner_map(problem, L)))
        if new and self.by_batches:
            L = L * self._scale_by_batch(problem, L, rng)
        elif new and self.scale == "auto" and isinstance(self.init, str):
            L = self._scaled(problem, data, L, name)
        if name is not None and problem.refresh is not None:
            problem.refresh(inner_map(problem, L))
        objective = Objective(problem, [L])
        objective.initial_map = initial
        return objective

    def _alternative(self, name: str, L: AnyMap, data: Samples) -> AnyMap:
        """Return the named map with as many rows as L, or L if the points have no such map."""
        if name == GIVEN_START and len(L) < L.shape[1]:
            return initialize_components(data.X, None, "pca", len(L))
        if name in (GIVEN_START, STANDARDIZED):
            given = _identity(L)
            return given if name == GIVEN_START else _standardized(given, data)
        assert self.discriminant is not None
        points = dense(data.X)
        try:
            return self.discriminant(points, data.labels, data.weight, len(L))
        except ValueError:  # the points of some class coincide
            return L

    def _scale_by_batch(self, problem: Problem, L: AnyMap, rng: RandomState) -> float:
        """Return the factor of the map that minimises the loss of the first batch."""
        if not problem.searches_scale:
            return 1.0
        value, objective = of_scales(problem, L)
        first = next(iter(objective.batches(rng, self.batch_size)()))
        return best_scale(lambda scale: value(scale, first))

    def _scaled(self, problem: Problem, data: Samples, L: AnyMap, name: str | None) -> AnyMap:
        sample = sample_points(data)
        given = problem.standardizes and name is None and _is_identity(L)
        forms = [L, _standardized(L, data)] if given else [L]
        X = problem.samples.X
        if name not in self.chosen:
            self.chosen[name] = choose_scale(problem, forms, sample, data.weight)
        form, wanted = self.chosen[name]
        L, found = forms[form], spread(inner_map(problem, forms[form]), X, sample, data.weight)
        return L * L.dtype.type(wanted / found) if wanted > 0 and found > 0 else L


def choose_scale(
    problem: Problem, forms: Sequence[AnyMap], batch: Batch, weight: Floats | None = None
) -> tuple[int, float]:
    """Return the map, and the `spread` of points under it, with the lowest value."""
    found = list[tuple[float, int, float]]()
    for L in forms:
        value, _ = of_scales(problem, L)
        own = spread(inner_map(problem, L), problem.samples.X, batch, weight)

        def at(scale: float, value: Callable[[float, Batch], float] = value) -> float:
            return value(scale, batch)

        scale = near_scale(at, _FIRST_SPREAD / own) if own > 0 else 1.0
        found.append((at(scale), len(found), scale * own))
    return min(found)[1:]


def of_scales(problem: Problem, L: AnyMap) -> tuple[Callable[[float, Batch], float], Objective]:
    """Return a function ``value(factor, batch)`` of the scaled map, and its objective.

    The loss is the one for choosing the scale.
    """
    inner, constrained = inner_map(problem, L), problem.preconditioner
    if isinstance(constrained, FlatParameters):
        (inner,) = constrained.arrays(constrained.vector([inner]))
    loss = problem.loss if problem.scale_loss is None else problem.scale_loss
    scaled = replace(problem, loss=loss, preconditioner=None)
    if (penalty := problem.penalty) is not None:
        # Penalties are relative to the tried parameters, as at the start of a training.
        scaled = replace(scaled, penalty=lambda arrays, start: penalty(arrays, arrays))
    objective = Objective(scaled, [inner])

    def value(factor: float, batch: Batch) -> float:
        arrays = [factor * inner.astype(np.float64)]
        if problem.extended is not None:
            arrays = problem.extended(arrays)
        return objective(objective.preconditioner.vector(arrays), batch)[0]

    return value, objective


def inner_map(problem: Problem, L: Any) -> Array:
    """Return a map in the problem's coordinates: a basis of the span, or the features."""
    start = problem.of_span(L)
    inner: Array = L if start is None else start.inner
    return inner


def _identity(L: AnyMap) -> AnyMap:
    """Return the identity, stored like L."""
    if isinstance(L, WideMap):
        return WideMap(np.ones(len(L)), dtype=L.dtype)
    return np.eye(*L.shape, dtype=L.dtype)


def _is_identity(L: AnyMap) -> bool:
    if isinstance(L, WideMap):
        return bool((L.diagonal == 1).all())
    return np.array_equal(L, np.eye(*L.shape))


def sample_points(data: Samples) -> Batch:
    """Return a fixed sample of points with positive weight, from all classes."""
    weight = np.ones(len(data.labels)) if data.weight is None else data.weight
    seen = np.flatnonzero(weight)
    rows = seen[class_batches(data.strata[seen], _SAMPLE, np.random.RandomState(0))[0]]
    return Batch(rows, len(rows))


def spread(L: Array, X: Any, batch: Batch, weight: Floats | None = None) -> float:
    """Return the root mean squared distance of the points of a batch under a map."""
    return _distance(map_points(X[batch.rows], L), None if weight is None else weight[batch.rows])


def _distance(Z: Array, weight: Floats | None) -> float:
    Z = Z.astype(np.float64)
    Z -= np.average(Z, axis=0, weights=weight)
    return math.sqrt(2 * float(np.average(Z**2, axis=0, weights=weight).sum()))


def _spread_like(L: AnyMap, other: AnyMap, data: Samples) -> AnyMap:
    """Return the map `other`, scaled to the same spread of points as under L."""
    wanted, found = (_distance(map_points(data.X, A), data.weight) for A in (L, other))
    return other * L.dtype.type(wanted / found) if wanted > 0 and found > 0 else L


def _standardized(L: AnyMap, data: Samples) -> AnyMap:
    """Return the map that first standardises the features."""
    data = data.representative
    group = np.zeros(len(data.labels), np.int64)
    squares = within_scatter(data.X, group, data.weight, diagonal=True)
    # A feature that is constant in a fold differs from its mean by rounding.
    size = abs(data.X).max(axis=0)
    size = size.toarray().ravel() if issparse(size) else size
    rounding = len(group) * np.finfo(np.float64).eps * size.astype(np.float64)
    varying = squares > repetitions(data.weight, len(group)).sum() * rounding**2
    units = np.sqrt(squares / (squares.max(initial=0) or 1.0))
    units = np.where(varying & (units > 0), units, 1)
    return L * (1 / units) if isinstance(L, WideMap) else np.asarray(L / units, L.dtype)
