"""The span of the points, if there are more features than points.

Let Q be an orthonormal basis of the span. Distances between the points depend on a map L only
through ``L @ Q``, and on a metric M only through ``Q.T @ M @ Q``. Two kinds of learners use it:

- Iterative learners (`LazyBasis`, `MapOfSpan`). The steps of a rotation-invariant solver change
  ``L @ Q`` in the same way as L, and do not change other directions, so training the small map
  ``L @ Q`` gives the same result. The basis has a direction for each point.
- Solvers of scatter matrices and constraints (`span_of`, `in_span`). They find ``Q.T @ M @ Q`` from
  the coordinates of the points. Outside of the span, M is a multiple of the identity or zero: one
  additional coordinate, zero for every point, represents all of these directions. The solvers
  invert scatter matrices, so the basis leaves out directions whose spread is rounding error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import block_diag, cholesky, eigh, qr, solve_triangular
from scipy.sparse.linalg import LinearOperator, eigsh

from metricfast._core.initialize import check_n_components, components_from_metric
from metricfast._core.scaling import center_and_rescale, mean_of_points, times_power_of_two
from metricfast._core.scatter import svd, with_signs
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.wide_map import AnyMap, WideMap, memory_for_square, to_array
from metricfast.training.preconditioner import FULL_BASIS, FlatParameters

# A matrix in coordinates of points, and its trace in all directions of the features.
Target = tuple[Floats, float]
# Number of features per point above which training in the span saves more than the basis costs.
_WIDE = 1.5
# Ratio of the diagonal of a Cholesky factor above which it keeps all but a few digits.
_PRECISE = 1e-2
# For standardised features, directions with a standard deviation below this fraction of the largest
# are treated as rounding errors.
TOL = 1e-7
# Relative weight of a feature below which it is negligible.
_LEAST = 1e-16
# Singular values below this fraction of the largest are rounding errors.
_ROUNDING = 1e-12
# Distinct points are counted among at most this many rows per feature.
_MOST_ROWS = 32


class LazyBasis:
    """A basis of the span of points, computed at first use.

    `axes`: "principal", or "mixed" for axes along which points vary alike, as along features. Both
        do not depend on the order of the points. They matter to solvers whose steps are as long
        along each axis, which change principal axes of little variance too much.
    """

    def __init__(self, X: Array, axes: str | None = None) -> None:
        self._X, self._axes = X, axes

    @cached_property
    def basis(self) -> Array:
        """An orthonormal basis, of shape (n_features, n_samples)."""
        Q, R = qr(self._X.T.astype(np.float64), mode="economic", overwrite_a=True)
        if self._axes is None:
            return np.asarray(Q)
        axes = with_signs((Q @ eigh(R @ R.T)[1][:, ::-1]).T)
        if self._axes == "mixed":
            from scipy.fft import dct

            axes = dct(axes, axis=0, norm="ortho")
        return np.asarray(axes.T)


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


class SquareOf:
    """The matrix ``L.T @ L``, stored as the map L; errors have its name."""

    def __init__(self, L: AnyMap, name: str = "A_") -> None:
        self.L, self._name = L, name

    def array(self) -> Floats:
        """Return the matrix."""
        L = to_array(self.L)
        with memory_for_square(self._name, L.shape[1], L.dtype):
            return np.asarray(L.T @ L)


class GivenAxes:
    """The trivial coordinates: features as given."""

    n_rows: int | None = None  # `n_components` of the learner, if it is a number

    def points(self, X: Any) -> Any:
        """Return the coordinates of points."""
        return X

    def tuples(self, tuples: TupleSet) -> TupleSet:
        """Return tuples with points in these coordinates."""
        return tuples

    def identity(self, scatter: Floats) -> Target:
        """Return the identity as a shrinkage target for scatter matrices in these coordinates."""
        return np.eye(len(scatter)), len(scatter)

    def multiple(self, n_features: int, factor: float) -> Any:
        """Return the map for points multiplied by a factor."""
        return factor * np.eye(n_features)

    def of_variances(self, variances: Floats) -> Target:
        """Return the diagonal matrix of these feature variances as a shrinkage target."""
        return np.diag(variances), float(variances.sum())

    def diagonal(self, values: Floats) -> Floats:
        """Convert a diagonal matrix of features to coordinates."""
        return np.diag(values)

    def within(self, A: Floats) -> Floats:
        """Convert a matrix of features to coordinates."""
        return A

    def variances(self, scatter: Floats) -> Floats:
        """Return the diagonal of a scatter matrix in the axes of the features."""
        return np.diag(scatter)

    def inside(self, L: Any) -> Array:
        """Convert a map of points to a map of coordinates."""
        found: Array = L
        return found

    def outer(self, L: Any, *, square: bool, variances: Floats | None = None) -> Any:
        """Convert a map of coordinates to a map of points."""
        del square, variances
        return L

    def rescaled(self, L: Any, exponent: int) -> Any:
        """Return the float64 map for points divided by ``2**exponent``."""
        if isinstance(L, WideMap):
            return L.times_power_of_two(exponent)
        return times_power_of_two(L.astype(np.float64), exponent)

    def plus_diagonal(self, L: Any, share: float, weights: Floats, n_components: int | None) -> Any:
        """Return the map of the metric ``share * L.T @ L + diag(weights)``.

        `L`: a map of points.
        `n_components`: number of leading eigenvectors; by default all.
        """
        M = share * (L.T @ L) + np.diag(weights)
        return components_from_metric(M, n_components=n_components)


GIVEN = GivenAxes()


class Span(GivenAxes):
    """The directions in which points differ.

    Parameters
    ----------
    basis : ndarray of shape (n_features, n_directions)
        Orthonormal.
    origin : ndarray of shape (n_features,)
        A point.
    beyond : bool
        Whether points get an additional coordinate of zero.
    units : ndarray of shape (n_features,), optional
        Factors by which features are multiplied before the projection.
    """

    def __init__(
        self, basis: Floats, origin: Floats, beyond: bool, units: Floats | None = None
    ) -> None:
        self.basis, self.beyond = basis, beyond
        self._origin, self._units = origin, units

    @property
    def width(self) -> int:
        """The number of coordinates."""
        return int(self.basis.shape[1] + self.beyond)

    def points(self, X: Any) -> Array:
        """Return the coordinates of points; equal points have equal coordinates."""
        first, copies = distinct_rows(X)
        with one_blas_thread():
            away = X[first].astype(np.float64) - self._origin
            found = (away if self._units is None else away * self._units) @ self.basis
        Z = np.zeros((len(first), self.width), X.dtype)
        Z[:, : found.shape[1]] = found
        return Z[copies]

    def tuples(self, tuples: TupleSet) -> TupleSet:
        """Return tuples with points in these coordinates."""
        return replace(tuples, points=self.points(tuples.points))

    def identity(self, scatter: Floats) -> Target:
        """Return the identity as a shrinkage target.

        Its trace includes directions outside of the span.
        """
        return np.eye(len(scatter)), len(self.basis)

    def multiple(self, n_features: int, factor: float) -> Any:
        """Return the map for points multiplied by a factor."""
        return WideMap(np.full(len(self.basis), factor))

    def of_variances(self, variances: Floats) -> Target:
        """Return the diagonal matrix D of these feature variances as a shrinkage target.

        The inverse of a scatter matrix ``Q T Q.T + D`` is, within the span, the inverse of
        ``T + inv(Q.T inv(D) Q)``.
        """
        inverse = self._scaled(variances)[1]
        return block_diag(inverse @ inverse.T, *[1.0] * self.beyond), float(variances.sum())

    def diagonal(self, values: Floats) -> Floats:
        """Return ``Q.T @ diag(values) @ Q``."""
        inside = (self.basis.T * values) @ self.basis
        return np.asarray(block_diag(inside, *[0.0] * self.beyond))

    def within(self, A: Floats, factors: Floats | float = 1.0) -> Floats:
        """Return ``Q.T @ A @ Q`` of a matrix A whose features are multiplied by factors."""
        scaled = self.basis * np.reshape(factors, (-1, 1))
        return np.asarray(scaled.T @ A @ scaled)

    def variances(self, scatter: Floats) -> Floats:
        """Return the diagonal of a scatter matrix of coordinates, in the axes of the features."""
        n = self.basis.shape[1]
        found: Floats = np.einsum("ij,ij->i", self.basis @ scatter[:n, :n], self.basis)
        rounding = n * np.finfo(np.float32).eps ** 2 * np.linalg.norm(scatter)
        return np.where(found > rounding * np.square(self.basis).sum(axis=1), found, 0.0)

    def inside(self, L: Any) -> Array:
        """Convert a map of points to a map of coordinates."""
        if isinstance(L, WideMap):
            rows = np.linalg.qr(L.embed(self.basis.T).T, mode="r")
            return np.hstack([rows, np.zeros((len(rows), int(self.beyond)))]).astype(L.dtype)
        rows = L @ self.basis.astype(L.dtype)
        return np.hstack([rows, np.zeros((len(L), int(self.beyond)), L.dtype)])

    def outer(self, L: Any, *, square: bool, variances: Floats | None = None) -> Any:
        """Return the map of points that corresponds to a map of coordinates.

        `square`: whether directions outside of the span keep the weight that they have in L.
        `variances`: variances of features. Directions outside of the span are then orthogonal to it
            after standardisation; by default they are orthogonal without it.
        """
        if L.shape[1] > self.width:
            return L
        n = self.basis.shape[1]
        inside, outside = L[:, :n].astype(np.float64), np.linalg.norm(L[:, n:])
        basis, units = self.basis, self._units
        if variances is not None:
            basis, inverse = self._scaled(variances)
            inside, units = inside @ inverse, inverse_root(variances)
        if square and outside > 0:
            _, sizes, axes = svd(inside)
            return _along(basis @ axes.T, sizes, float(outside), units, L.dtype)
        rows = with_signs((inside[:n] if square else inside) @ basis.T)
        return np.asarray((rows if units is None else rows * units).astype(L.dtype))

    def plus_diagonal(self, L: Any, share: float, weights: Floats, n_components: int | None) -> Any:
        """Return the map of the metric ``share * L.T @ L + diag(weights)``."""
        if isinstance(L, WideMap):  # the square of diag(u) + A B^T is diag(u^2) + W K W^T
            columns = np.hstack([L.right, L.diagonal[:, None] * L.left])
            eye = np.eye(L.left.shape[1])
            inner = share * np.block([[L.left.T @ L.left, eye], [eye, 0 * eye]])
            weights = weights + share * L.diagonal**2
        else:
            columns, inner = L.astype(np.float64).T, share * np.eye(len(L))
        # The smallest weight at which the contribution of a feature to L is representable.
        weights = np.maximum(weights, _LEAST * weights.max() * columns.any(axis=1))
        units = np.sqrt(weights)
        Q, R = np.linalg.qr(columns * inverse_root(weights)[:, None])
        values, vectors = np.linalg.eigh(np.eye(len(R)) + R @ inner @ R.T)
        axes, sizes = Q @ vectors, np.sqrt(np.maximum(values, 0))
        if n_components is None:
            return _along(axes, sizes, 1.0, units, L.dtype)
        return _leading(axes, sizes, units, n_components).astype(L.dtype)

    def _scaled(self, variances: Floats) -> tuple[Floats, Floats]:
        """Return an orthonormal basis of standardised features, and the rotation to it.

        Constant features are left out.
        """
        scaled = self.basis * inverse_root(variances)[:, None]
        left, sizes, right = svd(scaled)
        kept = sizes > _ROUNDING * sizes[0]
        return left[:, kept], right[kept].T / sizes[kept]


def _along(axes: Floats, sizes: Floats, rest: float, units: Floats | None, dtype: Any) -> WideMap:
    """Return a map by factors along orthonormal axes, and a factor in all other directions.

    `units`: factors of the features, before.
    """
    units = np.ones(len(axes)) if units is None else units
    return WideMap(rest * units, axes * (sizes - rest), axes * units[:, None], dtype)


def _leading(axes: Floats, sizes: Floats, units: Floats, n_components: int) -> Array:
    """Return the rows of ``L.T @ L`` of an `_along` map L, from its leading eigenvectors.

    If all features have equal weight, directions along the axes come first.
    """
    if units.min() == units.max():
        order = np.argsort(-sizes, kind="stable")[:n_components]
        return np.ascontiguousarray((axes[:, order] * (units[0] * sizes[order])).T)

    def times(x: Floats) -> Floats:
        y = x.ravel() * units
        return np.asarray(units * (y + axes @ ((sizes**2 - 1) * (axes.T @ y))))

    product = LinearOperator((len(axes),) * 2, times, dtype=np.float64)
    start = np.random.RandomState(0).standard_normal(len(axes))
    values, vectors = eigsh(product, n_components, which="LA", v0=start)
    order = np.argsort(-values)
    rows = vectors[:, order] * np.sqrt(np.maximum(values[order], 0))
    return np.ascontiguousarray(rows.T)


def inverse_root(variances: Floats) -> Floats:
    """Return the inverse square roots, and zero for zero."""
    root = np.sqrt(variances)
    return np.divide(1, root, out=np.zeros_like(root), where=root > 0)


@contextmanager
def in_span(
    learner: Any, *points: Any, beyond: bool = True, tol: float = TOL, when: bool = True
) -> Iterator[GivenAxes]:
    """Make a learner work in the span of the points, if there are more features than points.

    Inside the block, the learner's maps are maps of coordinates. `n_components` is at most the
    number of coordinates. Afterwards, the map has as many rows as were asked for: those beyond the
    coordinates are zero.

    `points`: arrays of all points that are learned from. Of points that are not in memory the
        features are used as given.
    `beyond`: whether the metric counts in directions in which no points differ.
    `tol`: the standard deviation of a direction, relative to the largest, that is rounding.
    `when`: whether the result does not depend on the axes.
    """
    span = span_of(*points, beyond=beyond, tol=tol) if when else GIVEN
    if not isinstance(span, Span):
        yield span
        return
    n_components = learner.n_components if hasattr(learner, "n_components") else None
    if isinstance(n_components, str):  # the learner chooses
        n_components = None
    if n_components is not None:
        check_n_components(len(span.basis), n_components)
        learner.n_components, span.n_rows = min(n_components, span.width), n_components
    learner._span = span
    try:
        yield span
    finally:
        del learner._span
        if n_components is not None:
            learner.n_components = n_components
    if n_components is not None:
        L = learner.components_
        learner.components_ = np.pad(L, ((0, n_components - len(L)), (0, 0)))


def span_of(
    *points: Any, beyond: bool = False, tol: float = TOL, units: Floats | None = None
) -> GivenAxes:
    """Return the span of the points, if there are more features than distinct points.

    Otherwise, and if coordinates may overflow, return the features as given. :func:`in_span`
    describes the parameters.

    `units`: factors by which features are multiplied before the projection.
    """
    if not all(isinstance(part, np.ndarray) for part in points):
        return GIVEN
    n_features, n_rows = points[0].shape[1], sum(map(len, points))
    if n_features < 2 or n_rows > _MOST_ROWS * n_features:
        return GIVEN
    X = points[0] if len(points) == 1 else np.concatenate(points)
    first, _ = distinct_rows(X, fewer_than=n_features)
    if len(first) >= n_features:
        return GIVEN
    X = X[first].astype(np.float64)
    if max(X.max(), -X.min()) > np.finfo(points[0].dtype).max / (8 * n_features):
        return GIVEN
    origin = mean_of_points(X)
    # Constant features become exactly zero.
    centred, _ = center_and_rescale(X if units is None else X * units)
    deviation = np.sqrt(np.square(centred).mean(axis=0))
    constant = deviation == 0
    deviation[constant] = 1
    with one_blas_thread():
        scaled = centred / deviation
        values, vectors = np.linalg.eigh(scaled @ scaled.T)
        kept = values > max(tol**2 * values[-1], 0)
        if not kept.any():
            return GIVEN
        directions = vectors[:, kept][:, ::-1].T @ centred
        basis, _ = qr(directions.T / np.linalg.norm(directions, axis=1), mode="economic")
    basis[constant] = 0  # removes rounding errors
    return Span(basis, origin, beyond, units)


def distinct_rows(X: Array, fewer_than: float = np.inf) -> tuple[Integers, Integers]:
    """Return one row of each distinct point, and for each point the index of its distinct point.

    Stops when there are `fewer_than` distinct points.
    """
    found: dict[bytes, int] = {}
    first: list[int] = []
    copies = np.zeros(len(X), np.int64)
    for i, row in enumerate(X):
        copies[i] = found.setdefault((row + 0.0).tobytes(), len(first))  # -0.0 equals 0.0
        if copies[i] == len(first):
            first.append(i)
            if len(first) >= fewer_than:
                break
    return np.array(first, np.int64), copies
