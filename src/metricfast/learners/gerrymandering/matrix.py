"""The objective of neighbourhood gerrymandering as a function of a full matrix M."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricfast.distances.gradient import metric_gradient
from metricfast.samplers import Batch
from metricfast.training.objective import Objective, anchors_of, finite, map_points

__all__ = ["loss_of_matrix", "penalty_of_matrix", "root"]

Array = NDArray[Any]


def root(M: Array) -> Array:
    """Return a map L with M = L^T L."""
    values, vectors = np.linalg.eigh(M)
    return np.asarray(np.sqrt(np.maximum(values, 0))[:, None] * vectors.T)


def penalty_of_matrix(name: str | None, arrays: list[Array]) -> tuple[float, list[Array]]:
    """Return a penalty on M, a key of `REGULARIZERS`, and its gradient."""
    (M,) = arrays
    square = float((M * M).sum())
    if name is None:
        return 0.0, [np.zeros_like(M)]
    if name == "trace":
        return float(np.trace(M)), [np.eye(len(M))]
    if name == "frobenius":
        norm = float(np.sqrt(square))
        return norm, [M / (norm or 1.0)]
    return square, [2 * M]


def loss_of_matrix(
    problem: Objective, arrays: list[Array], batch: Batch | None, part: slice | None
) -> tuple[float, list[Array]]:
    """Return the loss of queries as a function of M, and its gradient."""
    (M,), X, among = arrays, problem.X, None
    anchors = rows = problem._anchors(batch, part)
    if batch is not None and problem.database == "batch":
        X, among = X[batch.rows], batch.rows
        anchors = np.arange(len(among))[anchors_of(batch, part)]
    Z = map_points(X, root(M), problem.n_jobs)
    if not finite(Z):
        return float("nan"), []
    call = problem.loss.call(Z[anchors], Z, rows, among, anchors)
    value, weights = problem.loss.loss.of_distances(call)
    gradient = metric_gradient(X[anchors], weights, X, M=M, n_jobs=problem.n_jobs)
    return value, [np.asarray(gradient)]
