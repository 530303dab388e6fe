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
from metricfast._dispatch import build_info as build_info
from metricfast._paths import get_cmake_dir as get_cmake_dir
from metricfast._paths import get_include as get_include
from metricfast.base import BaseMetricLearner as BaseMetricLearner
from metricfast.base import MahalanobisMixin as MahalanobisMixin
from metricfast.base import MetricTransformer as MetricTransformer
from metricfast.bilinear import BilinearMixin as BilinearMixin
from metricfast.classifiers import PairsClassifierMixin as PairsClassifierMixin
from metricfast.classifiers import QuadrupletsClassifierMixin as QuadrupletsClassifierMixin
from metricfast.classifiers import TripletsClassifierMixin as TripletsClassifierMixin
from metricfast.constraints import Constraints as Constraints
from metricfast.gradient import metric_gradient as metric_gradient
from metricfast.io import load as load
from metricfast.io import save as save
from metricfast.learners.anmm import ANMM as ANMM
from metricfast.learners.asymmetric import AsymmetricSimilarity as AsymmetricSimilarity
from metricfast.learners.covariance import Covariance as Covariance
from metricfast.learners.dmlmj import DMLMJ as DMLMJ
from metricfast.learners.embedding import EmbeddingLearner as EmbeddingLearner
from metricfast.learners.fixed_database import FixedDatabase as FixedDatabase
from metricfast.learners.gerrymandering import (
    NeighborhoodGerrymandering as NeighborhoodGerrymandering,
)
from metricfast.learners.gerrymandering_regressor import (
    NeighborhoodGerrymanderingRegressor as NeighborhoodGerrymanderingRegressor,
)
from metricfast.learners.gmml import GMML as GMML
from metricfast.learners.gmml import GMML_Supervised as GMML_Supervised
from metricfast.learners.itml import ITML as ITML
from metricfast.learners.itml import ITML_Supervised as ITML_Supervised
from metricfast.learners.kernelized import KernelizedMetricLearner as KernelizedMetricLearner
from metricfast.learners.ldml import LDML as LDML
from metricfast.learners.lfda import LFDA as LFDA
from metricfast.learners.lmnn import LMNN as LMNN
from metricfast.learners.lsml import LSML as LSML
from metricfast.learners.lsml import LSML_Supervised as LSML_Supervised
from metricfast.learners.mcml import MCML as MCML
from metricfast.learners.mlkr import MLKR as MLKR
from metricfast.learners.mmc import MMC as MMC
from metricfast.learners.mmc import MMC_Supervised as MMC_Supervised
from metricfast.learners.nca import NCA as NCA
from metricfast.learners.ncmml import NCMML as NCMML
from metricfast.learners.oasis import OASIS as OASIS
from metricfast.learners.oasis import OASIS_Supervised as OASIS_Supervised
from metricfast.learners.presets import LogRatioLearner as LogRatioLearner
from metricfast.learners.presets import ProxyNCALearner as ProxyNCALearner
from metricfast.learners.presets import TripletLearner as TripletLearner
from metricfast.learners.rca import RCA as RCA
from metricfast.learners.rca import RCA_Supervised as RCA_Supervised
from metricfast.learners.scml import SCML as SCML
from metricfast.learners.scml import SCML_Supervised as SCML_Supervised
from metricfast.learners.sdml import SDML as SDML
from metricfast.learners.sdml import SDML_Supervised as SDML_Supervised
from metricfast.neighbors import kneighbors as kneighbors
from metricfast.neighbors import kneighbors_per_class as kneighbors_per_class
from metricfast.neighbors import paired_distances as paired_distances
from metricfast.neighbors import pairwise_distances as pairwise_distances

__version__: str
