"""Training in the span of the points, if there are many more features than points.

Let Q be an orthonormal basis of the span. Distances between the points depend on a map L only
through ``L Q``. The steps of a rotation-invariant solver change ``L Q`` in the same way as L, and
do not change other directions. So training the small map ``L Q`` gives the same result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, qr, solve_triangular

from metricfast._core.wide_map import AnyMap, WideMap
from metricfast.training.preconditioner import FULL_BASIS, FlatParameters

__all__ = ["LazyBasis", "MapOfSpan", "WithConstant", "trains_in_span"]

Array = NDArray[Any]
# Number of features per point above which training in the span saves more than the basis costs.
_WIDE = 1.5
# Ratio of the diagonal of a Cholesky factor above which it keeps all but a few digits.
_PRECISE = 1e-2


class LazyBasis:
    """A basis of the span of points, computed at first use.

    `principal`: of principal axes, which do not depend on the order of the points. It matters to
    solvers whose steps depend on the axes.
    """

    def __init__(self, X: Array, *, principal: bool = False) -> None:
        self._X, self._principal = X, principal

    @cached_property
    def basis(self) -> Array:
        """An orthonormal basis, of shape (n_features, n_samples)."""
        Q, R = qr(self._X.T.astype(np.float64), mode="economic", overwrite_a=True)
        return np.asarray(Q @ eigh(R @ R.T)[1][:, ::-1] if self._principal else Q)


def trains_in_span(n_samples: float, n_features: int) -> bool:
    """Return whether there are so many features that training in the span pays.

    More than `FULL_BASIS` points are preconditioned by feature, which is impossible in a basis.
    """
    return bool(n_samples <= FULL_BASIS and n_features >= _WIDE * n_samples)


class MapOfSpan:
    """A map ``L = U A Q^T + rest``; training changes only A.

    Q is the basis. U has orthonormal columns, which no distance depends on: A has at most as many
    rows as Q has columns.

    Parameters
    ----------
    L : ndarray of shape (n_components, n_features), or WideMap
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

    def __init__(self, L: AnyMap, basis: Array) -> None:
        self._L, self._basis, self.n_entries = L, basis, len(L) * len(basis)
        n_features, n_directions = basis.shape
        # Without U, it is L Q A_0^-1, for the initial A_0.
        self._left: Array | None = None
        if isinstance(L, WideMap) and not L.left.size and (L.diagonal == L.diagonal[0]).all():
            self._left, self._start = basis, L.diagonal[0] * np.eye(n_directions)
            self.rest_norm = abs(float(L.diagonal[0])) * math.sqrt(n_features - n_directions)
        elif isinstance(L, WideMap):
            self._left, self._start = _orthonormal(self._inside)
            outside = np.maximum(1 - np.square(basis).sum(axis=1), 0)
            self.rest_norm = math.sqrt(L.diagonal**2 @ outside)
        else:
            inside = self._inside
            self._left, self._start = None, inside
            if len(L) > n_directions:
                self._left, self._start = _orthonormal(inside)
            self.rest_norm = float(np.linalg.norm(L - inside @ basis.T))
        self.inner = self._start.astype(L.dtype)

    @property
    def _inside(self) -> Array:
        """L Q."""
        if isinstance(self._L, WideMap):
            return np.asarray(self._L.embed(self._basis.T).T)
        return np.asarray(self._L.astype(np.float64) @ self._basis)

    def outer(self, inner: Array) -> AnyMap:
        """Return the map L for a trained A."""
        L, inside = self._L, self._inside
        if len(L) > len(inner) and self._left is None:
            self._left = solve_triangular(self._start, inside.T, trans="T").T
        change = (inner if self._left is None else self._left @ inner) - inside
        if isinstance(L, WideMap):
            left, right = np.hstack([L.left, change]), np.hstack([L.right, self._basis])
            return WideMap(L.diagonal, left, right, L.dtype)
        return np.asarray(L + change @ self._basis.T)


def _orthonormal(columns: Array) -> tuple[Array | None, Array]:
    """Return the QR decomposition; None in place of Q if ``columns @ inv(R)`` is as precise.

    Of few columns, Cholesky factors are much faster than Householder's reflections.
    """
    try:
        R = cholesky(columns.T @ columns)
        if np.diag(R).min() < _PRECISE * np.diag(R).max():
            Q = solve_triangular(R, columns.T, trans="T")
            R = cholesky(Q @ Q.T) @ R
        return None, R
    except np.linalg.LinAlgError:
        return np.linalg.qr(columns)


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
