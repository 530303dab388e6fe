"""The searches under a metric: which points the database holds, and which distances come out."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricfast._core.checks import check_points
from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.database import Database
from metricfast.distances.radius import radius_neighbors

__all__ = ["Cosine", "InnerProduct", "Metric", "ScikitLearn"]


class Metric:
    """A metric in use: points to search among, and the two searches, here of Euclidean distances.

    Attributes
    ----------
    public : object
        What an estimator shows as `metric_`.
    maps : dict of str to ndarray
        L, or U and V, or nothing: how the search is told.
    two_sided : bool
        Whether queries and database points are embedded differently before the search.
    own_database : tuple of ndarray, or None
        Embedded points and their labels, where these are not the points of `fit`.
    """

    two_sided = False
    own_database: tuple[Array, Array] | None = None

    def __init__(self, public: Any, maps: dict[str, Array]) -> None:
        self.public, self.maps = public, maps

    @property
    def kind(self) -> str:
        """What it is, in a few words."""
        shapes = (f"{name} of shape {L.shape}" for name, L in self.maps.items())
        return ", ".join(shapes) or str(self.public)

    def points(self, estimator: Any, X: Any, side: str, reset: bool = False) -> Array:
        """Return the points to search among, or to search for, that `X` stands for.

        `side`: "database" or "query".
        `reset`: as in :func:`check_points`, of the estimator.
        """
        checked: Array = check_points(
            estimator, X, preprocessor=None, reset=reset, order="C",
            accept_sources=side == "query",
        )  # fmt: skip
        return checked

    def given(self, points: Array) -> Array | None:
        """Return points of the database as `fit` was given them, where they tell."""
        return points

    def kneighbors(
        self, database: Database, queries: Array, n_neighbors: int, exclude: Integers | None,
        n_jobs: int | None, where: Any = None,
    ) -> tuple[Array, Integers]:  # fmt: skip
        """Return distances and indices of the nearest points of each query."""
        return database.kneighbors(
            queries, n_neighbors, exclude=exclude, where=where, n_jobs=n_jobs
        )

    def within(
        self, points: Array, queries: Array, radius: float, exclude: Integers | None,
        sort_results: bool, n_jobs: int | None,
    ) -> tuple[Array, Integers, Integers]:  # fmt: skip
        """Return what :func:`radius_neighbors` does."""
        maps: dict[str, Any] = self.maps
        return radius_neighbors(
            queries, points, radius, exclude=exclude, sort_results=sort_results, n_jobs=n_jobs,
            **maps,
        )  # fmt: skip


class ScikitLearn(Metric):
    """A metric that scikit-learn searches: the estimator's other base class does."""


class Cosine(Metric):
    """One minus the cosine: half the squared distance of directions.

    A last coordinate is 1 for points at zero, which have no direction, and 0 for others. So the
    distance of a point at zero is 1 to others, as in scikit-learn, and 0 to its like.
    """

    def __init__(self) -> None:
        super().__init__("cosine", {})

    def points(self, estimator: Any, X: Any, side: str, reset: bool = False) -> Array:
        """Return directions, in float64."""
        points = with_column(check_points(estimator, X, preprocessor=None, reset=reset))
        rows, zero = points[:, :-1], points[:, -1]
        largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
        zero[:] = largest == 0
        rows /= (largest + zero)[:, None]  # so that squares do not overflow
        rows /= np.maximum(np.linalg.norm(rows, axis=1), 1.0)[:, None]
        points.flags.writeable = False
        return points

    def given(self, points: Array) -> Array:
        """Return directions of points."""
        return points[:, :-1]

    def kneighbors(self, *arguments: Any) -> tuple[Array, Integers]:
        """Return distances and indices of the nearest points of each query."""
        distances, indices = super().kneighbors(*arguments)
        return distances**2 / 2, indices

    def within(
        self, points: Array, queries: Array, radius: float, *arguments: Any
    ) -> tuple[Array, Integers, Integers]:
        """Return what :func:`radius_neighbors` does."""
        reach = np.sqrt(2 * radius) * (1 + 1e-15)
        distances, indices, row_starts = super().within(points, queries, reach, *arguments)
        distances = distances**2 / 2
        near = distances <= radius
        row_starts = np.concatenate([[0], np.cumsum(near)])[row_starts]
        return distances[near], indices[near], row_starts


class InnerProduct(Metric):
    """Minus the inner product, so that the largest is the nearest.

    A coordinate more gives all database points the same length R, and queries are scaled to R:
    then the squared distance is 2 R² minus twice the inner product.
    """

    two_sided = True

    def __init__(self) -> None:
        super().__init__("inner_product", {})

    def points(self, estimator: Any, X: Any, side: str, reset: bool = False) -> Array:
        """Return points with one more coordinate, in float64; that of queries is 0."""
        points = with_column(check_points(estimator, X, preprocessor=None, reset=reset))
        if side == "query":
            return points
        lengths = np.linalg.norm(points, axis=1)
        if reset:
            self._length = float(lengths.max()) or 1.0
        elif lengths.max() > self._length:
            raise ValueError(
                'With metric="inner_product", points that are added must not be longer than the '
                f"longest of fit, {self._length:.6g}; found {lengths.max():.6g}: fit anew."
            )
        points[:, -1] = np.sqrt((self._length - lengths) * (self._length + lengths))
        points.flags.writeable = False
        return points

    def given(self, points: Array) -> Array:
        """Return points of the database as `fit` was given them."""
        return points[:, :-1]

    def kneighbors(self, database: Any, queries: Array, *arguments: Any) -> tuple[Array, Integers]:
        """Return minus inner products, and indices, of the nearest points of each query."""
        lengths = np.linalg.norm(queries, axis=1, keepdims=True)
        zero, square = lengths == 0, self._length**2
        scale = self._length / np.where(zero, self._length, lengths)
        distances, indices = super().kneighbors(database, queries * scale, *arguments)
        products = (square + np.where(zero, 0.0, square) - distances**2) / 2
        return -products / scale, indices

    def within(self, *_: Any) -> tuple[Array, Integers, Integers]:
        """Refuse to search."""
        raise ValueError('metric="inner_product" has no radius: search by kneighbors.')


def with_column(points: Array) -> Floats:
    """Return a copy in float64 that has a column of zeros more."""
    wider = np.zeros((len(points), points.shape[1] + 1))
    wider[:, :-1] = points
    return wider
