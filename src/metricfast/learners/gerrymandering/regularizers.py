r"""Penalties on linear maps, with their gradients.

The asymmetric distance :math:`\|Ux - Vx'\|^2` is a quadratic form of the stacked points with
:math:`W = [U, -V]^T [U, -V]`, which is never formed: :math:`\|W\|_F = \|UU^T + VV^T\|_F`. For a
single map L, the penalty is a function of :math:`M = L^T L`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from metricfast._core.arguments import check_choice

__all__ = ["Regularizer", "penalty"]

Array = NDArray[np.float64]
_Penalty = Callable[[list[Array]], tuple[float, list[Array]]]


def _frobenius2(maps: list[Array]) -> tuple[float, list[Array]]:
    G = sum((A @ A.T for A in maps[1:]), maps[0] @ maps[0].T)
    return float((G * G).sum()), [4 * G @ A for A in maps]


def _frobenius(maps: list[Array]) -> tuple[float, list[Array]]:
    square, gradients = _frobenius2(maps)
    norm = np.sqrt(square)
    return float(norm), [gradient / (2 * norm or 1.0) for gradient in gradients]


def _notes(maps: list[Array]) -> tuple[float, list[Array]]:
    if len(maps) == 1:
        return _frobenius2(maps)
    U, V = maps
    uu, vv = U @ U.T, V @ V.T  # trace(uu @ vv) is the squared norm of U^T V
    value = 0.5 * (uu * uu).sum() + 2 * (uu * vv).sum() + 0.5 * (vv * vv).sum()
    return float(value), [2 * uu @ U + 4 * vv @ U, 2 * vv @ V + 4 * uu @ V]


def _factors2(maps: list[Array]) -> tuple[float, list[Array]]:
    parts = [_frobenius2([A]) for A in maps]
    return sum(value for value, _ in parts), [gradient[0] for _, gradient in parts]


def _factors(maps: list[Array]) -> tuple[float, list[Array]]:
    norms = [float(np.linalg.norm(A)) for A in maps]
    return sum(norms), [A / (norm or 1.0) for A, norm in zip(maps, norms, strict=True)]


def _trace(maps: list[Array]) -> tuple[float, list[Array]]:
    return float(sum((A * A).sum() for A in maps)), [2 * A for A in maps]


REGULARIZERS: dict[str, _Penalty] = {
    "frobenius2": _frobenius2,
    "frobenius": _frobenius,
    "notes": _notes,
    "factors2": _factors2,
    "factors": _factors,
    "trace": _trace,
}


Regularizer = Annotated[
    str | None, lambda name, value: check_choice(name, value, (None, *REGULARIZERS))
]


def penalty(name: str | None, maps: list[Array]) -> tuple[float, list[Array]]:
    """Return a penalty, a key of `REGULARIZERS`, and its gradient by each map: [L], or [U, V]."""
    if name is None:
        return 0.0, [np.zeros_like(A) for A in maps]
    return REGULARIZERS[name](maps)
