"""The training of maps for soft votes: its parameters, solver and batches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from metricfast._core.types import RandomState
from metricfast.embeddings import MLP, Embedding
from metricfast.samplers import Batch, batch_count
from metricfast.training.callbacks import FitTask
from metricfast.training.objective import Objective
from metricfast.training.solvers import Adam, AdamW, MiniBatchSolver

__all__ = ["LARGE", "CandidateBatches", "Course"]

# With more than LARGE points, the choice of the embedding uses LARGE points only. The map is then
# trained for _EPOCHS_OF_LARGE epochs, with a learning rate that falls to zero.
LARGE, _EPOCHS_OF_LARGE = 4096, 40
# Minimum number of anchors per batch, for which the learning rate is defined; maximum numbers of
# anchors and candidates.
_ANCHORS, _MOST_ANCHORS, _MOST_CANDIDATES = 256, 1024, 4096
# Number of candidates for a perceptron, and its weight decay relative to other maps.
_FEWER_CANDIDATES, _DECAY = 1024, 1000.0


@dataclass(frozen=True)
class Course:
    """The training parameters of all maps."""

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
    deadline: float = math.inf  # time.monotonic() at which training ends

    def plan(self, embedding: Embedding, n: int) -> tuple[MiniBatchSolver, CandidateBatches]:
        """Return the solver and the batches for training an embedding on n points.

        A perceptron uses small batches, few candidates, strong weight decay and a falling learning
        rate. Other maps are trained for fewer epochs if there are many points.
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
        kind = AdamW if self.solver == "adamw" else Adam
        solver = kind(rate, anchors, epochs, "cosine" if falls else "constant", decay)
        return solver, CandidateBatches(candidates, self.candidate_fraction)

    def at_most(self, epochs: int) -> Course:
        """Return a copy with at most this number of epochs."""
        return replace(self, max_epochs=min(self.max_epochs, epochs))

    @property
    def late(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self.deadline

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
