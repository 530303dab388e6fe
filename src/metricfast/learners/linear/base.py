"""Learners of a linear map by a loss of the points that it embeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.arguments import check_choice, check_count, check_random_state, check_range
from metricfast._core.threadpool import one_blas_thread
from metricfast.learners.base.points import TrainingSet
from metricfast.learners.base.told import tells_callbacks
from metricfast.learners.base.trained import Callback, TrainedLearner, with_batches
from metricfast.learners.base.validation import naming_held_out, neighbor_error
from metricfast.learners.linear.model_selection import select_training
from metricfast.learners.linear.reservoir import Reservoir
from metricfast.learners.linear.starts import Starting
from metricfast.samplers import Batch, class_batches
from metricfast.training.chunks import batches_of
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


class LinearLearner(TrainedLearner, Starting):
    """Base of such learners.

    A learner defines `_objective`, and may change what the methods after that say.
    """

    _accept_sparse = "csr"

    max_iter: int = 100
    batch_size: int | None = None
    learning_rate: float = 0.01
    max_epochs: int = 50
    tol: float | None = None
    reservoir: int | None = None

    _keeps = False  # whether `partial_fit` keeps points where `reservoir` does not say
    _kept: Reservoir | None = None
    _n_seen: int = 0  # points of all calls of `partial_fit`

    @tells_callbacks
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
        self._course, self._kept, self._n_seen = None, None, 0
        callbacks = self._check_parameters()
        join = self._join(0 if self.reservoir is None else self.reservoir)
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
        train, test = self._hold_out(data.labels if self._has_classes else None, data.X, rng)
        part = self._counted_once(data if test is None else data.take(train))
        with naming_held_out(test, data.X.shape[0]):
            self._check_numbers(part)
        start, most = select_training(self, data) if kept is None else (None, None)
        objective, x0 = self._starting(part, rng, kept, start)
        part.forget_few()
        monitor = self._monitor(part, objective, x0, rng)
        monitor.most = most
        if test is not None:
            judged = data.judged(train, test)
            monitor.judge(partial(self._cost, objective, *judged), self.n_iter_no_change)

        def solve() -> None:
            if most == 0:
                monitor.settle(objective(x0)[0], x0)
            else:
                self._solve(objective, monitor, self._batches(part, objective, rng))

        try:
            self._watch(
                X, data, objective, monitor, callbacks, solve,
                checkpoint=checkpoint, found=found,
            )  # fmt: skip
            self._look_at_result(part, monitor, objective)
        finally:
            self._end(X, data, monitor, objective)

    # Whether folds look for the fewest iterations that serve neighbours, or for the most.
    _fewest = True

    @property
    def _least_of_class(self) -> int:
        """How many points of each class it takes to train."""
        return 2

    def _check_numbers(self, data: TrainingSet) -> None:
        """Raise ValueError where there are too few points to train on."""

    def _counted_once(self, data: TrainingSet) -> TrainingSet:
        """Return what to train on, which may be copies of points as one that counts as often."""
        return data

    def _watch(
        self,
        X: Any,
        data: TrainingSet,
        objective: Objective,
        monitor: Monitor,
        callbacks: tuple[Callback, ...],
        solve: Callable[[], object],
        **how: Any,
    ) -> None:
        """Run a solver, and keep what it has found."""

        def keep(x: Array, last: bool) -> None:
            self._keep(monitor, objective, data, x, last)
            if not last:
                self._end(X, data, monitor, objective)

        with self._watching(
            monitor, keep,
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
        size = 0 if self.reservoir is None and not self._keeps else self.reservoir
        data = self._check_data(X, y, sample_weight, exponent, self._join(size))
        self._exponent = data.exponent
        if kept is not None and self._course is not None:
            monitor, coordinates, x0 = self._course
            objective = self._objective(data, self.components_)
            objective.coordinates = coordinates
        else:
            rng, self._n_seen = check_random_state(self.random_state), 0
            objective, x0 = self._starting(data, rng, kept)
            monitor = self._monitor(data, objective, x0, rng)
            self._course = monitor, objective.coordinates, x0
        data.forget_few()
        self._n_seen += data.n_new
        steps = self._steps(objective, x0, None)
        batches = self._batches(data, objective, monitor.rng)
        monitor.restart(monitor.x)
        monitor.look_at(objective, data.weight, data.n_new)
        self._watch(
            X, data, objective, monitor, callbacks,
            lambda: monitor(run_epoch(objective, batches(), monitor, steps), monitor.x), total=1,
        )  # fmt: skip
        self._end(X, data, monitor, objective)
        self._settle()
        return self

    def _check_data(self, *args: Any, **kwargs: Any) -> TrainingSet:
        data = super()._check_data(*args, **kwargs)
        width = data.X.shape[1]
        self._refuse_beyond_memory(data.X, [(self._rows_of_map(width), width)])
        return data

    def _join(self, size: int | None) -> Any:
        """Return what adds samples of earlier calls to those of a call, if any are to be kept.

        `size`: so many; None for what is usual.
        """
        if size is not None:
            size = check_count("reservoir", size, least=0)
        if size == 0:
            self._kept = None
            return None
        if self._kept is None or self._kept.given != size:
            seed = check_random_state(self.random_state).randint(2**31 - 1)
            self._kept = Reservoir(size, seed)
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
        if self.init_scale is not None:
            check_choice("init_scale", self.init_scale, ("auto",))
        return self._check_training()

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
        return int(self.batch_size or min(1000, max(100, max(data.n_new, self._n_seen) // 10)))

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
        max_iter = int(self.max_iter) - len(monitor.curve)
        minimize_smooth(objective, monitor.x, monitor, max_iter=max_iter, tol=tol)

    def _trying(self) -> AbstractContextManager[None]:
        """Return what a fit runs in."""
        return nullcontext()

    def _end(self, X: Any, data: TrainingSet, monitor: Monitor, objective: Objective) -> None:
        """Keep what else is fitted, for callbacks and of a training that was interrupted."""

    def _look_at_result(self, data: TrainingSet, monitor: Monitor, objective: Objective) -> None:
        """Warn of a map that is of no use."""

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
