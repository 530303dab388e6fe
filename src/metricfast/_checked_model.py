"""Checks of what a model file says that fitting has set, before anything is computed with it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from metricfast._rules import (
    COUNT,
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
from metricfast.learners.embedding.metric import EmbeddedMetricMixin

__all__ = ["check_model"]

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
    "eigenvalues_": ArrayRule(FLOATS, ("n_components",)),
    "margins_": ArrayRule(FLOATS, ("n_components",)),
    "proxies_": ArrayRule(FLOATS, ("n_proxies", "n_components")),
    "w_": ArrayRule(FLOATS, ("n_quadruplets",)),
    "weights_": ArrayRule(FLOATS, ("n_basis",)),
    "balance_param_": NUMBER,
    "bias_": NUMBER,
    "infeasible_share_": NUMBER,
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
}


def check_model(estimator: BaseEstimator) -> None:
    """Raise ValueError for fitted attributes that a learner does not have after `fit`.

    The message names the attribute, and states what it must be and what was found.
    """
    fitted = {key: value for key, value in vars(estimator).items() if key in _RULES}
    for key in _required(estimator, fitted):
        if key not in fitted:
            raise ValueError(f"{key} is missing")
    lengths: dict[str, int] = {}
    for key, rule in _RULES.items():
        if key not in fitted:
            continue
        check_value(f"{key}", fitted[key], rule, lengths)
        if rule is LENGTH:
            lengths[_LENGTHS[key]] = fitted[key]
    _check_labels(fitted)
    if isinstance(estimator, EmbeddedMetricMixin):
        _check_embedding(estimator)


def _required(estimator: BaseEstimator, fitted: Mapping[str, Any]) -> Iterator[str]:
    yield "n_features_in_"
    if isinstance(estimator, EmbeddedMetricMixin):
        yield from ("embedding_", "parameters_", "mean_", "n_components_")
    else:
        yield "bilinear_" if isinstance(estimator, BilinearMixin) else "components_"
    if "components_query_" in fitted:
        yield "components_database_"
    if "database_embedding_" in fitted:
        of_classes = isinstance(estimator, ClassifierMixin)
        yield from ("classes_", "database_labels_") if of_classes else ("database_targets_",)


def _check_labels(fitted: Mapping[str, Any]) -> None:
    """Refuse labels that are no indices of classes, and classes and names that are none."""
    for key in ("feature_names_in_", "feature_names_database_in_"):
        for other in fitted.get(key, ()):
            if type(other) is not str:
                raise ValueError(f"{key} must hold text, got {described(other)}")
    if "classes_" not in fitted:
        return
    classes = fitted["classes_"].tolist()
    if len(set(classes)) < len(classes):
        raise ValueError(f"classes_ must hold each class once, got {described(classes)}")
    labels = fitted.get("database_labels_")
    if labels is not None and not 0 <= labels.min() <= labels.max() < len(classes):
        raise ValueError(
            f"database_labels_ must hold indices of the {len(classes)} classes_, got numbers "
            f"from {labels.min()} to {labels.max()}"
        )


def _check_embedding(estimator: EmbeddedMetricMixin) -> None:
    check_parameters("parameters_", estimator.parameters_)
    parameters = [np.ascontiguousarray(array) for array in estimator.parameters_]
    width, asymmetric = estimator.n_features_in_, estimator.embedding_.asymmetric
    if len(estimator.mean_) != width and not (asymmetric and hasattr(estimator, "mean_query_")):
        raise ValueError(f"mean_ must have shape ({width},), got {estimator.mean_.shape}")
    dtype = np.result_type(np.float32, *parameters)
    for side, n_features in (("query", width), ("database", len(estimator.mean_))):
        point = np.zeros((1, n_features), dtype)
        try:
            embedded = estimator.embedding_.forward(parameters, point, side=side)[0]
        except ValueError as error:
            raise ValueError(f"parameters_ do not belong to embedding_: {error}") from error
        if embedded.shape != (1, estimator.n_components_):
            raise ValueError(
                f"parameters_ must embed a point in n_components_={estimator.n_components_} "
                f"numbers, got {embedded.shape[1]}"
            )
