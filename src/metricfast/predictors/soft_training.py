"""The training of maps for soft votes, and the choice of what is trained by held-out points."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metricfast._core.progress import Progress
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast.embeddings import MLP, Embedding, Linear, Periodic
from metricfast.losses._call import BaseLoss, BoundLoss
from metricfast.predictors.soft_votes import SoftVotes
from metricfast.samplers import Batch, batch_count
from metricfast.selection._judge import Judge, Judgement, judge_costs
from metricfast.selection._measures import Measure
from metricfast.training.adapters import initial_parameters
from metricfast.training.history import DivergedError
from metricfast.training.objective import Objective
from metricfast.training.problem import EMBEDDING, Problem
from metricfast.training.samples import Samples
from metricfast.training.solvers import Adam, AdamW, MiniBatchSolver
from metricfast.training.train import solve

__all__ = ["LARGE", "CandidateBatches", "Course", "Task", "Training", "race", "sharpness"]

# With more than LARGE points, the choice of the embedding uses LARGE points only. The map is then
# trained for _EPOCHS_OF_LARGE epochs, with a learning rate that falls to zero.
LARGE, _EPOCHS_OF_LARGE = 4096, 40
# Epochs without a lower cost of held-out points, after which training stops.
_PATIENCE = 10
# Minimum number of anchors per batch, for which the learning rate is defined; maximum numbers of
# anchors and candidates.
_ANCHORS, _MOST_ANCHORS, _MOST_CANDIDATES = 256, 1024, 4096
# Number of candidates for a perceptron, and its weight decay relative to other maps.
_FEWER_CANDIDATES, _DECAY = 1024, 1000.0
# Epochs after which the worse half of the racers is given up; of the last racers and a perceptron.
_FIRST_ROUND, _LAST_ROUND = 5, 30
# Standard errors by which a perceptron must be better than the best other map.
_CLEARLY = 0.5
# Factors of a trained map to try, from 1/4 to 16. Batches have fewer points than there are, and a
# map grows by small steps, so that points may be better predicted by one that is larger.
_FACTORS = 2.0 ** (np.arange(-4, 9) / 2)


@dataclass(frozen=True)
class Course:
    """How maps are trained: the parameters of a predictor, and `time.monotonic()` at the end."""

    model: Any
    deadline: float = math.inf

    def plan(
        self, embedding: Embedding, n: int, max_epochs: int | None = None
    ) -> tuple[MiniBatchSolver, CandidateBatches]:
        """Return the solver and the batches for training an embedding on n points.

        A perceptron uses small batches, few candidates, strong weight decay and a falling learning
        rate. Other maps are trained for fewer epochs if there are many points.
        """
        model, decay, falls = self.model, self.model.weight_decay, n > LARGE
        anchors, candidates = min(max(n // 8, _ANCHORS), _MOST_ANCHORS), _MOST_CANDIDATES
        epochs = min(int(model.max_epochs), max_epochs or int(model.max_epochs))
        if isinstance(embedding, MLP):
            anchors, candidates, falls = _ANCHORS, _FEWER_CANDIDATES, True
            decay *= _DECAY if model.solver == "adamw" else 1.0
        elif n > LARGE:
            epochs = min(epochs, _EPOCHS_OF_LARGE)
        if not isinstance(model.batch_size, str):
            anchors = model.batch_size
        rate = model.learning_rate * math.sqrt(max(anchors / _ANCHORS, 1.0))
        kind = AdamW if model.solver == "adamw" else Adam
        solver = kind(rate, anchors, epochs, "cosine" if falls else "constant", decay)
        return solver, CandidateBatches(candidates, model.candidate_fraction)

    def until(self, end: float, share: float) -> Course:
        """Return a copy whose deadline is a share of the time remaining until `end`."""
        now = time.monotonic()
        return replace(self, deadline=now + share * max(end - now, 0.0))


@dataclass(frozen=True)
class CandidateBatches:
    """Batches of anchors, each with a bounded number of other points as candidates.

    The time of an epoch is therefore proportional to the number of points.
    """

    most: int
    fraction: float

    def __call__(
        self, objective: Objective, rng: RandomState, batch_size: int | None
    ) -> Callable[[], Iterator[Batch]]:
        """Return a function that draws the batches of one epoch."""
        assert batch_size is not None
        return lambda: self._drawn(objective.X.shape[0], rng, batch_size)

    def _drawn(self, n: int, rng: RandomState, n_anchors: int) -> Iterator[Batch]:
        order, pool = rng.permutation(n), rng.permutation(n)
        is_anchor = np.zeros(n, bool)
        for anchors in np.array_split(order, batch_count(n, n_anchors)):
            is_anchor[anchors] = True
            size = min(round(self.fraction * (n - len(anchors))), self.most)
            window = (rng.randint(n) + np.arange(size + len(anchors))) % n
            drawn = pool[window]
            candidates = drawn[~is_anchor[drawn]][:size]
            yield Batch(np.concatenate([anchors, candidates]), len(anchors))
            is_anchor[anchors] = False


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
    labels : ndarray of shape (n_samples, n_outputs)
    measure : callable, optional
        The measure of the judge, in place of these costs.
    n_confirming : int
        Held-out points that it takes to choose the sharpness of votes.
    """

    samples: Samples
    values: Array
    losses: list[tuple[BaseLoss, Array]]
    costs: Callable[[Floats, Integers], Floats]
    labels: Array
    measure: Measure | None = None
    n_confirming: int = 1


