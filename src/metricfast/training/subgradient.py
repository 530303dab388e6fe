"""Plain subgradient steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from metricfast.training.solvers import BatchObjective, Monitor, Vector

__all__ = ["minimize_subgradient"]


def minimize_subgradient(
    fun: BatchObjective,
    x0: Vector,
    batches: Callable[[], Iterable[NDArray[np.int64]]],
    monitor: Monitor,
    *,
    max_epochs: int,
    learning_rate: float,
    power_t: float,
) -> None:
    r"""Minimise a sum over samples by :math:`x_{t+1} = x_t - \eta_t g_t` on mini-batches.

    With g_t a subgradient at the t-th batch and :math:`\eta_t = \eta_1 / t^p`, of which the first
    step is `learning_rate` times as long as `x0`: :math:`\eta_1 = \rho \|x_0\| / \|g_1\|`. So it
    fits any scale of data and objective.

    Parameters
    ----------
    fun, x0, batches, monitor, max_epochs
        As for `metricfast.solvers.minimize_minibatch`.
    learning_rate : float
        Length of the first step that is not zero, relative to that of `x0`.
    power_t : float
        The exponent p.
    """
    x, first, steps = x0.copy(), 0.0, 0
    for _ in range(max_epochs):
        total = 0.0
        for rows in batches():
            value, gradient = fun(x, rows)
            total += value
            steps += 1
            norm = float(np.linalg.norm(gradient))
            if first == 0 < norm:
                first = learning_rate * (float(np.linalg.norm(x0)) or 1.0) / norm
            x -= first / steps**power_t * gradient
        if monitor(total, x):
            return
