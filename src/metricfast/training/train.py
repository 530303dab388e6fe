"""The training loop of all iterative learners: solver, callbacks, and result."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import ConvergenceWarning

from metricfast._core.progress import Progress
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.warn import warn_user
from metricfast._core.wide_map import WideMap
from metricfast.training.callbacks import Checkpoint, OpenCheckpoint
from metricfast.training.history import DivergedError, History, SolverState, Vector
from metricfast.training.objective import Objective
from metricfast.training.problem import Traits
from metricfast.training.solvers import EpochBatches, MiniBatchSolver, Solver

__all__ = ["epoch_batches", "solve", "train"]


class _Observers:
    """Progress, callbacks and the checkpoint of a training."""

    def __init__(
        self, learner: Any, objective: Objective, history: History, callbacks: list[Any],
        checkpoint: OpenCheckpoint | None,
    ) -> None:  # fmt: skip
        self._learner, self._objective, self._history = learner, objective, history
        self._functions = [each for each in callbacks if not isinstance(each, Checkpoint)]
        self._checkpoint, self._task = checkpoint, learner._fit_task
        self._progress: Progress | None = None

    def begin(self, solver: Solver, n_iter: int) -> None:
        """Show progress of at most `n_iter` iterations, and begin scikit-learn's task."""
        self._n_iter = solver.n_iter
        if self._learner.verbose:
            quantity = self._objective.traits.quantity
            self._progress = Progress(type(self._learner).__name__, n_iter, quantity)
        if self._task is not None:
            name = "epoch" if solver.by_batches else "iteration"
            self._task.begin(name, max(0, n_iter - len(self._history.curve)))

    def set_fitted(self, x: Vector, final: bool = False) -> None:
        """Set the fitted attributes for the vector x: the result, or the current iteration."""
        self._learner._set_fitted(self._objective, self._history, x, final)

    def __call__(self, iteration: int, value: float, x: Vector) -> bool:
        """Report an iteration, and return whether a callback asks to stop."""
        objective, history, stops = self._objective, self._history, False
        value *= objective.unit
        if self._progress is not None:
            self._progress(iteration, value)
        if self._functions:
            self.set_fitted(x)
            score = objective.score(history.costs[-1]) if history.costs else None
            learned = objective.learned(x)
            arrays = [each.array() if isinstance(each, WideMap) else each for each in learned]
            state = SolverState(iteration, value, arrays, self._learner, score)
            answers = [callback(state) for callback in self._functions]
            stops = any(answers)
        if self._task is not None:
            stops = self._task.iteration(lambda: self.set_fitted(x)) or stops
        history.ended = self._n_iter if stops else 0
        if self._checkpoint is not None:
            self._checkpoint.write(history)
        return stops

    def end(self) -> None:
        """End the progress display."""
        if self._progress is not None:
            self._progress.close()


def train(
    learner: Any,
    objective: Objective,
    history: History,
    solver: Solver,
    callbacks: list[Any],
    checkpoint: OpenCheckpoint | None = None,
    *,
    epoch_from: Vector | None = None,
) -> bool:
    """Minimise an objective, and set the fitted attributes of the result.

    The training continues from a checkpoint if there is one. An interrupted training sets the
    fitted attributes as well.

    Parameters
    ----------
    learner : TrainedLearner
        `verbose` says whether to show progress; `_set_fitted` is called.
    objective : Objective
    history : History
    solver : solver
    callbacks : list
    checkpoint : OpenCheckpoint, optional
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
    batches = epoch_batches(objective, history, solver)  # before the generator is restored
    if checkpoint is not None:
        checkpoint.restore(history, solver)
    observers = _Observers(learner, objective, history, callbacks, checkpoint)
    observers.begin(solver, solver.n_iter if epoch_from is None else 1)
    history.observer, diverged = observers, False
    try:
        with one_blas_thread():
            if epoch_from is not None:
                solver.run_epoch(objective, history, batches, epoch_from)  # type: ignore[arg-type]
            elif history.max_iter == 0:
                batch = None
                if batches is not None and objective.traits.averages_batches:
                    batch = next(iter(batches()))  # the loss of all points would be slow
                history.record_start(objective(history.start, batch)[0], history.start)
            else:
                solver.minimize(objective, history, batches)  # type: ignore[arg-type]
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


def solve(objective: Objective, history: History, solver: Solver) -> None:
    """Run a solver from the state of a history, without observers."""
    with one_blas_thread():
        solver.minimize(objective, history, epoch_batches(objective, history, solver))  # type: ignore[arg-type]


def epoch_batches(objective: Objective, history: History, solver: Solver) -> EpochBatches | None:
    """Return a function that draws the mini-batches of an epoch, if the solver takes them."""
    if not isinstance(solver, MiniBatchSolver):
        return None
    return objective.batches(history.rng, solver.batch_size)


def _report_divergence(traits: Traits, history: History) -> None:
    """Raise ValueError if no finite iteration exists, else warn."""
    if not (history.curve or (traits.keeps_last and history.step)):
        raise ValueError(f"The loss is not finite in the first epoch: {traits.remedy}.")
    kept = "last parameters with a finite loss" if traits.keeps_last else "best parameters"
    warn_user(
        f"Training diverged in epoch {len(history.curve) + 1}, step {history.step}: the {kept} are "
        "kept. Lower learning_rate, and bring the features to a spread of about 1.",
        ConvergenceWarning,
    )
