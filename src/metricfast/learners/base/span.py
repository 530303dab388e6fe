"""Learn in the span of the points, if there are more features than points.

Let Q be an orthonormal basis of the differences of the points. Distances between the points depend
on a metric M only through ``Q.T @ M @ Q``. A rotation-invariant solver finds this matrix from the
coordinates of the points in the basis. Outside of the span, its result is a multiple of the
identity or zero. One additional coordinate, zero for every point, represents all directions outside
of the span.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import block_diag, qr
from scipy.sparse.linalg import LinearOperator, eigsh

from metricfast._core.initialize import check_n_components, components_from_metric
from metricfast._core.points import dense
from metricfast._core.scaling import (
    center_and_rescale,
    mean_of_points,
    times_power_of_two,
    undo_scale,
)
from metricfast._core.scatter import svd, with_signs
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.wide_map import AnyMap, WideMap, memory_for_square

__all__ = [
    "GIVEN",
    "GivenAxes",
    "Span",
    "SpanMap",
    "SquareOf",
    "Target",
    "distinct_rows",
    "in_span",
    "inverse_root",
    "span_of",
]

# A matrix in coordinates of points, and its trace in all directions of the features.
Target = tuple[Floats, float]
# For standardised features, directions with a standard deviation below this fraction of the largest
# are treated as rounding errors.
TOL = 1e-7
# Relative weight of a feature below which it is negligible.
_LEAST = 1e-16
# Singular values below this fraction of the largest are rounding errors.
_ROUNDING = 1e-12
# Distinct points are counted among at most this many rows per feature.
_MOST_ROWS = 32


class SpanMap(WideMap):
    r"""The square map of a metric that differs from a diagonal one in few directions.

    .. math::

        L = \left(c I + P \operatorname{diag}(s - c) P^T\right) \operatorname{diag}(u)

    Parameters
    ----------
    axes : ndarray of shape (n_features, n_directions)
        P, with orthonormal columns.
    sizes : ndarray of shape (n_directions,)
        The factors s.
    rest : float
        The factor c in all other directions.
    units : ndarray of shape (n_features,), optional
        The factors u of the features; by default 1.
    dtype : type or dtype, optional
        Of the map as an array.
    """

    def __init__(
        self,
        axes: Floats,
        sizes: Floats,
        rest: float,
        units: Floats | None = None,
        dtype: Any = np.float64,
    ) -> None:
        self.axes, self.sizes, self.rest, self.units = axes, sizes, rest, units
        self.dtype: Any = np.dtype(dtype).type  # skops trusts types, not np.dtype

    @classmethod
    def blend(cls, L: Array | SpanMap, share: float, diagonal: Floats) -> SpanMap:
        """Return the map of the metric ``share * L.T @ L + diag(diagonal)``.

        `L`: of few rows, if it is an array.
        `diagonal`: ndarray of shape (n_features,), not negative.
        """
        if isinstance(L, SpanMap):
            units = np.ones(len(L.axes)) if L.units is None else L.units
            basis, inner = L.axes * units[:, None], share * (L.sizes**2 - L.rest**2)
            diagonal = diagonal + share * (L.rest * units) ** 2
        else:
            basis, inner = L.astype(np.float64).T, np.full(len(L), share)
        # The smallest weight at which the contribution of a feature to L is representable.
        least = _LEAST * diagonal.max() * basis.any(axis=1)
        diagonal = np.maximum(diagonal, least)
        Q, R = np.linalg.qr(basis * inverse_root(diagonal)[:, None])
        values, vectors = np.linalg.eigh(np.eye(len(R)) + (R * inner) @ R.T)
        sizes = np.sqrt(np.maximum(values, 0))
        return cls(Q @ vectors, sizes, 1.0, np.sqrt(diagonal), L.dtype)

    @classmethod
    def of_features(cls, factors: Array) -> SpanMap:
        """Return the map that multiplies features by factors."""
        none = np.empty((len(factors), 0))
        return cls(none, np.empty(0), 1.0, factors.astype(np.float64), factors.dtype)

    def __mul__(self, factors: float | Floats) -> SpanMap:
        units = np.ones(len(self.axes)) if self.units is None else self.units
        return SpanMap(self.axes, self.sizes, self.rest, units * factors, self.dtype)

    def times_power_of_two(self, exponent: int) -> SpanMap:
        """Return ``L * 2**exponent``."""
        units = np.ones(len(self.axes)) if self.units is None else self.units
        scaled = times_power_of_two(units, exponent)
        return SpanMap(self.axes, self.sizes, self.rest, scaled, self.dtype)

    def __len__(self) -> int:
        return len(self.axes)

    def embed(self, X: Any) -> Array:
        """Return ``X @ L.T``, in the dtype of X."""
        Y: Array = dense(X)
        if self.units is not None:
            Y = Y * self.units.astype(Y.dtype)
        axes = self.axes.astype(Y.dtype, copy=False)
        change = (Y @ axes) * (self.sizes - self.rest).astype(Y.dtype)
        return np.asarray(Y * Y.dtype.type(self.rest) + change @ axes.T)

    def array(self) -> Array:
        """Return L."""
        with memory_for_square("components_", len(self.axes), self.dtype):
            axes = self.axes.astype(self.dtype, copy=False)
            L = (axes * (self.sizes - self.rest).astype(self.dtype)) @ axes.T
            L[np.diag_indices_from(L)] += self.dtype(self.rest)
            if self.units is not None:
                L *= self.units.astype(self.dtype)
            return np.asarray(L)

    def leading(self, n_components: int) -> Array:
        """Return a map with n_components rows, from the leading eigenvectors of ``L.T @ L``.

        If all features have equal weight, directions within the span come first.
        """
        if self.units is None or self.units.min() == self.units.max():
            unit = 1.0 if self.units is None else self.units[0]
            order = np.argsort(-self.sizes, kind="stable")[:n_components]
            rows = (self.axes[:, order] * (unit * self.sizes[order])).T
        else:
            d = len(self.axes)
            product = LinearOperator((d, d), self._times_metric, dtype=np.float64)
            start = np.random.RandomState(0).standard_normal(d)
            values, vectors = eigsh(product, n_components, which="LA", v0=start)
            order = np.argsort(-values)
            rows = (vectors[:, order] * np.sqrt(np.maximum(values[order], 0))).T
        return np.ascontiguousarray(rows, self.dtype)

    def _times_metric(self, x: Floats) -> Floats:
        units = np.ones(len(self.axes)) if self.units is None else self.units
        y = x.ravel() * units
        change = self.axes @ ((self.sizes**2 - self.rest**2) * (self.axes.T @ y))
        return np.asarray(units * (self.rest**2 * y + change))

    def column_rows(self) -> Floats:
        """Return a matrix with few rows whose columns have the same lengths as the columns of L."""
        inside = self.axes * np.abs(self.sizes)
        outside = self.rest**2 * np.maximum(1 - np.square(self.axes).sum(axis=1), 0)
        rows = np.vstack([inside.T, np.sqrt(outside)])
        return rows if self.units is None else rows * self.units


class SquareOf:
    """The matrix ``L.T @ L``, stored as the map L."""

    def __init__(self, L: AnyMap) -> None:
        self.L = L

    def array(self, what: str) -> Floats:
        """Return the matrix; `what` is its name, for errors."""
        L = self.L.array() if isinstance(self.L, WideMap) else self.L
        with memory_for_square(what, L.shape[1], L.dtype):
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
        if isinstance(L, SpanMap):
            return L.times_power_of_two(exponent)
        return times_power_of_two(L.astype(np.float64), exponent)

    def given_scale(self, L: Any, exponent: int, dtype: np.dtype[Any]) -> Any:
        """Convert a map of scaled points to a map of the given points, in a dtype."""
        if isinstance(L, SpanMap):
            L = L.times_power_of_two(-exponent)
            L.dtype = np.dtype(dtype).type
            return L
        return undo_scale(L, exponent, dtype)

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
        return SpanMap.of_features(np.full(len(self.basis), factor))

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
            return SpanMap(basis @ axes.T, sizes, float(outside), units, L.dtype)
        rows = with_signs((inside[:n] if square else inside) @ basis.T)
        return np.asarray((rows if units is None else rows * units).astype(L.dtype))

    def plus_diagonal(self, L: Any, share: float, weights: Floats, n_components: int | None) -> Any:
        """Return the map of the metric ``share * L.T @ L + diag(weights)``."""
        found = SpanMap.blend(L, share, weights)
        return found if n_components is None else found.leading(n_components)

    def _scaled(self, variances: Floats) -> tuple[Floats, Floats]:
        """Return an orthonormal basis of standardised features, and the rotation to it.

        Constant features are left out.
        """
        scaled = self.basis * inverse_root(variances)[:, None]
        left, sizes, right = svd(scaled)
        kept = sizes > _ROUNDING * sizes[0]
        return left[:, kept], right[kept].T / sizes[kept]


def inverse_root(variances: Floats) -> Floats:
    """Return the inverse square roots, and zero for zero."""
    root = np.sqrt(variances)
    return np.divide(1, root, out=np.zeros_like(root), where=root > 0)


@contextmanager
def in_span(
    learner: Any,
    *points: Any,
    beyond: bool = True,
    tol: float = TOL,
    when: bool = True,
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
