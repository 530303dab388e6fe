"""Learners of a linear map by a loss of the points that it embeds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.arguments import check_count, check_random_state, check_range
from metricfast._core.initialize import as_given_map, check_n_components, initialize_components
from metricfast._core.threadpool import one_blas_thread
from metricfast.learners.base.points import PointsLearner, TrainingSet
from metricfast.learners.base.trained import Callback, TrainedLearner, with_batches
from metricfast.learners.base.validation import neighbor_error
from metricfast.learners.linear.reservoir import Reservoir
from metricfast.samplers import Batch, class_batches
from metricfast.training.chunks import batches_of
from metricfast.training.coordinates import Coordinates, best_scale
from metricfast.training.monitor import Monitor
from metricfast.training.objective import Objective, map_points
from metricfast.training.solvers import minimize_smooth
from metricfast.training.steps import Steps, relative_adam, run_epoch

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["LinearLearner"]

Array = NDArray[Any]
# Steps a million times the size of the map itself are a mistake.
_MAX_RATE = 1e6
# Below this, decreases of an objective of float32 points are rounding.
_SINGLE_TOL = 1e-6


class LinearLearner(TrainedLearner, PointsLearner):
    """Base of such learners.

    A learner defines `_objective`, and may change what the methods after that say.
    """

    _accept_sparse = "csr"

    init: Any = "auto"
    n_components: int | None = None
    max_iter: int = 100
    solver: str = "lbfgs"
    batch_size: int | None = None
    learning_rate: float = 0.01
    max_epochs: int = 50
    tol: float | None = None
    reservoir: int = 0

    _kept: Reservoir | None = None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
    ) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or (n_samples,) with a \
                preprocessor
            Points. float32 is computed with as it is, everything else as float64. Of a source that
            does not fit into memory, such as a memory map, "sgd" holds a part at a time.
        y : array-like of shape (n_samples,)
            Class labels, of at least two classes (of `LMNN`, each of more than `n_neighbors`
            points); for `MLKR` numbers, not all equal.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights, of a point as anchor and as neighbour: with "lbfgs" whole numbers
            mean the same as repeated points. `LMNN` weighs points as anchors alone: as targets and
            impostors all count alike, so a weight of 2 is not the same as a repeated point.
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
            If an argument or parameter has a value that cannot be used, or `checkpoint` is of
            another training.
        """
        self._course = self._kept = None
        callbacks = self._check_parameters()
        join = self._join()
        kept = self.components_ if self.warm_start and hasattr(self, "components_") else None
        with self._trying():
            data = self._check_data(X, y, sample_weight, join=join, validate=validate)
            self._train(X, data, kept, callbacks)
        self._settle()
        if validate:
            self._validate_fit(X, y, sample_weight=sample_weight)
        return self

    def _train(
        self, X: Any, data: TrainingSet, kept: Array | None, callbacks: tuple[Callback, ...]
    ) -> None:
        self._exponent = data.exponent
        rng, checkpoint, found = self._begin(data.X, data.labels, data.weight)
        classes = data.labels if self._has_classes else None
        train, test = self._hold_out(classes, data.X, rng)
        part = data if test is None else data.take(train)
        objective, x0 = self._starting(part, rng, kept)
        monitor = self._monitor(part, objective, x0, rng)
        if test is not None:
            judged = data.judged(train, test)
            monitor.judge(partial(self._cost, objective, *judged), self.n_iter_no_change)
        try:
            self._watch(
                data, objective, monitor, callbacks,
                lambda: self._solve(objective, monitor, self._batches(part, objective, rng)),
                checkpoint=checkpoint, found=found,
            )  # fmt: skip
            self._look_at_result(part, monitor, objective)
        finally:
            self._end(X, data, monitor, objective)

    def _starting(
        self, data: TrainingSet, rng: np.random.RandomState, kept: Array | None
    ) -> tuple[Objective, Array]:
        """Return what is minimised, and from where, which is what is `kept` of an earlier fit."""
        L = self._initialize(data.few, rng, kept)
        L = self._start(data.few, L) if kept is None else L
        objective = self._objective(data, L)
        if self.solver != "lbfgs" and kept is None:
            L = L * self._best_scale(objective, L, self._batches(data, objective, rng))
            self._rescaled(objective, data, L)
        return objective, objective.coordinates.vector([L])

    def _watch(
        self,
        data: TrainingSet,
        objective: Objective,
        monitor: Monitor,
        callbacks: tuple[Callback, ...],
        solve: Callable[[], object],
        **how: Any,
    ) -> None:
        """Run a solver, and keep what it has found."""
        with self._watching(
            monitor, partial(self._keep, monitor, objective, data),
            lambda x: [data.undo_scale(self._map(objective, x))], callbacks, unit=data.unit, **how,
        ), one_blas_thread():  # fmt: skip
            solve()

    @with_batches
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train for one epoch on some points, from where the last call, or `fit`, has ended.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Points, compared with each other, and with those that `reservoir` keeps of the calls
            before; the first call takes the units of its own for those of all.
        y : array-like of shape (n_samples,)
            As of `fit`. Classes may be others in every call.
        classes : array-like, optional
            Not needed; there for classifiers of scikit-learn are given it.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As of `fit`; and with `early_stopping` or `checkpoint`, which need all points.
        """
        callbacks = self._check_parameters()
        self._refuse_in_parts()
        kept = getattr(self, "components_", None)
        exponent = None if kept is None else getattr(self, "_exponent", 0)
        data = self._check_data(X, y, sample_weight, exponent, self._join())
        self._exponent = data.exponent
        if kept is not None and self._course is not None:
            monitor, coordinates, x0 = self._course
            objective = self._objective(data, self.components_)
            objective.coordinates = coordinates
        else:
            rng = check_random_state(self.random_state)
            objective, x0 = self._starting(data, rng, kept)
            monitor = self._monitor(data, objective, x0, rng)
            self._course = monitor, objective.coordinates, x0
        steps = self._steps(objective, x0, None)
        batches = self._batches(data, objective, monitor.rng)
        monitor.restart(monitor.x)
        monitor.look_at(objective, data.weight, data.n_new)
        self._watch(
            data, objective, monitor, callbacks,
            lambda: monitor(run_epoch(objective, batches(), monitor, steps), monitor.x), total=1,
        )  # fmt: skip
        self._end(X, data, monitor, objective)
        self._settle()
        return self

    def _join(self) -> Any:
        """Return what adds samples of earlier calls to those of a call, if any are to be kept."""
        check_count("reservoir", self.reservoir, least=0)
        if not self.reservoir:
            self._kept = None
            return None
        if self._kept is None or self._kept.size != self.reservoir:
            seed = check_random_state(self.random_state).randint(2**31 - 1)
            self._kept = Reservoir(int(self.reservoir), seed)
        return self._kept.join

    def _settle(self) -> None:
        """Choose which samples to keep."""
        if self._kept is not None:
            self._kept.settle()

    def _check_parameters(self) -> tuple[Callback, ...]:
        """Check what the learners share, and return the callbacks."""
        check_count("max_iter", self.max_iter)
        check_range("learning_rate", self.learning_rate, high=_MAX_RATE, positive=True)
        if self.tol is not None:
            check_range("tol", self.tol)
        return self._check_training()

    @abstractmethod
    def _objective(self, data: TrainingSet, L: Array) -> Objective:
        """Return what is minimised, of training data and a map to start from."""

    def _scale_objective(self, objective: Objective) -> Objective:
        """Return what is lowest at the scale of the map that mini-batches should start from."""
        return objective

    def _rescaled(self, objective: Objective, data: TrainingSet, L: Array) -> None:
        """Tell an objective of another map to start from."""

    def _batches(
        self, data: TrainingSet, objective: Objective, rng: np.random.RandomState
    ) -> Callable[[], Iterable[Batch]]:
        """Return what draws the batches of an epoch."""
        classes, size = data.groups, self._anchors(data)

        def draw(rows: NDArray[np.int64]) -> list[Batch]:
            rows = rows[: len(rows) - data.n_kept]
            drawn = class_batches(classes[rows], size, rng)
            return [data.with_kept(Batch(rows[some], len(some)), rng) for some in drawn]

        return batches_of(objective.X, draw, rng, size)

    def _anchors(self, data: TrainingSet) -> int:
        """Return how many anchors a batch has."""
        return int(self.batch_size or min(1000, max(100, data.n_new // 10)))

    def _start(self, data: TrainingSet, L: Array) -> Array:
        """Return the map to start from, given what `init` says."""
        return L

    def _monitor(
        self, data: TrainingSet, objective: Objective, x0: Array, rng: np.random.RandomState
    ) -> Monitor:
        """Return what watches a training from `x0`."""
        return Monitor(x0, rng=rng)

    def _map(self, objective: Objective, x: Array) -> Array:
        """Return the map of `data.X` that the solver's vector stands for."""
        return objective.coordinates.arrays(x)[0]

    def _steps(self, objective: Objective, x0: Array, max_epochs: int | None) -> Steps:
        del objective
        return relative_adam(x0, self.learning_rate, max_epochs)

    def _solve_all(self, objective: Objective, monitor: Monitor) -> None:
        tol = _SINGLE_TOL if self.tol is None and objective.X.dtype == np.float32 else self.tol
        max_iter = self.max_iter - len(monitor.curve)
        minimize_smooth(objective, monitor.x, monitor, max_iter=max_iter, tol=tol)

    def _trying(self) -> AbstractContextManager[None]:
        """Return what a fit runs in."""
        return nullcontext()

    def _end(self, X: Any, data: TrainingSet, monitor: Monitor, objective: Objective) -> None:
        """Keep what else is fitted, even of a training that was interrupted."""

    def _look_at_result(self, data: TrainingSet, monitor: Monitor, objective: Objective) -> None:
        """Warn of a map that is of no use."""

    def _initialize(
        self, data: TrainingSet, rng: np.random.RandomState, kept: Array | None
    ) -> Array:
        """Make the map of `data.X` to start from, and keep it in case of an interrupt."""
        init = as_given_map(self.init)
        given = isinstance(init, np.ndarray)
        if given and init.ndim == 2 and self.n_components is None:
            n_components = len(init)
        else:
            n_components = check_n_components(data.X.shape[1], self.n_components)
        L = initialize_components(
            data.X,
            data.labels if self._has_classes else None,
            init,
            n_components,
            rng,
            verbose=bool(self.verbose),
            sample_weight=data.weight,
        )
        if kept is not None:
            if kept.shape[1] != L.shape[1]:
                raise ValueError(
                    f"warm_start needs points of {kept.shape[1]} features as in the fit before, "
                    f"got {L.shape[1]}: set warm_start=False."
                )
            if kept.shape != L.shape:
                raise ValueError(
                    f"warm_start needs a map of the same shape as in the fit before, {kept.shape}, "
                    f"got {L.shape}: set warm_start=False."
                )
            L = data.start(kept)
        elif given:
            L = data.start(L)
        self.components_ = data.undo_scale(L)
        return L

    def _best_scale(
        self, objective: Objective, L: Array, batches: Callable[[], Iterable[Batch]]
    ) -> float:
        """Return the factor of the map that mini-batches should start from."""
        coordinates, first = objective.coordinates, next(iter(batches()))
        assert isinstance(coordinates, Coordinates)
        x0, value = coordinates.vector([L]), self._scale_objective(objective.here())
        return best_scale(lambda scale: value(coordinates.scaled(x0, scale), first)[0])

    def _keep(
        self, monitor: Monitor, objective: Objective, data: TrainingSet, x: Array, last: bool
    ) -> None:
        """Set the fitted attributes of some parameters, in the end or for callbacks."""
        self.components_ = data.undo_scale(self._map(objective, x))
        self.objective_ = data.unit * (monitor.best_objective if last else monitor.curve[-1])
        self._keep_course(monitor, last, data.unit)

    def _cost(
        self, objective: Objective, data: TrainingSet, train: Any, test: Any, x: Array
    ) -> float:
        """Return the error of held-out points, as `validate` measures it."""
        Z = map_points(data.X, self._map(objective, x), self.n_jobs)
        error = neighbor_error(
            Z[train], data.labels[train], Z[test], data.labels[test], not self._has_classes
        )
        return error if self._has_classes else error * data.unit

    def _score_of(self, cost: float) -> float:
        return 1 - cost if self._has_classes else -cost
