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
from metricfast._core.in_threads import in_threads

Array = NDArray[np.float64]
_Result = tuple[float, list[Array]]
_Penalty = Callable[[list[Array], int | None], _Result]

# Multiplications in a product, from which on a thread of its own pays.
_LARGE = 1 << 22


def _products(left: list[Array], right: list[Array], n_jobs: int | None) -> list[Array]:
    """Multiply matrices in pairs, large ones in a thread each."""
    large = max(A.size * B.shape[1] for A, B in zip(left, right, strict=True)) >= _LARGE
    return list(in_threads(np.matmul, zip(left, right, strict=True), n_jobs if large else 1))


def _grams(maps: list[Array], n_jobs: int | None) -> list[Array]:
    return _products(maps, [A.T for A in maps], n_jobs)


def _frobenius2(maps: list[Array], n_jobs: int | None) -> _Result:
    first, *others = _grams(maps, n_jobs)
    G = sum(others, first)
    return float((G * G).sum()), _products([4 * G] * len(maps), maps, n_jobs)


def _frobenius(maps: list[Array], n_jobs: int | None) -> _Result:
    square, gradients = _frobenius2(maps, n_jobs)
    norm = np.sqrt(square)
    return float(norm), [gradient / (2 * norm or 1.0) for gradient in gradients]


def _notes(maps: list[Array], n_jobs: int | None) -> _Result:
    if len(maps) == 1:
        return _frobenius2(maps, n_jobs)
    uu, vv = _grams(maps, n_jobs)  # the squared norm of U^T V is the trace of their product
    value = 0.5 * (uu * uu).sum() + 2 * (uu * vv).sum() + 0.5 * (vv * vv).sum()
    return float(value), _products([2 * uu + 4 * vv, 2 * vv + 4 * uu], maps, n_jobs)


def _factors2(maps: list[Array], n_jobs: int | None) -> _Result:
    grams = _grams(maps, n_jobs)
    value = sum(float((G * G).sum()) for G in grams)
    return value, _products([4 * G for G in grams], maps, n_jobs)


def _factors(maps: list[Array], n_jobs: int | None) -> _Result:
    norms = [float(np.linalg.norm(A)) for A in maps]
    return sum(norms), [A / (norm or 1.0) for A, norm in zip(maps, norms, strict=True)]


def _trace(maps: list[Array], n_jobs: int | None) -> _Result:
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


def penalty(name: str | None, maps: list[Array], n_jobs: int | None = 1) -> _Result:
    """Return a penalty, a key of `REGULARIZERS`, and its gradient by each map: [L], or [U, V].

    Uses at most one thread for each map. The result does not depend on `n_jobs`.
    """
    if name is None:
        return 0.0, [np.zeros_like(A) for A in maps]
    return REGULARIZERS[name](maps, n_jobs)
