"""Minimisation of a smooth function of a factor L of M."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.prior import initialize_metric
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, RandomState
from metricfast._core.warn import warn_user
from metricfast.training.embedded import PlainLinear
from metricfast.training.history import History
from metricfast.training.objective import Objective
from metricfast.training.problem import Problem
from metricfast.training.samples import Samples
from metricfast.training.solvers import LBFGS
from metricfast.training.train import train

# Gives the value and gradient at a factor, and how far from optimal the factor is.
Function = Callable[[Floats], tuple[float, Floats, float]]


def start_metric(
    tuples: TupleSet, prior: str | Array, rng: int | RandomState | None, **params: Any
) -> Floats:
    """Return the initial matrix M for a prior; see :func:`initialize_metric`."""
    # Finding the distinct points can take longer than the fit, so only "covariance" does it.
    named = isinstance(prior, str) and prior == "covariance"
    points = tuples.unique_points() if named else tuples.points
    return initialize_metric(points, prior, rng, **params)


def minimize_factor(
    learner: Any, points: Array, function: Function, start: Floats,
    map_of: Callable[[Floats], Array],
) -> bool:  # fmt: skip
    """Minimise by L-BFGS until the gap to the optimum is at most `tol` of the learner.

    The learner has `set_factor` as `_set_fitted`. Warns ConvergenceWarning if the minimisation ends
    earlier, unless a callback stopped it.

    `start`: factor of any shape to start from.
    `map_of`: returns the map of a factor.
    Returns whether the last factor is as near to the optimum.
    """
    gaps = _Gaps(function, float(learner.tol))
    problem = Problem(
        Samples(points), None, embedding=PlainLinear(lambda arrays: map_of(arrays[0])),
        evaluate=gaps.evaluate, metrics=lambda _: gaps,
    )  # fmt: skip
    objective = Objective(problem, [start])
    history = objective.history(np.random.RandomState(0), quiet=True)
    if gaps.at(start) <= gaps.tol:
        history.max_iter = 0
    # Line searches fail below the rounding error of the objective.
    train(learner, objective, history, LBFGS(learner.max_iter, 1e-15))
    gap = gaps.at(history.best_x.reshape(start.shape))
    if not (history.stopped or gap <= gaps.tol):
        warn_user(
            f"{type(learner).__name__} stopped after {learner.n_iter_} iterations at {gap:.2g}, "
            f"above tol={learner.tol:g}: raise max_iter or tol, or standardise the features.",
            ConvergenceWarning,
        )
    return gap <= gaps.tol


def set_factor(learner: Any, objective: Objective, history: History, x: Array, _: bool) -> None:
    """Set `n_iter_` and `components_`, also when interrupted."""
    learner.n_iter_ = max(1, len(history.curve))
    learner.components_ = objective.problem.embedding.map_of(objective.parameters(x))


class _Gaps:
    """The distance of each factor from the optimum. Training ends when it is small enough."""

    def __init__(self, function: Function, tol: float) -> None:
        self.values: dict[str, list[float]] = {}
        self.tol, self._function = tol, function
        self._last: tuple[Floats, tuple[float, Floats, float]] | None = None

    def evaluate(self, _loss: Any, arrays: list[Floats], _batch: Any) -> tuple[float, list[Floats]]:
        """Return value and gradient."""
        return self._at(arrays[0])[0], [self._at(arrays[0])[1]]

    def at(self, factor: Floats) -> float:
        """Return the gap at a factor."""
        return self._at(factor)[2]

    def record(self, value: float) -> bool:
        """Return whether the factor of this iteration, which was evaluated last, is the result."""
        return self._last is not None and self._last[1][2] <= self.tol

    def check(self, values: dict[str, list[float]], n_done: int) -> None:
        """Do nothing: there is no checkpoint."""

    def follow(self, objective: Any) -> None:
        """Do nothing: the function stays."""

    def _at(self, factor: Floats) -> tuple[float, Floats, float]:
        if self._last is None or not np.array_equal(self._last[0], factor):
            self._last = factor.copy(), self._function(factor)
        return self._last[1]
