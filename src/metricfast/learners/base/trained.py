"""What learners have in common that minimise an objective iteration by iteration."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils.metaestimators import available_if

from metricfast._core.arguments import (
    check_bool,
    check_choice,
    check_count,
    check_path,
    check_random_state,
    check_range,
    check_verbose,
)
from metricfast._core.arrays import as_threads
from metricfast._core.memory import block_rows, nbytes, refuse_beyond
from metricfast._core.progress import Progress
from metricfast._core.sources import Source
from metricfast._core.targets import by_appearance
from metricfast._core.warn import warn_user
from metricfast.learners.base.learner import BaseMetricLearner
from metricfast.learners.base.told import TellsCallbacks
from metricfast.samplers import Batch
from metricfast.training.checkpoint import Checkpoint
from metricfast.training.monitor import DivergedError, Monitor, SolverState, Vector
from metricfast.training.objective import Objective
from metricfast.training.steps import Steps, minimize_minibatch

__all__ = ["Callback", "TrainedLearner", "check_callbacks", "with_batches"]

Array = NDArray[Any]
Callback = Callable[[SolverState], object]
_Method = TypeVar("_Method", bound=Callable[..., Any])
# Parameters that do not change what a training does, or tell only when it ends.
_INCIDENTAL = {"verbose", "n_jobs", "callbacks", "checkpoint", "warm_start", "preprocessor"}
_INCIDENTAL |= {"x"}


def check_callbacks(callbacks: Any) -> tuple[Callback, ...]:
    """Return the callbacks, checked to be functions."""
    try:
        found: tuple[Any, ...] = () if callbacks is None else tuple(callbacks)
    except TypeError as error:
        raise TypeError(f"callbacks must be several functions, got {callbacks!r}.") from error
    for callback in found:
        if not callable(callback):
            raise TypeError(f"callbacks must be functions of a SolverState, got {callback!r}.")
    return found


class TrainedLearner(TellsCallbacks, BaseMetricLearner):
    """Base of such learners: the parameters of a training, and what happens in it."""

    batch_size: int | None
    callbacks: Any = None
    checkpoint: Any = None
    early_stopping: bool | str = False
    max_epochs: int
    n_iter_no_change: int = 10
    n_jobs: int | None = None
    random_state: Any = None
    solver: str
    validation_fraction: float = 0.1
    verbose: bool | int = False
    warm_start: bool = False

    _solvers: tuple[str, ...] = ("lbfgs", "sgd")
    _stoppings: tuple[str, ...] = ()  # values of `early_stopping` beside True and False
    _by_folds: tuple[str, ...] = ("lbfgs",)  # solvers with which "auto" is "folds"
    # Memory of a solver: numbers for each parameter, points in memory so often, and what layers
    # give for a point.
    _of_all, _of_batches = (50, 7, 14), (16, 4, 4)
    _course: Any = None  # where `partial_fit` goes on

    def _check_training(self) -> tuple[Callback, ...]:
        """Check these parameters, and return the callbacks."""
        check_choice("solver", self.solver, self._solvers)
        check_count("max_epochs", self.max_epochs)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)
        check_verbose(self.verbose)
        check_range("validation_fraction", self.validation_fraction, high=1, positive=True)
        if not (isinstance(self.early_stopping, str) and self.early_stopping in self._stoppings):
            check_bool("early_stopping", self.early_stopping)
        check_bool("warm_start", self.warm_start)
        check_count("n_iter_no_change", self.n_iter_no_change)
        check_path("checkpoint", self.checkpoint)
        if self.checkpoint is not None and self.warm_start and Path(self.checkpoint).exists():
            raise ValueError(
                f"checkpoint {self.checkpoint} is there already, and warm_start asks to start from "
                "the last fit instead: name another file, delete it, or set warm_start=False."
            )
        as_threads(self.n_jobs)
        return check_callbacks(self.callbacks)

    def _refuse_beyond_memory(self, X: Any, shapes: Sequence[tuple[int, ...]]) -> None:
        """Raise MemoryError where training parameters of these shapes takes more than it may."""
        n_parameters = sum(math.prod(shape) for shape in shapes)
        n_outputs = sum(shape[0] for shape in shapes if len(shape) == 2)  # of all layers
        every = self.solver == "lbfgs"
        vectors, copies, layers = self._of_all if every else self._of_batches
        rows = X.shape[0] if every else min(X.shape[0], int(self.batch_size or 0))
        needed = 8 * n_parameters * vectors + rows * n_outputs * X.dtype.itemsize * layers
        if isinstance(X, Source):
            needed *= 2  # of which half is for chunks of points
        else:
            needed += nbytes(X) * copies
        what = f"{type(self).__name__} of {X.shape[0]} points with {n_parameters} parameters"
        refuse_beyond(needed, what, "give fewer points or features, or a smaller map")

    def _refuse_in_parts(self) -> None:
        """Refuse what `partial_fit` has no use for."""
        for name in ("early_stopping", "checkpoint"):
            if getattr(self, name) not in (False, None, "auto"):
                raise ValueError(f"partial_fit needs {name} as it is by default.")

    def _begin(self, *of: Any) -> tuple[np.random.RandomState, Checkpoint | None, Any]:
        """Return what draws at random, the checkpoint, and what was found in it.

        A training with a checkpoint depends on its data and parts, `of`, and on its parameters.
        """
        if self.checkpoint is None:
            return check_random_state(self.random_state), None, None
        checkpoint = Checkpoint(self.checkpoint, *of, self._decisive())
        found = checkpoint.read()
        if found is None:
            seed = self.random_state
            if not isinstance(seed, (int, np.integer)):
                seed = check_random_state(seed).randint(2**31 - 1)
            found = {"seed": int(seed)}
        return np.random.RandomState(found["seed"]), checkpoint, found

    def _decisive(self) -> dict[str, Any]:
        """Return the parameters that a training depends on."""
        names = set(self.get_params(deep=False)) - _INCIDENTAL - {"max_iter"}
        if self.solver != "sgd":  # whose steps depend on how many there will be
            names -= {"max_epochs"}
        return {name: getattr(self, name) for name in sorted(names)}

    def _hold_out(
        self, labels: NDArray[np.int64] | None, X: Any, rng: np.random.RandomState
    ) -> tuple[Any, NDArray[np.int64] | None]:
        """Return the rows to train on, and those to judge by, if early stopping needs any.

        Of classes with two points or more, each has its share among both. Where X is not in memory,
        rows to train on are in ascending order, and no more are judged by than a block has.
        """
        if not self.early_stopping or isinstance(self.early_stopping, str):
            return slice(None), None
        n = X.shape[0]
        n_held_out = max(1, round(self.validation_fraction * n))
        if isinstance(X, Source):
            n_held_out = min(n_held_out, block_rows(X.dtype.itemsize * X.shape[1]))
        counts = np.zeros(1) if labels is None else np.unique(labels, return_counts=True)[1]
        alike = labels is not None and counts.min() >= 2 and len(counts) <= n_held_out
        least = max(2, len(counts)) if alike else 2
        if n - n_held_out < least:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} of {n} points leaves fewer than "
                f"{least} to train on{', one of each class' if least > 2 else ''}: lower it, or "
                "set early_stopping=False."
            )
        train, test = train_test_split(
            np.arange(n), test_size=n_held_out, random_state=rng,
            stratify=by_appearance(labels) if alike and labels is not None else None,
        )  # fmt: skip
        if isinstance(X, Source):
            train.sort()
        if labels is not None and not np.isin(labels[test], labels[train]).any():
            raise ValueError(
                "early_stopping found no class both among the held-out points and the others: give "
                "more points of a class, or set early_stopping=False."
            )
        return train, test

    @contextmanager
    def _watching(
        self,
        monitor: Monitor,
        keep: Callable[[Vector, bool], None],
        parameters: Callable[[Vector], list[Array]],
        callbacks: tuple[Callback, ...],
        *,
        checkpoint: Checkpoint | None = None,
        found: Any = None,
        unit: float = 1.0,
        quantity: str = "objective",
        total: int | None = None,
    ) -> Iterator[None]:
        """Show progress, call back and write checkpoints while a solver runs under a monitor.

        In the end, even of a training that is interrupted, ``keep(x, True)`` sets the fitted
        attributes of the chosen parameters; before callbacks ``keep(x, False)`` those of the
        present ones. Objectives are multiplied by `unit`. One that diverged is reported after that.
        """
        most = int(getattr(self, self._iterations))
        if checkpoint is not None and "arrays" in found:
            checkpoint.restore(monitor, found, self._iterations, most)
        progress = None
        if self.verbose:
            progress = Progress(type(self).__name__, total or self._total, quantity)

        if self._told is not None:
            name = "iteration" if self.solver == "lbfgs" else "epoch"
            self._told.begin(name, max(0, (total or self._total) - len(monitor.curve)))

        def observer(iteration: int, value: float, x: Vector) -> bool:
            if progress is not None:
                progress(iteration, value * unit)
            told = False
            if callbacks:
                keep(x, False)
                score = self._score_of(monitor.costs[-1]) if monitor.costs else None
                state = SolverState(iteration, value * unit, parameters(x), self, score)
                answers = [callback(state) for callback in callbacks]
                told = any(answers)
            if self._told is not None:
                told = self._told.iteration(lambda: keep(x, False)) or told
            monitor.ended = most if told else 0
            if checkpoint is not None:
                checkpoint.write(found["seed"], monitor)
            return told

        monitor.observer, diverged = observer, False
        try:
            yield
        except DivergedError:
            diverged = True
        finally:
            if progress is not None:
                progress.close()
            keep(self._chosen(monitor), True)
            monitor.observer = None
        if diverged:
            self._report_divergence(monitor)

    def _solve(
        self, objective: Objective, monitor: Monitor, batches: Callable[[], Iterable[Batch]]
    ) -> None:
        """Run the solver from where the monitor is."""
        if self.solver == "lbfgs":
            self._solve_all(objective, monitor)
            return
        steps = self._steps(objective, monitor.start, int(self.max_epochs))
        if monitor.moments and len(monitor.moments) != steps.rule.n_moments:
            raise ValueError(f"checkpoint {self.checkpoint} is not of solver {self.solver!r}.")
        minimize_minibatch(
            objective, monitor.x, batches, monitor, max_epochs=int(self.max_epochs), steps=steps
        )

    def _solve_all(self, objective: Objective, monitor: Monitor) -> None:
        """Run the solver that looks at all points."""
        raise NotImplementedError

    def _steps(self, objective: Objective, x0: Vector, max_epochs: int | None) -> Steps:
        """Return the steps of mini-batches."""
        raise NotImplementedError

    def _keep_course(self, monitor: Monitor, last: bool, unit: float = 1.0) -> None:
        """Set the attributes that tell of the course of a training, in the end or before."""
        del last
        self.loss_curve_ = [value * unit for value in monitor.curve]
        self.n_iter_ = len(monitor.curve)
        if monitor.costs:
            self.validation_scores_ = list(map(self._score_of, monitor.costs))

    def _report_divergence(self, monitor: Monitor) -> None:
        """Raise where nothing was learned before a training diverged, else warn."""
        if not monitor.curve:
            raise ValueError(
                "The loss is not finite at the start: rescale X, choose another `init`, or see "
                "that your own loss is finite, and its gradient."
            ) from None
        warn_user(
            f"Training diverged in epoch {len(monitor.curve) + 1}: the best parameters are kept. "
            "Lower learning_rate.",
            ConvergenceWarning,
        )

    @property
    def _iterations(self) -> str:
        """The parameter that says how many iterations there are."""
        return "max_iter" if self.solver == "lbfgs" and hasattr(self, "max_iter") else "max_epochs"

    @property
    def _total(self) -> int:
        """The largest number of iterations that progress may be made of."""
        return int(getattr(self, self._iterations))

    def _score_of(self, cost: float) -> float:
        """Return the score that a cost on held-out points stands for."""
        return -cost

    def _chosen(self, monitor: Monitor) -> Vector:
        """Return the parameters to keep."""
        best: Vector = monitor.best_x
        return best


def with_batches(method: _Method) -> _Method:
    """Make a method one that there is unless the solver looks at all points in every iteration."""
    available: _Method = available_if(lambda learner: learner.solver != "lbfgs")(method)
    return available
