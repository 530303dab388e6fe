"""Base classes of the estimators: the metric, the searched points, and the two searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.utils import Tags, _safe_indexing, get_tags
from sklearn.utils.validation import _num_samples, check_is_fitted

from metricfast._core.arguments import check_bool, check_count, check_range
from metricfast._core.checks import check_points
from metricfast._core.frames import as_table
from metricfast._core.parameters import PositiveInt, check_parameters
from metricfast._core.points import stacked
from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.filters import as_filter, known_rows, name_rows
from metricfast.distances.neighbors import check_neighbors
from metricfast.distances.radius import check_radius
from metricfast.learners.base.html import learned_rows, learned_table, with_table
from metricfast.predictors.metric import Metric, ScikitLearn, is_learner, is_searched, resolve
from metricfast.predictors.neighborhoods import Neighborhoods
from metricfast.predictors.targets import rows_of_table


def _check_metric_params(_: str, metric_params: Any) -> None:
    if not isinstance(metric_params, dict):
        raise TypeError(f"metric_params must be a dict or None, got {metric_params!r}.")


@contextmanager
def _naming_metric(estimator: Any) -> Iterator[None]:
    """Add the name of the metric to errors of scikit-learn's search."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if type(error) not in (TypeError, ValueError):
            raise
        how = f"metric={estimator.metric!r}, p={estimator.p!r}"
        own = "learners, matrices, 'euclidean', 'cosine' and 'inner_product'"
        remedy = f" metricfast itself searches under {own}." if "not valid" in str(error) else ""
        raise type(error)(f"scikit-learn's search with {how}: {error}{remedy}") from error


def _rows_of_weight(weight: Floats | None) -> Integers | None:
    """Return the rows of weights above 0; None if all are."""
    return None if weight is None or (weight > 0).all() else np.flatnonzero(weight)


def _check_handed(estimator: Any, X: Any, reset: bool = False) -> int:
    """Validate points for a search by scikit-learn, and return their number."""
    finite = "allow-nan" if get_tags(estimator).input_tags.allow_nan else True
    checked = check_points(
        estimator, X, preprocessor=None, reset=reset, accept_sparse=True, dtype="numeric",
        ensure_all_finite=finite,
    )  # fmt: skip
    return int(checked.shape[0])


