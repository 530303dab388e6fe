"""L-BFGS for sums of hinges.

It minimises over a flat float64 vector and reports every iteration to a `History`, which keeps the
best parameters.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from metricfast.training.history import DivergedError, History, Vector

_Function = Callable[[Vector], tuple[float, Vector]]


def minimize_hinge(
    fun: _Function,
    x0: Vector,
    history: History,
    *,
    min_iter: int,
    max_iter: int,
    tol: float,
    memory: int = 10,
    window: int = 5,
    refresh: Callable[[Vector], None] | None = None,
    refresh_every: int = 10,
) -> None:
    """Minimise a piecewise smooth function by L-BFGS with a weak Wolfe line search.

    The gradient of a sum of hinges need not vanish at a minimum, so its norm does not show
    convergence. The minimisation stops after `min_iter` iterations or more, when the objective
    falls by less than `tol` times its value an iteration, on average over the last `window`
    iterations. It also stops when the fall is less than the rounding error of the initial value. A
    line search that fails restarts once with cleared memory. A second failure in a row ends the
    minimisation, and so does a zero gradient.

    `refresh` updates state of the function for x, such as the targets of LMNN. It never raises the
    value. It is called every `refresh_every` iterations, and at convergence. The minimisation ends
    when it too lowers the value by less than `tol`.

    Warns ConvergenceWarning when it ends otherwise.

    References
    ----------
    A. S. Lewis and M. L. Overton, "Nonsmooth optimization via quasi-Newton methods",
    Mathematical Programming 141 (2013), 135-163.
    """
    if history.stalled:
        return
    x, (value, gradient) = x0, fun(x0)
    if not math.isfinite(value):
        raise DivergedError
    recent = deque([value], maxlen=window + 1)
    pairs: deque[_Pair] = deque(maxlen=memory)
    iteration, refreshed, rounding = 0, 0, float(np.finfo(float).eps) * abs(value)

    def converged() -> bool:
        steps = len(recent) - 1
        least = max(tol * abs(recent[-1]), rounding)
        return steps > 0 and recent[0] - recent[-1] <= steps * least

    while iteration < max_iter and np.linalg.norm(gradient) > 0:
        found = _weak_wolfe(fun, x, value, gradient, _descent(gradient, pairs, x))
        if found is None:
            if pairs:
                pairs.clear()
                continue
            if not converged():
                history.warn(
                    "The line search failed twice: rescale the data, or raise the tolerance."
                )
            break
        iteration += 1
        step, value, new_gradient = found
        change = new_gradient - gradient
        curvature = float(step @ change)
        if curvature > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):
            pairs.append(_Pair(step, change, curvature))
        x, gradient = x + step, new_gradient
        recent.append(value)
        if history(value, x):
            return
        ends = iteration >= min_iter and converged()
        if refresh is not None and (ends or iteration - refreshed >= refresh_every):
            refresh(x)
            refreshed, (value, gradient) = iteration, fun(x)
            ends = ends and recent[-1] - value <= max(tol * abs(value), rounding)
            recent[-1] = value
        if ends:
            history.best_objective = min(history.best_objective, value)
            return
    if math.isinf(history.best_objective):
        history.record_start(value, x)
    if iteration == max_iter:
        history.warn(f"No convergence in {max_iter} iterations: raise max_iter or the tolerance.")


class _Pair(NamedTuple):
    """A step, the change of the gradient along it, and their product."""

    step: Vector
    change: Vector
    curvature: float


def _descent(gradient: Vector, pairs: Sequence[_Pair], x: Vector) -> Vector:
    """Return the L-BFGS direction; without memory, steepest descent with length |x| / 10."""
    if not pairs:
        length = 0.1 * (float(np.linalg.norm(x)) or 1.0)
        return gradient * (-length / float(np.linalg.norm(gradient)))
    direction: Vector = -gradient
    shares = []
    for step, change, curvature in reversed(pairs):
        share = (step @ direction) / curvature
        direction -= share * change
        shares.append(share)
    last = pairs[-1]
    direction *= last.curvature / (last.change @ last.change)
    for (step, change, curvature), share in zip(pairs, reversed(shares), strict=True):
        direction += (share - (change @ direction) / curvature) * step
    # Limit the first step: far away, most points are impostors, and an evaluation is slowest.
    longest = 0.25 * float(np.linalg.norm(x))
    length = float(np.linalg.norm(direction))
    return direction * (longest / length) if 0 < longest < length else direction


def _weak_wolfe(
    fun: _Function, x: Vector, value: float, gradient: Vector, direction: Vector
) -> tuple[Vector, float, Vector] | None:
    """Find a step that satisfies the weak Wolfe conditions, if possible.

    Uses bisection, because interpolation is unreliable across kinks. Returns None if no step
    decreases the value sufficiently.
    """
    slope = float(gradient @ direction)
    if not slope < 0:
        return None
    low, high, length, found = 0.0, math.inf, 1.0, None
    for _ in range(30):
        step = length * direction
        new_value, new_gradient = fun(x + step)
        if not new_value <= value + 1e-4 * length * slope:
            high = length
        else:
            found = step, new_value, new_gradient
            if new_gradient @ direction >= 0.9 * slope:
                break
            low = length
        length = 2 * length if math.isinf(high) else (low + high) / 2
    return found
