"""What the losses have in common: their arguments, checked, and how they are called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from metricfast._arrays import as_codes, as_exclude, as_numbers, as_points, as_threads, as_vector

__all__ = ["AllPairsLoss", "Call", "Gradient"]

Gradient = NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]
Totals = tuple[float, int, int, int]


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
        continuous: bool = False,
    ) -> None:
        self.queries = as_points(Z, "Z")
        n, width = self.queries.shape
        if (Z_database is None) != (y_database is None):
            raise ValueError("Z_database and y_database must be given together.")
        self.y: NDArray[Any] = as_numbers(y, "y", n) if continuous else as_codes(y, "y", n)[1]
        self.y_database: NDArray[Any]
        self.symmetric = Z_database is None
        if Z_database is None or y_database is None:
            self.database, self.m, self.y_database = None, n, self.y
            exclude = np.arange(n) if exclude is None else exclude
        else:
            self.database = as_points(Z_database, "Z_database", width=width)
            self.m = len(self.database)
            if continuous:
                self.y_database = as_numbers(y_database, "y_database", self.m)
            else:
                classes, self.y = as_codes(y, "y", n)
                known, self.y_database = as_codes(y_database, "y_database", self.m, classes)
                self.y = np.searchsorted(known, classes)[self.y].astype(np.int64)
            if self.database.dtype != self.queries.dtype:
                self.queries = self.queries.astype(np.float64)
                self.database = self.database.astype(np.float64)
        self.exclude = as_exclude(exclude, n, self.m)
        self.weight = (
            None if sample_weight is None else as_vector(sample_weight, "sample_weight", n)
        )
        self.threads = as_threads(n_jobs)
        self.grad = np.empty_like(self.queries)
        self.grad_database = None if self.database is None else np.empty_like(self.database)

    def result(self, totals: tuple[float, int, int, int]) -> tuple[float, Gradient]:
        if self.grad_database is None:
            return totals[0], self.grad
        return totals[0], (self.grad, self.grad_database)


class AllPairsLoss(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of losses to which every column of a row contributes, and may have a weight."""

    _continuous = False  # whether y holds numbers instead of classes

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
        reduction = getattr(self, "reduction", "sum")
        if reduction not in ("sum", "mean"):
            raise ValueError(f"reduction must be 'sum' or 'mean'; found {reduction!r}.")
        call = Call(
            Z, y, Z_database, y_database, sample_weight, exclude, n_jobs,
            continuous=self._continuous,
        )  # fmt: skip
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
        return call.result(totals)

    @abstractmethod
    def _run(self, *arguments: Any) -> Totals:
        """Call the kernel with what all of these losses are called with."""
