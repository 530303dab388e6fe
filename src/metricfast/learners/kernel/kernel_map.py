"""Kernel maps: vectors whose inner products approximate a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.decomposition import KernelPCA
from sklearn.kernel_approximation import Nystroem

from metricfast._core.mahalanobis import as_vectors, finite_between
from metricfast._core.types import Array

# Shift-invariant kernels.
_OF_DIFFERENCES = ("rbf", "laplacian")
_OF_ABSOLUTE_DIFFERENCES = ("laplacian", "chi2")
# Below this extent, or above its inverse, squares of coordinates underflow or overflow.
_LEAST_EXTENT = 1e-150
# From this many points on, an iterative solver finds few eigenvectors faster, and can be
# interrupted.
_MANY = 2000
_ARRAYS = {"transform_output": "default"}
# Minimum rows of a block, and multiplications per block, which take less than a second.
_LEAST_ROWS, _PRODUCT = 256, 2**28


def origin_of(
    kernel: str | Callable[..., float], points: Array, *, learns_distance: bool = True
) -> Array:
    """Return the vector that is subtracted from points before the kernel, of shape (n_features,).

    It is the mean if a common shift of all points does not change the result: for shift-invariant
    kernels, and for the linear kernel with a learner of a distance. Points far from zero would lose
    precision otherwise. Other kernels depend on the origin, so for them the vector is zero.
    """
    if not (kernel in _OF_DIFFERENCES or (kernel == "linear" and learns_distance)):
        return np.zeros(points.shape[1], points.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(points.mean(axis=0, dtype=np.float64), points.dtype)


def fit_kernel_map(
    points: Array,
    origin: Array,
    *,
    kernel: str | Callable[..., float],
    gamma: float | str | None,
    degree: float,
    coef0: float,
    n_components: int,
    method: str,
    **params: Any,
) -> Nystroem | KernelPCA:
    """Fit the map of a kernel to points.

    `points`: ndarray of shape (n_samples, n_features).
    `origin`: ndarray of shape (n_features,), as :func:`origin_of` returns it.
    `kernel`, `gamma`, `degree`, `coef0`, `n_components`, `method`, `**params`: as for
        `KernelizedMetricLearner`.
    Raises ValueError if a parameter has a value that cannot be used, or the kernel is not finite at
    the points.
    """
    n_components = min(n_components, len(points))
    if not callable(kernel):
        params.update(degree=degree, coef0=coef0)
    if method == "kpca" and len(points) >= max(_MANY, 10 * n_components):
        params["eigen_solver"] = "arpack"
    kind = Nystroem if method == "nystroem" else KernelPCA
    gamma = _as_number(gamma, kernel, points)
    kernel_map = kind(kernel=kernel, gamma=gamma, n_components=n_components, **params)
    # KernelPCA can compute every kernel of Nystroem, but its parameter check accepts only some.
    kernels = Nystroem._parameter_constraints["kernel"]
    kernel_map._parameter_constraints = kind._parameter_constraints | {"kernel": kernels}
    try:
        with config_context(**_ARRAYS):
            return kernel_map.fit(points - origin)
    except ValueError as error:
        if isinstance(error, np.linalg.LinAlgError) or "Input" in str(error):
            raise _not_finite(kernel) from error
        raise ValueError(str(error)) from error  # without the name of a private class
    finally:
        del kernel_map._parameter_constraints


def _not_finite(kernel: Any) -> ValueError:
    return ValueError(
        f"the kernel {kernel!r} gives values that are not finite: rescale the points, or choose "
        "other kernel parameters."
    )


def _as_number(
    gamma: float | str | None, kernel: str | Callable[..., float], points: Array
) -> float | None:
    if gamma is None and kernel == "chi2":
        return 1.0  # the default of Nystroem, not of KernelPCA
    if not isinstance(gamma, str):
        return gamma
    if gamma != "scale":
        raise ValueError(f"gamma must be a number, 'scale' or None, got {gamma!r}.")
    if callable(kernel):
        return None
    extent = float(points.max()) - float(points.min())
    if extent == 0:
        return 1.0
    if not _LEAST_EXTENT < extent < 1 / _LEAST_EXTENT:
        raise ValueError(
            f"gamma='scale' cannot be computed of points whose coordinates lie {extent:g} apart: "
            "rescale the points, or give a number."
        )
    spread = float(points.std(dtype=np.float64))
    power = 1 if kernel in _OF_ABSOLUTE_DIFFERENCES else 2
    return float(1 / (points.shape[1] * spread**power))


def map_kernel_points(kernel_map: Nystroem | KernelPCA, origin: Array, points: Array) -> Array:
    """Map points, in their own dtype.

    `kernel_map`: fitted.
    `origin`: ndarray of shape (n_features,), as :func:`origin_of` returns it.
    `points`: ndarray of shape (n_samples, n_features).
    Returns an ndarray of shape (n_samples, n_components). Raises ValueError if the kernel is not
    finite at the points.
    """
    # Process blocks, because a single product for all points could not be interrupted.
    rows = max(_LEAST_ROWS, _PRODUCT // max(1, kernel_map.n_components**2))
    mapped = np.empty((len(points), kernel_map.n_components), points.dtype)
    for i in range(0, len(points), rows):
        mapped[i : i + rows] = _transformed(kernel_map, points[i : i + rows] - origin)
    if not np.isfinite(mapped).all():
        raise _not_finite(kernel_map.kernel)
    return mapped


def _transformed(kernel_map: Nystroem | KernelPCA, points: Array) -> Array:
    """Map points to an array, independent of `sklearn.set_config(transform_output=...)`."""
    with config_context(**_ARRAYS):
        mapped: Array = kernel_map.transform(points)
    return mapped


class KernelizedMetric:
    """The learned distance or similarity of two points after a fitted kernel map."""

    def __init__(
        self, kernel_map: Nystroem | KernelPCA, origin: Array, metric: Callable[..., float]
    ) -> None:
        self._map, self._origin, self._metric = kernel_map, origin, metric

    def __call__(self, u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
        """Return the (squared) distance, or similarity, of u and v of shape (n_features,)."""
        points = as_vectors(u, v, self._map.n_features_in_)
        left, right = mapped = _transformed(self._map, np.stack(points) - self._origin)
        finite_between(float(mapped.sum()), *points)
        return self._metric(left, right, squared=True) if squared else self._metric(left, right)
