"""Solvers, and what callbacks are told of their course."""

from __future__ import annotations

from metricfast._core.progress import Progress
from metricfast.samplers import batch_count, class_batches
from metricfast.training.monitor import Monitor, SolverState
from metricfast.training.solvers import minimize_hinge, minimize_smooth
from metricfast.training.steps import minimize_minibatch

__all__ = [
    "Monitor",
    "Progress",
    "SolverState",
    "batch_count",
    "class_batches",
    "minimize_hinge",
    "minimize_minibatch",
    "minimize_smooth",
]
