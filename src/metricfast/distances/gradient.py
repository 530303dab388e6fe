"""Gradients of weighted sums of distances with respect to the metric."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import as_real
from metricfast._core.arrays import as_both, as_maps, as_points, as_threads, common_precision
from metricfast._core.dispatch import get_kernels
from metricfast._core.points import map_gradient
from metricfast._core.scaling import ORDINARY_SINGLE_SQUARES, times_power_of_two
from metricfast._core.sparse import check_structure
from metricfast._core.types import Array, Integers
from metricfast.exceptions import LossOverflowError

_MOST_FOR_CENTRE = 1000


def metric_gradient(
    X: ArrayLike,
    weights: Any,
    Y: ArrayLike | None = None,
    *,
    L: ArrayLike | None = None,
    U: ArrayLike | None = None,
    V: ArrayLike | None = None,
    M: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Array | tuple[Array, Array]:
    """Gradient of ``sum_ij weights[i, j] D(X[i], Y[j])``, D the squared distance.

    Parameters
    ----------
    X : array-like of shape (n, d)
    weights : array-like or scipy sparse matrix of shape (n, m)
        Dense or sparse (used as CSR: only its stored entries cost anything).
    Y : array-like of shape (m, d), optional
        X itself by default; then both roles of each point count.
    L : array-like of shape (p, d)
        The gradient with respect to L is returned, shape (p, d).
    U, V : array-like of shape (p, d)
        A pair of gradients is returned.
    M : array-like of shape (d, d)
        The gradient with respect to a full M is returned, shape (d, d); it does not depend on M.
    n_jobs : int, optional

    Returns
    -------
    ndarray, or a pair of them for U and V
        float64.

    Raises
    ------
    ValueError
        Unless exactly one of L, (U, V) and M is given, with matching shapes; if `weights` is a
        damaged sparse matrix; as LossOverflowError, if the gradient overflows.

    Examples
    --------
    >>> import metricfast as mf
    >>> mf.metric_gradient([[1.0], [3.0]], [[0.0, 1.0], [0.0, 0.0]], L=[[2.0]])
    array([[16.]])
    """
    points, other = as_both(X, Y, ("X", "Y"), as_points)
    dtype = common_precision(points, other)
    points = points.astype(dtype, copy=False)
    other = points if other is None else other.astype(dtype, copy=False)
    threads = as_threads(n_jobs)
    given = (L is not None) + (U is not None or V is not None) + (M is not None)
    if given != 1:
        raise ValueError("Give exactly one of L, (U and V), and M.")
    width = points.shape[1]
    query_map, database_map = as_maps(L, U, V, width)
    # Unless U and V differ, distances do not change if X and Y are shifted together.
    centre = np.zeros(width, dtype)
    if U is None:
        # The median is robust: a few points far away must not cost the others precision.
        centre = np.median(other[:: 1 + len(other) // _MOST_FOR_CENTRE], axis=0).astype(dtype)
    if M is not None and as_points(M, "M", width=width).shape[0] != width:
        raise ValueError(f"M must have shape ({width}, {width}).")
    values, starts, columns = _as_weights(weights, (len(points), len(other)))
    maps = [each for each in (query_map, database_map) if each is not None]
    # The gradient is linear in the weights and in the maps, and quadratic in the points. After
    # scaling, single precision represents all of them.
    of_weights, of_maps = _exponent(values), _exponent(*maps)
    values = _divided(values, of_weights, dtype)
    kernels = get_kernels()

    def embed(x: Array, components: Array | None) -> Array:
        if components is None:
            return x
        z = np.empty((len(x), len(components)), dtype)
        kernels.linear_forward(x, _divided(components, of_maps, dtype), z, threads)
        return z

    with np.errstate(over="ignore", invalid="ignore"):
        x, y = points - centre, other - centre
        of_points = _exponent(x, y)
        x, y = _divided(x, of_points, dtype), _divided(y, of_points, dtype)
        zq, zd = embed(x, query_map), embed(y, database_map)
        if not all(map(kernels.all_finite, (zq, zd))):
            grad_u = grad_v = np.full((zq.shape[1], width), np.nan)
        elif starts is None:
            grad_u, grad_v = _of_dense(values, x, y, zq, zd, threads)
        else:
            grad_q, grad_d = np.empty_like(zq), np.empty_like(zd)
            kernels.given(zq, zd, starts, columns, grad_q, grad_d, threads, values)
            grad_u = map_gradient(grad_q, x, threads)
            grad_v = map_gradient(grad_d, y, threads)
        back = of_weights + of_maps + 2 * of_points
        grad_u, grad_v = (np.asarray(np.ldexp(each, back)) for each in (grad_u, grad_v))
        sums = (grad_u, grad_v) if U is not None else (grad_u + grad_v,)
    if not all(map(kernels.all_finite, sums)):
        raise LossOverflowError(
            "The gradient overflows float64: X, Y or the maps are too large. Divide them, or the "
            "weights."
        )
    if U is not None:
        return grad_u, grad_v
    return 0.5 * sums[0] if M is not None else sums[0]


def _of_dense(
    weights: Array, x: Array, y: Array, zq: Array, zd: Array, threads: int
) -> tuple[Array, Array]:
    """Return the gradients by U and V, given the points and their images.

    They are ``2 (zq.T diag(r) x - zd.T W.T x)`` and ``2 (zd.T diag(c) y - zq.T W y)``, r and c the
    sums of the rows and columns of W.
    """
    kernels = get_kernels()

    def product(transposed: Array) -> Array:
        out = np.empty((len(weights), len(transposed)), weights.dtype)
        kernels.linear_forward(weights, np.ascontiguousarray(transposed), out, threads)
        return out

    def backward(gradient: Array, points: Array) -> Array:
        return map_gradient(gradient, points, threads)

    ones = np.ones((len(weights), 1), weights.dtype)
    of_rows = product(np.ones((1, len(y)), weights.dtype))
    of_columns = backward(ones, weights).astype(weights.dtype).T
    to_queries = product(zd.T)
    grad_u = backward(of_rows * zq - to_queries, x)
    if zq is x:
        return 2 * grad_u, 2 * (backward(of_columns * zd, y) - backward(x, to_queries))
    to_database = backward(zq, weights).T.astype(weights.dtype)
    return 2 * grad_u, 2 * backward(of_columns * zd - to_database, y)


def _exponent(*arrays: Array) -> int:
    """Exponent of the power of two to divide by, or 0 for numbers of usual size."""
    largest = max(
        (float(max(each.max(initial=0), -each.min(initial=0))) for each in arrays), default=0.0
    )
    exponent = math.frexp(largest)[1]
    return exponent if abs(exponent) > ORDINARY_SINGLE_SQUARES else 0


def _divided(array: Array, exponent: int, dtype: type[np.floating[Any]]) -> Array:
    array = times_power_of_two(array, -exponent) if exponent else array
    return array.astype(dtype, copy=False)


def _as_weights(
    weights: Any, shape: tuple[int, int]
) -> tuple[Array, Integers | None, Integers | None]:
    """Return dense weights, or the values, row starts and columns of sparse weights."""
    if not hasattr(weights, "tocsr"):
        dense = as_points(weights, "weights")
        if dense.shape != shape:
            raise ValueError(f"weights must have shape {shape}; found {dense.shape}.")
        return dense, None, None
    check_structure(weights, "weights")
    sparse = weights.tocsr()
    if sparse.shape != shape:
        raise ValueError(f"weights must have shape {shape}; found {sparse.shape}.")
    values = as_real(sparse.data, "weights")
    if not np.isfinite(values).all():
        raise ValueError("weights contains NaN or infinity.")
    return values, sparse.indptr.astype(np.int64), sparse.indices.astype(np.int64)
