"""Draw distinct pairs of points, either of the same class or of different classes."""

from __future__ import annotations

import numpy as np

from metricfast._core.targets import by_appearance
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast._core.warn import warn_user


def draw_different_pairs(
    labels: Integers,
    n_pairs: int,
    same_class: bool,
    rng: RandomState,
    sample_weight: Floats | None = None,
) -> tuple[Integers, Integers]:
    """Draw a point that has partners, then one of its partners, until there are enough pairs.

    `labels`: points of negative label are in no pair.
    `n_pairs`: how many to draw; where there are fewer, all are returned, with a warning.
    `same_class`: whether the partners of a point are the others of its class, or the points of
        other classes.
    `sample_weight`: to which the chances of points are in proportion; by default they are equal.
    Returns left, right: the two points of each pair. The point of the class that appears first
    (within a class, the lower index) is in `left`.
    """
    known = labels >= 0
    if sample_weight is not None:
        known &= sample_weight > 0
    (order,) = np.nonzero(known)
    codes = by_appearance(labels[order])
    by_class = np.argsort(codes, kind="stable")
    order, n = order[by_class], len(order)
    start, end = class_bounds(codes[by_class])
    lowest = np.arange(1, n + 1) if same_class else end  # the first partner after a point
    n_later = (end if same_class else n) - lowest
    last = np.cumsum(n_later)
    total = int(last[-1]) if n else 0
    weight = None if sample_weight is None else sample_weight[order]
    if weight is not None and np.all(weight == weight[:1]):
        weight = None

    def numbered(number: Integers) -> Integers:
        """Return the pairs with these numbers. Pairs are numbered by their first point."""
        left = np.searchsorted(last, number, side="right")
        return np.asarray(left * n + lowest[left] + (number - last[left] + n_later[left]))

    def joined(left: Integers, right: Integers) -> Integers:
        """Encode each pair as one number, from the positions of its points in class order."""
        return np.asarray(np.minimum(left, right) * n + np.maximum(left, right))

    def by_point(size: int) -> Integers:
        n_partners = end - start - 1 if same_class else n - (end - start)
        (able,) = np.nonzero(n_partners)
        left = able[rng.randint(len(able), size=size, dtype=np.int64)]
        step = rng.randint(n_partners[left], dtype=np.int64)
        if same_class:
            right = start[left] + (left - start[left] + 1 + step) % (end - start)[left]
        else:
            right = (end[left] + step) % n
        return joined(left, right)

    def by_weight(size: int, weight: Floats) -> Integers:
        sums = np.concatenate([[0.0], np.cumsum(weight)])
        (able,) = np.nonzero(end - start > 1 if same_class else end - start < n)
        left = able[_places(np.cumsum(weight[able]), rng.random_sample(size))]
        # The partners of a point are an interval of cumulative weights, with a gap inside it.
        first, beyond = (start[left], end[left]) if same_class else (0, n)
        out, back = (left, left + 1) if same_class else (start[left], end[left])
        drawn = sums[beyond] - sums[first] - (sums[back] - sums[out])
        drawn = sums[first] + drawn * rng.random_sample(size)
        drawn = np.where(drawn < sums[out], drawn, drawn + (sums[back] - sums[out]))
        right = np.clip(np.searchsorted(sums, drawn, side="right") - 1, first, beyond - 1)
        partner = (right < out) | (right >= back)  # false only after rounding
        return joined(left[partner], right[partner])

    if 2 * n_pairs >= total:
        if weight is None:
            pairs = numbered(rng.permutation(np.arange(total, dtype=np.int64))[:n_pairs])
        else:
            pairs = numbered(np.arange(total, dtype=np.int64))
            left, right = np.divmod(pairs, max(n, 1))
            # Sample without replacement: the smallest of exponential variables with these rates.
            times = (
                np.log(rng.exponential(size=total)) - np.log(weight[left]) - np.log(weight[right])
            )
            pairs = pairs[np.argsort(times, kind="stable")[:n_pairs]]
    else:
        pairs, rounds = np.empty(0, np.int64), 0
        while len(pairs) < n_pairs:
            missing = n_pairs - len(pairs)
            if rounds >= 10:  # few new pairs are left: draw uniformly from all
                more = numbered(rng.randint(total, size=missing, dtype=np.int64))
            elif weight is None:
                more = by_point(missing)
            else:
                more = by_weight(missing, weight)
            pairs, rounds = np.concatenate([pairs, more]), rounds + 1
            pairs = pairs[np.sort(np.unique(pairs, return_index=True)[1])]
    if total < n_pairs:
        kind = "positive" if same_class else "negative"
        warn_user(f"Only generated {total} {kind} constraints (requested {n_pairs})")
    left, right = np.divmod(pairs, max(n, 1))
    return order[left], order[right]


def class_bounds(labels: Array) -> tuple[Integers, Integers]:
    """Return for each of the sorted labels the start and end index of its class."""
    _, first, code, count = np.unique(
        labels, return_index=True, return_inverse=True, return_counts=True
    )
    start = first[code]
    return start, start + count[code]


def _places(sums: Floats, shares: Floats) -> Integers:
    """Return the interval that holds each share of the last sum. Interval i ends at `sums[i]`."""
    drawn = np.searchsorted(sums, shares * sums[-1], side="right")
    return np.asarray(np.minimum(drawn, len(sums) - 1))
