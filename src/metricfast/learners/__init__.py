"""The learners, one file each."""

from __future__ import annotations

from metricfast.learners.covariance import Covariance
from metricfast.learners.lfda import LFDA
from metricfast.learners.lmnn import LMNN
from metricfast.learners.nca import NCA
from metricfast.learners.rca import RCA, RCA_Supervised
from metricfast.learners.sdml import SDML, SDML_Supervised

__all__ = [
    "LFDA",
    "LMNN",
    "NCA",
    "RCA",
    "SDML",
    "Covariance",
    "RCA_Supervised",
    "SDML_Supervised",
]