class NeighborsBase:
    """Mixin that replaces the search of a scikit-learn estimator and accepts more metrics.

    `fit` prepares the points in a :class:`Database`, unless the metric is one that
    scikit-learn searches.

    Attributes
    ----------
    metric_ : estimator, str, ndarray or tuple of ndarray
        The metric in use; for a learner, the fitted learner.
    n_samples_fit_ : int
        Number of points of `fit`, including points of weight 0, which are not searched.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
    """

    algorithm: Literal["auto", "ball_tree", "kd_tree", "brute"]
    leaf_size: PositiveInt
    p: Annotated[float, partial(check_range, high=2**53, positive=True, infinite=True)] | None
    metric: Any
    metric_params: Annotated[dict[str, Any], _check_metric_params] | None
    n_jobs: int | None
    get_params: Any
    metric_: Any
    n_samples_fit_: int
    n_features_in_: int
    feature_names_in_: Array
    effective_metric_params_: dict[str, Any]
    _space: Metric
    _database: Any  # a `Database`, or an object with its methods
    _rows: Integers | None = None  # searched points of `fit`; None for all
    _as_queries: Array | None  # the database embedded as queries, if this differs
    _score: tuple[dict[str, Any], float] | None  # parameters and leave-one-out score

    def _fit_points(self, X: Any, y: Any = None, weight: Floats | None = None) -> None:
        """Resolve the metric, fit it if necessary, and store the points to search.

        Points of weight 0 are left out, also in the fit of the metric. Invalid parameters leave the
        estimator as it was. After other errors it is not fitted.
        """
        check_parameters(self)
        self.__dict__.pop("metric_", None)
        if isinstance(X, NeighborsBase):
            X = X._fit_X
            if X is None:
                raise ValueError("X is an estimator that has embedded points only: give points.")
        self._rows, n_given = _rows_of_weight(weight), 0 if weight is None else len(weight)
        if self._rows is not None:
            if is_searched(X):
                raise ValueError(
                    "sample_weight must be above 0 where X is a tree or an estimator: give points."
                )
            X, y = (None if each is None else rows_of_table(each, self._rows) for each in (X, y))
            X = self._searched_columns(X)
        self._space = space = resolve(self, X, y)
        if isinstance(space, ScikitLearn):
            self._hand_over(X)
        else:
            points = space.points(self, X, "database", reset=True)
            self._as_queries = space.points(self, X, "query") if space.two_sided else None
            searched = points if space.own_database is None else space.own_database[0]
            self._database = space.prepare(searched, self.n_jobs)
            self._count()
        if space.own_database is not None:
            self._rows = None
        if self._rows is not None:
            self.n_samples_fit_ = n_given
            if self._precomputed:
                self.n_features_in_ = n_given
        self.metric_ = space.public

    @property
    def _precomputed(self) -> bool:
        """Whether `X` holds precomputed distances."""
        return isinstance(self.metric, str) and self.metric == "precomputed"

    def _searched_columns(self, X: Any) -> Any:
        """Return `X` with the columns of the searched points if it holds distances, else `X`."""
        if self._rows is None or not self._precomputed:
            return X
        return _safe_indexing(X, self._rows, axis=1)

    def _of_searched(self, values: Array) -> Array:
        """Select the values of the searched points from values of all points of `fit`."""
        return values if self._rows is None else values[self._rows]

    def _hand_over(self, X: Any) -> None:
        """Let scikit-learn store the points. It gets zeros in place of the labels."""
        n_labels = 1 if is_searched(X) else _check_handed(self, X, reset=True)
        with _naming_metric(self):
            super()._fit(X, np.zeros(n_labels, np.int64))  # type: ignore[misc]
        self._score = None

    def _check_weighted(self, sample_weight: Any) -> None:
        """Raise ValueError if the weights are of points that are not searched."""
        if sample_weight is not None and self._space.own_database is not None:
            del self.metric_
            raise ValueError(
                "sample_weight must be None where the X_database of a FixedDatabase is searched, "
                "not the points of fit."
            )

    def _count(self) -> None:
        self._score, self.n_samples_fit_ = None, len(self._database)
        # Attributes of scikit-learn's estimators that other code reads.
        self._tree, self._fit_method = None, "brute"
        self.effective_metric_, self.effective_metric_params_ = self._space.public, {}

    @property
    def _fit_X(self) -> Any:  # noqa: N802
        """The points of `fit`, under the name that scikit-learn uses."""
        if isinstance(self._space, ScikitLearn):
            return self._handed
        return self._space.given(self._database.points_)

    @_fit_X.setter
    def _fit_X(self, X: Any) -> None:  # noqa: N802
        self._handed = X

    def _append_points(self, X: Any, weight: Floats | None = None) -> None:
        """Add points to the searched points. The metric does not change.

        `weight`: of all points of `fit`, then of the added points. Points of weight 0 are left out.
        """
        n, n_added = self.n_samples_fit_, _num_samples(X)
        rows = None if weight is None else _rows_of_weight(weight[n:])
        if rows is not None or self._rows is not None:
            before = np.arange(n) if self._rows is None else self._rows
            added = np.arange(n_added) if rows is None else rows
            if rows is None or len(rows):
                self._append(X if rows is None else rows_of_table(X, rows))
            self._rows, self.n_samples_fit_ = np.append(before, n + added), n + n_added
        else:
            self._append(X)

    def _append(self, X: Any) -> None:
        """Add points to the searched points."""
        if isinstance(self._space, ScikitLearn):
            added = check_points(self, X, preprocessor=None, reset=False, accept_sparse="csr")
            names = getattr(self, "feature_names_in_", None)
            self._hand_over(stacked((self._fit_X, added)))
            if names is not None:
                self.feature_names_in_ = names
            return
        added = self._space.points(self, X, "database")
        if self._as_queries is not None:
            as_queries = self._space.points(self, X, "query")
            self._as_queries = np.concatenate([self._as_queries, as_queries])
        self._database.add(added, n_jobs=self.n_jobs)
        self._count()

    def _queries(self, X: Any) -> tuple[Array, Integers | None]:
        """Return the queries and the point that each excludes; without X, the points of `fit`."""
        check_is_fitted(self, "metric_")
        if X is not None:
            return self._space.points(self, X, "query"), None
        if self._space.own_database is not None:
            raise ValueError(
                "X may be left out only where the points of fit are searched, not the X_database "
                "of a FixedDatabase: give X."
            )
        queries = self._database.points_ if self._as_queries is None else self._as_queries
        return queries, np.arange(len(queries))

    def _nearest(self, X: Any, n_neighbors: int, where: Any = None) -> tuple[Array, Integers]:
        """Search for the nearest points. All other methods call this one."""
        queries, exclude = self._queries(X)
        if self._rows is not None and where is not None:
            sizes = len(queries), self.n_samples_fit_
            filtered = as_filter(where, sizes, known_rows(sizes[1]))
            where = filtered.of_points(self._rows).argument
        distances, indices = self._space.kneighbors(
            self._database, queries, n_neighbors, exclude, self.n_jobs, where
        )
        if self._rows is not None:
            name_rows(indices, self._rows)
        return distances, indices

    def _within(self, X: Any, radius: float, sort_results: bool = False) -> Neighborhoods:
        """Search for the points within a radius. All other methods call this one."""
        queries, exclude = self._queries(X)
        found = self._space.within(
            self._database, queries, radius, exclude, sort_results, self.n_jobs
        )
        return Neighborhoods(*found)

    def _scored_once(self, score: Callable[[], float]) -> float:
        """Return a score of the points of `fit`, cached until the parameters change."""
        check_is_fitted(self, "metric_")
        now = self.get_params(deep=False)
        if self._score is None or any(self._score[0][name] is not now[name] for name in now):
            try:
                self._score = now, score()
            except ValueError as error:  # `hasattr` then returns False
                raise AttributeError(f"loo_score_ cannot be computed: {error}") from error
        return self._score[1]

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + learned_table(self)  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return with_table(super()._repr_mimebundle_(**kwargs), self)  # type: ignore[misc]

    def _learned(self) -> Iterator[tuple[str, str]]:
        n_searched = self.n_samples_fit_ if self._rows is None else len(self._rows)
        yield "points that are searched", str(n_searched)
        yield "metric", self._space.kind
        if hasattr(self.metric_, "pair_score"):
            yield from learned_rows(self.metric_)
        else:
            yield "features", str(self.n_features_in_)
        if hasattr(self, "judgement_"):
            yield "chosen", self.judgement_.reason

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "metric_")

    def __sklearn_tags__(self) -> Tags:
        # Scikit-learn compares the metric with names, which fails for arrays.
        named = object.__new__(type(self))
        named.metric = self.metric if isinstance(self.metric, str) else None
        tags: Tags = super(NeighborsBase, named).__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        if is_learner(self.metric) and not isinstance(self.metric, type):
            learner = get_tags(self.metric)
            tags.input_tags.sparse = learner.input_tags.sparse
            tags.input_tags.positive_only = learner.input_tags.positive_only
            tags.target_tags.required |= learner.target_tags.required
        return tags


