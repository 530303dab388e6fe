"""The base class of learners of bilinear similarities."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from metricfast._core.arguments import check_no_overflow
from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.mahalanobis import as_vectors, finite_between
from metricfast._core.memory import block_rows
from metricfast._core.sources import row_bytes
from metricfast._core.types import Array, Integers
from metricfast.learners.base.learner import BaseMetricLearner


class BilinearSimilarity:
    r"""The function :math:`u^T W v` of two points; holds a copy of W."""

    __slots__ = ("_matrix",)

    def __init__(self, matrix: Array) -> None:
        self._matrix = np.array(matrix, dtype=np.float64)

    def __call__(self, u: Any, v: Any) -> float:
        """Return the similarity of u to v, both of shape (n_features,)."""
        u, v = as_vectors(u, v, len(self._matrix))
        return finite_between(float(u @ self._matrix @ v), u, v)


class BilinearMixin(BaseMetricLearner):
    r"""Base class of learners of a bilinear similarity.

    The similarity of x to x' is :math:`x^T W x'`. W need not be symmetric nor positive, so that
    there is no distance, and no map of points. A learner sets `bilinear_` in `fit`.

    Attributes
    ----------
    bilinear_ : ndarray of shape (n_features, n_features)
        The learned matrix W.

    Examples
    --------
    >>> from metricfast import OASIS
    >>> oasis = OASIS().fit([[[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]])
    >>> oasis.pair_score([[[1.0, 0.0], [1.0, 0.0]]]).shape
    (1,)
    """

    _fitted = "bilinear_"

    bilinear_: Array

    def _indexed_score(self, points: Array, pairs: Integers) -> Array:
        transposed = np.ascontiguousarray(self.bilinear_.T, points.dtype)
        threads = as_threads(getattr(self, "n_jobs", None))
        scores = np.empty(len(pairs), points.dtype)
        size = block_rows(row_bytes(points), most=2 << 20)
        for start in range(0, len(pairs), size):
            left, right = points[pairs[start : start + size].T]
            products = np.empty_like(left)
            get_kernels().linear_forward(left, transposed, products, threads)
            scores[start : start + size] = np.einsum("ij,ij->i", products, right)
        check_no_overflow(f"scores of pairs in {scores.dtype}", scores)
        return scores

    @property
    def pair_distance(self) -> Any:
        """Raises AttributeError: a similarity has no distance."""
        raise AttributeError(
            f"{type(self).__name__} learns a bilinear similarity, which is no distance: use "
            "pair_score."
        )

    def get_metric(self) -> BilinearSimilarity:
        """Return the learned similarity as a function ``f(u, v)`` of two points.

        Later fits do not change the function.
        """
        check_is_fitted(self, "bilinear_")
        return BilinearSimilarity(self.bilinear_)

    def get_bilinear_matrix(self) -> Array:
        """Return a copy of the learned matrix W, of shape (n_features, n_features)."""
        check_is_fitted(self, "bilinear_")
        return np.array(self.bilinear_)
