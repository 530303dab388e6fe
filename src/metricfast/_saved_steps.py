"""Steps of scikit-learn that a model file holds before a learner: scalers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

__all__ = ["SCALER", "build_pipeline", "build_scaler"]

SCALER = "sklearn.StandardScaler"


def build_scaler(params: dict[str, Any], fitted: dict[str, Any]) -> StandardScaler:
    """Return a scaler as it was saved."""
    step = StandardScaler(**params)
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
