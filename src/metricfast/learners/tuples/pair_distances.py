"""The objective of MMC: sums of distances of pairs, in whitened coordinates."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Annotated, Any

import numpy as np

from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.scaling import moderate
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, Integers

__all__ = ["Diagonal", "PairDistances", "scale_of_features"]

# Lower bound of the mean square of similar pairs along a direction, relative to all pairs. Without
# it, the objective is unbounded along directions in which similar points do not differ.
_FLOOR = 1e-6
# Fraction of the mean eigenvalue that is added to the initial matrix: directions with a weight of
# zero would keep it forever.
_SPREAD = 1e-3


def _check_diagonal(name: str, value: object) -> None:
    """Raise ValueError unless `value` is a boolean, or 0 or 1."""
    if not isinstance(value, (Integral, np.bool_)) or value not in (0, 1):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


Diagonal = Annotated[bool, _check_diagonal]


class PairDistances:
    r"""Find the metric A that maximises the sum of distances g, given the sum of squared distances.

    The sum g is over dissimilar pairs, and scales with the square root of A. Let S be the scatter
    of similar pairs. The maximum of g under a bound on <A, S> has the direction that minimises
    :math:`\log\langle A, S \rangle / 2 - \log g(A)` without a constraint. The factor F of A has
    coordinates in which S is the identity, and :math:`\langle A, S \rangle = \|F\|^2`.

    `pairs`: both similar and dissimilar ones.
    `A`: ndarray of shape (n_features, n_features); the initial matrix, not zero.
    `diagonal`: whether only diagonal matrices count.
    `beyond`: for pairs of coordinates in units of :func:`scale_of_features`, the trace of A in the
        directions outside, and the number of features.
    `start` is the initial factor; `initial_size` is <A, S> for the given A.
    """

    def __init__(
        self, pairs: TupleSet, A: Floats, *, diagonal: bool, beyond: tuple[float, int] | None = None
    ) -> None:
        # The best direction of A does not depend on the unit of the points, and its size is
        # relative to the initial one.
        points = moderate(pairs.points)
        similar, self._dissimilar = (
            _Pairs(points, pairs.index[pairs.y == kind], diagonal) for kind in (1, -1)
        )
        S, D = similar.scatter(), self._dissimilar.scatter()
        variances = [s[0] if diagonal else np.diag(s) for s in (S, D)]
        if not variances[1].any():
            raise ValueError("The two points of every dissimilar pair coincide.")
        scale = variances[0] + len(similar) / len(self._dissimilar) * variances[1]
        trace, n_features = (0.0, len(A)) if beyond is None else beyond
        coordinates = _DiagonalCoordinates if diagonal else _FullCoordinates
        self._coordinates: Any = coordinates(S, scale if beyond is None else np.ones(len(A)))
        self.initial_size = self._coordinates.size(A) + _FLOOR * trace
        if not self.initial_size > 0:
            raise ValueError("`init` must not be zero for all features that vary.")
        self.start = self._coordinates.start(A / self.initial_size, n_features)

    def objective(self, F: Floats) -> tuple[float, Floats, float]:
        """Return the value and gradient at F, and an upper bound of the relative increase of g.

        Because g is concave, its maximum is at most g plus the gain of its linear approximation at
        the best matrix with the same <A, S>. That matrix follows the gradient's leading
        eigenvector.
        """
        g, scatter = self._dissimilar.distances(self._coordinates.map(F))
        slope, steepest = self._coordinates.slope(F, scatter)
        size = float(np.sum(F * F))
        value = math.log(size) / 2 - math.log(g)
        return value, F / size - slope / g, (size * steepest / g - 1) / 2

    def metric(self, F: Floats, size: float) -> Floats:
        """Return A, scaled to a given <A, S>."""
        return np.asarray(self._coordinates.square(self.map(F, size)))

    def map(self, F: Floats, size: float) -> Floats:
        """Return L of ``A = L.T @ L``, scaled to a given <A, S>."""
        return np.asarray(self._coordinates.map(F * np.sqrt(size / np.sum(F * F))))


def scale_of_features(pairs: TupleSet) -> Floats:
    """Return the sums of squared differences of all pairs, for each feature."""
    points = moderate(pairs.points)
    similar, dissimilar = (
        _Pairs(points, pairs.index[pairs.y == kind], diagonal=True) for kind in (1, -1)
    )
    share = len(similar) / len(dissimilar)
    return np.asarray(similar.scatter()[0] + share * dissimilar.scatter()[0])


class _Pairs:
    """Pairs of one kind, and the sums over them for training.

    `points`: ndarray of shape (n_points, n_features).
    `index`: ndarray of shape (n_pairs, 2), int64.
    `diagonal`: whether maps and scatters are diagonal, stored in shape (1, n_features).
    """

    def __init__(self, points: Array, index: Integers, diagonal: bool) -> None:
        self._points, self._index = points, np.ascontiguousarray(index)
        self._diagonal, self._threads = diagonal, as_threads(None)

    def __len__(self) -> int:
        return len(self._index)

    def distances(self, L: Floats) -> tuple[float, Floats]:
        """Return the sum of distances, and the sum of v v' / distance over differences v."""
        return self._sum(L, False)

    def scatter(self) -> Floats:
        """Return the sum of v v'."""
        return self._sum(np.zeros((1, self._points.shape[1])), True)[1]

    def _sum(self, L: Floats, squared: bool) -> tuple[float, Floats]:
        kernels, d = get_kernels(), self._points.shape[1]
        kernel = kernels.sum_of_squared_distances if squared else kernels.sum_of_distances
        scatter, L = np.empty((1 if self._diagonal else d, d)), np.ascontiguousarray(L)
        value = kernel(scatter, self._points, self._index, L, self._diagonal, self._threads)
        return value, scatter


