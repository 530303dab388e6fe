"""The problem of learning an embedding: minimise the loss of embedded points."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from metricfast._core.sources import by_blocks
from metricfast._core.types import Array, Integers, RandomState
from metricfast._labels.tags import n_rows
from metricfast.distances.neighbors import check_neighbors
from metricfast.embeddings import Embedding
from metricfast.losses import Gerrymander
from metricfast.samplers import Batch, Epoch, Sampler
from metricfast.training.adapters import checked_batches, prepared
from metricfast.training.chunks import Chunked, batches_of
from metricfast.training.history import Vector
from metricfast.training.objective import Objective
from metricfast.training.preconditioner import FlatParameters
from metricfast.training.samples import Samples
from metricfast.training.steps import runs_of

__all__ = ["EMBEDDED", "EmbeddingProblem", "embed"]

# Points that are embedded at a time, hidden layers and all, at most.
EMBEDDED = 16384


def embed(
    embedding: Embedding,
    parameters: list[Array],
    X: Any,
    side: str = "query",
    n_jobs: int | None = None,
) -> Array:
    """Embed checked points, in blocks, so that memory for hidden layers does not grow with them."""
    return by_blocks(
        X,
        EMBEDDED,
        lambda block: embedding._forward(parameters, block, side=side, n_jobs=n_jobs)[0],
    )


class EmbeddingProblem(Objective):
    """Minimise the loss of embedded points over the parameters of an embedding.

    If the loss has proxies, they are the last of the parameters.

    Parameters
    ----------
    samples : Samples
    loss : loss
    embedding : Embedding
    sampler : Sampler
    start : list of ndarray
        The initial parameters.
    validation_score : callable
        ``validation_score(Z, y, Z_database, y_database)`` judges embedded validation points.
    database : {"batch", "all"}
    candidate_fraction : float or None
        Share of the points outside a batch that it is compared with.
    proxy_lr_factor : float
        Factor of the learning rate of proxies.
    by_batches : bool
        Whether the solver takes mini-batches, and knows weight decays.
    n_jobs : int or None

    Attributes
    ----------
    n_queries, n_infeasible : int
        With the loss `Gerrymander`: queries so far, and those for which no set of neighbours votes
        right.
    """

    relative_steps = False
    averages_batches = True
    keeps_last = True
    learning_rate = 0.001
    schedule = "constant"
    quantity = "loss"

    def __init__(
        self,
        samples: Samples,
        loss: Any,
        embedding: Embedding,
        sampler: Sampler,
        start: list[Array],
        validation_score: Callable[..., float],
        *,
        database: str = "batch",
        candidate_fraction: float | None = None,
        proxy_lr_factor: float = 1.0,
        by_batches: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        # Candidates of a batch are its last rows.
        compared = database if candidate_fraction is None else "batch"
        super().__init__(
            samples, embedding, loss, FlatParameters([array.shape for array in start]),
            database=compared, n_jobs=n_jobs,
        )  # fmt: skip
        self.embedding: Embedding = embedding
        self._sampler, self._validation_score = sampler, validation_score
        self._draws_database = database == "batch"
        self._candidate_fraction, self._proxy_lr_factor = candidate_fraction, proxy_lr_factor
        self._n_own = len(embedding.decays(0.0))
        self.n_queries = self.n_infeasible = 0
        if isinstance(loss, Gerrymander):
            self.tally = lambda loss, value, batch: self._count(batch)
        if not by_batches:
            self._add_decay()

    def parameters(self, x: Vector) -> list[Array]:
        """Return the parameters of the solver's vector, in the dtype of the points."""
        return self.preconditioner.arrays(x.astype(self.X.dtype))

    def learned(self, x: Vector) -> list[Array]:
        """Return the parameters of the embedding."""
        return self.parameters(x)[: self._n_own]

    def validation_error(self, held_out: Samples, x: Vector) -> float:
        """Return the negative score of validation samples."""
        arrays, found = self.learned(x), []
        for side, samples in (("query", held_out), ("database", held_out.points)):
            found += [embed(self.embedding, arrays, samples.X, side, self.n_jobs), samples.labels]
        return -self._validation_score(*found)

    def _add_decay(self) -> None:
        """Add the weight decays that the embedding has itself, for a solver without decay."""
        decays = self._decays(0.0)
        if not any(decays):
            return

        def penalty(arrays: list[Array]) -> tuple[float, list[Array]]:
            pairs = list(zip(decays, arrays, strict=True))
            value = sum(c / 2 * float(np.sum(a.astype(np.float64) ** 2)) for c, a in pairs)
            return value, [c * a for c, a in pairs]

        self.penalty = penalty

    def runs(self, weight_decay: float) -> list[tuple[slice, float, float]]:
        """Return adjacent parameters, with their weight decay and factor of the learning rate."""
        shapes, decays = self.preconditioner.shapes, self._decays(weight_decay)
        n_own = len(self.embedding.decays(weight_decay))
        factors = [1.0] * n_own + [self._proxy_lr_factor] * (len(shapes) - n_own)
        return runs_of(shapes, decays, factors)

    def batches(
        self, rng: RandomState, batch_size: int | None = None
    ) -> Callable[[], Iterator[Batch]]:
        """Return a function that draws the mini-batches of an epoch."""
        y, share, sampler = self.samples.labels, self._candidate_fraction, self._sampler
        options: dict[str, Any] = {"random_state": rng.randint(2**31 - 1)}
        n_database = None
        if not isinstance(self.database, str) and self._draws_database:
            options["y_database"], n_database = self.samples.points.labels, self.database.shape[0]

        def prepare(labels: Array) -> Epoch:
            return prepared(sampler, labels, batch_size, self.n_jobs, **options)

        whole = None if isinstance(self.X, Chunked) else prepare(y)

        def draw(rows: Integers) -> Iterator[Batch]:
            epoch = prepare(y[rows]) if whole is None else whole
            for batch in checked_batches(epoch, rng, len(rows), n_database):
                drawn = batch.rows
                if not isinstance(self.database, str):
                    anchors, others = np.split(drawn, [batch.n_anchors])
                    others = others if self._draws_database else others[:0]
                    yield Batch(np.concatenate([rows[anchors], others]), batch.n_anchors)
                    continue
                if share is not None:
                    drawn = np.append(drawn, _others(drawn, len(rows), share, rng))
                if self.database == "batch":
                    self._check_batch(len(drawn))
                yield Batch(rows[drawn], batch.n_anchors)

        batches = batches_of(self.X, draw, rng, n_rows(y))
        return lambda: iter(batches())

    def check_size(self, by_batches: bool) -> None:
        """Raise ValueError if there are too few points for the neighbours of the loss."""
        loss, n = self.loss.loss, self.X.shape[0]
        if not isinstance(self.database, str):
            if isinstance(loss, Gerrymander):
                check_neighbors(loss.n_neighbors, self.database.shape[0])
        elif isinstance(loss, Gerrymander) and self.database == "all":
            check_neighbors(loss.n_neighbors, n - 1)
        elif not by_batches:
            self._check_batch(n)

    def _decays(self, weight_decay: float) -> list[float]:
        decays = [float(decay) for decay in self.embedding.decays(weight_decay)]
        return decays + [0.0] * (len(self.preconditioner.shapes) - len(decays))

    def _check_batch(self, n: int) -> None:
        loss = self.loss.loss
        if not isinstance(loss, Gerrymander):
            return
        k = loss.n_neighbors
        if isinstance(k, (int, np.integer)) and k >= n:
            raise ValueError(
                f"n_neighbors must be at most {n - 1} where a batch has {n} points, found {k}: "
                "raise batch_size, choose a sampler of larger batches, set database='all', or "
                "lower n_neighbors."
            )

    def _count(self, batch: Batch | None) -> None:
        self.n_queries += self.X.shape[0] if batch is None else batch.n_anchors
        self.n_infeasible += getattr(self.loss.loss, "n_infeasible_", 0)


def _others(rows: Integers, n: int, share: float, rng: RandomState) -> Integers:
    """Draw a share of the rows below n that are not among these, in ascending order."""
    left = np.ones(n, bool)
    left[rows] = False
    others = np.flatnonzero(left)
    drawn = rng.permutation(len(others))[: math.ceil(share * len(others))]
    return others[np.sort(drawn)]
