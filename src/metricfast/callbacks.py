"""Callbacks of trained learners, for their parameter `callbacks`."""

from metricfast.training.callbacks import Checkpoint
from metricfast.training.history import SolverState

__all__ = ["Checkpoint", "SolverState"]
