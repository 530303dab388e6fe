"""Queries and a database: the dataset, its initial maps, and the penalty of their parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricfast._core.sources import in_one_array, take
from metricfast.embeddings import MLP, Asymmetric, Embedding, Linear
from metricfast.learners.embedding.metric import embed
from metricfast.learners.gerrymandering.history import unit_scale
from metricfast.learners.gerrymandering.regularizers import penalty
from metricfast.training.chunks import Chunked, mean_of, rows_of
from metricfast.training.objective import finite

__all__ = [
    "TwoSidedDataset",
    "initial_maps",
    "is_linear",
    "mean_of_queries",
    "penalty_of",
]

Array = NDArray[Any]


@dataclass(frozen=True)
class TwoSidedDataset:
    """Centred queries and a centred database.

    Attributes
    ----------
    X : {ndarray, csr_array, Chunked} of shape (n_queries, n_features)
    y : ndarray of int64 of shape (n_queries,)
    database : {ndarray, csr_array, Chunked} or None
        None if the queries are the database. No query is its own neighbour then.
    database_labels : ndarray of int64
    weight : ndarray of shape (n_queries,) or None
    """

    X: Any
    y: NDArray[np.int64]
    database: Any
    database_labels: NDArray[np.int64]
    weight: NDArray[np.float64] | None

    @property
    def points(self) -> Any:
        """The database, which may be the queries."""
        return self.X if self.database is None else self.database

    def take(self, rows: Any) -> TwoSidedDataset:
        """Return some of the queries.

        If the queries are the database, the others leave the database as well.
        """
        weight = None if self.weight is None else self.weight[rows]
        labels = self.y[rows] if self.database is None else self.database_labels
        X = rows_of(self.X, rows)
        return replace(self, X=X, y=self.y[rows], weight=weight, database_labels=labels)

    @property
    def representative(self) -> TwoSidedDataset:
        """All points; a sample of a side that is read in chunks."""
        found = self
        if isinstance(self.X, Chunked):
            found = self.take(self.X.sample(self.y, self.weight))
            found = replace(found, X=found.X[:])
        if isinstance(self.database, Chunked):
            rows = self.database.sample(self.database_labels)
            labels = self.database_labels[rows]
            found = replace(found, database=self.database[rows], database_labels=labels)
        return found

    def validation(self, rows: Any, among: TwoSidedDataset) -> TwoSidedDataset:
        """Return some of the queries in memory, with the database `among` them."""
        some, others = self.take(rows), among.representative
        X = some.X[:] if isinstance(some.X, Chunked) else some.X
        return replace(some, X=X, database=others.points, database_labels=others.database_labels)

    def embedded(
        self, embedding: Embedding, parameters: list[Array], n_jobs: int | None
    ) -> tuple[Array, Array]:
        """Return queries and database, embedded."""
        return self.embedded_queries(embedding, parameters, n_jobs), self.embedded_database(
            embedding, parameters, n_jobs
        )

    def embedded_queries(
        self, embedding: Embedding, parameters: list[Array], n_jobs: int | None
    ) -> Array:
        """Return the queries, embedded."""
        arrays = [np.ascontiguousarray(array, self.X.dtype) for array in parameters]
        return in_one_array(self.X, lambda X: embed(embedding, arrays, X, n_jobs=n_jobs))

    def embedded_database(
        self, embedding: Embedding, parameters: list[Array], n_jobs: int | None
    ) -> Array:
        """Return the database, embedded."""
        arrays = [np.ascontiguousarray(array, self.X.dtype) for array in parameters]
        return in_one_array(self.points, lambda X: embed(embedding, arrays, X, "database", n_jobs))


def initial_maps(
    estimator: Any,
    embedding: Embedding,
    data: TwoSidedDataset,
    rng: np.random.RandomState,
    kept: list[Array] | None,
    largest_cost: float,
) -> list[Array]:
    """Return the parameters to start from, of a scale that suits the loss."""
    alike = data.points.shape[1] == data.X.shape[1]
    if alike or not isinstance(embedding, Asymmetric):
        start = embedding.initialize(data.points, data.database_labels, rng)
    else:
        sample = data.representative
        start = embedding.initialize(sample.X, sample.y, rng, sample.points, sample.database_labels)
    given = estimator.query is not None or estimator.database is not None
    if isinstance(embedding, Asymmetric) and alike and not given:
        start[1] = start[0].copy()  # a random map too is a better start than two
    if not any(array.any() for array in start):
        raise ValueError("`init` is zero, where the objective has no slope: give other maps.")
    if kept is not None:
        if [array.shape for array in kept] != [array.shape for array in start]:
            raise ValueError(
                "warm_start needs maps of the same shapes as in the fit before: set "
                "warm_start=False."
            )
        return [array.astype(data.X.dtype) for array in kept]
    data = data.representative
    queries, database = data.embedded(embedding, start, estimator.n_jobs)
    if not (finite(queries) and finite(database)):
        raise ValueError(
            "Embedded points are not finite: bring the features to a spread of about 1, or "
            "choose another `init`."
        )
    if not isinstance(estimator.init, str):
        return start
    own = np.arange(len(queries)) if data.database is None else None
    k = min(estimator.n_neighbors, len(database) - (own is not None))
    scale = unit_scale(queries, database, own, k, largest_cost)
    if not isinstance(embedding, Asymmetric):
        return _scaled(embedding, start, scale)
    of_queries, of_database = embedding.split(start)
    return [
        *_scaled(embedding.query, of_queries, scale),
        *_scaled(embedding.database, of_database, scale),
    ]


def penalty_of(
    embedding: Embedding, regularizer: str | None, arrays: list[Array]
) -> tuple[float, list[Array]]:
    """Return the penalty on the parameters of an embedding, and its gradients."""
    sides = [embedding]
    if isinstance(embedding, Asymmetric):
        sides = [embedding.query, embedding.database]
    if all(isinstance(side, Linear) for side in sides):
        return penalty(regularizer, arrays)
    total, gradients = 0.0, []
    # An embedding with its own decay does not use the default of the learner.
    for A, own, other in zip(arrays, embedding.decays(0.0), embedding.decays(1.0), strict=True):
        if own == other:
            value, gradient = own / 2 * float((A * A).sum()), own * A
        else:
            value, (gradient,) = penalty(regularizer, [A])
        total += value
        gradients.append(gradient)
    return total, gradients


def mean_of_queries(
    X: Any,
    y: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
    database: Any,
    y_database: NDArray[np.int64],
) -> Array:
    """Return the mean of the queries with the class frequencies of the database.

    If both sides have the same features, a class without queries is assumed to be where it is in
    the database, relative to the other classes.
    """
    own = np.bincount(y, weight, y_database.max() + 1)
    known = own > 0
    shares = np.divide(np.bincount(y_database), own, out=np.zeros(len(own)), where=known)[y]
    mean = mean_of(X, shares if weight is None else shares * weight)
    if not known.all() and X.shape[1] == database.shape[1]:
        mean += mean_of(database) - mean_of(take(database, known[y_database]))
    return mean


def is_linear(embedding: Embedding) -> bool:
    """Return whether an embedding is a linear map."""
    return isinstance(embedding, Linear) and not embedding.normalize


def _scaled(embedding: Embedding, arrays: list[Array], factor: float) -> list[Array]:
    """Make embedded points longer, where they have no length of their own.

    Biases are zero at the start. So where the function between layers scales, all layers get the
    same norm, of which the penalty of the whole is about the least.
    """
    if getattr(embedding, "normalize", False):
        return arrays
    layers = slice(0, None, 2) if isinstance(embedding, MLP) else slice(-1, None)
    norms = np.array([float(np.linalg.norm(weight)) for weight in arrays[layers]])
    factors = np.append(np.ones(len(norms) - 1), factor)
    if getattr(embedding, "activation", "identity") != "tanh" and norms.all():
        factors = np.exp(np.log(norms * factors).mean()) / norms
    scaled = list(arrays)
    scaled[layers] = [
        (weight * by).astype(weight.dtype)
        for weight, by in zip(arrays[layers], factors, strict=True)
    ]
    return scaled
