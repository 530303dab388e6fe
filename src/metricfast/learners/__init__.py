"""The learners, one file each."""

from __future__ import annotations

from metricfast.learners.anmm import ANMM
from metricfast.learners.covariance import Covariance
from metricfast.learners.dmlmj import DMLMJ
from metricfast.learners.gmml import GMML, GMML_Supervised
from metricfast.learners.kernelized import KernelizedMetricLearner
from metricfast.learners.lfda import LFDA
from metricfast.learners.lmnn import LMNN
from metricfast.learners.nca import NCA
from metricfast.learners.ncmml import NCMML
from metricfast.learners.rca import RCA, RCA_Supervised
from metricfast.learners.sdml import SDML, SDML_Supervised

__all__ = [
    "ANMM",
    "DMLMJ",
    "GMML",
    "LFDA",
    "LMNN",
    "NCA",
    "NCMML",
    "RCA",
    "SDML",
    "Covariance",
    "GMML_Supervised",
    "KernelizedMetricLearner",
    "RCA_Supervised",
    "SDML_Supervised",
]
