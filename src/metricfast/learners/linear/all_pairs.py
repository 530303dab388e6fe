"""What learners share whose loss looks at all pairs of points."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.scatter import within_scatter
from metricfast._core.warn import warn_user
from metricfast.learners.base.points import TrainingSet
from metricfast.learners.linear.base import LinearLearner
from metricfast.learners.linear.copies import counted_once
from metricfast.training.coordinates import FULL_BASIS, Coordinates
from metricfast.training.labelled import Labelled
from metricfast.training.monitor import Monitor, SolverState
from metricfast.training.objective import LinearMap, Objective

__all__ = ["AllPairsLearner"]


class AllPairsLearner(LinearLearner):
    """Base of learners of a loss of all pairs of points, or of all pairs of each mini-batch.

    A learner defines `_loss`, and may change what the methods after that say.
    """

    _stoppings: tuple[str, ...] = ("folds", "auto")

    def __init__(
        self,
        init: str | NDArray[Any] = "auto",
        n_components: int | None = None,
        max_iter: int = 100,
        tol: float | None = None,
        verbose: bool | int = False,
        preprocessor: Any = None,
        random_state: int | np.random.RandomState | None = None,
        *,
        solver: str = "lbfgs",
        batch_size: int | None = None,
        learning_rate: float = 0.01,
        max_epochs: int = 50,
        n_jobs: int | None = None,
        callbacks: Iterable[Callable[[SolverState], object]] | None = None,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        reservoir: int | None = None,
        init_scale: str | None = "auto",
    ) -> None:
        self._take(locals())

    @abstractmethod
    def _loss(self) -> Any:
        """Return the loss of embedded points, one of `metricfast.losses` or a function."""

    def _objective(self, data: TrainingSet, L: NDArray[Any]) -> Objective:
        del L
        loss = self._loss()
        if getattr(loss, "of_inner_products", False):
            raise ValueError(
                f"{type(loss).__name__} is of inner products, which depend on where 0 is, and a "
                "metric does not: derive from BaseEmbeddingLearner, with Linear(normalize=True), "
                "or take a loss of distances."
            )
        labelled = Labelled(loss, data.labels, data.weight, n_jobs=self.n_jobs)
        return Objective(data.X, LinearMap(), labelled, self._coordinates(data), n_jobs=self.n_jobs)

    def _counted_once(self, data: TrainingSet) -> TrainingSet:
        weighed = getattr(self._loss(), "_weighs_columns", False)
        return counted_once(data) if self.solver == "lbfgs" and weighed else data

    def _coordinates(self, data: TrainingSet) -> Coordinates:
        """Return the coordinates of the solver."""
        return Coordinates(data.X.shape[1])

    def _within_scatter(self, data: TrainingSet) -> NDArray[np.float64]:
        """Return what makes the pull of classes on their points even, for `Coordinates`."""
        wide = data.X.shape[1] > FULL_BASIS
        return within_scatter(data.X, data.groups, data.weight, diagonal=wide)

    def _lowest(self, data: TrainingSet) -> float:
        """Return the lowest objective that the data allow."""
        del data
        return 0.0

    def _look_at_result(self, data: TrainingSet, monitor: Monitor, objective: Objective) -> None:
        lowest = self._lowest(data)
        if (
            np.array_equal(monitor.best_x, monitor.start)
            and monitor.most is None
            and self.objective_ - lowest > 1e-3 * abs(lowest)
        ):
            warn_user(
                "The objective has no slope at the initial map, so nothing was learned. If that "
                "map is not a minimum already, rescale the points (StandardScaler), choose another "
                "`init` or solver='sgd', or lower `tol`.",
                ConvergenceWarning,
            )
