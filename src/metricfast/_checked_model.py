"""Checks of what a model file says that fitting has set, before anything is computed with it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import KernelPCA
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import KernelCenterer

from metricfast._rules import (
    COUNT,
    FINITE,
    FLOATS,
    INTEGERS,
    LENGTH,
    NUMBER,
    TEXT,
    ArrayRule,
    ValueRule,
    are_numbers,
    check_parameters,
    check_value,
    described,
    is_number,
)
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
# Attributes that are lengths of arrays, and the names of these lengths.
_LENGTHS = {"n_features_in_": "n_features_in_", "n_components_": "n_components"}


_VALIDATION = {"measure": TEXT, "learned": NUMBER, "euclidean": NUMBER, "n_held_out": COUNT}

# Lengths that other attributes give come first, then arrays that give lengths to those below them.
_RULES: dict[str, ArrayRule | ValueRule] = {
    "n_features_in_": LENGTH,
    "n_components_": LENGTH,
    # Maps.
    "components_": ArrayRule(FLOATS, ("n_components", "n_features_in_")),
    "bilinear_": ArrayRule(FLOATS, ("n_features_in_", "n_features_in_")),
    "A_": ArrayRule(FLOATS, ("n_features_in_", "n_features_in_")),
    "components_query_": ArrayRule(FLOATS, ("n_components", "n_features_in_")),
    "components_database_": ArrayRule(FLOATS, ("n_components", "n_features_database")),
    "mean_": ArrayRule(FLOATS, ("n_features_database",)),
    "mean_query_": ArrayRule(FLOATS, ("n_features_in_",)),
    "embedding_": ValueRule("an embedding", lambda value: isinstance(value, Embedding)),
    "parameters_": ValueRule("a list of arrays", lambda value: type(value) is list),
    # Points and labels.
    "classes_": ArrayRule((), ("n_classes",)),
    "feature_names_in_": ArrayRule(("object",), ("n_features_in_",)),
    "feature_names_database_in_": ArrayRule(("object",), ("n_features_database",)),
    "database_embedding_": ArrayRule(FLOATS, ("n_database", "n_components")),
    "query_embedding_": ArrayRule(FLOATS, ("n_database", "n_components")),
    "database_labels_": ArrayRule(INTEGERS, ("n_database",)),
    "database_targets_": ArrayRule(FLOATS, ("n_database",)),
    "labels_": ArrayRule(INTEGERS, ("n_labels",)),
    # Results of one kind of learner.
    "bins_": ArrayRule(FLOATS, ("n_bins",)),
    "bounds_": ArrayRule(FLOATS, (2,)),
    "margins_": ArrayRule(FLOATS, ("n_components",)),
    "proxies_": ArrayRule(FLOATS, ("n_proxies", "n_components")),
    "w_": ArrayRule(FLOATS, ("n_quadruplets",)),
    "weights_": ArrayRule(FLOATS, ("n_basis",)),
    "balance_param_": NUMBER,
    "bias_": NUMBER,
    "infeasible_share_": NUMBER,
    "reg_": NUMBER,
    "shrinkage_": NUMBER,
    "shrinkage_target_": TEXT,
    "threshold_": ValueRule(
        "a number, not NaN", lambda value: is_number(value) and not math.isnan(value)
    ),
    # The course of a training.
    "converged_": ValueRule("True or False", lambda value: type(value) is bool),
    "history_": ValueRule(
        "a dictionary of lists of numbers",
        lambda value: type(value) is dict and all(map(are_numbers, value.values())),
    ),
    "loss_curve_": ValueRule("a list of numbers", are_numbers),
    "n_iter_": COUNT,
    "objective_": NUMBER,
    "validation_": ValueRule(
        f"a dictionary of {', '.join(_VALIDATION)}",
        lambda value: (
            type(value) is dict
            and value.keys() == _VALIDATION.keys()
            and all(rule.accepts(value[name]) for name, rule in _VALIDATION.items())
        ),
    ),
    # Kernelized learners, and their parts.
    "map_": ValueRule(
        "a Nystroem or a KernelPCA", lambda value: type(value) in (Nystroem, KernelPCA)
    ),
    "learner_": ValueRule("a learner", lambda value: isinstance(value, BaseMetricLearner)),
    "component_indices_": ArrayRule(INTEGERS, ("n_components",)),
    "normalization_": ArrayRule(FLOATS, ("n_components", "n_components")),
    "X_fit_": ArrayRule(FLOATS, ("n_samples", "n_features_in_")),
    "eigenvalues_": ArrayRule(FLOATS, ("n_components",)),
    "eigenvectors_": ArrayRule(FLOATS, ("n_samples", "n_components")),
    "gamma_": FINITE,
    "_centerer": ValueRule("a KernelCenterer", lambda value: type(value) is KernelCenterer),
    "K_fit_rows_": ArrayRule(FLOATS, ("n_features_in_",)),
    "K_fit_all_": FINITE,
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
        check_value(f"{name}{key}", fitted[key], rule, lengths)
        if rule is LENGTH:
            lengths[_LENGTHS[key]] = fitted[key]
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


def _check_labels(name: str, fitted: Mapping[str, Any]) -> None:
    """Refuse labels that are no indices of classes, and classes and names that are none."""
    for key in ("feature_names_in_", "feature_names_database_in_"):
        for other in fitted.get(key, ()):
            if type(other) is not str:
                raise ValueError(f"{name}{key} must hold text, got {described(other)}")
    if "classes_" not in fitted:
        return
    classes = fitted["classes_"].tolist()
    if len(set(classes)) < len(classes):
        raise ValueError(f"{name}classes_ must hold each class once, got {described(classes)}")
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
    check_parameters(f"{name}parameters_", estimator.parameters_)
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
