"""Points that are searched many times: embedded and packed once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.arguments import as_array, check_bool, check_choice
from metricfast._core.arrays import as_exclude, as_maps, as_points, as_threads, common_precision
from metricfast._core.dispatch import get_kernels
from metricfast._core.files import map_tensors, write_tensors
from metricfast.distances.neighbors import check_neighbors

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Database"]

_FORMAT = "metricfast.database"


class Database:
    """A database of points, made ready for many searches.

    A search finds the same neighbours as :func:`kneighbors`, in the same order, always: bounds in
    low precision throw away what is too far for certain, and exact distances rank the rest.

    Parameters
    ----------
    X : array-like of shape (m, d)
        The points, of which a copy is kept, or the array itself where it is read-only (a memory
        map). float32 points and queries give float32 distances.
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
        Of each point what a search names it by, ascending: 0 to m - 1 at first.
    route_ : {"tree", "int8", "float32"}
        How a search tells what is too far: by boxes where points have up to five coordinates, or by
        bounds in 8-bit integers or in float32.
    nbytes_ : int
        Bytes held beside the points; a copy in float32 comes to them when a search first needs it.

    Raises
    ------
    ValueError
        If an array has the wrong shape, is empty, or holds NaN or infinity; the message names it.

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
        if points.flags.writeable:  # changes would not be told of
            points = points.copy()
            points.flags.writeable = False
        self._maps = as_maps(L, U, V, points.shape[1])
        self._precision: str = precision
        self._next = len(points)  # id of the next point
        self._hold(points, np.arange(len(points)), n_jobs)

    def _hold(
        self,
        points: NDArray[Any],
        ids: NDArray[np.int64],
        n_jobs: int | None,
        ready: dict[str, Any] | None = None,
    ) -> None:
        kernels = get_kernels()
        if ready and kernels.has_int8():
            self._prepared = kernels.restore_database(*self._maps, {"points": points, **ready})
        else:
            self._prepared = kernels.prepare_database(
                points, *self._maps, self._precision == "auto", as_threads(n_jobs)
            )
        self.points_, self.ids_ = points, ids
        self.route_ = self._prepared.route()
        self.nbytes_ = self._prepared.bytes()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_prepared"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._hold(self.points_, self.ids_, None)

    def __len__(self) -> int:
        return len(self.points_)

    def __repr__(self) -> str:
        m, d = self.points_.shape
        return f"Database({m} points of {d} features, {self.route_}, {self.nbytes_} bytes)"

    def kneighbors(
        self,
        queries: ArrayLike,
        n_neighbors: int = 5,
        *,
        exclude: ArrayLike | None = None,
        squared: bool = False,
        n_jobs: int | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The nearest points of each query, exactly; several threads may ask at once.

        Parameters
        ----------
        queries : array-like of shape (n, d)
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
            In the order of (distance, id), as those of :func:`kneighbors`.
        """
        check_bool("squared", squared)
        query = as_points(queries, "queries", width=self.points_.shape[1])
        left_out = as_exclude(exclude, len(query), self._next)
        if left_out is not None:
            left_out = self._rows(left_out)
        check_neighbors(n_neighbors, len(self), left_out)
        distances = np.empty((len(query), n_neighbors), common_precision(query, self.points_))
        rows = np.empty((len(query), n_neighbors), np.int64)
        self._prepared.search(
            query, n_neighbors, left_out, squared, distances, rows, as_threads(n_jobs)
        )
        return distances, self.ids_[rows]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a safetensors file, also what searches are made ready with.

        Needs the package safetensors: ``pip install 'metricfast[io]'``.
        """
        tensors = {"points": self.points_, "ids": self.ids_}
        query, database = self._maps
        if query is not None and database is not None:
            tensors |= {"L": query} if query is database else {"U": query, "V": database}
        ready = self._prepared.state() or {}
        tensors |= {f"ready.{k}": v for k, v in ready.items() if k != "points" or query is not None}
        metadata = {"format": _FORMAT, "precision": self._precision, "next": str(self._next)}
        write_tensors(
            Path(path), metadata, {k: np.ascontiguousarray(v) for k, v in tensors.items()}
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, verify: bool = True) -> Self:
        """Map a file that :meth:`save` wrote into memory: points are read when they are needed.

        Parameters
        ----------
        path : str or path
            The file must stay as it is for as long as the database is in use.
        verify : bool, default=True
            Compare the checksum, for which all is read once. Without, searches begin at once, and a
            damaged file gives wrong neighbours.

        Raises
        ------
        ValueError
            If it is no such file, or damaged.
        """
        check_bool("verify", verify)
        metadata, tensors = map_tensors(path, _FORMAT, "a database", verify)
        try:
            self = cls.__new__(cls)
            self._precision = metadata["precision"]
            self._next = int(metadata["next"])
            points, ids = tensors["points"], tensors["ids"]
            if points.ndim != 2 or ids.shape != (len(points),) or ids.dtype != np.int64:
                raise ValueError("points and ids do not fit.")
            L, U, V = (tensors.get(name) for name in "LUV")
            self._maps = as_maps(L, U, V, points.shape[1])
            prefix = "ready."
            ready = {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}
            if len(ready.get("points", points)) != len(points):
                raise ValueError("points and embedded points do not fit.")
            self._hold(points, ids, None, ready)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a readable database: {error}") from error
        return self

    def _rows(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of ids, -1 where there is none."""
        rows = np.minimum(np.searchsorted(self.ids_, ids), len(self) - 1)
        return np.where(self.ids_[rows] == ids, rows, -1)

    def add(self, X: ArrayLike, *, n_jobs: int | None = None) -> NDArray[np.int64]:
        """Add points of shape (n, d); return their ids, which nothing else has had.

        The database is made ready anew, as it is by :meth:`remove`: add many at a time.
        """
        points = as_points(X, "X", width=self.points_.shape[1])
        ids = np.arange(self._next, self._next + len(points))
        dtype = common_precision(self.points_, points)
        self._hold(
            np.concatenate([self.points_, points]).astype(dtype, copy=False),
            np.concatenate([self.ids_, ids]),
            n_jobs,
        )
        self._next += len(points)
        return ids

    def remove(self, ids: ArrayLike, *, n_jobs: int | None = None) -> None:
        """Remove the points of these ids, of shape (n,); ValueError where one is not there."""
        array = as_array(ids, "ids")
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(
                f"ids must be integers of shape (n,); found shape {array.shape}, "
                f"dtype {array.dtype}."
            )
        rows = self._rows(array.astype(np.int64))
        if (rows < 0).any():
            raise ValueError(f"ids must be of points in the database; found {array[rows < 0][0]}.")
        kept = np.ones(len(self), bool)
        kept[rows] = False
        if not kept.any():
            raise ValueError("ids must leave a point in the database; found all of them.")
        self._hold(self.points_[kept], self.ids_[kept], n_jobs)
