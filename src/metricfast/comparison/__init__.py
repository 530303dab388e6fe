"""Which learner for my data? Learners compared with each other and with the Euclidean distance."""

from __future__ import annotations

from metricfast.comparison.result import Comparison, Row
from metricfast.comparison.run import compare

__all__ = ["Comparison", "Row", "compare"]
