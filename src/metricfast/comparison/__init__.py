"""Comparison of learners with each other and with the Euclidean distance, for given data."""

from metricfast.comparison.result import Comparison, Row
from metricfast.comparison.run import compare

__all__ = ["Comparison", "Row", "compare"]
