"""Learners of sums over points, which may come in parts, and need not be in memory."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from metricfast._core.checks import check_points
from metricfast._core.sums import Sums
from metricfast._core.targets import (
    as_label_array,
    check_class_labels,
    check_sample_weight,
    encode,
)
from metricfast._core.types import Floats, Integers
from metricfast._core.warn import warn_user
from metricfast.learners.base.constraints import FromClasses
from metricfast.learners.base.learner import BaseMetricLearner

__all__ = ["ONE_CLASS", "OnePass", "OnePassOfClasses", "Summed", "as_class_codes"]

ONE_CLASS = "y must hold at least 2 classes, together with earlier calls of partial_fit."

Self = TypeVar("Self", bound="OnePass")
OfClasses = TypeVar("OfClasses", bound="OnePassOfClasses")
# Sums over points, and what else is to be told of them.
Summed = tuple[tuple[Sums, ...], dict[str, Any]]


def as_class_codes(labels: ArrayLike) -> Integers:
    """Return codes of the classes of some points, which may all be of one."""
    check_class_labels(labels)
    return encode(as_label_array(labels, "y"), "y")[1]


class OnePass(BaseMetricLearner):
    """Base of learners of sums: a learner defines `_sums_of` and `_learn_sums`."""

    _sums: tuple[Sums, ...] = ()  # of all calls of `partial_fit`
    # Whether sums of parts are those of the whole: nothing is drawn, and no neighbours are sought.
    _exact_in_parts: bool = False

    def _sums_of(self, data: Any, labels: Any, weight: Floats | None) -> Summed:
        """Sum checked points, or tuples, of which only some may be given."""
        raise NotImplementedError

    def _learn_sums(self, sums: tuple[Sums, ...], **found: Any) -> None:
        """Learn from sums."""
        raise NotImplementedError

    def _forget(self) -> None:
        super()._forget()
        self.__dict__.pop("_sums", None)

    def _goes_on(self) -> bool:
        """Tell whether `partial_fit` has been called before; warn where that was `fit`."""
        if not self._sums and self.__sklearn_is_fitted__():
            warn_user(
                "partial_fit begins anew, without what fit has learned: fit keeps no sums to add "
                "to. Give partial_fit the points of fit as well."
            )
        return bool(self._sums)

    def _add(self, data: Any, labels: Any, weight: Floats | None) -> None:
        """Learn from sums of these data and of those before; where that fails, forget these."""
        new, found = self._sums_of(data, labels, weight)
        if self._sums:
            new = tuple(
                copy.deepcopy(sums).merge(more) for sums, more in zip(self._sums, new, strict=True)
            )
        self._learn_sums(tuple(sums.counted() for sums in new), **found)
        self._sums = new

    def _add_points(self: Self, X: Any, y: Any, sample_weight: ArrayLike | None) -> Self:
        begun = self._goes_on()
        if not begun:
            self._begin_fit()
        how: dict[str, Any] = {"reset": not begun, "order": "C", "accept_sources": True}
        checked = check_points(self, X, y, preprocessor=self.preprocessor_, **how)
        points, labels = (checked, None) if y is None else checked
        self._add(points, labels, check_sample_weight(sample_weight, points.shape[0]))
        return self


class OnePassOfClasses(FromClasses, OnePass):
    """Base of those of class labels."""

    def partial_fit(
        self: OfClasses, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> OfClasses:
        """Learn from these points and from those of earlier calls, by adding up sums.

        Calls on all parts learn what `fit` learns of all points, within rounding, where it needs
        no neighbours. Neighbours, and points that judge shrinkage, are those of the same call:
        give at least thousands of points, of all classes, at a time. The notes on the learner say
        what it draws.

        Parameters
        ----------
        X : array-like or source of shape (n_samples, n_features)
            Points, as for `fit`.
        y : array-like of shape (n_samples,)
            Class labels. Classes may be missing in one call, and others may come.
        sample_weight : array-like of shape (n_samples,), optional
            As for `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As of `fit`. What the calls before have learned stays.

        Warns
        -----
        UserWarning
            After `fit`, which keeps no sums: this begins anew.
        """
        self._checked()
        return self._add_points(X, y, sample_weight)