class Training:
    """The training of a map, on some points, which are the database of held-out ones.

    Parameters
    ----------
    task, course, embedding
    split : tuple of ndarray of int64
        Rows to train on, and those that are held out; None for all, and for none.
    seed : int
        Decides the start and the batches.
    max_epochs : int, optional

    Attributes
    ----------
    held_out : ndarray of int64 or None
    diverged : bool
    """

    def __init__(
        self, task: Task, course: Course, embedding: Embedding, split: tuple[Any, Any], seed: int,
        max_epochs: int | None = None,
    ) -> None:  # fmt: skip
        self._train, self.held_out = split
        self.embedding, self.task, self.diverged = embedding, task, False
        self._course, rng = course, np.random.RandomState(seed)
        samples, n_jobs = task.samples.take(self._train), course.model.n_jobs
        self._solver, batches = course.plan(embedding, len(samples.X), max_epochs)
        losses = [loss.on(y[self._train], samples.weight, n_jobs=n_jobs) for loss, y in task.losses]
        problem = Problem(
            samples, losses[0] if len(losses) == 1 else _Outputs(losses), embedding=embedding,
            traits=EMBEDDING, batches=batches, n_jobs=n_jobs,
        )  # fmt: skip
        start = initial_parameters(embedding, samples.X, None, rng)
        self._objective = Objective(problem, start)
        self._history = self._objective.history(rng, quiet=True)
        if self.held_out is not None:
            self._queries = replace(task.samples.take(self.held_out), database=samples)
            self._history.judge(lambda x: self._mean(self._costs(x)), _PATIENCE)

    def run(self, label: str, max_epochs: int | None = None) -> Training:
        """Train until the costs of held-out points no longer fall, for `max_epochs` in all."""
        history, model, deadline = self._history, self._course.model, self._course.deadline

        def observer(epoch: int, value: float, x: Array) -> bool:
            progress(epoch, value)
            stopped = model._fit_task is not None and model._fit_task.iteration()
            return stopped or time.monotonic() > deadline

        if self.diverged or (history.curve and time.monotonic() > deadline):
            return self

        most = min(self._solver.n_iter, max_epochs or self._solver.n_iter)
        with Progress(label, most - len(history.curve), shown=model.verbose) as progress:
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
        """The mean cost of held-out points after each epoch; without any, the loss."""
        return self._history.curve if self.held_out is None else self._history.costs

    @property
    def cost(self) -> float:
        """The least of these."""
        return min(self.costs, default=np.inf)

    @property
    def weight(self) -> Floats:
        """The weights of held-out points."""
        weight = self._queries.weight
        return np.ones(self._queries.X.shape[0]) if weight is None else weight

    @property
    def still(self) -> bool:
        """Whether the first epoch had no gradient."""
        return self._history.still

    def learned(self, factor: float) -> list[Array]:
        """Return the parameters of the best epoch, or of the last if no points are held out.

        Embedded points are multiplied by a factor.
        """
        history = self._history
        arrays = self._objective.parameters(history.best_x if history.costs else history.x)
        first = len(arrays) - (2 if isinstance(self.embedding, MLP) else 1)  # of the last layer
        scaled = [array * array.dtype.type(factor) for array in arrays[first:]]
        return arrays[:first] + scaled

    def held_out_means(self, Z: Array, values: Floats) -> Floats:
        """Return the votes of the points that were trained on for those that are held out.

        `Z` are all points under the map, and `values` what votes are the mean of.
        """
        n_jobs = self._course.model.n_jobs
        voters = SoftVotes(Z[self._train], self._objective.samples.weight, n_jobs)
        return voters.means(values[self._train], Z[self.held_out], n_jobs=n_jobs)

    def best_costs(self) -> Array:
        """Return the cost of each held-out point in the best epoch."""
        return self._costs(self._history.best_x)

    def costs_of_factors(self) -> Floats:
        """Return the mean costs of the votes for held-out points under multiples of the map."""
        sides = self._objective.embed(self._queries, self._history.best_x)
        return np.array([self._mean(self._costs_of_votes(*sides, f)) for f in _FACTORS])

    def _costs(self, x: Array) -> Array:
        """Return the cost of each held-out point."""
        (Z, database), task = self._objective.embed(self._queries, x), self.task
        if task.measure is None:
            return self._costs_of_votes(Z, database, 1.0)
        y, among = (task.labels[rows, 0] for rows in (self.held_out, self._train))
        how = {"n_jobs": self._course.model.n_jobs}
        return task.measure(Z, y, database, among, self._objective.samples.weight, **how)

    def _costs_of_votes(self, Z: Array, database: Array, factor: float) -> Floats:
        assert self.held_out is not None
        n_jobs = self._course.model.n_jobs
        Z, database = (side * side.dtype.type(factor) for side in (Z, database))
        votes = SoftVotes(database, self._objective.samples.weight, n_jobs)
        means = votes.means(self.task.values[self._train], Z, n_jobs=n_jobs)
        return self.task.costs(means, self.held_out)

    def _mean(self, costs: Array) -> float:
        """Return the mean of the costs to lower, which costs that must not get worse may follow."""
        goals = costs if costs.ndim == 1 else costs[:, 0]
        return float(np.average(goals, weights=self.weight))


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
    sizes = [len(each.held_out) for each in trained if each.held_out is not None]
    if not sizes or sum(sizes) < trained[0].task.n_confirming:
        return 1.0
    costs = np.average([each.costs_of_factors() for each in trained], 0, weights=sizes)
    return float(_FACTORS[int(costs.argmin())])


