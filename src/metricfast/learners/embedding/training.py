"""What an embedding is trained by, and where it starts, of a learner's parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricfast.distances.neighbors import check_neighbors
from metricfast.embeddings import Embedding
from metricfast.learners.embedding.input import EmbeddingInput
from metricfast.losses import Gerrymander
from metricfast.samplers import Batch, Epoch, Sampler
from metricfast.training.chunks import Chunked, batches_of
from metricfast.training.coordinates import Parts
from metricfast.training.fingerprint import fingerprint
from metricfast.training.labelled import Labelled
from metricfast.training.monitor import Monitor
from metricfast.training.objective import Objective, is_continuous, is_learnable
from metricfast.training.own_parts import checked_batches, prepared
from metricfast.training.steps import Adam, Momentum, Rule, Steps, runs_of

__all__ = ["EmbeddingTraining", "check_continuation", "earlier_fit", "initial_proxies"]

Array = NDArray[Any]
# Rows of this length or less are zero where rows are normalized, and have no gradient.
_LEAST = 1e-12


class EmbeddingTraining(EmbeddingInput):
    """Base of learners of embeddings: what they are trained by."""

    def _objective(self, X: Any, y: Array, loss: Any, start: list[Array]) -> Objective:
        """Return what is minimised, of parameters like `start`."""
        # Candidates of a batch are its last rows.
        database = self.database if self.candidate_fraction is None else "batch"
        classes = None
        if is_learnable(loss):
            database, classes = "table", np.arange(len(self.classes_))
        decays = self.embedding_.decays(self.weight_decay)
        decays += [0.0] * (len(start) - len(decays))

        def penalty(arrays: list[Array]) -> tuple[float, list[Array]]:
            pairs = list(zip(decays, arrays, strict=True))
            value = sum(c / 2 * float(np.sum(a.astype(np.float64) ** 2)) for c, a in pairs)
            return value, [c * a for c, a in pairs]

        objective = Objective(
            X, self.embedding_, Labelled(loss, y, None, classes, self.n_jobs),
            Parts([array.shape for array in start]), database=database, n_jobs=self.n_jobs,
            penalty=penalty if self.solver == "lbfgs" and any(decays) else None,
        )  # fmt: skip
        if isinstance(loss, Gerrymander):
            self._seen = self._infeasible = 0
            objective.tally = lambda loss, value, batch: self._count(objective, batch)
        return objective

    def _check_numbers(self, loss: Any, n: int) -> None:
        """Raise ValueError where there are too few points to train on."""
        if isinstance(loss, Gerrymander) and self.database == "all":
            check_neighbors(loss.n_neighbors, n - 1)
        elif isinstance(loss, Gerrymander) and self.solver == "lbfgs":
            _check_batch(loss, n)

    def _count(self, objective: Objective, batch: Batch | None) -> None:
        """Count queries, and those without a set of neighbours that votes right."""
        self._seen += objective.X.shape[0] if batch is None else batch.n_anchors
        self._infeasible += getattr(objective.loss.loss, "n_infeasible_", 0)

    def _batches(
        self, sampler: Sampler, objective: Objective, monitor: Monitor, **options: Any
    ) -> Callable[[], Iterator[Batch]]:
        """Return what draws the batches of an epoch, of points whose labels are those of a loss."""
        loss, y, share = objective.loss.loss, objective.loss.y, self.candidate_fraction

        def prepare(labels: Array) -> Epoch:
            return prepared(sampler, labels, self.batch_size, self.n_jobs, **options)

        whole = None if isinstance(objective.X, Chunked) else prepare(y)

        def draw(rows: NDArray[np.int64]) -> Iterator[Batch]:
            epoch = prepare(y[rows]) if whole is None else whole
            for batch in checked_batches(epoch, monitor.rng, len(rows)):
                among = batch.rows
                if share is not None:
                    among = np.append(among, _others(among, len(rows), share, monitor.rng))
                if isinstance(loss, Gerrymander) and objective.database == "batch":
                    _check_batch(loss, len(among))
                yield Batch(rows[among], batch.n_anchors)

        batches = batches_of(objective.X, draw, monitor.rng, len(y))
        return lambda: iter(batches())

    def _steps(self, objective: Objective, x0: Array, max_epochs: int | None) -> Steps:
        del x0, max_epochs

        def rate(epoch: float, step: int) -> float:
            first = self.learning_rate or (1e-2 if self.solver == "sgd" else 1e-3)
            if self.schedule == "inverse":
                return first / (1 + 1e-4 * step)
            if self.schedule == "cosine":
                return first * (1 + math.cos(math.pi * epoch / int(self.max_epochs))) / 2
            return first

        shapes = objective.coordinates.shapes
        decays = self.embedding_.decays(self.weight_decay)
        table = len(shapes) - len(decays)  # of proxies
        factors = [1.0] * len(decays) + [self.proxy_rate] * table
        runs = runs_of(shapes, decays + [0.0] * table, factors)
        rule: Rule = Adam(decoupled=self.solver == "adamw")
        if self.solver == "sgd":
            rule = Momentum(self.momentum)
        return Steps(rule, rate, runs, average=True)


def _others(
    rows: NDArray[np.int64], n: int, share: float, rng: np.random.RandomState
) -> NDArray[np.int64]:
    """Draw a share of the rows below n that are not among these, in ascending order."""
    apart = np.ones(n, bool)
    apart[rows] = False
    others = np.flatnonzero(apart)
    drawn = rng.permutation(len(others))[: math.ceil(share * len(others))]
    return others[np.sort(drawn)]


def _check_batch(loss: Gerrymander, n: int) -> None:
    k = loss.n_neighbors
    if isinstance(k, (int, np.integer)) and k >= n:
        raise ValueError(
            f"n_neighbors must be at most {n - 1} where a batch has {n} points, found {k}: "
            "raise batch_size, choose a sampler of larger batches, set database='all', or "
            "lower n_neighbors."
        )


def check_continuation(learner: Any, loss: Any, embedding: Embedding) -> None:
    """Raise ValueError for parameters that do not go with what `partial_fit` goes on with."""
    course = getattr(learner, "_course", None)
    moments = 1 if learner.solver == "sgd" else 2
    table, numbers = hasattr(learner, "proxies_"), not hasattr(learner, "classes_")
    for name, has_changed in (
        ("solver", course is not None and len(course.moments) != moments),
        ("loss", (is_learnable(loss), is_continuous(loss)) != (table, numbers)),
        ("embedding", fingerprint(embedding) != fingerprint(learner.embedding_)),
    ):
        if has_changed:
            raise ValueError(
                f"partial_fit goes on with the {name} that it began with, which parameters no "
                "longer ask for: call fit, with warm_start=True to keep what was learned where "
                "that fits."
            )


def earlier_fit(learner: Any) -> tuple[list[Array], Array] | None:
    """Return the parameters and the mean of an earlier fit to start from, if there was one."""
    if not hasattr(learner, "parameters_"):
        return None
    proxies = [learner.proxies_] if hasattr(learner, "proxies_") else []
    return [*learner.parameters_, *proxies], learner.mean_


def initial_proxies(Z: Array, y: Array, n_classes: int, rng: np.random.RandomState | None) -> Array:
    """Return the mean of each class of embedded points, in their dtype.

    `rng` is given where proxies are normalized: it draws a direction for each class that has no
    point, or a mean without one, unless no class has any.
    """
    table = np.zeros((n_classes, Z.shape[1]))
    np.add.at(table, y, Z)
    table /= np.maximum(np.bincount(y, minlength=n_classes), 1)[:, None]
    if rng is not None:
        missing = np.linalg.norm(table, axis=1) <= _LEAST
        if not missing.all():
            drawn = rng.standard_normal((int(missing.sum()), Z.shape[1]))
            table[missing] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return table.astype(Z.dtype)
