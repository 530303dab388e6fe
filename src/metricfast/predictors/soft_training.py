"""The training of maps under which soft votes predict well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from metricfast.training.history import DivergedError
from metricfast.training.objective import Objective
from metricfast.training.problem import EMBEDDING, Problem
from metricfast.training.samples import Samples
from metricfast.training.train import solve

__all__ = ["Task", "Training", "folds", "hold_out", "sharpness"]

# Factors of a trained map to try, from 1/4 to 16. Batches have fewer points than there are, and a
# map grows by small steps, so that points may be better predicted by one that is larger.
_FACTORS = tuple(2.0 ** (np.arange(-4, 9) / 2))


@dataclass(frozen=True)
class Task:
    """What is to be predicted of which points.

    Attributes
    ----------
    samples : Samples
        Encoded points, and their weights.
    values : ndarray of shape (n_samples, n_values)
        What votes are the mean of, in the precision of the points.
    losses : list of (loss, ndarray of shape (n_samples,))
        Of each output, and its labels.
    costs : callable
        Of such means for some queries, and the rows of these: how bad each is.
    n_confirming : int
        Held-out points that it takes to choose the sharpness of votes.
    """

    samples: Samples
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

    Attributes
    ----------
    held_out : ndarray of int64 or None
        The rows that judge.
    diverged : bool
    """

    def __init__(
        self, task: Task, course: Course, embedding: Embedding, split: tuple[Any, Any], seed: int
    ) -> None:
        train, self.held_out = split
        self.embedding, self.task, self.diverged = embedding, task, False
        self._course, self._train, rng = course, train, np.random.RandomState(seed)
        samples = task.samples.take(train)
        self._solver, batches = course.plan(embedding, len(samples.X))
        losses = [
            loss.on(y[train], samples.weight, n_jobs=course.n_jobs) for loss, y in task.losses
        ]
        problem = Problem(
            samples, _Outputs(losses), embedding=embedding, traits=EMBEDDING, batches=batches,
            n_jobs=course.n_jobs,
        )  # fmt: skip
        start = initial_parameters(embedding, samples.X, None, rng)
        self._objective = Objective(problem, start)
        self._history = self._objective.history(rng, quiet=True)
        self._judges: Samples | None = None
        if self.held_out is not None:
            self._judges = replace(task.samples.take(self.held_out), database=samples)
            self._history.judge(self._judge, course.n_iter_no_change)

    def run(self, label: str = "", max_epochs: int | None = None) -> Training:
        """Train on until held-out points are predicted no better, or so many epochs in all."""
        history, course = self._history, self._course

        def observer(epoch: int, value: float, x: Array) -> bool:
            progress(epoch, value)
            stopped = course.fit_task is not None and course.fit_task.iteration()
            return stopped or course.late

        if self.diverged or (history.curve and course.late):
            return self

        most = min(self._solver.n_iter, max_epochs or self._solver.n_iter)
        with Progress(label, most - len(history.curve), shown=course.verbose) as progress:
            history.observer, history.max_iter = observer, most
            try:
                solve(self._objective, history, self._solver)
            except DivergedError:
                self.diverged = True
            finally:
                history.observer = None
        return self

    @property
    def costs(self) -> list[float]:
        """How bad held-out points were predicted after each epoch; without any, the loss."""
        return self._history.curve if self._judges is None else self._history.costs

    @property
    def cost(self) -> float:
        """The least of these."""
        return min(self.costs, default=np.inf)

    @property
    def still(self) -> bool:
        """Whether the first epoch had no gradient."""
        return self._history.still

    def learned(self, factor: float) -> list[Array]:
        """Return the parameters of the best epoch, or of the last where no points judge.

        Embedded points are multiplied by a factor.
        """
        arrays = self._objective.parameters(self._best)
        first = len(arrays) - (2 if isinstance(self.embedding, MLP) else 1)  # of the last layer
        scaled = [array * array.dtype.type(factor) for array in arrays[first:]]
        return arrays[:first] + scaled

    def held_out_means(self, Z: Array, values: Floats) -> Floats:
        """Return the votes of the points that were trained on for those that judge.

        `Z` are all points under the map, and `values` what votes are the mean of.
        """
        voters = SoftVotes(Z[self._train], self._objective.samples.weight, self._course.n_jobs)
        return voters.means(values[self._train], Z[self.held_out], n_jobs=self._course.n_jobs)

    def costs_of_factors(self, factors: Sequence[float]) -> list[float]:
        """Return the mean costs of held-out points under multiples of the map."""
        assert self._judges is not None
        sides = self._objective.embed(self._judges, self._best)
        return [self._mean(self._costs(*sides, factor)) for factor in factors]

    def better_than(self, other: Training, n_errors: float) -> bool:
        """Return whether held-out points are predicted better, by so many standard errors."""
        gains = other._predicted(other._history.best_x) - self._predicted(self._history.best_x)
        assert self._judges is not None
        weight = np.ones(len(gains)) if self._judges.weight is None else self._judges.weight
        mean = np.average(gains, weights=weight)
        error = np.sqrt((weight**2 * (gains - mean) ** 2).sum()) / weight.sum()
        return bool(mean > n_errors * error)

    @property
    def _best(self) -> Array:
        best: Array = self._history.best_x if self._history.costs else self._history.x
        return best

    def _judge(self, x: Array) -> float:
        return self._mean(self._predicted(x))

    def _mean(self, costs: Floats) -> float:
        assert self._judges is not None
        return float(np.average(costs, weights=self._judges.weight))

    def _predicted(self, x: Array) -> Floats:
        """Return how badly each held-out point is predicted by the others."""
        assert self._judges is not None
        return self._costs(*self._objective.embed(self._judges, x))

    def _costs(self, queries: Array, Z: Array, factor: float = 1.0) -> Floats:
        assert self.held_out is not None
        task, n_jobs = self.task, self._course.n_jobs
        queries, Z = (side * side.dtype.type(factor) for side in (queries, Z))
        votes = SoftVotes(Z, self._objective.samples.weight, n_jobs)
        means = votes.means(task.values[self._train], queries, n_jobs=n_jobs)
        return task.costs(means, self.held_out)


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
    judged = [each for each in trained if each.held_out is not None]
    sizes = [len(each.held_out) for each in judged]
    if not judged or sum(sizes) < judged[0].task.n_confirming:
        return 1.0
    costs = np.average([each.costs_of_factors(_FACTORS) for each in judged], 0, weights=sizes)
    return float(_FACTORS[int(costs.argmin())])


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
