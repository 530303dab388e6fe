"""Training in the span of the points, if there are many more features than points.

Let Q be an orthonormal basis of the span. Distances between the points depend on a map L only
through ``L Q``. The steps of a rotation-invariant solver change ``L Q`` in the same way as L, and
do not change other directions. So training the small map ``L Q`` gives the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricfast.training.preconditioner import FULL_BASIS, FlatParameters

__all__ = ["MapOfSpan", "Span", "WithConstant", "span_of"]

Array = NDArray[Any]
# Number of features per point above which training in the span saves more than the basis costs.
_WIDE = 1.5


class Span:
    """The span of points; its basis is computed at first use."""

    def __init__(self, X: Array) -> None:
        self._X = X

    @cached_property
    def basis(self) -> Array:
        """An orthonormal basis, of shape (n_features, n_samples)."""
        return np.linalg.qr(self._X.T.astype(np.float64))[0]


def span_of(X: Any) -> Span | None:
    """Return the span of points for the training, or None.

    None if there are not many more features than points, or points are not an array in memory. More
    than `FULL_BASIS` points are preconditioned by feature, which is impossible in a basis.
    """
    if not isinstance(X, np.ndarray):
        return None
    n_samples, n_features = X.shape
    wide = n_samples <= FULL_BASIS and n_features >= _WIDE * n_samples
    return Span(X) if wide else None


class MapOfSpan:
    """A map ``L = U A Q^T + rest``; training changes only A.

    Q is the basis. U has orthonormal columns, which no distance depends on: A has at most as many
    rows as Q has columns.

    Parameters
    ----------
    L : ndarray of shape (n_components, n_features)
        The initial map.
    basis : ndarray of shape (n_features, n_directions)

    Attributes
    ----------
    inner : ndarray of shape (min(n_components, n_directions), n_directions)
        A at the start, in the dtype of L.
    rest_norm : float
        The norm of `rest`.
    n_entries : int
        The number of entries of L.
    """

    def __init__(self, L: Array, basis: Array) -> None:
        inner = L.astype(np.float64) @ basis
        self._basis, self._dtype = basis, L.dtype
        self._rest = L - inner @ basis.T
        self._left: Array | None = None
        if len(L) > len(inner.T):
            self._left, inner = np.linalg.qr(inner)
        self.inner = inner.astype(L.dtype)
        self.rest_norm, self.n_entries = float(np.linalg.norm(self._rest)), L.size

    def outer(self, inner: Array) -> Array:
        """Return the map L for a trained A."""
        towards = inner if self._left is None else self._left @ inner
        return np.asarray(towards @ self._basis.T + self._rest)


class WithConstant(FlatParameters):
    """Parameters of another preconditioner, then the norm of the directions outside of the span.

    The norm is constant; relative step lengths refer to the norm of the whole map.
    """

    def __init__(self, of_span: FlatParameters, rest_norm: float) -> None:
        self._of_span, self._constant = of_span, rest_norm * of_span.least

    def vector(self, arrays: Sequence[Array]) -> Array:
        """Convert the map of the span to the solver's vector."""
        return np.append(self._of_span.vector(arrays), self._constant)

    def arrays(self, vector: Array) -> list[Array]:
        """Convert the solver's vector to the map of the span."""
        return self._of_span.arrays(vector[:-1])

    def pullback(self, gradients: Sequence[Array]) -> Array:
        """Convert the gradient by the map to the gradient by the solver's vector."""
        return np.append(self._of_span.pullback(gradients), 0.0)
