"""Solvers: how parameters move towards a lower objective.

All of them minimise over a flat float64 vector, report every iteration to a `Monitor`, and leave
the best parameters there: what an interrupted fit falls back on.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

__all__ = [
    "BatchObjective",
    "Monitor",
    "Objective",
    "SolverState",
    "Vector",
    "minimize_hinge",
    "minimize_minibatch",
    "minimize_smooth",
]

Vector = NDArray[np.float64]
Objective = Callable[[Vector], tuple[float, Vector]]
BatchObjective = Callable[[Vector, NDArray[np.int64]], tuple[float, Vector]]


@dataclass(frozen=True)
class SolverState:
    """What a callback is told after every iteration (every epoch of mini-batches).

    A fit keeps the best map that it came by, which need not be that of the last call.

    Attributes
    ----------
    iteration : int
        Number of iterations done, from 1.
    objective : float
        The objective being minimised, at `components`. With mini-batches: its estimate over the
        epoch, while the components moved.
    components : ndarray of shape (n_components, n_features)
        The current linear map. A copy: changing it has no effect.
    estimator : estimator
        The estimator that is being fitted, with the fitted attributes of this iteration.
    """

    iteration: int
    objective: float
    components: NDArray[np.floating]
    estimator: Any


class Monitor:
    """Remembers the course of a minimisation and asks an observer whether to go on.

    Parameters
    ----------
    x0 : ndarray of shape (n_parameters,)
        Where the minimisation starts: the best parameters until an iteration is done.
    observer : callable, optional
        Called as ``observer(iteration, value, x)``; a true result stops the solver.

    Attributes
    ----------
    best_x, best_value
        The parameters of the lowest objective since the last `restart`, and that objective.
    curve : list of float
        The objective after each iteration.
    stopped : bool
        Whether the observer has asked to stop.
    """

    def __init__(
        self, x0: Vector, observer: Callable[[int, float, Vector], object] | None = None
    ) -> None:
        self._observer = observer
        self.curve: list[float] = []
        self.stopped = False
        self.restart(x0)

    def restart(self, x: Vector) -> None:
        """Forget the best parameters: the objective changes, and `x` is where it goes on."""
        self.best_x, self.best_value = x.copy(), math.inf

    def __call__(self, value: float, x: Vector) -> bool:
        """Record the end of an iteration; True means stop."""
        self.curve.append(float(value))
        if value < self.best_value:
            self.best_x, self.best_value = x.copy(), float(value)
        if self._observer is not None and self._observer(len(self.curve), float(value), x):
            self.stopped = True
        return self.stopped


def minimize_smooth(
    fun: Objective,
    x0: Vector,
    monitor: Monitor,
    *,
    max_iter: int,
    tol: float | None = None,
    remedy: str = "raise max_iter, or give a larger tol",
) -> None:
    """Minimise a smooth function by SciPy's L-BFGS-B, with the meaning of its ``tol``.

    Warns ConvergenceWarning when it ends for another reason than convergence or the observer; the
    `remedy` is what to do where `max_iter` was too small.
    """

    def report(intermediate_result: Any) -> None:
        if monitor(intermediate_result.fun, intermediate_result.x):
            raise StopIteration

    result = minimize(
        fun,
        x0,
        jac=True,
        method="L-BFGS-B",
        tol=tol,
        callback=report,
        options={"maxiter": max_iter, "maxfun": math.inf},
    )
    if not monitor.curve:
        monitor.best_x, monitor.best_value = result.x, float(result.fun)
    if not result.success and not monitor.stopped:
        reason = "without convergence"
        if result.nit < max_iter:
            reason, remedy = "as its line search found no lower objective", "rescale the points"
        _warn(f"L-BFGS stopped after {result.nit} iterations {reason}: {remedy}.")


def minimize_hinge(
    fun: Objective,
    x0: Vector,
    monitor: Monitor,
    *,
    min_iter: int,
    max_iter: int,
    tol: float,
    memory: int = 10,
    window: int = 5,
) -> None:
    """Minimise a piecewise smooth function by L-BFGS with a weak Wolfe line search.

    The gradient of a sum of hinges need not vanish at a minimum, so its norm says nothing: the
    minimisation stops when, after `min_iter` iterations, the objective has fallen by less than
    `tol` times itself an iteration, on average over the last `window` iterations (or by less than
    the rounding error of its initial value: it may fall to zero). A line search
    that fails restarts once with cleared memory; the second failure in a row ends the
    minimisation. At a point without descent (zero gradient) it ends at once.

    Warns ConvergenceWarning when it ends otherwise.

    References
    ----------
    A. S. Lewis and M. L. Overton, "Nonsmooth optimization via quasi-Newton methods",
    Mathematical Programming 141 (2013), 135-163.
    """
    x, (value, gradient) = x0, fun(x0)
    recent = deque([value], maxlen=window + 1)
    pairs: deque[_Pair] = deque(maxlen=memory)
    iteration, rounding = 0, float(np.finfo(float).eps) * abs(value)

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
                _warn("The line search failed twice: rescale the data, or raise the tolerance.")
            break
        iteration += 1
        step, value, new_gradient = found
        change = new_gradient - gradient
        curvature = float(step @ change)
        if curvature > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):
            pairs.append(_Pair(step, change, curvature))
        x, gradient = x + step, new_gradient
        recent.append(value)
        if monitor(value, x):
            return
        if iteration >= min_iter and converged():
            return
    if not monitor.curve:
        monitor.best_x, monitor.best_value = x, value
    if iteration == max_iter:
        _warn(f"No convergence in {max_iter} iterations: raise max_iter or the tolerance.")


class _Pair(NamedTuple):
    """A step, the change of the gradient along it, and their product."""

    step: Vector
    change: Vector
    curvature: float


def _descent(gradient: Vector, pairs: Sequence[_Pair], x: Vector) -> Vector:
    """Return the L-BFGS direction; without memory, a tenth of the length of x downhill."""
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
    # A first trial that is far off costs most of all evaluations: everything is an impostor there.
    longest = 0.25 * float(np.linalg.norm(x))
    length = float(np.linalg.norm(direction))
    return direction * (longest / length) if 0 < longest < length else direction


def _weak_wolfe(
    fun: Objective, x: Vector, value: float, gradient: Vector, direction: Vector
) -> tuple[Vector, float, Vector] | None:
    """Find a step of sufficient decrease and, where possible, of sufficient change of slope.

    By bisection, which unlike interpolation trusts no derivative across a kink. None: no decrease.
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