class KNeighborsMixin:
    """Mixin for the search for k nearest neighbours."""

    n_neighbors: PositiveInt | None

    def _found(self: Any, X: Any) -> Neighborhoods:
        """Return the neighbours that determine the prediction."""
        return Neighborhoods.of_k(*self.kneighbors(X))

    def kneighbors(
        self: Any,
        X: Any = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
        *,
        where: Any = None,
    ) -> tuple[Array, Integers] | Integers:
        """Return the nearest points of each query, exactly, from the database that `fit` prepared.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), optional
            By default the points of `fit` (of weight above 0), each left out of its own neighbours
            by index.
        n_neighbors : int, optional
            By default that of the estimator.
        return_distance : bool, default=True
        where : array-like or tuple, optional
            The points that queries may find, as for :meth:`metricfast.Database.kneighbors`: a
            boolean mask, also one for each query; indices; or a tuple (labels of queries, labels
            of the points), after "equal" to find equal labels. Refused where scikit-learn searches.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Nearest first; only with `return_distance`. Queries with fewer points have infinite
            distances at the end, with the index -1.
        indices : ndarray of int64 of shape (n_queries, n_neighbors)
            Ties are in the order of the index.
        """
        check_is_fitted(self, "metric_")
        if isinstance(self._space, ScikitLearn):
            if where is not None:
                raise ValueError(
                    "where must be None with this metric, for which scikit-learn searches."
                )
            if X is not None:
                _check_handed(self, X)
                X = self._searched_columns(as_table(X, "X"))
            k = self.n_neighbors if n_neighbors is None else n_neighbors
            if self._rows is not None:
                check_neighbors(k, len(self._rows) - (X is None))
            with _naming_metric(self):
                near: Any = super().kneighbors(X, n_neighbors, return_distance)  # type: ignore
            if self._rows is not None:
                name_rows(near[1] if return_distance else near, self._rows)
            return near  # type: ignore[no-any-return]
        check_bool("return_distance", return_distance)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        found: tuple[Array, Integers] = self._nearest(X, k, where)
        return found if return_distance else found[1]

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity"
    ) -> Any:
        """Return the graph of the nearest neighbours of each query.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), optional
            By default the points of `fit`, each left out of its own neighbours.
        n_neighbors : int, optional
            By default the parameter of this name.
        mode : {"connectivity", "distance"}, default="connectivity"
            Entries are 1, or distances.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_queries, n_samples_fit)
        """
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        k = None if k is None else check_count("n_neighbors", k)
        return super().kneighbors_graph(X, k, mode)  # type: ignore[misc]


