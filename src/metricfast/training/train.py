"""The loop that every trained learner runs: a solver, its callbacks, and the result it leaves."""

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
from metricfast.training.solvers import Solver

__all__ = ["Observers", "report_divergence", "train"]


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
    problem: Any,
    history: History,
    solver: Solver,
    observers: Observers,
    batches: Callable[[], Iterable[Batch]] | None = None,
    *,
    chosen: Callable[[History], Vector] = lambda history: history.best_x,
    run: Callable[[], object] | None = None,
    n_iter: int | None = None,
) -> bool:
    """Minimise a problem from where its history stands, and set the result.

    The fitted attributes are set in the end, even of a training that was interrupted.

    Parameters
    ----------
    problem : Objective
    history : History
    solver : solver
    observers : Observers
    batches : callable, optional
        Draws the mini-batches of an epoch.
    chosen : callable, optional
        Returns the vector of the result; by default the best one.
    run : callable, optional
        What to run in place of the solver, such as a single epoch.
    n_iter : int, optional
        Largest number of iterations, for progress; by default that of the solver.

    Returns
    -------
    bool
        Whether the training diverged.
    """
    observers.begin(solver, history, solver.n_iter if n_iter is None else n_iter)
    history.observer, diverged = observers, False
    try:
        with one_blas_thread():
            if run is None:
                solver.minimize(problem, history, batches)  # type: ignore[arg-type]
            else:
                run()
    except DivergedError:
        diverged = True
    finally:
        observers.end()
        observers.set_fitted(chosen(history), True)
        history.observer = None
    return diverged


def report_divergence(history: History, remedy: str) -> None:
    """Raise ValueError with a remedy if nothing was learned before a training diverged, else warn.

    The warning is a ConvergenceWarning.
    """
    if not history.curve:
        raise ValueError(f"The loss is not finite in the first epoch: {remedy}.") from None
    warn_user(
        f"Training diverged in epoch {len(history.curve) + 1}: the best parameters are kept. "
        "Lower learning_rate.",
        ConvergenceWarning,
    )
