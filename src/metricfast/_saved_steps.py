"""Steps of scikit-learn that a model file holds beside a learner: scalers, and neighbours."""

from __future__ import annotations

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

import metricfast
from metricfast._core.warn import ignored

__all__ = ["STEPS", "build_pipeline", "build_step", "fitted_of", "learner_of"]

_NEIGHBORS = (
    KNeighborsClassifier,
    KNeighborsRegressor,
    NearestNeighbors,
    RadiusNeighborsClassifier,
    RadiusNeighborsRegressor,
)
_OWN = {step.__name__: getattr(metricfast, step.__name__) for step in _NEIGHBORS}
STEPS: dict[str, type[BaseEstimator]] = {
    **{f"sklearn.{step.__name__}": step for step in (StandardScaler, *_NEIGHBORS)},
    **_OWN,
}


def learner_of(step: Any) -> Any:
    """Return the learner that is the metric of an estimator of metricfast; else None."""
    if type(step) not in _OWN.values() or not hasattr(step.metric_, "fit"):
        return None
    if isinstance(step.metric_, Pipeline) or step._fit_X is None:
        raise TypeError(
            f"{type(step).__name__} holds no points as they were given to fit, under the metric "
            f"{step.metric_!r}: put scalers into a pipeline before the estimator, and take a "
            "learner of a linear map as its metric."
        )
    return step.metric_


def fitted_of(step: Any) -> dict[str, Any]:
    """Return what fitting has learned: attributes of a scaler, points and labels of neighbours."""
    if isinstance(step, StandardScaler):
        return {name: value for name, value in vars(step).items() if name.endswith("_")}
    name = type(step).__name__
    points, rows = step._fit_X, getattr(step, "_rows", None)
    if issparse(points):
        raise TypeError(f"{name} holds sparse points, which a model file does not: make an array.")
    if rows is not None:  # the others have weight 0 and are not stored: zeros stand for them
        columns = rows if step._precomputed else np.arange(points.shape[1])
        whole = np.zeros((step.n_samples_fit_, step.n_features_in_), points.dtype)
        whole[np.ix_(rows, columns)] = points
        points = whole
    found = {"points": points}
    if hasattr(step, "feature_names_in_"):
        found["feature_names_in_"] = step.feature_names_in_
    weight = getattr(step, "_sample_weight", getattr(step, "_weight", None))
    if weight is not None:
        found["sample_weight"] = weight
    if isinstance(step, NearestNeighbors):
        return found
    if not is_classifier(step):
        return found | {"labels": step._y}
    if isinstance(step.classes_, list):
        raise TypeError(f"{name} has several outputs, which a model file does not hold.")
    return found | {"labels": step.classes_[np.ravel(step._y)]}


def build_step(name: str, params: dict[str, Any], fitted: dict[str, Any]) -> Any:
    """Return a step as it was saved. Neighbours are fitted anew to their points."""
    step = STEPS[name](**params)
    if not isinstance(step, StandardScaler):
        names = fitted.pop("feature_names_in_", None)
        with ignored(UserWarning):  # the points have no names of features here
            step.fit(fitted.pop("points"), fitted.pop("labels", None), **fitted)
        if names is not None:
            step.feature_names_in_ = names
        return step
    for key in ("mean_", "scale_", "var_"):
        _check_feature_values(key, fitted[key], fitted["n_features_in_"])
    if fitted["scale_"] is not None and not (fitted["scale_"] > 0).all():
        raise ValueError("scale_ must be positive")
    for key, value in fitted.items():
        if not key.endswith("_") or key.startswith("_"):
            raise ValueError(f"{key!r} is no fitted attribute")
        setattr(step, key, value)
    return step


def build_pipeline(steps: list[tuple[str, Any]]) -> Pipeline:
    """Return a pipeline of fitted steps; raise ValueError if their widths do not fit together."""
    width = steps[0][1].n_features_in_
    for name, step in steps:
        if step.n_features_in_ != width:
            raise ValueError(f"step {name!r} has {step.n_features_in_} features, and gets {width}")
        if hasattr(step, "get_feature_names_out"):
            width = len(step.get_feature_names_out())
    return Pipeline(steps)


def _check_feature_values(name: str, values: Any, n_features: int) -> None:
    if values is None:
        return
    right = isinstance(values, np.ndarray) and values.dtype.kind == "f"
    if not right or values.shape != (n_features,) or not np.isfinite(values).all():
        raise ValueError(f"{name} must be {n_features} finite numbers")
