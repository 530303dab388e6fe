"""Initial maps of two sides: directions in which their class means are correlated."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array, issparse

from metricfast._core.points import dense, values_of
from metricfast._core.scatter import MANY_FEATURES, scatter_matrix, svd
from metricfast._core.sparse import principal_axes
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast.embeddings._linear import FURTHER


class _Whitening:
    """The inverse square root of a covariance matrix plus a multiple of the identity.

    `ridge`: this multiple, relative to the mean variance of the features.
    """

    def __init__(self, X: Any, ridge: float) -> None:
        n, width = X.shape
        values = values_of(X)
        unit = max(values.max(initial=0), -values.min(initial=0)) or 1.0
        X = X.astype(np.float64) / unit  # avoids overflow of squares
        weights, group = np.ones(n), np.zeros(n, np.int64)
        mean = np.asarray(X.mean(axis=0)).reshape(1, -1)
        squares = (X.multiply(X) if issparse(X) else X * X).sum() / n - (mean**2).sum()
        if width <= MANY_FEATURES:
            variances, vectors = eigh(scatter_matrix(X, weights, group, mean) / n)
            self._axes = vectors.T
        else:
            k = min(200, min(X.shape) - 1)  # leading axes
            self._axes = principal_axes(X, weights, k) if k else np.empty((0, width))
            variances = np.asarray((X @ self._axes.T).var(axis=0))
        least = ridge * max(squares / width, np.finfo(np.float64).tiny)
        self._rest = 1 / np.sqrt(least)
        self._factors = 1 / np.sqrt(np.maximum(variances, 0) + least) - self._rest

    def __call__(self, rows: Floats) -> Floats:
        """Multiply rows by the matrix."""
        return np.asarray(self._rest * rows + rows @ self._axes.T * self._factors @ self._axes)


def correlated_maps(
    points: list[tuple[Any, Integers]], n_rows: int, ridge: float, rng: RandomState
) -> list[Array]:
    """Return maps by regularised canonical correlation of the means of classes.

    Each side is whitened with a regularisation of `ridge` times the mean variance of its features.
    Rows are singular vectors of the cross-covariance of both sides' class means, scaled by the
    square roots of the singular values. Rows beyond the rank are random and a hundredth as long.
    """
    n_classes = max(y.max() for _, y in points) + 1
    sizes = [np.bincount(y, minlength=n_classes) for _, y in points]
    both = np.flatnonzero((sizes[0] > 0) & (sizes[1] > 0))
    share = np.sqrt(sizes[0][both] * sizes[1][both])[:, None]
    whitenings = [_Whitening(X, ridge) for X, _ in points]
    bases, cores = [], []
    for (X, y), size, whiten in zip(points, sizes, whitenings, strict=True):
        means = _class_means(X, y, len(size))[both]
        means = np.sqrt(share) * (means - (share * means).sum(axis=0) / max(share.sum(), 1))
        left, lengths, right = svd(whiten(means))
        bases.append(right)
        cores.append(left * lengths)
    P, correlations, Q = svd(cores[0].T @ cores[1])
    rank = min(n_rows, max(len(both) - 1, 0), len(correlations))
    lengths = np.sqrt(correlations[:rank] / (correlations[:1] if rank and correlations[0] else 1))
    maps = []
    for (X, _), basis, turn, whiten in zip(points, bases, (P.T, Q), whitenings, strict=True):
        L = rng.standard_normal((n_rows, X.shape[1]))
        L /= np.linalg.norm(L, axis=1, keepdims=True)
        found = whiten(turn[:rank] @ basis) * np.maximum(lengths, FURTHER)[:, None]
        size = np.linalg.norm(found) / np.sqrt(max(rank, 1))
        L *= FURTHER
        if size > 0:
            L[:rank] = found / size
        maps.append(L.astype(X.dtype))
    return maps


def _class_means(X: Any, y: Integers, n_classes: int) -> Array:
    """Return the mean of each class, zero for a class without points."""
    counts = np.bincount(y, minlength=n_classes)
    member = csr_array((np.ones(len(y)), (y, np.arange(len(y)))), shape=(n_classes, len(y)))
    return np.asarray(dense(member @ X) / np.maximum(counts, 1)[:, None])
