"""Types of the names that `__init__.py` loads when they are first used."""

from metricfast import constraints as constraints
from metricfast import embeddings as embeddings
from metricfast import exceptions as exceptions
from metricfast import inference as inference
from metricfast import io as io
from metricfast import learners as learners
from metricfast import losses as losses
from metricfast import metrics as metrics
from metricfast import neighbors as neighbors
from metricfast import plotting as plotting
from metricfast import samplers as samplers
from metricfast import solvers as solvers
from metricfast import torch as torch
from metricfast._core.dispatch import build_info as build_info
from metricfast._paths import get_cmake_dir as get_cmake_dir
from metricfast._paths import get_include as get_include
from metricfast.constraints import Constraints as Constraints
from metricfast.distances.gradient import metric_gradient as metric_gradient
from metricfast.distances.neighbors import kneighbors as kneighbors
from metricfast.distances.neighbors import kneighbors_per_class as kneighbors_per_class
from metricfast.distances.neighbors import paired_distances as paired_distances
from metricfast.distances.neighbors import pairwise_distances as pairwise_distances
from metricfast.io import load as load
from metricfast.io import save as save
from metricfast.learners.base.bilinear import BilinearMixin as BilinearMixin
from metricfast.learners.base.classifiers import PairsClassifierMixin as PairsClassifierMixin
from metricfast.learners.base.classifiers import (
    QuadrupletsClassifierMixin as QuadrupletsClassifierMixin,
)
from metricfast.learners.base.classifiers import TripletsClassifierMixin as TripletsClassifierMixin
from metricfast.learners.base.learner import BaseMetricLearner as BaseMetricLearner
from metricfast.learners.base.learner import MahalanobisMixin as MahalanobisMixin
from metricfast.learners.base.learner import MetricTransformer as MetricTransformer
from metricfast.learners.closed.anmm import ANMM as ANMM
from metricfast.learners.closed.covariance import Covariance as Covariance
from metricfast.learners.closed.dmlmj import DMLMJ as DMLMJ
from metricfast.learners.closed.lfda import LFDA as LFDA
from metricfast.learners.closed.rca import RCA as RCA
from metricfast.learners.closed.rca import RCA_Supervised as RCA_Supervised
from metricfast.learners.embedding.learner import EmbeddingLearner as EmbeddingLearner
from metricfast.learners.embedding.presets import LogRatioLearner as LogRatioLearner
from metricfast.learners.embedding.presets import ProxyNCALearner as ProxyNCALearner
from metricfast.learners.embedding.presets import TripletLearner as TripletLearner
from metricfast.learners.kernel.kernelized import KernelizedMetricLearner as KernelizedMetricLearner
from metricfast.learners.linear.ldml import LDML as LDML
from metricfast.learners.linear.lmnn import LMNN as LMNN
from metricfast.learners.linear.mcml import MCML as MCML
from metricfast.learners.linear.mlkr import MLKR as MLKR
from metricfast.learners.linear.nca import NCA as NCA
from metricfast.learners.linear.ncmml import NCMML as NCMML
from metricfast.learners.tuples.gmml import GMML as GMML
from metricfast.learners.tuples.gmml import GMML_Supervised as GMML_Supervised
from metricfast.learners.tuples.itml import ITML as ITML
from metricfast.learners.tuples.itml import ITML_Supervised as ITML_Supervised
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
from metricfast.learners.votes.asymmetric import AsymmetricSimilarity as AsymmetricSimilarity
from metricfast.learners.votes.fixed_database import FixedDatabase as FixedDatabase
from metricfast.learners.votes.gerrymandering import (
    NeighborhoodGerrymandering as NeighborhoodGerrymandering,
)
from metricfast.learners.votes.regressor import (
    NeighborhoodGerrymanderingRegressor as NeighborhoodGerrymanderingRegressor,
)

__version__: str
