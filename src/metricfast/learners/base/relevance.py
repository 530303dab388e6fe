"""The share of each feature in a Mahalanobis distance."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricfast._core.arrays import scaled_alike
from metricfast._core.points import spread_of_features
from metricfast._core.types import Array, Floats


def in_spreads(L: Array, X: Any = None) -> Floats:
    """Return the map for features in units of their standard deviations in X, times a factor.

    The factor avoids overflow of squares. X must be checked.
    """
    (weighted,) = scaled_alike(L.astype(np.float64))
    if X is None:
        return weighted
    spread = spread_of_features(X)
    if not spread.any():
        raise ValueError("X must hold points that differ, to measure how far each feature spreads.")
    return scaled_alike(weighted * spread)[0]


def shares_of_features(L: Floats) -> Floats:
    """Return the diagonal of L^T L divided by its sum, or zeros."""
    squares: Floats = np.square(L).sum(axis=0)
    return squares / (squares.sum() or 1.0)


def feature_names(learner: Any) -> list[str]:
    """Return the feature names; without names in `fit`, x0, x1, ..., as in scikit-learn."""
    numbered = [f"x{j}" for j in range(learner._map.shape[1])]
    return list(getattr(learner, "feature_names_in_", numbered))
