"""The course of an adapter: its start, the weight of its penalty, and the map of all pairs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.stats import rankdata
from sklearn.preprocessing import normalize

from metricfast._core.scatter import svd
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.types import Array, Floats, RandomState
from metricfast._core.warn import without_advice
from metricfast.learners.embedding.pairs import Pairs, PrefixesLoss
from metricfast.samplers import Batch
from metricfast.selection import Judge, Judgement
from metricfast.selection._evidence import choose, excess, means
from metricfast.selection._judge import judge_costs
from metricfast.selection._splits import ENOUGH
from metricfast.training.checkpoint import CheckpointFile
from metricfast.training.embedded import embed
from metricfast.training.history import History
from metricfast.training.objective import Objective
from metricfast.training.problem import EMBEDDING, Problem
from metricfast.training.solvers import LBFGS, Adam, Solver
from metricfast.training.train import solve, train

# Returns the map to start from, of pairs to train on.
Start = Callable[[Pairs], Array]
# The start of `warm_start`.
LAST = "last fit"
# The weight of the penalty that is tried first, and how often it is doubled or halved, at most.
_PENALTY, _DOUBLED = 0.8, 6
# Weights of the identity in an orthogonal map, in the same unit, if widths agree. And the share of
# the greatest singular value below which directions have no partner.
_TIES, _NULL = (0.0, 1.0), 1e-6
# Minimum number of pairs, or queries, to hold some out, and sufficient number of held-out ones.
_LEAST = 32
# Maximum number of pairs of the sample that chooses the penalty. Maximum number of multiplications
# of an evaluation of the sample, and of the pairs that L-BFGS trains the last map on.
_SAMPLE, _SAMPLE_WORK, _WORK = 10_000, 4e9, 3.75e10
_ITERATIONS, _TOL = 8, 1e-5
# Minimum number of steps and of epochs of mini-batches, and their range of sizes for scored pairs.
# They lead this many times as far as the map of a fold is from its start.
_STEPS, _EPOCHS, _BATCH, _TRAVEL = 128, 2, (256, 1024), 8.0
# Parameters from which on L-BFGS keeps half as many pairs of steps, each of two copies.
_LARGE = 1 << 22


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


def one_sided(side: str, same_width: bool, rank: int | None = None) -> list[tuple[str, Start]]:
    """Return rotations of a side to the points of the other one (Procrustes), and least squares."""
    ties = _TIES if same_width else _TIES[:1]
    settings: list[tuple[str, Any, float]] = [("orthogonal, tie", _orthogonal, t) for t in ties]
    # Weights of the penalty, as shares of the mean square of features.
    ridges = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
    settings += [("regression, ridge", _regression, each) for each in ridges]
    return [(f"{name}={each:g}", partial(make, side, each, rank)) for name, make, each in settings]


def _aligned(side: str, pairs: Pairs) -> tuple[Array, Array, Floats]:
    """Return the points to map, those that belong to them, of length 1, and scores or ones."""
    left, right = pairs.index.T
    X, Y = normalize(pairs.queries)[left], normalize(pairs.database)[right]
    share = np.ones(len(left)) if pairs.scores is None else rankdata(pairs.scores) / len(left)
    return (Y, X, share) if side == "database" else (X, Y, share)


def _finish(L: Array, rank: int | None, dtype: Any) -> Array:
    """Return a start that differs from the identity by a rank, or that is as long as it."""
    base, low = unchanged(L), rank is not None and rank < min(L.shape)
    if low:
        L = base + nearest_of_rank(L - base, rank)
    if not (low and base.any()):
        # The penalty depends on the length of the map, and cosines do not.
        L = L * (math.sqrt(len(L)) / (np.linalg.norm(L) or 1.0))
    return np.ascontiguousarray(L, dtype)


def _regression(side: str, ridge: float, rank: int | None, pairs: Pairs) -> Array:
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
    return _finish(L, rank, X.dtype)


def _orthogonal(side: str, tie: float, rank: int | None, pairs: Pairs) -> Array:
    """Return the orthogonal map of greatest sum of cosines, weighted by centred scores.

    It is ``U @ V.T`` of the singular vectors of the products of both sides, plus `tie` times the
    identity. Directions without a partner are mapped to 0 without a tie, else to themselves.
    """
    X, Y, share = _aligned(side, pairs)
    weight = np.ones(len(X)) if pairs.weight is None else pairs.weight
    if pairs.scores is not None:
        share = share - np.average(share, weights=weight)
    weight, width = (share * weight).astype(X.dtype), X.shape[1]
    given, mapped = [basis_of([X, Y])] * 2 if tie else [basis_of([X]), basis_of([Y])]
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
    return _finish(L, rank, X.dtype)


class _Inner(NamedTuple):
    """Pairs and maps in bases of the spans of mapped and of given points; None for none.

    `start`: the start. `base`: the map that changes are added to.
    `whole`: the same map, of the points as given.
    """

    pairs: Pairs
    start: Array
    base: Array
    whole: Array
    mapped: Array | None
    given: Array | None

    def coordinates(self, L: Array) -> Array:
        """Return a map in the bases."""
        L = L if self.given is None else _times(self.given, L).T
        return L if self.mapped is None else self.mapped @ L

    def map(self, change: Array) -> Array:
        """Return the map of a change in the bases."""
        return np.asarray(self.whole + _of_coordinates(change, self.mapped, self.given))


class _MapObjective(Objective):
    """The loss of pairs, and the penalty, as a function of a map in bases."""

    def __init__(
        self, training: AdapterTraining, inner: _Inner, halvings: int,
        batches: list[Batch] | None = None,
    ) -> None:  # fmt: skip
        learner, self._inner = training.learner, inner
        self._rank = learner.rank
        samples, loss, evaluate = inner.pairs.parts(training.loss, learner.n_jobs)
        if len(training.sizes) > 1:
            loss, evaluate = PrefixesLoss(loss, training.sizes), None
        # Errors of the map decrease with the root of the number of pairs.
        weight = penalty_of(halvings) / math.sqrt(len(inner.pairs))
        if batches is not None:  # each has its share of the penalty, and the loss is a mean
            weight, evaluate = weight * len(batches), None

        def moved(arrays: list[Array], start: list[Array]) -> tuple[float, list[Array]]:
            away = arrays[0] - start[0]
            value = weight * float(np.vdot(away, away))
            away *= 2 * weight
            return value, [away]

        problem = Problem(
            samples, loss, embedding=learner.embedding_, penalty=moved, traits=EMBEDDING,
            batches=lambda objective, rng, size: lambda: batches or (), evaluate=evaluate,
            n_jobs=learner.n_jobs,
        )  # fmt: skip
        super().__init__(problem, [inner.start])

    def change(self, x: Array) -> Array:
        """Return the change of the base map, of the rank that is asked for."""
        base = self._inner.base
        return nearest_of_rank(self.parameters(x)[0].astype(base.dtype) - base, self._rank)

    def learned(self, x: Array) -> list[Any]:
        """Return the map of points as given."""
        return [self._inner.map(self.change(x))]


class _Fold:
    """Pairs to train on, and validation pairs, for maps of several weights of the penalty."""

    def __init__(self, training: AdapterTraining, pairs: Pairs, held_out: Pairs) -> None:
        self._training, self.pairs, self.held_out = training, pairs, held_out

    def begin(self, start: Start) -> None:
        """Train from a start."""
        self.changes = dict[int, Array]()
        self.inner = self._training.in_span(self.pairs, start(self.pairs))
        self._projected = self._training.project(self.inner, self.held_out)

    def train(self, halvings: int, before: int) -> Floats:
        """Train with a weight of the penalty, from the map of another, and return the costs."""
        inner, training = self.inner, self._training
        first = inner.base + self.changes[before] if before in self.changes else inner.start
        change = self.changes[halvings] = training._minimize(inner, first, halvings)
        if self._projected is None:
            return training.costs(inner.map(change), [self.held_out])
        mapped = []
        for points, given in self._projected:
            Z = points.copy()
            if given is not None:
                Z[:, : len(change)] += given @ change.T
            mapped.append(normalize(Z, copy=False))
        return 1 - self.held_out.values(*mapped)


@dataclass(frozen=True)
class _Candidate:
    """A start, or a map that is trained from it.

    `halvings`: how often the weight of the penalty is halved; None for the start itself.
    `map`: returns the map of a fold.
    `costs`: of held-out queries or pairs.
    `place`: the order among equally good candidates.
    `is_last`: whether it is the map of more pairs, which the learner has.
    """

    name: str
    start: Start
    halvings: int | None = None
    map: Any = None
    costs: Floats = field(default_factory=lambda: np.empty(0))
    place: float = math.inf
    is_last: bool = False

    @property
    def kind(self) -> str:
        """The name without parameters."""
        return self.name.partition(",")[0]

    @property
    def penalty(self) -> float:
        """The weight of the penalty; infinity if nothing is trained."""
        return math.inf if self.halvings is None else penalty_of(self.halvings)

    @property
    def title(self) -> str:
        """The name and the weight of the penalty."""
        if self.halvings is None:
            return self.name
        more = ", more pairs" if self.is_last else ""
        return f"{self.name}, penalty={self.penalty:.3g}{more}"


@dataclass
class AdapterTraining:
    """The training of an adapter: what is minimised, and where it may start.

    The judge chooses between the points as given, or the map of the last fit, the other starts, and
    maps that are trained from the best start. Without a start that leaves points as they are, the
    best start is in its place.
    """

    learner: Any
    loss: Any
    starts: Sequence[tuple[str, Start]]
    sizes: Sequence[int]  # of prefixes that are mapped points as well
    callbacks: Sequence[Any] = ()
    checkpoint: CheckpointFile | None = None

    def run(self, pairs: Pairs, judge: Judge | None, rng: RandomState) -> None:
        """Set the map, the name of its start, the weight of its penalty, and the judgement.

        The weight is infinity if the map is the start; there is no judgement if none was judged.
        """
        learner = self.learner
        with one_blas_thread(), without_advice():
            n = min(_SAMPLE, max(affordable(pairs, _SAMPLE_WORK), 10 * _LEAST))
            sample = pairs.sample(n, rng)
            if judge is None:
                chosen = self._unjudged(sample)
            else:
                learner.judgement_, chosen = self._judged(judge, sample, pairs, rng)
            learner.start_, learner.penalty_ = chosen.kind, chosen.penalty
            if chosen.is_last:
                return
            L = chosen.start(pairs)
            if chosen.halvings is None:
                learner.parameters_, learner.loss_curve_, learner.n_iter_ = [L], [], 0
                return
            # Trained as the map that was judged, and from there.
            inner = self.in_span(pairs.sample(affordable(pairs, _WORK), rng), L)
            first = inner.coordinates(chosen.map())
            self._minimize(inner, first, chosen.halvings, self._train)

    def _unjudged(self, sample: Pairs) -> _Candidate:
        """Return the first start, and the map that is trained from it."""
        first = _Candidate(*self._first)
        inner = self.in_span(sample, first.start(sample))
        change = self._minimize(inner, inner.start, 0)
        return replace(first, halvings=0, map=partial(inner.map, change))

    def _judged(
        self, judge: Judge, sample: Pairs, pairs: Pairs, rng: RandomState
    ) -> tuple[Judgement, _Candidate]:
        """Return the judgement, and the best candidate.

        A map of pairs outside of the sample is tried if no map of the sample is surely good, or if
        all pairs are too many for the training that was judged.
        """
        folds = self._folds(sample, judge.n_splits, rng)
        tried = self._tried(folds, judge.errors_for())
        judgement = self._judge(judge, tried, folds, sample)
        if folds and not (judgement.chosen and len(pairs) <= affordable(pairs, _WORK)):
            tried += self._of_more_pairs(pairs, folds, tried, rng)
            judgement = self._judge(judge, tried, folds, sample)
        return judgement, tried[judgement.chosen]

    def _tried(self, folds: list[_Fold], errors: float) -> list[_Candidate]:
        """Return starts and maps that are trained from the best one, with their costs."""
        if not folds:
            return [_Candidate(*self._first)]
        weight = weights_of(folds)
        tried = [_Candidate(*each, costs=self._costs_of(folds, each[1])) for each in self.starts]
        costs = np.array([each.costs for each in tried])
        best = choose(costs, weight, errors=errors)
        if not self._may_stay:
            ranked = np.argsort(means(costs, weight), kind="stable")
            tried, costs, best = [tried[i] for i in ranked], costs[ranked], 0
        # Among equally good candidates, the first is used. Other starts come last.
        tried[0] = replace(tried[0], place=0.0)
        for i in sorted({0, *self._rivals(tried, costs, weight, best)}):
            for fold in folds:
                fold.begin(tried[i].start)
            for place, (halvings, row) in enumerate(sorted(self._search(folds, weight).items())):
                tried.append(
                    replace(
                        tried[i], halvings=halvings, costs=row,
                        map=partial(folds[0].inner.map, folds[0].changes[halvings]),
                        place=np.inf if i or not self._may_stay else 1.0 + place,
                    )
                )  # fmt: skip
        return tried

    def _of_more_pairs(
        self, pairs: Pairs, folds: list[_Fold], tried: list[_Candidate], rng: RandomState
    ) -> list[_Candidate]:
        """Return a map that is trained like the best one, on pairs that no fold holds out.

        Return none if these are fewer than the pairs of a fold. L-BFGS or, for many pairs,
        mini-batches train from the start: the map of a fold has learned from pairs of other ones.
        """
        pairs = pairs.without([fold.held_out for fold in folds])
        if len(pairs) <= len(folds[0].pairs):
            return []
        pairs = pairs.sample(affordable(pairs, _ITERATIONS * _WORK / _EPOCHS), rng)
        trained = [each for each in tried if each.halvings is not None]
        order = means(np.array([each.costs for each in trained]), weights_of(folds))
        like = trained[int(order.argmin())]
        assert like.halvings is not None
        inner = self.in_span(pairs, like.start(pairs))
        if len(pairs) <= affordable(pairs, _WORK):
            change = self._minimize(inner, inner.start, like.halvings, self._train)
        else:
            change = self._in_batches(inner, like)
        costs = self.costs(inner.map(change), [fold.held_out for fold in folds])
        return [replace(like, costs=costs, place=0.5, is_last=True)]

    def _judge(
        self, judge: Judge, tried: list[_Candidate], folds: list[_Fold], sample: Pairs
    ) -> Judgement:
        """Return the judgement of the candidates."""
        names, judge = [each.title for each in tried], copy.copy(judge)
        if names[0] == LAST:
            names[0] = "map of the last fit"
            # Standard errors by which new pairs must improve it.
            judge.errors = 1.0 if judge.errors is None else judge.errors
        elif self._may_stay:
            names[0] = "given distance"
        else:
            judge.errors = 0.0
        measure, unit = "Spearman's correlation", "pairs"
        if sample.scores is None:
            measure, unit = "average precision", "queries"
        costs, order = np.array([each.costs for each in tried]), [each.place for each in tried]
        return judge_costs(
            judge, names, costs, weights_of(folds), measure, unit, equal=0.5,
            order=np.array(order),
        )  # fmt: skip

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
        # Within two standard errors, either kind may be the better start.
        return [best, other] if excess(costs[other], costs[best], weight) <= 2 else [best]

    def _search(self, folds: list[_Fold], weight: Floats) -> dict[int, Floats]:
        """Return the costs of maps by how often the weight of the penalty is halved.

        The weight is halved as long as this is better, or else doubled.
        """

        def costs(i: int, before: int) -> Floats:
            return np.concatenate([fold.train(i, before) for fold in folds])

        found = {0: costs(0, 0)}
        for step in (1, -1):
            for i in range(step, step * (_DOUBLED + 1), step):
                found[i] = costs(i, i - step)
                if means(found[i] - found[i - step], weight) >= 0:
                    break
            if i != step:
                break
        return found

    def _folds(self, sample: Pairs, n_folds: int, rng: RandomState) -> list[_Fold]:
        """Return folds until there are enough held-out values; none of too few pairs."""
        folds, n_values = [], 0
        for trained, held_out in sample.folds(n_folds, rng):
            if min(trained.n_values, held_out.n_values) < (_LEAST // n_folds or 1):
                return []
            folds.append(_Fold(self, trained, held_out))
            n_values += held_out.n_values
            if n_values >= ENOUGH:
                break
        return folds

    def _costs_of(self, folds: list[_Fold], start: Start) -> Floats:
        """Return the costs of a start."""
        return np.concatenate([self.costs(start(f.pairs), [f.held_out]) for f in folds])

    def costs(self, L: Array, parts: Sequence[Pairs]) -> Floats:
        """Return the costs of a map: a number for each pair or query of all parts."""
        arrays, same = [np.ascontiguousarray(L, parts[0].queries.dtype)], is_identity_map(L)
        embedding, n_jobs = self.learner.embedding_, self.learner.n_jobs

        def mapped(X: Array, side: str) -> Array:
            return X if same else embed(embedding, arrays, X, side, n_jobs)

        databases = {id(each.database): each.database for each in parts}
        databases = {key: mapped(X, "database") for key, X in databases.items()}
        found = []
        for pairs in parts:
            sides = mapped(pairs.queries, "query"), databases[id(pairs.database)]
            values = [pairs.values(*(normalize(Z[:, :n]) for Z in sides)) for n in self.sizes]
            found.append(1 - np.mean(values, axis=0))
        return np.concatenate(found)

    def project(self, inner: _Inner, pairs: Pairs) -> list[tuple[Array, Array | None]] | None:
        """Return validation points of both sides, in bases that keep all cosines of queries.

        The first table of a side is under the map without a change, first in the basis of mapped
        points, then of the rest of queries; last is the length of the rest of the database. The
        second one is in the basis of given points, None if the side is not mapped.
        """
        if inner.mapped is None:
            return None
        sides = self._sides(pairs)
        tables = [_times(X, inner.whole) if moves else X for X, moves in sides]
        Q, R = np.linalg.qr(np.concatenate([inner.mapped, tables[0]]).T)
        basis = Q * np.where(np.diag(R) < 0, -1, 1).astype(Q.dtype)
        found: list[tuple[Array, Array | None]] = []
        for is_database, (Z, (X, moves)) in enumerate(zip(tables, sides, strict=True)):
            points = Z @ basis
            rest = np.einsum("ij,ij->i", Z, Z) - np.einsum("ij,ij->i", points, points)
            points = np.column_stack([points, is_database * np.sqrt(np.maximum(rest, 0))])
            given = points[:, : len(inner.mapped)] if inner.given is inner.mapped else None
            if moves and given is None:
                given = _coordinates(X, inner.given)
            found.append((points, given))
        return found

    def _sides(self, pairs: Pairs) -> list[tuple[Array, bool]]:
        """Return queries and database, and whether they are mapped."""
        tables = {"query": pairs.queries, "database": pairs.database}
        return [(X, self.learner.side in (side, "both")) for side, X in tables.items()]

    def _minimize(self, inner: _Inner, first: Array, halvings: int, run: Any = solve) -> Array:
        """Return the change of the start of lowest loss and penalty, from a first map."""
        memory = _ITERATIONS if first.size <= _LARGE else _ITERATIONS // 2
        solver = LBFGS(_ITERATIONS, _TOL, memory=memory)
        return self._run(_MapObjective(self, inner, halvings), first, solver, run)

    def _in_batches(self, inner: _Inner, like: _Candidate) -> Array:
        """Return the change of the start by mini-batches, about as long as another map's."""
        assert like.halvings is not None
        moves = float(np.linalg.norm(inner.coordinates(like.map()) - inner.start))
        pairs = inner.pairs
        epochs = int(_ITERATIONS * _WORK / (len(pairs) * pairs.work))
        batches = pairs.batches(np.clip(len(pairs) * epochs // _STEPS, *_BATCH))
        epochs = max(_EPOCHS, min(epochs, -(-_STEPS // len(batches))))
        rate = _TRAVEL * moves / (math.sqrt(inner.start.size) * epochs * len(batches))
        solver = Adam(rate, max_epochs=epochs, schedule="cosine")
        objective = _MapObjective(self, inner, like.halvings, batches)
        return self._run(objective, inner.start, solver, self._train)

    def _run(self, objective: _MapObjective, first: Array, solver: Solver, run: Any) -> Array:
        """Return the change of the start that a solver finds."""
        history = objective.history(np.random.RandomState(0), quiet=True)
        history.restart(first.ravel())
        run(objective, history, solver)
        return objective.change(history.x)

    def _train(self, objective: Objective, history: History, solver: Solver) -> None:
        """Train a map that may be the last one; the first of these has the checkpoint."""
        checkpoint, self.checkpoint = self.checkpoint, None
        train(self.learner, objective, history, solver, self.callbacks, checkpoint)

    def in_span(self, pairs: Pairs, start: Array) -> _Inner:
        """Return pairs and a start in bases of spans.

        The best change of the start takes the span of the points to map to the span of mapped
        points and of those that are compared with them. Prefixes have no other basis.
        """
        learner, pairs = self.learner, pairs.compact()
        sides = self._sides(pairs)
        given, mapped = basis_of([X for X, moves in sides if moves]), None
        if given is not None and len(self.sizes) == 1:
            if learner.side == "both" and is_identity_map(start):
                mapped = given
            else:
                mapped = basis_of([_times(X, start) if moves else X for X, moves in sides])
        whole = start
        if learner.rank is not None and (learner.side != "both" or len(start) == start.shape[1]):
            whole = unchanged(start)
        queries, database = (_coordinates(X, given if moves else mapped) for X, moves in sides)
        found = replace(pairs, queries=queries, database=database)
        inner = _Inner(found, start, whole, whole, mapped, given)
        return inner._replace(start=inner.coordinates(start), base=inner.coordinates(whole))


def basis_of(tables: Sequence[Array]) -> Array | None:
    """Return a basis of the span of all rows; None of more rows than .8 of the columns."""
    if sum(map(len, tables)) > 0.8 * tables[0].shape[1]:
        return None
    return np.ascontiguousarray(np.linalg.qr(np.concatenate(tables).T)[0].T)


def _coordinates(X: Array, basis: Array | None) -> Array:
    return X if basis is None else X @ basis.T


def _of_coordinates(L: Array, mapped: Array | None, given: Array | None) -> Array:
    """Return the map of points, of a map of coordinates in bases."""
    L = L if mapped is None else mapped.T @ L
    return L if given is None else L @ given


def unchanged(L: Array) -> Array:
    """Return the identity in place of a square map, else zeros."""
    return np.eye(len(L), dtype=L.dtype) if len(L) == L.shape[1] else np.zeros_like(L)


def is_identity_map(L: Array) -> bool:
    """Return whether a map leaves points as they are."""
    return bool(
        L.shape[0] == L.shape[1] and (np.diag(L) == 1).all() and np.count_nonzero(L) == len(L)
    )


def _times(X: Array, L: Array) -> Array:
    """Return mapped points; the same array under the identity."""
    return X if is_identity_map(L) else X @ L.T


def nearest_of_rank(change: Array, rank: int | None) -> Array:
    """Return the nearest matrix of this rank; None for any rank."""
    n = len(change)
    if rank is None or rank >= min(change.shape):
        return change
    U = eigh(change @ change.T, subset_by_index=(n - rank, n - 1))[1]
    return np.asarray(U @ (U.T @ change))


def weights_of(folds: list[_Fold]) -> Floats:
    """Return the weights of the held-out queries or pairs of all folds."""
    return np.concatenate([np.empty(0), *(fold.held_out.value_weight for fold in folds)])


def penalty_of(halvings: int) -> float:
    """Return the weight of the penalty, times the root of the number of pairs."""
    return math.ldexp(_PENALTY, -halvings)


def affordable(pairs: Pairs, work: float) -> int:
    """Return the number of pairs whose evaluation takes so many multiplications.

    In the span of their points, n pairs take 4n^3 multiplications. This counts if the points are at
    most half as many as their features.
    """
    in_span = min(np.cbrt(work / 4), pairs.database.shape[1] / 4)
    return max(int(work / pairs.work), round(float(in_span)))
