"""The share of each column of a table in the distances of a learned map."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from metricfast._core.types import Array, Floats, Integers

__all__ = ["shares_of_columns"]

# Pairs of points for each column, and embedded points of all columns together.
_PAIRS, _LEAST_PAIRS, _MOST = 1024, 128, 50_000


def shares_of_columns(
    embedded: Callable[[Array], list[Array]], E: Array, origin: Integers, weight: Floats | None
) -> Floats:
    """Return the total Sobol index of each column, divided by their sum, as the mean of maps.

    The index of a column is half the mean squared distance that a point moves if the column takes
    its value from another point (Jansen, 1999). If no point moves, all columns have the same share.

    Parameters
    ----------
    embedded : callable
        Returns encoded points under each map.
    E : ndarray of shape (n_samples, n_encoded)
        Encoded points, of which pairs are drawn.
    origin : ndarray of int64 of shape (n_encoded,)
        The column of the table from which each encoded column comes.
    weight : ndarray of shape (n_samples,), or None
    """
    n_columns = int(origin.max()) + 1
    n_pairs = min(_PAIRS, max(_MOST // n_columns, _LEAST_PAIRS))
    share = None if weight is None else weight / weight.sum()
    rows, others = np.random.RandomState(0).choice(len(E), size=(2, n_pairs), p=share)
    start = embedded(E[rows])
    moved = np.empty((len(start), n_columns))
    for j in range(n_columns):
        points, own = E[rows], origin == j
        points[:, own] = E[others][:, own]
        ends = embedded(points)
        moved[:, j] = [
            np.square(Z - Z_start, dtype=np.float64).sum()
            for Z, Z_start in zip(ends, start, strict=True)
        ]
    total = moved.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, moved / np.where(total > 0, total, 1), 1 / n_columns)
    found: Floats = shares.mean(axis=0)
    return found
