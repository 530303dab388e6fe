"""Bounds on the distances of similar and of dissimilar points."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from metricfast._core.arguments import as_real
from metricfast._core.initialize import components_from_metric
from metricfast._core.scatter import blocks
from metricfast._core.tuples import TupleSet
from metricfast.distances.neighbors import paired_distances

__all__ = ["check_bounds", "distance_percentiles"]

# Percentiles of so many distances are off by less than a tenth of a percent of the pairs.
_MOST_DISTANCES = 250_000
# A bound of zero becomes this part of the other one: nothing but a singular M would keep it.
_LEAST_BOUND = 1e-5


def check_bounds(bounds: ArrayLike) -> NDArray[np.float64]:
    """Return a copy of the bounds that a user gave, without zeros.

    Raises
    ------
    ValueError
        If they are not two finite numbers that are not negative, of which one is not zero.
    """
    given = check_array(
        as_real(bounds, "bounds"),
        dtype=np.float64,
        ensure_2d=False,
        ensure_min_samples=0,
        input_name="bounds",
    )
    result: NDArray[np.float64] = np.array(given).ravel()
    if result.size != 2:
        raise ValueError("`bounds` should be an array-like of two elements.")
    if (result < 0).any() or not result.any():
        raise ValueError(
            f"`bounds` are distances: they must not be negative, nor both zero, got {bounds!r}."
        )
    result[result == 0] = _LEAST_BOUND * result.max()
    return result


def distance_percentiles(tuples: TupleSet, M: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the 5th and 95th percentile of the distances of different points under M.

    Parameters
    ----------
    tuples : TupleSet
        Of the many pairs of different points in them, a part is drawn, always the same.
    M : ndarray of shape (n_features, n_features)

    Raises
    ------
    ValueError
        If there is one point only.
    """
    points, rows = tuples.points, tuples.unique_rows()
    n = len(rows)
    if n < 2:
        raise ValueError(
            "All pairs hold the same point, so there is no distance to learn from: "
            "give pairs of different points."
        )
    if n * (n - 1) // 2 <= _MOST_DISTANCES:
        left, right = np.triu_indices(n, 1)
    else:
        rng = np.random.RandomState(0)
        left = rng.randint(n, size=_MOST_DISTANCES)
        right = (left + rng.randint(1, n, size=_MOST_DISTANCES)) % n
    L = components_from_metric(M)
    distances = [
        paired_distances(
            *(points[rows[side[part]]].astype(np.float64) for side in (left, right)), L=L
        )
        for part in blocks(points, len(left))
    ]
    return np.asarray(np.percentile(np.concatenate(distances), (5, 95)))
