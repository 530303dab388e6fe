"""The training of maps under which soft votes predict well."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from metricfast._core.progress import Progress
from metricfast._core.targets import by_appearance
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast.embeddings import MLP, Embedding
from metricfast.losses._call import Loss
from metricfast.predictors.soft_votes import SoftVotes
from metricfast.samplers import Batch, batch_count
from metricfast.training.adapters import initial_parameters
from metricfast.training.callbacks import FitTask
from metricfast.training.history import DivergedError, History
from metricfast.training.labelled_loss import LabelledLoss
from metricfast.training.objective import Objective
from metricfast.training.preconditioner import FlatParameters, flat, parts
from metricfast.training.steps import Steps, adam_step, adamw_step, minimize_minibatch, runs_of

__all__ = [
    "LARGE",
    "Course",
    "Task",
    "Training",
    "best_of",
    "better_of",
    "folds",
    "hold_out",
    "sharpness",
]

# With more points than this, embeddings are chosen with so many, and a map is trained for so many
# epochs, whose learning rate falls to zero.
LARGE, _EPOCHS_OF_LARGE = 4096, 40
# Epochs after which the worse half of several embeddings is given up.
_FIRST_ROUND = 15
# Standard errors by which other inputs must be better.
_CLEARLY = 0.5
# Batches have fewer points than there are, and a map grows by small steps, so that points may be
# better predicted by one that is larger.
_FACTORS = tuple(2.0 ** (np.arange(-4, 9) / 2))
# Anchors of a batch for which the learning rate is given, at least and at most; candidates.
_ANCHORS, _MOST_ANCHORS, _MOST_CANDIDATES = 256, 1024, 4096
# Candidates of a perceptron, its weight decay relative to other maps, and the epochs of its race.
_FEWER_CANDIDATES, _DECAY, _RACE = 1024, 1000.0, 30


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


@dataclass(frozen=True)
class Course:
    """How a map is trained; `layered` is set for a perceptron, which takes small batches."""

    solver: str
    learning_rate: float
    weight_decay: float
    batch_size: int | str
    candidate_fraction: float
    max_epochs: int
    n_iter_no_change: int
    n_jobs: int | None
    verbose: bool | int
    fit_task: FitTask | None = None
    deadline: float = math.inf  # of time.monotonic(), after which each training ends
    layered: bool = False

    def of(self, embedding: Embedding) -> Course:
        """Return this course for an embedding."""
        return replace(self, layered=isinstance(embedding, MLP))

    @property
    def of_race(self) -> Course:
        """A shorter course: a few epochs in which a perceptron shows whether it is better."""
        return replace(self, max_epochs=min(self.max_epochs, _RACE))

    @property
    def late(self) -> bool:
        """Whether the deadline is over."""
        return time.monotonic() > self.deadline

    def until(self, end: float, share: float) -> Course:
        """Return this course for a share of the time that is left until an end."""
        now = time.monotonic()
        return replace(self, deadline=now + share * max(end - now, 0.0))

    def batches(self, n: int, rng: RandomState) -> Iterator[Batch]:
        """Draw batches of anchors, each with a share of the other points as candidates.

        The number of candidates is bounded, so that an epoch takes time in proportion to n.
        """
        order, pool = rng.permutation(n), rng.permutation(n)
        most = _FEWER_CANDIDATES if self.layered else _MOST_CANDIDATES
        is_anchor = np.zeros(n, bool)
        for anchors in np.array_split(order, batch_count(n, self.anchors(n))):
            is_anchor[anchors] = True
            size = round(self.candidate_fraction * (n - len(anchors)))
            size = min(size, most)
            window = (rng.randint(n) + np.arange(size + len(anchors))) % n
            drawn = pool[window]
            candidates = drawn[~is_anchor[drawn]][:size]
            yield Batch(np.concatenate([anchors, candidates]), len(anchors))
            is_anchor[anchors] = False

    def anchors(self, n: int) -> int:
        """Return the number of anchors in a batch of n points."""
        if isinstance(self.batch_size, str):
            return _ANCHORS if self.layered else min(max(n // 8, _ANCHORS), _MOST_ANCHORS)
        return self.batch_size

    def steps(self, embedding: Embedding, shapes: list[tuple[int, ...]], n: int) -> Steps:
        """Return the steps of the parameters of an embedding that n points train."""
        more = _DECAY if self.layered and self.solver == "adamw" else 1.0
        decays = embedding.decays(self.weight_decay * more)
        runs = runs_of(shapes, decays, [1.0] * len(decays))
        rule = adamw_step if self.solver == "adamw" else adam_step
        rate = self.learning_rate * math.sqrt(max(self.anchors(n) / _ANCHORS, 1.0))
        most = self.epochs(n)

        def falling(epoch: float, step: int) -> float:
            return rate * (1 + math.cos(math.pi * epoch / most)) / 2

        rate_of = falling if self.layered or n > LARGE else lambda epoch, step: rate
        return Steps(rule, 2, rate_of, runs, average=True)

    def epochs(self, n: int) -> int:
        """Return the largest number of epochs of n points."""
        large = n > LARGE and not self.layered
        return min(self.max_epochs, _EPOCHS_OF_LARGE) if large else self.max_epochs


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
        self.embedding, self.task, self._course = embedding, task, course.of(embedding)
        self._train, self._test = train, test
        self._points, rng = task.points[train], np.random.RandomState(seed)
        start = initial_parameters(embedding, self._points, None, rng)
        self._shapes = [array.shape for array in start]
        weight = self._weight = None if task.weight is None else task.weight[train]
        losses = [
            LabelledLoss(loss, y[train], weight, None, course.n_jobs) for loss, y in task.losses
        ]
        self._objective = Objective(
            self._points,
            embedding,
            _Outputs(losses),
            FlatParameters(self._shapes),
            n_jobs=course.n_jobs,
        )
        self._monitor = History(flat(start), rng=rng)
        if test is not None:
            self._monitor.judge(self._judge, course.n_iter_no_change)
        self.diverged = False

    def run(self, label: str = "", max_epochs: int | None = None) -> Training:
        """Train on until held-out points are predicted no better, or so many epochs are done."""
        history, course = self._monitor, self._course

        def observer(epoch: int, value: float, x: Array) -> bool:
            progress(epoch, value)
            stopped = course.fit_task is not None and course.fit_task.iteration()
            return stopped or course.late

        if history.curve and course.late:
            return self

        most = course.epochs(len(self._points))
        most = min(most, max_epochs or most)
        with Progress(label, most - len(history.curve), shown=course.verbose) as progress:
            history.observer = observer
            try:
                minimize_minibatch(
                    self._objective,
                    lambda: course.batches(len(self._points), history.rng), history,
                    max_epochs=0 if self.diverged else most,
                    steps=course.steps(self.embedding, self._shapes, len(self._points)),
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
        return bool(gains.mean() > n_errors * gains.std() / np.sqrt(len(gains)))


class _Outputs(LabelledLoss):
    """The sum of the losses of several outputs."""

    def __init__(self, losses: list[LabelledLoss]) -> None:
        self.loss, self.y, self._losses = losses[0].loss, losses[0].y, losses

    def evaluate(
        self, Z: Array, batch: Batch | None, part: slice | None = None
    ) -> tuple[float, Array]:
        """Return the loss of the anchors of a batch, or of all points, and its gradient."""
        found = [each.evaluate(Z, batch, part) for each in self._losses]
        total: Array = np.sum([gradient for _, gradient in found], axis=0)
        return sum(value for value, _ in found), total


def best_of(racers: dict[str, Training], label: str, *, to_the_end: bool) -> str:
    """Train embeddings, those of one kind by successive halving, and return the name of the best.

    Of each kind the half that predicts held-out points better is trained on, twice as long. The
    last of each kind is trained `to_the_end`, and a later kind must be better than the first by
    more than a standard error. Else it is trained for one more round, and the best is taken.
    """
    kinds: dict[type, list[str]] = {}
    for name, racer in racers.items():
        kinds.setdefault(type(racer.embedding), []).append(name)
    best = ""
    for names in kinds.values():
        left, epochs = names, _FIRST_ROUND
        while len(left) > 1:
            for name in left:
                racers[name].run(f"{label} {name}", epochs)
            left = sorted(left, key=lambda name: racers[name].cost)[: len(left) // 2]
            epochs *= 2
        name = left[0]
        racer = racers[name].run(f"{label} {name}", None if to_the_end else 2 * _FIRST_ROUND)
        if not best or (racer.costs and _is_better(racer, racers[best], surely=to_the_end)):
            best = name
    return best


def _is_better(racer: Training, other: Training, *, surely: bool) -> bool:
    return racer.better_than(other) if surely else racer.cost < other.cost


def better_of(racer: Training, other: Training, label: str, *, to_the_end: bool) -> Training:
    """Train a racer as long as the winner of a race, and return it if it is clearly better."""
    racer.run(label, None if to_the_end else 2 * _FIRST_ROUND)
    return racer if racer.costs and racer.better_than(other, _CLEARLY) else other


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
        alike = codes if counts.min() > 1 and len(counts) <= min(size, n - size) else None
    train, test = train_test_split(np.arange(n), test_size=size, stratify=alike, random_state=rng)
    return train, test
