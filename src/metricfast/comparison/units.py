"""Scaling of the features before a comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import StandardScaler

from metricfast._core.arguments import check_choice
from metricfast._core.arrays import as_points
from metricfast._core.sparse import made_dense
from metricfast._core.types import Array
from metricfast.predictors.classifiers import KNeighborsClassifier
from metricfast.predictors.regressors import KNeighborsRegressor

__all__ = ["ChosenUnits"]

# Points that choose the units.
_MOST = 2000


class ChosenUnits(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Standardise features, or leave them as they are.

    `scale`: True, False or "auto", which takes the lower leave-one-out error of nearest neighbours
    on the training points. Pixels share a unit, and are best left; centimetres
    and kilograms do not.
    """

    def __init__(
        self,
        scale: bool | str = "auto",
        n_neighbors: int = 5,
        continuous: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.scale, self.n_neighbors = scale, n_neighbors
        self.continuous, self.n_jobs = continuous, n_jobs

    def fit(self, X: Any, y: Any = None) -> ChosenUnits:
        """Choose."""
        check_choice("scale", self.scale, ["auto", True, False])
        X = made_dense(X)
        self.scaler_ = StandardScaler().fit(X)
        self.n_features_in_ = self.scaler_.n_features_in_
        self.scaled_ = bool(self._better(X, y) if self.scale == "auto" else self.scale)
        return self

    def _better(self, X: Any, y: Any) -> bool:
        rows = np.random.default_rng(0).permutation(len(y))[:_MOST]
        points, scaled = (
            as_points(np.asarray(Z)[rows], "X") for Z in (X, self.scaler_.transform(X))
        )
        kind = KNeighborsRegressor if self.continuous else KNeighborsClassifier
        judge = kind(min(self.n_neighbors, len(rows) - 1), n_jobs=self.n_jobs)
        y = np.asarray(y)[rows]
        return bool(judge.fit(scaled, y).loo_score_ > judge.fit(points, y).loo_score_)

    @property
    def scale_(self) -> Array:
        """The divisor of each feature."""
        found: Array = self.scaler_.scale_ if self.scaled_ else np.ones(self.n_features_in_)
        return found

    def transform(self, X: Any) -> Array:
        """Return points in the chosen units, sparse ones as an array."""
        X = made_dense(X)
        if self.scaled_:
            scaled: Array = self.scaler_.transform(X)
            return scaled
        points: Array = as_points(X, "X", width=self.n_features_in_)
        return points
