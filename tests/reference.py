"""Slow, obvious oracles in float64. Nothing here is clever; everything is checked against it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def squared_distances(X: Array, Y: Array, U: Array | None = None, V: Array | None = None) -> Array:
    """Return sum_k (a_k - b_k)^2, summed in the order of k."""
    A = X.astype(np.float64) if U is None else X.astype(np.float64) @ U.astype(np.float64).T
    B = Y.astype(np.float64) if V is None else Y.astype(np.float64) @ V.astype(np.float64).T
    D = np.zeros((len(A), len(B)))
    for a, b in zip(A.T, B.T, strict=True):
        difference = a[:, None] - b[None, :]
        D += difference * difference
    return D


def nearest(D: Array, k: int, exclude: Array | None = None) -> Array:
    """Return the column indices of the k smallest values of each row, ordered by (D, index)."""
    rows = []
    for i, row in enumerate(D):
        order = sorted(range(len(row)), key=lambda j: (row[j], j))
        rows.append([j for j in order if exclude is None or j != exclude[i]][:k])
    return np.array(rows, dtype=np.int64)


def lmnn(
    Z: Array,
    y: Array,
    targets: Array,
    regularization: float = 0.5,
    margin: float = 1.0,
    weight: Array | None = None,
) -> float:
    """Return the loss and its gradient by a triple loop."""
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
    """Return central differences, entry by entry."""
    gradient = np.empty_like(x, dtype=np.float64)
    for index in np.ndindex(*x.shape):
        forward, backward = x.astype(np.float64).copy(), x.astype(np.float64).copy()
        forward[index] += step
        backward[index] -= step
        gradient[index] = (f(forward) - f(backward)) / (2 * step)
    return gradient


def peak_memory(call: Callable[[], object]) -> int:
    """Return the peak of Python's allocated bytes during the call."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def elsewhere(array, shift):
    """Return a copy that starts `shift` elements after an aligned address."""
    room = np.zeros(array.size + 128, array.dtype)
    first = (-room.ctypes.data // room.itemsize) % (64 // room.itemsize) + shift
    copy = room[first : first + array.size].reshape(array.shape)
    copy[:] = array
    return copy
