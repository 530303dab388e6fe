"""Random batches of rows."""

from __future__ import annotations

import math

import numpy as np

from metricfast._core.types import Integers, RandomState

__all__ = ["batch_count", "class_batches"]


def batch_count(n: int, batch_size: int) -> int:
    """Return the number of batches, alike in size, of at most `batch_size` of n samples.

    None has a single sample, which has nothing to be compared with, unless `batch_size` is 1: of an
    odd number of samples in pairs, three are together.
    """
    return max(1, n // 2 if batch_size == 2 else math.ceil(n / batch_size))


def class_batches(
    labels: Integers, batch_size: int, rng: RandomState, group: int = 8
) -> list[Integers]:
    """Split all samples at random into batches in which classes have several members.

    Each class is cut at random into groups of `group` samples (its last one may be smaller), and
    batches are made of whole groups in random order: with many classes, a uniform draw would leave
    most samples without company of their class.

    Returns a list of ndarray of int64: sorted row indices; batches differ in size by at most one
    sample, see `batch_count`.
    """
    shuffled = rng.permutation(labels.size)
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    counts = np.bincount(labels)
    within = np.arange(labels.size) - np.repeat(np.cumsum(counts) - counts, counts)
    groups = np.cumsum(within % group == 0) - 1
    order = by_class[np.argsort(rng.permutation(groups[-1] + 1)[groups], kind="stable")]
    return [np.sort(b) for b in np.array_split(order, batch_count(labels.size, batch_size))]
