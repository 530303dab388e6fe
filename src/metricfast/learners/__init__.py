"""The learners, one file each."""

from __future__ import annotations

from metricfast.learners.lmnn import LMNN
from metricfast.learners.nca import NCA
from metricfast.learners.oasis import OASIS, OASIS_Supervised
from metricfast.learners.scml import SCML, SCML_Supervised

__all__ = ["LMNN", "NCA", "OASIS", "SCML", "OASIS_Supervised", "SCML_Supervised"]
