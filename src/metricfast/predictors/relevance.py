"""The share of each column of a table in the distances of a learned map."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from metricfast._core.types import Array, Floats, Integers
from metricfast.embeddings import Embedding, Linear, Periodic

# Largest and smallest number of pairs of points per column. For a map that is not a sum over
# columns, _MOST limits the number of embedded points over all columns. For wide tables,
# _MOST_NUMBERS limits the size of the pairs.
_PAIRS, _LEAST_PAIRS, _MOST, _MOST_NUMBERS = 1024, 128, 50_000, 2**24


def embed_rows(
    embedding: Embedding, arrays: list[Array], E: Array, n_jobs: int | None = None
) -> Array:
    """Embed encoded points."""
    points = embedding._reachable(arrays, E) if isinstance(embedding, Periodic) else E
    found: Array = embedding._forward(arrays, points, n_jobs=n_jobs)[0]
    return found


def shares_of_columns(
    embedding: Embedding, parameters: list[list[Array]], E: Array, origin: Integers,
    weight: Floats | None, n_jobs: int | None = None,
) -> Floats:  # fmt: skip
    """Return the total Sobol index of each column, normalised to sum 1, as the mean over maps.

    The index of a column is half the mean squared distance that a point moves if the column takes
    its value from another point (Jansen, 1999). If no point moves, all columns have the same share.

    Parameters
    ----------
    embedding : Embedding
    parameters : list of list of ndarray
        Parameters of each map.
    E : ndarray of shape (n_samples, n_encoded)
        Encoded points, from which pairs are drawn.
    origin : ndarray of int64 of shape (n_encoded,)
        The column of the table for each encoded column.
    weight : ndarray of shape (n_samples,), or None
    n_jobs : int, optional
    """
    n_columns, is_sum = int(origin.max()) + 1, isinstance(embedding, (Linear, Periodic))
    most = _MOST_NUMBERS // E.shape[1] if is_sum else _MOST // n_columns
    n_pairs = min(_PAIRS, max(most, _LEAST_PAIRS))
    share = None if weight is None else weight / weight.sum()
    rows, others = np.random.RandomState(0).choice(len(E), size=(2, n_pairs), p=share)
    moved = np.empty((len(parameters), n_columns))
    ends = np.cumsum(np.bincount(origin))[:-1]
    for j, own in enumerate(np.split(np.argsort(origin, kind="stable"), ends)):
        start, end = (E[np.ix_(chosen, own)] for chosen in (rows, others))
        if isinstance(embedding, Linear):
            apart = np.subtract(end, start, dtype=np.float64)
            scatter = apart.T @ apart
            maps = (arrays[0][:, own] for arrays in parameters)
            moved[:, j] = [np.vdot(L @ scatter, L) for L in maps]
            continue
        if not is_sum:
            start, own_end = E[rows], end
            end = start.copy()
            end[:, own] = own_end
        for place, arrays in enumerate(parameters):
            part = _of_columns(embedding, arrays, own) if is_sum else (embedding, arrays)
            Z_start, Z_end = (embed_rows(*part, points, n_jobs) for points in (start, end))
            moved[place, j] = np.square(Z_end - Z_start, dtype=np.float64).sum()
    total = moved.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, moved / np.where(total > 0, total, 1), 1 / n_columns)
    found: Floats = shares.mean(axis=0)
    return found


def _of_columns(
    embedding: Embedding, arrays: list[Array], own: Integers
) -> tuple[Embedding, list[Array]]:
    """Return the part of a map of periodic features that depends on some columns only.

    The map is the sum of such parts.
    """
    frequencies, features, biases, L = arrays
    n_numbers, n_features = len(frequencies), len(features)
    numbers, rest = own[own < n_numbers], own[own >= n_numbers]
    places = (numbers[:, None] * n_features + np.arange(n_features)).ravel()
    L = np.take(L, np.concatenate([places, rest + n_numbers * (n_features - 1)]), axis=1)
    if not len(numbers):
        return Linear(), [L]
    part = clone(embedding).set_params(n_passthrough=len(rest))
    return part, [frequencies[numbers], features, biases, L]
