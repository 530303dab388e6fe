"""Checks of the maps and scalers in a model file, before they are used."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler

from metricfast.embeddings import Embedding
from metricfast.learners.base.bilinear import BilinearMixin
from metricfast.learners.embedding.metric import EmbeddedMetricMixin


def _is_number(value: Any) -> bool:
    small = type(value) is int and abs(value) < 2**63
    return small or (type(value) is float and not math.isnan(value))


def _is_length(value: Any) -> bool:
    return type(value) is int and 0 < value < 2**63


# The attributes of a map. Each value has a description and a test. Each array has named dimensions;
# equal names require equal lengths.
_VALUES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "n_features_in_": ("an integer from 1", _is_length),
    "n_components_": ("an integer from 1", _is_length),
    "embedding_": ("an embedding", lambda value: isinstance(value, Embedding)),
    "parameters_": ("a list of arrays", lambda value: type(value) is list),
    "bias_": ("a number, not NaN", _is_number),
    "threshold_": ("a number, not NaN", _is_number),
}
_SHAPES = {
    "components_": ("n_components", "n_features_in_"),
    "bilinear_": ("n_features_in_", "n_features_in_"),
    "components_query_": ("n_components", "n_features_in_"),
    "components_database_": ("n_components", "n_features_database"),
    "mean_": ("n_features_database",),
    "mean_query_": ("n_features_in_",),
}
NAMES = {"feature_names_in_": "n_features_in_", "feature_names_database_in_": "n_features_database"}
MAP = (*_VALUES, *_SHAPES, *NAMES)
SCALER = ("n_features_in_", "feature_names_in_", "mean_", "scale_", "var_")


def check_map(learner: BaseEstimator) -> None:
    """Raise ValueError that names the attribute, unless `learner` has a valid map."""
    fitted = {key: value for key, value in vars(learner).items() if key in MAP}
    if isinstance(learner, EmbeddedMetricMixin):
        required = ["embedding_", "parameters_", "mean_", "n_components_"]
        if "components_query_" in fitted:
            required.append("components_database_")
    else:
        required = ["bilinear_" if isinstance(learner, BilinearMixin) else "components_"]
    for key in ("n_features_in_", *required):
        if key not in fitted:
            raise ValueError(f"{key} is missing")
    for key, value in fitted.items():
        if key in _VALUES and not _VALUES[key][1](value):
            raise ValueError(f"{key} must be {_VALUES[key][0]}, got {_described(value)}")
    lengths = {"n_features_in_": fitted["n_features_in_"]}
    if "n_components_" in fitted:
        lengths["n_components"] = fitted["n_components_"]
    for key, shape in _SHAPES.items():
        if key in fitted:
            _check_array(key, fitted[key], shape, lengths)
    _check_names(fitted, lengths)
    if isinstance(learner, EmbeddedMetricMixin):
        _check_embedding(learner)


def check_scaler(scaler: StandardScaler) -> None:
    """Raise ValueError that names the attribute, unless `scaler` has numbers for each feature."""
    fitted = vars(scaler)
    lengths = {"n_features_in_": fitted["n_features_in_"]}
    for key in ("mean_", "scale_", "var_"):
        if fitted[key] is not None:
            _check_array(key, fitted[key], ("n_features_in_",), lengths)
    if fitted["scale_"] is not None and not (fitted["scale_"] > 0).all():
        raise ValueError("scale_ must be positive")
    _check_names(fitted, lengths)


def _check_array(name: str, value: Any, shape: tuple[str, ...], lengths: dict[str, int]) -> None:
    """Check that an array is finite and fits the known lengths; add new lengths to them."""
    known = ", ".join(f"{key}={lengths[key]}" if key in lengths else key for key in shape)
    fits = _are_floats(value) and value.ndim == len(shape) and value.size > 0
    if not fits or any(
        lengths.setdefault(key, found) != found
        for key, found in zip(shape, value.shape, strict=True)
    ):
        raise ValueError(
            f"{name} must be an array of float32 or float64 of shape ({known}), "
            f"got {_described(value)}"
        )
    _check_finite(name, value)


def _are_floats(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype in (np.float32, np.float64)


def _check_finite(name: str, value: np.ndarray) -> None:
    if not np.isfinite(value).all():
        raise ValueError(f"{name} must be finite, got {value[~np.isfinite(value)][0]}")


def _check_names(fitted: dict[str, Any], lengths: dict[str, int]) -> None:
    for key, length in NAMES.items():
        names = fitted.get(key)
        if names is None:
            continue
        if names.shape != (lengths.get(length, 0),) or any(type(name) is not str for name in names):
            raise ValueError(
                f"{key} must be {lengths.get(length, 0)} texts, got {reprlib.repr(names.tolist())}"
            )


def _check_embedding(learner: Any) -> None:
    for i, array in enumerate(learner.parameters_):
        if not _are_floats(array) or not array.size:
            raise ValueError(
                "parameters_ must hold arrays of float32 or float64 that are not empty, "
                f"got {_described(array)}"
            )
        _check_finite(f"parameters_[{i}]", array)
    parameters = [np.ascontiguousarray(array) for array in learner.parameters_]
    width, asymmetric = learner.n_features_in_, learner.embedding_.asymmetric
    if len(learner.mean_) != width and not (asymmetric and hasattr(learner, "mean_query_")):
        raise ValueError(f"mean_ must have shape ({width},), got {learner.mean_.shape}")
    dtype = np.result_type(np.float32, *parameters)
    for side, n_features in (("query", width), ("database", len(learner.mean_))):
        point = np.zeros((1, n_features), dtype)
        try:
            embedded = learner.embedding_.forward(parameters, point, side=side)[0]
        except ValueError as error:
            raise ValueError(f"parameters_ do not belong to embedding_: {error}") from error
        if embedded.shape != (1, learner.n_components_):
            raise ValueError(
                f"parameters_ must embed a point in n_components_={learner.n_components_} "
                f"numbers, got {embedded.shape[1]}"
            )


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    return reprlib.repr(value)
