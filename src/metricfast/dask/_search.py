"""Searches and metrics on dask arrays: each block of queries searches the whole database."""

from __future__ import annotations

from contextlib import nullcontext
from operator import itemgetter
from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np
from dask import array as da
from dask import delayed, is_dask_collection, optimize

from metricfast._core.arguments import check_bool
from metricfast._core.arrays import as_points
from metricfast._core.frames import check_alike
from metricfast._core.memory import in_caller_memory
from metricfast._core.targets import as_label_array
from metricfast._core.types import Integers
from metricfast._labels.binding import is_precomputed
from metricfast.dask._rows import (
    AlignedRows,
    array_of,
    blocks_of,
    is_single,
    join_blocks,
    join_rows,
    starts_of,
)
from metricfast.dask._workers import Workers
from metricfast.distances.database import Database
from metricfast.distances.neighbors import SearchMetric, check_metric, check_neighbors
from metricfast.metrics import RetrievalReport
from metricfast.metrics._report import metric_values, scored
from metricfast.metrics._selection import Wanted, chosen_metrics, scores_of


def kneighbors(
    queries: Any,
    database: Any = None,
    n_neighbors: int = 5,
    *,
    metric: SearchMetric = "euclidean",
    L: Any = None,
    U: Any = None,
    V: Any = None,
    where: Any = None,
    squared: bool = False,
    compute: bool = False,
    client: Any = None,
) -> tuple[Any, Any]:
    """The nearest database points of each query, exactly, now or when they are computed.

    Parameters
    ----------
    queries : dask array or data frame of shape (n, d)
    database : dask array or data frame of shape (m, d), optional
        By default the queries themselves, each excluded from its own neighbours. Every worker that
        searches holds all of it.
    n_neighbors : int, default=5
    metric, L, U, V, squared
        As for :func:`metricfast.kneighbors`.
    where : array-like or tuple, optional
        As for :func:`metricfast.kneighbors`. Masks, indices and labels may be dask arrays, which
        are computed now.
    compute : bool, default=False
        Search now, and return arrays. This takes fewer tasks than to compute lazy results, and
        raises an error if no worker is left.
    client : distributed.Client, optional
        With `compute`; by default the one that was made last.

    Returns
    -------
    distances, indices : dask arrays of shape (n, n_neighbors), or ndarrays
        See :func:`metricfast.kneighbors`. Blocks are the blocks of the queries.

    Raises
    ------
    TypeError
        If an array is not of dask.
    ValueError
        As :func:`metricfast.kneighbors`, when results are computed. Without `compute`, if a client
        is given. With `compute`, if there is no client, or there are no queries.
    RuntimeError
        With `compute`, if no worker is left.

    Examples
    --------
    >>> import dask.array as da
    >>> import metricfast.dask
    >>> points = da.from_array([[0.0], [1.0], [3.0]], chunks=(2, 1))
    >>> distances, indices = metricfast.dask.kneighbors(points, n_neighbors=1)
    >>> indices.compute().ravel()
    array([1, 0, 1])
    """
    check_bool("compute", compute)
    check_metric(metric, squared)
    n_neighbors = check_neighbors(n_neighbors)
    if client is not None and not compute:
        raise ValueError("client is for compute=True: dask arrays know no client.")
    workers = Workers(client) if compute else None
    of_queries, own = array_of("queries", queries), database is None
    of_database = of_queries if own else array_of("database", database)
    check_alike(queries, database, ("queries", "database"))
    points = (queries, queries if own else database)
    dtype = np.float32 if all(map(is_single, points)) else np.float64
    maps = {k: np.array(v) for k, v in {"L": L, "U": U, "V": V}.items() if v is not None}
    ready = delayed(_Ready)("queries" if own else "database", {"metric": metric, **maps})
    sides = _sides(blocks_of("queries", of_queries), own, where)
    if workers:  # the graph of the search is not optimised later
        of_queries, of_database = optimize(of_queries, of_database)
    name = f"nearest-{uuid4().hex}"
    keys = [(name, i) for i in range(of_queries.numblocks[0])]
    which = da.arange(len(keys), chunks=1)
    with workers.dealt(keys) if workers else nullcontext():
        found = da.blockwise(
            in_caller_memory(_nearest), "i", of_queries, "ij", of_database, "mj",
            which, "i", ready=ready, k=n_neighbors, precision=dtype, squared=squared,
            concatenate=None, align_arrays=False, dtype=object, meta=np.empty(0, object),
            name=name, **sides,
        )  # fmt: skip
    if workers:
        blocks = workers.computed(list(found.to_delayed(optimize_graph=False)))
        distances, indices = map(np.concatenate, zip(*blocks, strict=True))
        if not len(indices):
            raise ValueError("queries is empty: all of its blocks are.")
        return distances, indices
    chunks = of_queries.chunks[0], (n_neighbors,)
    distances, indices = (
        da.map_blocks(
            itemgetter(side), found, chunks=chunks, new_axis=1, dtype=kind,
            meta=np.empty((0, 0), kind),
        )
        for side, kind in enumerate((dtype, np.int64))
    )  # fmt: skip
    return distances, indices


