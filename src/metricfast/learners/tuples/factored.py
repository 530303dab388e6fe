"""Minimisation of a smooth function of a factor L of M."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from metricfast._core.prior import initialize_metric
from metricfast._core.progress import IterationProgress
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, RandomState
from metricfast._core.warn import warn_user
from metricfast.training.history import History
from metricfast.training.lbfgs import minimize_smooth

# Relative rounding error of the objective; line searches fail below it.
_ROUNDING = 1e-15


def start_metric(
    tuples: TupleSet, prior: str | Array, rng: int | RandomState | None, **params: Any
) -> Floats:
    """Return the initial matrix M for a prior; see :func:`initialize_metric`."""
    # Finding the distinct points can take longer than the fit, so only "covariance" does it.
    named = isinstance(prior, str) and prior == "covariance"
    points = tuples.unique_points() if named else tuples.points
    return initialize_metric(points, prior, rng, **params)


def minimize_factor(
    fitted: Any,
    objective: Callable[[Floats], tuple[float, Floats, float]],
    start: Floats,
    tol: float,
    finish: Callable[[Floats], None],
) -> bool:
    """Minimise by L-BFGS until the gap to the optimum is at most `tol`.

    Sets `n_iter_` of the learner. Warns ConvergenceWarning if it ends earlier, unless a callback
    stopped it.

    `fitted`: the learner that the user fits, with parameters `max_iter` and `verbose`.
    `objective`: gives the value and gradient at a factor, and how far from optimal the factor is.
    `start`: factor of any shape to start from.
    `tol`: largest distance from the optimum, as `objective` measures it, to end with.
    `finish`: called with the best factor at the end, also when interrupted.
    Returns whether the last factor is as near to the optimum.
    """
    stopped, present = False, start

    def set_fitted() -> None:
        fitted.n_iter_ = len(history.curve)
        finish(present)

    progress = IterationProgress(fitted, fitted.max_iter, set_fitted)
    # The solver usually ends at the last evaluated point, except after a failed line search.
    last: dict[bytes, tuple[float, Floats, float]] = {}

    def at(x: Floats) -> tuple[float, Floats, float]:
        key = x.tobytes()
        if key not in last:
            found = objective(x.reshape(start.shape))
            last.clear()
            last[key] = found
        return last[key]

    def evaluate(x: Floats) -> tuple[float, Floats]:
        value, gradient, _ = at(x)
        return value, gradient.ravel()

    def remaining(x: Floats) -> float:
        return at(x)[2]

    def observer(iteration: int, value: float, x: Floats) -> bool:
        nonlocal stopped, present
        present = x.reshape(start.shape)
        stopped = progress(iteration, value)
        return stopped or remaining(x) <= tol

    history = History(start.ravel(), observer, quiet=True)
    try:
        if not remaining(history.best_x) <= tol:
            minimize_smooth(
                evaluate, history.x, history, max_iter=fitted.max_iter, ftol=_ROUNDING, gtol=0.0
            )
        distance = remaining(history.best_x)
    finally:
        progress.close()
        fitted.n_iter_ = max(1, len(history.curve))
        finish(history.best_x.reshape(start.shape))
    if not (stopped or distance <= tol):
        warn_user(
            f"{type(fitted).__name__} stopped after {fitted.n_iter_} iterations at "
            f"{distance:.2g}, above tol={tol:g}: raise max_iter or tol, or standardise the "
            "features.",
            ConvergenceWarning,
        )
    return distance <= tol
