"""Steps of scikit-learn that a model file holds beside a learner: scalers, and neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, is_classifier
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    NearestNeighbors,
    RadiusNeighborsClassifier,
    RadiusNeighborsRegressor,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

__all__ = ["STEPS", "build_pipeline", "build_step", "fitted_of"]

_NEIGHBORS = (
    KNeighborsClassifier,
    KNeighborsRegressor,
    NearestNeighbors,
    RadiusNeighborsClassifier,
    RadiusNeighborsRegressor,
)
STEPS: dict[str, type[BaseEstimator]] = {
    f"sklearn.{step.__name__}": step for step in (StandardScaler, *_NEIGHBORS)
}


def fitted_of(step: Any) -> dict[str, Any]:
    """Return what fitting has learned: attributes of a scaler, points and labels of neighbours."""
    if isinstance(step, StandardScaler):
        return {name: value for name, value in vars(step).items() if name.endswith("_")}
    name = type(step).__name__
    if issparse(step._fit_X):
        raise TypeError(f"{name} holds sparse points, which a model file does not: make an array.")
    if isinstance(step, NearestNeighbors):
        return {"points": step._fit_X}
    if not is_classifier(step):
        return {"points": step._fit_X, "labels": step._y}
    if isinstance(step.classes_, list):
        raise TypeError(f"{name} has several outputs, which a model file does not hold.")
    return {"points": step._fit_X, "labels": step.classes_[np.ravel(step._y)]}


def build_step(name: str, params: dict[str, Any], fitted: dict[str, Any]) -> Any:
    """Return a step as it was saved. Neighbours are fitted anew to their points."""
    step = STEPS[name](**params)
    if not isinstance(step, StandardScaler):
        return step.fit(fitted["points"], fitted.get("labels"))
    for key in ("mean_", "scale_", "var_"):
        _check_feature_values(key, fitted[key], fitted["n_features_in_"])
    if fitted["scale_"] is not None and not (fitted["scale_"] > 0).all():
        raise ValueError("scale_ must be positive")
    for key, value in fitted.items():
        if not key.endswith("_") or key.startswith("_"):
            raise ValueError(f"{key!r} is no fitted attribute")
        setattr(step, key, value)
    return step


def build_pipeline(steps: list[tuple[str, Any]], check: Callable[[Any], None]) -> Pipeline:
    """Return a pipeline of steps that fit together.

    `check`: raises for a damaged learner.
    """
    pipeline = Pipeline(steps)
    for _, step in steps:
        if type(step) not in STEPS.values():
            check(step)
    width = steps[0][1].n_features_in_
    for name, step in steps:
        if step.n_features_in_ != width:
            raise ValueError(f"step {name!r} has {step.n_features_in_} features, and gets {width}")
        if hasattr(step, "get_feature_names_out"):
            width = len(step.get_feature_names_out())
    return pipeline


def _check_feature_values(name: str, values: Any, n_features: int) -> None:
    if values is None:
        return
    right = isinstance(values, np.ndarray) and values.dtype.kind == "f"
    if not right or values.shape != (n_features,) or not np.isfinite(values).all():
        raise ValueError(f"{name} must be {n_features} finite numbers")
