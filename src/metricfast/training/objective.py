"""The objective of a training: loss and penalty as a function of the solver's vector.

X → Z → loss → dZ → gradient by the parameters, for all points or for a batch, in one place.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.sparse import embed_sparse, sparse_gradient
from metricfast.embeddings import Asymmetric, Embedding
from metricfast.exceptions import LossOverflowError
from metricfast.samplers import Batch
from metricfast.training.adapters import bind
from metricfast.training.preconditioner import FlatParameters
from metricfast.training.samples import Samples

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "Evaluator",
    "LinearMap",
    "Objective",
    "anchors_of",
    "finite",
    "is_continuous",
    "is_learnable",
    "map_points",
]

Array = NDArray[Any]
Penalty = Callable[[list[Array]], tuple[float, list[Array]]]
# Evaluates the loss of an objective at parameters, on a batch or all points: on a cluster.
Evaluator = Callable[["Objective", list[Array], Batch | None], tuple[float, list[Array]]]
# With gradients of fewer points than this share, a gradient by a map looks at these alone.
_FEW = 0.5


def anchors_of(batch: Batch | None, part: slice | None) -> slice | None:
    """Return the places of the anchors, or of a part of them; None for all points."""
    return part if batch is None or part is not None else slice(0, batch.n_anchors)


def is_continuous(loss: Any) -> bool:
    """Return whether the labels of a loss are continuous, not classes."""
    return bool(getattr(loss, "labels", "class") != "class")


def is_learnable(loss: Any) -> bool:
    """Return whether a loss learns its database, a table of proxies."""
    return bool(getattr(loss, "learnable_database", False))


def finite(Z: Array) -> bool:
    """Return whether all values are finite."""
    return bool(get_kernels().all_finite(Z))


def map_points(X: Any, L: Array, n_jobs: int | None = None) -> Array:
    """Map points, in their own dtype; sparse ones to points of mean zero."""
    if issparse(X):
        return embed_sparse(X, L)
    Z = np.empty((len(X), len(L)), X.dtype)
    get_kernels().linear_forward(X, np.ascontiguousarray(L, dtype=X.dtype), Z, as_threads(n_jobs))
    return Z


class LinearMap:
    """A linear map in float64 of points in either dtype: an embedding without checks."""

    asymmetric = False

    def _forward(
        self, parameters: list[Array], X: Any, *, side: str = "query", n_jobs: int | None = None
    ) -> tuple[Array, Any]:
        del side
        return map_points(X, parameters[0], n_jobs), X

    def backward(
        self, parameters: list[Array], cache: Any, upstream: Array, *, n_jobs: int | None = None
    ) -> list[Array]:
        """Turn the gradient by embedded points into that by the map."""
        X = cache
        used = np.flatnonzero(upstream.any(axis=1))
        if len(used) < _FEW * len(upstream):
            X, upstream = X[used], upstream[used]
        if not len(used):
            return [np.zeros(parameters[0].shape)]
        if issparse(X):
            # All points were centred: those without a gradient have a part in the mean, too.
            total = upstream.sum(axis=0, dtype=np.float64)
            return [sparse_gradient(upstream, X) - np.outer(total, cache.mean(axis=0))]
        return [np.asarray(get_kernels().linear_backward(upstream, X, as_threads(n_jobs)))]


class Objective:
    """Embedding, loss and penalty, as a function of the solver's vector.

    Parameters
    ----------
    samples : Samples
    embedding : Embedding or LinearMap
    loss : loss
        One of `metricfast.losses`, a function with the same arguments, or one that has its labels.
    preconditioner : FlatParameters
    database : {"batch", "all"}, default="batch"
        The points that anchors are compared with, if the samples are their own database: the other
        points of their batch, or all.
    penalty : callable, optional
        ``penalty(arrays)`` returns value and gradients. A batch has its share of the penalty.
    C : float, default=1
        Weight of the loss.
    tally : callable, optional
        ``tally(loss, value, batch)`` is called after every evaluation, with the loss and the
        objective.
    n_jobs : int, optional

    Attributes
    ----------
    X, database
        The points, and those that anchors are compared with: as the parameter says, or points of
        another database, or "table" for proxies, the last of the parameters, which are normalized
        if embedded points are. A batch compares its anchors with the database rows that follow its
        anchors, or with all rows if there are none.
    all_samples : Samples
        `samples`, and the validation samples if there are any.
    evaluator : callable or None
        Computes the loss elsewhere, such as on a cluster.
    smooth : bool
        Whether "lbfgs" is L-BFGS of SciPy. Otherwise it is the variant for sums of hinges.
    refresh_every : int
        Iterations between two calls of `refresh`; 0 for none.
    relative_steps : bool
        Whether learning rates are relative to the size of the initial vector.
    averages_batches : bool
        Whether the objective of an epoch is the mean over its batches, not the sum.
    keeps_last : bool
        Whether the result is the last iteration. By default it is the best. With validation points
        it is always the best.
    learning_rate, schedule : float, str
        Values for solvers without their own.
    unit : float
        Factor that turns the objective into the units of the given data.
    quantity : str
        What progress calls the objective.
    remedy : str
        What to do if the loss is not finite.
    """

    smooth = True
    refresh_every = 0
    relative_steps = True
    averages_batches = False
    keeps_last = False
    learning_rate = 0.01
    schedule = "cosine"
    unit = 1.0
    quantity = "objective"
    remedy = (
        "rescale X, choose another `init`, lower learning_rate, or make sure that your own loss "
        "and its gradient are finite"
    )

    def __init__(
        self,
        samples: Samples,
        embedding: Embedding | LinearMap,
        loss: Any,
        preconditioner: FlatParameters,
        *,
        database: str = "batch",
        penalty: Penalty | None = None,
        C: float = 1.0,
        tally: Callable[[float, float, Batch | None], None] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        compared: Any = database
        of_database = None
        if is_learnable(loss):
            compared, of_database = "table", np.arange(len(samples.classes))
        elif samples.database is not None:
            compared, of_database = samples.database.X, samples.database.labels
        if not hasattr(loss, "for_thread"):
            loss = bind(loss, samples, of_database, n_jobs)
        self.samples, self.all_samples = samples, samples
        self.X, self.database, self.penalty, self.C = samples.X, compared, penalty, C
        self.embedding, self.loss, self.preconditioner = embedding, loss, preconditioner
        self.tally, self.n_jobs = tally, n_jobs
        self.evaluator: Evaluator | None = None
        self._of_parts = False
        self._kept: tuple[Array, Any] | None = None

    def __call__(self, x: Array, batch: Batch | None = None) -> tuple[float, Array]:
        """Return value and gradient, of all points or of a batch.

        If they are not finite: infinity, and zeros.
        """
        arrays = self.preconditioner.arrays(x)
        try:
            if self.evaluator is None:
                value, gradients = self.of_loss(arrays, batch)
            else:
                value, gradients = self.evaluator(self, arrays, batch)
        except LossOverflowError:
            value, gradients = math.nan, []
        surrogate = value
        if not (math.isfinite(value) and gradients):
            return math.inf, np.zeros_like(x)
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = self.C * self.preconditioner.pullback(gradients).astype(x.dtype, copy=False)
            value *= self.C
            if self.penalty is not None:
                share = 1.0 if batch is None else batch.n_anchors / self.X.shape[0]
                penalty, shrinking = self.penalty(arrays)
                value += share * penalty
                gradient += share * self.preconditioner.pullback(shrinking).astype(
                    x.dtype, copy=False
                )
            if not (math.isfinite(value) and finite(gradient[None])):
                return math.inf, np.zeros_like(x)
        if self.tally is not None:
            self.tally(surrogate, value, batch)
        return value, gradient

    def of_loss(
        self, arrays: list[Array], batch: Batch | None, part: slice | None = None
    ) -> tuple[float, list[Array]]:
        """Return the loss and its gradients by the parameters; no gradients if it is not finite.

        `part`: the anchors to evaluate, by default all anchors of the batch. If the loss is a sum
        over anchors, the losses of parts add up to the loss of all.
        """
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
        """Yield loss and gradients of each part of the anchors. Points are mapped once."""
        own = self._with(_of_parts=True, _kept=None)
        for ends in parts:
            yield own.of_loss(arrays, batch, slice(*ends))

    def evaluate_pairs(self, arrays: list[Array]) -> tuple[float, list[Array]] | None:
        """Return the loss of all points from its lists of active pairs, if it has any."""
        arrays = [np.ascontiguousarray(array, self.X.dtype) for array in arrays]
        if not self.loss.has_lists:
            return None
        Z, cache = self.embedding._forward(arrays, self.X, n_jobs=self.n_jobs)
        found = self.loss.evaluate_pairs(Z)
        if found is None:
            return None
        return found[0], self.embedding.backward(arrays, cache, found[1], n_jobs=self.n_jobs)

    def runs(self, weight_decay: float) -> list[tuple[slice, float, float]]:
        """Return adjacent parameters, with their weight decay and factor of the learning rate."""
        return [(slice(None), float(weight_decay), 1.0)]

    def learned(self, x: Array) -> list[Array]:
        """Return the parameters of the solver's vector, as callbacks see them."""
        return self.preconditioner.arrays(x)

    def coordinates(self, samples: Samples) -> Samples:
        """Return samples as this problem sees points: in a basis of their span, or as they are."""
        return samples

    def score(self, cost: float) -> float:
        """Return the score of validation samples, given their cost."""
        return -cost

    def refresh(self, x: Array) -> None:
        """Update the state that the loss keeps between iterations, such as impostors, for x."""

    def local(self) -> Self:
        """Return a copy that is evaluated in this process."""
        return self._with(evaluator=None)

    def for_thread(self, n_jobs: int | None) -> Self:
        """Return a copy for another thread, which evaluates the loss alone."""
        return self._with(
            loss=self.loss.for_thread(n_jobs),
            n_jobs=n_jobs,
            evaluator=None,
            tally=None,
            penalty=None,
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
        """Embed the database; once, if several parts are evaluated."""
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
