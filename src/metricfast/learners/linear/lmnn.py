"""Large margin nearest neighbours."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

import metricfast.losses as losses
from metricfast._core.arguments import check_count, check_range
from metricfast._core.deprecation import DEPRECATED
from metricfast._core.memory import refuse_beyond
from metricfast._core.scatter import blocks
from metricfast._core.sparse import dense
from metricfast._core.warn import warn_user
from metricfast.learners.base.points import TrainingSet
from metricfast.learners.base.trained import Callback
from metricfast.learners.linear.base import LinearLearner
from metricfast.learners.linear.impostors import MARGIN, TargetsAndImpostors
from metricfast.learners.linear.shared_docs import documented
from metricfast.learners.linear.targets import targets_among, targets_in_chunks
from metricfast.samplers import Batch, class_batches
from metricfast.training.chunks import Chunked, batches_of
from metricfast.training.coordinates import FULL_BASIS, Coordinates
from metricfast.training.monitor import Monitor, SolverState
from metricfast.training.objective import LinearMap, Objective, map_points
from metricfast.training.solvers import minimize_hinge

__all__ = ["LMNN"]

# Bytes that a target takes, with the impostors that are kept of it.
_TARGET = 200

Array = NDArray[Any]
# Mean squared distance to targets, in margins, below which classes have collapsed.
_COLLAPSED = 0.05


@documented
class LMNN(LinearLearner):
    r"""Large margin nearest neighbours.

    Learns a linear map L under which each point is near its k target neighbours, and points of
    other classes are farther away than those, by a margin. With
    :math:`D_{ij} = \|L x_i - L x_j\|^2`, the targets :math:`T_i` and the regularization r it
    minimises

    .. math::

        r \sum_i w_i \sum_{t \in T_i} D_{it}
        + (1 - r) \sum_i w_i \sum_{t \in T_i} \sum_{l: y_l \ne y_i} [1 + D_{it} - D_{il}]_+

    The targets of a point are its nearest neighbours of the same class: at first those in the space
    of the input, or under another start that `early_stopping` chose, later those under the present
    map. So the objective falls over the map and over the targets.

    Parameters
    ----------
    %(init)s
    n_neighbors : int, default=3
        Number k of targets of each point. Every class needs more members than that.
    min_iter, max_iter : int, default=50 and 1000
        Least and largest number of iterations of "lbfgs". It ends before the least one only where
        the objective cannot be lowered further, or `early_stopping` has chosen fewer.
    learn_rate : float, default=1e-7
        Accepted for compatibility; it belonged to a gradient descent that L-BFGS replaces.
    regularization : float, default=0.5
        Weight r of the pull of the targets, in [0, 1].
    convergence_tol : float, default=0.001
        "lbfgs" stops when an iteration lowers the objective by less than this share of it (on
        average over five iterations).
    %(n_components)s
    %(common)s
    k : int
        Deprecated name of `n_neighbors`.
    solver : {"lbfgs", "sgd"}, default="lbfgs"
        "lbfgs" looks at all impostors in every iteration, among lists that a full search renews
        when a bound on the movement of the points no longer proves them complete. "sgd" is for
        very many points: Adam on mini-batches of anchors. A batch holds the anchors and their
        targets; its points of other classes stand for all others, so the push is multiplied by the
        number of points over that of the batch. It first multiplies the initial map by the factor
        that makes the objective of a batch lowest.
    batch_size : int, optional
        Anchors per mini-batch; by default a tenth of the points, in `partial_fit` of those of all
        calls so far, but at least 100 and at most 1000.
    learning_rate : float, default=0.01
        First step of "sgd", relative to the root mean square of the initial map; it falls to zero
        along half a cosine.
    max_epochs : int, default=50
        Number of passes of "sgd" over the anchors.
    target_refresh : int, default=10
        Iterations (with "sgd", epochs) between two searches for the targets, each under the present
        map. "lbfgs" also searches where it converges. 0: the targets of the start stay, as in the
        paper and in metric-learn.
    %(jobs)s
    %(folds)s
    %(training)s

    Attributes
    ----------
    %(components)s
    labels_ : ndarray of shape (n_classes,)
        The numbers from 0 that stand for the sorted classes.
    objective_ : float
        The objective at the learned map; with "sgd" its estimate from the batches of the best
        epoch.
    %(attributes)s

    Notes
    -----
    The margin is 1 in units of squared distance, and the map learns its own scale, so that of the
    data matters little. The solvers move ``L K``, with :math:`K K^\top` the scatter of the
    differences between points and targets (its diagonal alone above 2000 features) and a little of
    the identity: the pull then has about the same curvature in all directions, which saves most of
    the iterations.

    %(units)s

    Where points are hardly more than features, a map can satisfy every margin and bring the points
    of a class together in one place, and other points gain nothing: a warning says so. Principal
    components, a tenth as many as points, are a good start then.

    References
    ----------
    K. Q. Weinberger, L. K. Saul, "Distance metric learning for large margin nearest neighbor
    classification", Journal of Machine Learning Research 10 (2009), 207-244.

    Examples
    --------
    >>> from metricfast import LMNN
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> lmnn = LMNN(n_neighbors=5).fit(X, y)
    >>> lmnn.transform(X).shape
    (150, 4)
    """

    _stoppings: tuple[str, ...] = ("folds", "auto")
    _keeps = True

    def __init__(
        self,
        init: str | NDArray[Any] = "auto",
        n_neighbors: int = 3,
        min_iter: int = 50,
        max_iter: int = 1000,
        learn_rate: float = 1e-7,
        regularization: float = 0.5,
        convergence_tol: float = 0.001,
        verbose: bool | int = False,
        preprocessor: Any = None,
        n_components: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        k: int | str = DEPRECATED,
        *,
        solver: str = "lbfgs",
        batch_size: int | None = None,
        learning_rate: float = 0.01,
        max_epochs: int = 50,
        target_refresh: int = 10,
        n_jobs: int | None = None,
        callbacks: Iterable[Callable[[SolverState], object]] | None = None,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        reservoir: int | None = None,
    ) -> None:
        self._take(locals())

    def _check_parameters(self) -> tuple[Callback, ...]:
        k = self._current("n_neighbors")
        check_count("n_neighbors", k)
        check_count("min_iter", self.min_iter, least=0)
        check_count("target_refresh", self.target_refresh, least=0)
        check_range("regularization", self.regularization, high=1.0)
        check_range("convergence_tol", self.convergence_tol)
        self._k = int(k)
        return super()._check_parameters()

    def _check_data(self, *args: Any, **kwargs: Any) -> TrainingSet:
        data = super()._check_data(*args, **kwargs)
        if self.solver == "lbfgs":
            n, k = data.X.shape[0], self._k
            refuse_beyond(_TARGET * n * k, f"LMNN of {n} points", "lower n_neighbors")
        return data

    def _check_numbers(self, data: TrainingSet) -> None:
        _check_class_sizes(data, self._k)

    def _objective(self, data: TrainingSet, L: Array) -> Objective:
        del L
        self._check_numbers(data)
        self.labels_ = np.arange(len(data.classes))
        loss = TargetsAndImpostors(data, self._k, self.regularization, self.n_jobs)
        if isinstance(data.X, Chunked):
            loss.targets = targets_in_chunks(data.X, loss.y, self._k, n_jobs=self.n_jobs)
            scatter = _target_scatter(data.few.X, loss.targets[data.few_rows], data.X)
        else:
            able, targets = targets_among(data.X, data.labels, self._k, self.n_jobs)
            if data.n_kept:
                loss.aim_some(able, targets)
            else:
                loss.aim(targets)
            points = data.X if len(able) == len(data.labels) else data.X[able]
            scatter = _target_scatter(points, targets, points)
        coordinates = Coordinates(data.X.shape[1], scatter)
        return Objective(data.X, LinearMap(), loss, coordinates, n_jobs=self.n_jobs)

    def _starting(
        self,
        data: TrainingSet,
        rng: np.random.RandomState,
        kept: Array | None,
        start: str | None = None,
        spreads: dict[str | None, Any] | None = None,
    ) -> tuple[Objective, Array]:
        objective, x0 = super()._starting(data, rng, kept, start, spreads)
        if start is None:
            return objective, x0
        L, loss = self._map(objective, x0), objective.loss
        assert isinstance(loss, TargetsAndImpostors)
        targets = targets_among(map_points(data.X, L), data.labels, self._k, self.n_jobs)[1]
        loss.aim(targets)
        scatter = _target_scatter(data.X, targets, data.X)
        objective.coordinates = Coordinates(data.X.shape[1], scatter)
        return objective, objective.coordinates.vector([L])

    @property
    def _least_of_class(self) -> int:
        return self._k + 1

    def _batches(
        self, data: TrainingSet, objective: Objective, rng: np.random.RandomState
    ) -> Callable[[], Iterable[Batch]]:
        size, loss = self._anchors(data), objective.loss
        assert isinstance(loss, TargetsAndImpostors)

        def draw(rows: NDArray[np.int64]) -> list[Batch]:
            rows = rows[: len(rows) - data.n_kept]
            drawn = class_batches(data.labels[rows], size, rng)
            batches = [data.with_kept(Batch(rows[some], len(some)), rng) for some in drawn]
            return [loss.with_targets(batch) for batch in batches]

        return batches_of(objective.X, draw, rng, size)

    def _solve(
        self, objective: Objective, monitor: Monitor, batches: Callable[[], Iterable[Batch]]
    ) -> None:
        every = self.target_refresh
        if not np.array_equal(monitor.refreshed, monitor.start):  # goes on from a checkpoint
            self._find_targets(objective, monitor, monitor.refreshed)

        def refreshed() -> Iterable[Batch]:
            if every and monitor.curve and len(monitor.curve) % every == 0:
                self._find_targets(objective, monitor, monitor.x)
            return batches()

        super()._solve(objective, monitor, refreshed)

    def _find_targets(self, objective: Objective, monitor: Monitor, x: Array) -> None:
        """Take the nearest points of each class under the present map as targets."""
        L, loss = self._map(objective, x), objective.loss
        assert isinstance(loss, TargetsAndImpostors)
        monitor.refreshed = x
        if isinstance(objective.X, Chunked):
            loss.targets = targets_in_chunks(objective.X, loss.y, self._k, L, self.n_jobs)
        else:
            Z = map_points(objective.X, L, self.n_jobs)
            loss.aim(losses.LMNN.find_targets(Z, loss.y, self._k, n_jobs=self.n_jobs))

    def _solve_all(self, objective: Objective, monitor: Monitor) -> None:
        refresh = partial(self._find_targets, objective, monitor) if self.target_refresh else None
        minimize_hinge(
            objective, monitor.x, monitor,
            min_iter=self.min_iter, tol=self.convergence_tol,
            max_iter=int(self.max_iter) - len(monitor.curve),
            refresh=refresh, refresh_every=int(self.target_refresh),
        )  # fmt: skip

    def _look_at_result(self, data: TrainingSet, monitor: Monitor, objective: Objective) -> None:
        n_samples, n_features = data.X.shape
        weight = n_samples if data.weight is None else float(data.weight.sum())
        if n_samples > 2 * n_features or (
            self.objective_ > _COLLAPSED * MARGIN * self.regularization * self._k * weight
        ):
            return
        warn_user(
            f"The map fits {n_samples} points of {n_features} features so closely that their "
            "classes have collapsed, which seldom helps other points: reduce the features first, "
            f"for example by PCA(n_components={max(1, n_samples // 10)}), and measure with "
            "fit(..., validate=True)."
        )


def _check_class_sizes(data: TrainingSet, k: int) -> None:
    sizes = np.bincount(data.labels)
    sizes[np.setdiff1d(np.arange(len(sizes)), data.labels[: data.n_new])] = len(data.labels)
    smallest = int(sizes.argmin())
    if sizes[smallest] <= k:
        n_samples, n_features = data.X.shape
        numbers = data.classes.dtype.kind in "iuf" and n_samples < 2 * len(sizes)
        remedy = "Lower n_neighbors" if sizes[smallest] > 1 else "Give more points of it"
        raise ValueError(
            f"not enough class labels for specified k (smallest class has {sizes[smallest]}): "
            f"class {data.classes[smallest]} needs more than n_neighbors={k} members "
            f"({n_samples=}, {n_features=}). {remedy}, or leave the class out."
            + " y looks continuous: MLKR learns from numbers."
            * numbers
        )


def _target_scatter(X: Any, targets: NDArray[Any], among: Any) -> NDArray[np.float64]:
    """Sum the outer products of points less their targets, or the diagonals of the products."""
    wide = X.shape[1] > FULL_BASIS
    scatter = np.zeros(X.shape[1] if wide else (X.shape[1], X.shape[1]))
    for rows, column in product(blocks(X), range(targets.shape[1])):
        difference = X[rows] - among[targets[rows, column]]
        if wide:
            scatter += (difference * difference).sum(axis=0, dtype=np.float64)
        else:
            scatter += dense(difference.T @ difference)
    return scatter
