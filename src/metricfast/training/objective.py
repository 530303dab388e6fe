"""A loss of embedded points as a function of the parameters that embed them."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast.embeddings import Asymmetric, Embedding
from metricfast.exceptions import LossOverflowError
from metricfast.losses import Gerrymander
from metricfast.losses._call import Loss
from metricfast.training.own_parts import OwnLoss

__all__ = ["EmbeddedLoss", "is_continuous", "is_learnable"]

Array = NDArray[Any]


def is_continuous(loss: Any) -> bool:
    """Tell whether a loss takes numbers as labels, not classes."""
    return bool(getattr(loss, "labels", "class") != "class")


def is_learnable(loss: Any) -> bool:
    """Tell whether the database of a loss is a table of points to learn."""
    return bool(getattr(loss, "learnable_database", False))


class EmbeddedLoss:
    """Value and gradient of a loss.

    Parameters
    ----------
    embedding : Embedding
    loss : callable
        Called as the losses of `metricfast.losses` are.
    n_classes : int, optional
        Given where the loss has a learnable table with a row for each class, which is then the last
        of the parameters. Its rows are normalized where embedded points are.
    n_jobs : int or None
    """

    def __init__(
        self, embedding: Embedding, loss: Any, n_classes: int | None, n_jobs: int | None
    ) -> None:
        self._embedding, self._n_jobs = embedding, n_jobs
        self._loss: Any = loss if isinstance(loss, Loss) else OwnLoss(loss)
        self._n_classes = n_classes
        self._seen = self._infeasible = 0

    @property
    def fitted(self) -> dict[str, float]:
        """Of all queries so far, the share without a set of neighbours that votes right."""
        if not isinstance(self._loss, Gerrymander):
            return {}
        return {"infeasible_share_": self._infeasible / max(self._seen, 1)}

    def report(self) -> None:
        """Warn of queries that the loss leaves out."""
        share = self.fitted.get("infeasible_share_", 0.0)
        if share:
            warnings.warn(
                f"No set of n_neighbors={self._loss.n_neighbors} neighbours in a batch is right "
                f"for {share:.2%} of the queries, which are left out of the loss: "
                "raise batch_size, choose a sampler of more points of a class, set database='all', "
                "or lower n_neighbors.",
                UserWarning,
                stacklevel=4,
            )

    def _check_batch(self, n: int) -> None:
        k = self._loss.n_neighbors
        if isinstance(k, (int, np.integer)) and k >= n:
            raise ValueError(
                f"n_neighbors must be at most {n - 1} where a batch has {n} points, found {k}: "
                "raise batch_size, choose a sampler of larger batches, set database='all', or "
                "lower n_neighbors."
            )

    def __call__(
        self,
        parameters: list[Array],
        X: Any,
        y: Array,
        n_anchors: int | None = None,
        X_database: Any = None,
        y_database: Array | None = None,
        exclude: NDArray[np.int64] | None = None,
    ) -> tuple[float, list[Array]]:
        """Compute value and gradients.

        Parameters
        ----------
        parameters : list of ndarray
        X, y : ndarray
            Points and labels.
        n_anchors : int, optional
            The first so many points alone are anchors; all are their database.
        X_database, y_database : ndarray, optional
            The database, by default the points themselves, each left out of its own row.
        exclude : ndarray of int64 of shape (n_anchors,), optional
            For each point the row of the given database to leave out, -1 for none.

        Returns
        -------
        value : float
            NaN where embedded points, or the loss, are not finite; the gradient is empty then.
        gradients : list of ndarray
        """
        votes = isinstance(self._loss, Gerrymander)
        if votes and X_database is None:
            self._check_batch(X.shape[0])
        try:
            found = self._evaluate(parameters, X, y, n_anchors, X_database, y_database, exclude)
        except LossOverflowError:
            return math.nan, []
        shapes = [array.shape for array in parameters]
        if found[1] and [array.shape for array in found[1]] != shapes:
            raise ValueError(
                f"backward of {type(self._embedding).__name__} must return gradients of the shapes "
                f"of its parameters, {shapes}; found {[array.shape for array in found[1]]}."
            )
        if votes:
            self._seen += X.shape[0] if n_anchors is None else n_anchors
            self._infeasible += getattr(self._loss, "n_infeasible_", 0)
        return found

    def _evaluate(
        self,
        parameters: list[Array],
        X: Any,
        y: Array,
        n_anchors: int | None,
        X_database: Any,
        y_database: Array | None,
        exclude: NDArray[np.int64] | None,
    ) -> tuple[float, list[Array]]:
        n = X.shape[0]
        anchors = n if n_anchors is None else n_anchors
        own = X_database is None
        if self._n_classes is not None:
            classes = np.arange(self._n_classes)
            return self._against_table(parameters, X[:anchors], y[:anchors], classes)
        if own and not self._embedding.asymmetric:
            return self._among_themselves(parameters, X, y, anchors)
        if own:
            X_database, y_database, exclude = X, y, np.arange(anchors)
            X, y = X[:anchors], y[:anchors]
        of_queries, of_database = self._sides(parameters)
        Zq, query_cache = of_queries[0]._forward(of_queries[1], X, n_jobs=self._n_jobs)
        Zd, database_cache = of_database[0]._forward(
            of_database[1], X_database, n_jobs=self._n_jobs
        )
        if not (finite(Zq) and finite(Zd)):
            return math.nan, []
        value, (dq, dd) = self._loss(Zq, y, Zd, y_database, exclude=exclude, n_jobs=self._n_jobs)
        query = of_queries[0].backward(of_queries[1], query_cache, dq, n_jobs=self._n_jobs)
        database = of_database[0].backward(of_database[1], database_cache, dd, n_jobs=self._n_jobs)
        if self._embedding.asymmetric:
            return value, query + database
        return value, [a + b for a, b in zip(query, database, strict=True)]

    def _sides(
        self, parameters: list[Array]
    ) -> tuple[tuple[Embedding, list[Array]], tuple[Embedding, list[Array]]]:
        embedding = self._embedding
        if not isinstance(embedding, Asymmetric):
            return (embedding, parameters), (embedding, parameters)
        of_queries, of_database = embedding.split(parameters)
        return (embedding.query, of_queries), (embedding.database, of_database)

    def _among_themselves(
        self, parameters: list[Array], X: Any, y: Array, anchors: int
    ) -> tuple[float, list[Array]]:
        Z, cache = self._embedding._forward(parameters, X, n_jobs=self._n_jobs)
        if not finite(Z):
            return math.nan, []
        if anchors == len(Z):
            value, upstream = self._loss(Z, y, n_jobs=self._n_jobs)
        else:
            value, (of_anchors, upstream) = self._loss(
                Z[:anchors], y[:anchors], Z, y, exclude=np.arange(anchors), n_jobs=self._n_jobs
            )
            upstream[:anchors] += of_anchors
        return value, self._embedding.backward(parameters, cache, upstream, n_jobs=self._n_jobs)

    def _against_table(
        self, parameters: list[Array], X: Any, y: Array, classes: Array
    ) -> tuple[float, list[Array]]:
        *own, table = parameters
        Z, cache = self._embedding._forward(own, X, n_jobs=self._n_jobs)
        normalize = bool(getattr(self._embedding, "normalize", False))
        if normalize:
            table, lengths = table.copy(), np.empty(len(table))
            get_kernels().normalize_forward(table, lengths, as_threads(self._n_jobs))
        if not (finite(Z) and finite(table)):
            return math.nan, []
        value, (upstream, of_table) = self._loss(Z, y, table, classes, n_jobs=self._n_jobs)
        if normalize:
            get_kernels().normalize_backward(table, lengths, of_table, as_threads(self._n_jobs))
        return value, [
            *self._embedding.backward(own, cache, upstream, n_jobs=self._n_jobs),
            of_table,
        ]


def finite(Z: Array) -> bool:
    """Tell whether all values are finite."""
    return bool(get_kernels().all_finite(Z))
