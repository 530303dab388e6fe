"""The learners, one file each."""

from __future__ import annotations

from metricfast.learners.anmm import ANMM
from metricfast.learners.dmlmj import DMLMJ
from metricfast.learners.gmml import GMML, GMML_Supervised
from metricfast.learners.kernelized import KernelizedMetricLearner
from metricfast.learners.lmnn import LMNN
from metricfast.learners.lsml import LSML, LSML_Supervised
from metricfast.learners.mmc import MMC, MMC_Supervised
from metricfast.learners.nca import NCA
from metricfast.learners.ncmml import NCMML

__all__ = [
    "ANMM",
    "DMLMJ",
    "GMML",
    "LMNN",
    "LSML",
    "MMC",
    "NCA",
    "NCMML",
    "GMML_Supervised",
    "KernelizedMetricLearner",
    "LSML_Supervised",
    "MMC_Supervised",
]
