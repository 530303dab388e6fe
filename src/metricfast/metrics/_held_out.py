"""Splits by classes: whole classes are held out if they have few points."""

from __future__ import annotations

import numpy as np

from metricfast._core.targets import by_appearance
from metricfast._core.types import Integers

__all__ = ["class_halves"]

# Classes are held out, instead of points, if the median class has fewer points than the first
# number, or if there are more classes per point of it than the second: new classes are then likely.
_FEW_POINTS, _MANY_CLASSES = 5, 2


def class_halves(
    codes: Integers, least: int = 2, unit: str = "auto"
) -> list[tuple[Integers, Integers]]:
    """Return two splits: each half of the classes is for training and for validation once.

    Points of classes with fewer than `least` points, or with a single point, are only used as
    neighbours. There are no splits unless two classes remain in each half.

    `codes`: class indices of distinct points. The halves depend on the order of the classes' first
        points, not on the codes.
    `unit`: "classes", "points" or "auto". With "points" there are no splits, and with "auto" there
        are some if the median class has fewer than 5 points, or fewer than half as many as there
        are classes.
    """
    if unit == "points":
        return []
    codes = by_appearance(codes)
    sizes = np.bincount(codes)
    if unit == "auto" and np.median(sizes) >= max(_FEW_POINTS, len(sizes) / _MANY_CLASSES):
        return []
    several = np.flatnonzero(sizes >= max(2, least))
    if len(several) < 4:
        return []
    halves = np.array_split(np.random.RandomState(0).permutation(several), 2)
    first, second = (np.flatnonzero(np.isin(codes, half)) for half in halves)
    return [(first, second), (second, first)]
