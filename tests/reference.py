"""Slow, obvious oracles in float64. Nothing here is clever; everything is checked against it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def squared_distances(X: Array, Y: Array, U: Array | None = None, V: Array | None = None) -> Array:
    """sum_k (a_k - b_k)^2, added up in the order of k."""
    A = X.astype(np.float64) if U is None else X.astype(np.float64) @ U.astype(np.float64).T
    B = Y.astype(np.float64) if V is None else Y.astype(np.float64) @ V.astype(np.float64).T
    D = np.zeros((len(A), len(B)))
    for a, b in zip(A.T, B.T, strict=True):
        difference = a[:, None] - b[None, :]
        D += difference * difference
    return D


def nearest(D: Array, k: int, exclude: Array | None = None) -> Array:
    """Column indices of the k smallest of each row, in the order of (D, index)."""
    rows = []
    for i, row in enumerate(D):
        order = sorted(range(len(row)), key=lambda j: (row[j], j))
        rows.append([j for j in order if exclude is None or j != exclude[i]][:k])
    return np.array(rows, dtype=np.int64)


def nca(Z: Array, y: Array, form: str = "sum", weight: Array | None = None) -> float:
    """-sum_i s_i p_i or -sum_i s_i log p_i; integer weights are repeated points."""
    if weight is not None:
        repeats = np.asarray(weight, dtype=int)
        return nca(np.repeat(Z, repeats, axis=0), np.repeat(y, repeats), form)
    D = squared_distances(Z, Z)
    total = 0.0
    for i in range(len(Z)):
        others = [j for j in range(len(Z)) if j != i]
        shift = min(D[i, j] for j in others)
        kernel = {j: np.exp(shift - D[i, j]) for j in others}
        p = sum(kernel[j] for j in others if y[j] == y[i]) / sum(kernel.values())
        if form == "sum":
            total -= p
        elif p > 0:
            total -= np.log(p)
    return float(total)


def mlkr(Z: Array, y: Array, weight: Array | None = None) -> float:
    """sum_i s_i (t_i - y_i)^2; integer weights are repeated points."""
    if weight is not None:
        repeats = np.asarray(weight, dtype=int)
        return mlkr(np.repeat(Z, repeats, axis=0), np.repeat(y, repeats))
    D = squared_distances(Z, Z)
    total = 0.0
    for i in range(len(Z)):
        others = [j for j in range(len(Z)) if j != i]
        shift = min(D[i, j] for j in others)
        kernel = {j: np.exp(shift - D[i, j]) for j in others}
        prediction = sum(kernel[j] * y[j] for j in others) / sum(kernel.values())
        total += (prediction - y[i]) ** 2
    return float(total)


def mcml(Z: Array, y: Array, weight: Array | None = None) -> float:
    """sum_i KL(q_i || p_i), q_i uniform over the class; integer weights are repeated points."""
    if weight is not None:
        repeats = np.asarray(weight, dtype=int)
        return mcml(np.repeat(Z, repeats, axis=0), np.repeat(y, repeats))
    D = squared_distances(Z, Z)
    total = 0.0
    for i in range(len(Z)):
        others = [j for j in range(len(Z)) if j != i]
        shift = min(D[i, j] for j in others)
        log_sum = np.log(sum(np.exp(shift - D[i, j]) for j in others)) - shift
        company = [j for j in others if y[j] == y[i]]
        for j in company:
            q, log_p = 1 / len(company), -D[i, j] - log_sum
            total += q * (np.log(q) - log_p)
    return float(total)


def ldml(Z: Array, y: Array, bias: float, weight: Array | None = None) -> float:
    """Negative log-likelihood of all ordered pairs; integer weights are repeated points."""
    if weight is not None:
        repeats = np.asarray(weight, dtype=int)
        return ldml(np.repeat(Z, repeats, axis=0), np.repeat(y, repeats), bias)
    D = squared_distances(Z, Z)
    total = 0.0
    for i in range(len(Z)):
        for j in range(len(Z)):
            if j != i:
                sign = 1 if y[j] == y[i] else -1
                total += np.logaddexp(0, sign * (D[i, j] - bias))
    return float(total)


def lmnn(
    Z: Array,
    y: Array,
    targets: Array,
    regularization: float = 0.5,
    margin: float = 1.0,
    weight: Array | None = None,
) -> float:
    """The triple loop."""
    D = squared_distances(Z, Z)
    total = 0.0
    for i in range(len(Z)):
        value = 0.0
        for t in targets[i]:
            value += regularization * D[i, t]
            for impostor in range(len(Z)):
                if y[impostor] != y[i]:
                    hinge = max(margin + D[i, t] - D[i, impostor], 0.0)
                    value += (1 - regularization) * hinge
        total += value if weight is None else weight[i] * value
    return total


def numeric_gradient(f: Callable[[Array], float], x: Array, step: float = 1e-6) -> Array:
    """Central differences, entry by entry."""
    gradient = np.empty_like(x, dtype=np.float64)
    for index in np.ndindex(*x.shape):
        forward, backward = x.astype(np.float64).copy(), x.astype(np.float64).copy()
        forward[index] += step
        backward[index] -= step
        gradient[index] = (f(forward) - f(backward)) / (2 * step)
    return gradient


def elsewhere(array, shift):
    """A copy that begins `shift` elements past an aligned address."""
    room = np.zeros(array.size + 128, array.dtype)
    first = (-room.ctypes.data // room.itemsize) % (64 // room.itemsize) + shift
    copy = room[first : first + array.size].reshape(array.shape)
    copy[:] = array
    return copy
