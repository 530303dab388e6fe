"""How a learner decides whether what it learned is better than the given distance."""

from __future__ import annotations

from metricfast.selection._judge import Judge, Judgement

__all__ = ["Judge", "Judgement"]
