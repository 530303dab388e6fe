"""Rules for early stopping, for the parameter `early_stopping` of trained learners."""

from metricfast.training.stopping import HeldOut

__all__ = ["HeldOut"]
