"""Searches under a metric, and the resolution of the parameter `metric`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import DistanceMetric
from sklearn.neighbors import BallTree, KDTree
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from metricfast._core.arguments import as_array, check_length, is_symmetric, takes_side
from metricfast._core.arrays import as_points
from metricfast._core.checks import check_points
from metricfast._core.frames import as_table, check_names
from metricfast._core.initialize import components_from_metric
from metricfast._core.mahalanobis import MahalanobisMetric
from metricfast._core.points import is_wide
from metricfast._core.sparse import made_dense
from metricfast._core.types import Array, Integers
from metricfast.distances.database import Database
from metricfast.distances.neighbors import SearchMetric
from metricfast.exceptions import NonPSDError
from metricfast.learners.base.bilinear import BilinearSimilarity
from metricfast.learners.base.learner import is_linear
from metricfast.learners.embedding.metric import EmbeddedDistance, EmbeddedMetricMixin
from metricfast.learners.gerrymandering.fixed_database import FixedDatabase
from metricfast.learners.kernel.kernel_map import KernelizedMetric

_OWN_FUNCTIONS = (BilinearSimilarity, EmbeddedDistance, KernelizedMetric)
_WANTED = (
    "metric must be a learner, a matrix L of shape (n_components, n_features), what get_metric "
    'of a learner of such a matrix returns, ("L", L), ("M", M), a tuple (U, V) of matrices, '
    '"inner_product", or a name or a function that scikit-learn takes'
)


class Metric:
    """A metric: preparation of points and the two searches.

    Attributes
    ----------
    public : object
        The public attribute `metric_` of the estimator.
    maps : dict of str to ndarray
        Arguments of the search: L, or U and V, or none.
    metric : {"euclidean", "cosine", "inner_product"}
        The distance of mapped points.
    two_sided : bool
        Whether queries and database points are embedded differently before the search.
    own_database : tuple of ndarray, or None
        Embedded points and their labels, if they differ from the points of `fit`.
    """

    two_sided = False
    own_database: tuple[Array, Array] | None = None

    def __init__(
        self, public: Any, maps: dict[str, Array], metric: SearchMetric = "euclidean"
    ) -> None:
        self.public, self.maps, self.metric = public, maps, metric

    @property
    def kind(self) -> str:
        """The name of the metric."""
        shapes = (f"{name} of shape {L.shape}" for name, L in self.maps.items())
        return ", ".join(shapes) or str(self.public)

    def points(self, estimator: Any, X: Any, side: str, reset: bool = False) -> Array:
        """Return the database points or queries for `X`.

        `side`: "database" or "query".
        `reset`: as in :func:`check_points`, of the estimator.
        """
        checked: Array = check_points(
            estimator, X, preprocessor=None, reset=reset, order="C",
            accept_sources=side == "query",
        )  # fmt: skip
        return checked

    def given(self, points: Array) -> Array | None:
        """Return the database points as passed to `fit`, if they were stored."""
        return points

    def prepare(self, points: Array, n_jobs: int | None) -> Any:
        """Return the database for a search among points."""
        maps: dict[str, Any] = self.maps
        return Database(points, metric=self.metric, n_jobs=n_jobs, **maps)

    def kneighbors(
        self, database: Any, queries: Array, n_neighbors: int, exclude: Integers | None,
        n_jobs: int | None, where: Any = None,
    ) -> tuple[Array, Integers]:  # fmt: skip
        """Return distances and indices of the nearest points of each query."""
        found: tuple[Array, Integers] = database.kneighbors(
            queries, n_neighbors, exclude=exclude, where=where, n_jobs=n_jobs
        )
        return found

    def within(
        self, database: Any, queries: Array, radius: float, exclude: Integers | None,
        sort_results: bool, n_jobs: int | None,
    ) -> tuple[Array, Integers, Integers]:  # fmt: skip
        """Return the results of :meth:`Database.radius_neighbors`."""
        found: tuple[Array, Integers, Integers] = database.radius_neighbors(
            queries, radius, exclude=exclude, sort_results=sort_results, n_jobs=n_jobs
        )
        return found


class ScikitLearn(Metric):
    """A metric that the scikit-learn base class of the estimator searches."""


class Learned(Metric):
    """The metric of a fitted learner, or of a pipeline that ends in one."""

    def __init__(self, learner: Any) -> None:
        super().__init__(learner, {})
        self.preparation, self.learner = _parts(learner)
        if isinstance(self.learner, FixedDatabase):
            self.own_database = self.learner._searched()
        elif _has_sides(self.learner):
            self.two_sided = self.learner.embedding_.asymmetric
        elif not is_linear(self.learner):
            self.preparation, self.learner = None, learner

    @property
    def kind(self) -> str:
        """The name of the metric."""
        return type(self.public).__name__

    def given(self, points: Array) -> Array | None:
        """Return the database points as passed to `fit`, if they were stored."""
        return points if self.maps else None

    def points(self, estimator: Any, X: Any, side: str, reset: bool = False) -> Array:
        """Return the database points or queries for `X`."""
        X = as_table(X, "X")
        check_names(X, "X")
        # The learner validates the points.
        if reset:
            validate_data(estimator, X, skip_check_array=True)
        if self.preparation is not None:
            X = self.preparation.transform(X)
        if reset and is_linear(self.learner) and not issparse(X):
            # The search embeds points in float64, whatever their precision.
            L = self.learner._map
            self.maps = {"L": L.copy()} if isinstance(L, np.ndarray) else {}
        if self.maps:
            found: Any = check_points(
                self.learner, X, preprocessor=self.learner.preprocessor_, reset=False, order="C",
                accept_sparse="csr", accept_sources=side == "query",
            )  # fmt: skip
            points: Array = made_dense(found)
            return points
        how = {"side": side} if _has_sides(self.learner) else {}
        name = "X, as metric transforms it,"
        return as_points(made_dense(self.learner.transform(X, **how), name), name)


def _has_sides(learner: Any) -> bool:
    """Return True if queries and database points may be embedded differently."""
    return isinstance(learner, (EmbeddedMetricMixin, FixedDatabase)) and takes_side(learner)


def is_learner(metric: object) -> bool:
    """Return True if `metric` is an estimator."""
    return hasattr(metric, "fit")


def is_searched(X: object) -> bool:
    """Return True if `X` is a tree of scikit-learn or a fitted estimator in place of points."""
    return isinstance(X, (BallTree, KDTree)) or hasattr(X, "n_samples_fit_")


def resolve(estimator: Any, X: Any, y: Any) -> Metric:
    """Return the metric of an estimator for its points. Fit it if it is an unfitted learner.

    `X`, `y`: the arguments of the estimator's `fit`. The function does not change the learner in
    `metric`. It raises ValueError or TypeError if `metric` does not define a distance.
    """
    metric = estimator.metric
    named = isinstance(metric, str)
    if (
        is_searched(X)
        or isinstance(metric, DistanceMetric)
        or (named and not _is_ours(estimator, X))
    ):
        return ScikitLearn(metric, {})
    if named:
        if metric != "inner_product":
            estimator._check_algorithm_metric()
        name: Any = metric if metric in ("cosine", "inner_product") else "euclidean"
        return Metric(name, {}, name)
    if callable(metric) and not isinstance(metric, (type, MahalanobisMetric, *_OWN_FUNCTIONS)):
        return ScikitLearn(metric, {})
    if estimator.metric_params:
        raise ValueError(
            f"metric_params are of metrics that scikit-learn knows by name; metric is {metric!r}: "
            "leave them out."
        )
    if is_learner(metric):
        return Learned(_fitted(estimator, metric, X, y))
    how: dict[str, Any] = {"reset": True, "accept_sources": True, "accept_sparse": ("csr", "csc")}
    width = check_points(estimator, X, preprocessor=None, **how).shape[1]
    if isinstance(metric, tuple):
        if len(metric) != 2:
            raise ValueError(f"{_WANTED}, got a tuple of {len(metric)}.")
        if isinstance(metric[0], str) and metric[0] in ("L", "M"):
            L = _matrix(metric[1], "metric[1]", width)
            return _linear(L if metric[0] == "L" else _factor(L))
        U, V = (_matrix(part, f"metric[{i}]", width) for i, part in enumerate(metric))
        check_length(V, len(U), "metric[1]", "rows, as metric[0]")
        return Metric((U, V), {"U": U, "V": V})
    if isinstance(metric, _OWN_FUNCTIONS):
        raise ValueError(f"{_WANTED}; got {type(metric).__name__}: give the learner itself.")
    if isinstance(metric, MahalanobisMetric):
        return _linear(_matrix(metric.components, "metric", width))
    L = _matrix(metric, "metric", width)
    if is_symmetric(L):
        raise ValueError(
            "metric is a symmetric matrix, which may be L or M = L.T @ L: give "
            'metric=("L", L) for the distance ||Lx - Ly||, or metric=("M", M) for '
            "sqrt((x - y).T @ M @ (x - y))."
        )
    return _linear(L)


def _is_ours(estimator: Any, X: Any) -> bool:
    """Return True if this package searches the named metric itself, for these points."""
    name, params = estimator.metric, dict(estimator.metric_params or {})
    if is_wide(X) and name != "inner_product":
        return False
    if name == "minkowski":
        p, w = params.pop("p", estimator.p), params.pop("w", None)
        return not params and w is None and p == 2
    return name in ("euclidean", "l2", "cosine", "inner_product") and not params


def _linear(L: Array) -> Metric:
    return Metric(L, {"L": L})


def _factor(M: Array) -> Array:
    """Return L with ``L.T @ L == M``."""
    if not is_symmetric(M):
        raise ValueError(
            f'metric=("M", M) needs a square symmetric M; found shape {M.shape}'
            + (", not symmetric." if len(M) == M.shape[1] else ".")
        )
    try:
        return components_from_metric(M)
    except NonPSDError as error:
        raise ValueError(
            'metric=("M", M) needs a positive semidefinite M: it has an eigenvalue below 0.'
        ) from error


def _matrix(given: Any, name: str, width: int) -> Array:
    """Return a copy of a map for points with `width` features."""
    if as_array(given, name).ndim != 2:
        raise ValueError(f"{_WANTED}; {name} is {given!r}.")
    matrix: Array = as_points(given, name, width=width).copy()
    return matrix


def _fitted(estimator: Any, metric: Any, X: Any, y: Any) -> Any:
    """Return the learner if it is fitted, else a fitted clone."""
    if isinstance(metric, type):
        raise TypeError(f"metric must be an object, got the class: give {metric.__name__}().")
    if not hasattr(metric, "transform"):
        raise TypeError(
            f"metric must be a learner that can transform points, got {metric!r}, which has no "
            "distance."
        )
    if _is_fitted(metric):
        return metric
    if getattr(metric, "_tuple_size", None) is not None:
        raise ValueError(
            f"metric={metric!r} learns from tuples, which fit is not given: fit it to them before, "
            "or give a learner of labelled points."
        )
    return clone(metric).fit(X, y)


def _is_fitted(learner: Any) -> bool:
    if isinstance(learner, Pipeline):  # a pipeline only checks its last step
        return all(_is_fitted(step) for _, step in learner.steps)
    if not hasattr(learner, "fit"):  # "passthrough"
        return True
    try:
        check_is_fitted(learner)
    except NotFittedError:
        return False
    return True


def _parts(learner: Any) -> tuple[Any, Any]:
    """Return the steps before the last of a pipeline, or None, and the learner at the end."""
    while isinstance(learner, FrozenEstimator) or hasattr(learner, "best_estimator_"):
        frozen = isinstance(learner, FrozenEstimator)
        learner = learner.estimator if frozen else learner.best_estimator_
    if isinstance(learner, Pipeline) and len(learner) > 1:
        before, last = _parts(learner[-1])
        if before is None:
            return learner[:-1], last
    return None, learner
