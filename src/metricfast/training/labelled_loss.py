"""A loss with its labels and weights, evaluated for all points, a batch or some anchors."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metricfast.losses._call import Loss
from metricfast.samplers import Batch
from metricfast.training.adapters import CallableLoss

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["LabelledLoss", "anchors_of"]

Array = NDArray[Any]


def anchors_of(batch: Batch | None, part: slice | None) -> slice | None:
    """Return the places of the anchors, or of a part of them; None for all points."""
    return part if batch is None or part is not None else slice(0, batch.n_anchors)


class LabelledLoss:
    """A loss with labels and weights, which are checked once.

    `loss`: one of `metricfast.losses`, or a callable with the same arguments.
    `y_database`: labels of the database, if it is not the training points.
    """

    has_lists = False

    def __init__(
        self,
        loss: Any,
        y: Array,
        weight: NDArray[np.float64] | None = None,
        y_database: Array | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.loss, self.y = loss, y
        if isinstance(y, np.ndarray):  # codes of classes, say, that need no other copy
            y = y.view()
            y.flags.writeable = False
        on = loss.on if isinstance(loss, Loss) else CallableLoss(loss).on
        self.bound: Any = on(y, weight, y_database=y_database, n_jobs=n_jobs)

    def evaluate(
        self, Z: Array, batch: Batch | None, part: slice | None = None
    ) -> tuple[float, Array]:
        """Return the loss of the anchors of a batch, or of all points, and its gradient.

        `part`: the anchors to evaluate, by default all.
        """
        rows = None if batch is None else batch.rows
        value, upstream = self.bound(Z, rows, anchors_of(batch, part))
        return value, upstream

    def evaluate_pairs(self, Z: Array) -> tuple[float, Array] | None:
        """Return the loss of all points from its lists of active pairs, if it has any."""
        del Z
        return None

    def for_thread(self, n_jobs: int | None) -> Self:
        """Return a copy for another thread. It shares the labels, not the results."""
        own = copy.copy(self)
        own.loss = copy.copy(self.loss)
        own.bound = self.bound.for_thread(own.loss, n_jobs)
        return own
