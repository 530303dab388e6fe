"""What the losses have in common: their arguments, checked, and how they are called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from metricfast._core.arguments import check_choice
from metricfast._core.arrays import (
    as_codes,
    as_exclude,
    as_labels,
    as_numbers,
    as_points,
    as_threads,
    as_vector,
)
from metricfast._core.dispatch import get_kernels
from metricfast._core.targets import as_label_array, check_class_labels
from metricfast.exceptions import LossOverflowError

__all__ = ["AllPairsLoss", "Call", "Gradient", "Loss", "RowLoss", "Totals", "finite", "positive"]

Gradient = NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]
Totals = tuple[float, int, int, int, int]


class Call:
    """The arguments that every loss has, checked, and its gradient arrays."""

    def __init__(
        self,
        Z: ArrayLike,
        y: ArrayLike,
        Z_database: ArrayLike | None,
        y_database: ArrayLike | None,
        sample_weight: ArrayLike | None,
        exclude: ArrayLike | None,
        n_jobs: int | None,
        *,
        labels: str = "class",
    ) -> None:
        """Check all; ``labels``: "class", "continuous", "targets" (one number) or "unchecked"."""
        self.queries = as_points(Z, "Z")
        n, width = self.queries.shape
        if labels != "unchecked" and (Z_database is None) != (y_database is None):
            raise ValueError("Z_database and y_database must be given together.")
        self.y: NDArray[Any]
        self.y_database: NDArray[Any]
        self.symmetric = Z_database is None
        if Z_database is None:
            self.database, self.m = None, n
            exclude = np.arange(n) if exclude is None else exclude
        else:
            self.database = as_points(Z_database, "Z_database", width=width)
            self.m = len(self.database)
            if self.database.dtype != self.queries.dtype:
                self.queries = self.queries.astype(np.float64)
                self.database = self.database.astype(np.float64)
        self._take_labels(y, y_database, labels)
        self.exclude = as_exclude(exclude, n, self.m)
        self.weight = (
            None if sample_weight is None else as_vector(sample_weight, "sample_weight", n)
        )
        self.threads = as_threads(n_jobs)
        self.grad = np.empty_like(self.queries)
        self.grad_database = None if self.database is None else np.empty_like(self.database)

    def _take_labels(self, y: ArrayLike, y_database: ArrayLike | None, labels: str) -> None:
        n = len(self.queries)
        if labels in ("continuous", "targets"):
            check = as_labels if labels == "continuous" else as_numbers
            self.y = self.y_database = check(y, "y", n)
            if y_database is not None:
                self.y_database = check(y_database, "y_database", self.m)
        elif labels == "class":
            classes, self.y = as_codes(_classes(y, "y"), "y", n)
            self.y_database = self.y
            if y_database is not None:
                known, self.y_database = as_codes(
                    _classes(y_database, "y_database"), "y_database", self.m, classes
                )
                self.y = np.searchsorted(known, classes)[self.y].astype(np.int64)

    def engine(self, reduction: str) -> tuple[Any, ...]:
        """What every kernel of a row loss begins with."""
        return (
            self.queries, self.database, self.exclude, reduction, self.grad, self.grad_database,
            self.threads,
        )  # fmt: skip

    def refuse_overflow(self) -> NoReturn:
        raise LossOverflowError(
            "The loss or its gradient overflows: Z is too large for this loss in "
            f"{self.grad.dtype}. Divide Z, or lower the learning rate that led there."
        )

    def check_squares(self) -> None:
        """Refuse points whose squared distances overflow: softmax would leave them out."""
        largest = max(np.abs(Z).max() for Z in (self.queries, self.database) if Z is not None)
        if not largest < np.sqrt(np.finfo(self.grad.dtype).max / self.queries.shape[1]) / 2:
            self.refuse_overflow()

    def result(self, totals: Totals) -> tuple[float, Gradient]:
        gradients = (self.grad,) if self.grad_database is None else (self.grad, self.grad_database)
        if not (np.isfinite(totals[0]) and all(map(get_kernels().all_finite, gradients))):
            self.refuse_overflow()
        if self.grad_database is None:
            return totals[0], self.grad
        return totals[0], (self.grad, self.grad_database)


def _classes(labels: ArrayLike, name: str) -> ArrayLike:
    """Labels of classes, which numbers with fractions are not."""
    array = as_label_array(labels, name)
    if array.dtype.kind == "O":
        check_class_labels(array, name)
    if array.dtype.kind == "f" and (array != np.round(array)).any() and np.isfinite(array).all():
        raise ValueError(
            f"{name} holds continuous numbers, and this loss needs class labels: use a loss of "
            "continuous labels, such as LogRatio, or divide the numbers into classes."
        )
    return array


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


class Loss(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all losses.

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

    @abstractmethod
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

    def _reduction(self) -> str:
        reduction = getattr(self, "reduction", "sum")
        check_choice("reduction", reduction, self._reductions)
        return str(reduction)

    def _count(self, totals: Totals) -> None:
        self.counts_ = dict(
            zip(("terms", "anchors", "skipped", "dropped"), totals[1:], strict=True)
        )


class RowLoss(Loss):
    """Base of losses whose ``sample_weight`` weighs anchors alone."""

    _call_labels = "class"

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
        reduction = self._reduction()
        call = Call(
            Z, y, Z_database, y_database, sample_weight, exclude, n_jobs, labels=self._call_labels
        )
        totals = self._run(call, reduction, y, y_database)
        self._count(totals)
        return call.result(totals)

    @abstractmethod
    def _run(
        self, call: Call, reduction: str, y: ArrayLike, y_database: ArrayLike | None
    ) -> Totals:
        """Call the kernel."""


class AllPairsLoss(Loss):
    """Base of losses to which every column of a row contributes, and may have a weight."""

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
        reduction = self._reduction()
        call = Call(
            Z, y, Z_database, y_database, sample_weight, exclude, n_jobs,
            labels="class" if self.labels == "class" else "targets",
        )  # fmt: skip
        call.check_squares()
        columns = call.weight if call.symmetric else None
        left_out, own = call.exclude, None
        if columns is not None and left_out is not None:
            # A weighted point stays in its own row with what is left of its weight.
            anchors = np.arange(len(left_out))
            own = np.where(left_out == anchors, anchors, -1)
            left_out = np.where(left_out == anchors, -1, left_out)
        totals = self._run(
            call.queries, call.database, left_out, reduction, call.grad, call.grad_database,
            call.threads, call.y, call.y_database, call.weight, columns, own,
        )  # fmt: skip
        self._count(totals)
        return call.result(totals)

    @abstractmethod
    def _run(self, *arguments: Any) -> Totals:
        """Call the kernel with what all of these losses are called with."""
