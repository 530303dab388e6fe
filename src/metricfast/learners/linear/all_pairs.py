"""What learners share whose loss looks at all pairs of points."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.arguments import check_random_state, check_range
from metricfast._core.batches import class_batches
from metricfast._core.scatter import within_scatter
from metricfast.learners.linear.base import (
    FULL_BASIS,
    Coordinates,
    LinearLearner,
    LinearObjective,
    TrainingSet,
    best_scale,
)
from metricfast.losses._call import AllPairsLoss
from metricfast.training.solvers import (
    Monitor,
    Objective,
    SolverState,
    minimize_minibatch,
    minimize_smooth,
)

__all__ = ["AllPairsLearner"]

# Below this, decreases of an objective of float32 points are rounding.
_SINGLE_TOL = 1e-6


class AllPairsLearner(LinearLearner):
    """Base of learners of a loss of all pairs of points, or of all pairs of each mini-batch.

    A learner defines `_loss`, and may change what the methods after that say.
    """

    _accept_sparse = "csr"

    def __init__(
        self,
        init: str | NDArray[Any] = "auto",
        n_components: int | None = None,
        max_iter: int = 100,
        tol: float | None = None,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: int | np.random.RandomState | None = None,
        *,
        solver: str = "lbfgs",
        batch_size: int | None = None,
        learning_rate: float = 0.01,
        max_epochs: int = 50,
        n_jobs: int | None = None,
        callbacks: Iterable[Callable[[SolverState], object]] | None = None,
    ) -> None:
        self._take(locals())

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
    ) -> AllPairsLearner:
        """Learn the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or (n_samples,) with a \
                preprocessor
            Points. float32 is computed with as it is, everything else as float64.
        y : array-like of shape (n_samples,)
            Class labels, of at least two classes; for `MLKR` numbers, not all equal.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights, of a point as anchor and as neighbour: with "lbfgs" whole numbers
            mean the same as repeated points.
        validate : bool, default=False
            Also fit a clone to four fifths of the points, compare the errors of 3 nearest
            neighbours in the learned and in the Euclidean distance on the others, keep the numbers
            in `validation_`, and warn if the learned one is worse.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used.
        """
        callbacks = self._check_parameters()
        if self.tol is not None:
            check_range("tol", self.tol)
        data = self._check_data(X, y, sample_weight)
        rng = check_random_state(self.random_state)
        L = self._start(data, self._initialize(data, rng))
        classes = self._classes(data)
        batches = partial(class_batches, classes, self._batch_size(len(classes)), rng)
        coordinates = self._coordinates(data, L)
        if self.solver == "sgd":
            first, x0 = data.take(batches()[0]), coordinates.vector(L)
            value = self._scale_objective(first, coordinates)
            L = L * best_scale(lambda scale: value(coordinates.scaled(x0, scale))[0])
            coordinates = self._coordinates(data, L)
        if self.solver == "lbfgs":
            total, solve = self.max_iter, self._solve_all
        else:
            total, solve = self.max_epochs, partial(self._solve_batches, batches)
        run = partial(solve, data, coordinates)
        self._minimize(data, coordinates, L, total, run, callbacks)
        lowest = self._lowest(data)
        if self.n_iter_ == 0 and self.objective_ - lowest > 1e-3 * abs(lowest):
            warnings.warn(
                "The objective has no slope at the initial map, so nothing was learned. If that "
                "map is not a minimum already, rescale the points (StandardScaler), choose another "
                "`init` or solver='sgd', or lower `tol`.",
                ConvergenceWarning,
                stacklevel=2,
            )
        if validate:
            self._validate_fit(X, y, sample_weight=sample_weight)
        return self

    @abstractmethod
    def _loss(self) -> AllPairsLoss:
        """Return the loss of embedded points."""

    def _objective(
        self, data: TrainingSet, coordinates: Coordinates, loss: AllPairsLoss | None = None
    ) -> Objective:
        """Return the loss as a function of the solver's vector."""
        of_points = partial(
            self._loss() if loss is None else loss,
            y=data.labels,
            sample_weight=data.weight,
            n_jobs=self.n_jobs,
        )
        return LinearObjective(data.X, of_points, coordinates, self.n_jobs)

    def _scale_objective(self, data: TrainingSet, coordinates: Coordinates) -> Objective:
        """Return what is lowest at the scale of the map that mini-batches should start from."""
        return self._objective(data, coordinates)

    def _start(self, data: TrainingSet, L: NDArray[Any]) -> NDArray[Any]:
        """Return the map to start from, given what `init` says."""
        del data
        return L

    def _coordinates(self, data: TrainingSet, L: NDArray[Any]) -> Coordinates:
        """Return the coordinates of the solver, which starts from L."""
        del L
        return Coordinates(data.X.shape[1])

    def _classes(self, data: TrainingSet) -> NDArray[np.int64]:
        """Return the class of each point; where there are no classes, all points are of one."""
        return data.labels if self._has_classes else np.zeros(len(data.labels), np.int64)

    def _within_scatter(self, data: TrainingSet) -> NDArray[np.float64]:
        """Return what makes the pull of classes on their points even, for `Coordinates`."""
        wide = data.X.shape[1] > FULL_BASIS
        return within_scatter(data.X, self._classes(data), data.weight, diagonal=wide)

    def _lowest(self, data: TrainingSet) -> float:
        """Return the lowest objective that the data allow."""
        del data
        return 0.0

    def _solve_all(
        self, data: TrainingSet, coordinates: Coordinates, x0: NDArray[np.float64], monitor: Monitor
    ) -> None:
        single = data.X.dtype == np.float32
        tol = _SINGLE_TOL if self.tol is None and single else self.tol
        objective = self._objective(data, coordinates)
        minimize_smooth(objective, x0, monitor, max_iter=self.max_iter, tol=tol)

    def _solve_batches(
        self,
        batches: Callable[[], list[NDArray[np.int64]]],
        data: TrainingSet,
        coordinates: Coordinates,
        x0: NDArray[np.float64],
        monitor: Monitor,
    ) -> None:
        minimize_minibatch(
            lambda x, rows: self._objective(data.take(rows), coordinates)(x),
            x0,
            batches,
            monitor,
            max_epochs=self.max_epochs,
            learning_rate=self.learning_rate,
        )
