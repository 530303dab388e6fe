"""What the losses have in common: how they are called, and their arguments, checked once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from metricfast._core.arguments import check_choice
from metricfast._core.arrays import as_exclude, as_points, as_threads, as_vector
from metricfast._core.dispatch import get_kernels
from metricfast.exceptions import LossOverflowError
from metricfast.losses._labels import Labels, bound_labels

__all__ = ["BoundLoss", "Call", "Gradient", "Loss", "Totals", "finite", "positive"]

Array = NDArray[Any]
Rows = NDArray[np.int64] | None
Gradient = Array | tuple[Array, Array]
Totals = tuple[float, int, int, int, int]


@dataclass
class Call:
    """What a kernel is run on.

    Attributes
    ----------
    queries, database : ndarray
        Points; the database is None where the queries are their own.
    kind : str
        Of the labels, as of `Labels`.
    y, y_database : ndarray
        Labels as kernels take them.
    weight : ndarray or None
        Of the queries.
    column_weight : ndarray or None
        Of the database, where the loss weighs it too.
    exclude : ndarray or None
        For each query the row of the database that is left out, -1 for none.
    reduction : str
    threads : int
    options : dict
        What the loss alone takes.
    gradient, database_gradient : ndarray
        Where kernels write.
    """

    queries: Array
    database: Array | None
    kind: str
    y: Array
    y_database: Array
    weight: NDArray[np.float64] | None
    column_weight: NDArray[np.float64] | None
    exclude: Rows
    reduction: str
    threads: int
    options: dict[str, Any]
    gradient: Array = field(init=False)
    database_gradient: Array | None = field(init=False)

    def __post_init__(self) -> None:
        """Make room for gradients."""
        self.gradient = np.empty_like(self.queries)
        self.database_gradient = None if self.database is None else np.empty_like(self.database)

    @property
    def references(self) -> Array:
        """The database, be it the queries themselves."""
        return self.queries if self.database is None else self.database

    def swapped(self) -> Call:
        """The call in which the points of the database are the anchors."""
        if self.database is None or self.database_gradient is None:
            return self
        swapped = replace(
            self, queries=self.database, database=self.queries, y=self.y_database,
            y_database=self.y, weight=None, column_weight=self.weight, exclude=None,
        )  # fmt: skip
        swapped.gradient, swapped.database_gradient = self.database_gradient, self.gradient
        return swapped

    def refuse_overflow(self) -> NoReturn:
        """Raise an error where points are too large."""
        _refuse_overflow(self.queries.dtype)

    def check_squares(self) -> None:
        """Refuse points whose squared distances overflow: softmax would leave them out."""
        largest = max(np.abs(Z).max() for Z in (self.queries, self.database) if Z is not None)
        if not largest < np.sqrt(np.finfo(self.queries.dtype).max / self.queries.shape[1]) / 2:
            self.refuse_overflow()

    def result(self, value: float) -> tuple[float, Gradient]:
        """Value and gradient, if they are finite."""
        if not (np.isfinite(value) and _are_finite(self.gradient, self.database_gradient)):
            self.refuse_overflow()
        if self.database_gradient is None:
            return value, self.gradient
        return value, (self.gradient, self.database_gradient)


class BoundLoss:
    """A loss on labels and weights that are checked: what training calls.

    Points are C-ordered arrays of one precision. ``rows`` are those of the labels that they have,
    by default all, in order. Keywords are what the loss alone takes.

    Raises
    ------
    LossOverflowError
        If points, the loss or its gradient are not finite.
    """

    def __init__(
        self, loss: Loss, labels: Labels, weight: NDArray[np.float64] | None, threads: int
    ) -> None:
        self.loss = loss
        self._labels, self._weight, self._threads = labels, weight, threads

    def __call__(
        self, Z: Array, rows: Rows = None, n_anchors: int | None = None, **options: Any
    ) -> tuple[float, Array]:
        """Value and gradient of points among themselves, each left out of its own row.

        The first ``n_anchors`` alone, by default all, are compared with the others.
        """
        if n_anchors is None or n_anchors == len(Z):
            return self._checked(Z, None, rows, None, np.arange(len(Z)), options)
        rows = np.arange(len(Z)) if rows is None else rows
        value, (of_anchors, gradient) = self.against(
            Z[:n_anchors], Z, rows[:n_anchors], rows, np.arange(n_anchors), **options
        )
        gradient[:n_anchors] += of_anchors
        return value, gradient

    def against(
        self,
        Z: Array,
        Z_database: Array,
        rows: Rows = None,
        database_rows: Rows = None,
        exclude: Rows = None,
        **options: Any,
    ) -> tuple[float, tuple[Array, Array]]:
        """Value and both gradients of points and a database.

        ``database_rows`` are those of ``y_database``, or of y where it was not given; ``exclude``
        holds for each point the row of Z_database that is left out, -1 for none.
        """
        return self._checked(Z, Z_database, rows, database_rows, exclude, options)

    def _checked(self, Z: Array, Z_database: Array | None, *arguments: Any) -> tuple[float, Any]:
        if not _are_finite(Z, Z_database):
            _refuse_overflow(Z.dtype)
        return self.loss._evaluate(self.call(Z, Z_database, *arguments))

    def call(
        self,
        Z: Array,
        Z_database: Array | None = None,
        rows: Rows = None,
        database_rows: Rows = None,
        exclude: Rows = None,
        options: dict[str, Any] | None = None,
    ) -> Call:
        """What the kernel is run on; `Z_database` is None where points are alone."""
        alone = Z_database is None
        if alone and self.loss.learnable_database:
            raise ValueError(
                f"{type(self.loss).__name__} compares points with proxies: give these as "
                "Z_database, one or more a class, and their classes as y_database."
            )
        weight = self._weight if rows is None or self._weight is None else self._weight[rows]
        y, y_database = self._labels.take(rows, database_rows, alone)
        exclude = None if exclude is None else np.ascontiguousarray(exclude, np.int64)
        return Call(
            Z, Z_database, self._labels.kind, y, y_database, weight,
            weight if alone and self.loss._weighs_columns else None, exclude,
            self.loss._reduction(), self._threads, options or {},
        )  # fmt: skip


class Loss(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all losses, which define their parameters and `_run`.

    Attributes
    ----------
    labels : str
        What y must hold: "class", or numbers otherwise.
    learnable_database : bool
        Whether the database is a table of parameters, one row a class.
    has_anchors : bool
        Whether some points may be compared with others; if not, with each other alone.
    counts_ : dict
        After a call: "terms" (active ones), "anchors" (that took part), "skipped" (anchors without
        a neighbour that they could use) and "dropped" (neighbours left out because of ties).
    """

    labels: str = "class"
    learnable_database: bool = False
    has_anchors: bool = True
    _reductions: tuple[str, ...] = ("sum", "mean")
    _weighs_columns: bool = False
    # Of losses of continuous labels that have a parameter `label_distance`.
    _default_label_distance = "sqeuclidean"

    def __call__(
        self,
        Z: ArrayLike,
        y: ArrayLike,
        Z_database: ArrayLike | None = None,
        y_database: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> tuple[float, Gradient]:
        """Value and gradient; see the module's description."""
        return self._evaluate(
            self._call(Z, y, Z_database, y_database, sample_weight, exclude, n_jobs)
        )

    def on(
        self,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        y_database: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> BoundLoss:
        """Return the loss of points with these labels, which are checked once.

        Parameters
        ----------
        y : array-like of shape (n,)
            Labels of all points there will be.
        sample_weight : array-like of shape (n,), optional
        y_database : array-like of shape (m,), optional
            Labels of a database of other points; by default the database is of the same points.
        n_jobs : int, optional

        Returns
        -------
        BoundLoss
            ``bound(Z)`` is ``loss(Z, y, sample_weight=sample_weight)``; ``bound(Z, rows)`` that of
            some of the points; ``bound.against(Z, Z_database)`` that of points and a database.

        Raises
        ------
        ValueError
            If an argument cannot be used; the message names it.
        """
        m = None if y_database is None else _count(y_database, "y_database")
        return self._on(y, y_database, _count(y, "y"), m, sample_weight, n_jobs)

    def _on(
        self,
        y: ArrayLike,
        y_database: ArrayLike | None,
        n: int,
        m: int | None,
        sample_weight: ArrayLike | None,
        n_jobs: int | None,
    ) -> BoundLoss:
        self._check_anchors("sample_weight", sample_weight)
        labels = self._bound_labels(y, y_database, n, m)
        weight = None if sample_weight is None else as_vector(sample_weight, "sample_weight", n)
        return BoundLoss(self, labels, weight, as_threads(n_jobs))

    def _call(
        self,
        Z: ArrayLike,
        y: ArrayLike,
        Z_database: ArrayLike | None,
        y_database: ArrayLike | None,
        sample_weight: ArrayLike | None,
        exclude: ArrayLike | None,
        n_jobs: int | None,
    ) -> Call:
        """What the kernel is run on, all arguments checked."""
        self._check_anchors("exclude", exclude)
        queries, database = as_points(Z, "Z"), None
        n, m = len(queries), None
        if Z_database is not None:
            database = as_points(Z_database, "Z_database", width=queries.shape[1])
            m = len(database)
            if database.dtype != queries.dtype:
                queries, database = queries.astype(np.float64), database.astype(np.float64)
        bound = self._on(y, y_database, n, m, sample_weight, n_jobs)
        left_out = as_exclude(exclude, n, n if m is None else m)
        if m is None and left_out is None:
            left_out = np.arange(n)
        return bound.call(queries, database, exclude=left_out)

    def _evaluate(self, call: Call) -> tuple[float, Gradient]:
        totals = self._run(call)
        names = ("terms", "anchors", "skipped", "dropped")
        self.counts_ = dict(zip(names, totals[1:], strict=True))
        return call.result(totals[0])

    @abstractmethod
    def _run(self, call: Call) -> Totals:
        """Call the kernel, which writes gradients: the value, and the counts."""

    def _bound_labels(
        self, y: ArrayLike, y_database: ArrayLike | None, n: int, m: int | None
    ) -> Labels:
        """Check labels of n queries and m database points, or of points that are alone."""
        return bound_labels(self, y, y_database, n, m)

    def _check_anchors(self, name: str, given: object) -> None:
        if given is not None and not self.has_anchors:
            raise ValueError(
                f"{name} must be None: {type(self).__name__} compares pairs, all alike."
            )

    def _reduction(self) -> str:
        reduction = getattr(self, "reduction", "sum")
        check_choice("reduction", reduction, self._reductions)
        return str(reduction)


class AllPairsLoss(Loss):
    """Base of losses to which every column of a row contributes, and may have a weight."""

    _weighs_columns = True


def _count(labels: Any, name: str) -> int:
    try:
        return len(labels)
    except TypeError:
        raise ValueError(f"{name} must hold one label a point; found {labels!r:.80}.") from None


def _are_finite(*arrays: Array | None) -> bool:
    return all(get_kernels().all_finite(array) for array in arrays if array is not None)


def _refuse_overflow(dtype: Any) -> NoReturn:
    raise LossOverflowError(
        f"The loss or its gradient overflows: Z is too large for this loss in {dtype}. Divide Z, "
        "or lower the learning rate that led there."
    )


def finite(value: float, name: str, *, what: str = "finite") -> float:
    """A finite parameter; ``what`` is what errors say that it must be."""
    try:
        number = np.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(f"{name} must be {what}; found {value!r}.")
    return number


def positive(value: float, name: str, *, zero: bool = False) -> float:
    """A finite parameter above 0, or from 0 on."""
    what = f"finite and {'at least' if zero else 'above'} 0"
    number = finite(value, name, what=what)
    if number < 0 or (number == 0 and not zero):
        raise ValueError(f"{name} must be {what}; found {value!r}.")
    return number
