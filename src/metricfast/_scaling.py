"""Rescaling of data so large or so small that their squares leave the range of floats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["power_of_two_scale"]

# Exponents of two. Within the first, fourth powers of the data (squared norms of gradients) stay
# normal numbers with room for sums; within the second, so do the scale and a map multiplied by it.
_SAFE = {np.dtype(np.float32): (25, 110), np.dtype(np.float64): (200, 960)}


def power_of_two_scale(X: NDArray[Any]) -> float:
    """Return the power of two by which to multiply `X` before training on it.

    A map L learned on ``X * scale`` is ``L * scale`` for X itself. Multiplying by a power of two
    is exact, so nothing is lost.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64
        Finite values.

    Returns
    -------
    float
        1.0 for data of any usual scale. Otherwise it makes the widest column about 1 wide
        (as nearly as the range of normal floats allows) or, if all rows are equal and huge, the
        largest value about 1.
    """
    safe, limit = _SAFE[X.dtype]
    low, high = X.min(axis=0), X.max(axis=0)
    # Halved first: the width of a column may overflow where its values do not.
    half_width = float(np.max(high / 2 - low / 2))
    if half_width > 0:
        exponent = math.frexp(half_width)[1] + 1
    else:
        exponent = max(math.frexp(float(np.abs(high).max()))[1], 0)
    if abs(exponent) <= safe:
        return 1.0
    return 2.0 ** -min(max(exponent, -limit), limit)
