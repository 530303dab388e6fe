"""The objective: a problem as a function of the solver's vector.

Computes X → Z → loss → dZ → gradient by the parameters, for all points or for a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricfast._core.dispatch import get_kernels
from metricfast._core.types import RandomState
from metricfast.distances.neighbors import nearest_of_arrays
from metricfast.exceptions import LossOverflowError
from metricfast.samplers import Batch, class_batches
from metricfast.training.chunks import batches_of
from metricfast.training.embedded import PlainLinear, embed_samples
from metricfast.training.embedded_loss import EmbeddedLoss
from metricfast.training.history import History, Vector
from metricfast.training.preconditioner import FlatParameters
from metricfast.training.problem import Problem
from metricfast.training.samples import Samples
from metricfast.training.solvers import EpochBatches, MiniBatchSolver, Solver
from metricfast.training.span import WithConstant

Array = NDArray[Any]
# Evaluates the loss of an objective elsewhere, for example on a cluster.
Evaluator = Callable[[EmbeddedLoss, list[Array], Batch | None], tuple[float, list[Array]]]
# In an epoch, a penalty of so many parameters is evaluated once for some batches in a row: it
# changes slowly, and takes longer than the loss.
_COSTLY, _SHARED = 1 << 16, 4
# Default number of points in a mini-batch.
_LEAST_BATCH, _LARGEST_BATCH, _BATCHES = 100, 1000, 10


class Objective:
    """A problem as a function of the solver's vector: ``objective(x, batch)``.

    Parameters
    ----------
    problem : Problem
    start : list of ndarray, optional
        The initial parameters; of a linear map, that of all features.
    continued : tuple of (ndarray, FlatParameters), optional
        In place of `start`, the `x0` and the preconditioner of a training to continue.

    Attributes
    ----------
    loss : EmbeddedLoss
        The loss as a function of the parameters.
    x0 : ndarray
        The solver's initial vector.
    start : list of ndarray
        The parameters that it stands for.
    of_span : MapOfSpan or None
        The initial map of all features, if the problem is trained in the span of the points.
    initial_map : ndarray, WideMap or None
        The map that `init` names, of a linear learner.
    refresh_every : int
        Iterations between two calls of `refresh`; 0 for none.
    all_samples : Samples
        `samples`, and the validation samples if there are any.
    evaluator : callable or None
        Computes the loss elsewhere, such as on a cluster.
    """

    def __init__(
        self,
        problem: Problem,
        start: list[Any] | None = None,
        *,
        continued: tuple[Vector, FlatParameters] | None = None,
    ) -> None:
        samples = problem.samples
        self.problem, self.samples, self.all_samples = problem, samples, samples
        self.loss, self.X = EmbeddedLoss(problem), samples.X
        self.n_jobs = self.loss.n_jobs
        self.traits = problem.traits
        self.evaluator: Evaluator | None = None
        self.tally, self.refresh_every = problem.tally, problem.refresh_every
        self._batches_done: int | None = None
        self._shared_penalty: tuple[float, Array] | None = None
        self.initial_map: Any = None
        self.of_span = problem.of_span(start[0]) if start else None
        self._n_own = len(problem.embedding.decays(0.0))
        if continued is not None:
            self.x0, self.preconditioner = continued
        else:
            arrays = start or []
            if not arrays:
                raise ValueError(
                    "embedding must have parameters to learn: Identity() has none, so give "
                    "Asymmetric(Linear(), Identity()), or another embedding."
                )
            if self.of_span is not None:
                arrays = [self.of_span.inner]
            full = arrays if problem.extended is None else problem.extended(arrays)
            preconditioner = problem.preconditioner
            if preconditioner is None:
                preconditioner = FlatParameters(map(np.shape, full))
            elif not isinstance(preconditioner, FlatParameters):
                preconditioner = preconditioner(arrays, self.of_span)
            if self.of_span is not None and problem.penalty is None:
                preconditioner = WithConstant(preconditioner, self.of_span.rest_norm)
            self.preconditioner = preconditioner
            dtype = np.float64 if problem.traits.double else self.X.dtype
            self.x0 = self.preconditioner.vector(full).astype(dtype, copy=False)
        self.start = self.parameters(self.x0)

    def __call__(self, x: Array, batch: Batch | None = None) -> tuple[float, Array]:
        """Return value and gradient for all points or for a batch.

        If they are not finite, returns infinity and zeros.
        """
        problem, arrays = self.problem, self.preconditioner.arrays(x)
        evaluate = self.evaluator or problem.evaluate or EmbeddedLoss.of_embedding
        try:
            loss, gradients = evaluate(self.loss, arrays, batch)
        except LossOverflowError:
            loss, gradients = math.nan, []
        if not (math.isfinite(loss) and gradients):
            return math.inf, np.zeros_like(x)
        value = problem.C * loss
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = problem.C * self.preconditioner.pullback(gradients).astype(
                x.dtype, copy=False
            )
            if problem.penalty is not None:
                penalty, shrinking = self._penalty(arrays, batch)
                if batch is not None:
                    share = batch.n_anchors / self.X.shape[0]
                    penalty, shrinking = share * penalty, share * shrinking
                value += penalty
                gradient += shrinking
            if not (math.isfinite(value) and get_kernels().all_finite(gradient[None])):
                return math.inf, np.zeros_like(x)
        if self.tally is not None:
            self.tally(loss, value, batch)
        return value, gradient

    def begin_epoch(self) -> None:
        """Let the batches that follow share evaluations of the penalty, from the first one on."""
        self._batches_done = 0

    def _penalty(self, arrays: list[Array], batch: Batch | None) -> tuple[float, Array]:
        """Return the penalty and its gradient by the solver's vector."""
        assert self.problem.penalty is not None
        done, shared = self._batches_done, self._shared_penalty
        if batch is not None and done is not None and self.x0.size >= _COSTLY:
            self._batches_done = done + 1
            if done % _SHARED and shared is not None:
                return shared
            # As precise as the gradient of the loss.
            arrays = [array.astype(self.X.dtype, copy=False) for array in arrays]
        value, gradients = self.problem.penalty(arrays, self.start)
        gradient = self.preconditioner.pullback(gradients).astype(self.x0.dtype, copy=False)
        if batch is not None:
            self._shared_penalty = value, gradient
        return value, gradient

    def runs(self, weight_decay: float) -> list[tuple[slice, float, float]]:
        """Return slices of adjacent parameters, their weight decay and factor of the rate."""
        if isinstance(self.problem.embedding, PlainLinear):
            return [(slice(None), float(weight_decay), 1.0)]
        own = [float(decay) for decay in self.problem.embedding.decays(weight_decay)]
        runs, stop = list[tuple[slice, float, float]](), 0
        for i, shape in enumerate(self.preconditioner.shapes):
            how = (own[i], 1.0) if i < len(own) else (0.0, self.problem.proxy_lr_factor)
            start, stop = stop, stop + math.prod(shape)
            if runs and runs[-1][1:] == how:
                start = runs.pop()[0].start
            runs.append((slice(start, stop), *how))
        return runs

    def batches(self, rng: RandomState, solver: Solver) -> EpochBatches | None:
        """Return a function that draws the mini-batches of an epoch, if the solver takes them."""
        if not isinstance(solver, MiniBatchSolver):
            return None
        draw = self.problem.batches or _class_batches
        return draw(self, rng, solver.batch_size)

    def history(self, rng: RandomState, *, quiet: bool = False) -> History:
        """Return the history of a training from the initial vector."""
        problem = self.problem
        metrics = None if problem.metrics is None else problem.metrics(self)
        return History(
            self.x0, patience=problem.patience, tol=problem.tol, rng=rng, metrics=metrics,
            quiet=quiet,
        )  # fmt: skip

    def parameters(self, x: Vector) -> list[Array]:
        """Return the parameters of the embedding and of the loss, such as proxies."""
        return self.preconditioner.arrays(x.copy())

    def learned(self, x: Vector) -> list[Any]:
        """Return the parameters for the given, unscaled points; a map may be a `WideMap`."""
        arrays: list[Any] = self.parameters(x)[: self._n_own]
        if isinstance(self.problem.embedding, PlainLinear):
            L = self.problem.embedding.map_of(arrays)
            arrays = [L if self.of_span is None else self.of_span.outer(L)]
        elif self.samples.outer is not None:
            arrays = [self.samples.outer_map(array) for array in arrays]
        return [self.samples.undo_scale(array) for array in arrays]

    def embed(self, samples: Samples, x: Vector) -> tuple[Array, Array]:
        """Return queries and their database, of all features, embedded."""
        samples = samples if self.samples.outer is None else samples.in_span
        arrays = self.preconditioner.arrays(x)[: self._n_own]
        return embed_samples(self.problem.embedding, arrays, samples, self.n_jobs)

    def cost(self, held_out: Samples, x: Vector) -> float:
        """Return the cost of validation samples.

        The cost is the share of wrong classes, the mean squared error, or the negative score.
        """
        Z, Z_database = self.embed(held_out, x)
        y, y_database, problem = held_out.labels, held_out.points.labels, self.problem
        if problem.score is not None:
            return -problem.score(Z, y, Z_database, y_database)
        numeric = not held_out.has_classes
        given = Z_database, y_database, Z, y, numeric
        error = neighbor_error(*given, problem.n_voters, self.n_jobs)
        return error * held_out.unit if numeric else error

    def score(self, cost: float) -> float:
        """Convert a validation cost to a score: greater is better."""
        return 1 - cost if self.problem.score is None and self.samples.has_classes else -cost

    def refresh(self, x: Array) -> None:
        """Update the state that the loss keeps between iterations, such as impostors, for x."""
        assert self.problem.refresh is not None
        self.problem.refresh(self.parameters(x)[0])


