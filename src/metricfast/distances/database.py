"""A database of points, embedded and packed once for many searches."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from threading import Lock
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.arguments import check_bool, check_choice
from metricfast._core.arrays import (
    as_exclude,
    as_indices,
    as_maps,
    as_points,
    as_points_or_source,
    as_threads,
    common_precision,
)
from metricfast._core.dispatch import get_kernels
from metricfast._core.files import map_tensors, write_tensors
from metricfast._core.frames import check_order, names_of
from metricfast._core.memory import block_rows
from metricfast._core.sources import on_disk, parts, row_bytes
from metricfast._core.types import Array, Integers, Self
from metricfast.distances.filters import Filter, as_filter
from metricfast.distances.neighbors import SearchMetric, check_metric, check_neighbors
from metricfast.distances.radius import check_radius, reach_of
from metricfast.distances.segments import Snapshot, Space, segment_of

_FORMAT = "metricfast.database"
_LAST = 2**62  # largest next id of a file, with room for added points


class Database:
    """A database of points, prepared for many searches.

    A search always finds the same neighbours as :func:`kneighbors`, in the same order. Bounds in
    low precision exclude points that are certainly too far, and exact distances rank the others.

    Parameters
    ----------
    X : array-like of shape (m, d)
        The points. They are copied, unless the array is read-only, such as a memory map that is
        open for reading. Other points on disk are read whole. float32 points and queries give
        float32 distances.
    L : array-like of shape (p, d), optional
        Linear map of a Mahalanobis distance, for instance ``learner.components_``.
    U, V : array-like of shape (p, d), optional
        Maps of queries and of these points of an asymmetric distance.
    metric : {"euclidean", "cosine", "inner_product"}, default="euclidean"
        The distance of mapped points: Euclidean, one minus the cosine, or minus the inner product,
        so that the largest product is the nearest. A zero vector has the cosine distance 1 from
        other points and 0 from zero vectors.
    precision : {"auto", "float32"}, default="auto"
        "auto" holds a copy in 8-bit integers if the processor multiplies these faster. The copy has
        a quarter of the size of float32 points. "float32" makes no such copy.
    n_jobs : int, optional
        Threads that prepare the points; None for the default count, -1 for all CPUs.

    Attributes
    ----------
    points_ : ndarray of shape (m, d)
        Read-only.
    ids_ : ndarray of int64 of shape (m,)
        The id of each point, which a search returns: 0 to m - 1 at first. Ascending and read-only.
    algorithm_ : {"tree", "cells", "int8", "float32"}
        How a search excludes points that are too far. "tree": by boxes of points, up to five
        coordinates. "int8": by bounds in 8-bit integers. "cells": by the same bounds in cells
        around centroids, for points in clusters. "float32": by bounds in float32.
    nbytes_ : int
        Bytes in addition to the points, or mapped from a file. A copy in float32, which is made
        when a search first needs it, is not counted.

    Raises
    ------
    ValueError
        If an array has the wrong shape, is empty, or holds NaN or infinity; the message names it.

    Notes
    -----
    Several threads may use one database. A search sees the points before a change or after it, and
    never waits. Changes wait for each other. Read several attributes together only while no other
    thread changes the database.

    Pickles hold the points only. Loading prepares them again.

    Examples
    --------
    >>> import numpy as np
    >>> import metricfast as mf
    >>> database = mf.Database([[0.0], [1.0], [3.0]])
    >>> distances, ids = database.kneighbors([[0.9]], n_neighbors=2)
    >>> ids
    array([[1, 0]])
    >>> database.add([[0.8]])
    array([3])
    >>> database.remove([0, 1])
    >>> database.kneighbors([[0.9]], n_neighbors=2)[1]
    array([[3, 2]])
    """

    def __init__(
        self,
        X: ArrayLike,
        *,
        metric: SearchMetric = "euclidean",
        L: ArrayLike | None = None,
        U: ArrayLike | None = None,
        V: ArrayLike | None = None,
        precision: Literal["auto", "float32"] = "auto",
        n_jobs: int | None = None,
    ) -> None:
        check_metric(metric)
        check_choice("precision", precision, ("auto", "float32"))
        points = as_points(X, "X")
        names = names_of(X, "X")
        if _may_change(points):
            points = points.copy()
        # If queries and database have the same map, deepcopy makes one copy of it.
        maps = deepcopy(as_maps(L, U, V, points.shape[1]))
        space = Space(maps, precision, metric)
        self._begin(space, points, np.arange(len(points)), len(points), n_jobs, names)

    @classmethod
    def _of(
        cls, points: Array, L: Any = None, U: Any = None, V: Any = None, *,
        metric: SearchMetric = "euclidean", n_jobs: int | None,
    ) -> Self:  # fmt: skip
        """Return a database that stores the arrays themselves. Callers must not change them."""
        self = cls.__new__(cls)
        space = Space(as_maps(L, U, V, points.shape[1]), "auto", metric)
        self._begin(space, points.view(), np.arange(len(points)), len(points), n_jobs)
        return self

    def _begin(
        self, space: Space, points: Array, ids: Integers, following: int, n_jobs: int | None,
        names: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._names = list(names)
        self._changing = Lock()
        self._held = Snapshot.of(space, points, ids, following, as_threads(n_jobs))

    def __getstate__(self) -> tuple[Any, ...]:
        held = self._held
        return held.points, held.ids, held.next, self._names, *held.space

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        points, ids, following, names, *space = state
        self._begin(Space(*space), points, ids, following, None, names)

    @property
    def points_(self) -> NDArray[Any]:
        """The points, read-only."""
        return self._held.points

    @property
    def ids_(self) -> NDArray[np.int64]:
        """The ids of the points in search results, read-only."""
        return self._held.ids

    @property
    def algorithm_(self) -> Literal["tree", "cells", "int8", "float32"]:
        """How a search excludes points that are too far."""
        name: Any = self._held.segments[0].prepared.algorithm()
        return name  # type: ignore[no-any-return]

    @property
    def nbytes_(self) -> int:
        """Bytes in addition to the points."""
        return self._held.bytes

    def __len__(self) -> int:
        return len(self._held)

    def __repr__(self) -> str:
        m, d = self._held.shape
        metric = self._held.space.metric
        named = "" if metric == "euclidean" else f"{metric}, "
        return (
            f"Database({m} points of {d} features, {named}{self.algorithm_}, {self.nbytes_} bytes)"
        )

    def kneighbors(
        self,
        queries: ArrayLike,
        n_neighbors: int = 5,
        *,
        exclude: ArrayLike | None = None,
        where: ArrayLike | tuple[ArrayLike, ...] | None = None,
        squared: bool = False,
        n_jobs: int | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The nearest points of each query, exactly.

        Parameters
        ----------
        queries : array-like or source of shape (n, d)
        n_neighbors : int, default=5
        exclude : array-like of int of shape (n,), optional
            For each query an id to leave out, -1 for none.
        where : array-like or tuple, optional
            The points that queries may find: a boolean mask of the m points in the order of `ids_`,
            or of shape (n, m) with a row for each query; an array of ids; or labels. With a tuple
            (labels of queries, labels of the points in that order), a query leaves out the points
            with its label. With a tuple ("equal", labels of queries, labels of the points), it
            finds only these.
        squared : bool, default=False
            Squared distances, if the metric is Euclidean.
        n_jobs : int, optional
            Threads; None for the default count, -1 for all CPUs.

        Returns
        -------
        distances : ndarray of shape (n, n_neighbors)
            Nearest first. If `where` leaves fewer points than `n_neighbors` to a query, its last
            distances are infinite, with the id -1.
        ids : ndarray of int64 of shape (n, n_neighbors)
            In the order of (distance in float64, id), as in :func:`kneighbors`.

        Raises
        ------
        ValueError
            If ``n_neighbors`` exceeds the number of points to choose from, or an array is not as
            above.
        """
        held = self._held
        check_metric(held.space.metric, squared)
        query, left_out, allowed = self._asked(held, queries, exclude, where)
        present = None
        if left_out is not None and where is None:
            present = np.where(held.holds(left_out), left_out, -1)
        n_neighbors = check_neighbors(n_neighbors, len(held), present)
        distances = np.empty(
            (len(query), n_neighbors), common_precision(query, held.segments[0].points)
        )
        ids = np.empty(distances.shape, np.int64)
        threads = as_threads(n_jobs)
        if (
            allowed.mask is not None
            and allowed.alike
            and (some := held.among(allowed.mask, len(query), threads))
        ):
            held, allowed = some, Filter()
        row = held.query_bytes(n_neighbors)
        at_once = row == 0 and not on_disk(query)
        size = len(query) if at_once else block_rows(row_bytes(query) + row)
        for part, points in parts(query, size):
            images = held.space.embed(points, 0, held.origin, threads)
            out = None if left_out is None else left_out[part]
            held.search(
                images, out, allowed.of_queries(part), squared, distances[part], ids[part], threads
            )
        return distances, ids

    def radius_neighbors(
        self,
        queries: ArrayLike,
        radius: float = 1.0,
        *,
        exclude: ArrayLike | None = None,
        where: ArrayLike | tuple[ArrayLike, ...] | None = None,
        sort_results: bool = False,
        n_jobs: int | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
        """All points within a distance of each query, exactly.

        Parameters
        ----------
        queries : array-like or source of shape (n, d)
        radius : float, default=1.0
            The largest distance, as for :func:`metricfast.neighbors.radius_neighbors`.
        exclude, where, n_jobs
            As for :meth:`kneighbors`.
        sort_results : bool, default=False
            Order the neighbours of a query by (distance, id), not by id.

        Returns
        -------
        distances : ndarray of shape (n_found,)
        ids : ndarray of int64 of shape (n_found,)
        row_starts : ndarray of int64 of shape (n + 1,)
            The neighbours of query i are ``ids[row_starts[i]:row_starts[i + 1]]``.

        Examples
        --------
        >>> import metricfast as mf
        >>> database = mf.Database([[0.0], [1.0], [3.0]])
        >>> distances, ids, row_starts = database.radius_neighbors([[0.0], [3.5]], 1.0)
        >>> ids, row_starts
        (array([0, 1, 2]), array([0, 2, 3]))
        """
        held = self._held
        check_radius(radius, held.space.metric)
        check_bool("sort_results", sort_results)
        query, left_out, allowed = self._asked(held, queries, exclude, where)
        dtype, threads = common_precision(query, held.segments[0].points), as_threads(n_jobs)
        reach = reach_of(min(float(radius), float(np.finfo(np.float64).max)), dtype)
        found = []
        for part, points in parts(query):
            found.append(
                held.radius_neighbors(
                    held.space.embed(points, 0, held.origin, threads),
                    reach,
                    None if left_out is None else left_out[part],
                    allowed.of_queries(part),
                    sort_results,
                    dtype,
                    threads,
                )
            )
        if len(found) == 1:
            return found[0]
        distances, ids = (np.concatenate([each[at] for each in found]) for at in (0, 1))
        counts = np.concatenate([np.diff(each[2]) for each in found])
        return distances, ids, np.append(0, np.cumsum(counts))

    def _asked(
        self, held: Snapshot, queries: ArrayLike, exclude: ArrayLike | None, where: Any
    ) -> tuple[Any, Integers | None, Filter]:
        """Return checked queries, the ids that they exclude, and their filter."""
        query = as_points_or_source(queries, "queries", width=held.shape[1])
        check_order(self._names, names_of(queries, "queries"), ("the database", "queries"))
        left_out = as_exclude(exclude, len(query), held.next)
        return query, left_out, as_filter(where, (len(query), len(held)), held.rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the database to a file, including the copy in 8-bit integers.

        It appears under its name when it is whole. If it replaces a file that a database is mapped
        from, that database continues with the old file; Windows refuses to replace it.

        Parameters
        ----------
        path : str or path
            A safetensors file. Needs that package: ``pip install safetensors``.
        """
        held = self._held.whole
        (segment,), (query, database) = held.segments, held.space.maps
        tensors = {"points": held.points, "ids": held.ids}
        if query is not None and database is not None:
            tensors |= {"L": query} if query is database else {"U": query, "V": database}
        ready = segment.prepared.state()
        if ready and query is not None:
            origin = np.zeros(query.shape[1]) if held.origin is None else held.origin
            ready |= {"points": segment.images, "origin": origin}
        tensors |= {f"ready.{name}": tensor for name, tensor in (ready or {}).items()}
        metadata = {"format": _FORMAT, "precision": held.space.precision, "next": str(held.next)}
        metadata["metric"] = held.space.metric
        metadata["columns"] = json.dumps(self._names)
        write_tensors(
            Path(path), metadata, {k: np.ascontiguousarray(v) for k, v in tensors.items()}
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, verify: bool = True) -> Self:
        """Map a file of :meth:`save` into memory. Searches read the points that they need.

        Parameters
        ----------
        path : str or path
            Nothing may write into the file while the database is in use.
        verify : bool, default=True
            Read the whole file once and compare its checksum. If False, searches begin at once, and
            a damaged file gives wrong neighbours.

        Raises
        ------
        ValueError
            If the file is damaged, or of another kind.

        Notes
        -----
        A tree is built again, and so is the 8-bit copy if this processor needs another one. This
        reads the points. Under a metric that is not Euclidean, all points are read once.
        """
        check_bool("verify", verify)
        metadata, tensors = map_tensors(path, _FORMAT, "a database", verify)
        try:
            self = cls.__new__(cls)
            points, ids, following = tensors["points"], tensors["ids"], int(metadata["next"])
            _check_points(points, ids, following)
            check_choice("precision", metadata["precision"], ("auto", "float32"))
            L, U, V = (tensors.get(name) for name in "LUV")
            metric = metadata.get("metric", "euclidean")
            check_choice("metric", metric, get_args(SearchMetric))
            space = Space(as_maps(L, U, V, points.shape[1]), metadata["precision"], metric)
            prefix = "ready."
            ready = {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}
            if ready and ("points" in ready) != (space.maps[0] is not None):
                raise ValueError("a map and embedded points must be there together.")
            if verify:
                for name in ("points", "ready.points"):
                    as_points(tensors.get(name, points), name)
            self._names = list(map(str, json.loads(metadata.get("columns", "[]"))))
            self._changing = Lock()
            if ready and get_kernels().has_int8():
                self._held = _restored(space, points, ids, following, ready)
            else:
                self._held = Snapshot.of(space, points, ids, following, as_threads(None))
        except (KeyError, TypeError, ValueError) as error:
            missing = " is missing." if isinstance(error, KeyError) else ""
            raise ValueError(f"{path} is not a readable database: {error}{missing}") from error
        return self

    def add(self, X: ArrayLike, *, n_jobs: int | None = None) -> NDArray[np.int64]:
        """Add points.

        The time grows with their number and with the logarithm of the number of all points, on
        average over many additions: some of them merge older points.

        Parameters
        ----------
        X : array-like of shape (n, d)
            float64 points make a database of float32 points one of float64.
        n_jobs : int, optional
            Threads; None for the default count, -1 for all CPUs.

        Returns
        -------
        ids : ndarray of int64 of shape (n,)
            Ids of these points. No other point has had them.
        """
        added = as_points(X, "X", width=self._held.shape[1])
        check_order(self._names, names_of(X, "X"), ("the database", "X"))
        if _may_change(added):
            added = added.copy()
        with self._changing:
            before = self._held
            self._held = before.added(added, as_threads(n_jobs))
            return np.arange(before.next, self._held.next)

    def remove(self, ids: ArrayLike, *, n_jobs: int | None = None) -> None:
        """Remove points; others keep their ids.

        Parameters
        ----------
        ids : array-like of int of shape (n,)
        n_jobs : int, optional
            Threads; None for the default count, -1 for all CPUs.

        Raises
        ------
        ValueError
            If a point is not there, or none would be left.
        """
        wanted = as_indices(ids, "ids", "be integers of shape (n,)", (None,))
        with self._changing:
            held = self._held
            found = held.rows_by_segment(wanted)
            here = (found >= 0).any(axis=0)
            if not here.all():
                raise ValueError(
                    f"ids must be of points in the database; found {wanted[~here][0]}."
                )
            if len(wanted) >= len(held) and len(np.unique(wanted)) == len(held):
                raise ValueError("ids must leave a point in the database; found all of them.")
            if len(wanted):
                self._held = held.removed(found, as_threads(n_jobs))


def _restored(
    space: Space, points: Array, ids: Integers, following: int, ready: dict[str, Array]
) -> Snapshot:
    """Return the database of a file, and use its stored state."""
    images, origin = ready.get("points", points), ready.pop("origin", None)
    if len(images) != len(points):
        raise ValueError("points and embedded points do not fit.")
    if space.maps[1] is None:
        origin = None
    elif (
        images.shape[1] != len(space.maps[1])
        or origin is None
        or origin.shape != (points.shape[1],)
        or origin.dtype != np.float64
        or not np.isfinite(origin).all()
    ):
        raise ValueError("origin or embedded points do not fit the maps.")
    elif not origin.any():
        origin = None
    prepared = get_kernels().restore_database(ready | {"points": images}, space.metric)
    return Snapshot(space, [segment_of(points, images, ids, prepared)], following, origin)


def _check_points(points: Array, ids: Array, following: int) -> None:
    """Raise ValueError for points without rows or columns, or ids that do not ascend."""
    if points.ndim != 2 or 0 in points.shape or points.dtype.kind != "f":
        raise ValueError(
            f"points must be floats of shape (m, d), both from 1 on; found shape {points.shape}, "
            f"dtype {points.dtype}."
        )
    if ids.shape != (len(points),) or ids.dtype != np.int64:
        raise ValueError(
            f"ids must be int64 of shape ({len(points)},); found shape {ids.shape}, "
            f"dtype {ids.dtype}."
        )
    if ids[0] < 0 or not (ids[:-1] < ids[1:]).all():
        raise ValueError("ids must ascend from 0 or more.")
    if not ids[-1] < following <= _LAST:
        raise ValueError(f"next must be from {ids[-1] + 1} to {_LAST}; found {following}.")


def _may_change(array: NDArray[Any]) -> bool:
    """Return whether an array, or an array of which it is a view, is writable."""
    base: object = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return True
        base = base.base
    return False
