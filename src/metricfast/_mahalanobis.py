"""The learned distance as a function of two points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["MahalanobisMetric", "as_vectors"]

_DOUBLE = np.dtype(np.float64)


class MahalanobisMetric:
    r"""The function :math:`\|Lu - Lv\|` of two points.

    Parameters
    ----------
    components : ndarray of shape (n_components, n_features)
        The linear map L; a copy is kept.
    """

    __slots__ = ("_components",)

    def __init__(self, components: NDArray[Any]) -> None:
        self._components = np.array(components, dtype=np.float64, ndmin=2)

    def __call__(self, u: Any, v: Any, squared: bool = False) -> float:
        """Return the distance of u and v.

        Parameters
        ----------
        u, v : array-like of shape (n_features,)
        squared : bool, default=False
            Return the squared distance.

        Returns
        -------
        float
        """
        # Called for every pair of a search: two vectors pay for little but the arithmetic.
        try:
            usual = u.dtype is v.dtype is _DOUBLE and u.ndim == 1 and u.shape == v.shape
        except AttributeError:
            usual = False
        if not usual:
            u, v = as_vectors(u, v)
        embedded = self._components.dot(u - v)
        distance = float(embedded.dot(embedded))
        return distance if squared else math.sqrt(distance)


def as_vectors(*points: ArrayLike) -> list[NDArray[np.float64]]:
    vectors = [np.atleast_1d(np.asarray(point, dtype=np.float64).squeeze()) for point in points]
    if any(vector.ndim > 1 for vector in vectors):
        raise ValueError("Input vector should be 1-D.")
    if len({vector.shape for vector in vectors}) > 1:
        raise ValueError(f"u and v must have one length, got {[len(v) for v in vectors]}.")
    return vectors
