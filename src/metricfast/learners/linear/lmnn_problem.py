"""The objective of LMNN, with its targets listed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricfast import losses
from metricfast.learners.linear.base import Coordinates, LinearObjective, TrainingSet
from metricfast.learners.linear.impostors import ImpostorLists

__all__ = ["MARGIN", "LMNNProblem"]

MARGIN = 1.0


@dataclass(frozen=True)
class LMNNProblem:
    """The objective, of all anchors or of some."""

    data: TrainingSet
    targets: NDArray[np.int64]
    regularization: float
    coordinates: Coordinates
    n_jobs: int | None

    def of_all(self) -> LinearObjective:
        """Return the objective of all anchors, which keeps lists of their impostors."""
        labels = self.data.labels
        lists = ImpostorLists(labels, self.targets, MARGIN, self.n_jobs)
        loss = self._loss(self.regularization)

        def listed(Z: NDArray[Any]) -> Any:
            return loss(
                Z,
                labels,
                targets=self.targets,
                impostors=lists(Z),
                sample_weight=self.data.weight,
                n_jobs=self.n_jobs,
            )

        return LinearObjective(self.data.X, listed, self.coordinates, self.n_jobs)

    def of_anchors(self, anchors: NDArray[np.int64]) -> LinearObjective:
        """Return the objective of some anchors, whose batch stands for all impostors."""
        data, targets = self.data, self.targets[anchors]
        rows = np.union1d(anchors, targets)
        place, near = np.searchsorted(rows, anchors), np.searchsorted(rows, targets)
        push = (1 - self.regularization) * len(data.labels) / len(rows)
        total = self.regularization + push
        loss = self._loss(self.regularization / total)

        def among_batch(Z: NDArray[Any]) -> tuple[float, NDArray[Any]]:
            value, (upstream, gradient) = loss(
                Z[place],
                data.labels[anchors],
                Z,
                data.labels[rows],
                targets=near,
                sample_weight=None if data.weight is None else data.weight[anchors],
                exclude=place,
                n_jobs=self.n_jobs,
            )
            gradient[place] += upstream
            return total * value, Z.dtype.type(total) * gradient

        return LinearObjective(data.X[rows], among_batch, self.coordinates, self.n_jobs)

    def _loss(self, regularization: float) -> Callable[..., Any]:
        return losses.LMNN(self.targets.shape[1], regularization, MARGIN)
