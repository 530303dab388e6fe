"""Weight, mean and scatter of groups of points, accumulated block by block."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from metricfast._core.arguments import check_no_overflow
from metricfast._core.in_threads import in_threads
from metricfast._core.scaling import (
    ORDINARY,
    ORDINARY_SQUARES,
    center_and_rescale,
    times_power_of_two,
)
from metricfast._core.scatter import group_sums, members_of_groups, readings, scatter_matrix
from metricfast._core.sources import on_disk, scaled
from metricfast._core.targets import check_comparable, codes_among, encode_together
from metricfast._core.types import Array, Floats


class ScatterStatistics:
    """Weight, mean and scatter of groups of points. Statistics of blocks or machines can be added.

    Blocks are summed around their own means. Merging adds the scatter of the means. So nothing
    cancels, even far from zero: the merged statistics of parts equal the statistics of the whole,
    within rounding. Objects can be pickled.

    Parameters
    ----------
    n_features : int
        Features of a point.
    groups : ndarray of shape (n_groups,), optional
        Expected groups, sorted. Other groups may be added later, which is slower.
    per_group : bool, default=False
        Keep the scatter of each group, not their sum alone.

    Attributes
    ----------
    groups : ndarray of shape (n_groups,)
        Names of groups, sorted.
    weights : ndarray of shape (n_groups,)
        Sums of weights.
    origin : ndarray of shape (n_features,)
        A point, as given.
    exponent : int
        `means` are in units of ``2**exponent``, `scatters` in units of its square.
    means : ndarray of shape (n_groups, n_features)
        Mean of each group, minus the origin.
    scatters : ndarray of shape (1 or n_groups, n_features, n_features)
        Weighted sums of the outer products of points minus the mean of their group.
    n_points, total, whole : int, float, bool
        Number of points of positive weight, the sum of weights, and whether all weights are whole
        numbers.
    dtype : type
        float32 if all points are, else float64.

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast._core.scatter_statistics import ScatterStatistics
    >>> X = np.array([[1.0, 2.0], [3.0, 2.0], [8.0, 5.0]])
    >>> halves = ScatterStatistics(2).add(X[:1]).merge(ScatterStatistics(2).add(X[1:]))
    >>> (halves.origin + halves.means).tolist(), halves.within.tolist()
    ([[4.0, 3.0]], [[26.0, 12.0], [12.0, 6.0]])
    """

    def __init__(
        self, n_features: int, groups: Array | None = None, *, per_group: bool = False
    ) -> None:
        self.per_group = per_group
        self.origin, self.exponent = np.zeros(n_features), 0
        self.n_points, self.total, self.whole = 0, 0.0, True
        self.dtype: Any = np.float32  # skops trusts types, not np.dtype
        self.groups: Array = np.empty(0, np.int64)
        self.weights: Floats = np.zeros(0)
        self.means: Floats = np.zeros((0, n_features))
        self.scatters: Floats = np.zeros((0 if per_group else 1, n_features, n_features))
        if groups is not None:
            self._add_groups(groups)

    @classmethod
    def of_scatters(
        cls, groups: Array, weights: Floats, scatters: Floats, exponent: int, dtype: Any
    ) -> ScatterStatistics:
        """Return statistics with given scatters around zero, for example scatters of differences.

        Groups without weight are left out.

        `scatters` are in units of ``2**exponent``; the other arguments are as the attributes.
        """
        found, kept = cls(scatters.shape[-1], per_group=True), weights > 0
        found.groups, found.weights = groups[kept], weights[kept].astype(np.float64)
        found.means, found.scatters = np.zeros((int(kept.sum()), len(found.origin))), scatters[kept]
        found.n_points, found.total = int(kept.sum()), float(weights.sum())
        found.exponent, found.dtype = exponent, np.dtype(dtype).type
        return found

    def add(
        self,
        X: Any,
        weights: Floats | None = None,
        group: Array | None = None,
        exponent: int | None = None,
    ) -> ScatterStatistics:
        """Add points: an array as one block, or a source, which is read once.

        `X`: of shape (n_points, n_features); finite.
        `weights`: ndarray of shape (n_points,), non-negative; 1 by default.
        `group`: ndarray of shape (n_points,); names of groups; all are of group 0 by default.
        `exponent`: for X from :func:`center_and_rescale`, the exponent that it returned. Points
            from other calls of that function then cannot be added.
        Returns `self`.
        """
        # Blocks of a source run in parallel, one thread each; an array is one block that uses all
        # threads.
        n_jobs, n_threads = (1, None) if on_disk(X) else (None, 1)

        def of(rows: slice, block: Array) -> ScatterStatistics:
            w = np.ones(len(block)) if weights is None else weights[rows]
            g = np.zeros(len(block), np.int64) if group is None else group[rows]
            seen = w > 0
            if not seen.all():
                block, w, g = block[seen], w[seen], g[seen]
            return self._of(block, w, g, exponent, n_jobs)

        for found in in_threads(of, readings(X), n_threads):
            expected = not len(self.groups) or np.array_equal(self.groups, found.groups)
            if expected and not self.n_points:
                vars(self).update(vars(found))
            else:
                self.merge(found)
        return self

    def __add__(self, other: ScatterStatistics) -> ScatterStatistics:
        """Return the combined statistics, without changing either."""
        return copy.deepcopy(self).merge(other)

    def merge(self, other: ScatterStatistics) -> ScatterStatistics:
        """Add other statistics, without changing them. Returns `self`."""
        if not other.n_points:
            return self
        if not self.n_points:
            self.origin, self.exponent = other.origin, other.exponent
        self._add_groups(other.groups)
        apart = self._to_one_unit(other)
        shift = other.exponent - self.exponent
        rows = codes_among(other.groups, self.groups, "y")
        before, more = self.weights[rows], other.weights
        after = before + more
        between = before * more / after
        apart = times_power_of_two(other.means, shift) + apart - self.means[rows]
        self.weights[rows] = after
        self.means[rows] += (more / after)[:, None] * apart
        gained = times_power_of_two(other.scatters, 2 * shift)
        if self.per_group:
            gained += np.einsum("i,ij,ik->ijk", between, apart, apart)
            self.scatters[rows] += gained
        else:
            self.scatters += gained + scatter_matrix(
                apart, between, np.zeros(len(apart), np.int64), np.zeros((1, apart.shape[1]))
            )
        self.n_points += other.n_points
        self.total += other.total
        self.whole = self.whole and other.whole
        self.dtype = np.promote_types(self.dtype, other.dtype).type
        return self

    def counted(self) -> ScatterStatistics:
        """Return statistics with fractional weights scaled as in :func:`repetitions`."""
        if self.whole:
            return self
        found, factor = copy.copy(self), self.n_points / self.total
        found.weights, found.scatters = self.weights * factor, self.scatters * factor
        found.total = float(self.n_points)
        return found

    @property
    def within(self) -> Floats:
        """The scatter within groups: the sum of the scatters of all groups."""
        return np.asarray(self.scatters.sum(axis=0) if self.per_group else self.scatters[0])

    @property
    def between(self) -> Floats:
        """The weighted scatter of the group means around the mean of all points."""
        mean = self.weights @ self.means / self.weights.sum()
        deviations = (self.means - mean) * np.sqrt(self.weights)[:, None]
        return np.asarray(deviations.T @ deviations)

    def of_group(self, group: Any) -> tuple[float, Floats]:
        """Return the weight and the scatter of a group, or zeros if it has no points."""
        places = np.flatnonzero(self.groups == group)
        if not len(places):
            return 0.0, np.zeros(self.scatters.shape[1:])
        return float(self.weights[places[0]]), self.scatters[places[0]]

    def scatters_in(self, exponent: int) -> Floats:
        """Return the scatters in units of another power of two."""
        return times_power_of_two(self.scatters, 2 * (self.exponent - exponent))

    def _of(
        self, X: Array, weights: Floats, group: Array, exponent: int | None, n_jobs: int | None
    ) -> ScatterStatistics:
        """Return the statistics of one block; all its weights are positive."""
        if not len(X):
            return ScatterStatistics(X.shape[1], per_group=self.per_group)
        origin = np.zeros(X.shape[1]) if exponent is not None else _central_point(X)
        groups, code = np.unique(group, return_inverse=True)
        sums, size = group_sums(X, weights, code, len(groups), origin=origin, n_jobs=n_jobs)
        if exponent is None and size and abs(math.log2(size)) >= ORDINARY_SQUARES:
            block, unit = center_and_rescale(X)
            found = self._of(block, weights, group, unit, n_jobs)
            found.origin = X[0] - times_power_of_two(block[0].astype(np.float64), unit)
            return found
        found = ScatterStatistics(X.shape[1], per_group=self.per_group)
        found.groups, found.dtype = groups, X.dtype.type
        found.exponent, found.origin = exponent or 0, origin
        found.weights = np.bincount(code, weights).astype(np.float64)
        found.total = float(weights.sum())
        found.means = means = sums / found.weights[:, None]
        how: dict[str, Any] = {"origin": origin, "n_jobs": n_jobs}
        if self.per_group:
            found.scatters = np.empty((len(groups), X.shape[1], X.shape[1]))
            for label, members in members_of_groups(code):
                zeros, mean = np.zeros(len(members), np.int64), means[label : label + 1]
                found.scatters[label] = scatter_matrix(
                    X[members], weights[members], zeros, mean, **how
                )
        else:
            found.scatters = scatter_matrix(X, weights, code, means, **how)[None]
        found.n_points, found.whole = len(X), bool((weights == np.floor(weights)).all())
        return found

    def _add_groups(self, groups: Array) -> None:
        """Allocate statistics for new groups."""
        if groups.dtype == self.groups.dtype and np.array_equal(groups, self.groups):
            return
        check_comparable(groups, self.groups, "y")
        known, rows = groups, np.empty(0, np.int64)
        if len(self.groups):
            known, (rows, _) = encode_together([self.groups, groups], "y")
        if len(known) == len(self.groups):
            return
        for name in ("weights", "means", *(("scatters",) if self.per_group else ())):
            old = getattr(self, name)
            new = np.zeros((len(known), *old.shape[1:]))
            new[rows] = old
            setattr(self, name, new)
        self.groups = known

    def _to_one_unit(self, other: ScatterStatistics) -> Floats:
        """Choose a unit in which nothing overflows; return the difference of the origins."""
        with np.errstate(over="ignore"):
            apart = other.origin - self.origin
        size = float(np.abs(apart).max())
        check_no_overflow("differences of its points", size)
        units = [sums.exponent for sums in (self, other) if sums.means.any() or sums.within.any()]
        if size:
            power = math.frexp(size)[1]
            units.append(power if abs(power) > ORDINARY_SQUARES else 0)
        shift = self.exponent - max(units, default=self.exponent)
        if shift:
            self.means = times_power_of_two(self.means, shift)
            self.scatters = times_power_of_two(self.scatters, 2 * shift)
            self.exponent -= shift
        return times_power_of_two(apart, -self.exponent)


def centered(X: Any) -> tuple[Any, int, ScatterStatistics]:
    """Subtract the mean; rescale very large or very small data to a spread of about 1.

    For an array, the result equals that of :func:`center_and_rescale`. A source is read once, and
    the result is a source. Also returns the exponent, and the statistics of the original points.
    """
    sums = ScatterStatistics(X.shape[1]).add(X)
    if not on_disk(X):
        return *center_and_rescale(X), sums
    mean = sums.origin + times_power_of_two(sums.means[0], sums.exponent)
    exponent, largest = 0, float(np.diag(sums.within).max()) / len(X)
    if largest > 0:
        log = math.floor(math.log2(largest) / 2) + sums.exponent
        exponent = log if abs(log) > ORDINARY else 0
    return scaled(X, mean, exponent), exponent, sums


def _central_point(X: Array) -> Floats:
    """Return a central point: the median of nine values in each column."""
    few = np.sort(X[:: -(-len(X) // 9)], axis=0)
    return np.ascontiguousarray(few[len(few) // 2], np.float64)
