"""The objective: a problem as a function of the solver's vector.

Computes X → Z → loss → dZ → gradient by the parameters, for all points or for a batch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.types import RandomState
from metricfast.embeddings import Asymmetric
from metricfast.exceptions import LossOverflowError
from metricfast.samplers import Batch, class_batches
from metricfast.selection._measures import neighbor_error
from metricfast.training.adapters import bind
from metricfast.training.chunks import batches_of
from metricfast.training.embedded import LinearMap, embed_samples, finite
from metricfast.training.history import History, Vector
from metricfast.training.preconditioner import FlatParameters
from metricfast.training.problem import Problem, is_learnable
from metricfast.training.samples import Samples
from metricfast.training.span import WithConstant
from metricfast.training.steps import runs_of

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Evaluator", "Objective", "anchors_of"]

Array = NDArray[Any]
# Evaluates the loss of an objective elsewhere, for example on a cluster.
Evaluator = Callable[["Objective", list[Array], Batch | None], tuple[float, list[Array]]]
# In an epoch, a penalty of so many parameters is evaluated once for some batches in a row: it
# changes slowly, and takes longer than the loss.
_COSTLY, _SHARED = 1 << 16, 4
# Default number of points in a mini-batch.
_LEAST_BATCH, _LARGEST_BATCH, _BATCHES = 100, 1000, 10


def anchors_of(batch: Batch | None, part: slice | None) -> slice | None:
    """Return the indices of the anchors, or of a part of them; None means all points."""
    return part if batch is None or part is not None else slice(0, batch.n_anchors)


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
    X, database
        The points, and those that anchors are compared with: as the parameter says, or points of
        another database, or "table" for proxies, the last of the parameters, which are normalized
        if embedded points are. A batch compares its anchors with the database rows that follow its
        anchors, or with all rows if there are none.
    x0 : ndarray
        The solver's initial vector.
    start : list of ndarray
        The parameters that it stands for.
    of_span : MapOfSpan or None
        The initial map of all features, if the problem is trained in the span of the points.
    initial_map : ndarray, WideMap or None
        The map that `init` names, of a linear learner.
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
        samples, loss, compared = problem.samples, problem.loss, problem.database
        of_database = None
        if is_learnable(loss):
            compared, of_database = "table", np.arange(len(samples.classes))
        elif samples.database is not None:
            compared, of_database = samples.database.X, samples.database.labels
        if not hasattr(loss, "for_thread"):
            loss = bind(loss, samples, of_database, problem.n_jobs)
        self.problem, self.samples, self.all_samples = problem, samples, samples
        self.traits, self.n_jobs = problem.traits, problem.n_jobs
        self.X, self.database, self.loss, self.embedding = (
            samples.X, compared, loss, problem.embedding
        )  # fmt: skip
        self.evaluator: Evaluator | None = None
        self.tally, self._evaluate = problem.tally, problem.evaluate
        self._of_parts = False
        self._kept: tuple[Array, Any] | None = None
        self._batches_done: int | None = None
        self._shared_penalty: tuple[float, Array] | None = None
        self.initial_map: Any = None
        self.of_span = problem.of_span(start[0]) if start else None
        self._n_own = len(self.embedding.decays(0.0))
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
            self.preconditioner = self._preconditioner(arrays, full)
            dtype = np.float64 if problem.traits.double else self.X.dtype
            self.x0 = self.preconditioner.vector(full).astype(dtype, copy=False)
        self.start = self.parameters(self.x0)

    def _preconditioner(self, arrays: list[Array], full: list[Array]) -> FlatParameters:
        found = self.problem.preconditioner
        if found is None:
            found = FlatParameters([array.shape for array in full])
        elif not isinstance(found, FlatParameters):
            found = found(arrays, self.of_span)
        return found if self.of_span is None else WithConstant(found, self.of_span.rest_norm)

    def __call__(self, x: Array, batch: Batch | None = None) -> tuple[float, Array]:
        """Return value and gradient for all points or for a batch.

        If they are not finite, returns infinity and zeros.
        """
        problem, arrays = self.problem, self.preconditioner.arrays(x)
        try:
            loss, gradients = (self.evaluator or Objective.of_loss)(self, arrays, batch)
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
                share = 1.0 if batch is None else batch.n_anchors / self.X.shape[0]
                penalty, shrinking = self._penalty(arrays, batch)
                value += share * penalty
                gradient += share * shrinking
            if not (math.isfinite(value) and finite(gradient[None])):
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
        self._shared_penalty = value, gradient
        return value, gradient

    def of_loss(
        self, arrays: list[Array], batch: Batch | None, part: slice | None = None
    ) -> tuple[float, list[Array]]:
        """Return the loss and its gradients by the parameters; no gradients if it is not finite.

        `part`: the anchors to evaluate, by default all anchors of the batch. If the loss is a sum
        over anchors, the losses of parts sum to the loss of all anchors.
        """
        if self._evaluate is not None:
            return self._evaluate(self, arrays, batch, part)
        return self.of_embedding(arrays, batch, part)

    def of_embedding(
        self, arrays: list[Array], batch: Batch | None, part: slice | None = None
    ) -> tuple[float, list[Array]]:
        """Return the loss of embedded points, like `of_loss` by default."""
        arrays = [np.ascontiguousarray(array, self.X.dtype) for array in arrays]
        found: tuple[float, list[Array]]
        if isinstance(self.database, str) and self.database == "table":
            found = self._against_table(arrays, batch, part)
        elif self.embedding.asymmetric or not isinstance(self.database, str):
            found = self._two_sided(arrays, batch, part)
        else:
            found = self._one_sided(arrays, batch, part)
        shapes = [array.shape for array in arrays]
        if found[1] and [array.shape for array in found[1]] != shapes:
            raise ValueError(
                f"backward of {type(self.embedding).__name__} must return gradients of the shapes "
                f"of its parameters, {shapes}; found {[array.shape for array in found[1]]}."
            )
        return found

    def of_parts(
        self, arrays: list[Array], batch: Batch | None, parts: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[float, list[Array]]]:
        """Yield loss and gradients for each part of the anchors. Points are mapped once."""
        own = self._with(_of_parts=True, _kept=None)
        for ends in parts:
            yield own.of_loss(arrays, batch, slice(*ends))

    def evaluate_pairs(self, arrays: list[Array]) -> tuple[float, list[Array]] | None:
        """Return the loss of all points from lists of active pairs, or None without lists."""
        arrays = [np.ascontiguousarray(array, self.X.dtype) for array in arrays]
        if not self.loss.has_lists:
            return None
        Z, cache = self.embedding._forward(arrays, self.X, n_jobs=self.n_jobs)
        found = self.loss.evaluate_pairs(Z)
        if found is None:
            return None
        return found[0], self.embedding.backward(arrays, cache, found[1], n_jobs=self.n_jobs)

    def runs(self, weight_decay: float) -> list[tuple[slice, float, float]]:
        """Return slices of parameters with their weight decay and factor of the learning rate."""
        if isinstance(self.embedding, LinearMap):
            return [(slice(None), float(weight_decay), 1.0)]
        shapes = self.preconditioner.shapes
        decays = [float(decay) for decay in self.embedding.decays(weight_decay)]
        n_others = len(shapes) - len(decays)
        factors = [1.0] * len(decays) + [self.problem.proxy_lr_factor] * n_others
        return runs_of(shapes, decays + [0.0] * n_others, factors)

    def batches(
        self, rng: RandomState, batch_size: int | None = None
    ) -> Callable[[], Iterable[Batch]]:
        """Return a function that draws the mini-batches of an epoch."""
        draw = self.problem.batches or _class_batches
        return draw(self, rng, batch_size)

    def history(self, rng: RandomState, *, quiet: bool = False) -> History:
        """Return the history of a training from the initial vector."""
        problem = self.problem
        metrics = None if problem.metrics is None else problem.metrics(self)
        return History(
            self.x0, patience=problem.patience, tol=problem.tol, rng=rng, metrics=metrics,
            quiet=quiet,
        )  # fmt: skip

    @property
    def unit(self) -> float:
        """Factor that turns the objective into the units of the given data."""
        return self.samples.unit

    def parameters(self, x: Vector) -> list[Array]:
        """Return the parameters of the embedding and of the loss, such as proxies."""
        return self.preconditioner.arrays(x.copy())

    def learned(self, x: Vector) -> list[Any]:
        """Return the parameters for the given, unscaled points; a map may be a `WideMap`."""
        arrays: list[Any] = self.parameters(x)[: self._n_own]
        if isinstance(self.embedding, LinearMap):
            L = self.embedding.map_of(arrays)
            arrays = [L if self.of_span is None else self.of_span.outer(L)]
        return [self.samples.undo_scale(array) for array in arrays]

    def embed(self, samples: Samples, x: Vector) -> tuple[Array, Array]:
        """Return queries and their database, embedded."""
        arrays = self.parameters(x)[: self._n_own]
        return embed_samples(self.embedding, arrays, samples, self.n_jobs)

    def coordinates(self, samples: Samples) -> Samples:
        """Return samples in the problem's coordinates: a basis of the span, or the features."""
        return samples if self.samples.outer is None else samples.in_span

    def cost(self, held_out: Samples, x: Vector) -> float:
        """Return the cost of validation samples.

        The cost is the share of wrong classes, the mean squared error, or the negative score.
        """
        Z, Z_database = self.embed(held_out, x)
        y, y_database, problem = held_out.labels, held_out.points.labels, self.problem
        if problem.score is not None:
            return -problem.score(Z, y, Z_database, y_database)
        numeric = not held_out.has_classes
        error = neighbor_error(
            Z_database, y_database, Z, y, numeric, problem.n_voters, n_jobs=self.n_jobs
        )
        return error * held_out.unit if numeric else error

    def score(self, cost: float) -> float:
        """Convert a validation cost to a score: greater is better."""
        return 1 - cost if self.problem.score is None and self.samples.has_classes else -cost

    @property
    def refresh_every(self) -> int:
        """Iterations between two calls of `refresh`; 0 for none."""
        return self.problem.refresh_every

    def refresh(self, x: Array) -> None:
        """Update the state that the loss keeps between iterations, such as impostors, for x."""
        assert self.problem.refresh is not None
        self.problem.refresh(self.parameters(x)[0])

    def for_thread(self, n_jobs: int | None) -> Self:
        """Return a copy for another thread, which only evaluates the loss."""
        return self._with(
            loss=self.loss.for_thread(n_jobs),
            n_jobs=n_jobs,
            evaluator=None,
            tally=None,
            problem=None,
            samples=None,
            all_samples=None,
        )

    def _with(self, **changed: Any) -> Self:
        own = copy.copy(self)
        vars(own).update(changed)
        return own

    def _mapped(
        self, embedding: Any, arrays: list[Array], X: Any, rows: NDArray[np.int64] | None
    ) -> tuple[Array, Any]:
        """Embed the database; only once for several parts."""
        if self._kept is not None:
            return self._kept
        X = X if rows is None else X[rows]
        found: tuple[Array, Any] = embedding._forward(arrays, X, n_jobs=self.n_jobs)
        if self._of_parts:
            self._kept = found
        return found

    def _anchors(self, batch: Batch | None, part: slice | None) -> NDArray[np.int64]:
        """Return the rows of anchors among all points."""
        rows = np.arange(self.X.shape[0]) if batch is None else batch.rows
        return np.asarray(rows[anchors_of(batch, part) or slice(None)])

    def _one_sided(
        self, arrays: list[Array], batch: Batch | None, part: slice | None
    ) -> tuple[float, list[Array]]:
        among = batch is None or self.database == "batch"
        rows = batch.rows if among and batch is not None else None
        Z, cache = self._mapped(self.embedding, arrays, self.X, rows)
        if among:
            value, upstream = self.loss(Z, rows, anchors_of(batch, part))
        else:
            anchors = self._anchors(batch, part)
            value, (of_anchors, upstream) = self.loss.evaluate_two_sided(
                Z[anchors], Z, anchors, exclude=anchors
            )
            if len(np.unique(anchors)) == len(anchors):
                upstream[anchors] += of_anchors
            else:
                np.add.at(upstream, anchors, of_anchors)
        return value, self.embedding.backward(arrays, cache, upstream, n_jobs=self.n_jobs)

    def _two_sided(
        self, arrays: list[Array], batch: Batch | None, part: slice | None
    ) -> tuple[float, list[Array]]:
        anchors = self._anchors(batch, part)
        X: Any = self.X
        rows: Any = None
        exclude: Any = anchors
        if not isinstance(self.database, str):
            X, exclude = self.database, None
            if batch is not None and len(batch.rows) > batch.n_anchors:
                rows = batch.rows[batch.n_anchors :]
        elif self.database == "batch" and batch is not None:
            rows, exclude = batch.rows, np.arange(len(batch.rows))[anchors_of(batch, part)]
        (query, of_query), (database, of_database) = self._sides(arrays)
        Zq, query_cache = query._forward(of_query, self.X[anchors], n_jobs=self.n_jobs)
        Zd, database_cache = self._mapped(database, of_database, X, rows)
        value, (dq, dd) = self.loss.evaluate_two_sided(Zq, Zd, anchors, rows, exclude)
        by_query = query.backward(of_query, query_cache, dq, n_jobs=self.n_jobs)
        by_database = database.backward(of_database, database_cache, dd, n_jobs=self.n_jobs)
        if self.embedding.asymmetric:
            return value, by_query + by_database
        return value, [a + b for a, b in zip(by_query, by_database, strict=True)]

    def _sides(
        self, arrays: list[Array]
    ) -> tuple[tuple[Any, list[Array]], tuple[Any, list[Array]]]:
        embedding = self.embedding
        if not isinstance(embedding, Asymmetric):
            return (embedding, arrays), (embedding, arrays)
        of_query, of_database = embedding.split(arrays)
        return (embedding.query, of_query), (embedding.database, of_database)

    def _against_table(
        self, arrays: list[Array], batch: Batch | None, part: slice | None
    ) -> tuple[float, list[Array]]:
        *own, table = arrays
        anchors = None if batch is None and part is None else self._anchors(batch, part)
        X = self.X if anchors is None else self.X[anchors]
        Z, cache = self.embedding._forward(own, X, n_jobs=self.n_jobs)
        normalize = bool(getattr(self.embedding, "normalize", False))
        kernels, threads = get_kernels(), as_threads(self.n_jobs)
        if normalize:
            table, lengths = table.copy(), np.empty(len(table))
            kernels.normalize_forward(table, lengths, threads)
        value, (upstream, of_table) = self.loss.evaluate_two_sided(Z, table, anchors)
        if normalize:
            kernels.normalize_backward(table, lengths, of_table, threads)
        by_own = self.embedding.backward(own, cache, upstream, n_jobs=self.n_jobs)
        return value, [*by_own, of_table]


def _class_batches(
    objective: Objective, rng: RandomState, batch_size: int | None = None
) -> Callable[[], Iterable[Batch]]:
    """Return a function that draws the mini-batches of an epoch, from all classes."""
    samples, loss = objective.samples, objective.loss
    usual = min(_LARGEST_BATCH, max(_LEAST_BATCH, samples.X.shape[0] // _BATCHES))
    size = usual if batch_size is None else int(batch_size)
    complete = getattr(loss, "with_targets", lambda batch: batch)

    def draw(rows: Any) -> list[Batch]:
        drawn = class_batches(samples.strata[rows], size, rng)
        return [complete(Batch(rows[some], len(some))) for some in drawn]

    return batches_of(samples.X, draw, rng, size)
