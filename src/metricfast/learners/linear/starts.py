"""Where training starts: the scale, and the units of features, that a loss prefers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from metricfast._core.initialize import as_given_map, check_n_components, initialize_components
from metricfast._core.scatter import within_scatter
from metricfast.learners.base.points import PointsLearner, TrainingSet
from metricfast.learners.closed.lfda import LFDA
from metricfast.samplers import Batch, class_batches
from metricfast.training.coordinates import Coordinates, best_scale, near_scale
from metricfast.training.objective import Objective, map_points

__all__ = ["Starting", "lowest", "some_points", "spread"]

Array = NDArray[Any]
# Points that a start is chosen by, and how far they are from each other first.
_SOME = 500
_APART = 4.0
# Starts beside the one that `init="auto"` names. The second costs n_features^3.
STANDARDIZED, DISCRIMINANT = "standardized", "discriminant"
_WIDE = 500


class Starting(PointsLearner):
    """What decides where the training of a linear learner starts."""

    init: Any = "auto"
    init_scale: str | None = None
    n_components: int | None = None
    n_jobs: int | None
    solver: str = "lbfgs"

    @abstractmethod
    def _objective(self, data: TrainingSet, L: Array) -> Objective:
        """Return what is minimised, of training data and a map to start from."""

    def _scale_objective(self, objective: Objective) -> Objective:
        """Return what is lowest at the scale of the map that mini-batches should start from."""
        return objective

    def _rescaled(self, objective: Objective, data: TrainingSet, L: Array) -> None:
        """Tell an objective of another map to start from."""

    @abstractmethod
    def _batches(
        self, data: TrainingSet, objective: Objective, rng: np.random.RandomState
    ) -> Callable[[], Iterable[Batch]]:
        """Return what draws the batches of an epoch."""

    def _start(self, data: TrainingSet, L: Array) -> Array:
        """Return the map to start from, given what `init` says."""
        return L

    def _starting(
        self,
        data: TrainingSet,
        rng: np.random.RandomState,
        kept: Array | None,
        start: str | None = None,
        spreads: dict[str | None, Any] | None = None,
    ) -> tuple[Objective, Array]:
        """Return what is minimised, and from where, which is what is `kept` of an earlier fit.

        `start`: one of `_other_starts` in place of what `init` says. `spreads`: which of its forms
        and scales serve points like these; what is not there yet is found and added.
        """
        L = self._initialize(data, rng, kept)
        if start is not None:
            L = _like(L, self._other_start(start, L, data), data)
        L = self._start(data.few, L) if kept is None else L
        objective = self._objective(data, L)
        if kept is None and self.solver != "lbfgs":
            L = L * self._best_scale(objective, L, self._batches(data, objective, rng))
            self._rescaled(objective, data, L)
        elif kept is None and self.init_scale == "auto" and isinstance(self.init, str):
            spreads, some = {} if spreads is None else spreads, some_points(data)
            starts = [L] if start else self._starts(data, L)
            if start not in spreads:
                value = self._scale_objective(objective.here())
                spreads[start] = lowest(value, objective, starts, some, data.weight)
            L, apart = starts[spreads[start][0]], spreads[start][1]
            found = spread(L, objective.X, some, data.weight)
            L = np.asarray(L * L.dtype.type(apart / found)) if apart > 0 and found > 0 else L
            self._rescaled(objective, data, L)
        return objective, objective.coordinates.vector([L])

    def _initialize(
        self, data: TrainingSet, rng: np.random.RandomState, kept: Array | None
    ) -> Array:
        """Make the map of `data.X` to start from, and keep it in case of an interrupt."""
        init = as_given_map(self.init)
        given, n_components = isinstance(init, np.ndarray), self._rows_of_map(data.X.shape[1])
        L = initialize_components(
            data.X,
            data.labels if self._has_classes else None,
            init,
            n_components,
            rng,
            verbose=bool(self.verbose),
            sample_weight=data.weight,
        )
        if kept is not None:
            if kept.shape[1] != L.shape[1]:
                raise ValueError(
                    f"warm_start needs points of {kept.shape[1]} features as in the fit before, "
                    f"got {L.shape[1]}: set warm_start=False."
                )
            if kept.shape != L.shape:
                raise ValueError(
                    f"warm_start needs a map of the same shape as in the fit before, {kept.shape}, "
                    f"got {L.shape}: set warm_start=False."
                )
            L = data.start(kept)
        elif given:
            L = data.start(L)
        self.components_ = data.undo_scale(L)
        return L

    def _rows_of_map(self, n_features: int) -> int:
        """Return how many rows the map has."""
        init = as_given_map(self.init)
        if isinstance(init, np.ndarray) and init.ndim == 2 and self.n_components is None:
            return len(init)
        return check_n_components(n_features, self.n_components)

    def _other_starts(self, data: TrainingSet) -> list[str]:
        """Return the names of starts that "auto" may mean beside what it says."""
        n_features = data.X.shape[1]
        named = isinstance(self.init, str) and self.init == "auto"
        # `init_scale` looks at standardized features, too.
        standard = self.n_components in (None, n_features) and self.init_scale is None
        discriminant = self._has_classes and n_features <= _WIDE
        return [STANDARDIZED] * (named and standard) + [DISCRIMINANT] * (named and discriminant)

    def _other_start(self, name: str, L: Array, data: TrainingSet) -> Array:
        """Return such a start, of as many rows as L; L itself where the points have none."""
        if name == STANDARDIZED:
            return standardized(np.eye(*L.shape, dtype=L.dtype), data)
        points = data.X.toarray() if issparse(data.X) else data.X
        try:
            found = LFDA(len(L), n_jobs=self.n_jobs).fit(points, data.labels, data.weight)
        except ValueError:  # of points of a class that do not differ
            return L
        return found.components_

    def _starts(self, data: TrainingSet, L: Array) -> list[Array]:
        """Return the maps of which one is to start from, once it is scaled."""
        return [L, standardized(L, data.few)] if np.array_equal(L, np.eye(*L.shape)) else [L]

    def _best_scale(
        self, objective: Objective, L: Array, batches: Callable[[], Iterable[Batch]]
    ) -> float:
        """Return the factor of the map that mini-batches should start from."""
        coordinates, first = objective.coordinates, next(iter(batches()))
        assert isinstance(coordinates, Coordinates)
        x0, value = coordinates.vector([L]), self._scale_objective(objective.here())
        return best_scale(lambda scale: value(coordinates.scaled(x0, scale), first)[0])


def _like(L: Array, other: Array, data: TrainingSet) -> Array:
    """Return another map times the factor that spreads points as far as L does."""
    wanted, found = (_spread(map_points(data.X, A), data.weight) for A in (L, other))
    return np.asarray(other * L.dtype.type(wanted / found)) if wanted > 0 and found > 0 else L


def _spread(Z: Array, weight: NDArray[np.float64] | None) -> float:
    """Return how far points are from each other, in the root mean square."""
    Z = Z.astype(np.float64)
    Z -= np.average(Z, axis=0, weights=weight)
    return math.sqrt(2 * float(np.average(Z**2, axis=0, weights=weight).sum()))


def standardized(L: Array, data: TrainingSet) -> Array:
    """Return a map of features that are first divided by their standard deviations."""
    group = np.zeros(len(data.labels), np.int64)
    squares = within_scatter(data.X, group, data.weight, diagonal=True)
    units = np.sqrt(squares / (squares.max(initial=0) or 1.0))
    return np.asarray((L / np.where(units > 0, units, 1)).astype(L.dtype))


def some_points(data: TrainingSet) -> Batch:
    """Return some of the points that count, of each class its share, always the same."""
    weight = np.ones(len(data.labels)) if data.weight is None else data.weight
    seen = np.flatnonzero(weight)
    rows = seen[class_batches(data.groups[seen], _SOME, np.random.RandomState(0))[0]]
    return Batch(rows, len(rows))


def lowest(
    value: Callable[[Array, Batch], tuple[float, Array]],
    objective: Objective,
    starts: list[Array],
    batch: Batch,
    weight: NDArray[np.float64] | None = None,
) -> tuple[int, float]:
    """Return which map, and which `spread` by it, makes a value of a batch lowest.

    The search begins where points are 4 apart in the mean.
    """
    coordinates, found = objective.coordinates, list[tuple[float, int, float]]()
    assert isinstance(coordinates, Coordinates)
    for L in starts:
        x0, apart = coordinates.vector([L]), spread(L, objective.X, batch, weight)

        def at(scale: float, x0: Array = x0) -> float:
            return value(coordinates.scaled(x0, scale), batch)[0]

        scale = near_scale(at, _APART / apart) if apart > 0 else 1.0
        found.append((at(scale), len(found), scale * apart))
    return min(found)[1:]


def spread(L: Array, X: Any, batch: Batch, weight: NDArray[np.float64] | None = None) -> float:
    """Return how far points of a batch are from each other, in the root mean square."""
    return _spread(map_points(X[batch.rows], L), None if weight is None else weight[batch.rows])
