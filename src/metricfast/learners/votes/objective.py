"""What neighbourhood gerrymandering minimises: the objective of a map, or of a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.sparse import sparse_gradient
from metricfast.distances.gradient import metric_gradient
from metricfast.learners.linear.base import TrainingSet, embed
from metricfast.learners.votes.regularizers import penalty
from metricfast.losses import Gerrymander
from metricfast.training.minibatch import DivergedError
from metricfast.training.objective import finite

__all__ = ["MapObjective", "MatrixObjective"]

Array = NDArray[Any]


class MapObjective:
    """The objective of a map L.

    Parameters
    ----------
    estimator : estimator
    loss : Gerrymander
    data : TrainingSet

    Attributes
    ----------
    project : callable or None
        Brings arrays to where they may be.
    """

    project: Any = None

    def __init__(self, estimator: Any, loss: Gerrymander, data: TrainingSet) -> None:
        self.loss, self.data = loss, data
        self._regularizer, self._n_jobs = estimator.regularizer, estimator.n_jobs

    def components(self, arrays: list[Array]) -> Array:
        """Return the map."""
        return arrays[0]

    def penalty(self, arrays: list[Array]) -> tuple[float, list[Array]]:
        """Return the penalty and its gradient."""
        return penalty(self._regularizer, arrays)

    def _arguments(self, Z: Array, rows: NDArray[np.int64] | None) -> tuple[Any, dict[str, Any]]:
        if not finite(Z):
            raise DivergedError
        labels, weight = self.data.labels, self.data.weight
        if rows is None:
            return (Z, labels), {"sample_weight": weight, "n_jobs": self._n_jobs}
        weight = None if weight is None else weight[rows]
        how = {"sample_weight": weight, "exclude": rows, "n_jobs": self._n_jobs}
        return (Z[rows], labels[rows], Z, labels), how

    def surrogate(
        self, arrays: list[Array], rows: NDArray[np.int64] | None
    ) -> tuple[float, list[Array]]:
        """Return the loss of some points, by default of all, and its gradient."""
        X = self.data.X
        Z = embed(X, self.components(arrays), self._n_jobs)
        given, how = self._arguments(Z, rows)
        if rows is None:
            value, upstream = self.loss(*given, **how)
            return value, [self._backward(np.asarray(upstream), X)]
        # Few of the points are in a set.
        value, weights = self.loss.weights(*given, **how)
        if not weights.nnz:
            return value, [np.zeros(arrays[0].shape)]
        used, columns = _compact(weights.indices, len(Z))
        queries, database = given[0], Z[used]
        of_queries, of_database = np.empty_like(queries), np.empty_like(database)
        get_kernels().given(
            queries, database, None, weights.indptr.astype(np.int64), columns, of_queries,
            of_database, as_threads(self._n_jobs), weights.data.astype(Z.dtype),
        )  # fmt: skip
        return value, [self._backward(of_queries, X[rows]) + self._backward(of_database, X[used])]

    def _backward(self, upstream: Array, X: Any) -> Array:
        if issparse(X):
            return sparse_gradient(upstream, X)
        return np.asarray(get_kernels().linear_backward(upstream, X, as_threads(self._n_jobs)))


def _compact(
    columns: NDArray[np.int64], n_columns: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct columns, ascending, and the place of each column among them."""
    marked = np.zeros(n_columns, bool)
    marked[columns] = True
    return np.flatnonzero(marked), (np.cumsum(marked) - 1)[columns]


class MatrixObjective(MapObjective):
    """The objective of a full matrix M; see `MapObjective`."""

    def components(self, arrays: list[Array]) -> Array:
        """Return a map L with M = L^T L."""
        values, vectors = np.linalg.eigh(arrays[0])
        return np.asarray(np.sqrt(np.maximum(values, 0))[:, None] * vectors.T)

    def project(self, arrays: list[Array]) -> list[Array]:
        """Set the eigenvalues below zero to zero."""
        values, vectors = np.linalg.eigh((arrays[0] + arrays[0].T) / 2)
        return [(vectors * np.maximum(values, 0)) @ vectors.T]

    def penalty(self, arrays: list[Array]) -> tuple[float, list[Array]]:
        """Return the penalty and its gradient."""
        (M,) = arrays
        if self._regularizer == "trace":
            return float(np.trace(M)), [np.eye(len(M))]
        square = float((M * M).sum())
        if self._regularizer is None:
            return 0.0, [np.zeros_like(M)]
        if self._regularizer == "frobenius":
            norm = float(np.sqrt(square))
            return norm, [M / (norm or 1.0)]
        return square, [2 * M]

    def surrogate(
        self, arrays: list[Array], rows: NDArray[np.int64] | None
    ) -> tuple[float, list[Array]]:
        """Return the loss of some points, by default of all, and its gradient."""
        X = self.data.X
        given, how = self._arguments(embed(X, self.components(arrays), self._n_jobs), rows)
        value, weights = self.loss.weights(*given, **how)
        gradient = metric_gradient(
            X if rows is None else X[rows], weights, X, M=arrays[0], n_jobs=self._n_jobs
        )
        return value, [np.asarray(gradient)]
