"""The learners, one file each."""

from __future__ import annotations

from metricfast.learners.anmm import ANMM
from metricfast.learners.dmlmj import DMLMJ
from metricfast.learners.gmml import GMML, GMML_Supervised
from metricfast.learners.kernelized import KernelizedMetricLearner
from metricfast.learners.lmnn import LMNN
from metricfast.learners.nca import NCA
from metricfast.learners.ncmml import NCMML
from metricfast.learners.oasis import OASIS, OASIS_Supervised
from metricfast.learners.scml import SCML, SCML_Supervised

__all__ = [
    "ANMM",
    "DMLMJ",
    "GMML",
    "LMNN",
    "NCA",
    "NCMML",
    "OASIS",
    "SCML",
    "GMML_Supervised",
    "KernelizedMetricLearner",
    "OASIS_Supervised",
    "SCML_Supervised",
]