def neighbor_error(
    database: Array, y_database: Array, queries: Array, y: Array, numeric: bool,
    n_neighbors: int = 3, n_jobs: int | None = None,
) -> float:  # fmt: skip
    """Return the error of nearest-neighbour predictions.

    The prediction is the most frequent class, and the nearest one on ties. For numbers it is the
    mean, and the error is the mean squared error.
    """
    n_neighbors = min(n_neighbors, len(database))
    labels = y_database[nearest_of_arrays(queries, database, n_neighbors, n_jobs=n_jobs)]
    if numeric:
        return float(np.mean((labels.mean(axis=1) - y) ** 2))
    votes = (labels[:, :, None] == labels[:, None, :]).sum(axis=2)
    places = votes.argmax(axis=1)[:, None]
    return float(np.mean(np.take_along_axis(labels, places, axis=1)[:, 0] != y))


def _class_batches(
    objective: Objective, rng: RandomState, batch_size: int | None = None
) -> Callable[[], Iterable[Batch]]:
    """Return a function that draws the mini-batches of an epoch, from all classes."""
    samples, loss = objective.samples, objective.problem.loss
    usual = min(_LARGEST_BATCH, max(_LEAST_BATCH, samples.X.shape[0] // _BATCHES))
    size = usual if batch_size is None else int(batch_size)
    complete = getattr(loss, "with_targets", lambda batch: batch)

    def draw(rows: Any) -> list[Batch]:
        drawn = class_batches(samples.strata[rows], size, rng)
        return [complete(Batch(rows[some], len(some))) for some in drawn]

    return batches_of(samples.X, draw, rng, size)
