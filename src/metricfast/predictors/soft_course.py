"""The course of a training of maps for soft votes: batches, steps and epochs."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from metricfast._core.types import RandomState
from metricfast.embeddings import MLP, Embedding
from metricfast.samplers import Batch, batch_count
from metricfast.training.callbacks import FitTask
from metricfast.training.steps import Steps, adam_step, adamw_step, runs_of

__all__ = ["LARGE", "Course", "Plan"]

# With more points than this, embeddings are chosen with so many, and a map is trained for so many
# epochs, whose learning rate falls to zero.
LARGE, _EPOCHS_OF_LARGE = 4096, 40
# Anchors of a batch for which the learning rate is given, at least and at most; candidates.
_ANCHORS, _MOST_ANCHORS, _MOST_CANDIDATES = 256, 1024, 4096
# Candidates of a perceptron, and its weight decay relative to other maps.
_FEWER_CANDIDATES, _DECAY = 1024, 1000.0


@dataclass(frozen=True)
class Course:
    """The parameters of the training, for all maps."""

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

    def plan(self, embedding: Embedding, n: int) -> Plan:
        """Return how an embedding is trained with n points.

        A perceptron takes small batches, few candidates and a strong decay, and its learning rate
        falls. Other maps are trained for fewer epochs if there are many points.
        """
        anchors, candidates = min(max(n // 8, _ANCHORS), _MOST_ANCHORS), _MOST_CANDIDATES
        decay, epochs, falls = self.weight_decay, self.max_epochs, n > LARGE
        if isinstance(embedding, MLP):
            anchors, candidates, falls = _ANCHORS, _FEWER_CANDIDATES, True
            decay *= _DECAY if self.solver == "adamw" else 1.0
        elif n > LARGE:
            epochs = min(epochs, _EPOCHS_OF_LARGE)
        if not isinstance(self.batch_size, str):
            anchors = self.batch_size
        rate = self.learning_rate * math.sqrt(max(anchors / _ANCHORS, 1.0))
        return Plan(
            n, anchors, candidates, self.candidate_fraction, epochs, self.solver, rate, falls, decay
        )

    def at_most(self, epochs: int) -> Course:
        """Return this course for at most so many epochs."""
        return replace(self, max_epochs=min(self.max_epochs, epochs))

    @property
    def late(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self.deadline

    def until(self, end: float, share: float) -> Course:
        """Return this course for a share of the time that is left until an end."""
        now = time.monotonic()
        return replace(self, deadline=now + share * max(end - now, 0.0))


@dataclass(frozen=True)
class Plan:
    """The batches and steps of an embedding that n points train."""

    n: int
    n_anchors: int
    most_candidates: int
    candidate_fraction: float
    n_epochs: int
    solver: str
    learning_rate: float
    falls: bool  # the learning rate, to zero along half a cosine
    weight_decay: float

    def batches(self, rng: RandomState) -> Iterator[Batch]:
        """Draw batches of anchors, each with a share of the other points as candidates.

        The number of candidates is bounded, so that an epoch takes time in proportion to n.
        """
        n = self.n
        order, pool = rng.permutation(n), rng.permutation(n)
        is_anchor = np.zeros(n, bool)
        for anchors in np.array_split(order, batch_count(n, self.n_anchors)):
            is_anchor[anchors] = True
            size = round(self.candidate_fraction * (n - len(anchors)))
            size = min(size, self.most_candidates)
            window = (rng.randint(n) + np.arange(size + len(anchors))) % n
            drawn = pool[window]
            candidates = drawn[~is_anchor[drawn]][:size]
            yield Batch(np.concatenate([anchors, candidates]), len(anchors))
            is_anchor[anchors] = False

    def steps(self, embedding: Embedding, shapes: list[tuple[int, ...]]) -> Steps:
        """Return the steps of the parameters."""
        decays = embedding.decays(self.weight_decay)
        runs = runs_of(shapes, decays, [1.0] * len(decays))
        return Steps(
            adamw_step if self.solver == "adamw" else adam_step, 2, self._rate, runs, average=True
        )

    def _rate(self, epoch: float, step: int) -> float:
        del step
        if not self.falls:
            return self.learning_rate
        return self.learning_rate * (1 + math.cos(math.pi * epoch / self.n_epochs)) / 2