class RadiusNeighborsMixin:
    """Mixin for the search for all neighbours within a radius."""

    radius: Annotated[float, lambda _, radius: check_radius(radius)] | None

    def _found(self: Any, X: Any) -> Neighborhoods:
        """Return the neighbours that determine the prediction."""
        check_is_fitted(self, "metric_")
        if isinstance(self._space, ScikitLearn):
            return Neighborhoods.of_each(*self.radius_neighbors(X))
        found: Neighborhoods = self._within(X, self.radius)
        return found

    def radius_neighbors(
        self: Any,
        X: Any = None,
        radius: float | None = None,
        return_distance: bool = True,
        sort_results: bool = False,
    ) -> tuple[Array, Array] | Array:
        """Return all points within a distance of each query, exactly.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), optional
            By default the points of `fit`, each left out of its own neighbours by index.
        radius : float, optional
            By default that of the estimator. Points exactly so far away are among the results.
        return_distance : bool, default=True
        sort_results : bool, default=False
            Nearest first, ties in the order of the index; by default all are in that order.

        Returns
        -------
        distances : ndarray of shape (n_queries,) of ndarray
            Only with `return_distance`.
        indices : ndarray of shape (n_queries,) of ndarray of int64
        """
        check_is_fitted(self, "metric_")
        if isinstance(self._space, ScikitLearn):
            if X is not None:
                _check_handed(self, X)
            with _naming_metric(self):
                return super().radius_neighbors(X, radius, return_distance, sort_results)  # type: ignore
        check_bool("return_distance", return_distance)
        found = self._within(X, self.radius if radius is None else radius, sort_results)
        indices: Array = found.split(found.indices)
        return (found.split(found.distances), indices) if return_distance else indices

    def radius_neighbors_graph(
        self: Any,
        X: Any = None,
        radius: float | None = None,
        mode: str = "connectivity",
        sort_results: bool = False,
    ) -> csr_matrix:
        """Return all points within a distance of each query as a sparse matrix.

        Parameters
        ----------
        X, radius, sort_results
            As for :meth:`radius_neighbors`.
        mode : {"connectivity", "distance"}, default="connectivity"
            Entries are 1, or distances.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_queries, n_samples_fit)
        """
        check_is_fitted(self, "metric_")
        if isinstance(self._space, ScikitLearn) or mode not in ("connectivity", "distance"):
            return super().radius_neighbors_graph(X, radius, mode, sort_results)  # type: ignore
        found = self._within(X, self.radius if radius is None else radius, sort_results)
        values = found.distances if mode == "distance" else None
        return found.graph(values, self.n_samples_fit_)
