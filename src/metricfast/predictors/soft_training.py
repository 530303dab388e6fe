"""The training of maps under which soft votes predict well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from metricfast._core.progress import Progress
from metricfast._core.targets import by_appearance
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast.embeddings import MLP, Embedding
from metricfast.losses._call import BoundLoss, Loss
from metricfast.predictors.soft_course import Course
from metricfast.predictors.soft_votes import SoftVotes
from metricfast.training.adapters import initial_parameters
from metricfast.training.history import DivergedError, History
from metricfast.training.objective import Objective
from metricfast.training.preconditioner import parts
from metricfast.training.problem import EMBEDDING, Problem
from metricfast.training.samples import Samples
from metricfast.training.steps import minimize_minibatch

__all__ = ["Task", "Training", "folds", "hold_out", "sharpness"]

# Factors of a trained map to try, from 1/4 to 16. Batches have fewer points than there are, and a
# map grows by small steps, so that points may be better predicted by one that is larger.
_FACTORS = tuple(2.0 ** (np.arange(-4, 9) / 2))


@dataclass(frozen=True)
class Task:
    """What is to be predicted of which points.

    Attributes
    ----------
    points : ndarray of shape (n_samples, n_encoded)
    weight : ndarray of shape (n_samples,), or None
    values : ndarray of shape (n_samples, n_values)
        What votes are the mean of, in the precision of the points.
    losses : list of (loss, ndarray of shape (n_samples,))
        Of each output, and its labels.
    costs : callable
        Of such means for some queries, and the rows of these: how bad each is.
    n_confirming : int
        Held-out points that it takes to choose the sharpness of votes.
    """

    points: Array
    weight: Floats | None
    values: Array
    losses: list[tuple[Loss, Array]]
    costs: Callable[[Floats, Integers], Floats]
    n_confirming: int = 1


class Training:
    """The training of a map, on some points, which votes of these for others judge.

    Parameters
    ----------
    task, course, embedding
    split : tuple of ndarray of int64
        Rows to train on, and those to judge by; all, and None, where there are none to judge by.
    seed : int
        Decides the start and the batches.
    """

    def __init__(
        self, task: Task, course: Course, embedding: Embedding, split: tuple[Any, Any], seed: int
    ) -> None:
        train, test = split
        self.embedding, self.task, self._course = embedding, task, course
        self._train, self._test = train, test
        self._points, rng = task.points[train], np.random.RandomState(seed)
        self._plan = course.plan(embedding, len(self._points))
        start = initial_parameters(embedding, self._points, None, rng)
        self._shapes = [array.shape for array in start]
        weight = self._weight = None if task.weight is None else task.weight[train]
        losses = [loss.on(y[train], weight, n_jobs=course.n_jobs) for loss, y in task.losses]
        problem = Problem(
            Samples(self._points, None, np.empty(0), weight), _Outputs(losses),
            embedding=embedding, traits=EMBEDDING, n_jobs=course.n_jobs,
        )  # fmt: skip
        self._objective = Objective(problem, start)
        self._monitor = History(self._objective.x0, rng=rng, quiet=True)
        if test is not None:
            self._monitor.judge(self._judge, course.n_iter_no_change)
        self.diverged = False

    def run(self, label: str = "", max_epochs: int | None = None) -> Training:
        """Train on until held-out points are predicted no better, or so many epochs in all."""
        history, course, plan = self._monitor, self._course, self._plan

        def observer(epoch: int, value: float, x: Array) -> bool:
            progress(epoch, value)
            stopped = course.fit_task is not None and course.fit_task.iteration()
            return stopped or course.late

        if history.curve and course.late:
            return self

        most = min(plan.n_epochs, max_epochs or plan.n_epochs)
        with Progress(label, most - len(history.curve), shown=course.verbose) as progress:
            history.observer = observer
            try:
                minimize_minibatch(
                    self._objective,
                    lambda: plan.batches(history.rng), history,
                    max_epochs=0 if self.diverged else most,
                    steps=plan.steps(self.embedding, self._shapes),
                )  # fmt: skip
            except DivergedError:
                self.diverged = True
            finally:
                history.observer = None
        return self

    @property
    def costs(self) -> list[float]:
        """How bad held-out points were predicted after each epoch; without any, the loss."""
        return self._monitor.curve if self._test is None else self._monitor.costs

    @property
    def cost(self) -> float:
        """The least of these."""
        return min(self.costs, default=np.inf)

    def learned(self, factor: float) -> list[Array]:
        """Return the parameters of the best epoch, or of the last where no points judge.

        Embedded points are multiplied by a factor.
        """
        return self._scaled(self._best, factor)

    def _scaled(self, x: Array, factor: float) -> list[Array]:
        """Return parameters after which embedded points are multiplied by a factor."""
        arrays = parts(x, self._shapes)
        first = len(arrays) - (2 if isinstance(self.embedding, MLP) else 1)  # of the last layer
        return [
            array.copy() if place < first else array * array.dtype.type(factor)
            for place, array in enumerate(arrays)
        ]

    @property
    def _best(self) -> Array:
        judged = self._test is not None and self.costs
        best: Array = self._monitor.best_x if judged else self._monitor.x
        return best

    @property
    def held_out(self) -> Integers | None:
        """The rows that judge, None if there are none."""
        found: Integers | None = self._test
        return found

    @property
    def still(self) -> bool:
        """Whether the training points gave no gradient."""
        return self._monitor.still

    def held_out_means(self, Z: Array, values: Floats) -> Floats:
        """Return the votes of the points that were trained on for those that judge.

        `Z` are all points under the map, and `values` what votes are the mean of.
        """
        voters = SoftVotes(Z[self._train], self._weight, self._course.n_jobs)
        return voters.means(values[self._train], Z[self._test], n_jobs=self._course.n_jobs)

    def _judge(self, x: Array, factor: float = 1.0) -> float:
        weight = None if self.task.weight is None else self.task.weight[self._test]
        return float(np.average(self._predicted(x, factor), weights=weight))

    def _predicted(self, x: Array, factor: float = 1.0) -> Floats:
        """Return how badly each held-out point is predicted by the others."""
        task, n_jobs = self.task, self._course.n_jobs
        arrays = self._scaled(x, factor)
        Z, queries = (
            self.embedding._forward(arrays, points, n_jobs=n_jobs)[0]
            for points in (self._points, task.points[self._test])
        )
        votes = SoftVotes(Z, self._weight, n_jobs)
        means = votes.means(task.values[self._train], queries, n_jobs=n_jobs)
        return task.costs(means, self._test)

    def better_than(self, other: Training, n_errors: float = 1.0) -> bool:
        """Return whether held-out points are predicted better, by so many standard errors."""
        gains = other._predicted(other._monitor.best_x) - self._predicted(self._monitor.best_x)
        weight = np.ones(len(gains)) if self.task.weight is None else self.task.weight[self._test]
        mean = np.average(gains, weights=weight)
        error = np.sqrt((weight**2 * (gains - mean) ** 2).sum()) / weight.sum()
        return bool(mean > n_errors * error)


class _Outputs:
    """The sum of the losses of several outputs."""

    def __init__(self, losses: list[BoundLoss]) -> None:
        self.loss, self._losses = losses[0].loss, losses

    def __call__(self, *arguments: Any) -> tuple[float, Array]:
        """Value and gradient of points among themselves."""
        found = [each(*arguments) for each in self._losses]
        total: Array = np.sum([gradient for _, gradient in found], axis=0)
        return sum(value for value, _ in found), total

    def for_thread(self, n_jobs: int | None) -> _Outputs:
        """Return a copy for another thread."""
        return _Outputs([each.for_thread(n_jobs) for each in self._losses])


def sharpness(trained: list[Training]) -> float:
    """Return the factor of the maps with which held-out points are predicted best."""
    judged = [each for each in trained if each._test is not None]
    sizes = [len(each._test) for each in judged]
    if not judged or sum(sizes) < judged[0].task.n_confirming:
        return 1.0

    def cost(factor: float) -> float:
        return float(
            np.average([each._judge(each._best, factor) for each in judged], weights=sizes)
        )

    return float(min(_FACTORS, key=cost))


def folds(
    n: int, n_folds: int, codes: Integers | None, rng: RandomState
) -> list[tuple[Integers, Integers]]:
    """Return rows to train on, and to judge by: each row judges once, classes are divided alike."""
    order = rng.permutation(n)
    if codes is not None:
        order = order[np.argsort(by_appearance(codes)[order], kind="stable")]
    place = np.empty(n, np.int64)
    place[order] = np.arange(n) % n_folds
    return [
        (rng.permutation(np.flatnonzero(place != fold)), np.flatnonzero(place == fold))
        for fold in range(n_folds)
    ]


def hold_out(
    n: int, size: int, codes: Integers | None, rng: RandomState
) -> tuple[Integers, Integers]:
    """Return rows to train on, and so many to judge by; of each class alike where that can be."""
    alike = None
    if codes is not None:
        codes = by_appearance(codes)
        counts = np.bincount(codes)
        # Either side needs a point of each class.
        alike = codes if counts.min() > 1 and len(counts) <= min(size, n - size) else None
    train, test = train_test_split(np.arange(n), test_size=size, stratify=alike, random_state=rng)
    return train, test
