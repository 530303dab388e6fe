"""The points of a database in segments, so that a change does not require preparing all again.

New points form a new segment, which is merged with the previous segments until the previous one is
at least twice as large. Removed points are hidden; a segment with half of its points hidden is
rebuilt. A search runs in each segment and merges the results by distances in float64; ties go to
the lower id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from metricfast._core.dispatch import get_kernels
from metricfast._core.memory import block_rows
from metricfast._core.scaling import ORDINARY_SQUARES
from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.blocks import Maps, sorted_by_query, write_distances
from metricfast.distances.filters import Filter, Mask, name_rows, rows_among

if TYPE_CHECKING:
    from metricfast._core.kernels import PreparedDatabase

# An addition rebuilds the last segment if it has at most this many points.
_SMALL = 256
# Cost of preparing a point, in comparisons of the point with a query.
_PREPARING = 128


class Segment(NamedTuple):
    """Points that are prepared together."""

    points: Array
    images: Array  # the points that are searched: embedded by the map, if any
    ids: Integers  # ascending
    prepared: PreparedDatabase
    size: int  # without hidden points
    shown: Mask | None = None  # None: no point is hidden

    def only_shown(self, array: Array) -> Array:
        """Return the rows of an array that are not hidden."""
        return array if self.shown is None else array[self.shown]

    def rows(self, ids: Integers) -> Integers:
        """Return the rows of ids, -1 for ids that are hidden or not here."""
        rows = rows_among(ids, self.ids)
        return rows if self.shown is None else np.where(self.shown[rows], rows, -1)

    def without(self, rows: Integers) -> Segment:
        """Return the segment with rows hidden."""
        shown = np.ones(len(self.ids), bool) if self.shown is None else self.shown.copy()
        shown[rows] = False
        return self._replace(size=int(np.count_nonzero(shown)), shown=shown)

    def filtered(self, where: Filter) -> Filter:
        """Return a filter of all rows, given the filter of visible rows."""
        if self.shown is None:
            return where
        mask, labels = self.shown, where.labels
        if where.mask is not None:
            mask = np.zeros((*where.mask.shape[:-1], len(self.ids)), bool)
            mask[..., self.shown] = where.mask
        if labels is not None:
            of_points = np.zeros(len(self.ids), np.int64)
            of_points[self.shown] = labels.points
            labels = labels._replace(points=of_points)
        return Filter(mask, labels)

    def search(
        self, queries: Array, exclude: Integers | None, where: Filter, squared: bool,
        distances: Array, ids: Integers, threads: int,
    ) -> None:  # fmt: skip
        """Write the nearest points of embedded queries.

        `exclude` holds ids. `where` is the filter of the points that are not hidden.
        """
        k = min(ids.shape[1], len(self.ids))
        if k < ids.shape[1]:
            distances[:, k:], ids[:, k:] = np.inf, -1
            distances, ids = distances[:, :k], ids[:, :k]
        if exclude is not None:
            exclude = self.rows(exclude)
        self.prepared.search(
            queries, k, (exclude, *self.filtered(where).arguments()), squared, distances, ids,
            threads,
        )  # fmt: skip
        name_rows(ids, self.ids)


class Space(NamedTuple):
    """The maps of queries and points, the precision of bounds, and the metric."""

    maps: Maps
    precision: str
    metric: str = "euclidean"

    @property
    def centred(self) -> bool:
        """True if a shift of all points does not change the distances.

        That holds for Euclidean distances under one map.
        """
        one_map = self.maps[0] is not None and self.maps[0] is self.maps[1]
        return one_map and self.metric == "euclidean"

    def origin(self, points: Array) -> Floats | None:
        """Return the origin that is subtracted from points before embedding, given their extremes.

        None means no subtraction.
        """
        if not self.centred:
            return None
        origin = np.array(get_kernels().embedding_origin(points))
        return origin if origin.any() else None

    def embed(self, points: Array, side: int, origin: Floats | None, threads: int) -> Array:
        """Return points as queries (0) or a database (1) are embedded."""
        L = self.maps[side]
        if L is None:
            return points
        images = np.empty((len(points), len(L)))
        shift = np.zeros(L.shape[1]) if origin is None else origin
        get_kernels().embed(points, L, shift, images, threads)
        return images

    def prepare(self, points: Array, images: Array, ids: Integers, threads: int) -> Segment:
        """Prepare points for searches, as a segment."""
        prepared = get_kernels().prepare_database(
            images, self.precision == "auto", self.metric, threads
        )
        return segment_of(points, images, ids, prepared)

    def merged(self, segments: Sequence[Segment], threads: int) -> Segment:
        """Merge several segments into one, without hidden points."""
        points = np.concatenate([each.only_shown(each.points) for each in segments])
        images = points
        if self.maps[1] is not None:
            images = np.concatenate([each.only_shown(each.images) for each in segments])
        ids = np.concatenate([each.only_shown(each.ids) for each in segments])
        return self.prepare(points, images, ids, threads)


def segment_of(points: Array, images: Array, ids: Integers, prepared: PreparedDatabase) -> Segment:
    """Return a segment without hidden points, which takes ownership of the arrays."""
    points.flags.writeable = ids.flags.writeable = False
    return Segment(points, images, ids, prepared, len(ids))


class Snapshot:
    """An immutable state of the database that searches use. A change creates a new snapshot."""

    def __init__(
        self, space: Space, segments: Iterable[Segment], following: int, origin: Floats | None
    ) -> None:
        self.space, self.segments = space, tuple(segments)
        self.next, self.origin = following, origin  # the next id
        self._chosen: tuple[Mask, int, Snapshot | None] | None = None

    @classmethod
    def of(
        cls, space: Space, points: Array, ids: Integers, following: int, threads: int
    ) -> Snapshot:
        """Return a snapshot of points in one segment."""
        origin = space.origin(points)
        images = space.embed(points, 1, origin, threads)
        return cls(space, [space.prepare(points, images, ids, threads)], following, origin)

    def __len__(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of points and features."""
        return len(self), self.segments[0].points.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the points."""
        return self.segments[0].points.dtype

    @property
    def bytes(self) -> int:
        """Memory in bytes, without the points themselves."""
        total = sum(each.prepared.bytes() for each in self.segments)
        total += sum(each.shown.nbytes for each in self.segments if each.shown is not None)
        if self.space.maps[1] is not None:
            total += sum(each.images.nbytes for each in self.segments)
        return total

    @cached_property
    def points(self) -> Array:
        """The points."""
        return self._all([each.only_shown(each.points) for each in self.segments])

    @cached_property
    def ids(self) -> Integers:
        """Their ids."""
        return self._all([each.only_shown(each.ids) for each in self.segments])

    def _all(self, parts: list[Array]) -> Array:
        found: Array = parts[0] if len(parts) == 1 else np.concatenate(parts)
        found.flags.writeable = False
        return found

    @property
    def single(self) -> bool:
        """Whether there is one segment without hidden points."""
        return len(self.segments) == 1 and self.segments[0].shown is None

    @cached_property
    def whole(self) -> Snapshot:
        """The same points in one segment."""
        if self.single:
            return self
        return Snapshot.of(self.space, self.points, self.ids, self.next, 1)

    @cached_property
    def _ordinary(self) -> bool:
        return all(_ordinary(each.images) for each in self.segments)

    @cached_property
    def _extremes(self) -> Array:
        """The minimum and maximum of each feature."""
        return _extremes(
            block for each in self.segments for block in _blocks(each.points, each.shown)
        )

    def rows(self, ids: Integers) -> Integers:
        """Return the rows of ids, and -1 for unknown ids."""
        return rows_among(ids, self.ids)

    def holds(self, ids: Integers) -> Mask:
        """Return whether each id belongs to a point."""
        return np.asarray((self.rows_by_segment(ids) >= 0).any(axis=0))

    def rows_by_segment(self, ids: Integers) -> Integers:
        """Return the row of each id in each segment, -1 if it is not there, (n_segments, n)."""
        return np.stack([each.rows(ids) for each in self.segments])

    # Changes

    def added(self, points: Array, threads: int) -> Snapshot:
        """Return a snapshot with points added."""
        following = self.next + len(points)
        ids = np.arange(self.next, following)
        if self.dtype == np.float64:
            points = points.astype(np.float64, copy=False)
        extremes = None
        if self.space.centred:
            extremes = _extremes([self._extremes, *_blocks(points)])
        if points.dtype == self.dtype and self._ordinary and self._stays(extremes):
            images = self.space.embed(points, 1, self.origin, threads)
            if _ordinary(images):
                new = self.space.prepare(points, images, ids, threads)
                return self._changed([*self.segments, new], following, extremes, threads)
        return Snapshot.of(
            self.space, np.concatenate([self.points, points]), np.concatenate([self.ids, ids]),
            following, threads,
        )  # fmt: skip

    def removed(self, found: Integers, threads: int) -> Snapshot:
        """Return a snapshot without some (but not all) of the points.

        `found` holds the rows to remove in each segment, and -1, as returned by `rows_by_segment`.
        """
        segments, extremes = list(self.segments), self._extremes if self.space.centred else None
        for at, (segment, places) in enumerate(zip(self.segments, found, strict=True)):
            rows = places[places >= 0]
            if len(rows):
                segments[at] = segment.without(rows)
                if extremes is not None and (segment.points[rows] == extremes[:, None]).any():
                    extremes = None
        after = Snapshot(self.space, segments, self.next, self.origin)
        if self.space.centred and extremes is None:
            extremes = after._extremes
        if self._ordinary and self._stays(extremes):
            return self._changed(segments, self.next, extremes, threads)
        return Snapshot.of(self.space, after.points, after.ids, self.next, threads)

    def _stays(self, extremes: Array | None) -> bool:
        """Return whether points with these extremes are embedded relative to the same origin."""
        if extremes is None:
            return True
        origin = self.space.origin(extremes)
        if origin is None or self.origin is None:
            return origin is self.origin
        return np.array_equal(origin, self.origin)

    def _changed(
        self, segments: list[Segment], following: int, extremes: Array | None, threads: int
    ) -> Snapshot:
        """Return a snapshot whose segments are each at least twice as large as the next."""
        groups: list[list[Segment]] = []
        for segment in segments:
            group = [segment] if segment.size else []
            while group and groups:
                before, own = (sum(each.size for each in some) for some in (groups[-1], group))
                if before >= 2 * own and before + own > _SMALL:
                    break
                group = groups.pop() + group
            if group:
                groups.append(group)
        merged = (
            group[0]
            if len(group) == 1 and 2 * group[0].size > len(group[0].ids)
            else self.space.merged(group, threads)
            for group in groups
        )
        after = Snapshot(self.space, merged, following, self.origin)
        after._ordinary = True
        if extremes is not None:
            after._extremes = extremes
        return after

    # Searches

    def among(self, mask: Mask, queries: int, threads: int) -> Snapshot | None:
        """Return a snapshot of the points of a mask.

        Returns None until enough queries have used the mask.
        """
        left = int(np.count_nonzero(mask))
        known, seen, found = self._chosen or (None, 0, None)
        if known is None or not np.array_equal(known, mask):
            known, seen, found = mask.copy(), 0, None
        seen += queries
        if found is None and 0 < left < len(mask) and seen * (len(mask) - left) > _PREPARING * left:
            start, images, ids = 0, [], []
            for segment in self.segments:
                part = segment.filtered(Filter(mask[start : start + segment.size])).mask
                images.append(segment.images[part])
                ids.append(segment.ids[part])
                start += segment.size
            chosen = np.concatenate(images)
            found = Snapshot(
                self.space,
                [self.space.prepare(chosen, chosen, np.concatenate(ids), threads)],
                self.next,
                self.origin,
            )
        self._chosen = known, seen, found
        return found

    def query_bytes(self, k: int) -> int:
        """Return the memory per query of a search for k neighbours, without the results."""
        maps, n_segments = self.space.maps, len(self.segments)
        embedded = 0 if maps[0] is None else 8 * len(maps[0])
        return embedded + (32 * k * n_segments if n_segments > 1 else 0)

    def search(
        self, queries: Array, exclude: Integers | None, where: Filter, squared: bool,
        distances: Array, ids: Integers, threads: int,
    ) -> None:  # fmt: skip
        """Write the nearest points of embedded queries. `exclude` holds ids."""
        if not (self.single or _ordinary(queries)):
            return self.whole.search(queries, exclude, where, squared, distances, ids, threads)
        if len(self.segments) == 1:
            only = self.segments[0]
            return only.search(queries, exclude, where, squared, distances, ids, threads)
        (n, k), start = ids.shape, 0
        keys = np.empty((n, len(self.segments) * k))
        found = np.empty(keys.shape, np.int64)
        for at, segment in enumerate(self.segments):
            own, part = np.s_[:, at * k : (at + 1) * k], slice(start, start + segment.size)
            segment.search(
                queries, exclude, where.of_points(part), True, keys[own], found[own], threads
            )
            start += segment.size
        # The sort is stable, so that the lower id comes first on ties.
        nearest = np.arange(n)[:, None], np.argsort(keys, axis=1, kind="stable")[:, :k]
        ids[...] = found[nearest]
        write_distances(distances, keys[nearest], 0, squared, self.space.metric)
        return None

    def radius_neighbors(
        self, queries: Array, radius: float, exclude: Integers | None, where: Filter,
        sort_results: bool, dtype: Any, threads: int,
    ) -> tuple[Array, Integers, Integers]:  # fmt: skip
        """Return the points within a radius of embedded queries. `exclude` holds ids."""
        if not (self.single or _ordinary(queries)):
            return self.whole.radius_neighbors(
                queries, radius, exclude, where, sort_results, dtype, threads
            )
        parts, start, alone = list[tuple[Array, Integers, Integers]](), 0, len(self.segments) == 1
        for segment in self.segments:
            part = slice(start, start + segment.size)
            left_out = None if exclude is None else segment.rows(exclude)
            filtered = (left_out, *segment.filtered(where.of_points(part)).arguments())
            keys, rows, row_starts = segment.prepared.radius_neighbors(
                queries, (radius, filtered, sort_results, not alone),
                alone and dtype == np.float32, threads,
            )  # fmt: skip
            name_rows(rows, segment.ids)
            if alone:
                return keys, rows, row_starts
            parts.append((keys, rows, np.repeat(np.arange(len(queries)), np.diff(row_starts))))
            start += segment.size
        distances, ids, counts = sorted_by_query(
            parts, len(queries), sort_results, 0, self.space.metric, dtype
        )
        return distances, ids, np.append(0, np.cumsum(counts))


def _blocks(points: Array, shown: Mask | None = None) -> Iterator[Array]:
    """Yield blocks of visible points."""
    size = block_rows(points.strides[0], most=1 << 20)
    for start in range(0, len(points), size):
        block = points[start : start + size]
        yield block if shown is None else block[shown[start : start + size]]


def _extremes(blocks: Iterable[Array]) -> Array:
    least, most = zip(
        *((block.min(axis=0), block.max(axis=0)) for block in blocks if len(block)), strict=True
    )
    return np.stack([np.min(least, axis=0), np.max(most, axis=0)])


def _ordinary(points: Array) -> bool:
    """Whether squared distances in float64 neither overflow nor underflow."""
    if points.dtype == np.float32:
        return True
    for block in _blocks(points):
        sizes = np.abs(block)
        least = np.min(sizes, initial=1, where=sizes > 0)
        if sizes.max() > 2.0**ORDINARY_SQUARES or least < 2.0**-ORDINARY_SQUARES:
            return False
    return True
