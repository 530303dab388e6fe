"""The objective: a problem as a function of the solver's vector.

Computes X → Z → loss → dZ → gradient by the parameters, for all points or for a batch: an
`EmbeddedLoss` as a function of the parameters, an `Objective` as a function of the vector that
stands for them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.types import Array, Integers, RandomState
from metricfast.distances.neighbors import nearest_of_arrays
from metricfast.embeddings import Asymmetric
from metricfast.exceptions import LossOverflowError
from metricfast.losses._call import BaseLoss
from metricfast.samplers import Batch, class_batches
from metricfast.training.adapters import BoundFunction, takes_weights
from metricfast.training.chunks import batches_of
from metricfast.training.embedded import PlainLinear, embed_samples
from metricfast.training.history import History, Vector
from metricfast.training.preconditioner import FlatParameters
from metricfast.training.problem import Problem, is_learnable
from metricfast.training.samples import Samples
from metricfast.training.solvers import EpochBatches, MiniBatchSolver, Solver
from metricfast.training.span import WithConstant

if TYPE_CHECKING:
    from typing_extensions import Self

# Evaluates the loss of an objective elsewhere, for example on a cluster.
Evaluator = Callable[["EmbeddedLoss", list[Array], Batch | None], tuple[float, list[Array]]]
# In an epoch, a penalty of so many parameters is evaluated once for some batches in a row: it
# changes slowly, and takes longer than the loss.
_COSTLY, _SHARED = 1 << 16, 4
# Default number of points in a mini-batch.
_LEAST_BATCH, _LARGEST_BATCH, _BATCHES = 100, 1000, 10


class EmbeddedLoss:
    """The loss of embedded points, as a function ``loss(arrays, batch, part)`` of the parameters.

    Labels, threads and sides are checked and chosen once; an evaluation only computes.

    Attributes
    ----------
    X : {ndarray, csr_array, Chunked}
        The points, from which anchors are taken.
    database : "batch", "all", "table" or points
        What anchors are compared with: the points of their batch, all points, proxies (the last of
        the parameters, normalized if embedded points are), or points of another database. A batch
        compares its anchors with the database rows that follow its anchors, or with all rows if
        there are none.
    bound : BoundLoss, or an object called like it
        The loss, with the labels.
    embedding : Embedding or PlainLinear
    sides : tuple of two (embedding, slice)
        The embeddings of anchors and of the database, and which of the parameters are theirs.
    n_jobs : int
    """

    def __init__(self, problem: Problem) -> None:
        samples, loss, embedding = problem.samples, problem.loss, problem.embedding
        self.X, self._evaluate = samples.X, problem.evaluate
        self.embedding: Any = embedding
        self.database: Any = problem.database
        self.n_jobs = as_threads(problem.n_jobs)
        n_own, labels = len(embedding.decays(0.0)), None
        one = embedding, slice(n_own)
        self.sides: tuple[tuple[Any, slice], tuple[Any, slice]] = one, one
        if isinstance(embedding, Asymmetric):
            n_query = len(embedding.query.decays(0.0))
            self.sides = (
                (embedding.query, slice(n_query)), (embedding.database, slice(n_query, n_own))
            )  # fmt: skip
        if is_learnable(loss):
            self.database, labels = "table", np.arange(len(samples.classes))
            proxies = _Proxies(bool(getattr(embedding, "normalize", False)))
            self.sides = one, (proxies, slice(n_own, None))
        elif samples.database is not None:
            self.database, labels = samples.database.X, samples.database.labels
        self._shares_parameters = self.sides[0] is self.sides[1]
        self._two_sided = not (self._shares_parameters and isinstance(self.database, str))
        is_bound = loss is None or hasattr(loss, "for_thread")
        self.bound = loss if is_bound else _bind(loss, samples, labels, problem.n_jobs)

    def __call__(
        self, arrays: list[Array], batch: Batch | None = None, part: slice | None = None
    ) -> tuple[float, list[Array]]:
        """Return the loss and its gradients by the parameters; no gradients if it is not finite.

        `part`: the anchors to evaluate, by default all anchors of the batch. If the loss is a sum
        over anchors, the losses of parts sum to the loss of all anchors.
        """
        if self._evaluate is not None:
            return self._evaluate(self, arrays, batch, part)
        return self.of_embedding(arrays, batch, part)

    def of_embedding(
        self, arrays: list[Array], batch: Batch | None = None, part: slice | None = None
    ) -> tuple[float, list[Array]]:
        """Return the loss of embedded points and its gradients, whatever `Problem.evaluate` is."""
        arrays = [np.ascontiguousarray(array, self.X.dtype) for array in arrays]
        if self._two_sided:
            return self._of_sides(arrays, batch, part)
        rows, anchors = self.pool(batch, part)
        X = self.X if rows is None else self.X[rows]
        Z, cache = self.embedding._forward(arrays, X, n_jobs=self.n_jobs)
        value, upstream = self.bound(Z, rows, anchors)
        return value, self.embedding._backward(arrays, cache, upstream, n_jobs=self.n_jobs)

    def of_parts(
        self, arrays: list[Array], batch: Batch | None, parts: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[float, list[Array]]]:
        """Yield loss and gradients for each part of the anchors. Points are mapped once."""
        own, (query, (references, which)) = copy.copy(self), self.sides
        own.embedding, own.sides = _Once(self.embedding), (query, (_Once(references), which))
        for ends in parts:
            yield own(arrays, batch, slice(*ends))

    def evaluate_pairs(self, arrays: list[Array]) -> tuple[float, list[Array]] | None:
        """Return the loss of all points from lists of active pairs, or None without lists."""
        if not self.bound.has_lists:
            return None
        arrays = [np.ascontiguousarray(array, self.X.dtype) for array in arrays]
        Z, cache = self.embedding._forward(arrays, self.X, n_jobs=self.n_jobs)
        found = self.bound.evaluate_pairs(Z)
        if found is None:
            return None
        value, upstream = found
        return value, self.embedding._backward(arrays, cache, upstream, n_jobs=self.n_jobs)

    def for_thread(self, n_jobs: int | None) -> Self:
        """Return a copy for another thread or process."""
        own = copy.copy(self)
        own.bound, own.n_jobs = self.bound.for_thread(n_jobs), as_threads(n_jobs)
        return own

    def pool(self, batch: Batch | None, part: slice | None) -> tuple[Integers | None, Any]:
        """Return the rows of points that are compared with each other, and which are anchors.

        The rows are None for all points. Anchors are a slice of them, or indices.
        """
        if batch is None:
            return None, part or slice(None)
        anchors = part or slice(0, batch.n_anchors)
        if self.database == "batch":
            return batch.rows, anchors
        return None, batch.rows[anchors]

    def anchors(self, batch: Batch | None, part: slice | None) -> Any:
        """Return the rows of anchors among all points: a slice, or indices."""
        if batch is None:
            return part or slice(None)
        return batch.rows[part or slice(0, batch.n_anchors)]

    def _of_sides(
        self, arrays: list[Array], batch: Batch | None, part: slice | None
    ) -> tuple[float, list[Array]]:
        """Return the loss of anchors and a database that are embedded apart."""
        (query, of_query), (references, of_references) = self.sides
        anchors, own, others = self.anchors(batch, part), arrays[of_query], arrays[of_references]
        X, rows, exclude = self.database, None, None
        if not isinstance(X, str):
            if batch is not None and len(batch.rows) > batch.n_anchors:
                rows = batch.rows[batch.n_anchors :]
        elif X != "table":
            X, (rows, places) = self.X, self.pool(batch, part)
            exclude = np.arange(X.shape[0] if rows is None else len(rows))[places]
        Zq, cache = query._forward(own, self.X[anchors], n_jobs=self.n_jobs)
        labelled = np.arange(self.X.shape[0])[anchors]
        X = X if rows is None else X[rows]
        Zd, kept = references._forward(others, X, n_jobs=self.n_jobs)
        value, (dq, dd) = self.bound.evaluate_two_sided(Zq, Zd, labelled, rows, exclude)
        by_query = query._backward(own, cache, dq, n_jobs=self.n_jobs)
        by_database = references._backward(others, kept, dd, n_jobs=self.n_jobs)
        if self._shares_parameters:
            return value, [a + b for a, b in zip(by_query, by_database, strict=True)]
        return value, by_query + by_database


class _Once:
    """An embedding that maps the same points once, for several parts of the anchors."""

    def __init__(self, embedding: Any) -> None:
        self._embedding = embedding
        self._found: tuple[Array, Any] | None = None

    def _forward(self, parameters: list[Array], X: Any, *, n_jobs: int) -> tuple[Array, Any]:
        if self._found is None:
            self._found = self._embedding._forward(parameters, X, n_jobs=n_jobs)
        return self._found

    def _backward(
        self, parameters: list[Array], cache: Any, upstream: Array, *, n_jobs: int
    ) -> list[Array]:
        found: list[Array] = self._embedding._backward(parameters, cache, upstream, n_jobs=n_jobs)
        return found


class _Proxies:
    """A table of proxies as an embedding, whose only parameter is the embedded database."""

    def __init__(self, normalize: bool) -> None:
        self._normalize = normalize

    def _forward(
        self, parameters: list[Array], X: Any, *, n_jobs: int
    ) -> tuple[Array, tuple[Array, Array] | None]:
        (table,) = parameters
        if not self._normalize:
            return table, None
        table, lengths = table.copy(), np.empty(len(table))
        get_kernels().normalize_forward(table, lengths, n_jobs)
        return table, (table, lengths)

    def _backward(
        self, parameters: list[Array], cache: Any, upstream: Array, *, n_jobs: int
    ) -> list[Array]:
        """Return the gradient by the table."""
        if cache is not None:
            table, lengths = cache
            get_kernels().normalize_backward(table, lengths, upstream, n_jobs)
        return [upstream]


def _bind(loss: Any, samples: Samples, y_database: Any, n_jobs: int | None) -> Any:
    """Bind a loss to the labels and weights of samples, which are checked once.

    `y_database`: labels of a database of other points, or None.
    """
    y = samples.labels
    plain = getattr(type(loss), "_bound_labels", None) is BaseLoss._bound_labels
    if plain and y_database is None and samples.has_classes and loss.labels == "class":
        return loss.on_codes(y, samples.weight, n_jobs)
    if isinstance(y, np.ndarray):  # a view without a copy
        y = y.view()
        y.flags.writeable = False
    if isinstance(loss, BaseLoss):
        return loss.on(y, samples.weight, y_database=y_database, n_jobs=n_jobs)
    weight = None if samples.repeated and not takes_weights(loss) else samples.weight
    return BoundFunction(loss, y, weight, y_database, n_jobs)


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
        self.of_span = samples.map_of_span(start[0]) if start else None
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
