"""Losses bound to checked labels, in the form that kernels take."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.types import Array, Floats, Integers
from metricfast.exceptions import LossOverflowError
from metricfast.losses._labels import BoundLabels, RowIndices

Gradient = Array | tuple[Array, Array]


def is_whole(anchors: Any, n: int) -> bool:
    """Return whether anchors, a slice, indices or None, are all of n points in order."""
    return anchors is None or (isinstance(anchors, slice) and anchors.indices(n) == (0, n, 1))


@dataclass
class Call:
    """The arguments of a kernel, and the arrays for its gradients."""

    queries: Array
    database: Array | None  # None: the queries are also the database
    kind: str  # kind of labels, see `BoundLabels`
    y: Any  # for tags: row starts of each point, and its tags
    y_database: Any  # for tags: row starts of each tag, and its points
    weight: Floats | None  # weights of the queries
    column_weight: Floats | None  # weights of the database, if the loss uses them
    exclude: RowIndices  # excluded database row of each query, -1 for none
    reduction: str
    threads: int
    lanes: int  # maximum number of work shares with separate sums; 0: automatic
    options: dict[str, Any]  # arguments specific to the loss
    workspace: Any
    gradient: Array  # written by the kernel
    database_gradient: Array | None
    lists: tuple[Integers, Integers] | None = None  # columns of each row, in place of all
    first: int = -1  # database row of the first query, if queries are consecutive rows of it

    @property
    def references(self) -> Array:
        """The database; the queries if there is no other."""
        return self.queries if self.database is None else self.database

    def swapped(self) -> Call:
        """Return the call with both sides swapped, so that database points are the anchors."""
        if self.database is None or self.database_gradient is None:
            return self
        return replace(
            self, queries=self.database, database=self.queries, y=self.y_database,
            y_database=self.y, weight=None, column_weight=self.weight, exclude=None, first=-1,
            gradient=self.database_gradient, database_gradient=self.gradient,
        )  # fmt: skip

    def refuse_overflow(self) -> NoReturn:
        """Raise LossOverflowError if points are too large."""
        raise LossOverflowError(
            "The loss or its gradient overflows: Z is too large for this loss in "
            f"{self.queries.dtype}. Divide Z, or lower the learning rate that led there."
        )

    def check_points(self, *, squares: bool) -> None:
        """Raise LossOverflowError if points are not finite, or with `squares`, if these overflow.

        Softmax would ignore infinite squared distances.
        """
        limit = np.finfo(self.queries.dtype).max
        if squares:
            limit = np.sqrt(limit / self.queries.shape[1]) / 2
        for Z in (self.queries, self.database):
            if Z is not None and not (
                get_kernels().all_finite(Z) and (not squares or max(Z.max(), -Z.min()) < limit)
            ):
                self.refuse_overflow()


class BoundLoss:
    """A loss bound to checked labels and weights; training calls it many times.

    Points are C-ordered arrays of one precision. ``rows`` are the rows of their labels,
    by default all, in order. Keywords are specific to the loss.

    Raises
    ------
    LossOverflowError
        If points, the loss or its gradient are not finite.
    """

    has_lists = False  # whether lists of active pairs replace parts of anchors

    def __init__(self, loss: Any, labels: BoundLabels, weight: Floats | None, threads: int) -> None:
        self.loss = loss
        self._labels, self._weight, self._threads = labels, weight, threads
        self._lanes = 0
        self._workspace = get_kernels().workspace()

    def __call__(
        self, Z: Array, rows: RowIndices = None, anchors: Any = None, **options: Any
    ) -> tuple[float, Array]:
        """Return value and gradient of points among themselves, excluding each point itself.

        Only points in ``anchors``, a slice or indices (by default all), are anchors.
        """
        own = np.arange(len(Z))
        if is_whole(anchors, len(Z)):
            call = self.call(Z, None, rows, None, own, options)
            whole: tuple[float, Array] = self.loss._result(call, self.loss._run(call))
            return whole
        exclude = own[anchors]
        labelled = exclude if rows is None else rows[anchors]
        call = self.call(Z[anchors], Z, labelled, rows, exclude, options)
        if isinstance(anchors, slice):
            call.first = int(exclude[0])
        if self.loss._weighs_columns and self._weight is not None:
            call.column_weight = self._weight if rows is None else self._weight[rows]
        value, (of_anchors, gradient) = self.loss._result(call, self.loss._run(call))
        if isinstance(anchors, slice) or len(np.unique(anchors)) == len(anchors):
            gradient[anchors] += of_anchors
        else:
            np.add.at(gradient, anchors, of_anchors)
        return value, gradient

    def evaluate_two_sided(
        self,
        Z: Array,
        Z_database: Array,
        rows: RowIndices = None,
        database_rows: RowIndices = None,
        exclude: RowIndices = None,
        **options: Any,
    ) -> tuple[float, tuple[Array, Array]]:
        """Return the value and both gradients, of points and of a database.

        ``database_rows`` are the rows of their labels in ``y_database``, or in y without it.
        ``exclude`` holds for each point the row of Z_database to leave out, -1 for none.
        """
        call = self.call(Z, Z_database, rows, database_rows, exclude, options)
        found: tuple[float, tuple[Array, Array]] = self.loss._result(call, self.loss._run(call))
        return found

    def for_thread(self, n_jobs: int | None) -> BoundLoss:
        """Return a copy for another thread, which evaluates one part of the anchors at a time.

        It shares labels and weights, but not results. Work is already divided into parts, so each
        copy uses a single sum of the database's gradient.
        """
        loss = copy.copy(self.loss)
        own = BoundLoss(loss, self._labels, self._weight, as_threads(n_jobs))
        own._lanes, own._workspace = 1, self._workspace
        return own

    def __getstate__(self) -> dict[str, Any]:
        """Leave out work memory."""
        return {**self.__dict__, "_workspace": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore, and allocate work memory."""
        self.__dict__.update(state, _workspace=get_kernels().workspace())

    def call(
        self,
        Z: Array,
        Z_database: Array | None = None,
        rows: RowIndices = None,
        database_rows: RowIndices = None,
        exclude: RowIndices = None,
        options: dict[str, Any] | None = None,
    ) -> Call:
        """Return the arguments of the kernel. Without `Z_database`, points are the database."""
        alone = Z_database is None
        if alone and self.loss.learnable_database:
            raise ValueError(
                f"{type(self.loss).__name__} compares points with proxies: give these as "
                "Z_database, one or more per class, and their classes as y_database."
            )
        weight = self._weight if rows is None or self._weight is None else self._weight[rows]
        y, y_database = self._labels.take(rows, database_rows, alone)
        exclude = None if exclude is None else np.ascontiguousarray(exclude, np.int64)
        call = Call(
            Z, Z_database, self._labels.kind, y, y_database, weight,
            weight if alone and self.loss._weighs_columns else None, exclude,
            self.loss.reduction, self._threads, self._lanes, options or {}, self._workspace,
            np.empty_like(Z), None if Z_database is None else np.empty_like(Z_database),
        )  # fmt: skip
        call.check_points(squares=self.loss._weighs_columns)
        return call