def minimize_minibatch(
    fun: BatchObjective,
    x0: Vector,
    batches: Callable[[], Iterable[NDArray[np.int64]]],
    monitor: Monitor,
    *,
    max_epochs: int,
    learning_rate: float,
) -> None:
    """Minimise a sum over samples by Adam on mini-batches.

    The step starts at `learning_rate` times the root mean square of `x0`, so that it fits any
    scale of the data, and falls to zero along half a cosine. The objective of an epoch is the sum
    of its batches', each taken before its step.

    Parameters
    ----------
    fun : callable
        ``fun(x, rows)`` gives the value and gradient of the batch `rows`.
    x0 : ndarray of shape (n_parameters,)
        Where to start.
    batches : callable
        Gives the batches of one epoch.
    monitor : Monitor
        Told after every epoch; keeps the parameters after the best epoch.
    max_epochs : int
        Number of epochs.
    learning_rate : float
        First step, relative to the size of `x0`.

    References
    ----------
    D. P. Kingma and J. Ba, "Adam: a method for stochastic optimization", ICLR 2015.
    """
    # Steps do not depend on the size of a gradient, and must not be made of its rounding.
    first_decay, second_decay, tiny, rounding = 0.9, 0.999, 1e-30, 1e-12
    size = learning_rate * (math.sqrt(float(np.mean(x0**2))) or 1.0)
    x, mean, square = x0.copy(), np.zeros_like(x0), np.zeros_like(x0)
    steps = 0
    for epoch in range(max_epochs):
        total, rows_of_epoch = 0.0, list(batches())
        for number, rows in enumerate(rows_of_epoch):
            value, gradient = fun(x, rows)
            total += value
            steps += 1
            mean += (1 - first_decay) * (gradient - mean)
            square += (1 - second_decay) * (gradient**2 - square)
            done = (epoch + number / len(rows_of_epoch)) / max_epochs
            rate = size * (1 + math.cos(math.pi * done)) / 2 / (1 - first_decay**steps)
            root = np.sqrt(square / (1 - second_decay**steps))
            x -= rate * mean / (root + rounding * root.max() + tiny)
        if monitor(total, x):
            return


def _warn(message: str) -> None:
    warnings.warn(message, ConvergenceWarning, stacklevel=4)
