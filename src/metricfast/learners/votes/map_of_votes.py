"""What learners of a map by neighbourhood gerrymandering share: its training."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from metricfast._core.arguments import check_bool, check_choice, check_random_state
from metricfast._core.checks import check_points
from metricfast.learners.linear.base import (
    Callback,
    LinearLearner,
    TrainingSet,
    check_callbacks,
    embed,
)
from metricfast.learners.votes.objective import MapObjective, MatrixObjective
from metricfast.learners.votes.training import (
    VoteTraining,
    check_vote_parameters,
    hold_out,
    unit_scale,
)
from metricfast.learners.votes.voting import (
    forgetting_failures,
    largest_cost,
    vote_error,
    vote_loss,
)
from metricfast.losses import Gerrymander
from metricfast.training.solvers import SolverState

__all__ = ["MapOfVotes"]

Array = NDArray[Any]


class MapOfVotes(LinearLearner):
    """Base of learners of a map that keep the points of `fit`, which vote.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
    database_embedding_ : ndarray of shape (n_samples, n_components)
        The points of `fit`, embedded.
    """

    database_embedding_: Array

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> None:
        """Learn the map, and keep the points embedded; nothing else where that fails."""
        check_vote_parameters(self)
        check_bool("warm_start", self.warm_start)
        callbacks = check_callbacks(self.callbacks)
        self._check_parameterization()
        kept = self.components_ if self.warm_start and hasattr(self, "components_") else None
        with forgetting_failures(self):
            data = self._check_data(X, y, sample_weight)
            loss = self._loss(data)
            rng = check_random_state(self.random_state)
            if kept is not None and kept.shape[1] != data.X.shape[1]:
                raise ValueError(
                    f"warm_start needs points of {kept.shape[1]} features as in the fit before, "
                    f"got {data.X.shape[1]}: set warm_start=False."
                )
            L = self._initialize(data, rng)
            if not (np.any(L) and (kept is None or np.any(kept))):
                raise ValueError(
                    "`init` is zero, where the objective has no slope: give another map."
                )
            if kept is not None:
                if self.parameterization == "L" and kept.shape != L.shape:
                    raise ValueError(
                        f"warm_start needs a map of the same shape as in the fit before, "
                        f"{kept.shape}, got {L.shape}: set warm_start=False."
                    )
                self.components_, L = kept, data.start(kept)
            train, test = hold_out(self, data.labels, rng)
            part = data if test is None else data.take(train)
            if kept is None and isinstance(self.init, str):
                Z, own = embed(part.X, L, self.n_jobs), np.arange(part.X.shape[0])
                L = L * unit_scale(Z, Z, own, min(self.n_neighbors, len(Z) - 1), largest_cost(loss))
            problem: MapObjective
            if self.parameterization == "M":
                problem, start = MatrixObjective(self, loss, part), [L.T @ L]
            else:
                problem, start = MapObjective(self, loss, part), [L]
            try:
                self._train(problem, start, rng, data, train, test, callbacks)
            finally:
                self._keep_voters(X, data)

    def _keep_voters(self, X: Any, data: TrainingSet) -> None:
        self.database_embedding_ = self._embed(self._points(X))

    def _points(self, X: Any, name: str = "X") -> Any:
        check_is_fitted(self, ["preprocessor_", "components_"])
        return check_points(
            self,
            X,
            preprocessor=self.preprocessor_,
            reset=False,
            name=name,
            accept_sparse=("csr", "csc"),
        )

    def _embed(self, X: Any, side: str = "query") -> Array:
        """Embed checked points, of either side alike."""
        return np.asarray(X @ self.components_.T.astype(X.dtype, copy=False))

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

    def _train(
        self,
        problem: MapObjective,
        start: list[Array],
        rng: np.random.RandomState,
        data: TrainingSet,
        train: NDArray[np.int64],
        test: NDArray[np.int64] | None,
        callbacks: tuple[Callback, ...],
    ) -> None:
        part = problem.data

        def error(arrays: list[Array]) -> float:
            # Together, since sparse points are centred where they are mapped to.
            Z = embed(data.X, problem.components(arrays), self.n_jobs)
            return vote_error(
                Z[test], data.labels[test], Z[train], data.labels[train], self.n_neighbors,
                self.n_jobs,
            )  # fmt: skip

        def keep(arrays: list[Array]) -> None:
            self.components_ = data.undo_scale(problem.components(arrays))

        def observer(epoch: int, value: float, arrays: list[Array]) -> bool:
            answers = [
                callback(
                    SolverState(epoch, value, data.undo_scale(problem.components(arrays)), self)
                )
                for callback in callbacks
            ]
            return any(answers)

        n = part.X.shape[0]
        VoteTraining(
            self, problem.loss, n, float(n) if part.weight is None else float(part.weight.sum()),
            problem.surrogate, problem.penalty, problem.project,
            None if test is None else error, observer if callbacks else None,
        ).fit(start, rng, keep)  # fmt: skip
