"""A slow, obvious oracle of information-theoretic metric learning."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def itml(v: Array, similar: Array, M: Array, bounds: Array, gamma: float, sweeps: int) -> Any:
    """Project M onto one pair after the other; the slack variables are kept as they are defined.

    v are the differences of the pairs, `bounds` the two bounds on squared distances. Returns M, the
    dual variables, and the sum of their absolute changes in each sweep.
    """
    M, duals, moved = M.copy(), np.zeros(len(v)), []
    slack = np.where(similar, *bounds)
    for _ in range(sweeps):
        before = duals.copy()
        for i in range(len(v)):
            sign = 1 if similar[i] else -1
            p = v[i] @ M @ v[i]
            if p == 0:
                continue
            weight = 1 if gamma == np.inf else gamma / (gamma + 1)
            alpha = min(duals[i], sign * weight * (1 / p - 1 / slack[i]))
            duals[i] -= alpha
            slack[i] = 1 / (1 / slack[i] + sign * alpha / gamma)
            u = M @ v[i]
            M += sign * alpha / (1 - sign * alpha * p) * np.outer(u, u)
        moved.append(np.abs(duals - before).sum())
    return M, duals, moved
