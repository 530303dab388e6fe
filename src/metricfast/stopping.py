"""Rules for early stopping, for the parameter `early_stopping` of trained learners."""

from __future__ import annotations

from metricfast.training.stopping import HeldOut

__all__ = ["HeldOut"]
