"""What a training of an embedding minimises: the loss of a batch, or of all points."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricfast._labels.distance import LabelDistance
from metricfast.samplers import Batch
from metricfast.training.minibatch import EpochState, flat, parts
from metricfast.training.objective import EmbeddedLoss

__all__ = ["Task"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Task:
    """What is trained on: points, labels, the loss, weight decays by parameter, callbacks.

    The label distance is None where labels are those of classes.
    """

    X: Any
    y: Array
    loss: EmbeddedLoss
    shapes: list[tuple[int, ...]]
    decays: list[float]
    callbacks: tuple[Callable[[EpochState], object], ...]
    label_distance: LabelDistance | None

    def of_batch(
        self, parameters: list[Array], batch: Batch, database: str
    ) -> tuple[float, list[Array]]:
        """Return the loss of a batch's anchors and its gradients.

        The database is "batch", the points of the batch, or "all".
        """
        X, y = self.X, self.y
        rows, anchors = batch.rows, batch.rows[: batch.n_anchors]
        if database == "all":
            return self.loss(
                parameters, X[anchors], y[anchors], X_database=X, y_database=y, exclude=anchors
            )
        return self.loss(parameters, X[rows], y[rows], batch.n_anchors)

    def of_all(self, x: NDArray[np.float64], dtype: Any) -> tuple[float, NDArray[np.float64]]:
        """Return the loss of all points with its penalty, computed in `dtype`, and its gradient.

        Where it is not finite, the gradient is zero.
        """
        arrays = parts(x.astype(dtype), self.shapes)
        value, gradients = self.loss(arrays, self.X, self.y)
        if not math.isfinite(value):
            return math.inf, np.zeros_like(x)
        gradient = flat(gradients).astype(np.float64)
        for slope, array, decay in zip(
            parts(gradient, self.shapes), arrays, self.decays, strict=True
        ):
            value += decay / 2 * float(np.sum(array.astype(np.float64) ** 2))
            slope[:] += decay * array
        return value, gradient
