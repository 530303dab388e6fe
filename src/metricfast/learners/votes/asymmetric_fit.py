"""The training of embeddings of queries and database points on votes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from metricfast.embeddings import MLP, Asymmetric, Embedding, Linear
from metricfast.learners.embedding.metric import embed
from metricfast.learners.votes.regularizers import penalty
from metricfast.learners.votes.training import unit_scale
from metricfast.learners.votes.voting import largest_cost, vote_error
from metricfast.losses import Gerrymander
from metricfast.training.coordinates import Parts
from metricfast.training.objective import Labelled, Objective, finite

__all__ = ["DatabaseTraining", "is_linear", "mean_of_points", "mean_of_queries"]

Array = NDArray[Any]


class DatabaseTraining:
    """What is trained on.

    Parameters
    ----------
    estimator : estimator
    embedding : Embedding
    loss : Gerrymander
    X, y : ndarray
        Queries, which may be sparse, and their classes.
    X_database : ndarray, or None
        None for the queries, each left out of its own neighbours.
    y_database : ndarray
    weight : ndarray of shape (n_samples,), or None
        Of the queries.
    """

    def __init__(
        self,
        estimator: Any,
        embedding: Embedding,
        loss: Gerrymander,
        X: Any,
        y: NDArray[np.int64],
        X_database: Any,
        y_database: NDArray[np.int64],
        weight: NDArray[np.float64] | None,
    ) -> None:
        self._estimator, self._embedding, self._loss = estimator, embedding, loss
        self._X, self._y = _contiguous(X), y
        self._leave_one_out = X_database is None
        self._database = self._X if X_database is None else _contiguous(X_database)
        self._database_labels = y_database
        self._of_queries = np.ones(len(y)) if weight is None else weight

    def start(self, rng: np.random.RandomState, kept: list[Array] | None) -> list[Array]:
        """Return the parameters to start from, of a scale that suits the loss."""
        embedding, estimator = self._embedding, self._estimator
        start = embedding.initialize(self._database, self._database_labels, rng)
        if isinstance(embedding, Asymmetric) and estimator.query is estimator.database is None:
            start[1] = start[0].copy()  # a random map too is a better start than two
        if not any(array.any() for array in start):
            raise ValueError("`init` is zero, where the objective has no slope: give other maps.")
        if kept is not None:
            if [array.shape for array in kept] != [array.shape for array in start]:
                raise ValueError(
                    "warm_start needs maps of the same shapes as in the fit before: set "
                    "warm_start=False."
                )
            return [array.astype(self._X.dtype) for array in kept]
        queries, database = self._embedded(start)
        if not (finite(queries) and finite(database)):
            raise ValueError(
                "Embedded points are not finite: bring the features to a spread of about 1, or "
                "choose another `init`."
            )
        if not isinstance(estimator.init, str):
            return start
        own = np.arange(len(queries)) if self._leave_one_out else None
        available = len(database) - self._leave_one_out
        k = min(estimator.n_neighbors, available)
        scale = unit_scale(queries, database, own, k, largest_cost(self._loss))
        if not isinstance(embedding, Asymmetric):
            return _scaled(embedding, start, scale)
        of_queries, of_database = embedding.split(start)
        return [
            *_scaled(embedding.query, of_queries, scale),
            *_scaled(embedding.database, of_database, scale),
        ]

    def objective(self, start: list[Array], train: Any) -> Objective:
        """Return what is minimised, of some of the queries.

        Points that are held out as queries are no neighbours either, where the two are the same.
        """
        estimator = self._estimator
        own = self._leave_one_out
        y = self._y[train]
        loss = Labelled(
            self._loss, y, self._of_queries[train], None if own else self._database_labels,
            estimator.n_jobs,
        )  # fmt: skip
        return Objective(
            self._X[train], self._embedding, loss, Parts([array.shape for array in start]),
            database="all" if own else self._database, penalty=self._penalty, C=estimator.C,
            n_jobs=estimator.n_jobs,
        )  # fmt: skip

    def error(self, objective: Objective, train: Any, test: Any, x: Array) -> float:
        """Return the error of held-out queries."""
        arrays = [
            np.ascontiguousarray(array, self._X.dtype) for array in objective.coordinates.arrays(x)
        ]
        n_jobs = self._estimator.n_jobs
        rows = train if self._leave_one_out else slice(None)
        return vote_error(
            embed(self._embedding, arrays, self._X[test], n_jobs=n_jobs), self._y[test],
            embed(self._embedding, arrays, self._database[rows], "database", n_jobs),
            self._database_labels[rows], self._estimator.n_neighbors, n_jobs,
        )  # fmt: skip

    def _embedded(self, parameters: list[Array]) -> tuple[Array, Array]:
        n_jobs = self._estimator.n_jobs
        return (
            embed(self._embedding, parameters, self._X, n_jobs=n_jobs),
            embed(self._embedding, parameters, self._database, "database", n_jobs),
        )

    def _penalty(self, arrays: list[Array]) -> tuple[float, list[Array]]:
        embedding, regularizer = self._embedding, self._estimator.regularizer
        sides = [embedding]
        if isinstance(embedding, Asymmetric):
            sides = [embedding.query, embedding.database]
        if all(isinstance(side, Linear) for side in sides):
            return penalty(regularizer, arrays)
        total, gradients = 0.0, []
        # A decay is one's own where it is not the one that the learner would have.
        for A, own, other in zip(arrays, embedding.decays(0.0), embedding.decays(1.0), strict=True):
            if own == other:
                value, gradient = own / 2 * float((A * A).sum()), own * A
            else:
                value, (gradient,) = penalty(regularizer, [A])
            total += value
            gradients.append(gradient)
        return total, gradients


def mean_of_points(X: Array, weight: NDArray[np.float64] | None = None) -> Array:
    """Return a mean, computed relative to a point, so that large values keep their digits."""
    if weight is None:
        return np.asarray(X[0] + (X - X[0]).mean(axis=0, dtype=np.float64))
    return np.asarray(X[0] + weight @ (X - X[0]) / weight.sum())


def mean_of_queries(
    X: Array,
    y: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
    database: Array,
    y_database: NDArray[np.int64],
) -> Array:
    """Return what corresponds, among the queries, to the mean of the database.

    The mean of queries whose classes are as frequent as in the database; a class that there are no
    queries of is thought to be where it is in the database, relative to the others.
    """
    own = np.bincount(y, weight, y_database.max() + 1)
    known = own > 0
    shares = np.divide(np.bincount(y_database), own, out=np.zeros(len(own)), where=known)[y]
    mean = mean_of_points(X, shares if weight is None else shares * weight)
    if not known.all():
        mean += mean_of_points(database) - mean_of_points(database[known[y_database]])
    return mean


def is_linear(embedding: Embedding) -> bool:
    """Tell whether an embedding is a linear map."""
    return isinstance(embedding, Linear) and not embedding.normalize


def _contiguous(X: Any) -> Any:
    return X if issparse(X) else np.ascontiguousarray(X)


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
