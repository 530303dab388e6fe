"""Mini-batches that a sampler draws, for an objective of any embedding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricfast._core.types import Array, Integers, RandomState
from metricfast._labels.tags import count_labels
from metricfast.distances.neighbors import check_neighbors
from metricfast.losses import Gerrymander
from metricfast.samplers import Batch, Epoch, Sampler
from metricfast.training.adapters import checked_batches, prepared
from metricfast.training.chunks import batches_of
from metricfast.training.objective import Objective


@dataclass(frozen=True)
class SamplerBatches:
    """The mini-batches of a sampler, called as ``batches(objective, rng, batch_size)``.

    Parameters
    ----------
    sampler : Sampler
    draws_database : bool
        Whether each batch has its own database points, or all of them.
    candidate_fraction : float, optional
        Share of the points outside of a batch to which it is compared.
    """

    sampler: Sampler
    draws_database: bool = True
    candidate_fraction: float | None = None

    def __call__(
        self, objective: Objective, rng: RandomState, batch_size: int | None
    ) -> Callable[[], Iterator[Batch]]:
        """Return a function that draws the mini-batches of an epoch."""
        samples, share, loss = objective.samples, self.candidate_fraction, objective.problem.loss
        y, apart = samples.labels, not isinstance(objective.loss.database, str)
        options: dict[str, Any] = {"random_state": rng.randint(2**31 - 1)}
        n_database = None
        if apart and self.draws_database:
            options["y_database"], n_database = samples.points.labels, samples.points.X.shape[0]

        def prepare(labels: Array) -> Epoch:
            return prepared(self.sampler, labels, batch_size, objective.n_jobs, **options)

        whole = None if samples.in_chunks else prepare(y)

        def draw(rows: Integers) -> Iterator[Batch]:
            epoch = prepare(y[rows]) if whole is None else whole
            for batch in checked_batches(epoch, rng, len(rows), n_database):
                drawn = batch.rows
                if apart:
                    anchors, others = np.split(drawn, [batch.n_anchors])
                    others = others if self.draws_database else others[:0]
                    yield Batch(np.concatenate([rows[anchors], others]), batch.n_anchors)
                    continue
                if share is not None:
                    drawn = np.append(drawn, _others(drawn, len(rows), share, rng))
                if objective.loss.database == "batch":
                    _check_batch(loss, len(drawn))
                yield Batch(rows[drawn], batch.n_anchors)

        batches = batches_of(samples.X, draw, rng, count_labels(y))
        return lambda: iter(batches())


def check_neighbors_of(objective: Objective, by_batches: bool) -> None:
    """Raise ValueError if there are too few points for the neighbours of the loss."""
    loss, n = objective.problem.loss, objective.X.shape[0]
    if not isinstance(objective.loss.database, str):
        if isinstance(loss, Gerrymander):
            check_neighbors(loss.n_neighbors, objective.loss.database.shape[0])
    elif isinstance(loss, Gerrymander) and objective.loss.database == "all":
        check_neighbors(loss.n_neighbors, n - 1)
    elif not by_batches:
        _check_batch(loss, n)


def _check_batch(loss: Any, n: int) -> None:
    if not isinstance(loss, Gerrymander):
        return
    k = loss.n_neighbors
    if isinstance(k, (int, np.integer)) and k >= n:
        raise ValueError(
            f"n_neighbors must be at most {n - 1} where a batch has {n} points, found {k}: "
            "raise batch_size, choose a sampler of larger batches, set database='all', or "
            "lower n_neighbors."
        )


def _others(rows: Integers, n: int, share: float, rng: RandomState) -> Integers:
    """Draw a share of the rows below n that are not in `rows`, in ascending order."""
    left = np.ones(n, bool)
    left[rows] = False
    others = np.flatnonzero(left)
    drawn = rng.permutation(len(others))[: math.ceil(share * len(others))]
    return others[np.sort(drawn)]
