"""The learners, one file each."""

from __future__ import annotations

from metricfast.learners.itml import ITML, ITML_Supervised
from metricfast.learners.lmnn import LMNN
from metricfast.learners.nca import NCA

__all__ = ["ITML", "LMNN", "NCA", "ITML_Supervised"]
