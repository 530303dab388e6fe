"""Scale points and maps by powers of two before training, to avoid overflow and underflow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metricfast._core.types import Array, Floats

# Data within these powers of two are not rescaled, so that the start "identity" means the user's
# units. Beyond them, softmaxes are uniform or one-hot, hinges all active or all zero, and solvers
# stall.
ORDINARY = 10
# Sums over points must not overflow.
_HEADROOM = 64
# For numbers between two to minus this power and two to this power, squares and their sums neither
# overflow nor underflow in float64.
ORDINARY_SQUARES = 200
# The same in float32.
ORDINARY_SINGLE_SQUARES = 60
# With exponents of two between its negative and this, squares of targets and their sums are normal
# float64 numbers.
_MOST_EXPONENT = 480


def times_power_of_two(values: Array, exponent: int) -> Array:
    """Return ``values * 2**exponent``, even if their dtype cannot represent the factor.

    Values that overflow become infinite, without a warning.
    """
    limits = np.finfo(values.dtype)
    with np.errstate(over="ignore", under="ignore"):
        if limits.minexp <= exponent < limits.maxexp:
            return np.asarray(values * values.dtype.type(2.0**exponent))
        return np.asarray(np.ldexp(values, exponent))


def log2_spread(X: Array) -> tuple[int, float] | None:
    """Return the logarithm of the largest root mean square of a column; None if all are zero.

    `X`: finite values, of zero mean in each column.
    The logarithm is the sum of the two, the second being from 0 to 1: multiplying X by a power of
    two changes the first only.
    """
    exponent = math.frexp(float(max(X.max(), -X.min())))[1]
    shift = exponent if abs(exponent) > _HEADROOM else 0
    unit = times_power_of_two(X, -shift) if shift else X
    largest = float(np.einsum("ij,ij->j", unit, unit, dtype=np.float64).max()) / len(X)
    if largest == 0:
        return None
    log = math.log2(math.ldexp(largest, 2 * (shift - exponent))) / 2
    return exponent + math.floor(log), log - math.floor(log)


def mean_of_points(X: Array, weight: Floats | None = None) -> Array:
    """Return the (weighted) mean of points in float64.

    One point is subtracted first: rounding of large values would otherwise look like variance.
    """
    if weight is None:
        return np.asarray(X[0] + (X - X[0]).mean(axis=0, dtype=np.float64))
    return np.asarray(X[0] + weight @ (X - X[0]) / weight.sum())


def center_and_rescale(X: Array) -> tuple[Array, int]:
    """Subtract the mean, and bring data of unusual units to a spread of about 1.

    Multiplying by a power of two is exact, so the result for ``X * 2**k`` is the same for all k
    outside the usual. Columns that are constant become exactly zero.

    Returns rescaled, of the dtype of X, and an exponent: ``rescaled * 2**exponent`` is X less its
    mean. It is 0 if the largest standard deviation of a column is from 2^-10 to 2^10.
    """
    huge = _overflows(X, None) and _overflows(X, 0)
    exponent = _HEADROOM if huge else 0
    if huge:
        X = times_power_of_two(X, -exponent)
    X = X - mean_of_points(X).astype(X.dtype)
    spread = log2_spread(X)
    if spread is None or abs(exponent + sum(spread)) <= ORDINARY:
        return X, exponent
    return times_power_of_two(X, -spread[0]), exponent + spread[0]


def moderate(X: Array) -> tuple[Array, int]:
    """Return X; centre and rescale it if squared differences might overflow or underflow.

    Also returns the exponent of the power of two that X was divided by. Unlike
    :func:`center_and_rescale` it makes no copy of usual data.
    """
    with np.errstate(over="ignore"):
        width = float(np.max(X.max(axis=0) - X.min(axis=0)))
    usual = 2.0**-ORDINARY_SQUARES < width < 2.0**ORDINARY_SQUARES
    return (X, 0) if usual else center_and_rescale(X)


def _overflows(X: Array, axis: int | None) -> bool:
    """Return whether sums of differences of values, along an axis or of all, may overflow."""
    # Halved first, because the range of a column may overflow even if its values are finite.
    half_width = float(np.max(X.max(axis=axis) / 2 - X.min(axis=axis) / 2))
    return math.frexp(half_width)[1] > int(np.finfo(X.dtype).maxexp) - _HEADROOM


def undo_scale(L: Any, exponent: int, dtype: np.dtype[Any]) -> Any:
    """Turn a map of rescaled points, an array or a `WideMap`, into a map of the given points.

    `exponent`: the exponent of :func:`center_and_rescale`.
    Raises ValueError if the result overflows that dtype.
    """
    if not isinstance(L, np.ndarray):
        return L.undo_scale(exponent, dtype)
    with np.errstate(over="ignore", under="ignore"):
        L = times_power_of_two(L.astype(np.float64), -exponent).astype(dtype)
    if not np.isfinite(L).all():
        raise ValueError(
            f"X is spread over only about {math.ldexp(1, exponent):.0e}: the map that undoes this "
            f"scale exceeds the largest {dtype}. Multiply X by a number that makes its spread "
            "about 1."
        )
    return L


def rescale_targets(y: Floats) -> tuple[Floats, int]:
    """Subtract the mean of regression targets, and divide by the power of two near their spread.

    Returns the scaled targets and the exponent of that power. Raises ValueError if the squares of
    the numbers, or their inverses, would overflow.
    """
    targets, exponent = center_and_rescale(y[:, None])
    more, _ = log2_spread(targets) or (0, 0.0)
    exponent += more
    if abs(exponent) > _MOST_EXPONENT:
        raise ValueError(
            f"y is spread over about 2^{exponent}, of which there is no square: multiply it by a "
            "number that makes its spread about 1."
        )
    return times_power_of_two(targets[:, 0], -more), exponent


def differ(spreads: Floats) -> bool:
    """Return whether features are in different units: their spreads differ by a factor above 2."""
    return bool(2 * spreads.min() < spreads.max())
