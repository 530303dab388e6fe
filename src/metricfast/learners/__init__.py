"""The learners, one file each."""

from __future__ import annotations

from metricfast.learners.ldml import LDML
from metricfast.learners.lmnn import LMNN
from metricfast.learners.mcml import MCML
from metricfast.learners.mlkr import MLKR
from metricfast.learners.nca import NCA

__all__ = ["LDML", "LMNN", "MCML", "MLKR", "NCA"]
