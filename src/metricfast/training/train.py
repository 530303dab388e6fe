"""The training loop of all iterative learners: cost, solver, callbacks, and result."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.arrays import as_threads
from metricfast._core.progress import Progress
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.warn import SECONDS, warn_if_long, warn_user
from metricfast._core.wide_map import to_array
from metricfast.training.callbacks import Callback
from metricfast.training.checkpoint import CheckpointFile
from metricfast.training.history import DivergedError, History, SolverState, Vector
from metricfast.training.objective import Objective
from metricfast.training.problem import Traits
from metricfast.training.solvers import Solver

# Trainings of a linear map that take as long as a learner, if several are compared.
_TRAININGS = 2
# Most iterations that a training usually needs; copies of the parameters, with moments.
_ITERATIONS, _COPIES = 100, 6
# Gibibytes that a user should know of.
_LARGE = 2.0


class _Observers:
    """Progress, callbacks, the checkpoint and the time limit of a training, if it has any."""

    def __init__(
        self, learner: Any, objective: Objective, history: History, solver: Solver, left: int,
        callbacks: Sequence[Callback], checkpoint: CheckpointFile | None, part: str,
        deadline: float,
    ) -> None:  # fmt: skip
        self._learner, self._objective, self._history = learner, objective, history
        self._functions, self._checkpoint, self._deadline = callbacks, checkpoint, deadline
        self._task = learner._fit_task
        self._set_fitted = None if part else partial(learner._set_fitted, objective, history)
        self._n_iter, label = solver.n_iter, part or type(learner).__name__
        quantity = objective.traits.quantity
        self.progress = Progress(label, left, quantity, shown=learner.verbose)
        if self._task is not None and not part:
            self._task.begin("epoch" if solver.by_batches else "iteration", left)

    def __call__(self, iteration: int, value: float, x: Vector) -> bool:
        """Report an iteration, and return whether to stop."""
        objective, history = self._objective, self._history
        stops = time.monotonic() > self._deadline
        value *= objective.samples.unit
        self.progress(iteration, value)
        set_fitted = self._set_fitted and partial(self._set_fitted, x, False)
        if self._functions:
            if set_fitted is not None:
                set_fitted()
            score = objective.score(history.costs[-1]) if history.costs else None
            arrays = [to_array(each) for each in objective.learned(x)]
            state = SolverState(iteration, value, arrays, self._learner, score)
            answers = [callback(state) for callback in self._functions]
            stops = stops or any(answers)
        if self._task is not None:
            stops = self._task.iteration(set_fitted) or stops
        history.ended = self._n_iter if stops else 0
        if self._checkpoint is not None:
            self._checkpoint.write(self._checkpoint.seed, history)
        return stops


def train(
    learner: Any,
    objective: Objective,
    history: History,
    solver: Solver,
    callbacks: Sequence[Callback] = (),
    checkpoint: CheckpointFile | None = None,
    *,
    epoch_from: Vector | None = None,
    part: str = "",
    deadline: float = math.inf,
) -> bool:
    """Minimise an objective, and set the fitted attributes of the result.

    The training continues from a checkpoint if there is one. An interrupted training sets the
    fitted attributes as well.

    Parameters
    ----------
    learner : TrainedLearner, or a predictor
        `verbose` says whether to show progress; `_set_fitted` is called, unless there is a `part`.
    objective : Objective
    history : History
    solver : solver
    callbacks : list of callables, optional
    checkpoint : CheckpointFile, optional
    epoch_from : ndarray, optional
        Train for a single epoch, of a training that began at this vector.
    part : str, optional
        The name of one of several trainings of a fit, for progress. The learner itself begins its
        task, sets the fitted attributes and reports divergence.
    deadline : float, optional
        The value of `time.monotonic` after which training ends.

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
    batches = objective.batches(history.rng, solver)  # before the generator is restored
    if checkpoint is not None:
        checkpoint.restore(history, solver)
        if objective.refresh_every and not np.array_equal(history.refreshed, history.start):
            objective.refresh(history.refreshed)  # the state of the loss at that time
    n_iter = solver.n_iter if history.max_iter is None else history.max_iter
    left = max(0, n_iter - len(history.curve)) if epoch_from is None else 1
    observers, diverged = None, False
    reports = learner.verbose or learner._fit_task is not None
    if reports or callbacks or checkpoint is not None or deadline < math.inf:
        observers = _Observers(
            learner, objective, history, solver, left, callbacks, checkpoint, part, deadline
        )
    history.observer = observers
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
                solver.minimize(objective, history, batches)
    except DivergedError:
        diverged = True
    finally:
        history.observer = None
        if observers is not None:
            observers.progress.close()
        if not part:
            last = objective.traits.keeps_last and not history.costs
            learner._set_fitted(objective, history, history.x if last else history.best_x, True)
    if diverged and not part:
        _report_divergence(objective.traits, history)
    return diverged


