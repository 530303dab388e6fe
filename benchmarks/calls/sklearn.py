"""scikit-learn."""

from __future__ import annotations

__all__ = ["label_neighbors", "nca", "neighbors", "pairwise", "pca"]

from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors, NeighborhoodComponentsAnalysis

from benchmarks.calls import Call, Data, fitting, found, sampled


def pairwise(data: Data, threads: int) -> Call:
    """Time euclidean_distances on mapped points."""
    x, y, linear = data["X"], data["Y"], data["L"]
    return Call(lambda: euclidean_distances(x @ linear.T, y @ linear.T), sampled)


def neighbors(data: Data, threads: int, k: int, metric: str = "euclidean") -> Call:
    """Time NearestNeighbors by brute force, excluding `fit`."""
    model = NearestNeighbors(n_neighbors=k, algorithm="brute", metric=metric)
    model.fit(data["database"])
    return Call(lambda: model.kneighbors(data["queries"]), found)


def nca(data: Data, threads: int, **params: Any) -> Call:
    """Time NeighborhoodComponentsAnalysis."""
    return fitting(NeighborhoodComponentsAnalysis(**params), data)


def pca(data: Data, threads: int, n_components: int) -> Call:
    """Time PCA, which uses no labels."""
    return fitting(PCA(n_components, random_state=0), data)


def label_neighbors(data: Data, threads: int, k: int = 5) -> Call:
    """Time NearestNeighbors of labels among themselves, including the tree."""
    labels = data["Y"]
    return Call(
        lambda: NearestNeighbors(n_neighbors=k, n_jobs=threads).fit(labels).kneighbors()[1],
        lambda found: {"anchors": np.arange(50), "neighbors": found[:50]},
    )
