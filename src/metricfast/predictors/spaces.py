"""Searches under a metric: the points of the database, and the distances returned."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from metricfast._core.checks import check_points
from metricfast._core.memory import block_rows
from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.database import Database
from metricfast.distances.filters import as_filter, known_rows
from metricfast.distances.radius import check_radius, radius_neighbors

__all__ = ["Cosine", "InnerProduct", "Metric", "ScikitLearn"]

# A search by images starts with _MORE extra neighbours. If they do not determine the nearest
# points, it repeats with _TIMES as many.
_MORE, _TIMES = 8, 4
# Products between 2**-_ORDINARY and 2**_ORDINARY neither overflow nor underflow in float64.
_ORDINARY = 900


class Metric:
    """A metric: preparation of points and the two searches, here for Euclidean distances.

    Attributes
    ----------
    public : object
        The public attribute `metric_` of the estimator.
    maps : dict of str to ndarray
        Arguments of the search: L, or U and V, or none.
    two_sided : bool
        Whether queries and database points are embedded differently before the search.
    own_database : tuple of ndarray, or None
        Embedded points and their labels, if they differ from the points of `fit`.
    """

    two_sided = False
    own_database: tuple[Array, Array] | None = None

    def __init__(self, public: Any, maps: dict[str, Array]) -> None:
        self.public, self.maps = public, maps

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
        return Database(points, n_jobs=n_jobs, **maps)

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
        """Return the results of :func:`radius_neighbors`."""
        maps: dict[str, Any] = self.maps
        return radius_neighbors(
            queries, database.points_, radius, exclude=exclude, sort_results=sort_results,
            n_jobs=n_jobs, **maps,
        )  # fmt: skip


class ScikitLearn(Metric):
    """A metric that the scikit-learn base class of the estimator searches."""


class Ranked(Metric):
    """A metric that is searched by Euclidean images of points and ranked by values of pairs.

    Squared distances of images increase with the values, up to rounding. So the search finds points
    until all others are certainly farther. It ranks the found points by value, then by index.
    """

    def points(self, estimator: Any, X: Any, side: str, reset: bool = False) -> Array:
        """Return points in memory, without embedding them."""
        checked: Array = check_points(estimator, X, preprocessor=None, reset=reset, order="C")
        return checked

    def prepare(self, points: Array, n_jobs: int | None) -> Any:
        """Return the database for a search among points."""
        return RankedDatabase(self, points, n_jobs)

    @abstractmethod
    def images(self, points: Array, reset: bool = False) -> Floats:
        """Return images of database points. `reset`: the points are the first of the database."""

    @abstractmethod
    def query_images(self, queries: Array) -> Floats:
        """Return images of queries."""

    @abstractmethod
    def values(self, queries: Array, points: Array) -> tuple[Floats, Floats]:
        """Return the keys that rank pairs of rows, and the distances of the pairs."""

    @property
    def rounding(self) -> float:
        """Bound on the rounding error of a squared distance of images, per feature."""
        return 16 * float(np.finfo(np.float64).eps)

    def _values(
        self, queries: Array, rows: Integers, points: Array, indices: Integers
    ) -> tuple[Floats, Floats]:
        """Return keys and distances of pairs, computed in blocks."""
        keys, distances = np.empty(len(rows)), np.empty(len(rows))
        for part in batches(len(rows), 64 * queries.shape[1]):
            found = self.values(
                queries[rows[part]].astype(np.float64), points[indices[part]].astype(np.float64)
            )
            keys[part], distances[part] = found
        return keys, distances

    def kneighbors(
        self, database: Any, queries: Array, n_neighbors: int, exclude: Integers | None,
        n_jobs: int | None, where: Any = None,
    ) -> tuple[Array, Integers]:  # fmt: skip
        """Return distances and indices of the nearest points of each query."""
        n, m = len(queries), len(database)
        most = m if exclude is None or where is not None else m - 1
        allowed = as_filter(where, (n, m), known_rows(m))
        images, margin = self.query_images(queries), self.rounding * (queries.shape[1] + 4)
        rows, size, parts = np.arange(n), n_neighbors, list[Any]()
        while len(rows):
            size = max(n_neighbors, min(size + _MORE if not parts else _TIMES * size, most))
            undecided = []
            for batch in batches(len(rows), 64 * size):
                part = rows[batch]
                squared, found = database.images.kneighbors(
                    images[part], size, where=allowed.of_queries(part).argument, squared=True,
                    exclude=None if exclude is None else exclude[part], n_jobs=n_jobs,
                )  # fmt: skip
                k = n_neighbors
                sure = (squared[:, -1] > squared[:, k - 1] + margin) | (found[:, -1] < 0)
                sure |= size == most
                undecided.append(part[~sure])
                part, found = part[sure], found[sure]
                keys, distances = (
                    np.where(found < 0, np.inf, each.reshape(found.shape))
                    for each in self._values(
                        queries, np.repeat(part, size), database.points_, found.ravel()
                    )
                )
                order = np.lexsort((found, keys, found < 0), axis=1)[:, :k]
                near = (np.take_along_axis(each, order, 1) for each in (distances, found))
                parts.append((part, *near))
            rows = np.concatenate(undecided)
        of_queries, distances, indices = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(of_queries)
        return distances[order], indices[order]


class RankedDatabase:
    """Points and the database of their images."""

    def __init__(self, metric: Ranked, points: Array, n_jobs: int | None) -> None:
        self._metric = metric
        self.points_ = points.copy()
        self.points_.flags.writeable = False
        self.images = Database(metric.images(points, reset=True), n_jobs=n_jobs)

    def __len__(self) -> int:
        return len(self.points_)

    def add(self, X: Array, n_jobs: int | None) -> None:
        """Add points."""
        self.images.add(self._metric.images(X), n_jobs=n_jobs)
        self.points_ = np.concatenate([self.points_, X])
        self.points_.flags.writeable = False


class Cosine(Ranked):
    """One minus the cosine: half the squared distance of directions.

    A last coordinate is 1 for zero vectors, which have no direction, and 0 for other points. So the
    distance from a zero vector is 1 to other points, as in scikit-learn, and 0 to zero vectors.
    """

    def __init__(self) -> None:
        super().__init__("cosine", {})

    def images(self, points: Array, reset: bool = False) -> Floats:
        """Return directions."""
        images = with_column(moderate_rows(points))
        lengths = np.linalg.norm(images, axis=1)
        images[:, -1] = lengths == 0
        images /= np.where(lengths == 0, 1, lengths)[:, None]
        images.flags.writeable = False
        return images

    def query_images(self, queries: Array) -> Floats:
        """Return directions."""
        return self.images(queries)

    def values(self, queries: Array, points: Array) -> tuple[Floats, Floats]:
        """Return distances, twice. For integers, only the square root is rounded."""
        X, Y = moderate_rows(queries), moderate_rows(points)
        squares = products(X, X), products(Y, Y)
        lengths = np.sqrt(squares[0] * squares[1])
        zero = lengths == 0
        lengths[zero] = 1
        distances = np.clip((lengths - products(X, Y)) / lengths, 0, 2)
        distances[zero & (squares[0] == squares[1])] = 0
        return distances, distances

    def within(
        self, database: Any, queries: Array, radius: float, exclude: Integers | None,
        sort_results: bool, n_jobs: int | None,
    ) -> tuple[Array, Integers, Integers]:  # fmt: skip
        """Return the results of :func:`radius_neighbors`."""
        check_radius(radius)
        reach = np.sqrt(2 * min(radius, 2) + self.rounding * (queries.shape[1] + 4))
        _, indices, row_starts = radius_neighbors(
            self.query_images(queries), database.images.points_, float(reach), exclude=exclude,
            sort_results=sort_results, n_jobs=n_jobs,
        )  # fmt: skip
        rows = np.repeat(np.arange(len(queries)), np.diff(row_starts))
        keys, distances = self._values(queries, rows, database.points_, indices)
        near = np.flatnonzero(distances <= radius)
        if sort_results:
            near = near[np.lexsort((indices[near], keys[near], rows[near]))]
        counts = np.bincount(rows[near], minlength=len(queries))
        return distances[near], indices[near], np.append(0, np.cumsum(counts))


class InnerProduct(Ranked):
    """Minus the inner product, so that the largest product is the nearest.

    An extra coordinate gives the images of all database points the same length R. Images of queries
    have this length, too, so the squared distance is 2 R² minus twice the inner product. Points are
    scaled such that R is about 1.
    """

    def __init__(self) -> None:
        super().__init__("inner_product", {})

    def images(self, points: Array, reset: bool = False) -> Floats:
        """Return points with an extra coordinate."""
        if reset:
            self._exponent = int(np.frexp(np.abs(points).max())[1])
        images = with_column(np.ldexp(points.astype(np.float64), -self._exponent))
        with np.errstate(over="ignore"):
            lengths = np.linalg.norm(images, axis=1)
        if reset:
            self._length = float(lengths.max()) or 1.0
        elif lengths.max() > self._length:
            longest, found = (np.ldexp(x, self._exponent) for x in (self._length, lengths.max()))
            raise ValueError(
                'With metric="inner_product", points that are added must not be longer than the '
                f"longest of fit, {longest:.6g}; found {found:.6g}: fit anew."
            )
        images[:, -1] = np.sqrt((self._length - lengths) * (self._length + lengths))
        images.flags.writeable = False
        return images

    def query_images(self, queries: Array) -> Floats:
        """Return queries scaled to the length of the database points, with an extra 0."""
        images = with_column(moderate_rows(queries))
        lengths = np.linalg.norm(images, axis=1)
        images *= (self._length / np.where(lengths == 0, 1, lengths))[:, None]
        return images

    @property
    def rounding(self) -> float:
        """Bound on the rounding error of a squared distance of images, per feature."""
        return super().rounding * self._length**2

    def values(self, queries: Array, points: Array) -> tuple[Floats, Floats]:
        """Return minus inner products, with queries scaled against overflow and underflow."""
        size = np.frexp(np.abs(queries).max(axis=1))[1] + self._exponent
        shift = np.clip(size, -_ORDINARY, _ORDINARY) - size
        keys = 0.0 - products(np.ldexp(queries, shift[:, None]), points)
        with np.errstate(over="ignore"):
            return keys, np.ldexp(keys, -shift)

    def within(self, *_: Any) -> tuple[Array, Integers, Integers]:
        """Raise an error: there is no radius search under this metric."""
        raise ValueError('metric="inner_product" has no radius: search by kneighbors.')


def batches(n: int, row_bytes: int) -> Iterator[slice]:
    """Yield slices of rows in blocks."""
    size = block_rows(row_bytes)
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def products(X: Floats, Y: Floats) -> Floats:
    """Return the inner products of corresponding rows of X and Y."""
    found: Floats = np.einsum("ij,ij->i", X, Y)
    return found


def moderate_rows(points: Array) -> Floats:
    """Return points in float64, divided by powers of two so that squares do not overflow.

    The largest coordinate of each row is from 1/2 to 1, or 0. No coordinate is rounded.
    """
    exponents = np.frexp(np.abs(points).max(axis=1).astype(np.float64))[1]
    found: Floats = np.ldexp(points.astype(np.float64), -exponents[:, None])
    return found


def with_column(points: Array) -> Floats:
    """Return a float64 copy with an extra column of zeros."""
    wider = np.zeros((len(points), points.shape[1] + 1))
    wider[:, :-1] = points
    return wider
