"""The loss of embedded points whose labels are known: of all, of a batch, or of a part of it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metricfast.losses._call import Loss
from metricfast.samplers import Batch
from metricfast.training.own_parts import OwnLoss

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Labelled", "anchors_of"]

Array = NDArray[Any]


def anchors_of(batch: Batch | None, part: slice | None) -> slice | None:
    """Return where the anchors, or a part of them, are among the points; None for all points."""
    return part if batch is None or part is not None else slice(0, batch.n_anchors)


class Labelled:
    """A loss of points whose labels and weights are known, and checked once.

    `loss` is one of `metricfast.losses`, or called like these; `y_database` are labels of points
    that anchors are compared with, where these are no training points.
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
        on = loss.on if isinstance(loss, Loss) else OwnLoss(loss).on
        self.bound: Any = on(y, weight, y_database=y_database, n_jobs=n_jobs)

    def evaluate(
        self, Z: Array, batch: Batch | None, part: slice | None = None
    ) -> tuple[float, Array]:
        """Return the loss of the anchors of a batch, or of all points, and its gradient.

        Of these anchors a part alone, if it is given.
        """
        rows = None if batch is None else batch.rows
        value, upstream = self.bound(Z, rows, anchors_of(batch, part))
        return value, upstream

    def evaluate_pairs(self, Z: Array) -> tuple[float, Array] | None:
        """Return the loss of all points by lists of the few pairs that matter, if it has any."""
        del Z
        return None

    def for_thread(self, n_jobs: int | None) -> Self:
        """Return a copy that shares labels alone: what evaluations leave behind is its own."""
        own = copy.copy(self)
        own.loss = copy.copy(self.loss)
        own.bound = self.bound.for_thread(own.loss, n_jobs)
        return own