def race(
    judge: Judge, measure: str, tasks: dict[str, Task], course: Course,
    choices: dict[str, Embedding], split: tuple[Integers, Integers], seed: int, label: str,
) -> tuple[Training, bool, Judgement | None]:  # fmt: skip
    """Choose an embedding and its inputs by successive halving, then try the perceptron.

    Linear and periodic maps race apart, because linear ones take more epochs. In each race, the
    half with lower costs of held-out points is trained on, twice as long, until one is left. The
    judge chooses among all; the first takes the place of the given distance. At most `LARGE` points
    train if there is a choice. If there are no more, the last racers are trained to their ends.

    `tasks`: the task by what is added to the names; a perceptron has the first.
    Returns the winner, whether it was trained on all points, to its end, and the judgement; None if
    all diverged in their first epoch.
    """
    several, (train, held_out) = len(choices) > 1, split
    if several and len(train) > LARGE:
        train = np.random.RandomState(seed).permutation(train)[:LARGE]
    whole, some, task = len(train) == len(split[0]), (train, held_out), next(iter(tasks.values()))
    racers = {
        name + inputs: Training(of, course, embedding, some, seed)
        for inputs, of in tasks.items()
        for name, embedding in choices.items()
        if not isinstance(embedding, MLP)
    }
    for kind in (Linear, Periodic):
        left = [name for name, racer in racers.items() if isinstance(racer.embedding, kind)]
        epochs = _FIRST_ROUND
        while len(left) > 1:
            for name in left:
                racers[name].run(f"{label} {name}", epochs)
            left = sorted(left, key=lambda name: racers[name].cost)[: len(left) // 2]
            epochs *= 2
        for name in left:
            racers[name].run(f"{label} {name}", None if whole else _LAST_ROUND)
    for name, embedding in choices.items():
        if isinstance(embedding, MLP):
            most = _LAST_ROUND if several else None
            racers[name] = Training(task, course, embedding, some, seed, most).run(label)
    racers = {name: each for name, each in racers.items() if each.costs} or racers
    found = list(racers.values())
    if not found[0].costs:
        return found[0], whole, None
    judgement = judge_costs(
        judge, list(racers), np.array([each.best_costs() for each in found]), found[0].weight,
        measure, "points", equal=_CLEARLY,
        order=np.array([isinstance(each.embedding, MLP) for each in found]),
    )  # fmt: skip
    winner = found[judgement.chosen]
    return winner, whole and not (several and isinstance(winner.embedding, MLP)), judgement
