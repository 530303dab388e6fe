"""What learners of a map by neighbourhood gerrymandering share: its training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.arguments import check_choice
from metricfast._core.initialize import as_given_map
from metricfast._core.memory import refuse_beyond
from metricfast._core.sources import in_one_array
from metricfast._core.stores import as_source
from metricfast.distances.neighbors import check_neighbors
from metricfast.learners.base.points import TrainingSet
from metricfast.learners.base.trained import Callback
from metricfast.learners.linear.base import LinearLearner
from metricfast.learners.votes.objective import MatrixObjective, OfMatrix, penalty_of_matrix, root
from metricfast.learners.votes.regularizers import penalty
from metricfast.learners.votes.training import VoteMonitor, VoteTraining, unit_scale
from metricfast.learners.votes.voting import (
    forgetting_failures,
    largest_cost,
    vote_error,
    vote_loss,
)
from metricfast.losses import Gerrymander
from metricfast.samplers import Batch
from metricfast.training.chunks import Chunked
from metricfast.training.coordinates import Parts
from metricfast.training.labelled import Labelled
from metricfast.training.monitor import Monitor
from metricfast.training.objective import LinearMap, Objective, map_points

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["MapOfVotes"]

Array = NDArray[Any]


class MapOfVotes(VoteTraining, LinearLearner):
    """Base of learners of a map that keep the points of `fit`, embedded: they vote."""

    parameterization: str

    _keeps = True

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
    ) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or (n_samples,) with a \
                preprocessor
            Points. float32 is computed with as it is, everything else as float64. Sparse points, of
            a map only, stay so. Of a source that does not fit into memory, such as a memory map,
            mini-batches hold a part at a time.
        y : array-like of shape (n_samples,)
            Class labels, of at least two classes; of a regressor numbers, not all equal.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the points as queries. As neighbours all points count alike, so
            a weight of 2 is not the same as a repeated point.
        validate : bool, default=False
            As of every learner: also measure a clone on points that it has not seen.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used, or no set of neighbours is
            right for any point. A parameter that is refused before the data are looked at leaves an
            earlier fit as it was; after any other error the learner is not fitted.

        Warns
        -----
        UserWarning
            If no set of neighbours is right for some points: they are left out.
        ConvergenceWarning
            If training diverged: the best map is kept. With "lbfgs": if it ended before
            convergence.
        """
        super().fit(X, y, sample_weight, validate=validate)
        return self

    def _check_parameters(self) -> tuple[Callback, ...]:
        callbacks = self._check_votes()
        self._check_parameterization()
        return callbacks

    def _trying(self) -> AbstractContextManager[None]:
        return forgetting_failures(self)

    def _initialize(
        self, data: TrainingSet, rng: np.random.RandomState, kept: Array | None
    ) -> Array:
        if kept is not None and self.parameterization == "M":
            super()._initialize(data, rng, None)
            L, self.components_ = data.start(kept), kept
        else:
            L = super()._initialize(data, rng, kept)
        given = as_given_map(self.init)
        if not (np.any(L) and (isinstance(given, str) or np.any(given))):
            raise ValueError("`init` is zero, where the objective has no slope: give another map.")
        return L

    def _start(self, data: TrainingSet, L: Array) -> Array:
        if not isinstance(self.init, str):
            return L
        data = data.few
        Z, own = map_points(data.X, L, self.n_jobs), np.arange(data.X.shape[0])
        k = min(self.n_neighbors, len(Z) - 1)
        return L * unit_scale(Z, Z, own, k, largest_cost(self._loss(data)))

    def _best_scale(
        self, objective: Objective, L: Array, batches: Callable[[], Iterable[Batch]]
    ) -> float:
        return 1.0

    def _check_numbers(self, data: TrainingSet) -> None:
        check_neighbors(self.n_neighbors, data.X.shape[0] - 1)

    def _objective(self, data: TrainingSet, L: Array) -> Objective:
        database = "all"
        if isinstance(data.X, Chunked):
            database, needed = "batch", data.X.shape[0] * len(L) * data.X.dtype.itemsize
            refuse_beyond(needed, "The embedded points, which vote,", "lower n_components")
        how: dict[str, Any] = {"C": self.C, "n_jobs": self.n_jobs, "database": database}
        loss = Labelled(self._loss(data), data.labels, data.weight, n_jobs=self.n_jobs)
        if self.parameterization == "M":
            return MatrixObjective(
                data.X, LinearMap(), loss, OfMatrix([(L.shape[1],) * 2]),
                penalty=lambda arrays: penalty_of_matrix(self.regularizer, arrays), **how,
            )  # fmt: skip
        return Objective(
            data.X, LinearMap(), loss, Parts([L.shape]),
            penalty=lambda arrays: penalty(self.regularizer, arrays), **how,
        )  # fmt: skip

    def _monitor(
        self, data: TrainingSet, objective: Objective, x0: Array, rng: np.random.RandomState
    ) -> Monitor:
        return VoteMonitor(
            x0.astype(np.float64), rng, objective, data.weight, self.tol, self.n_iter_no_change
        )

    def _map(self, objective: Objective, x: Array) -> Array:
        (array,) = objective.coordinates.arrays(x.copy())
        return root(array) if self.parameterization == "M" else array

    def _batches(
        self, data: TrainingSet, objective: Objective, rng: np.random.RandomState
    ) -> Callable[[], Iterable[Batch]]:
        return self._batches_of(rng, objective, data.n_kept)

    def _cost(
        self, objective: Objective, data: TrainingSet, train: Any, test: Any, x: Array
    ) -> float:
        # Together, since sparse points are centred where they are mapped to.
        Z = map_points(data.X, self._map(objective, x), self.n_jobs)
        return vote_error(
            Z[test], data.labels[test], Z[train], data.labels[train], self.n_neighbors, self.n_jobs
        )

    def _look_at_result(self, data: TrainingSet, monitor: Monitor, objective: Objective) -> None:
        assert isinstance(monitor, VoteMonitor)

        def keep(x: Array) -> None:
            self.components_ = data.undo_scale(self._map(objective, x))

        named = None
        if monitor.most is not None and isinstance(self.init, str) and self.init == "auto":
            found = self.components_
            L = self._start(data, self._initialize(data, np.random.RandomState(0), None))
            named, self.components_ = objective.coordinates.vector([L]), found
        self._settle_on(objective, monitor, keep, named)

    def _end(self, X: Any, data: TrainingSet, monitor: Monitor, objective: Objective) -> None:
        source = as_source(X) if isinstance(data.X, Chunked) else None
        embedded = in_one_array(self._points(X) if source is None else source, self._embed)
        if data.n_kept:
            assert self._kept is not None
            embedded = np.concatenate([embedded, self._embed(self._kept.joined)])
        self.database_embedding_ = embedded

    @property
    def _accept_sparse(self) -> str | bool:  # type: ignore[override]
        return False if self.parameterization == "M" else "csr"

    def _loss(self, data: TrainingSet) -> Gerrymander:
        return vote_loss(self, len(data.classes))

    def _check_parameterization(self) -> None:
        check_choice("parameterization", self.parameterization, ("L", "M"))
        if self.parameterization == "L":
            return
        if self.n_components is not None:
            raise ValueError("n_components must be None with parameterization='M'.")
        if self.regularizer == "factors":
            raise ValueError(
                "regularizer must be another than 'factors' with parameterization='M', which has "
                "no map to penalize: take 'frobenius2'."
            )
        if self.solver == "lbfgs":
            raise ValueError("solver must be 'sgd' or 'subgradient' with parameterization='M'.")
