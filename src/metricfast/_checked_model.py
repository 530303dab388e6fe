"""Checks of what a model file says that fitting has set, before anything is computed with it."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import KernelPCA
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import KernelCenterer

from metricfast._core.types import Array
from metricfast.embeddings import Embedding
from metricfast.learners.base.bilinear import BilinearMixin
from metricfast.learners.base.learner import BaseMetricLearner
from metricfast.learners.embedding.metric import EmbeddedMetricMixin
from metricfast.learners.kernel.kernelized import KernelizedMetricLearner

__all__ = ["PARTS", "check_model"]

# The estimators of scikit-learn in a kernelized learner, and what fitting sets in them.
PARTS: dict[type[BaseEstimator], set[str]] = {
    Nystroem: {"components_", "component_indices_", "normalization_", "n_features_in_"},
    KernelPCA: {"_centerer", "X_fit_", "eigenvalues_", "eigenvectors_", "gamma_", "n_features_in_"},
    KernelCenterer: {"K_fit_rows_", "K_fit_all_", "n_features_in_"},
}
_FLOATS, _INTEGERS = ("float32", "float64"), ("int64",)
# Attributes that are lengths of arrays, and the names of these lengths.
_LENGTHS = {"n_features_in_": "n_features_in_", "n_components_": "n_components"}


class _ArrayRule(NamedTuple):
    """Dtypes and named lengths of an array. A name means the same length in all arrays."""

    dtypes: tuple[str, ...]
    shape: tuple[str | int, ...]


class _ValueRule(NamedTuple):
    """Values that an attribute may have, if it is no array."""

    what: str
    accepts: Callable[[Any], bool]


def _is_integer(value: Any, least: int) -> bool:
    return type(value) is int and least <= value < 2**63


def _is_number(value: Any) -> bool:
    return type(value) is float or _is_integer(value, -(2**63))


def _are_numbers(value: Any) -> bool:
    return type(value) is list and all(map(_is_number, value))


_COUNT = _ValueRule("an integer from 0", lambda value: _is_integer(value, 0))
_LENGTH = _ValueRule("an integer from 1", lambda value: _is_integer(value, 1))
_NUMBER = _ValueRule("a number", _is_number)
_FINITE = _ValueRule("a finite number", lambda value: _is_number(value) and math.isfinite(value))
_TEXT = _ValueRule("text", lambda value: type(value) is str)
_VALIDATION = {"measure": _TEXT, "learned": _NUMBER, "euclidean": _NUMBER, "n_held_out": _COUNT}

# Lengths that other attributes give come first, then arrays that give lengths to those below them.
_RULES: dict[str, _ArrayRule | _ValueRule] = {
    "n_features_in_": _LENGTH,
    "n_components_": _LENGTH,
    # Maps.
    "components_": _ArrayRule(_FLOATS, ("n_components", "n_features_in_")),
    "bilinear_": _ArrayRule(_FLOATS, ("n_features_in_", "n_features_in_")),
    "A_": _ArrayRule(_FLOATS, ("n_features_in_", "n_features_in_")),
    "components_query_": _ArrayRule(_FLOATS, ("n_components", "n_features_in_")),
    "components_database_": _ArrayRule(_FLOATS, ("n_components", "n_features_database")),
    "mean_": _ArrayRule(_FLOATS, ("n_features_database",)),
    "mean_query_": _ArrayRule(_FLOATS, ("n_features_in_",)),
    "embedding_": _ValueRule("an embedding", lambda value: isinstance(value, Embedding)),
    "parameters_": _ValueRule("a list of arrays", lambda value: type(value) is list),
    # Points and labels.
    "classes_": _ArrayRule((), ("n_classes",)),
    "feature_names_in_": _ArrayRule(("object",), ("n_features_in_",)),
    "feature_names_database_in_": _ArrayRule(("object",), ("n_features_database",)),
    "database_embedding_": _ArrayRule(_FLOATS, ("n_database", "n_components")),
    "query_embedding_": _ArrayRule(_FLOATS, ("n_database", "n_components")),
    "database_labels_": _ArrayRule(_INTEGERS, ("n_database",)),
    "database_targets_": _ArrayRule(_FLOATS, ("n_database",)),
    "labels_": _ArrayRule(_INTEGERS, ("n_labels",)),
    # Results of one kind of learner.
    "bins_": _ArrayRule(_FLOATS, ("n_bins",)),
    "bounds_": _ArrayRule(_FLOATS, (2,)),
    "margins_": _ArrayRule(_FLOATS, ("n_components",)),
    "proxies_": _ArrayRule(_FLOATS, ("n_proxies", "n_components")),
    "w_": _ArrayRule(_FLOATS, ("n_quadruplets",)),
    "weights_": _ArrayRule(_FLOATS, ("n_basis",)),
    "balance_param_": _NUMBER,
    "bias_": _NUMBER,
    "infeasible_share_": _NUMBER,
    "shrinkage_": _NUMBER,
    "shrinkage_target_": _TEXT,
    "threshold_": _ValueRule(
        "a number, not NaN", lambda value: _is_number(value) and not math.isnan(value)
    ),
    # The course of a training.
    "converged_": _ValueRule("True or False", lambda value: type(value) is bool),
    "history_": _ValueRule(
        "a dictionary of lists of numbers",
        lambda value: type(value) is dict and all(map(_are_numbers, value.values())),
    ),
    "loss_curve_": _ValueRule("a list of numbers", _are_numbers),
    "n_iter_": _COUNT,
    "objective_": _NUMBER,
    "validation_": _ValueRule(
        f"a dictionary of {', '.join(_VALIDATION)}",
        lambda value: (
            type(value) is dict
            and value.keys() == _VALIDATION.keys()
            and all(rule.accepts(value[name]) for name, rule in _VALIDATION.items())
        ),
    ),
    # Kernelized learners, and their parts.
    "map_": _ValueRule(
        "a Nystroem or a KernelPCA", lambda value: type(value) in (Nystroem, KernelPCA)
    ),
    "learner_": _ValueRule("a learner", lambda value: isinstance(value, BaseMetricLearner)),
    "component_indices_": _ArrayRule(_INTEGERS, ("n_components",)),
    "normalization_": _ArrayRule(_FLOATS, ("n_components", "n_components")),
    "X_fit_": _ArrayRule(_FLOATS, ("n_samples", "n_features_in_")),
    "eigenvalues_": _ArrayRule(_FLOATS, ("n_components",)),
    "eigenvectors_": _ArrayRule(_FLOATS, ("n_samples", "n_components")),
    "gamma_": _FINITE,
    "_centerer": _ValueRule("a KernelCenterer", lambda value: type(value) is KernelCenterer),
    "K_fit_rows_": _ArrayRule(_FLOATS, ("n_features_in_",)),
    "K_fit_all_": _FINITE,
}


def check_model(estimator: BaseEstimator, name: str = "") -> None:
    """Refuse fitted attributes that a learner, or a part of one, does not have after `fit`.

    `name`: where the estimator is in the model, such as "map_.", to name its attributes by.
    Raises ValueError that names the attribute, and states what it must be and what was found.
    """
    fitted = {key: value for key, value in vars(estimator).items() if key in _RULES}
    for key in _required(estimator, fitted):
        if key not in fitted:
            raise ValueError(f"{name}{key} is missing")
    lengths: dict[str, int] = {}
    for key, rule in _RULES.items():
        if key not in fitted:
            continue
        value = fitted[key]
        if isinstance(rule, _ArrayRule):
            _check_array(f"{name}{key}", value, rule, lengths)
        elif not rule.accepts(value):
            raise ValueError(f"{name}{key} must be {rule.what}, got {_described(value)}")
        elif rule is _LENGTH:
            lengths[_LENGTHS[key]] = value
    _check_labels(name, fitted)
    if isinstance(estimator, KernelizedMetricLearner):
        _check_kernelized(estimator, name)
    if isinstance(estimator, KernelPCA):
        check_model(estimator._centerer, f"{name}_centerer.")
        _check_width(f"{name}_centerer", estimator._centerer, len(estimator.X_fit_))
    if isinstance(estimator, EmbeddedMetricMixin):
        _check_embedding(estimator, name)


def _required(estimator: BaseEstimator, fitted: Mapping[str, Any]) -> Iterator[str]:
    yield "n_features_in_"
    if type(estimator) in PARTS:
        yield from sorted(PARTS[type(estimator)])
    elif isinstance(estimator, KernelizedMetricLearner):
        yield from ("map_", "mean_", "learner_")
    elif isinstance(estimator, EmbeddedMetricMixin):
        yield from ("embedding_", "parameters_", "mean_", "n_components_")
    else:
        yield "bilinear_" if isinstance(estimator, BilinearMixin) else "components_"
    if "components_query_" in fitted:
        yield "components_database_"
    if "database_embedding_" in fitted:
        of_classes = isinstance(estimator, ClassifierMixin)
        yield from ("classes_", "database_labels_") if of_classes else ("database_targets_",)


def _check_array(name: str, value: Any, rule: _ArrayRule, lengths: dict[str, int]) -> None:
    """Refuse what does not follow a rule; lengths of the array are added to those known."""
    known = dict(lengths)
    fits = _is_array(value, rule.dtypes) and value.ndim == len(rule.shape) and value.size > 0
    if fits:
        for length, found in zip(rule.shape, value.shape, strict=True):
            expected = lengths.setdefault(length, found) if isinstance(length, str) else length
            fits = fits and found == expected
    if not fits:
        dtypes = f" of {' or '.join(rule.dtypes)}" if rule.dtypes else ""
        shape = ", ".join(_length_and_value(length, known) for length in rule.shape)
        raise ValueError(
            f"{name} must be an array{dtypes} of shape ({shape}), got {_described(value)}"
        )
    _check_numbers(name, value)


def _length_and_value(length: str | int, known: Mapping[str, int]) -> str:
    return f"{length}={known[str(length)]}" if length in known else str(length)


def _is_array(value: Any, dtypes: tuple[str, ...]) -> bool:
    return isinstance(value, np.ndarray) and (not dtypes or value.dtype.name in dtypes)


def _check_numbers(name: str, value: Array) -> None:
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise ValueError(f"{name} must be finite, got {value[~np.isfinite(value)][0]}")


def _check_labels(name: str, fitted: Mapping[str, Any]) -> None:
    """Refuse labels that are no indices of classes, and classes and names that are none."""
    for key in ("feature_names_in_", "feature_names_database_in_"):
        for other in fitted.get(key, ()):
            if type(other) is not str:
                raise ValueError(f"{name}{key} must hold text, got {_described(other)}")
    if "classes_" not in fitted:
        return
    classes = fitted["classes_"].tolist()
    if len(set(classes)) < len(classes):
        raise ValueError(f"{name}classes_ must hold each class once, got {_described(classes)}")
    labels = fitted.get("database_labels_")
    if labels is not None and not 0 <= labels.min() <= labels.max() < len(classes):
        raise ValueError(
            f"{name}database_labels_ must hold indices of the {len(classes)} classes_, got numbers "
            f"from {labels.min()} to {labels.max()}"
        )


def _check_kernelized(estimator: KernelizedMetricLearner, name: str) -> None:
    check_model(estimator.map_, f"{name}map_.")
    check_model(estimator.learner_, f"{name}learner_.")
    nystroem = isinstance(estimator.map_, Nystroem)
    points = estimator.map_.components_ if nystroem else estimator.map_.X_fit_
    width = len(estimator.map_.normalization_ if nystroem else estimator.map_.eigenvalues_)
    _check_width(f"{name}map_", estimator.map_, estimator.n_features_in_)
    _check_width(f"{name}learner_", estimator.learner_, width)
    if not np.isfinite(estimator.pair_score(np.stack([points[:1], points[-1:]], axis=1))).all():
        raise ValueError(f"{name}map_ must give finite numbers")


def _check_width(name: str, part: BaseEstimator, width: int) -> None:
    if part.n_features_in_ != width:
        raise ValueError(f"{name}.n_features_in_ must be {width}, got {part.n_features_in_}")


def _check_embedding(estimator: EmbeddedMetricMixin, name: str) -> None:
    for i, array in enumerate(estimator.parameters_):
        if not _is_array(array, _FLOATS) or not array.size:
            raise ValueError(
                f"{name}parameters_ must hold arrays of {' or '.join(_FLOATS)} that are not empty, "
                f"got {_described(array)}"
            )
        _check_numbers(f"{name}parameters_[{i}]", array)
    parameters = [np.ascontiguousarray(array) for array in estimator.parameters_]
    width, asymmetric = estimator.n_features_in_, estimator.embedding_.asymmetric
    if len(estimator.mean_) != width and not (asymmetric and hasattr(estimator, "mean_query_")):
        raise ValueError(f"{name}mean_ must have shape ({width},), got {estimator.mean_.shape}")
    dtype = np.result_type(np.float32, *parameters)
    for side, n_features in (("query", width), ("database", len(estimator.mean_))):
        point = np.zeros((1, n_features), dtype)
        try:
            embedded = estimator.embedding_.forward(parameters, point, side=side)[0]
        except ValueError as error:
            raise ValueError(f"{name}parameters_ do not belong to embedding_: {error}") from error
        if embedded.shape != (1, estimator.n_components_):
            raise ValueError(
                f"{name}parameters_ must embed a point in n_components_={estimator.n_components_} "
                f"numbers, got {embedded.shape[1]}"
            )


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    return reprlib.repr(value)
