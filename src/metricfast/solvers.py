"""Solvers of trained learners, for their parameter `solver`."""

from metricfast.training.solvers import (
    LBFGS,
    SGD,
    Adam,
    AdamW,
    FullBatchSolver,
    MiniBatchSolver,
    Subgradient,
)

__all__ = ["LBFGS", "SGD", "Adam", "AdamW", "FullBatchSolver", "MiniBatchSolver", "Subgradient"]
