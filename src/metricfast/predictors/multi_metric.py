"""Large margin nearest neighbours with a metric for each class."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import Tags

import metricfast.losses as losses
from metricfast._core.arguments import check_count
from metricfast._core.checks import check_points
from metricfast._core.dispatch import get_kernels
from metricfast._core.initialize import check_n_components
from metricfast._core.parameters import (
    NumberOfJobs,
    PositiveInt,
    Share,
    Verbosity,
    check_parameters,
)
from metricfast._core.targets import check_several_classes
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.wide_map import AnyMap, WideMap, to_array
from metricfast.distances.database import Database
from metricfast.distances.neighbors import kneighbors
from metricfast.learners.base.inputs import forget
from metricfast.learners.lmnn import LMNN
from metricfast.losses._call import BaseLoss, Call, Totals
from metricfast.predictors.base import KNeighborsMixin
from metricfast.predictors.classifiers import Votes
from metricfast.predictors.metric import Metric
from metricfast.predictors.neighborhoods import Weights
from metricfast.predictors.targets import Classes, check_given, judge_of_points
from metricfast.selection._evidence import means
from metricfast.selection._judge import Judge, Judgement, JudgeParameter, join_parts, judge_costs
from metricfast.selection._measures import Measure, Search
from metricfast.selection._splits import Part, split_points
from metricfast.training.callbacks import CallbackMixin, reports_to_sklearn
from metricfast.training.objective import EmbeddedLoss, Objective
from metricfast.training.problem import Problem
from metricfast.training.samples import Samples
from metricfast.training.solvers import LBFGS
from metricfast.training.span import LazyBasis, MapOfSpan, trains_in_span
from metricfast.training.train import train, warn_of_cost


class _Push(BaseLoss):
    """The sum of hinges of distances, for limits and an array of their numbers of hinges."""

    def _run(self, call: Call) -> Totals:
        return get_kernels().lmnn_push(call, (call.options["limits"], call.options["above"]))


def local_problem(
    X: Floats, codes: Integers, targets: Integers, pull: float, n_jobs: int | None = None
) -> Problem:
    """Return the problem of learning a map for each class.

    The distance from x to a point x' of class c is ``D = ||L_c (x - x')||^2``. The loss is that of
    :class:`metricfast.losses.LMNN` with reduction "sum" and margin 1. Parameters are one array, of
    shape (n_classes, n_components, d).

    `targets`: indices of target neighbours, of shape (n, k).
    `pull`: weight of the pull of target neighbours, from 0 to 1.
    """
    members, place = _members(codes), np.empty(len(codes), np.int64)
    for rows in members:
        place[rows] = np.arange(len(rows))

    def evaluate(loss: EmbeddedLoss, arrays: list[Floats], _: Any) -> tuple[float, list[Floats]]:
        (maps,) = arrays
        near, gradient = np.empty(targets.shape), np.empty_like(maps)
        moved = [X[rows] @ L.T for rows, L in zip(members, maps, strict=True)]
        for Z, rows in zip(moved, members, strict=True):
            near[rows] = np.square(Z[:, None] - Z[place[targets[rows]]]).sum(axis=2)
        weights, value = np.full_like(near, pull), pull * float(near.sum())
        for c, (Z, rows) in enumerate(zip(moved, members, strict=True)):
            others = np.flatnonzero(codes != c)
            anchors, above = X[others], np.empty((len(others), targets.shape[1]))
            hinges, (of_anchors, of_points) = loss.bound.evaluate_two_sided(
                anchors @ maps[c].T, Z, others, rows, limits=1 + near[others], above=above
            )
            value += (1 - pull) * hinges
            weights[others] += (1 - pull) * above
            gradient[c] = (1 - pull) * (of_anchors.T @ anchors + of_points.T @ X[rows])
        for c, (Z, rows) in enumerate(zip(moved, members, strict=True)):
            for column, weight in zip(targets[rows].T, weights[rows].T, strict=True):
                gradient[c] += (2 * weight * (Z - Z[place[column]]).T) @ (X[rows] - X[column])
        return value, [gradient]

    bound = _Push().on_codes(codes, n_jobs=n_jobs)
    return Problem(Samples(X, codes), bound, evaluate=evaluate, n_jobs=n_jobs)


# The row of no iterations.
_GIVEN = "map of LMNN"


@dataclass(eq=False, repr=False)
class MultiMetricLMNN(CallbackMixin, KNeighborsMixin, Votes, KNeighborsClassifier):  # type: ignore[misc]
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
    _fit_task: ClassVar[Any] = None  # for scikit-learn's callbacks, while `fit` runs
    partial_fit = property()  # not available: the maps depend on all points

    @reports_to_sklearn
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
        check_several_classes(len(labels.known[0]))
        self.classes_ = labels.known[0]
        n, d = points.shape
        width = n if trains_in_span(n, d) else d
        rows = min(width, check_n_components(d, self.n_components))
        shape = rows, len(self.classes_) * width
        warn_of_cost([shape], n, n, n, LBFGS(self.max_iter), self.n_jobs)
        L, self.n_iter_ = self._single(points, codes), int(self.max_iter)
        coordinates, of_span = points, None
        if trains_in_span(*points.shape):
            centred = points - points.mean(axis=0)
            basis = LazyBasis(centred).basis
            of_span = MapOfSpan(L, basis)
            coordinates, L = centred @ basis, of_span.inner
        if self._fit_task is not None:
            self._fit_task.begin("iteration", None)
        if judge is not None:
            self.judgement_ = self._judged(judge, coordinates, codes, L)
            self.n_iter_ = self.judgement_.chosen
        learned = self._learn(coordinates, codes, L, self.n_iter_, type(self).__name__)
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
        for number, part in enumerate(parts, 1):
            costs = list[Array]()
            found.append(costs)
            self._learn(
                points[part.train], codes[part.train], L, int(self.max_iter),
                f"{type(self).__name__}, part {number}/{len(parts)}",
                partial(self._cost, costs, measure, part, points, codes),
            )  # fmt: skip
        matrix = join_parts([np.array(each) for each in found]) if found else np.empty((1, 0))
        names = [_GIVEN, *(f"{i} iterations" for i in range(1, len(matrix)))]
        weight = np.concatenate([*weights, np.empty(0)])
        return judge_costs(judge, names, matrix, weight, name, "points")

    def _cost(
        self, costs: list[Array], measure: Measure, part: Part, points: Array, codes: Integers,
        maps: Floats,
    ) -> float:  # fmt: skip
        """Add the costs of held-out points under some maps, and return their mean."""
        members = _members(codes[part.train])

        def search(Z: Array, database: Array, k: int, **_: Any) -> tuple[Array, Integers]:
            return _search(Z, database, members, maps, k, None, self.n_jobs)

        queries, train = part.queries, part.train
        asked = Search(points[queries], points[train], function=search)
        found = measure(asked, codes[queries], codes[train], None)
        costs.append(found)
        return float(means(found.T, part.weight).flat[0])

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
        self, points: Array, codes: Integers, L: Floats, n_iter: int, label: str, cost: Any = None
    ) -> Floats:
        """Return the maps after some iterations; `cost` judges the start and each iteration."""
        maps = np.tile(L, (codes.max() + 1, 1, 1))
        if not n_iter:
            return maps
        X = np.asarray(points, np.float64)
        targets = losses.LMNN.find_targets(X @ L.T, codes, self.n_neighbors, n_jobs=self.n_jobs)
        problem = local_problem(
            X - X.mean(axis=0), codes, targets, self.regularization, self.n_jobs
        )
        objective = Objective(problem, [maps])
        history = objective.history(np.random.RandomState(0), quiet=True)
        if cost is not None:
            history.judge(lambda x: cost(x.reshape(maps.shape)))
            history.costs.append(cost(maps))
        train(self, objective, history, LBFGS(n_iter), part=label)
        learned: Floats = history.x.reshape(maps.shape)
        return learned

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

    @property
    def kind(self) -> str:
        """The maps."""
        n_components, n_features = self.class_maps[0].shape
        n = len(self.class_maps)
        return f"{n} maps of {n_features} features to {n_components} components"

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
