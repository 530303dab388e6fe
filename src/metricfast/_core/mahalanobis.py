"""The learned distance as a function of two points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import as_real, check_all_finite, check_length
from metricfast._core.types import Array, Floats

_DOUBLE = np.dtype(np.float64)


class MahalanobisMetric:
    r"""The function :math:`\|Lu - Lv\|` of two points.

    Parameters
    ----------
    components : ndarray of shape (n_components, n_features)
        The linear map L; a copy is kept.
    """

    __slots__ = ("_components",)

    def __init__(self, components: Array) -> None:
        self._components = np.array(components, dtype=np.float64, ndmin=2)

    @property
    def components(self) -> Floats:
        """The linear map L; a copy."""
        copy: Floats = self._components.copy()
        return copy

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
        # A search calls this for every pair, so two vectors skip the conversions.
        if not (
            type(u) is type(v) is np.ndarray
            and u.dtype is v.dtype is _DOUBLE
            and u.shape == v.shape == self._components.shape[1:]
        ):
            u, v = as_vectors(u, v, self._components.shape[1])
        embedded = self._components.dot(u - v)
        distance = float(embedded.dot(embedded))
        if not math.isfinite(distance):
            finite_between(distance, u, v)
        return distance if squared else math.sqrt(distance)


def as_vectors(
    u: ArrayLike, v: ArrayLike, width: int, width_of_v: int | None = None
) -> list[Floats]:
    """Return two points as vectors of the given width; v may have another width.

    Accepts column vectors, and scalars if the width is 1.
    """
    vectors = []
    for name, point, length in (("u", u, width), ("v", v, width_of_v or width)):
        vector = np.atleast_1d(as_real(point, name).squeeze()).astype(np.float64)
        if vector.ndim > 1:
            raise ValueError("Input vector should be 1-D.")
        vectors.append(vector)
        check_length(vector, length, name, "values, one per feature")
    return vectors


def finite_between(value: float, u: Array, v: Array) -> float:
    """Return the distance or similarity of two points; raise ValueError if it is not finite."""
    if math.isfinite(value):
        return value
    check_all_finite(u, "u")
    check_all_finite(v, "v")
    raise ValueError("u and v are too large: what is between them overflows. Divide all points.")
