"""Learned distances between points, and nearest neighbours: functions and estimators."""

from metricfast.distances.database import Database
from metricfast.distances.neighbors import (
    kneighbors,
    kneighbors_per_class,
    paired_distances,
    pairwise_distances,
)
from metricfast.distances.radius import radius_neighbors
from metricfast.predictors.classifiers import KNeighborsClassifier, RadiusNeighborsClassifier
from metricfast.predictors.multi_metric import MultiMetricLMNN
from metricfast.predictors.nearest import (
    KNeighborsTransformer,
    NearestNeighbors,
    RadiusNeighborsTransformer,
    kneighbors_graph,
    radius_neighbors_graph,
)
from metricfast.predictors.regressors import KNeighborsRegressor, RadiusNeighborsRegressor
from metricfast.predictors.stores import to_faiss

__all__ = [
    "Database",
    "KNeighborsClassifier",
    "KNeighborsRegressor",
    "KNeighborsTransformer",
    "MultiMetricLMNN",
    "NearestNeighbors",
    "RadiusNeighborsClassifier",
    "RadiusNeighborsRegressor",
    "RadiusNeighborsTransformer",
    "kneighbors",
    "kneighbors_graph",
    "kneighbors_per_class",
    "paired_distances",
    "pairwise_distances",
    "radius_neighbors",
    "radius_neighbors_graph",
    "to_faiss",
]
