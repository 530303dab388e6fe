"""The loop of every trained learner: a solver, its callbacks, and the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from metricfast._core.progress import Progress
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.types import Array
from metricfast._core.warn import warn_user
from metricfast.samplers import Batch
from metricfast.training.callbacks import Checkpoint, OpenCheckpoint
from metricfast.training.history import DivergedError, History, SolverState, Vector
from metricfast.training.objective import Objective
from metricfast.training.problem import Traits
from metricfast.training.solvers import MiniBatchSolver, Solver

__all__ = ["Observers", "solve", "train"]

Batches = Callable[[], Iterable[Batch]]


@dataclass
class Observers:
    """Progress, callbacks and the checkpoint of a training.

    Attributes
    ----------
    estimator : learner
        `verbose` says whether to show progress.
    set_fitted : callable
        ``set_fitted(x, final)`` sets the fitted attributes of the vector x: with ``final=True`` of
        the result, else of the present iteration.
    parameters : callable
        Turns x into the arrays that callbacks see.
    callbacks : list
    checkpoint : OpenCheckpoint or None
    unit : float
        Factor of objectives that are shown.
    quantity : str
        What progress calls the objective.
    score : callable
        Turns the cost of validation points into a score.
    """

    estimator: Any
    set_fitted: Callable[[Vector, bool], None]
    parameters: Callable[[Vector], list[Array]]
    callbacks: list[Any] = field(default_factory=list)
    checkpoint: OpenCheckpoint | None = None
    unit: float = 1.0
    quantity: str = "objective"
    score: Callable[[float], float] = float.__neg__

    def begin(self, solver: Solver, history: History, n_iter: int) -> None:
        """Show progress of at most `n_iter` iterations, and begin scikit-learn's task."""
        self._n_iter, self._history = solver.n_iter, history
        kind = type(self.estimator).__name__
        self._progress = None
        if self.estimator.verbose:
            self._progress = Progress(kind, n_iter, self.quantity)
        self._task = self.estimator._fit_task
        if self._task is not None:
            name = "epoch" if solver.by_batches else "iteration"
            self._task.begin(name, max(0, n_iter - len(history.curve)))

    def __call__(self, iteration: int, value: float, x: Vector) -> bool:
        """Report an iteration, and return whether a callback asks to stop."""
        history, stops = self._history, False
        if self._progress is not None:
            self._progress(iteration, value * self.unit)
        functions = [each for each in self.callbacks if not isinstance(each, Checkpoint)]
        if functions:
            self.set_fitted(x, False)
            score = self.score(history.costs[-1]) if history.costs else None
            state = SolverState(
                iteration, value * self.unit, self.parameters(x), self.estimator, score
            )
            answers = [callback(state) for callback in functions]
            stops = any(answers)
        if self._task is not None:
            stops = self._task.iteration(lambda: self.set_fitted(x, False)) or stops
        history.ended = self._n_iter if stops else 0
        if self.checkpoint is not None:
            self.checkpoint.write(history)
        return stops

    def end(self) -> None:
        """Leave the line of progress."""
        if self._progress is not None:
            self._progress.close()


def train(
    objective: Objective,
    history: History,
    solver: Solver,
    observers: Observers,
    *,
    epoch_from: Vector | None = None,
) -> bool:
    """Minimise an objective, and set the fitted attributes of the result.

    The training continues from a checkpoint if there is one. An interrupted training sets the
    fitted attributes as well.

    Parameters
    ----------
    objective : Objective
    history : History
    solver : solver
    observers : Observers
    epoch_from : ndarray, optional
        Train for a single epoch, of a training that began at this vector.

    Returns
    -------
    bool
        Whether the training diverged.

    Raises
    ------
    ValueError
        If the loss was not finite before anything was learned, or the checkpoint belongs to another
        training.

    Warns
    -----
    ConvergenceWarning
        If the training diverged later.
    """
    batches = _batches(objective, history, solver)  # before a checkpoint restores the generator
    if observers.checkpoint is not None:
        observers.checkpoint.restore(history, solver)
    observers.begin(solver, history, solver.n_iter if epoch_from is None else 1)
    history.observer, diverged = observers, False
    try:
        solve(objective, history, solver, batches, epoch_from=epoch_from)
    except DivergedError:
        diverged = True
    finally:
        observers.end()
        last = objective.traits.keeps_last and not history.costs
        observers.set_fitted(history.x if last else history.best_x, True)
        history.observer = None
    if diverged:
        _report_divergence(objective.traits, history)
    return diverged


def solve(
    objective: Objective,
    history: History,
    solver: Solver,
    batches: Batches | None = None,
    *,
    epoch_from: Vector | None = None,
) -> None:
    """Run a solver from where a history is, to its end or for a single epoch."""
    batches = batches or _batches(objective, history, solver)
    with one_blas_thread():
        if epoch_from is not None:
            solver.run_epoch(objective, history, batches, epoch_from)  # type: ignore[arg-type]
        elif history.max_iter == 0:
            history.record_start(objective(history.start)[0], history.start)
        else:
            solver.minimize(objective, history, batches)  # type: ignore[arg-type]


def _batches(objective: Objective, history: History, solver: Solver) -> Batches | None:
    if not isinstance(solver, MiniBatchSolver):
        return None
    return objective.batches(history.rng, solver.batch_size)


def _report_divergence(traits: Traits, history: History) -> None:
    """Raise ValueError if nothing was learned, else warn."""
    if not (history.curve or (traits.keeps_last and history.step)):
        raise ValueError(f"The loss is not finite in the first epoch: {traits.remedy}.")
    kept = "last parameters with a finite loss" if traits.keeps_last else "best parameters"
    warn_user(
        f"Training diverged in epoch {len(history.curve) + 1}, step {history.step}: the {kept} are "
        "kept. Lower learning_rate, and bring the features to a spread of about 1.",
        ConvergenceWarning,
    )
