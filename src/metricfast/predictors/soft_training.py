"""The training of maps for soft votes, and the choice of what is trained by held-out points."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast.embeddings import MLP, Embedding, Linear, Periodic
from metricfast.losses._call import BaseLoss, BoundLoss
from metricfast.predictors.soft_votes import SoftVotes
from metricfast.samplers import Batch, batch_count
from metricfast.selection._judge import Judge, Judgement, judge_costs
from metricfast.selection._measures import Measure, Search
from metricfast.training.adapters import initial_parameters
from metricfast.training.objective import Objective
from metricfast.training.problem import EMBEDDING, Problem
from metricfast.training.samples import Samples
from metricfast.training.solvers import Adam, AdamW, MiniBatchSolver
from metricfast.training.train import train

# With more than LARGE points, the choice of the embedding uses LARGE points only. The map is then
# trained for _EPOCHS_OF_LARGE epochs, with a learning rate that falls to zero.
LARGE, _EPOCHS_OF_LARGE = 4096, 40
# Minimum number of anchors per batch, for which the learning rate is defined; maximum numbers of
# anchors and candidates.
_ANCHORS, _MOST_ANCHORS, MOST_CANDIDATES = 256, 1024, 4096
# Number of candidates for a perceptron, and its weight decay relative to other maps.
_FEWER_CANDIDATES, _DECAY = 1024, 1000.0
# Epochs after which the worse half of the racers is given up; of the last racers and a perceptron.
_FIRST_ROUND, _LAST_ROUND = 5, 30
# Standard errors by which a perceptron must be better than the best other map.
_CLEARLY = 0.5
# Factors of a trained map to try, from 1/4 to 16. Training compares points with fewer candidates
# than prediction, and ends early: a larger map may then predict better.
_FACTORS = 2.0 ** (np.arange(-4, 9) / 2)


@dataclass(frozen=True)
class Task:
    """What is to be predicted of which points.

    Attributes
    ----------
    samples : Samples
        Encoded points, and their weights.
    votes : ndarray of shape (n_samples, n_values)
        What predictions are the mean of.
    values : ndarray of shape (n_samples, n_values)
        The same for held-out points, in the precision of the points.
    losses : list of (loss, ndarray of shape (n_samples,))
        The loss of each output, and its labels.
    costs : callable
        ``costs(means, rows)`` returns the cost of each point in `rows`, whose votes have `means`.
    labels : ndarray of shape (n_samples, n_outputs)
    measure : str
        The name of the costs.
    n_confirming : int
        Held-out points that it takes to choose the sharpness of votes.
    measured : callable, optional
        The measure of the judge, in place of these costs.
    """

    samples: Samples
    votes: Array
    values: Array
    losses: list[tuple[BaseLoss, Array]]
    costs: Callable[[Floats, Integers], Floats]
    labels: Array
    measure: str
    n_confirming: int = 1
    measured: Measure | None = None


def plan(
    model: Any, embedding: Embedding, n: int, max_epochs: int | None = None
) -> tuple[MiniBatchSolver, Callable[..., Callable[[], Iterator[Batch]]]]:
    """Return the solver and the batches for training an embedding on n points.

    A perceptron uses small batches, few candidates, strong weight decay and a falling learning
    rate. Other maps are trained for fewer epochs if there are many points.
    """
    decay, falls = model.weight_decay, n > LARGE
    anchors, candidates = min(max(n // 8, _ANCHORS), _MOST_ANCHORS), MOST_CANDIDATES
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
    return solver, partial(_candidate_batches, candidates, model.candidate_fraction)


def _candidate_batches(
    most: int, fraction: float, objective: Objective, rng: RandomState, n_anchors: int
) -> Callable[[], Iterator[Batch]]:
    """Return a function that draws batches of anchors, each with other points as candidates.

    Candidates are a fraction of the other points, and at most `most`, so the time of an epoch is
    proportional to the number of points.
    """
    n = objective.X.shape[0]

    def drawn() -> Iterator[Batch]:
        order, pool = rng.permutation(n), rng.permutation(n)
        is_anchor = np.zeros(n, bool)
        for anchors in np.array_split(order, batch_count(n, n_anchors)):
            is_anchor[anchors] = True
            size = min(round(fraction * (n - len(anchors))), most)
            window = pool[(rng.randint(n) + np.arange(size + len(anchors))) % n]
            candidates = window[~is_anchor[window]][:size]
            yield Batch(np.concatenate([anchors, candidates]), len(anchors))
            is_anchor[anchors] = False

    return drawn


class Training:
    """The training of a map, on some points, which are the database of held-out ones.

    Parameters
    ----------
    model : NCAClassifier or NCARegressor
    task, embedding
    split : tuple of ndarray of int64
        Rows to train on, and those that are held out; None for all, and for none.
    max_epochs : int, optional
    seed : int
        Decides the start and the batches.
    deadline : float
        The value of `time.monotonic` after which training ends.

    Attributes
    ----------
    held_out : ndarray of int64 or None
    history : History
    diverged : bool
    weight : ndarray of shape (n_held_out,)
    """

    def __init__(
        self, model: Any, task: Task, embedding: Embedding, split: tuple[Any, Any],
        max_epochs: int | None = None, *, seed: int, deadline: float,
    ) -> None:  # fmt: skip
        self._train, self.held_out = split
        self._model, self.task, self.embedding = model, task, embedding
        self._deadline, self.diverged, rng = deadline, False, np.random.RandomState(seed)
        self._samples, how = task.samples.take(self._train), {"n_jobs": model.n_jobs}
        self._solver, batches = plan(model, embedding, len(self._samples.X), max_epochs)
        weight = self._samples.weight
        losses = [loss.on(y[self._train], weight, **how) for loss, y in task.losses]
        problem = Problem(
            self._samples, losses[0] if len(losses) == 1 else _Outputs(losses),
            embedding=embedding, traits=EMBEDDING, batches=batches, **how,
        )  # fmt: skip
        start = initial_parameters(embedding, self._samples.X, None, rng)
        self._objective = Objective(problem, start)
        self.history = self._objective.history(rng, quiet=True)
        if self.held_out is not None:
            queries = replace(task.samples.take(self.held_out), database=self._samples)
            weight, self._queries = queries.weight, queries
            self.weight = np.ones(len(self.held_out)) if weight is None else weight
            self.history.judge(lambda x: self._mean(self.costs_at(x)))

    def run(self, label: str, max_epochs: int | None = None) -> Training:
        """Train until the costs of held-out points no longer fall, for `max_epochs` in all."""
        history, n_iter = self.history, self._solver.n_iter
        history.max_iter = min(n_iter, max_epochs or n_iter)
        if not (self.diverged or (history.curve and time.monotonic() > self._deadline)):
            self.diverged = train(
                self._model, self._objective, history, self._solver, part=label,
                deadline=self._deadline,
            )  # fmt: skip
        return self

    @property
    def costs(self) -> list[float]:
        """The mean cost of held-out points after each epoch; without any, the loss."""
        return self.history.curve if self.held_out is None else self.history.costs

    def learned(self, factor: float) -> list[Array]:
        """Return the parameters of the best epoch, or of the last if no points are held out.

        Embedded points are multiplied by a factor.
        """
        history = self.history
        arrays = self._objective.parameters(history.best_x if history.costs else history.x)
        first = len(arrays) - (2 if isinstance(self.embedding, MLP) else 1)  # of the last layer
        scaled = [array * array.dtype.type(factor) for array in arrays[first:]]
        return arrays[:first] + scaled

    def held_out_means(self, Z: Array, values: Floats) -> Floats:
        """Return the votes for held-out points; Z are all points, and `values` what they vote."""
        return self._means(Z[self.held_out], Z[self._train], values)

    def _means(self, Z: Array, database: Array, values: Array) -> Floats:
        n_jobs = self._model.n_jobs
        votes = SoftVotes(database, self._samples.weight, n_jobs)
        return votes.means(values[self._train], Z, n_jobs=n_jobs)

    def costs_of_factors(self) -> Floats:
        """Return the mean costs of the votes for held-out points under multiples of the map."""
        sides = self._objective.embed(self._queries, self.history.best_x)
        scaled = ([Z * Z.dtype.type(factor) for Z in sides] for factor in _FACTORS)
        return np.array([self._mean(self._costs_of_votes(*each)) for each in scaled])

    def costs_at(self, x: Array) -> Array:
        """Return the cost of each held-out point, for a vector of the solver."""
        (Z, database), task = self._objective.embed(self._queries, x), self.task
        if task.measured is None:
            return self._costs_of_votes(Z, database)
        y, among = (task.labels[rows, 0] for rows in (self.held_out, self._train))
        weight, n_jobs = self._samples.weight, self._model.n_jobs
        return task.measured(Search(Z, database, n_jobs=n_jobs), y, among, weight)

    def _costs_of_votes(self, Z: Array, database: Array) -> Floats:
        assert self.held_out is not None
        return self.task.costs(self._means(Z, database, self.task.values), self.held_out)

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
    judge: Judge, tasks: dict[str, Task], choices: dict[str, Embedding],
    split: tuple[Integers, Integers], seed: int, begin: Callable[..., Training], label: str,
) -> tuple[Training, bool, Judgement | None]:  # fmt: skip
    """Choose an embedding and its inputs by successive halving, then try the perceptron.

    The first embedding takes the place of the given distance. At most `LARGE` points train if there
    is a choice. If there are no more, the last racers are trained to their ends.

    `tasks`: the task by what is added to the names; a perceptron has the first.
    `begin`: returns the training of a task, an embedding and a split, for at most some epochs.
    Returns the winner, whether it was trained on all points, to its end, and the judgement; None if
    all diverged in their first epoch.
    """
    several, (rows, held_out) = len(choices) > 1, split
    if several and len(rows) > LARGE:
        rows = np.random.RandomState(seed).permutation(rows)[:LARGE]
    whole, some, task = len(rows) == len(split[0]), (rows, held_out), next(iter(tasks.values()))
    racers = {
        name + inputs: begin(of, embedding, some, seed=seed)
        for inputs, of in tasks.items()
        for name, embedding in choices.items()
        if not isinstance(embedding, MLP)
    }
    for kind in (Linear, Periodic):  # apart, because linear maps take more epochs
        racing = {n: each for n, each in racers.items() if isinstance(each.embedding, kind)}
        _halve(racing, label, None if whole else _LAST_ROUND)
    if "perceptron" in choices:
        most = _LAST_ROUND if several else None
        perceptron = begin(task, choices["perceptron"], some, most, seed=seed)
        racers["perceptron"] = perceptron.run(label)
    racers = {name: each for name, each in racers.items() if each.costs} or racers
    found = list(racers.values())
    if not found[0].costs:
        return found[0], whole, None
    is_perceptron = np.array([isinstance(each.embedding, MLP) for each in found])
    costs = np.array([each.costs_at(each.history.best_x) for each in found])
    judgement = judge_costs(
        judge, list(racers), costs, found[0].weight, task.measure, "points", equal=_CLEARLY,
        order=is_perceptron,
    )  # fmt: skip
    winner = found[judgement.chosen]
    return winner, whole and not (several and is_perceptron[judgement.chosen]), judgement


def _halve(racers: dict[str, Training], label: str, last_round: int | None) -> None:
    """Train racers; the half with lower costs goes on for twice as long, until one is left.

    `last_round`: epochs of that one; None for its end.
    """
    left, epochs = list(racers), _FIRST_ROUND
    while len(left) > 1:
        for name in left:
            racers[name].run(f"{label} {name}", epochs)
        left.sort(key=lambda name: min(racers[name].costs, default=np.inf))
        left, epochs = left[: len(left) // 2], 2 * epochs
    for name in left:
        racers[name].run(f"{label} {name}", last_round)