def retrieval_report(
    queries: Any,
    labels: Any,
    database: Any = None,
    database_labels: Any = None,
    *,
    client: Any = None,
    **options: Any,
) -> RetrievalReport:
    """Score the ranking of a database for queries, block by block.

    Parameters
    ----------
    queries, database : dask array or data frame of shape (n, d), and (m, d)
        As for :func:`metricfast.metrics.retrieval_report`. Every worker that searches holds the
        whole database.
    labels, database_labels : dask array or series of shape (n,), and (m,)
    client : distributed.Client, optional
    **options
        As for :func:`metricfast.metrics.retrieval_report`, without `exclude`.

    Returns
    -------
    RetrievalReport
        The same as for arrays.

    Raises
    ------
    TypeError, ValueError
        As :func:`metricfast.metrics.retrieval_report`; if a collection is not of dask, or there is
        no client.
    """
    if is_precomputed(options.get("label_distance")):
        raise ValueError("label_distance must compare labels: there is no dask array of distances.")
    workers, own = Workers(client), database is None
    check_alike(queries, database, ("queries", "database"))
    if own != (database_labels is None):
        raise ValueError("database and database_labels must be given together.")
    k, confidence = options.pop("k", 10), options.pop("confidence", 0.95)
    rows = AlignedRows(workers, queries, labels=labels)
    known = rows if own else AlignedRows(workers, database, database_labels=database_labels)
    references = delayed(_joined_arrays)(known.blocks)
    sides = _sides(
        [block[0] for block in rows.blocks],
        own,
        **{name: options.pop(name, None) for name in ("where", "groups")},
    )
    of_all = [block[1] for block in rows.blocks]
    choose = delayed(_chosen)(options.pop("metrics", None), of_all, k, options)
    judge = delayed(in_caller_memory(_judged))
    judged = [
        judge(block, references, i, choose, options, **sides) for i, block in enumerate(rows.blocks)
    ]
    wanted, *found = workers.computed([choose, *judged])
    values = {key: np.concatenate([each[key] for each in found], axis=1) for key in wanted}
    return scored(wanted, values, confidence)


class _Ready:
    """A database that each worker prepares from the blocks that it has received.

    Pickled copies do not contain the prepared database. It is freed after the last search.
    """

    def __init__(self, name: str, maps: dict[str, Any]) -> None:
        self._of, self._lock = (name, maps), Lock()
        self._database: Database | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _Ready, self._of

    def __call__(self, blocks: list[Any]) -> Database:
        """Return the points of blocks, loaded by the first call."""
        with self._lock:
            if self._database is None:
                name, maps = self._of
                points = as_points(np.asarray(join_blocks(blocks)), name)
                self._database = Database._of(points, **maps, n_jobs=1)
            return self._database


def _nearest(
    columns: list[Any], rows: list[list[Any]], which: Integers, *, ready: _Ready, k: int,
    precision: type[np.floating[Any]], squared: bool, **sides: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """Search the `rows` of the database for a block of queries, given as `columns` of blocks."""
    block = np.asarray(columns[0])
    if not len(block):
        return np.empty((0, k), precision), np.empty((0, k), np.int64)
    how = _of_block(int(which[0]), **sides)
    database = ready([row[0] for row in rows])
    distances, found = database.kneighbors(block, k, squared=squared, n_jobs=1, **how)
    return distances.astype(precision, copy=False), found


def _joined_arrays(blocks: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(map(np.asarray, join_rows(blocks)))


def _chosen(metrics: Any, labels: list[Any], k: Any, options: dict[str, Any]) -> Wanted:
    """Return the metrics to compute, which depend on the labels of all queries."""
    continuous = None if options.get("label_distance") is None else True
    return scores_of(chosen_metrics(metrics, np.asarray(join_blocks(labels)), continuous), k)


def _judged(
    block: tuple[Any, ...], database: tuple[Any, ...], i: int, wanted: Wanted,
    options: dict[str, Any], **sides: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return the metrics' values for a block of queries."""
    points, labels = (np.asarray(part) for part in block)
    if not len(points):
        return {key: np.empty((3, 0)) for key in wanted}
    how = {**options, **_of_block(i, **sides), "n_jobs": 1}
    return metric_values(points, labels, *database, wanted=wanted, **how)


def _sides(blocks: list[Any], own: bool, where: Any, **groups: Any) -> dict[str, Any]:
    """Return the arguments of `_of_block`; `own`: the queries are also the database."""
    filters = {"where": _in_memory(where)}
    for name, given in groups.items():
        pair = _in_memory(given)
        filters[name] = pair if pair is None or isinstance(pair, tuple) else (pair, pair)
    divided = own or any(map(_is_of_each, filters.values()))
    return {
        "starts": starts_of(blocks) if divided else None,
        "own": own,
        "filters": delayed(dict)(filters),  # sent once to each worker
    }


def _of_block(
    i: int, starts: list[int] | None, own: bool, filters: dict[str, Any]
) -> dict[str, Any]:
    """Return `exclude` and the filters of a block of queries."""
    if starts is None:
        return {"exclude": None, **filters}
    rows = slice(starts[i], starts[i + 1])
    found: dict[str, Any] = {"exclude": np.arange(rows.start, rows.stop) if own else None}
    for name, where in filters.items():
        found[name] = _filter_of_rows(name, where, rows, starts[-1])
    return found


def _filter_of_rows(name: str, where: Any, rows: slice, n: int) -> Any:
    labelled = isinstance(where, tuple)
    if not _is_of_each(where) or (labelled and len(where) not in (2, 3)):
        return where
    at = len(where) - 2 if labelled else 0
    name, what = (f"{name}[{at}]", "label") if labelled else (name, "mask")
    given = as_label_array(where[at] if labelled else where, name)
    if len(given) != n:
        raise ValueError(
            f"{name} must hold one {what} per query: expected {n}, found {len(given)}."
        )
    return (*where[:at], given[rows], *where[at + 1 :]) if labelled else given[rows]


def _in_memory(where: Any) -> Any:
    """Return the filter with its arrays loaded into memory."""
    if isinstance(where, tuple):
        return tuple(_in_memory(side) for side in where)
    return where.compute() if is_dask_collection(where) else where


def _is_of_each(where: Any) -> bool:
    """Return whether a filter has labels or masks per query."""
    return isinstance(where, tuple) or getattr(where, "ndim", 1) == 2
