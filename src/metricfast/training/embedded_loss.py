"""The loss of a problem as a function of the parameters.

Parameters → embedded anchors and database → loss → gradients by points → gradients by parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.types import Array, Integers
from metricfast.embeddings import Asymmetric
from metricfast.samplers import Batch
from metricfast.training.adapters import bind
from metricfast.training.problem import Problem, is_learnable

if TYPE_CHECKING:
    from typing_extensions import Self


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
        self.bound = loss if is_bound else bind(loss, samples, labels, problem.n_jobs)

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
