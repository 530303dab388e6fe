"""Large margin nearest neighbours with a metric for each class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import Tags

import metricfast.losses as losses
from metricfast._core.arguments import check_count
from metricfast._core.checks import check_points
from metricfast._core.memory import block_rows
from metricfast._core.parameters import (
    NumberOfJobs,
    PositiveInt,
    Share,
    Verbosity,
    check_parameters,
)
from metricfast._core.progress import Progress
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.wide_map import AnyMap, WideMap, to_array
from metricfast.distances.database import Database
from metricfast.distances.neighbors import kneighbors
from metricfast.learners.base.inputs import forget
from metricfast.learners.lmnn import LMNN
from metricfast.predictors.base import KNeighborsMixin
from metricfast.predictors.classifiers import Votes
from metricfast.predictors.metric import Metric
from metricfast.predictors.neighborhoods import Weights
from metricfast.predictors.targets import Classes, check_given, judge_of_points
from metricfast.selection._evidence import means
from metricfast.selection._judge import Judge, Judgement, JudgeParameter, join_parts, judge_costs
from metricfast.selection._measures import Measure
from metricfast.selection._splits import Part, split_points
from metricfast.training.history import PATIENCE, History
from metricfast.training.lbfgs import minimize_smooth
from metricfast.training.span import LazyBasis, MapOfSpan, trains_in_span


class LocalObjective:
    """Value of the loss, and its gradient by the maps of all classes.

    The distance from x to a point x' of class c is ``D = ||L_c (x - x')||^2``. The loss is that of
    :class:`metricfast.losses.LMNN` with reduction "sum" and margin 1. It is computed for blocks of
    anchors, to limit the memory for distances.

    `X`: float64 points, sorted by class.
    `codes`: classes of the points, from 0, in ascending order.
    `targets`: indices of target neighbours, of shape (n, k).
    `pull`: weight of the pull of target neighbours, from 0 to 1.
    """

    def __init__(self, X: Floats, codes: Integers, targets: Integers, pull: float) -> None:
        self.X, self.codes, self.targets, self.pull = X, codes, targets, pull
        ends = np.cumsum(np.bincount(codes))
        self.classes = [slice(int(end - size), int(end)) for end, size in
                        zip(ends, np.bincount(codes), strict=True)]  # fmt: skip

    def __call__(self, maps: Floats) -> tuple[float, Floats]:
        """Return the loss, and its gradient by maps of shape (n_classes, n_components, d)."""
        X, classes = self.X, self.classes
        n, d = X.shape
        scatters = np.zeros((len(classes), d, d))
        received = np.zeros(n)
        value, step = 0.0, block_rows(4 * 8 * n)
        mapped = [X[part] @ L.T for part, L in zip(classes, maps, strict=True)]
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            distances = self._distances(rows, maps, mapped)
            value += self._push_and_pull(rows, distances, maps, scatters, received)
        for c, part in enumerate(classes):
            scatters[c] += X[part].T @ (received[part, None] * X[part])
        gradient: Floats = 2 * maps @ scatters
        return value, gradient

    def _distances(self, rows: slice, maps: Floats, mapped: list[Floats]) -> Floats:
        """Return squared distances of anchors to all points, infinite within their class."""
        found = np.empty((rows.stop - rows.start, len(self.X)))
        for part, L, points in zip(self.classes, maps, mapped, strict=True):
            anchors = self.X[rows] @ L.T
            block = anchors @ points.T
            block *= -2
            block += np.einsum("ij,ij->i", anchors, anchors)[:, None]
            block += np.einsum("ij,ij->i", points, points)
            found[:, part] = block
        own = self.codes[rows, None] == self.codes
        found[own] = np.inf
        return found

    def _push_and_pull(
        self, rows: slice, distances: Floats, maps: Floats, scatters: Floats, received: Floats
    ) -> float:
        """Add the contributions of anchors to the scatter matrices of the gradient."""
        X, push = self.X, 1 - self.pull
        value, weights = 0.0, np.zeros_like(distances)
        for column in self.targets[rows].T:
            apart = X[rows] - X[column]
            moved = np.empty((len(column), maps.shape[1]))
            for c in np.unique(self.codes[rows]):
                its = self.codes[rows] == c
                moved[its] = apart[its] @ maps[c].T
            near = np.einsum("ij,ij->i", moved, moved)
            active = distances < 1 + near[:, None]
            counts = active.sum(axis=1)
            value += self.pull * near.sum() + push * (counts * (1 + near)).sum()
            value -= push * distances.sum(where=active)
            weights -= push * active
            pulled = (self.pull + push * counts)[:, None] * apart
            for c in np.unique(self.codes[rows]):
                its = self.codes[rows] == c
                scatters[c] += apart[its].T @ pulled[its]
        received += weights.sum(axis=0)
        for c, part in enumerate(self.classes):
            w = weights[:, part]
            mixed = X[rows].T @ (w @ X[part])
            scatters[c] += X[rows].T @ (w.sum(axis=1)[:, None] * X[rows]) - mixed - mixed.T
        return float(value)


# The row of no iterations.
_GIVEN = "map of LMNN"


@dataclass(eq=False, repr=False)
class MultiMetricLMNN(KNeighborsMixin, Votes, KNeighborsClassifier):  # type: ignore[misc]
    r"""Nearest neighbours under a learned metric for each class.

    The distance of a query x to a point x' of class c is :math:`\|L_c (x - x')\|`, so the relevant
    features may differ between classes. The maps are learned together, by the loss of
    :class:`LMNN` with these distances, from the single map that `LMNN` learns. The maps have many
    parameters, so held-out points determine the number of iterations, up to ten iterations without
    a lower cost. Unless some are surely better than none, all maps are the map of `LMNN`.

    Parameters
    ----------
    n_neighbors : int, default=3
        Neighbours that vote, and targets of each point. Every class needs more members than that.
    n_components : int, optional
        Rows of the maps; by default n_features.
    weights : {"uniform", "distance"}, callable or None, default="uniform"
        As in :class:`KNeighborsClassifier`.
    regularization : float from 0 to 1, default=0.5
        The share of the pull of targets, as in :class:`LMNN`.
    max_iter : int, default=100
        The largest number of iterations of L-BFGS.
    judge : "auto", None or Judge, default="auto"
        Chooses the map of `LMNN`, and then the number of iterations by held-out points, see
        :class:`~metricfast.selection.Judge`. With None, nothing is held out, and `LMNN` and its
        maps are trained to the end.
    n_jobs : int, optional
        Threads.
    verbose : bool or int, default=False
        Show progress on standard error.

    Attributes
    ----------
    maps_ : ndarray of shape (n_classes, n_components, n_features)
        L of each class, in the order of `classes_`.
    n_iter_ : int
        Iterations after the iterations of `LMNN`.
    judgement_ : Judgement
        The costs of held-out points under the map of `LMNN`, and after each iteration.
    classes_, n_samples_fit_, n_features_in_, feature_names_in_
        As in :class:`KNeighborsClassifier`.

    Notes
    -----
    An iteration takes the products of all pairs of points, in memory that does not grow with their
    square. There is no single map, so no `transform`; `kneighbors` searches each class by its map.

    References
    ----------
    Weinberger, Saul. Fast solvers and efficient implementations for distance metric learning.
    ICML 2008.

    Examples
    --------
    >>> from metricfast.neighbors import MultiMetricLMNN
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MultiMetricLMNN().fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    n_neighbors: PositiveInt = 3
    n_components: int | None = None
    _: KW_ONLY
    weights: Weights = "uniform"
    regularization: Share = 0.5
    max_iter: PositiveInt = 100
    judge: JudgeParameter = "auto"
    n_jobs: NumberOfJobs = None
    verbose: Verbosity = False

    metric = "euclidean"  # for the stored points; each class is searched separately
    algorithm, leaf_size, p, metric_params = "auto", 30, 2, None
    partial_fit = property()  # not available: the maps depend on all points

    def fit(self, X: Any, y: Any = None) -> MultiMetricLMNN:
        """Learn the maps, and store the points to search.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Classes, at least two.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If an argument or parameter has a value that cannot be used.
        """
        X, y = check_given(self, X, y)
        labels = Classes.of(y)
        check_parameters(self)
        forget(self)
        judge = judge_of_points(self.judge)
        points = check_points(self, X, preprocessor=None, reset=True, order="C")
        codes = labels.codes[:, 0]
        if labels.several:
            raise ValueError("y must have one column, as each class has a metric.")
        if len(labels.known[0]) < 2:
            raise ValueError("y must have two classes at least, got one class.")
        self.classes_ = labels.known[0]
        L, self.n_iter_ = self._single(points, codes), int(self.max_iter)
        coordinates, of_span = points, None
        if trains_in_span(*points.shape):
            centred = points - points.mean(axis=0)
            basis = LazyBasis(centred).basis
            of_span = MapOfSpan(L, basis)
            coordinates, L = centred @ basis, of_span.inner
        if judge is not None:
            self.judgement_ = self._judged(judge, coordinates, codes, L)
            self.n_iter_ = self.judgement_.chosen
        learned = self._learn(coordinates, codes, L, self.n_iter_)
        self._maps = [L if of_span is None else of_span.outer(L) for L in learned]
        self._space = _MetricOfEachClass(_members(codes), self._maps)
        self._database, self._as_queries = Database(points, n_jobs=self.n_jobs), None
        self._count()
        self.metric_ = "euclidean"
        self._keep(labels)
        return self

    def _judged(self, judge: Judge, points: Array, codes: Integers, L: Floats) -> Judgement:
        """Choose the number of iterations. Each part starts from the map of all points, L."""
        name, measure = judge.costs_by()
        parts = split_points(
            points, codes, n_splits=judge.n_splits, least=int(self.n_neighbors) + 1, unit="points"
        )
        found, weights = list[list[Array]](), [part.weight for part in parts]
        for part in parts:
            costs = list[Array]()
            found.append(costs)
            self._learn(
                points[part.train], codes[part.train], L, int(self.max_iter),
                partial(self._add_costs, costs, measure, part, points, codes),
            )  # fmt: skip
        matrix = join_parts([np.array(each) for each in found]) if found else np.empty((1, 0))
        names = [_GIVEN, *(f"{i} iterations" for i in range(1, len(matrix)))]
        weight = np.concatenate([*weights, np.empty(0)])
        return judge_costs(judge, names, matrix, weight, name, "points")

    def _add_costs(
        self, costs: list[Array], measure: Measure, part: Part, points: Array, codes: Integers,
        maps: Floats,
    ) -> bool:  # fmt: skip
        """Add the costs of held-out points under some maps, and return whether to stop."""
        members = _members(codes[part.train])

        def search(Z: Array, database: Array, k: int, **_: Any) -> tuple[Array, Integers]:
            return _search(Z, database, members, maps, k, None, self.n_jobs)

        queries, train = part.queries, part.train
        found = measure(
            points[queries], codes[queries], points[train], codes[train], None, search=search
        )
        costs.append(found)
        goals = [float(means(each.T, part.weight).flat[0]) for each in costs]
        return len(goals) - int(np.argmin(goals)) > PATIENCE

    @property
    def maps_(self) -> Floats:
        """The map of each class."""
        return np.stack(list(map(to_array, self._maps)))

    def _single(self, points: Array, codes: Integers) -> Any:
        """Return the map of `LMNN`."""
        start = LMNN(
            n_neighbors=self.n_neighbors, n_components=self.n_components, random_state=0,
            regularization=self.regularization, judge=self.judge, n_jobs=self.n_jobs,
        ).fit(points, self.classes_[codes])  # fmt: skip
        return start._map.astype(np.float64)

    def _learn(
        self, points: Array, codes: Integers, L: Floats, n_iter: int, judged: Any = None
    ) -> Floats:
        """Return the maps after some iterations; call `judged` with the maps of each."""
        maps = np.tile(L, (codes.max() + 1, 1, 1))
        if judged is not None:
            judged(maps)
        if not n_iter:
            return maps
        order = np.argsort(codes, kind="stable")
        X = np.asarray(points, np.float64)[order]
        targets = losses.LMNN.find_targets(
            X @ L.T, codes[order], self.n_neighbors, n_jobs=self.n_jobs
        )
        objective = LocalObjective(X - X.mean(axis=0), codes[order], targets, self.regularization)

        def function(x: Floats) -> tuple[float, Floats]:
            value, gradient = objective(x.reshape(maps.shape))
            return value, gradient.ravel()

        label, shown = type(self).__name__, self.verbose
        with Progress(label, n_iter, shown=shown) as progress:

            def observer(iteration: int, value: float, x: Floats) -> bool:
                progress(iteration, value)
                return judged is not None and judged(x.reshape(maps.shape))

            history = History(maps.ravel(), observer, quiet=True)
            minimize_smooth(function, history.x, history, max_iter=n_iter)
        learned: Floats = history.x.reshape(maps.shape)
        return learned

    def _learned(self) -> Iterator[tuple[str, str]]:
        yield "points that are searched", str(self.n_samples_fit_)
        n_components, n_features = self._maps[0].shape
        yield "maps", f"{len(self._maps)}, of {n_features} features to {n_components} components"
        yield "iterations", str(self.n_iter_)
        if hasattr(self, "judgement_"):
            yield "cost, held out", f"{self.judgement_.costs[self.judgement_.chosen]:.4g}"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = tags.classifier_tags.multi_label = False
        return tags


class _MetricOfEachClass(Metric):
    """Euclidean distances under the map of the class of each database point.

    Parameters
    ----------
    members : list of ndarray
        The points of each class.
    class_maps : list of (ndarray of shape (n_components, n_features) or WideMap)
    """

    def __init__(self, members: list[Integers], class_maps: list[AnyMap]) -> None:
        super().__init__("euclidean", {})
        self.members, self.class_maps = members, class_maps

    def points(self, estimator: Any, X: Any, side: str, reset: bool = False) -> Array:
        """Return points in memory, without embedding them."""
        checked: Array = check_points(estimator, X, preprocessor=None, reset=reset)
        return checked

    def kneighbors(
        self, database: Database, queries: Array, n_neighbors: int, exclude: Integers | None,
        n_jobs: int | None, where: Any = None,
    ) -> tuple[Array, Integers]:  # fmt: skip
        """Return distances and indices of the nearest points of each query."""
        if where is not None:
            raise ValueError("where must be None: a metric for each class has no filters.")
        k, points = check_count("n_neighbors", n_neighbors), database.points_
        most = len(points) - (exclude is not None)
        if k > most:
            raise ValueError(f"n_neighbors must be at most {most}, the points there are, got {k}.")
        return _search(queries, points, self.members, self.class_maps, k, exclude, n_jobs)


def _search(
    queries: Array, points: Array, members: list[Integers], maps: Any, k: int,
    exclude: Integers | None, n_jobs: int | None,
) -> tuple[Array, Integers]:  # fmt: skip
    """Return the nearest points under the distance of the class of each point; the first in a tie.

    `exclude`: the excluded point of each query.
    """
    shape = (len(queries), sum(min(k, len(rows)) for rows in members))
    near, which, end = np.full(shape, np.inf), np.full(shape, -1), 0
    place = np.empty(len(points), np.int64)
    for rows, L in zip(members, maps, strict=True):
        start, end = end, end + min(k, len(rows))
        place[:] = -1
        place[rows] = np.arange(len(rows))
        own = np.full(len(queries), -1) if exclude is None else place[exclude]
        for among in (True, False):
            some = np.flatnonzero((own >= 0) == among)
            size = min(k, len(rows) - among)
            if len(some) and size:
                sides = queries[some], points[rows]
                if isinstance(L, WideMap):
                    sides = L.embed(sides[0] - points[0]), L.embed(sides[1] - points[0])
                found = kneighbors(
                    *sides, size, L=None if isinstance(L, WideMap) else L, exclude=own[some],
                    n_jobs=n_jobs,
                )  # fmt: skip
                near[some, start : start + size] = found[0]
                which[some, start : start + size] = rows[found[1]]
    order = np.lexsort((which, near), axis=1)[:, :k]
    return np.take_along_axis(near, order, 1), np.take_along_axis(which, order, 1)


def _members(codes: Integers) -> list[Integers]:
    """Return the points of each class."""
    return [np.flatnonzero(codes == c) for c in range(codes.max() + 1)]
