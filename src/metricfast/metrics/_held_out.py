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
    """Return training and validation rows, each of half of the classes, and the other way round.

    Points of classes with fewer than `least` of them, or without a second, only take part as
    neighbours. There are no splits unless two classes of each half are left.

    `codes`: of different points. Halves depend on the order in which classes come, not on codes.
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
