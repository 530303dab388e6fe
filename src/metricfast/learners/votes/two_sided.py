"""Training on the votes of a database for queries of another kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from sklearn.base import clone

from metricfast._core.arguments import check_bool
from metricfast._core.checks import check_points
from metricfast._core.initialize import as_given_map
from metricfast._core.scaling import log2_spread
from metricfast._core.sources import Named, Scaled, Source
from metricfast._core.targets import check_classification_target, check_sample_weight
from metricfast._core.threadpool import one_blas_thread
from metricfast.embeddings import Asymmetric, Embedding, Linear
from metricfast.learners.base.trained import Callback
from metricfast.learners.embedding.metric import EmbeddedMetricMixin
from metricfast.learners.votes.sides import (
    Sides,
    is_linear,
    mean_of_points,
    mean_of_queries,
    penalty_of,
)
from metricfast.learners.votes.stored_database import VotesOfDatabase
from metricfast.learners.votes.training import VoteMonitor, VoteTraining
from metricfast.learners.votes.voting import largest_cost, vote_error, vote_loss
from metricfast.training.both_chunks import is_beyond
from metricfast.training.chunks import SHARE, Chunked, held
from metricfast.training.coordinates import Parts, flat
from metricfast.training.labelled import Labelled
from metricfast.training.objective import Objective

__all__ = ["TwoSidedVotes"]

Array = NDArray[Any]
# Of the memory, for a chunk of either side: the more voters, the nearer the nearest.
_OF_QUERIES, _OF_DATABASE = 1 / 16, 3 / 16


class TwoSidedVotes(VotesOfDatabase, VoteTraining, EmbeddedMetricMixin):
    """Base of learners of embeddings of queries and of a database, by votes.

    Parameters are those of `AsymmetricSimilarity`.
    """

    database: Embedding | None
    init: Any
    loss_matrix: Any
    n_components: int | None
    query: Embedding | None
    tied: bool

    def _check_parameters(self) -> tuple[tuple[Callback, ...], Embedding]:
        callbacks = self._check_votes()
        check_bool("tied", self.tied)
        return callbacks, self._make_embedding()

    def _make_embedding(self) -> Embedding:
        for name in ("query", "database"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, Embedding):
                raise TypeError(f"{name} must be one of metricfast.embeddings, got {given!r}.")
            if given is not None and given.asymmetric:
                raise TypeError(f"{name} must be an embedding of one kind of points, got {given}.")
        linear = Linear(self.n_components, self.init)
        if self.tied:
            if self.query is not None and self.database is not None:
                raise ValueError("tied=True is for one map: give query, and leave database out.")
            return clone(self.query or self.database or linear)  # type: ignore[no-any-return]
        both = Asymmetric(self.query or linear, self.database or linear)
        return clone(both)  # type: ignore[no-any-return]

    def _check_rows(self, width: int) -> None:
        """Refuse more rows than any quadratic form of stacked points needs."""
        rows = self.n_components
        if rows is None and np.ndim(as_given_map(self.init)) == 2:
            rows = len(self.init)
        if isinstance(rows, Integral) and rows > 2 * width:
            raise ValueError(
                f"n_components must be at most {2 * width}, twice the number of features; found "
                f"{rows}."
            )

    def _check_data(
        self,
        X: Any,
        y: Any,
        X_database: Any,
        y_database: Any,
        sample_weight: ArrayLike | None,
        keep_means: bool,
        reset: bool = True,
        validate: bool = False,
    ) -> Sides:
        """Check both sides, and subtract their means; those of an earlier fit may be kept."""
        means = (self.mean_, self._mean("query")) if keep_means else None
        how: dict[str, Any] = {"accept_sparse": "csr", "accept_sources": True}
        if reset:
            X, y = self._prepare_inputs(X, y, ensure_min_samples=2, **how)
        how |= {"preprocessor": self.preprocessor_, "reset": False, "order": "C"}
        if not reset:
            X, y = check_points(self, X, y, **how)
        X = held(X, self, validate)
        weight = check_sample_weight(sample_weight, X.shape[0])
        self._check_rows(X.shape[1])
        if (X_database is None) != (y_database is None):
            raise ValueError("X_database and y_database must be given together.")
        dtype = X.dtype
        if X_database is None:
            self.classes_, codes = check_classification_target(y)
            database, labels = X, codes
        else:
            database = check_points(self, X_database, name="X_database", **how)
            if isinstance(database, Source):
                database = held(Named(database, "X_database"), self, validate, "X_database")
            self.classes_, labels = check_classification_target(
                y_database, database.shape[0], "y_database"
            )
            codes = self._codes(y, "y")
            dtype = np.result_type(X.dtype, database.dtype)
        if issparse(X) or issparse(database):
            self.mean_ = self.mean_query_ = np.zeros(X.shape[1], dtype)
        else:
            if means is None or means[0].shape != (X.shape[1],):
                means = (mean_of_points(database),) * 2
                if X_database is not None and not self.tied:
                    means = means[0], mean_of_queries(X, codes, weight, database, labels)
            # Else the distance that was learned depends on them.
            self.mean_, self.mean_query_ = (mean.astype(dtype) for mean in means)
        if X_database is None:
            X, database = _less(X, self.mean_query_, dtype), None
        else:
            X = _less(X, self.mean_query_, dtype, _OF_QUERIES)
            database = _less(database, self.mean_, dtype, _OF_DATABASE)
        data = Sides(X, codes, database, labels, weight)
        points = data.few.points
        if not (issparse(points) or issparse(X)):
            _check_units(points)
        return data

    def _largest_cost(self) -> float:
        return largest_cost(vote_loss(self, len(self.classes_)))

    def _objective(self, data: Sides, start: list[Array]) -> Objective:
        embedding, own = self.embedding_, data.database is None
        data.refuse_many_voters(self.n_components_)
        among = "batch" if is_beyond(data.X) else "all"
        loss = Labelled(
            vote_loss(self, len(self.classes_)), data.y, data.weight,
            None if own else data.database_labels, self.n_jobs,
        )  # fmt: skip
        return Objective(
            data.X, embedding, loss, Parts([array.shape for array in start]), C=self.C,
            penalty=lambda arrays: penalty_of(embedding, self.regularizer, arrays),
            database=among if own else data.database, n_jobs=self.n_jobs,
        )  # fmt: skip

    def _monitor(
        self, data: Sides, objective: Objective, start: list[Array], rng: np.random.RandomState
    ) -> VoteMonitor:
        x0 = flat([array.astype(np.float64) for array in start])
        return VoteMonitor(x0, rng, objective, data.weight, self.tol, self.n_iter_no_change)

    def _cost(self, objective: Objective, judged: Sides, x: Array) -> float:
        """Return the error of held-out queries."""
        arrays = objective.coordinates.arrays(x)
        queries, database = judged.embedded(self.embedding_, arrays, self.n_jobs)
        return vote_error(
            queries, judged.y, database, judged.database_labels, self.n_neighbors, self.n_jobs
        )

    @contextmanager
    def _keeping(
        self, monitor: VoteMonitor, objective: Objective, data: Sides, *how: Any
    ) -> Iterator[None]:
        """Set the fitted attributes for callbacks and in the end."""
        callbacks, checkpoint, found = how

        def keep(x: Array, last: bool) -> None:
            self._keep_parameters(objective.coordinates.arrays(x))
            self._keep_course(monitor, last)
            if not last:
                self._keep_voters(data)

        def parameters(x: Array) -> list[Array]:
            return [array.astype(data.X.dtype) for array in objective.coordinates.arrays(x)]

        with (
            self._watching(
                monitor, keep, parameters, callbacks, checkpoint=checkpoint, found=found
            ),
            one_blas_thread(),
        ):
            yield

    def _keep_voters(self, data: Sides) -> None:
        """Embed the database, which votes."""
        how = self.embedding_, self.parameters_, self.n_jobs
        self.database_embedding_ = data.embedded_database(*how)
        self.database_labels_ = data.database_labels
        if data.database is None:
            self.query_embedding_ = data.embedded_queries(*how)

    def _keep_parameters(self, arrays: list[Array]) -> None:
        self.parameters_ = [np.array(array, self.mean_.dtype) for array in arrays]
        self.n_components_ = len(self.parameters_[-1])
        first, last = self.embedding_, self.embedding_
        if isinstance(self.embedding_, Asymmetric):
            first, last = self.embedding_.query, self.embedding_.database
        if is_linear(first) and is_linear(last):
            self.components_query_ = self.parameters_[0]
            self.components_database_ = self.parameters_[-1]


def _less(X: Any, mean: Array, dtype: Any, share: float = SHARE) -> Any:
    """Return points less a mean, which is zero where any are sparse; those of a source in parts."""
    if isinstance(X, Source):
        return Chunked(Scaled(X, mean, dtype=dtype), share)
    X = X.astype(dtype, copy=False)
    return csr_array(X) if issparse(X) else np.ascontiguousarray(X - mean)


def _check_units(centred: Array) -> None:
    """Refuse units in which squares, or their inverses, overflow."""
    spread = log2_spread(centred) if np.isfinite(centred).all() else (np.inf, 0.0)
    if spread is not None and abs(spread[0]) > np.finfo(centred.dtype).maxexp // 5:
        raise ValueError(
            f"The database is spread over about 2^{spread[0]}, too much or too little for "
            f"{centred.dtype}: multiply all points by a number that makes its spread about 1."
        )