class _FullCoordinates:
    r"""Coordinates in which the scatter S of similar pairs is the identity: L = F K^{-1}.

    `scatter`: ndarray of shape (n_features, n_features); S. Its eigenvalues, after scaling of
        features, are raised to a lower bound.
    `scale`: ndarray of shape (n_features,); sums of squares of features, summed like S. Features of
        scale zero get no weight.
    """

    def __init__(self, scatter: Floats, scale: Floats) -> None:
        root = np.sqrt(scale)
        inverse = _inverse(root)
        values, vectors = np.linalg.eigh(scatter * np.outer(inverse, inverse))
        values = np.sqrt(np.maximum(values, _FLOOR))
        self._factor = root[:, None] * vectors * values
        self._inverse = (vectors / values).T * inverse

    def size(self, A: Floats) -> float:
        """Return <A, S>."""
        return float(np.sum(A @ self._factor * self._factor))

    def start(self, A: Floats, n_features: int) -> Floats:
        """Return a factor F of A, after making A positive definite and scaling it to size 1."""
        B = self._factor.T @ A @ self._factor
        return np.asarray(np.linalg.cholesky(B + _SPREAD / n_features * np.eye(len(B))).T)

    def map(self, F: Floats) -> Floats:
        return np.asarray(F @ self._inverse)

    @staticmethod
    def square(L: Floats) -> Floats:
        return np.asarray(L.T @ L)

    def slope(self, F: Floats, scatter: Floats) -> tuple[Floats, float]:
        """Return F H and the largest eigenvalue of H, the scatter in these coordinates."""
        H = self._inverse @ scatter @ self._inverse.T
        return F @ H, float(np.linalg.eigvalsh(H)[-1])


class _DiagonalCoordinates:
    """Coordinates for diagonal A: only the diagonal of S counts; factors and maps are rows."""

    def __init__(self, scatter: Floats, scale: Floats) -> None:
        self._square = np.maximum(scatter[0], _FLOOR * scale)
        self._inverse = _inverse(np.sqrt(self._square))

    def size(self, A: Floats) -> float:
        return float(np.diag(A) @ self._square)

    def start(self, A: Floats, n_features: int) -> Floats:
        return np.asarray(np.sqrt(np.diag(A) * self._square + _SPREAD / n_features)[None])

    def map(self, F: Floats) -> Floats:
        return np.asarray(F * self._inverse)

    @staticmethod
    def square(L: Floats) -> Floats:
        return np.diag(L[0] ** 2)

    def slope(self, F: Floats, scatter: Floats) -> tuple[Floats, float]:
        H = scatter * self._inverse**2
        return np.asarray(F * H), float(H.max())


def _inverse(values: Floats) -> Floats:
    """Return inverses of values, and zero for zero."""
    return np.asarray(np.divide(1, values, out=np.zeros_like(values), where=values > 0))
