"""Points that are searched many times: embedded and packed once."""

from __future__ import annotations

import os
from copy import deepcopy
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.arguments import as_array, check_bool, check_choice
from metricfast._core.arrays import (
    as_exclude,
    as_maps,
    as_points,
    as_points_or_source,
    as_threads,
    common_precision,
)
from metricfast._core.dispatch import get_kernels
from metricfast._core.files import map_tensors, write_tensors
from metricfast._core.memory import block_rows
from metricfast._core.sources import Source, parts, row_bytes
from metricfast._core.types import Array
from metricfast.distances.neighbors import check_neighbors

if TYPE_CHECKING:
    from typing_extensions import Self

    from metricfast._core.kernels import PreparedDatabase

__all__ = ["Database"]

_FORMAT = "metricfast.database"
_LAST = 2**62  # next id of a file: there is room for points that follow


class _Held(NamedTuple):
    """What a search sees; a change replaces it as a whole."""

    points: NDArray[Any]
    ids: NDArray[np.int64]
    next: int  # id of the next point
    prepared: PreparedDatabase


class Database:
    """A database of points, made ready for many searches.

    A search finds the same neighbours as :func:`kneighbors`, in the same order, always: bounds in
    low precision throw away what is too far for certain, and exact distances rank the rest.

    Parameters
    ----------
    X : array-like of shape (m, d)
        The points, of which a copy is kept, or the array itself where nobody can write to it (a
        memory map that is opened to be read). Other points that are not in memory are read whole.
        float32 points and queries give float32 distances.
    L : array-like of shape (p, d), optional
        Linear map of a Mahalanobis distance, for instance ``learner.components_``.
    U, V : array-like of shape (p, d), optional
        Maps of queries and of these points of an asymmetric distance.
    precision : {"auto", "float32"}, default="auto"
        "auto" holds a copy in 8-bit integers where the processor multiplies these faster (a quarter
        of the size of float32 points); "float32" none.
    n_jobs : int, optional
        Threads that make it ready; None for the default count, -1 for all CPUs.

    Attributes
    ----------
    points_ : ndarray of shape (m, d)
        Read-only.
    ids_ : ndarray of int64 of shape (m,)
        Of each point what a search names it by, ascending: 0 to m - 1 at first. Read-only.
    algorithm_ : {"tree", "cells", "int8", "float32"}
        How a search excludes points that are too far: by boxes where points have up to five
        coordinates, by bounds in 8-bit integers (of cells around centroids, where points are in
        clusters), or by bounds in float32.
    nbytes_ : int
        Bytes held beside the points, or mapped from a file. A copy in float32, which is made when a
        search first needs it, is not counted.

    Raises
    ------
    ValueError
        If an array has the wrong shape, is empty, or holds NaN or infinity; the message names it.

    Notes
    -----
    Several threads may use one database. A search sees the points before a change or those after
    it, and changes wait for each other: :meth:`kneighbors` is never held up. The attributes are
    read one by one, so read them where nothing changes.

    Pickles hold the points, not what searches are made ready with, which is made anew.

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
        L: ArrayLike | None = None,
        U: ArrayLike | None = None,
        V: ArrayLike | None = None,
        precision: Literal["auto", "float32"] = "auto",
        n_jobs: int | None = None,
    ) -> None:
        check_choice("precision", precision, ("auto", "float32"))
        points = as_points(X, "X")
        # L stands for both maps: of one object there is one copy.
        self._begin(deepcopy(as_maps(L, U, V, points.shape[1])), precision)
        if _may_change(points):
            points = points.copy()
        self._hold(points, np.arange(len(points)), len(points), n_jobs)

    @classmethod
    def _of(
        cls, points: Array, L: Any = None, U: Any = None, V: Any = None, *, n_jobs: int | None
    ) -> Self:
        """Return a database that holds points themselves: nobody changes them while it is there."""
        self = cls.__new__(cls)
        self._begin(as_maps(L, U, V, points.shape[1]), "auto")
        self._hold(points.view(), np.arange(len(points)), len(points), n_jobs)
        return self

    def _begin(self, maps: tuple[Array | None, Array | None], precision: str) -> None:
        self._maps, self._precision = maps, precision
        self._changing = Lock()

    def _hold(
        self,
        points: NDArray[Any],
        ids: NDArray[np.int64],
        following: int,
        n_jobs: int | None,
        ready: dict[str, Any] | None = None,
    ) -> None:
        points.flags.writeable = ids.flags.writeable = False
        kernels = get_kernels()
        if ready and kernels.has_int8():
            prepared = kernels.restore_database(*self._maps, {"points": points, **ready})
        else:
            prepared = kernels.prepare_database(
                points, *self._maps, self._precision == "auto", as_threads(n_jobs)
            )
        self._held = _Held(points, ids, following, prepared)

    def __getstate__(self) -> tuple[Any, ...]:
        return self._maps, self._precision, *self._held[:3]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        maps, precision, points, ids, following = state
        self._begin(maps, precision)
        self._hold(points, ids, following, None)

    @property
    def points_(self) -> NDArray[Any]:
        """The points, read-only."""
        return self._held.points

    @property
    def ids_(self) -> NDArray[np.int64]:
        """What a search names each point by, read-only."""
        return self._held.ids

    @property
    def algorithm_(self) -> Literal["tree", "cells", "int8", "float32"]:
        """How a search excludes points that are too far."""
        return self._held.prepared.algorithm()

    @property
    def nbytes_(self) -> int:
        """Bytes held beside the points."""
        return self._held.prepared.bytes()

    def __len__(self) -> int:
        return len(self.points_)

    def __repr__(self) -> str:
        m, d = self.points_.shape
        return f"Database({m} points of {d} features, {self.algorithm_}, {self.nbytes_} bytes)"

    def kneighbors(
        self,
        queries: ArrayLike,
        n_neighbors: int = 5,
        *,
        exclude: ArrayLike | None = None,
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
        squared : bool, default=False
            Squared distances.
        n_jobs : int, optional
            Threads; None for the default count, -1 for all CPUs.

        Returns
        -------
        distances : ndarray of shape (n, n_neighbors)
            Nearest first.
        ids : ndarray of int64 of shape (n, n_neighbors)
            In the order of (distance in float64, id), as those of :func:`kneighbors`.

        Raises
        ------
        ValueError
            If ``n_neighbors`` exceeds the number of points to choose from, or an array is not as
            above.
        """
        check_bool("squared", squared)
        held = self._held
        query = as_points_or_source(queries, "queries", width=held.points.shape[1])
        left_out = as_exclude(exclude, len(query), held.next)
        if left_out is not None:
            left_out = _rows(left_out, held.ids)
        n_neighbors = check_neighbors(n_neighbors, len(held.points), left_out)
        distances = np.empty((len(query), n_neighbors), common_precision(query, held.points))
        rows = np.empty(distances.shape, np.int64)
        threads = as_threads(n_jobs)
        images = 0 if self._maps[0] is None else 8 * len(self._maps[0])
        at_once = not images and not isinstance(query, Source)
        size = len(query) if at_once else block_rows(row_bytes(query) + images)
        for part, points in parts(query, size):
            out = None if left_out is None else left_out[part]
            held.prepared.search(
                points, n_neighbors, out, squared, distances[part], rows[part], threads
            )
        _name(rows, held.ids)
        return distances, rows

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, also the copy in 8-bit integers.

        It appears under its name when it is whole. Where it replaces a file that a database is
        mapped from, that database goes on with the old one, but on Windows, which refuses that.

        Parameters
        ----------
        path : str or path
            A safetensors file. Needs that package: ``pip install safetensors``.
        """
        held = self._held
        tensors = {"points": held.points, "ids": held.ids}
        query, database = self._maps
        if query is not None and database is not None:
            tensors |= {"L": query} if query is database else {"U": query, "V": database}
        ready = held.prepared.state() or {}
        tensors |= {f"ready.{k}": v for k, v in ready.items() if k != "points" or query is not None}
        metadata = {"format": _FORMAT, "precision": self._precision, "next": str(held.next)}
        write_tensors(
            Path(path), metadata, {k: np.ascontiguousarray(v) for k, v in tensors.items()}
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, verify: bool = True) -> Self:
        """Map a file that :meth:`save` wrote into memory: points are read when they are needed.

        Parameters
        ----------
        path : str or path
            Nothing may write into the file for as long as the database is in use.
        verify : bool, default=True
            Compare the checksum, for which all is read once. Without, searches begin at once, and a
            damaged file gives wrong neighbours.

        Raises
        ------
        ValueError
            If it is no such file, or damaged.

        Notes
        -----
        A tree, and what this processor needs where it is not what the file holds, is made anew, for
        which the points are read.
        """
        check_bool("verify", verify)
        metadata, tensors = map_tensors(path, _FORMAT, "a database", verify)
        try:
            self = cls.__new__(cls)
            points, ids, following = tensors["points"], tensors["ids"], int(metadata["next"])
            _check_points(points, ids, following)
            check_choice("precision", metadata["precision"], ("auto", "float32"))
            L, U, V = (tensors.get(name) for name in "LUV")
            self._begin(as_maps(L, U, V, points.shape[1]), metadata["precision"])
            prefix = "ready."
            ready = {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}
            if ready and ("points" in ready) != (self._maps[0] is not None):
                raise ValueError("a map and embedded points must be there together.")
            if len(ready.get("points", points)) != len(points):
                raise ValueError("points and embedded points do not fit.")
            if verify:
                for name in ("points", "ready.points"):
                    as_points(tensors.get(name, points), name)
            self._hold(points, ids, following, None, ready)
        except (KeyError, TypeError, ValueError) as error:
            missing = " is missing." if isinstance(error, KeyError) else ""
            raise ValueError(f"{path} is not a readable database: {error}{missing}") from error
        return self

    def add(self, X: ArrayLike, *, n_jobs: int | None = None) -> NDArray[np.int64]:
        """Add points.

        The database is made ready anew, as it is by :meth:`remove`: add many at a time.

        Parameters
        ----------
        X : array-like of shape (n, d)
            float64 points make a database of float32 points one of float64.
        n_jobs : int, optional
            As of the constructor.

        Returns
        -------
        ids : ndarray of int64 of shape (n,)
            Of these points; nothing else has had them.
        """
        added = as_points(X, "X", width=self.points_.shape[1])
        with self._changing:
            points, ids, following, _ = self._held
            new = np.arange(following, following + len(added))
            self._hold(
                np.concatenate([points, added]),
                np.concatenate([ids, new]),
                following + len(added),
                n_jobs,
            )
        return new

    def remove(self, ids: ArrayLike, *, n_jobs: int | None = None) -> None:
        """Remove points; others keep their ids.

        Parameters
        ----------
        ids : array-like of int of shape (n,)
        n_jobs : int, optional
            As of the constructor.

        Raises
        ------
        ValueError
            If a point is not there, or none would be left.
        """
        array = as_array(ids, "ids")
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(
                f"ids must be integers of shape (n,); found shape {array.shape}, "
                f"dtype {array.dtype}."
            )
        with self._changing:
            points, known, following, _ = self._held
            rows = _rows(array.astype(np.int64), known)
            if (rows < 0).any():
                raise ValueError(
                    f"ids must be of points in the database; found {array[rows < 0][0]}."
                )
            kept = np.ones(len(points), bool)
            kept[rows] = False
            if not kept.any():
                raise ValueError("ids must leave a point in the database; found all of them.")
            self._hold(points[kept], known[kept], following, n_jobs)


def _check_points(points: Array, ids: Array, following: int) -> None:
    """Refuse what no database holds: points without rows or columns, ids that do not ascend."""
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
    """Tell whether somebody can write to an array, or to one that it is a view of."""
    base: object = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return True
        base = base.base
    return False


def _name(rows: NDArray[np.int64], ids: NDArray[np.int64]) -> None:
    """Put ids in place of rows, by blocks of queries."""
    if ids[-1] == len(ids) - 1:  # they are the rows
        return
    size = block_rows(rows.strides[0])
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        part[...] = ids[part]


def _rows(ids: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where ids are among those that are known, -1 where they are not."""
    rows = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[rows] == ids, rows, -1)