def solve(objective: Objective, history: History, solver: Solver) -> None:
    """Run a solver from the state of a history, without observers."""
    with one_blas_thread():
        solver.minimize(objective, history, objective.batches(history.rng, solver))


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


def warn_of_cost(
    shapes: Sequence[tuple[int, ...]], n_points: int, n_compared: int, batch: int, solver: Solver,
    n_jobs: int | None,
) -> None:  # fmt: skip
    """Warn before a training that may take more than a minute, or gigabytes of memory.

    `shapes`: of the parameters; the last has as many rows as there are components or proxies.
    `n_compared`: the number of points that a point is compared with in an iteration.
    `batch`: the number of points, or anchors, of a step.
    """
    n_iter = min(solver.n_iter, _ITERATIONS)
    n_entries = sum(math.prod(map(int, shape)) for shape in shapes)
    width = int(shapes[-1][0]) if shapes else 0  # `Identity` has no parameters
    pairs = float(n_points) * n_compared * (SECONDS["pair"] + width * SECONDS["coordinate"])
    n_steps = n_points / int(batch)
    of_entry = n_points * SECONDS["entry and point"] + n_steps * SECONDS["entry and step"]
    changes, steps = n_entries * of_entry, n_steps * SECONDS["step"]
    seconds, size = n_iter * (pairs + changes + steps), _COPIES * 8 * n_entries / 2**30
    work = f"changes all {n_entries:,} parameters"
    faster = "a small n_components, such as 64, or PCA of the points before `fit`"
    if pairs > changes:
        work = f"compares all pairs of {n_points:,} points"
        faster = "solver='adam', whose steps compare the points of one batch"
    if pairs > changes and solver.by_batches:
        work = f"compares {n_points:,} points with {n_compared:,} each"
        faster = "a smaller max_epochs"
    if steps > max(pairs, changes):
        work = f"takes {n_steps:,.0f} steps"
        faster = "a smaller max_epochs, or larger batches"
    work = f"Each iteration {work}: {n_iter} iterations, and some more for the judge,"
    memory = f"{size:,.1f} GiB" if size > _LARGE else ""
    warn_if_long(seconds, work, faster, as_threads(n_jobs), memory)


def warn_of_race(n_learners: int, n_points: int, n_features: int, n_jobs: int | None) -> None:
    """Warn before a choice among learners without a time limit that may take minutes."""
    width = min(n_features, n_points)
    pairs = n_points**2 * (SECONDS["pair"] + width * SECONDS["coordinate"])
    iteration = pairs + width**2 * n_points * SECONDS["entry and point"]
    work = f"Trying {n_learners} learners on {n_points:,} points of {n_features:,} features"
    faster = "a time_limit in seconds, or some of the points"
    seconds = n_learners * _TRAININGS * _ITERATIONS * iteration
    warn_if_long(seconds, work, faster, as_threads(n_jobs))


def warn_of_decompositions(width: int, n_maps: int) -> None:
    """Warn before a judge computes so many maps of `width` features that it may take minutes."""
    work = f"`fit` computes {n_maps} maps of {width:,} features, which the judge compares. This"
    faster = "PCA of the points before `fit`, to some hundred components"
    warn_if_long(n_maps * SECONDS["decomposition"] * width**3, work, faster)
