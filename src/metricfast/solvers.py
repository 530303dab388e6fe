"""Solvers: how parameters move towards a lower objective."""

from __future__ import annotations

from metricfast._core.batches import batch_count, class_batches
from metricfast._core.progress import Progress
from metricfast.training.solvers import (
    BatchObjective,
    Monitor,
    Objective,
    SolverState,
    Vector,
    minimize_hinge,
    minimize_minibatch,
    minimize_smooth,
)

__all__ = [
    "BatchObjective",
    "Monitor",
    "Objective",
    "Progress",
    "SolverState",
    "Vector",
    "batch_count",
    "class_batches",
    "minimize_hinge",
    "minimize_minibatch",
    "minimize_smooth",
]
