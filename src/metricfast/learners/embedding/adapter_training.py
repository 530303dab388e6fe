"""The course of an adapter: its start, the weight of its penalty, and the map of all pairs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.preprocessing import normalize

from metricfast._core.scatter import svd
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.types import Array, Floats, RandomState
from metricfast._core.warn import without_advice
from metricfast.embeddings import Embedding
from metricfast.learners.embedding.pairs import BLOCK, Pairs, PrefixesLoss
from metricfast.selection import Judge, Judgement
from metricfast.selection._evidence import choose, excess, means
from metricfast.selection._judge import judge_costs
from metricfast.selection._splits import ENOUGH
from metricfast.training.embedded import embed_samples
from metricfast.training.objective import Objective
from metricfast.training.problem import EMBEDDING, Problem
from metricfast.training.solvers import LBFGS, Adam, Solver
from metricfast.training.train import solve

__all__ = [
    "LAST", "AdapterTraining", "Start", "identity", "orthogonal_maps", "projection", "regressions",
    "stay",
]  # fmt: skip

# Returns the map to start from, of pairs to train on.
Start = Callable[[Pairs], Array]
# The start of `warm_start`.
LAST = "last fit"
# The weight of the penalty that is tried first, times the root of the number of pairs, and how
# often it is doubled or halved, at most.
_WEIGHT, _DOUBLED = 0.8, 6
# Weights of the penalty of a regression, as shares of the mean square of features.
_RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
# Weights of the identity in an orthogonal map, in the same unit, if widths agree. And the share of
# the greatest singular value below which directions have no partner.
_TIES, _NULL = (0.0, 1.0), 1e-6
# Minimum number of pairs, or queries, to hold some out, and sufficient number of held-out ones.
_LEAST = 32
# Standard errors of a paired difference, within which candidates count as equally good: the one
# that changes the given distance less is chosen.
_EQUAL = 0.5
# Standard errors by which new pairs must improve the map of the last fit.
_NEW = 1.0
# Standard errors by which a start may be worse than the best one of another kind, to be trained.
_RIVAL = 2.0
# Pairs of the sample that chooses the weight, at most, their multiplications, and pairs that are
# trained on in their span whatever these are; multiplications from which on mini-batches train the
# map of all pairs.
_SAMPLE, _SAMPLE_WORK, _SPANNED, _WORK = 10_000, 4e9, 825, 2e10
_ITERATIONS, _TOL = 8, 1e-5
# Multiplications of the training of all pairs, which mini-batches keep to: L-BFGS takes so many
# evaluations. The map is judged if mini-batches keep to them, since few steps may not suffice.
_LAST_WORK, _EVALUATIONS = 4e11, 10
# Minimum number of steps and epochs of mini-batches, and how far the steps lead, compared with the
# distance of the first map from the start. L-BFGS takes the place of more epochs than the third
# number, unless the map has more parameters than the fourth one, of which it holds 25 copies. If
# there is no first map, it would be so far, as a share of the length of the start.
_STEPS, _EPOCHS, _MOST_EPOCHS, _PARAMETERS, _TRAVEL, _MOVES = 128, 2, 8, 1 << 24, 8.0, 0.1
# Scored pairs of a mini-batch, at least, where larger ones would be too few steps.
_LEAST_BATCH = 256


def identity(n_components: int, pairs: Pairs) -> Array:
    """Return the first rows of the identity."""
    return np.eye(n_components, pairs.queries.shape[1], dtype=pairs.queries.dtype)


def projection(n_components: int, pairs: Pairs) -> Array:
    """Return the principal directions of all points, which are not centred."""
    moments = sum(X.T @ X for X in (pairs.queries, pairs.database))
    directions = np.linalg.eigh(moments)[1][:, ::-1][:, :n_components].T
    return np.ascontiguousarray(directions, pairs.queries.dtype)


def stay(L: Array, pairs: Pairs) -> Array:
    """Return a map as it is."""
    return L.astype(pairs.queries.dtype)


def regressions(side: str) -> list[tuple[str, Start]]:
    """Return least squares of points of a side, to predict those that belong to them."""
    return [
        (f"regression, ridge={ridge:g}", partial(_regression, side, ridge)) for ridge in _RIDGES
    ]


def orthogonal_maps(side: str, same_width: bool) -> list[tuple[str, Start]]:
    """Return rotations of a side to the points of the other one (Procrustes)."""
    return [
        (f"orthogonal, tie={tie:g}", partial(_orthogonal, side, tie))
        for tie in (_TIES if same_width else _TIES[:1])
    ]


def _aligned(side: str, pairs: Pairs) -> tuple[Array, Array, Floats]:
    """Return the points to map, those that belong to them, of length 1, and scores or ones."""
    left, right = pairs.index.T
    X, Y = normalize(pairs.queries)[left], normalize(pairs.database)[right]
    share = np.ones(len(left)) if pairs.scores is None else rankdata(pairs.scores) / len(left)
    return (Y, X, share) if side == "database" else (X, Y, share)


def _regression(side: str, ridge: float, pairs: Pairs) -> Array:
    """Return a map that is near the identity, or near 0 if both sides have other features."""
    X, Y, share = _aligned(side, pairs)
    share = (share if pairs.weight is None else share * pairs.weight).astype(X.dtype)
    weighted = X * share[:, None]
    moments = (weighted.T @ X).astype(np.float64)
    moments[np.diag_indices_from(moments)] += ridge * (np.trace(moments) or 1.0) / len(moments)
    if X.shape[1] == Y.shape[1]:
        L = np.eye(X.shape[1]) + np.linalg.solve(moments, weighted.T @ (Y - X)).T
    else:
        L = np.linalg.solve(moments, weighted.T @ Y).T
    # As long as the identity: the penalty depends on it, and cosines do not.
    return np.ascontiguousarray(L * (math.sqrt(len(L)) / (np.linalg.norm(L) or 1.0)), X.dtype)


def _orthogonal(side: str, tie: float, pairs: Pairs) -> Array:
    """Return the orthogonal map of greatest sum of cosines, weighted by centred scores.

    It is ``U @ V.T`` of the singular vectors of the products of both sides, plus `tie` times the
    identity. Directions without a partner are mapped to 0 without a tie, else to themselves.
    """
    X, Y, share = _aligned(side, pairs)
    weight = np.ones(len(X)) if pairs.weight is None else pairs.weight
    if pairs.scores is not None:
        share = share - np.average(share, weights=weight)
    weight, width = (share * weight).astype(X.dtype), X.shape[1]
    given, mapped = [span_of([X, Y])] * 2 if tie else [span_of([X]), span_of([Y])]
    X, Y = _coordinates(X, given), _coordinates(Y, mapped)
    moments = (Y * weight[:, None]).T @ X
    if tie:
        moments[np.diag_indices_from(moments)] += tie * np.abs(weight).sum() / width
    left, sizes, right = svd(moments)
    n = np.count_nonzero(sizes > _NULL * sizes[0])
    L = left[:, :n] @ right[:n]
    if tie and given is not None:
        L = np.eye(width) + _of_coordinates(L - np.eye(len(L)), mapped, given)
    else:
        L = _of_coordinates(L, mapped, given)
    return np.ascontiguousarray(L * (math.sqrt(len(L)) / (np.linalg.norm(L) or 1.0)), X.dtype)


class _Fold:
    """Pairs to train on, and validation pairs, for maps of several weights of the penalty."""

    def __init__(self, solver: Callable[..., Array], train: Pairs, held_out: Pairs) -> None:
        self._solver, self.pairs, self.held_out = solver, train, held_out

    def begin(self, start: Start, costs_of: Callable[[Array, Pairs], Floats]) -> Floats:
        """Return the validation costs of a start."""
        self._start = start(self.pairs)
        self._costs_of, self.maps = costs_of, dict[int, Array]()
        return costs_of(self._start, self.held_out)

    def train(self, halvings: int, before: int) -> Floats:
        """Train with a weight of the penalty, from the map of another, and return the costs."""
        first = self.maps.get(before, self._start)
        penalty = penalty_of(halvings, self.pairs)
        L = self._solver(self.pairs, self._start, first, penalty)
        self.maps[halvings] = L
        return self._costs_of(L, self.held_out)

    @property
    def weight(self) -> Floats:
        """The weights of the costs."""
        return self.held_out.value_weight


@dataclass(frozen=True)
class _Candidate:
    """A start, and how often the weight of the penalty is halved; None if nothing is trained.

    `first`: the map to train all pairs from, of `fold`, if there is one.
    """

    name: str
    start: Start
    halvings: int | None = None
    first: Any = None
    fold: _Fold | None = None

    @property
    def kind(self) -> str:
        """The name without parameters."""
        return self.name.partition(",")[0]

    def title(self, pairs: Pairs) -> str:
        """Return the name and the weight of the penalty for these pairs."""
        if self.halvings is None:
            return self.name
        return f"{self.name}, penalty={penalty_of(self.halvings, pairs):.3g}"


class Adaptation(NamedTuple):
    """A map, and how it was chosen.

    `start`: the name of its start.
    `penalty`: the weight of its penalty; infinity if the map is the start.
    `judgement`: starts, weights and their costs; None if nothing was judged.
    """

    map: Array
    start: str
    penalty: float
    judgement: Judgement | None


@dataclass(frozen=True)
class AdapterTraining:
    """The training of an adapter: what is minimised, and where it may start.

    The judge chooses between the points as given, or the map of the last fit, the other starts, and
    maps that are trained from the best start. Without a start that leaves points as they are, the
    best start is in its place.
    """

    embedding: Embedding
    loss: Any
    side: str
    starts: Sequence[tuple[str, Start]]
    sizes: Sequence[int]  # of prefixes that are mapped points as well
    rank: int | None
    n_jobs: int | None

    def run(self, pairs: Pairs, judge: Judge | None, rng: RandomState) -> Adaptation:
        """Return the map, and how it was chosen."""
        # With this many pairs, the training part spans at most half of the features.
        least = min(_SPANNED, pairs.database.shape[1] * 3 // 8)
        n = min(_SAMPLE, max(int(_SAMPLE_WORK / pairs.work), least, 10 * _LEAST))
        sample, judgement = pairs.sample(n, rng), None
        with one_blas_thread(), without_advice():
            chosen = _Candidate(*self._first)
            if judge is None:
                start = chosen.start(sample)
                first = self._solve(sample, start, start, penalty_of(0, sample))
                chosen = replace(chosen, halvings=0, first=first)
            else:
                folds = self._folds(sample, judge.n_splits, rng)
                judgement, chosen = self._judged(judge, folds, pairs)
            if chosen.halvings is None:
                return Adaptation(chosen.start(pairs), chosen.kind, math.inf, judgement)
            L, trained = self._last(pairs, chosen, rng)
            penalty = penalty_of(chosen.halvings, trained)
            return Adaptation(L, chosen.kind, penalty, judgement)

    def _last(self, pairs: Pairs, chosen: _Candidate, rng: RandomState) -> tuple[Array, Pairs]:
        """Return the map of all pairs, and these; of a part of them if all would take too long.

        Such a map is compared with that of a fold on the pairs that the fold held out.
        """
        assert chosen.halvings is not None
        work, fold, rest = self._work(pairs), chosen.fold, pairs
        capped = work * _EVALUATIONS > _LAST_WORK
        if capped and fold is not None:
            rest = pairs.without(fold.held_out)
        if _EPOCHS * work > _LAST_WORK:
            rest = rest.sample(max(BLOCK, int(len(pairs) * _LAST_WORK / (_EPOCHS * work))), rng)
        penalty = penalty_of(chosen.halvings, pairs)
        L = self._solve(rest, chosen.start(rest), chosen.first, penalty)
        if capped and fold is not None:
            costs = [self._costs(each, fold.held_out) for each in (L, chosen.first)]
            if means(costs[0] - costs[1], fold.weight) > 0:
                return chosen.first, fold.pairs
        return L, pairs

    def _work(self, pairs: Pairs) -> float:
        """Return the multiplications of an evaluation, about, in the span of the pairs."""
        sides = {"query": pairs.queries, "database": pairs.database}
        n = sum(len(X) for side, X in sides.items() if self.side in (side, "both"))
        width = sides["database" if self.side == "database" else "query"].shape[1]
        return len(pairs) * pairs.work * (n / width if 2 * n <= width else 1.0) ** 2

    def _judged(
        self, judge: Judge, folds: list[_Fold], pairs: Pairs
    ) -> tuple[Judgement, _Candidate]:
        """Return the judgement of starts and of maps trained from the first and from the best one.

        `pairs`: all pairs, whose weights of the penalty are in the names.
        """
        measure, unit = "Spearman's correlation", "pairs"
        if pairs.scores is None:
            measure, unit = "average precision", "queries"
        found = [_Candidate(*self._first)]
        costs, weight, order = np.empty((1, 0)), np.empty(0), [0.0]
        if folds:
            found = [_Candidate(*each) for each in self.starts]
            costs = np.array([self._begin(folds, each.start) for each in found])
            weight = np.concatenate([fold.weight for fold in folds])
            best = choose(costs, weight, errors=judge.errors_for())
            if not self._may_stay:
                ranked = np.argsort(means(costs, weight), kind="stable")
                found, costs, best = [found[i] for i in ranked], costs[ranked], 0
            # Among equally good candidates, the first is used. Other starts come last.
            order = [0.0] + [np.inf] * (len(found) - 1)
            for i in sorted({0, *self._rivals(found, costs, weight, best)}):
                self._begin(folds, found[i].start)
                for halvings, row in sorted(self._search(folds, weight).items()):
                    each = replace(
                        found[i], halvings=halvings, first=folds[0].maps[halvings], fold=folds[0]
                    )
                    found.append(each)
                    costs = np.concatenate([costs, row[None]])
                    order.append(np.inf if i or not self._may_stay else len(order))
        names = [each.title(pairs) for each in found]
        judge = copy.copy(judge)
        if names[0] == LAST:
            names[0] = "map of the last fit"
            judge.errors = _NEW if judge.errors is None else judge.errors
        elif self._may_stay:
            names[0] = "given distance"
        else:
            judge.errors = 0.0
        judgement = judge_costs(
            judge, names, costs, weight, measure, unit, equal=_EQUAL, order=np.array(order)
        )
        return judgement, found[judgement.chosen]

    @property
    def _first(self) -> tuple[str, Start]:
        """The start that is used if none is judged."""
        return self.starts[0 if self._may_stay else -1]

    @property
    def _may_stay(self) -> bool:
        return self.starts[0][0] in ("identity", LAST)

    def _rivals(
        self, starts: list[_Candidate], costs: Array, weight: Floats, best: int
    ) -> list[int]:
        """Return the best start, and the best one of another kind if it may be as good."""
        kind = starts[best].kind
        others = [i for i, each in enumerate(starts) if i and each.kind != kind]
        if not (best or not self._may_stay) or not others:
            return [best]
        other = others[int(means(costs[others], weight).argmin())]
        return [best, other] if excess(costs[other], costs[best], weight) <= _RIVAL else [best]

    def _search(self, folds: list[_Fold], weight: Floats) -> dict[int, Floats]:
        """Return the costs of maps by how often the weight of the penalty is halved.

        The weight is halved as long as this is better, or else doubled.
        """

        def costs(i: int, before: int) -> Floats:
            return np.concatenate([fold.train(i, before) for fold in folds])

        found = {0: costs(0, 0)}
        for step in (1, -1):
            i = step
            while abs(i) <= _DOUBLED:
                found[i] = costs(i, i - step)
                if means(found[i] - found[i - step], weight) >= 0:
                    break
                i += step
            if i != step:
                break
        return found

    def _folds(self, sample: Pairs, n_folds: int, rng: RandomState) -> list[_Fold]:
        """Return folds until there are enough held-out values; none of too few pairs."""
        folds, n_values = [], 0
        for train, held_out in sample.folds(n_folds, rng):
            if min(train.n_values, held_out.n_values) < (_LEAST // n_folds or 1):
                return []
            folds.append(_Fold(self._solve, train, held_out))
            n_values += held_out.n_values
            if n_values >= ENOUGH:
                break
        return folds

    def _begin(self, folds: list[_Fold], start: Start) -> Floats:
        return np.concatenate([fold.begin(start, self._costs) for fold in folds])

    def _costs(self, L: Array, pairs: Pairs) -> Floats:
        Z, Z_database = embed_samples(self.embedding, [L], pairs.tables, self.n_jobs)
        values = [
            pairs.values(normalize(Z[:, :size]), normalize(Z_database[:, :size]))
            for size in self.sizes
        ]
        return 1 - np.asarray(np.mean(values, axis=0))

    def _solve(self, pairs: Pairs, start: Array, first: Array, penalty: float) -> Array:
        """Return the map of lowest loss and penalty, from a first one."""
        whole, pairs = start, pairs.compact()
        pairs, start, first, bases = self._in_span(pairs, start, first)
        work = len(pairs) * pairs.work
        epochs = max(_EPOCHS, int(_LAST_WORK / work))
        capped = work * _EVALUATIONS > _LAST_WORK
        size = max(_LEAST_BATCH, len(pairs) * epochs // _STEPS) if capped else None
        samples, loss, batches = pairs.parts(self.loss, self.n_jobs, size)
        if len(self.sizes) > 1:
            loss = PrefixesLoss(loss, self.sizes)
        n_epochs = max(_EPOCHS, min(epochs, -(-_STEPS // len(batches))))
        few = n_epochs > _MOST_EPOCHS and start.size <= _PARAMETERS
        large = capped or (work > _WORK and not few)
        # A batch has its share of the penalty, and the loss is a mean.
        weight = penalty * (len(batches) if large else 1)

        def moved(arrays: list[Array], start: list[Array]) -> tuple[float, list[Array]]:
            away = arrays[0] - start[0]
            return weight * float(np.vdot(away, away)), [2 * weight * away]

        evaluate = None if len(self.sizes) > 1 else pairs.evaluation(batches)
        problem = Problem(
            samples, loss, embedding=self.embedding, penalty=moved, traits=EMBEDDING,
            batches=lambda objective, rng, size: lambda: batches, evaluate=evaluate,
            n_jobs=self.n_jobs,
        )  # fmt: skip
        objective = Objective(problem, [start])
        history = objective.history(np.random.RandomState(0))
        history.restart(first.ravel())
        solver: Solver = LBFGS(max_iter=_ITERATIONS, tol=_TOL)
        if large:
            moves = np.linalg.norm(first - start) or _MOVES * np.linalg.norm(start)
            length = float(moves) / math.sqrt(first.size)
            rate = _TRAVEL * length / (n_epochs * len(batches))
            solver = Adam(rate, max_epochs=n_epochs, schedule="cosine")
        solve(objective, history, solver)
        found = history.x if large else history.best_x
        change = objective.parameters(found)[0].astype(start.dtype) - start
        change = _of_coordinates(change, *bases)
        change = change if self.rank is None else nearest_of_rank(change, self.rank)
        return np.asarray(whole + change)

    def _in_span(
        self, pairs: Pairs, start: Array, first: Array
    ) -> tuple[Pairs, Array, Array, tuple[Array | None, Array | None]]:
        """Return pairs and two maps in bases of spans, and the bases of mapped and given points.

        The best change of the start takes the span of the points to map to the span of mapped
        points and of those that are compared with them. Prefixes have no other basis.
        """
        sides = {"query": pairs.queries, "database": pairs.database}
        moving = {side: X for side, X in sides.items() if self.side in (side, "both")}
        given, mapped = span_of(list(moving.values())), None
        if given is None:
            return pairs, start, first, (None, None)
        if len(self.sizes) == 1:
            mapped = span_of([X @ start.T if side in moving else X for side, X in sides.items()])
        queries, database = (
            _coordinates(X, given if side in moving else mapped) for side, X in sides.items()
        )
        start, first = (
            L @ given.T if mapped is None else mapped @ L @ given.T for L in (start, first)
        )
        found = replace(pairs, queries=queries, database=database)
        return found, start, first, (mapped, given)


def span_of(tables: Sequence[Array]) -> Array | None:
    """Return a basis of the span of all rows; None unless it has half as many rows as columns."""
    if 2 * sum(map(len, tables)) > tables[0].shape[1]:
        return None
    return np.ascontiguousarray(np.linalg.qr(np.concatenate(tables).T)[0].T)


def _coordinates(X: Array, basis: Array | None) -> Array:
    return X if basis is None else X @ basis.T


def _of_coordinates(L: Array, mapped: Array | None, given: Array | None) -> Array:
    """Return the map of points, of a map of coordinates in bases."""
    L = L if mapped is None else mapped.T @ L
    return L if given is None else L @ given


def nearest_of_rank(change: Array, rank: int) -> Array:
    """Return the nearest matrix of this rank."""
    U, values, V = svd(change)
    return np.ascontiguousarray((U[:, :rank] * values[:rank]) @ V[:rank])


def penalty_of(halvings: int, pairs: Pairs) -> float:
    """Return the weight of the penalty: errors decrease with the root of the number of pairs."""
    return math.ldexp(_WEIGHT / math.sqrt(len(pairs)), -halvings)
