"""The course of an adapter: its start, the weight of its penalty, and the map of all pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import normalize

from metricfast._core.scatter import svd
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.types import Array, Floats, RandomState
from metricfast._core.warn import without_advice
from metricfast.embeddings import Embedding
from metricfast.learners.embedding.pairs import Pairs, PrefixesLoss
from metricfast.selection._evidence import is_better
from metricfast.training.embedded import embed_samples
from metricfast.training.objective import Objective
from metricfast.training.problem import EMBEDDING, Problem
from metricfast.training.solvers import LBFGS, Adam, Solver
from metricfast.training.train import solve

__all__ = ["AdapterTraining", "Start", "identity", "projection", "regressions"]

# Returns the map to start from, of pairs to train on.
Start = Callable[[Pairs], Array]
# The weight of the penalty that is tried first, times the root of the number of pairs, and how
# often it is doubled or halved, at most.
_WEIGHT, _DOUBLED = 0.8, 6
# Weights of the penalty of a regression, as shares of the mean square of features.
_RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
# Least pairs, or queries, that can be divided; folds; validation values that are enough.
_LEAST, _FOLDS, _ENOUGH = 32, 3, 1000
# Pairs of the sample that chooses the weight, at most, and their multiplications; multiplications
# from which on mini-batches train the map of all pairs.
_SAMPLE, _SAMPLE_WORK, _WORK = 10_000, 4e9, 2e10
_ITERATIONS, _TOL = 8, 1e-5
# Epochs of mini-batches, and how far their steps lead, compared with the distance of the first map
# from the start.
_EPOCHS, _TRAVEL = 2, 8.0


def identity(n_components: int, pairs: Pairs) -> Array:
    """Return the first rows of the identity."""
    return np.eye(n_components, pairs.queries.shape[1], dtype=pairs.queries.dtype)


def projection(n_components: int, pairs: Pairs) -> Array:
    """Return the principal directions of all points, which are not centred."""
    moments = sum(X.T @ X for X in (pairs.queries, pairs.database))
    directions = np.linalg.eigh(moments)[1][:, ::-1][:, :n_components].T
    return np.ascontiguousarray(directions, pairs.queries.dtype)


def regressions(side: str) -> list[tuple[str, Start]]:
    """Return least squares of points of a side, to predict those that belong to them."""
    return [("regression", partial(_regression, side, ridge)) for ridge in _RIDGES]


def _regression(side: str, ridge: float, pairs: Pairs) -> Array:
    left, right = pairs.index[:, :2].T
    X, Y = normalize(pairs.queries)[left], normalize(pairs.database)[right]
    if side == "database":
        X, Y = Y, X
    moments = (X.T @ X).astype(np.float64)
    moments[np.diag_indices_from(moments)] += ridge * np.trace(moments) / len(moments)
    L = np.linalg.solve(moments, X.T @ Y).T
    # As long as the identity: the penalty depends on it, and cosines do not.
    return np.ascontiguousarray(L * (math.sqrt(len(L)) / np.linalg.norm(L)), X.dtype)


class _Fold:
    """Pairs to train on, and validation pairs, for maps of several weights of the penalty."""

    def __init__(self, solver: Callable[..., Array], train: Pairs, held_out: Pairs) -> None:
        self._solver, self._train, self._held_out = solver, train, held_out

    def begin(self, start: Start, values_of: Callable[[Array, Pairs], Floats]) -> Floats:
        """Return the validation values of a start."""
        self._start = start(self._train)
        self._values_of, self.maps = values_of, dict[int, Array]()
        return values_of(self._start, self._held_out)

    def train(self, halvings: int, before: int) -> Floats:
        """Train with a weight of the penalty, from the map of another, and return the values."""
        first = self.maps.get(before, self._start)
        penalty = penalty_of(halvings, self._train)
        L = self._solver(self._train, self._start, first, penalty)
        self.maps[halvings] = L
        return self._values_of(L, self._held_out)


class Adaptation(NamedTuple):
    """A map, and how it was chosen.

    `start`: the name of its start.
    `penalty`: the weight of its penalty; infinity if the map is the start.
    `path`: the validation score of each weight.
    """

    map: Array
    start: str
    penalty: float
    path: dict[float, float]


@dataclass(frozen=True)
class AdapterTraining:
    """The training of an adapter: what is minimised, and where it may start.

    Of several starts, the first is taken unless another is better by two standard errors. Without a
    start that leaves points as they are, the best is taken.
    """

    embedding: Embedding
    loss: Any
    starts: Sequence[tuple[str, Start]]
    sizes: Sequence[int]  # of prefixes that are mapped points as well
    rank: int | None
    n_jobs: int | None

    def run(self, pairs: Pairs, rng: RandomState) -> Adaptation:
        """Return the map, and how it was chosen.

        Among weights that are no worse by two standard errors than the best, the largest is chosen.
        It is infinite, and the map is the start, if the best is not better than that.
        """
        n = max(min(_SAMPLE, int(_SAMPLE_WORK / pairs.work)), 10 * _LEAST)
        sample = pairs.take(np.sort(rng.permutation(len(pairs))[:n])).compact()
        with one_blas_thread(), without_advice():
            folds = self._folds(sample, rng)
            if not folds:
                name, start = self.starts[0 if self._may_stay else -1]
                return Adaptation(start(pairs), name, math.inf, {})
            tried = [self._begin(folds, start) for _, start in self.starts]
            best = int(np.argmax([values.mean() for values in tried]))
            if self._may_stay and not is_better(-tried[best], -tried[0]):
                best = 0
            name, start = self.starts[best]
            at_start, found = self._begin(folds, start), self._search(folds)
            path = {penalty_of(i, pairs): float(found[i].mean()) for i in sorted(found)}
            path = {math.inf: float(at_start.mean()), **path}
            best, L = max(found, key=lambda i: float(found[i].mean())), start(pairs)
            if not is_better(-found[best], -at_start):
                return Adaptation(L, name, math.inf, path)
            best = min(
                i for i in found
                if is_better(-found[i], -at_start) and not is_better(-found[best], -found[i])
            )  # fmt: skip
            penalty = penalty_of(best, pairs)
            L = self._solve(pairs, L, folds[0].maps[best], penalty)
            return Adaptation(L, name, penalty, path)

    @property
    def _may_stay(self) -> bool:
        return self.starts[0][0] == "identity"

    def _search(self, folds: list[_Fold]) -> dict[int, Floats]:
        """Return the values of maps by how often the weight of the penalty is halved.

        The weight is halved as long as this is better, or else doubled.
        """

        def values(i: int, before: int) -> Floats:
            return np.concatenate([fold.train(i, before) for fold in folds])

        found = {0: values(0, 0)}
        for step in (1, -1):
            i = step
            while abs(i) <= _DOUBLED:
                found[i] = values(i, i - step)
                if found[i].mean() <= found[i - step].mean():
                    break
                i += step
            if i != step:
                break
        return found

    def _folds(self, sample: Pairs, rng: RandomState) -> list[_Fold]:
        """Return folds until there are enough validation values; none of too few pairs."""
        folds, n_values = [], 0
        for train, held_out in sample.folds(_FOLDS, rng):
            if min(train.n_values, held_out.n_values) < _LEAST // _FOLDS:
                return []
            folds.append(_Fold(self._solve, train, held_out))
            n_values += held_out.n_values
            if n_values >= _ENOUGH:
                break
        return folds

    def _begin(self, folds: list[_Fold], start: Start) -> Floats:
        return np.concatenate([fold.begin(start, self._values) for fold in folds])

    def _values(self, L: Array, pairs: Pairs) -> Floats:
        Z, Z_database = embed_samples(self.embedding, [L], pairs.tables, self.n_jobs)
        values = [
            pairs.values(normalize(Z[:, :size]), normalize(Z_database[:, :size]))
            for size in self.sizes
        ]
        return np.asarray(np.mean(values, axis=0))

    def _solve(self, pairs: Pairs, start: Array, first: Array, penalty: float) -> Array:
        """Return the map of lowest loss and penalty, from a first one."""
        samples, loss, batches = pairs.parts(self.loss, self.n_jobs)
        if len(self.sizes) > 1:
            loss = PrefixesLoss(loss, self.sizes)
        large = len(pairs) * pairs.work > _WORK
        # A batch has its share of the penalty, and the loss is a mean.
        weight = penalty * (len(batches) if large else 1)

        def moved(arrays: list[Array], start: list[Array]) -> tuple[float, list[Array]]:
            away = arrays[0] - start[0]
            return weight * float(np.vdot(away, away)), [2 * weight * away]

        problem = Problem(
            samples, loss, embedding=self.embedding, penalty=moved, traits=EMBEDDING,
            batches=lambda objective, rng, size: lambda: batches, n_jobs=self.n_jobs,
        )  # fmt: skip
        objective = Objective(problem, [start])
        history = objective.history(np.random.RandomState(0))
        history.restart(first.ravel())
        solver: Solver = LBFGS(max_iter=_ITERATIONS, tol=_TOL)
        if large:
            length = float(np.linalg.norm(first - start)) / math.sqrt(first.size)
            rate = _TRAVEL * length / (_EPOCHS * len(batches))
            solver = Adam(rate, max_epochs=_EPOCHS, schedule="cosine")
        solve(objective, history, solver)
        found = history.x if large else history.best_x
        L = objective.parameters(found)[0].astype(start.dtype)
        return L if self.rank is None else start + nearest_of_rank(L - start, self.rank)


def nearest_of_rank(change: Array, rank: int) -> Array:
    """Return the nearest matrix of this rank."""
    U, values, V = svd(change)
    return np.ascontiguousarray((U[:, :rank] * values[:rank]) @ V[:rank])


def penalty_of(halvings: int, pairs: Pairs) -> float:
    """Return the weight of the penalty: errors decrease with the root of the number of pairs."""
    return math.ldexp(_WEIGHT / math.sqrt(len(pairs)), -halvings)
