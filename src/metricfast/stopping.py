"""Rules for early stopping, for the parameter `early_stopping` of trained learners."""

from __future__ import annotations

from metricfast.training.stopping import CrossValidated, HeldOut

__all__ = ["CrossValidated", "HeldOut"]
