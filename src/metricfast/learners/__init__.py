"""The learners, one file each."""

from __future__ import annotations

from metricfast.learners.anmm import ANMM
from metricfast.learners.asymmetric import AsymmetricSimilarity
from metricfast.learners.covariance import Covariance
from metricfast.learners.dmlmj import DMLMJ
from metricfast.learners.embedding import EmbeddingLearner
from metricfast.learners.gerrymandering import NeighborhoodGerrymandering
from metricfast.learners.gerrymandering_regressor import NeighborhoodGerrymanderingRegressor
from metricfast.learners.gmml import GMML, GMML_Supervised
from metricfast.learners.itml import ITML, ITML_Supervised
from metricfast.learners.kernelized import KernelizedMetricLearner
from metricfast.learners.ldml import LDML
from metricfast.learners.lfda import LFDA
from metricfast.learners.lmnn import LMNN
from metricfast.learners.lsml import LSML, LSML_Supervised
from metricfast.learners.mcml import MCML
from metricfast.learners.mlkr import MLKR
from metricfast.learners.mmc import MMC, MMC_Supervised
from metricfast.learners.nca import NCA
from metricfast.learners.ncmml import NCMML
from metricfast.learners.oasis import OASIS, OASIS_Supervised
from metricfast.learners.presets import LogRatioLearner, ProxyNCALearner, TripletLearner
from metricfast.learners.rca import RCA, RCA_Supervised
from metricfast.learners.scml import SCML, SCML_Supervised
from metricfast.learners.sdml import SDML, SDML_Supervised

__all__ = [
    "ANMM",
    "DMLMJ",
    "GMML",
    "ITML",
    "LDML",
    "LFDA",
    "LMNN",
    "LSML",
    "MCML",
    "MLKR",
    "MMC",
    "NCA",
    "NCMML",
    "OASIS",
    "RCA",
    "SCML",
    "SDML",
    "AsymmetricSimilarity",
    "Covariance",
    "EmbeddingLearner",
    "GMML_Supervised",
    "ITML_Supervised",
    "KernelizedMetricLearner",
    "LSML_Supervised",
    "LogRatioLearner",
    "MMC_Supervised",
    "NeighborhoodGerrymandering",
    "NeighborhoodGerrymanderingRegressor",
    "OASIS_Supervised",
    "ProxyNCALearner",
    "RCA_Supervised",
    "SCML_Supervised",
    "SDML_Supervised",
    "TripletLearner",
]
