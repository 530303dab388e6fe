"""Types of the names that `__init__.py` loads when they are first used."""

from metricfast.learners.auto import AutoLearner as AutoLearner
from metricfast.learners.closed.anmm import ANMM as ANMM
from metricfast.learners.closed.covariance import Covariance as Covariance
from metricfast.learners.closed.dmlmj import DMLMJ as DMLMJ
from metricfast.learners.closed.lfda import LFDA as LFDA
from metricfast.learners.closed.rca import RCA as RCA
from metricfast.learners.closed.rca import RCA_Supervised as RCA_Supervised
from metricfast.learners.embedding.adapter import AdapterLearner as AdapterLearner
from metricfast.learners.embedding.learner import EmbeddingLearner as EmbeddingLearner
from metricfast.learners.embedding.presets import LogRatioLearner as LogRatioLearner
from metricfast.learners.embedding.presets import ProxyNCALearner as ProxyNCALearner
from metricfast.learners.embedding.presets import TripletLearner as TripletLearner
from metricfast.learners.gerrymandering.asymmetric import (
    AsymmetricSimilarity as AsymmetricSimilarity,
)
from metricfast.learners.gerrymandering.metric import (
    NeighborhoodGerrymandering as NeighborhoodGerrymandering,
)
from metricfast.learners.gerrymandering.regressor import (
    NeighborhoodGerrymanderingRegressor as NeighborhoodGerrymanderingRegressor,
)
from metricfast.learners.kernel.kernelized import KernelizedMetricLearner as KernelizedMetricLearner
from metricfast.learners.ldml import LDML as LDML
from metricfast.learners.lmnn import LMNN as LMNN
from metricfast.learners.mcml import MCML as MCML
from metricfast.learners.mlkr import MLKR as MLKR
from metricfast.learners.nca import NCA as NCA
from metricfast.learners.ncmml import NCMML as NCMML
from metricfast.learners.tuples.gmml import GMML as GMML
from metricfast.learners.tuples.gmml import GMML_Supervised as GMML_Supervised
from metricfast.learners.tuples.itml import ITML as ITML
from metricfast.learners.tuples.itml import ITML_Supervised as ITML_Supervised
from metricfast.learners.tuples.kissme import KISSME as KISSME
from metricfast.learners.tuples.kissme import XQDA as XQDA
from metricfast.learners.tuples.kissme import KISSME_Supervised as KISSME_Supervised
from metricfast.learners.tuples.lsml import LSML as LSML
from metricfast.learners.tuples.lsml import LSML_Supervised as LSML_Supervised
from metricfast.learners.tuples.mmc import MMC as MMC
from metricfast.learners.tuples.mmc import MMC_Supervised as MMC_Supervised
from metricfast.learners.tuples.oasis import OASIS as OASIS
from metricfast.learners.tuples.oasis import OASIS_Supervised as OASIS_Supervised
from metricfast.learners.tuples.scml import SCML as SCML
from metricfast.learners.tuples.scml import SCML_Supervised as SCML_Supervised
from metricfast.learners.tuples.sdml import SDML as SDML
from metricfast.learners.tuples.sdml import SDML_Supervised as SDML_Supervised
