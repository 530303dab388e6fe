"""Different embeddings of queries and of database points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from metricfast._core.arguments import check_random_state
from metricfast._core.arrays import as_common_codes
from metricfast._core.types import Array, RandomState
from metricfast.embeddings._base import (
    Cache,
    Embedding,
    Parameters,
    check_side,
    check_start,
    checked_forward,
)
from metricfast.embeddings._correlated import correlated_maps
from metricfast.embeddings._linear import Identity, Linear


@dataclass(frozen=True)
class _SideCache:
    """The cache of one side."""

    side: str
    cache: Cache


@dataclass(eq=False, repr=False)
class Asymmetric(Embedding):
    """Two embeddings into one space, one of queries and one of database points.

    With two linear maps the distance is ``||U x - V x'||``. It depends on which of two points is
    the query, and the distance of a point from itself need not be zero. Its parameters are the
    parameters of `query`, then of `database`.

    Parameters
    ----------
    query, database : Embedding
        Any two of the same `n_components`. Two embeddings that are equal and not drawn at random
        start as one, which is a good start. Queries and database may have different features, such
        as images and texts. With class labels, two linear maps of different points start from the
        directions in which the means of their classes are correlated most (regularised canonical
        correlation). One of them may be `Identity`, which holds its side fixed.

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast.embeddings import MLP, Asymmetric, Linear
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> embedding = Asymmetric(Linear(2), MLP((8,), 2))
    >>> parameters = embedding.initialize(X, random_state=0)
    >>> len(parameters), embedding.forward(parameters, X, side="database")[0].shape
    (5, (20, 2))
    """

    query: Embedding
    database: Embedding

    asymmetric = True

    def initialize(
        self, X: Any, y: Array | None = None, random_state: int | RandomState | None = None,
        X_database: Any = None, y_database: Array | None = None,
    ) -> Parameters:  # fmt: skip
        """Make the parameters to start from.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries, of mean zero if they are in an array.
        y : ndarray of shape (n_samples,), optional
            Their class labels; None where labels are no classes.
        random_state : int, RandomState or None
        X_database : {array-like, sparse matrix} of shape (n_database, n_features_database), \
                optional
            Database points, of other features perhaps; by default the queries.
        y_database : ndarray of shape (n_database,), optional
            Their class labels.

        Returns
        -------
        list of ndarray
            In float32 for float32 points, otherwise in float64.

        Raises
        ------
        ValueError
            If an embedding's own parameters do not fit the data, or the two differ in their number
            of components.
        """
        rng = check_random_state(random_state)
        points = [check_start(X, y)] * 2
        if X_database is not None:
            points[1] = check_start(X_database, y_database)
        parts = []
        sides = self.query, self.database
        for name, part, other, data in zip(
            ("query", "database"), sides, sides[::-1], points, strict=True
        ):
            if not isinstance(part, Embedding) or part.asymmetric:
                raise TypeError(f"{name} must be an embedding of one kind of points, got {part!r}.")
            alike = isinstance(other, Identity) and isinstance(part, Linear) and _is_auto(part)
            start = clone(part).set_params(init="identity") if alike else part
            parts.append(start.initialize(*data, rng))
        if X_database is not None and self._starts_by_classes(points, parts):
            assert y is not None and y_database is not None
            sizes = X.shape[0], X_database.shape[0]
            codes = as_common_codes(y, y_database, ("y", "y_database"), sizes)[1:]
            labelled = [(points[side][0], codes[side]) for side in (0, 1)]
            n_rows, ridge = len(parts[0][0]), 1.0  # times the mean variance of a side's features
            parts = [[L] for L in correlated_maps(labelled, n_rows, ridge, rng)]
        widths = [
            part._forward(parameters, data[0][:1])[0].shape[1]
            for part, parameters, data in zip(
                (self.query, self.database), parts, points, strict=True
            )
        ]
        if widths[0] != widths[1]:
            raise ValueError(
                "query and database must have the same number of components, got "
                f"{widths[0]} and {widths[1]}: set n_components."
            )
        return parts[0] + parts[1]

    def _starts_by_classes(self, points: list[Any], parts: list[Parameters]) -> bool:
        """Return True if two linear maps of different points start from class means."""
        if any(y is None for _, y in points):
            return False
        for part in (self.query, self.database):
            if not (isinstance(part, Linear) and _is_auto(part)):
                return False
        rows = [len(own[0]) for own in parts]
        return rows[0] == rows[1] and all(rows[0] <= X.shape[1] for X, _ in points)

    @property
    def centers(self) -> bool:  # type: ignore[override]
        """Whether learners centre the points: only if neither side is fixed."""
        return all(getattr(side, "centers", True) for side in (self.query, self.database))

    def split(self, parameters: Parameters) -> tuple[Parameters, Parameters]:
        """Return the parameters of queries and of database points."""
        first = len(self.query.decays(0.0))
        return parameters[:first], parameters[first:]

    def _side(self, parameters: Parameters, side: str) -> tuple[Embedding, Parameters]:
        check_side(side)
        of_queries, of_database = self.split(parameters)
        if side == "query":
            return self.query, of_queries
        return self.database, of_database

    def _check_parameters(self, parameters: Parameters) -> None:
        super()._check_parameters(parameters)
        for part, own in zip((self.query, self.database), self.split(parameters), strict=True):
            part._check_parameters(own)

    def _width(self, parameters: Parameters, side: str) -> int | None:
        part, own = self._side(parameters, side)
        return part._width(own, side)

    def forward(
        self, parameters: Parameters, X: Any, *, side: str = "query", n_jobs: int | None = None
    ) -> tuple[Array, Any]:
        return checked_forward(self, parameters, X, side, n_jobs)

    def _forward(
        self, parameters: Parameters, X: Any, *, side: str = "query", n_jobs: int | None = None
    ) -> tuple[Array, Any]:
        embedding, own = self._side(parameters, side)
        Z, cache = embedding._forward(own, X, n_jobs=n_jobs)
        return Z, _SideCache(side, cache)

    def backward(
        self, parameters: Parameters, cache: Any, upstream: Array, *, n_jobs: int | None = None
    ) -> Parameters:
        """Return the gradient; it is zero for the parameters of the other side."""
        if not isinstance(cache, _SideCache):
            raise TypeError(f"cache must be what forward returned, got {type(cache)}.")
        self._check_parameters(parameters)
        embedding, own = self._side(parameters, cache.side)
        of_queries, of_database = self.split(parameters)
        gradients = embedding.backward(own, cache.cache, upstream, n_jobs=n_jobs)
        if cache.side == "query":
            return gradients + [np.zeros_like(array) for array in of_database]
        return [np.zeros_like(array) for array in of_queries] + gradients

    def decays(self, default: float) -> list[float]:
        return self.query.decays(default) + self.database.decays(default)


def _is_auto(part: Linear) -> bool:
    return isinstance(part.init, str) and part.init == "auto"


def sides_of(embedding: Embedding) -> list[Embedding]:
    """Return the embeddings of queries and database, or the single embedding of all points."""
    if isinstance(embedding, Asymmetric):
        return [embedding.query, embedding.database]
    return [embedding]


def with_length(embedding: Embedding, normalize: bool) -> Any:
    """Return a copy with `normalize` set, where the embedding leaves it open.

    Both sides get the same value: if one side sets it, or cannot normalise, the other follows.
    """
    found = clone(embedding)
    sides: list[Any] = sides_of(found)
    said = [getattr(side, "normalize", False) for side in sides]
    normalize = all(each is not False for each in said) and (normalize or any(said))
    for side, each in zip(sides, said, strict=True):
        if each is None:
            side.normalize = normalize
    return found
