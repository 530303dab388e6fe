"""Pairs of queries and database points: scored pairs, or pairs that belong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array, eye_array, issparse
from scipy.stats import rankdata

from metricfast._core.points import dense
from metricfast._core.targets import check_regression_target, check_sample_weight
from metricfast._core.tuples import index_tuples
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast.losses._call import Loss
from metricfast.samplers import Batch
from metricfast.training.samples import Samples

__all__ = ["Pairs", "PrefixesLoss", "load_pairs"]

# Queries of a block, which are compared with the database points of the block alone; and scored
# pairs of a mini-batch.
_BLOCK, _BATCH = 512, 1024


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows of two tables.

    Attributes
    ----------
    queries, database : ndarray of shape (n_queries, n_features), (n_database, n_features_database)
        Different points of each side.
    index : ndarray of shape (n_pairs, 2 or more)
        A row of `queries` and a row of `database` for each pair; then rows of its hard negatives.
    scores : ndarray of shape (n_pairs,) or None
        None for positives: pairs that belong together, where other pairs do not.
    weight : ndarray of shape (n_pairs,) or None
    """

    queries: Array
    database: Array
    index: Integers
    scores: Floats | None = None
    weight: Floats | None = None

    @classmethod
    def of_distinct(cls, queries: Array, database: Array, index: Integers, **given: Any) -> Pairs:
        """Return pairs of tables in which each point is once."""
        (first, codes), (other, others) = _distinct(queries), _distinct(database)
        both = np.column_stack([codes[index[:, 0]], others[index[:, 1:]]])
        return cls(queries[first], database[other], both, **given)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.index)

    def take(self, rows: Any) -> Pairs:
        """Return some pairs, of the same tables."""
        scores = None if self.scores is None else self.scores[rows]
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, index=self.index[rows], scores=scores, weight=weight)

    def compact(self, whole_database: bool = False) -> Pairs:
        """Return the pairs, of tables of their points alone."""
        used, left = np.unique(self.index[:, 0], return_inverse=True)
        found = replace(self, queries=self.queries[used])
        if whole_database:
            return replace(found, index=np.column_stack([left, self.index[:, 1:]]))
        used, right = np.unique(self.index[:, 1:], return_inverse=True)
        index = np.column_stack([left, right.reshape(self.index[:, 1:].shape)])
        database = self.database[used]
        return replace(found, database=database, index=index)

    def folds(self, n_folds: int, rng: RandomState) -> Iterator[tuple[Pairs, Pairs]]:
        """Yield pairs to train on and validation pairs, which share no query.

        Positives are searched for in the whole database.
        """
        fold = (rng.permutation(len(self.queries)) % n_folds)[self.index[:, 0]]
        for i in range(n_folds):
            held_out = self.take(fold == i).compact(whole_database=self.scores is None)
            yield self.take(fold != i).compact(), held_out

    @property
    def n_values(self) -> int:
        """The number of `values`: one for each pair, or for each query of positives."""
        return len(self.queries) if self.scores is None else len(self)

    @property
    def work(self) -> int:
        """The number of multiplications for a pair: by the map, and with the others of a block."""
        n_features, width = self.queries.shape[1], self.database.shape[1]
        return int(width * (n_features + (_BLOCK if self.scores is None else 0)))

    @property
    def tables(self) -> Samples:
        """The points of both sides."""
        return Samples(self.queries, database=Samples(self.database))

    def parts(self, loss: Any, n_jobs: int | None) -> tuple[Samples, Any, list[Batch]]:
        """Return samples, the loss with its labels, and mini-batches."""
        if self.scores is None:
            positives = _PositivesLoss(loss, self, n_jobs)
            batches = [Batch(np.concatenate(block), len(block[0])) for block in positives.blocks]
            return self.tables, positives, batches
        left, right = self.index.T
        samples = Samples(self.queries[left], database=Samples(self.database[right]))
        rows = np.random.RandomState(0).permutation(len(self))
        batches = [
            Batch(np.tile(some, 2), len(some))
            for some in np.array_split(rows, -(-len(rows) // _BATCH))
        ]
        return samples, loss.on_pairs(self.scores, self.weight, n_jobs=n_jobs), batches

    def values(self, Z: Array, Z_database: Array) -> Floats:
        """Return how well embedded tables rank pairs: a value for each pair or query.

        Their mean is Spearman's correlation of cosines and scores. Without scores it is the mean
        reciprocal rank of the first point of the database that belongs to a query.
        """
        if self.scores is None:
            return self._reciprocal_ranks(Z, Z_database)
        left, right = self.index.T
        cosines = np.einsum("ij,ij->i", Z[left], Z_database[right])
        return _influences(cosines, self.scores, self.weight)

    def _reciprocal_ranks(self, Z: Array, Z_database: Array) -> Floats:
        relevance, found = self.relevance, []
        rows = np.flatnonzero(np.diff(relevance.indptr))
        for some in np.array_split(rows, -(-len(rows) // _BLOCK)):
            similarities = Z[some] @ Z_database.T
            own = np.where(relevance[some].toarray() > 0, similarities, -np.inf)
            best = own.max(axis=1, keepdims=True)
            # Those at equal similarity, of which the order is not known, count half.
            above, equal = (similarities > best).sum(axis=1), (similarities == best).sum(axis=1)
            found.append(1 / (1 + above + (equal - 1) / 2))
        return np.concatenate(found)

    @property
    def relevance(self) -> csr_array:
        """Ones where a point of the database belongs to a query."""
        return self._ones(self.index[:, 1:2])

    @property
    def members(self) -> csr_array:
        """Ones where a point of the database belongs to a query or is its hard negative."""
        return self._ones(self.index[:, 1:])

    def _ones(self, database_rows: Integers) -> csr_array:
        rows = np.repeat(self.index[:, 0], database_rows.shape[1])
        found = csr_array(
            (np.ones(len(rows)), (rows, database_rows.ravel())),
            shape=(len(self.queries), len(self.database)),
        )
        found.data[:] = 1
        return found


def load_pairs(
    learner: Any, pairs: Any, y: Any, X_database: Any, sample_weight: Any = None, *, reset: bool
) -> Pairs:
    """Check the pairs of `fit`, or of a later call, and return them as pairs of distinct points."""
    if X_database is not None:
        queries, database = _load_sides(learner, pairs, X_database, reset)
        index = _index_of_sides(y, len(queries), len(database))
    elif issparse(y):
        raise ValueError(
            "y must hold a score for each pair: found a sparse matrix, which needs X_database."
        )
    else:
        how: dict[str, Any] = {"preprocessor": learner.preprocessor_, "reset": reset}
        tuples = index_tuples(learner, pairs, tuple_size=None if y is None else 2, **how)
        if tuples.index.shape[1] < 2:
            raise ValueError("pairs must hold tuples of at least 2 points; found tuples of 1.")
        found = Pairs(tuples.points, tuples.points, tuples.index).compact()
        queries, database, index = found.queries, found.database, found.index
    if len(index) < 2:
        raise ValueError(f"pairs must hold at least 2 pairs; found {len(index)}.")
    scores, weighed = None, len(index)
    if issparse(y):
        weighed = len(queries)
    elif y is not None:
        scores = _check_scores(y, len(index), reset)
    weight = check_sample_weight(sample_weight, weighed)
    if weight is not None and issparse(y):
        weight = weight[index[:, 0]]
    found = Pairs.of_distinct(queries, database, index, scores=scores, weight=weight)
    return found if weight is None else found.take(weight > 0).compact()


def _load_sides(learner: Any, X: Any, X_database: Any, reset: bool) -> tuple[Array, Array]:
    """Check queries and a database, and return them in one precision."""
    if reset:
        X = learner._prepare_inputs(X)
        database = learner._database_points(X_database, reset=True, order="C")
    else:
        X = dense(learner._side_points(X, "query"))
        database = dense(learner._database_points(X_database))
    dtype = np.result_type(X, database)
    return X.astype(dtype, copy=False), database.astype(dtype, copy=False)


def _index_of_sides(y: Any, n: int, m: int) -> Integers:
    """Return the pairs of the entries of y above 0, or of rows that belong together."""
    if issparse(y):
        if y.shape != (n, m):
            raise ValueError(
                f"y must have shape ({n}, {m}), a row for each query and a column for each point "
                f"of X_database; found {y.shape}."
            )
        relevant = csr_array(y).tocoo()
        if np.isnan(relevant.data).any():
            raise ValueError("y contains NaN; leave out pairs that are not judged.")
        chosen = relevant.data > 0
        return np.column_stack([each[chosen] for each in relevant.coords]).astype(np.int64)
    if n != m:
        raise ValueError(
            f"X_database must have a row for each row of pairs, {n}; found {m}. For other "
            "databases, give a sparse matrix as y."
        )
    return np.column_stack([np.arange(n)] * 2)


def _check_scores(y: Any, n: int, vary: bool) -> Floats:
    scores = check_regression_target(y, vary=False)
    if len(scores) != n:
        raise ValueError(f"y must hold {n} scores, one per pair; found {len(scores)}.")
    if vary and scores.min() == scores.max():
        raise ValueError(
            f"y must hold different scores: all are {scores[0]:g}. Leave y out if the points of "
            "each pair belong together."
        )
    return scores


class _PositivesLoss:
    """A loss of classes, in which the database points that belong to a query are its class.

    Queries are compared with the database points of their block, hard negatives included.
    """

    has_lists = False

    def __init__(self, loss: Loss, pairs: Pairs, n_jobs: int | None) -> None:
        relevance, weight = pairs.relevance, None
        if pairs.weight is not None:
            totals = np.bincount(pairs.index[:, 0], pairs.weight, len(pairs.queries))
            weight = totals / np.maximum(np.diff(relevance.indptr), 1)
        own = csr_array(eye_array(len(pairs.database)))
        self._bound = loss.on(relevance, weight, y_database=own, n_jobs=n_jobs)
        rows = np.random.RandomState(0).permutation(len(pairs.queries))
        members = pairs.members
        self.blocks = [
            (some, np.unique(members[some].indices))
            for some in np.array_split(rows, -(-len(rows) // _BLOCK))
        ]

    def evaluate_two_sided(
        self, Z: Array, Z_database: Array, rows: Any = None, database_rows: Any = None,
        exclude: Any = None,
    ) -> tuple[float, tuple[Array, Array]]:  # fmt: skip
        """Return the value and both gradients: of a block, or the mean over all of them."""
        del exclude
        if database_rows is not None:
            return self._bound.evaluate_two_sided(Z, Z_database, rows, database_rows)
        total, dZ, dZ_database = 0.0, np.zeros_like(Z), np.zeros_like(Z_database)
        for some, others in self.blocks:
            value, (of_queries, of_database) = self._bound.evaluate_two_sided(
                Z[some], Z_database[others], some, others
            )
            share = len(some) / len(Z)
            total += share * value
            dZ[some] = share * of_queries
            dZ_database[others] += share * of_database
        return total, (dZ, dZ_database)

    def for_thread(self, n_jobs: int | None) -> _PositivesLoss:
        """Return the loss itself."""
        return self


class PrefixesLoss:
    """The mean of a loss over prefixes of points, each divided by its length."""

    has_lists = False

    def __init__(self, loss: Any, sizes: Sequence[int]) -> None:
        self._loss, self._sizes = loss, sizes

    def evaluate_two_sided(
        self, Z: Array, Z_database: Array, *rows: Any
    ) -> tuple[float, tuple[Array, Array]]:
        """Return the value and both gradients."""
        total, slopes = 0.0, (np.zeros_like(Z), np.zeros_like(Z_database))
        for size in self._sizes:
            sides = [_unit(each[:, :size]) for each in (Z, Z_database)]
            value, found = self._loss.evaluate_two_sided(*(U for U, _ in sides), *rows)
            total += value / len(self._sizes)
            for slope, (U, lengths), each in zip(slopes, sides, found, strict=True):
                along = np.einsum("ij,ij->i", U, each)[:, None]
                slope[:, :size] += (each - along * U) / (lengths * len(self._sizes))
        return total, slopes

    def for_thread(self, n_jobs: int | None) -> PrefixesLoss:
        """Return the loss for another thread."""
        return PrefixesLoss(self._loss.for_thread(n_jobs), self._sizes)


def _unit(Z: Array) -> tuple[Array, Array]:
    """Return points divided by their lengths, and these; points of length 0 as they are."""
    lengths = np.linalg.norm(Z, axis=1, keepdims=True)
    lengths[lengths <= np.finfo(Z.dtype).tiny] = np.inf
    return np.ascontiguousarray(Z / lengths), lengths


def _distinct(X: Array) -> tuple[Integers, Integers]:
    """Return the first row of each different point, and which of these each row is like."""
    keys = np.ascontiguousarray(X).view(f"V{X.dtype.itemsize * X.shape[1]}").ravel()
    _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[codes.ravel()]


def _influences(a: Array, b: Array, weight: Floats | None) -> Floats:
    """Return numbers whose mean is Spearman's correlation, and whose spread gives its error."""
    weight = np.ones(len(a)) if weight is None else weight / weight.mean()
    ranks = [rankdata(each) for each in (a, b)]
    centred = [rank - np.average(rank, weights=weight) for rank in ranks]
    lengths = [np.sqrt(np.average(each**2, weights=weight)) for each in centred]
    if not all(lengths):
        return np.zeros(len(a))
    x, y = (each / length for each, length in zip(centred, lengths, strict=True))
    correlation = np.average(x * y, weights=weight)
    return np.asarray(correlation + weight * (x * y - correlation * (x**2 + y**2) / 2))
