"""The base class of losses, with the checks of arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from metricfast._core.arguments import as_vector, called_like
from metricfast._core.arrays import as_both, as_exclude, as_points, as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.parameters import check_parameters
from metricfast._core.types import Floats, Integers
from metricfast._labels.tags import count_labels
from metricfast.losses._bound import BoundLoss, Call, Gradient
from metricfast.losses._labels import BoundLabels, bound_labels

__all__ = ["BaseLoss", "BoundLoss", "Call", "Gradient", "Totals"]

Totals = tuple[float, int, int, int, int]


class BaseLoss(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all losses, which define their parameters and `_run`.

    Attributes
    ----------
    labels : str
        What y must hold: "class", or numbers otherwise.
    takes_tags : bool
        Whether y may hold tags in place of classes: a sparse matrix of zeros and ones, or booleans
        of shape (n, n_tags). Points that share a tag are then of one class.
    learnable_database : bool
        Whether the database is a table of parameters, one row a class.
    has_anchors : bool
        Whether some points may be compared with others; if not, with each other alone.
    of_inner_products : bool
        Whether points are compared by inner products, which depend on where 0 is; if not, by
        distances.
    of_unit_length : bool
        Whether the loss has margins or scales for points of length 1, which a learner then gives it
        unless its embedding says otherwise.
    counts_ : dict
        After a call: "terms" (active ones), "anchors" (that took part), "skipped" (anchors without
        a neighbour that they could use) and "dropped" (neighbours left out because of ties).
    """

    labels: str = "class"
    takes_tags: bool = False
    learnable_database: bool = False
    has_anchors: bool = True
    of_inner_products: bool = False
    of_unit_length: bool = False
    reduction: str = "sum"
    _weighs_columns: bool = False
    _weighs_pairs: bool = False  # whether pairs with scores may have weights
    _outputs: bool = False  # whether continuous labels may have several outputs
    # For reductions that can be computed in parts of anchors: the count that weights the mean of a
    # part.
    _weighed_by: ClassVar[dict[str, str]] = {"sum": "", "mean": "anchors", "mean_nonzero": "terms"}
    # The default of the parameter `label_distance`, if a loss has it.
    _default_label_distance = "sqeuclidean"

    def _call(
        self,
        Z: ArrayLike,
        y: ArrayLike,
        Z_database: ArrayLike | None = None,
        y_database: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> Call:
        """Return the checked arguments of the kernel."""
        self._check_anchors("exclude", exclude)
        queries, database = as_both(Z, Z_database, ("Z", "Z_database"), as_points)
        n, m = len(queries), None
        if database is not None:
            m = len(database)
            if database.dtype != queries.dtype:
                queries, database = queries.astype(np.float64), database.astype(np.float64)
        bound = self._on(y, y_database, n, m, sample_weight, n_jobs)
        left_out = as_exclude(exclude, n, n if m is None else m)
        if m is None and left_out is None:
            left_out = np.arange(n)
        return bound.call(queries, database, exclude=left_out)

    @called_like(_call)
    def __call__(self, *args: Any, **kwargs: Any) -> tuple[float, Gradient]:
        """Return value and gradient; see the description of the module."""
        call = self._call(*args, **kwargs)
        return self._result(call, self._run(call))

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
        y : array-like of shape (n,), or tags of shape (n, n_tags)
            Labels of all points there will be.
        sample_weight : array-like of shape (n,), optional
        y_database : array-like of shape (m,), optional
            Labels of a database of other points; by default the database is of the same points.
        n_jobs : int, optional

        Returns
        -------
        BoundLoss
            ``bound(Z)`` is ``loss(Z, y, sample_weight=sample_weight)``; ``bound(Z, rows)`` is the
            loss of some of the points; ``bound.evaluate_two_sided(Z, Z_database)`` is the loss of
            points and a database.

        Raises
        ------
        ValueError
            If an argument cannot be used; the message names it.
        """
        m = None if y_database is None else count_labels(y_database, "y_database")
        return self._on(y, y_database, count_labels(y, "y"), m, sample_weight, n_jobs)

    def on_codes(
        self, codes: Integers, sample_weight: Floats | None = None, n_jobs: int | None = None
    ) -> BoundLoss:
        """Return the loss of points with class indices from 0, which are not checked."""
        check_parameters(self)
        self._check_anchors("sample_weight", sample_weight)
        codes = np.ascontiguousarray(codes, np.int64)
        labels = BoundLabels("class", codes, n_classes=int(codes.max(initial=-1)) + 1)
        return BoundLoss(self, labels, sample_weight, as_threads(n_jobs))

    def _on(
        self,
        y: ArrayLike,
        y_database: ArrayLike | None,
        n: int,
        m: int | None,
        sample_weight: ArrayLike | None,
        n_jobs: int | None,
    ) -> BoundLoss:
        check_parameters(self)
        if m is None or not self._weighs_pairs:
            self._check_anchors("sample_weight", sample_weight)
        labels = self._bound_labels(y, y_database, n, m)
        weight = None if sample_weight is None else as_vector(sample_weight, "sample_weight", n)
        return BoundLoss(self, labels, weight, as_threads(n_jobs))

    def _result(self, call: Call, totals: Totals) -> tuple[float, Any]:
        """Return value and gradient of a kernel's call, and set `counts_`.

        Raises LossOverflowError unless they are finite.
        """
        value, terms, anchors, skipped, dropped = totals
        self.counts_ = {
            "terms": terms, "anchors": anchors, "skipped": skipped, "dropped": dropped
        }  # fmt: skip
        gradient, of_database = call.gradient, call.database_gradient
        gradients = [gradient] if of_database is None else [gradient, of_database]
        if not (np.isfinite(value) and all(map(get_kernels().all_finite, gradients))):
            call.refuse_overflow()
        return value, gradient if of_database is None else (gradient, of_database)

    @abstractmethod
    def _run(self, call: Call) -> Totals:
        """Call the kernel, which writes gradients: the value, and the counts."""

    def _bound_labels(
        self, y: ArrayLike, y_database: ArrayLike | None, n: int, m: int | None
    ) -> BoundLabels:
        """Check labels of n queries and m database points, or of one set of points."""
        return bound_labels(self, y, y_database, n, m)

    def _check_anchors(self, name: str, given: object) -> None:
        if given is not None and not self.has_anchors:
            raise ValueError(
                f"{name} must be None: {type(self).__name__} compares pairs, all alike."
            )
