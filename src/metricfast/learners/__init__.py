"""The learners, one file each."""

from __future__ import annotations

from metricfast.learners.lmnn import LMNN
from metricfast.learners.mlkr import MLKR
from metricfast.learners.nca import NCA

__all__ = ["LMNN", "MLKR", "NCA"]
