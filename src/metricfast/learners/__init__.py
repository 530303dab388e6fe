"""Metric learners, one per file."""

from __future__ import annotations

from metricfast.learners.auto import AutoLearner
from metricfast.learners.closed.anmm import ANMM
from metricfast.learners.closed.covariance import Covariance
from metricfast.learners.closed.dmlmj import DMLMJ
from metricfast.learners.closed.lfda import LFDA
from metricfast.learners.closed.rca import RCA, RCA_Supervised
from metricfast.learners.embedding.adapter import AdapterLearner
from metricfast.learners.embedding.learner import EmbeddingLearner
from metricfast.learners.embedding.presets import LogRatioLearner, ProxyNCALearner, TripletLearner
from metricfast.learners.gerrymandering.asymmetric import AsymmetricSimilarity
from metricfast.learners.gerrymandering.metric import NeighborhoodGerrymandering
from metricfast.learners.gerrymandering.regressor import NeighborhoodGerrymanderingRegressor
from metricfast.learners.kernel.kernelized import KernelizedMetricLearner
from metricfast.learners.ldml import LDML
from metricfast.learners.lmnn import LMNN
from metricfast.learners.mcml import MCML
from metricfast.learners.mlkr import MLKR
from metricfast.learners.nca import NCA
from metricfast.learners.ncmml import NCMML
from metricfast.learners.tuples.gmml import GMML, GMML_Supervised
from metricfast.learners.tuples.itml import ITML, ITML_Supervised
from metricfast.learners.tuples.kissme import KISSME, XQDA, KISSME_Supervised
from metricfast.learners.tuples.lsml import LSML, LSML_Supervised
from metricfast.learners.tuples.mmc import MMC, MMC_Supervised
from metricfast.learners.tuples.oasis import OASIS, OASIS_Supervised
from metricfast.learners.tuples.scml import SCML, SCML_Supervised
from metricfast.learners.tuples.sdml import SDML, SDML_Supervised

__all__ = [
    "ANMM",
    "DMLMJ",
    "GMML",
    "ITML",
    "KISSME",
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
    "XQDA",
    "AdapterLearner",
    "AsymmetricSimilarity",
    "AutoLearner",
    "Covariance",
    "EmbeddingLearner",
    "GMML_Supervised",
    "ITML_Supervised",
    "KISSME_Supervised",
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
