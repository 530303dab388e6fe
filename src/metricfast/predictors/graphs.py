"""Graphs of neighbours, for points or for a fitted estimator."""

from __future__ import annotations

from typing import Any

from scipy.sparse import csr_matrix

from metricfast._core.arguments import check_bool
from metricfast.predictors.metric import is_searched
from metricfast.predictors.nearest import NearestNeighbors

__all__ = ["kneighbors_graph", "radius_neighbors_graph"]


def kneighbors_graph(
    X: Any,
    n_neighbors: int,
    *,
    mode: str = "connectivity",
    metric: Any = "minkowski",
    p: float | None = 2,
    metric_params: dict[str, Any] | None = None,
    include_self: bool | str = False,
    n_jobs: int | None = None,
) -> csr_matrix:
    """Return the nearest points of each point as a sparse matrix.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features), or fitted estimator
        Points, or a nearest-neighbour estimator with its points; `metric`, `p` and `metric_params`
        must then be the same as in the estimator.
    n_neighbors : int
    mode : {"connectivity", "distance"}, default="connectivity"
        Entries are 1, or distances.
    metric, p, metric_params, n_jobs
        Parameters of :class:`NearestNeighbors`.
    include_self : bool or "auto", default=False
        Whether each point is its own first neighbour. "auto": with "connectivity".

    Returns
    -------
    scipy.sparse.csr_matrix of shape (n_samples, n_samples)

    Raises
    ------
    ValueError, TypeError
        If an argument has a value that cannot be used.

    Examples
    --------
    >>> from metricfast.neighbors import kneighbors_graph
    >>> kneighbors_graph([[0.0], [1.0], [3.0]], 1, mode="distance").toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 2., 0.]])
    """
    given = {"metric": metric, "p": p, "metric_params": metric_params}
    search, queries = _searched(X, given, include_self, mode, n_jobs)
    return search.kneighbors_graph(queries, n_neighbors, mode)


def radius_neighbors_graph(
    X: Any,
    radius: float,
    *,
    mode: str = "connectivity",
    metric: Any = "minkowski",
    p: float | None = 2,
    metric_params: dict[str, Any] | None = None,
    include_self: bool | str = False,
    n_jobs: int | None = None,
) -> csr_matrix:
    """Return all points within a distance of each point as a sparse matrix.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features), or fitted estimator
        Points, or a nearest-neighbour estimator with its points; `metric`, `p` and `metric_params`
        must then be the same as in the estimator.
    radius : float
        Points exactly so far away are neighbours too.
    mode : {"connectivity", "distance"}, default="connectivity"
        Entries are 1, or distances.
    metric, p, metric_params, n_jobs
        Parameters of :class:`NearestNeighbors`.
    include_self : bool or "auto", default=False
        Whether each point is a neighbour of itself. "auto": with "connectivity".

    Returns
    -------
    scipy.sparse.csr_matrix of shape (n_samples, n_samples)

    Raises
    ------
    ValueError, TypeError
        If an argument has a value that cannot be used.

    Examples
    --------
    >>> from metricfast.neighbors import radius_neighbors_graph
    >>> radius_neighbors_graph([[0.0], [1.0], [3.0]], 2.0).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    given = {"metric": metric, "p": p, "metric_params": metric_params}
    search, queries = _searched(X, given, include_self, mode, n_jobs)
    return search.radius_neighbors_graph(queries, radius, mode)


def _searched(
    X: Any, given: dict[str, Any], include_self: bool | str, mode: str, n_jobs: int | None
) -> tuple[Any, Any]:
    """Return an estimator fitted to the points, and queries; None excludes each point itself."""
    if include_self == "auto":
        include_self = mode == "connectivity"
    check_bool("include_self", include_self)
    if not is_searched(X):
        return NearestNeighbors(**given, n_jobs=n_jobs).fit(X), X if include_self else None
    for name, value in given.items():
        own = getattr(X, name)
        if own is not value and not (isinstance(own, (str, int, float)) and own == value):
            raise ValueError(
                f"{name} must be that of the estimator, {own!r}, got {value!r}: give the points, "
                "or the same."
            )
    if include_self and X._fit_X is None:
        raise ValueError(
            "include_self must be False: the estimator has embedded points only. Give the points."
        )
    return X, X._fit_X if include_self else None
