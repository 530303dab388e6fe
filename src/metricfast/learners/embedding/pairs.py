"""Pairs of queries and database points: scored pairs, or pairs that belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array, eye_array, issparse
from scipy.stats import rankdata
from sklearn.utils import gen_batches

from metricfast._core.arguments import as_real, check_length
from metricfast._core.points import dense
from metricfast._core.targets import by_appearance, check_regression_target, check_sample_weight
from metricfast._core.tuples import index_tuples
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast._core.warn import warn_user
from metricfast.losses._call import BaseLoss
from metricfast.samplers import Batch
from metricfast.selection._splits import deal_pairs
from metricfast.training.samples import Samples

# Queries of a block, which are compared with the database points of the block alone.
BLOCK = 512
# Maximum number of similarities of a block of searches.
_SIMILARITIES = 1 << 20
# Pairs of a block that is mapped.
_MAPPED = 4096

# Takes an `EmbeddedLoss`, parameters and a batch; returns the loss and its gradients.
Evaluation = Callable[..., tuple[float, list[Array]]]


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows of two tables.

    Attributes
    ----------
    queries, database : ndarray of shape (n_queries, n_features), (n_database, n_features_database)
        Different points of each side.
    index : ndarray of shape (n_pairs, 2)
        A row of `queries` and a row of `database` for each pair.
    scores : ndarray of shape (n_pairs,) or None
        None for positives: pairs that belong together, where other pairs do not.
    weight : ndarray of shape (n_pairs,) or None
    negatives : ndarray of shape (n_negatives, 2)
        A row of `queries` and a row of `database` that was judged not to belong to it.
    hidden : ndarray of shape (n_hidden, 2)
        A row of `queries` and a row of `database` that its search excludes, such as its own.
    """

    queries: Array
    database: Array
    index: Integers
    scores: Floats | None = None
    weight: Floats | None = None
    negatives: Integers = field(default_factory=lambda: np.empty((0, 2), np.int64))
    hidden: Integers = field(default_factory=lambda: np.empty((0, 2), np.int64))

    def distinct(self) -> Pairs:
        """Return pairs of tables in which each point is once. Queries do not find themselves."""
        keys = _row_keys(self.queries), _row_keys(self.database)
        rows, codes = zip(*map(_distinct, keys), strict=True)
        found = self._moved(rows, codes)
        hidden = np.empty((0, 2), np.int64)
        if self.queries.shape[1] == self.database.shape[1]:
            left, right = (each[row] for each, row in zip(keys, rows, strict=True))
            _, *equal = np.intersect1d(left, right, assume_unique=True, return_indices=True)
            hidden = np.column_stack(equal)[np.argsort(equal[0])]
        return replace(found, hidden=hidden)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.index)

    def take(self, rows: Any) -> Pairs:
        """Return some pairs, of the same tables."""
        scores = None if self.scores is None else self.scores[rows]
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, index=self.index[rows], scores=scores, weight=weight)

    def compact(self, others: Any = ()) -> Pairs:
        """Return the pairs, of tables of their points and of some other rows of the database.

        Negatives of other queries are left out.
        """
        sizes = len(self.queries), len(self.database)
        used = np.unique(self.index[:, 0])
        negatives = self.negatives[np.isin(self.negatives[:, 0], used)]
        others = [np.asarray(others, np.int64), self.index[:, 1], negatives[:, 1]]
        rows = used, np.unique(np.concatenate(others))
        places = [np.full(size, -1) for size in sizes]
        for place, some in zip(places, rows, strict=True):
            place[some] = np.arange(len(some))
        return self._moved(rows, places)

    def _moved(self, rows: Sequence[Integers], places: Sequence[Integers]) -> Pairs:
        """Return the pairs, of some rows of the tables, and the place of each row among them."""
        queries, database = map(_take_rows, (self.queries, self.database), rows)
        index, *others = (
            np.column_stack([place[each] for place, each in zip(places, pairs.T, strict=True)])
            for pairs in (self.index, self.negatives, self.hidden)
        )
        negatives, hidden = (each[(each >= 0).all(axis=1)] for each in others)
        return replace(
            self, queries=queries, database=database, index=index, negatives=negatives,
            hidden=hidden,
        )  # fmt: skip

    def sample(self, n: int, rng: RandomState) -> Pairs:
        """Return all pairs of some queries, about n, and a sample of the database."""
        place = rng.permutation(len(self.queries))[self.index[:, 0]]
        found = self.take(np.sort(np.argsort(place, kind="stable")[:n]))
        others = () if self.scores is not None else rng.permutation(len(self.database))
        return found.compact(others[:10_000])  # a sample is searched among so many others

    def without(self, others: Sequence[Pairs]) -> Pairs:
        """Return the pairs that share no query, and of positives no document, with other ones."""
        kept = np.ones(len(self), bool)
        for i, name in enumerate(("queries", "database") if self.scores is None else ("queries",)):
            keys, *known = (
                _row_keys(getattr(each, name))[each.index[:, i]] for each in (self, *others)
            )
            kept &= ~np.isin(keys, np.concatenate(known))
        return self.take(kept).compact()

    def folds(self, n_folds: int, rng: RandomState) -> Iterator[tuple[Pairs, Pairs]]:
        """Yield pairs to train on and validation pairs, which share no query.

        Positives share no document either, except negatives, and are searched for in the whole
        database. Documents that belong to a held-out query, but are trained on, are hidden from it.
        """
        pairs, sizes = self.index, (len(self.queries), len(self.database))
        part = deal_pairs(pairs, sizes, n_folds, rng, self.scores is None)
        of_query, of_document = part[0][pairs[:, 0]], part[1][pairs[:, 1]]
        for i in range(n_folds):
            if self.scores is not None:
                yield self.take(of_query != i).compact(), self.take(of_query == i).compact()
                continue
            trained = pairs[(of_query == i) & (of_document != i)]
            held_out = self.take((of_query == i) & (of_document == i))
            held_out = replace(held_out, hidden=np.concatenate([self.hidden, trained]))
            training = self.take((of_query != i) & (of_document != i)).compact()
            yield training, held_out.compact(range(len(self.database)))

    @property
    def n_values(self) -> int:
        """The number of `values`: one for each pair, or for each query of positives."""
        return len(self.queries) if self.scores is None else len(self)

    @property
    def work(self) -> int:
        """The number of multiplications for a pair: by the map, and with the others of a block."""
        n_features, width = self.queries.shape[1], self.database.shape[1]
        return int(width * (n_features + (BLOCK if self.scores is None else 0)))

    def parts(self, loss: Any, n_jobs: int | None) -> tuple[Samples, Any, Evaluation | None]:
        """Return samples, the loss with its labels, and a function that evaluates it by blocks.

        The function is None if blocks do not pay.
        """
        if self.scores is None:
            positives = _PositivesLoss(loss, self, n_jobs)
            n = sum(len(rows) + len(others) for rows, others in positives.blocks)
            # Blocks have points in common: if too many are mapped again, map all at once.
            worse = n > 1.5 * (len(self.queries) + len(self.database))
            by_blocks = len(positives.blocks) > 1 and not worse
            samples = Samples(self.queries, database=Samples(self.database))
            return samples, positives, _positives_in_blocks if by_blocks else None
        left, right = self.index.T
        queries, database = _take_rows(self.queries, left), _take_rows(self.database, right)
        samples = Samples(queries, database=Samples(database))
        bound = loss.on_pairs(self.scores, self.weight, n_jobs=n_jobs)
        return samples, bound, _scored_in_blocks if len(self) > _MAPPED else None

    def batches(self, size: int) -> list[Batch]:
        """Return mini-batches: blocks of positives, or scored pairs, at most so many each."""
        if self.scores is None:
            return [Batch(np.concatenate(block), len(block[0])) for block in self.blocks]
        rows = np.random.RandomState(0).permutation(len(self))
        parts = np.array_split(rows, -(-len(rows) // size))
        return [Batch(np.tile(some, 2), len(some)) for some in parts]

    @property
    def blocks(self) -> list[tuple[Integers, Integers]]:
        """Rows of queries, and of the points of the database that they are compared with."""
        rows = np.random.RandomState(0).permutation(len(self.queries))
        members = self._ones(np.concatenate([self.index, self.negatives]))
        return [
            (some, np.unique(members[some].indices))
            for some in np.array_split(rows, -(-len(rows) // BLOCK))
        ]

    def values(self, Z: Array, Z_database: Array) -> Floats:
        """Return how well embedded tables rank pairs: a value for each pair or query.

        Their mean is Spearman's correlation of cosines and scores. Without scores it is the mean
        average precision of the points of the database that belong to a query.
        """
        if self.scores is None:
            return self._average_precisions(Z, Z_database)
        left, right = self.index.T
        cosines = np.einsum("ij,ij->i", Z[left], Z_database[right])
        return _influences(cosines, self.scores, self.weight)

    def _average_precisions(self, Z: Array, Z_database: Array) -> Floats:
        relevance, found = self.relevance, list[float]()
        hidden = self._ones(self.hidden)
        rows = np.flatnonzero(np.diff(relevance.indptr))
        size = min(BLOCK, max(1, _SIMILARITIES // len(self.database)))
        for some in np.array_split(rows, -(-len(rows) // size) or 1):
            similarities = Z[some] @ Z_database.T
            similarities[hidden[some].nonzero()] = -np.inf
            for row, each, ranked in zip(some, similarities, np.sort(similarities), strict=True):
                own = each[relevance.indices[slice(*relevance.indptr[row : row + 2])]]
                found.append(_average_precision(np.sort(own), ranked))
        return np.array(found)

    @property
    def value_weight(self) -> Floats:
        """The weights of `values`: 1 for scored pairs, whose values are weighted already."""
        return self.query_weight if self.scores is None else np.ones(len(self))

    @property
    def query_weight(self) -> Floats:
        """The mean weight of the different documents of each query; repeated pairs add up."""
        totals = np.bincount(self.index[:, 0], self.weight, len(self.queries))
        return np.asarray(totals / np.maximum(np.diff(self.relevance.indptr), 1))

    @property
    def own(self) -> Integers:
        """The row of the database that each query excludes, its own; -1 for none."""
        found = np.full(len(self.queries), -1)
        found[self.hidden[:, 0]] = self.hidden[:, 1]
        return found

    @property
    def relevance(self) -> csr_array:
        """Ones where a point of the database belongs to a query."""
        return self._ones(self.index)

    def _ones(self, index: Integers) -> csr_array:
        shape = len(self.queries), len(self.database)
        found = csr_array((np.ones(len(index)), tuple(index.T)), shape=shape)
        found.data[:] = 1
        return found


def load_pairs(
    learner: Any, pairs: Any, y: Any, X_database: Any, sample_weight: Any = None, *, reset: bool
) -> Pairs:
    """Check the pairs of `fit`, or of a later call, and return them as pairs of distinct points."""
    if y is not None and not issparse(y) and np.ndim(y) == 2 and np.shape(y)[1] > 1:
        y = csr_array(as_real(y, "y"))
    negatives = np.empty((0, 2), np.int64)
    if X_database is not None:
        queries, database = _load_sides(learner, pairs, X_database, reset)
        index, negatives = _index_of_sides(y, len(queries), len(database), reset)
    else:
        how: dict[str, Any] = {"preprocessor": learner.preprocessor_, "reset": reset}
        tuples = index_tuples(learner, pairs, tuple_size=None if y is None else 2, **how)
        if issparse(y):
            raise ValueError(
                "y must hold a score for each pair: found a matrix, which needs X_database."
            )
        queries = database = tuples.points
        index, others = tuples.index[:, :2], tuples.index[:, 2:]
        if index.shape[1] < 2:
            raise ValueError("pairs must hold tuples of at least 2 points; found tuples of 1.")
        negatives = np.column_stack([np.repeat(index[:, 0], others.shape[1]), others.ravel()])
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
    found = Pairs(queries, database, index, scores, weight, negatives)
    if X_database is None:
        found = found.compact()
    found = found.distinct()
    kept = np.ones(len(index), bool) if weight is None else weight > 0
    if scores is None:
        own = found.own
        kept &= own[found.index[:, 0]] != found.index[:, 1]
    if not (reset or kept.any()):
        raise ValueError("pairs must hold a pair of different points, to be scored; found none.")
    if kept.all():
        return found
    found = found.take(kept)
    return found.compact(() if scores is not None else range(len(found.database)))


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


def _index_of_sides(y: Any, n: int, m: int, warns: bool) -> tuple[Integers, Integers]:
    """Return pairs that belong together, and negatives.

    They are the stored entries of a matrix y above 0, and the other ones; or rows, and none.

    `warns`: warn if these entries differ.
    """
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
        grades = np.unique(relevant.data[chosen])
        if warns and len(grades) > 1:
            warn_user(
                f"y has numbers up to {grades[-1]:g}, and all above 0 count alike: grades are not "
                "used. Give y > 0 to avoid this warning, or y > 1 to learn from higher grades "
                "alone."
            )
        index = np.column_stack(relevant.coords).astype(np.int64)
        return index[chosen], index[~chosen]
    if n != m:
        raise ValueError(
            f"X_database must have a row for each row of pairs, {n}; found {m}. For other "
            "databases, give a sparse matrix of relevance as y."
        )
    return np.column_stack([np.arange(n)] * 2), np.empty((0, 2), np.int64)


def _check_scores(y: Any, n: int, vary: bool) -> Floats:
    scores = check_regression_target(y, vary=False)
    check_length(scores, n, "y", "scores, one per pair")
    if vary and scores.min() == scores.max():
        raise ValueError(
            f"y must hold different scores: all are {scores[0]:g}. Leave y out if the points of "
            "each pair belong together."
        )
    return scores


def _positives_in_blocks(
    loss: Any, arrays: list[Array], batch: None, part: None = None
) -> tuple[float, list[Array]]:
    """Evaluate a loss of positives as the mean over its blocks."""
    total, gradients = 0.0, [np.zeros_like(each, loss.X.dtype) for each in arrays]
    for rows, others in loss.bound.blocks:
        block = Batch(np.concatenate([rows, others]), len(rows))
        value, found = loss.of_embedding(arrays, block, part)
        share = len(rows) / len(loss.X)
        total += share * value
        for i, slope in enumerate(found):
            gradients[i] += share * slope
    return total, gradients


def _scored_in_blocks(
    loss: Any, arrays: list[Array], batch: None, part: None = None
) -> tuple[float, list[Array]]:
    """Evaluate a loss on the cosines of scored pairs, with gradients of a block of points."""
    tables = loss.X, loss.database
    arrays = [np.ascontiguousarray(array, tables[0].dtype) for array in arrays]
    sides = [(embedding, arrays[own]) for embedding, own in loss.sides]
    blocks = list(gen_batches(len(tables[0]), _MAPPED))
    mapped = [
        [
            embedding._forward(parameters, X[some], n_jobs=loss.n_jobs)
            for (embedding, parameters), X in zip(sides, tables, strict=True)
        ]
        for some in blocks
    ]
    cosines = np.concatenate(
        [np.einsum("ij,ij->i", Z, Z_database) for (Z, _), (Z_database, _) in mapped]
    )[:, None]
    # The loss depends only on inner products, so each cosine is the product of itself and 1.
    value, (slopes, _) = loss.bound.evaluate_two_sided(cosines, np.ones_like(cosines))
    gradients = [np.zeros_like(array) for array in arrays]
    for some, ((Z, cache), (Z_database, other)) in zip(blocks, mapped, strict=True):
        ends = (cache, slopes[some] * Z_database), (other, slopes[some] * Z)
        found = [
            embedding._backward(parameters, kept, slope, n_jobs=loss.n_jobs)
            for (embedding, parameters), (kept, slope) in zip(sides, ends, strict=True)
        ]
        if loss.embedding.asymmetric:
            found = [found[0] + found[1]]
        for each in found:
            for i, slope in enumerate(each):
                gradients[i] += slope
    return value, gradients


class _PositivesLoss:
    """A loss of classes, in which the database points that belong to a query are its class.

    Queries are compared with the database points of their block, negatives included.
    """

    has_lists = False

    def __init__(self, loss: BaseLoss, pairs: Pairs, n_jobs: int | None) -> None:
        relevance, weight, own = pairs.relevance, pairs.query_weight, pairs.own
        self.blocks = pairs.blocks
        self._bound = {}  # by the first query of a block: the loss, and the places of own points
        for some, others in self.blocks:
            classes = csr_array(eye_array(len(others)))
            bound = loss.on(
                relevance[some][:, others], weight[some], y_database=classes, n_jobs=n_jobs
            )
            places = np.minimum(np.searchsorted(others, own[some]), len(others) - 1)
            exclude = np.where(others[places] == own[some], places, -1)
            self._bound[int(some[0])] = bound, exclude

    def evaluate_two_sided(
        self, Z: Array, Z_database: Array, rows: Any = None, database_rows: Any = None,
        exclude: Any = None,
    ) -> tuple[float, tuple[Array, Array]]:  # fmt: skip
        """Return the value and both gradients: of a block, or the mean over all of them."""
        del exclude
        if database_rows is not None:
            bound, own = self._bound[int(rows[0])]
            found: tuple[float, tuple[Array, Array]] = bound.evaluate_two_sided(
                Z, Z_database, exclude=own
            )
            return found
        total, dZ, dZ_database = 0.0, np.zeros_like(Z), np.zeros_like(Z_database)
        for some, others in self.blocks:
            value, (of_queries, of_database) = self.evaluate_two_sided(
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


def _take_rows(table: Array, rows: Integers) -> Array:
    """Return some rows; the table itself if these are all of its rows, in order."""
    return table if np.array_equal(rows, np.arange(len(table))) else table[rows]


def _row_keys(X: Array) -> Integers:
    """Return a hash of each row, of 64 bits: equal for equal points."""
    found = np.empty(len(X), np.int64)
    for some in gen_batches(len(X), 1024):
        found[some] = [hash(row.tobytes()) for row in X[some] + 0.0]  # -0.0 equals 0.0
    return found


def _distinct(keys: Integers) -> tuple[Integers, Integers]:
    """Return the first row of each different key, and which of these each row is like."""
    codes = by_appearance(keys)
    return np.unique(codes, return_index=True)[1], codes


def _average_precision(own: Array, ranked: Array) -> float:
    """Return the average precision of relevant similarities among all, both sorted.

    Points at equal similarity, whose order is not known, count half.
    """
    places = [
        len(each) + 0.5 - sum(np.searchsorted(each, own, side) for side in ("left", "right")) / 2
        for each in (own, ranked)
    ]
    return float(np.mean(places[0] / places[1]))


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
