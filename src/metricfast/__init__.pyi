"""Types of the names that `__init__.py` loads when they are first used."""

from metricfast import callbacks as callbacks
from metricfast import comparison as comparison
from metricfast import constraints as constraints
from metricfast import dask as dask
from metricfast import embeddings as embeddings
from metricfast import exceptions as exceptions
from metricfast import inference as inference
from metricfast import io as io
from metricfast import learners as learners
from metricfast import losses as losses
from metricfast import metrics as metrics
from metricfast import neighbors as neighbors
from metricfast import onnx as onnx
from metricfast import plotting as plotting
from metricfast import samplers as samplers
from metricfast import selection as selection
from metricfast import solvers as solvers
from metricfast import sources as sources
from metricfast import stopping as stopping
from metricfast import torch as torch
from metricfast._core.dispatch import build_info as build_info
from metricfast._labels.tags import tags_of as tags_of
from metricfast._paths import get_cmake_dir as get_cmake_dir
from metricfast._paths import get_include as get_include
from metricfast._paths import get_library_dir as get_library_dir
from metricfast.comparison.run import compare as compare
from metricfast.constraints import Constraints as Constraints
from metricfast.distances.database import Database as Database
from metricfast.distances.gradient import metric_gradient as metric_gradient
from metricfast.distances.neighbors import kneighbors as kneighbors
from metricfast.distances.neighbors import paired_distances as paired_distances
from metricfast.distances.neighbors import pairwise_distances as pairwise_distances
from metricfast.io import load as load
from metricfast.io import save as save
from metricfast.learners import *  # noqa: F403
from metricfast.learners.base.bilinear import BilinearMixin as BilinearMixin
from metricfast.learners.base.classifiers import PairsClassifierMixin as PairsClassifierMixin
from metricfast.learners.base.classifiers import (
    QuadrupletsClassifierMixin as QuadrupletsClassifierMixin,
)
from metricfast.learners.base.classifiers import TripletsClassifierMixin as TripletsClassifierMixin
from metricfast.learners.base.learner import BaseMetricLearner as BaseMetricLearner
from metricfast.learners.base.learner import MahalanobisMixin as MahalanobisMixin
from metricfast.learners.base.learner import MetricTransformer as MetricTransformer
from metricfast.learners.gerrymandering.fixed_database import FixedDatabase as FixedDatabase
from metricfast.predictors.classifiers import KNeighborsClassifier as KNeighborsClassifier
from metricfast.predictors.multi_metric import MultiMetricLMNN as MultiMetricLMNN
from metricfast.predictors.nearest import NearestNeighbors as NearestNeighbors
from metricfast.predictors.regressors import KNeighborsRegressor as KNeighborsRegressor
from metricfast.predictors.soft import NCAClassifier as NCAClassifier
from metricfast.predictors.soft import NCARegressor as NCARegressor

__version__: str
