"""Training on the votes of nearest neighbours: its course, and what it is stopped by."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from metricfast._core.arguments import check_bool, check_choice, check_count, check_range
from metricfast._core.arrays import as_threads
from metricfast._core.progress import Progress
from metricfast._core.threadpool import one_blas_thread
from metricfast.distances.inference import check_method
from metricfast.distances.neighbors import kneighbors
from metricfast.exceptions import LossOverflowError
from metricfast.learners.votes.regularizers import REGULARIZERS
from metricfast.learners.votes.voting import largest_cost
from metricfast.losses import Gerrymander
from metricfast.training.minibatch import DivergedError, flat, parts
from metricfast.training.solvers import Monitor, minimize_hinge, minimize_minibatch
from metricfast.training.subgradient import minimize_subgradient

__all__ = [
    "Course",
    "VoteTraining",
    "check_vote_parameters",
    "hold_out",
    "unit_scale",
]

Array = NDArray[Any]
_QUANTITIES = ("objective", "surrogate", "vote_loss", "error", "infeasible")
# Epochs without progress that end a training.
_PATIENCE = 10
# Relative to the largest entry of a gradient.
_ROUNDING = 1e-13
# How many times the cost of wrong votes a penalty is that leaves little to learn.
_SWAMPED = 10


class Course(Monitor):
    """What happens from epoch to epoch; keeps the best parameters.

    Parameters
    ----------
    x0 : ndarray of shape (n_parameters,)
    weight : float
        Of all training points.
    label : str or None
        Named where progress is shown.
    max_epochs : int
    tol : float
        Relative decrease that counts as progress.
    validation : callable, optional
        Error of held-out points at some parameters: what the best parameters are chosen by, in
        place of the objective.
    observer : callable, optional
        As of `Monitor`.

    Attributes
    ----------
    before_best
        The parameters at the start of the epoch that ended at `best_x`.
    """

    def __init__(
        self,
        x0: Array,
        weight: float,
        label: str | None,
        max_epochs: int,
        tol: float,
        validation: Callable[[Array], float] | None,
        observer: Callable[[int, float, Array], object] | None,
    ) -> None:
        super().__init__(x0, observer)
        self._weight, self._tol, self._validation = weight, tol, validation
        self._noted: dict[float, tuple[float, float, float, int]] = {}
        self._progress = None if label is None else Progress(label, max_epochs)
        self.history: dict[str, list[float]] = {name: [] for name in _QUANTITIES}
        if validation is not None:
            self.history["validation_error"] = []
        self._mark, self._since = math.inf, 0
        self._last, self.before_best, self._best_objective = x0, x0, math.inf
        self._begin()

    def _begin(self) -> None:
        self._surrogate, self._votes, self._errors, self._infeasible = 0.0, 0.0, 0.0, 0

    def add(self, surrogate: float, loss: Gerrymander) -> None:
        """Count a batch that the loss was just called with."""
        self._surrogate += surrogate
        self._votes += loss.vote_loss_
        self._errors += loss.vote_errors_
        self._infeasible += loss.n_infeasible_

    def note(self, value: float, surrogate: float, loss: Gerrymander) -> None:
        """Remember a look at all points: the solver may or may not end an iteration there."""
        self._noted[value] = (surrogate, loss.vote_loss_, loss.vote_errors_, loss.n_infeasible_)

    def __call__(self, value: float, x: Array) -> bool:
        """Record the end of an epoch; True means stop."""
        if value in self._noted:
            self._surrogate, self._votes, self._errors, self._infeasible = self._noted[value]
            self._noted.clear()
        shares = self._votes / self._weight, self._errors / self._weight
        found = (value, self._surrogate, *shares, self._infeasible)
        for name, number in zip(_QUANTITIES, found, strict=True):
            self.history[name].append(float(number))
        self._begin()
        self.curve.append(float(value))
        judged = value
        if self._validation is not None:
            judged = self._validation(x)
            self.history["validation_error"].append(judged)
        if (judged, value) < (self.best_value, self._best_objective):
            self.best_x, self.best_value = x.copy(), float(judged)
            self.before_best, self._best_objective = self._last, value
        self._last = x.copy()
        if math.isinf(self._mark) or judged < self._mark - self._tol * abs(self._mark):
            self._mark, self._since = judged, 0
        else:
            self._since += 1
        if self._progress is not None:
            self._progress(len(self.curve), value)
        self.stopped = self._since >= _PATIENCE
        if self._observer is not None and self._observer(len(self.curve), float(value), x):
            self.stopped = True
        return self.stopped

    def close(self) -> None:
        """Leave the terminal in order."""
        if self._progress is not None:
            self._progress.close()


@dataclass(frozen=True)
class VoteTraining:
    """An objective, ``penalty + C * surrogate``, and how it is minimized.

    Attributes
    ----------
    estimator : estimator
        Its parameters say how.
    loss : Gerrymander
    n : int
        Number of training points.
    weight : float
        Their weight.
    surrogate : callable
        ``surrogate(arrays, rows)`` calls the loss for some training points and gives its value and
        gradients; rows are None for all points.
    penalty : callable
        ``penalty(arrays)`` gives value and gradients.
    project : callable, optional
        Brings arrays to where they may be.
    validation : callable, optional
        ``validation(arrays)`` gives the error of held-out points.
    observer : callable, optional
        Called as ``observer(epoch, objective, arrays)``; a true result ends the training.
    """

    estimator: Any
    loss: Gerrymander
    n: int
    weight: float
    surrogate: Callable[[list[Array], NDArray[np.int64] | None], tuple[float, list[Array]]]
    penalty: Callable[[list[Array]], tuple[float, list[Array]]]
    project: Callable[[list[Array]], list[Array]] | None = None
    validation: Callable[[list[Array]], float] | None = None
    observer: Callable[[int, float, list[Array]], bool] | None = None

    def fit(
        self,
        start: list[Array],
        rng: np.random.RandomState,
        keep: Callable[[list[Array]], None],
    ) -> None:
        """Train, and keep the best arrays, even of a training that is interrupted.

        The start is one of those to choose from. Sets `history_`, `loss_curve_`, `objective_` (of
        what is kept; the epoch's, where training is interrupted) and `n_iter_` of the estimator.
        """
        estimator = self.estimator
        shapes = [array.shape for array in start]
        x0 = flat([array.astype(np.float64) for array in start])
        validation = None
        if self.validation is not None:
            judge = self.validation

            def validation(x: Array) -> float:
                return judge(parts(x, shapes))

        observe = self.observer

        def observer(epoch: int, value: float, x: Array) -> bool:
            told = False
            if observe is not None:
                leave(x, value)
                told = observe(epoch, value, projected(x))
            return told or course.history["infeasible"][-1] >= self.n

        course = Course(
            x0, self.weight, type(estimator).__name__ if estimator.verbose else None,
            estimator.max_iter if estimator.solver == "lbfgs" else estimator.max_epochs,
            estimator.tol, validation, observer,
        )  # fmt: skip

        def evaluate(x: Array, rows: NDArray[np.int64] | None) -> tuple[float, Array]:
            arrays = parts(x, shapes)
            if self.project is not None:
                for array, projected in zip(arrays, self.project(arrays), strict=True):
                    array[:] = projected  # where the solver goes on
            try:
                surrogate, gradients = self.surrogate(arrays, rows)
            except LossOverflowError:
                surrogate, gradients = math.nan, []
            share = 1.0 if rows is None else len(rows) / self.n
            with np.errstate(over="ignore", invalid="ignore"):
                penalty, shrinking = self.penalty(arrays)
                value = estimator.C * surrogate + share * penalty
                gradient = share * flat(shrinking)
                if gradients:
                    gradient += estimator.C * flat(gradients)
                finite = math.isfinite(value) and np.isfinite(gradient @ gradient)
            if not finite:
                if rows is None and course.curve:
                    return math.inf, np.zeros_like(x)  # the line search comes back
                raise DivergedError
            if rows is None:
                course.note(value, surrogate, self.loss)
            else:
                course.add(surrogate, self.loss)
            # Steps do not depend on the size of a gradient: they must not be made of rounding.
            gradient[np.abs(gradient) < _ROUNDING * np.abs(gradient).max()] = 0
            return value, gradient

        def batches() -> list[NDArray[np.int64]]:
            size = estimator.batch_size or min(1000, max(32, self.n // 20))
            return np.array_split(rng.permutation(self.n), -(-self.n // size))

        def projected(x: Array) -> list[Array]:
            arrays = parts(x, shapes)
            return arrays if self.project is None else self.project(arrays)

        def leave(x: Array, value: float) -> None:
            keep(projected(x))
            estimator.objective_ = value
            estimator.history_ = {name: list(values) for name, values in course.history.items()}
            estimator.loss_curve_ = list(course.curve)
            estimator.n_iter_ = len(course.curve)

        def objective(x: Array) -> float:
            try:
                return evaluate(x.copy(), None)[0]
            except DivergedError:
                return math.inf

        diverged = False
        try:
            with one_blas_thread():
                if estimator.solver == "lbfgs":
                    minimize_hinge(
                        lambda x: evaluate(x, None), x0, course,
                        min_iter=1, max_iter=estimator.max_iter, tol=estimator.tol,
                    )  # fmt: skip
                else:
                    how = {
                        "max_epochs": estimator.max_epochs,
                        "learning_rate": estimator.learning_rate,
                    }
                    if estimator.solver == "sgd":
                        minimize_minibatch(evaluate, x0, batches, course, **how)
                    else:
                        minimize_subgradient(
                            evaluate, x0, batches, course, power_t=estimator.power_t, **how
                        )
        except DivergedError:
            diverged = True
        finally:
            course.close()
            leave(course.best_x, min(course.curve, default=math.inf))
        if course.curve:
            # Epochs are judged by sums over batches between which x moves: look once at all points.
            candidates = course.best_x, course.before_best, x0
            with one_blas_thread():
                judged = [(0.0 if validation is None else validation(x), objective(x))
                          for x in candidates]  # fmt: skip
            best = min(range(len(candidates)), key=judged.__getitem__)
            leave(candidates[best], judged[best][1])
            self._warn_of_penalty(self.penalty(start)[0])
        self._report(course, diverged)

    def _warn_of_penalty(self, penalty: float) -> None:
        """Warn where the penalty of the start is so large that the loss hardly matters."""
        most = self.estimator.C * self.weight * largest_cost(self.loss)
        if penalty > _SWAMPED * most > 0:
            warnings.warn(
                f"At the initial map the regularizer is {penalty:.2g}, and C times the loss of "
                f"wrong votes alone at most {most:.2g}: little can be learned. Bring the features "
                "to a spread of about 1 (StandardScaler) or raise C.",
                ConvergenceWarning,
                stacklevel=4,
            )

    @property
    def _remedy(self) -> str:
        return "or n_bins" if hasattr(self.estimator, "n_bins") else "or leave small classes out"

    def _report(self, course: Course, diverged: bool) -> None:
        """Raise or warn where the training was not what it should be."""
        if diverged and not course.curve:
            raise ValueError(
                "The loss is not finite in the first epoch: bring the features to a spread of "
                "about 1, or lower learning_rate, C or the costs of loss_matrix."
            )
        if diverged:
            warnings.warn(
                f"Training diverged in epoch {len(course.curve) + 1}: the best parameters are "
                "kept. Lower learning_rate.",
                ConvergenceWarning,
                stacklevel=4,
            )
        infeasible = int(course.history["infeasible"][-1]) if course.curve else 0
        if infeasible >= self.n:
            raise ValueError(
                f"no set of n_neighbors={self.estimator.n_neighbors} neighbours is right for any "
                f"point: lower n_neighbors, {self._remedy}."
            )
        if infeasible:
            warnings.warn(
                f"No set of n_neighbors={self.estimator.n_neighbors} neighbours is right for "
                f"{infeasible} of {self.n} points, which are left out of the loss: lower "
                f"n_neighbors, {self._remedy}.",
                UserWarning,
                stacklevel=4,
            )


def check_vote_parameters(estimator: Any) -> None:
    """Check what the learners share."""
    check_count("n_neighbors", estimator.n_neighbors)
    check_count("max_iter", estimator.max_iter)
    check_count("max_epochs", estimator.max_epochs)
    if estimator.batch_size is not None:
        check_count("batch_size", estimator.batch_size)
    check_range("C", estimator.C, positive=True)
    check_range("learning_rate", estimator.learning_rate, high=1e6, positive=True)
    check_range("tol", estimator.tol)
    check_range("validation_fraction", estimator.validation_fraction, high=1, positive=True)
    check_bool("early_stopping", estimator.early_stopping)
    check_method(estimator.ties, estimator.inference, "inference")
    as_threads(estimator.n_jobs)
    check_range("power_t", estimator.power_t)
    check_choice("solver", estimator.solver, ("lbfgs", "sgd", "subgradient"))
    check_choice("regularizer", estimator.regularizer, (None, *REGULARIZERS))


def hold_out(
    estimator: Any, labels: NDArray[np.int64], rng: np.random.RandomState
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Return the rows to train on and those to validate on, if early stopping needs any."""
    rows = np.arange(len(labels))
    if not estimator.early_stopping:
        return rows, None
    held_out = max(1, round(estimator.validation_fraction * len(labels)))
    if len(labels) - held_out < 2:
        raise ValueError(
            f"validation_fraction={estimator.validation_fraction} of {len(labels)} points leaves "
            "fewer than 2 to train on: lower it, or set early_stopping=False."
        )
    counts = np.bincount(labels)
    alike = labels if counts[counts > 0].min() >= 2 and (counts > 0).sum() <= held_out else None
    train, test = train_test_split(rows, test_size=held_out, stratify=alike, random_state=rng)
    return np.sort(train), np.sort(test)


def unit_scale(
    queries: Array, database: Array, exclude: NDArray[np.int64] | None, k: int, largest: float
) -> float:
    """Return the factor that brings the mean sum of k squared distances to the largest loss."""
    some = np.linspace(0, len(queries) - 1, min(len(queries), 1000)).astype(int)
    left_out = None if exclude is None else exclude[some]
    found = kneighbors(queries[some], database, k, exclude=left_out, squared=True)[0]
    mean = float(found.sum(axis=1, dtype=np.float64).mean())
    return math.sqrt((largest or 1.0) / mean) if mean > 0 else 1.0
