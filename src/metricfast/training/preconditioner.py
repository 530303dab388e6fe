"""Preconditioners: conversions between parameters and the solver's vector."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky
from scipy.linalg.blas import dtrmm, strmm
from scipy.linalg.lapack import dtrtri

from metricfast._core.scatter import square_root, within_scatter
from metricfast._core.sparse import WIDE

Array = NDArray[Any]
# Up to this many features, variables are changed fully: n_features^3 once, its square in memory.
FULL_BASIS = WIDE
# With less, steps along directions with little scatter are too long. With more, the preconditioner
# has too little effect.
_FLOOR = 0.03


class FlatParameters:
    """The parameters without preconditioning, concatenated.

    Attributes
    ----------
    least : float
        The smallest factor by which the solver's vector multiplies a direction of a map.
    """

    least = 1.0

    def __init__(self, shapes: Iterable[tuple[int, ...]]) -> None:
        self.shapes = list(shapes)

    def vector(self, arrays: Sequence[Array]) -> Array:
        """Convert parameters to the solver's vector."""
        return np.concatenate(list(map(np.ravel, arrays)))

    def arrays(self, vector: Array) -> list[Array]:
        """Convert the solver's vector to parameters, which are views of it."""
        arrays, start = [], 0
        for shape in self.shapes:
            size = math.prod(shape)
            arrays.append(vector[start : start + size].reshape(shape))
            start += size
        return arrays

    def pullback(self, gradients: Sequence[Array]) -> Array:
        """Convert gradients by the parameters to the gradient by the solver's vector."""
        flat = list(map(np.ravel, gradients))
        return flat[0] if len(flat) == 1 else np.concatenate(flat)  # no copy of a large map


class ScaledParameters(FlatParameters):
    """The parameters, divided by a factor: the steps of a solver are as many times as long."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], factor: float) -> None:
        super().__init__(shapes)
        self._factor = factor

    def vector(self, arrays: Sequence[Array]) -> Array:
        """Convert parameters to the solver's vector."""
        return np.asarray(super().vector(arrays) / self._factor, arrays[0].dtype)

    def arrays(self, vector: Array) -> list[Array]:
        """Convert the solver's vector to parameters."""
        return super().arrays(np.asarray(vector * self._factor, vector.dtype))

    def pullback(self, gradients: Sequence[Array]) -> Array:
        """Convert gradients by the parameters to the gradient by the solver's vector."""
        return np.asarray(super().pullback(gradients) * self._factor, gradients[0].dtype)


class PSDProjection(FlatParameters):
    """The entries of the matrix M = L^T L of a map L.

    Negative eigenvalues of M are set to zero, also in the solver's vector.
    """

    def vector(self, arrays: Sequence[Array]) -> Array:
        """Convert a map to the solver's vector."""
        return np.asarray(arrays[0].T @ arrays[0]).ravel()

    def arrays(self, vector: Array) -> list[Array]:
        """Convert the solver's vector to M."""
        (M,) = super().arrays(vector)
        values, vectors = np.linalg.eigh((M + M.T) / 2)
        M[:] = (vectors * np.maximum(values, 0)) @ vectors.T
        return [M]


class Preconditioner(FlatParameters):
    """The entries of A in ``L = A K^-1``, for a map L and a matrix K that is chosen for the loss.

    `scatter` is a symmetric positive semidefinite matrix or its diagonal, approximating the
    curvature of the loss in each row of L. K is its Cholesky factor, after 3 % of its mean diagonal
    entry is added to the diagonal; by default the identity. The mean is over `n_features`, which is
    more than the entries there are for points in coordinates of their span. Maps and
    gradients are converted in `dtype`, which is that of the points.

    Attributes
    ----------
    least : float
        The factor by which K multiplies directions without scatter.
    """

    def __init__(
        self, n_features: int, scatter: NDArray[np.float64] | None = None, dtype: Any = np.float64
    ) -> None:
        self._width = width = n_features if scatter is None else len(scatter)
        self.least = math.sqrt(_FLOOR)
        factor: Array
        inverse: Array
        if scatter is None or not scatter.any():
            factor = inverse = np.ones(width)
            self.least = 1.0
        elif scatter.ndim == 1:
            factor = np.sqrt(scatter / (scatter.sum() / n_features) + _FLOOR)
            inverse = 1 / factor
        else:
            relative = scatter / (np.diag(scatter).sum() / n_features)
            factor = cholesky(relative + _FLOOR * np.eye(width), lower=True)
            inverse = dtrtri(factor, lower=True)[0]
        self._factor, self._inverse = factor, inverse.astype(dtype, copy=False)

    def vector(self, arrays: Sequence[Array]) -> NDArray[np.float64]:
        """Convert a map to the solver's vector."""
        return _times(arrays[0], self._factor).ravel()

    def arrays(self, vector: Array) -> list[Array]:
        """Convert the solver's vector to a map."""
        return [_times(vector.reshape(-1, self._width), self._inverse)]

    def pullback(self, gradients: Sequence[Array]) -> NDArray[np.float64]:
        """Convert the gradient by the map to the gradient by the solver's vector."""
        return _times(gradients[0], self._inverse, transposed=True).ravel()


def class_preconditioner(data: Any, *, root: bool = False) -> Preconditioner:
    """Return the preconditioner from the scatter within classes.

    With `root`, it uses the square root of the scatter, and for many features only the diagonal.
    """
    wide = data.X.shape[1] > FULL_BASIS
    scatter = within_scatter(data.X, data.strata, data.weight, diagonal=wide)
    return Preconditioner(data.n_features, square_root(scatter) if root else scatter, data.X.dtype)


def _times(A: Array, K: NDArray[np.float64], *, transposed: bool = False) -> NDArray[np.float64]:
    """Return ``A @ K``, or ``A @ K.T``, for a lower triangular matrix K or a diagonal."""
    if K.ndim == 1:
        return np.asarray(A * K)
    multiply = strmm if K.dtype == np.float32 else dtrmm
    # BLAS works on the transposes, which are in Fortran's order.
    return np.asarray(multiply(1.0, K, A.T, lower=True, trans_a=not transposed).T)
