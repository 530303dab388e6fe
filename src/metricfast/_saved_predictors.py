"""Predictors of tables in model files: the attributes that a file holds, and what they must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from metricfast._rules import (
    COUNT,
    FLOATS,
    INTEGERS,
    LENGTH,
    ArrayRule,
    ValueRule,
    are_numbers,
    check_parameters,
    check_value,
    described,
    is_number,
)
from metricfast.embeddings import Embedding
from metricfast.predictors.indicators import Indicators
from metricfast.predictors.normal_scores import NormalScores
from metricfast.predictors.soft import NCAClassifier, NCARegressor
from metricfast.predictors.soft_base import SoftNeighbors
from metricfast.predictors.soft_votes import SoftVotes
from metricfast.predictors.tables import Table
from metricfast.predictors.targets import Classes

__all__ = ["PREDICTORS", "RECORDS", "build_record", "check_predictor"]


class _Each(NamedTuple):
    """A list, of which each item follows a rule."""

    rule: Any


class _Maybe(NamedTuple):
    """None, or what follows a rule."""

    rule: Any


def _are_categories(value: Any) -> bool:
    return (
        _is_vector(value, "object")
        and all(x is None or type(x) in (str, bool, int, float) for x in value)
        and len(set(value)) == len(value)
    )


def _are_classes(value: Any) -> bool:
    return _is_vector(value) and len(value) > 0 and len(set(value.tolist())) == len(value)


def _are_scores(value: Any) -> bool:
    return type(value) is list and all(
        type(pair) is tuple
        and len(pair) == 2
        and all(_is_vector(each, "float64") and np.isfinite(each).all() for each in pair)
        and len(pair[0]) == len(pair[1])
        and (np.diff(pair[0]) > 0).all()
        for pair in value
    )


def _are_costs(value: Any) -> bool:
    return type(value) is dict and all(map(is_number, value.values()))


def _is_vector(value: Any, dtype: str | None = None) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 1 and dtype in (None, value.dtype.name)


def _are_predictions(value: Any) -> bool:
    arrays = value if type(value) is list else [value]
    return all(isinstance(x, np.ndarray) and x.dtype == np.float64 for x in arrays)


_BOOL = ValueRule("True or False", lambda value: type(value) is bool)
_JOBS = ValueRule("an integer of 32 bits", lambda x: type(x) is int and abs(x) < 2**31)
_LISTED = ValueRule("a list of arrays", lambda value: type(value) is list)
_CLASSES = ValueRule("an array of different classes", _are_classes)
_NUMBERS = ArrayRule(("float64",), ("n_numbers",), may_be_empty=True)

# Objects that a predictor is made of. A file holds these attributes of them, and no others.
RECORDS: dict[type, dict[str, Any]] = {
    Table: {
        "categorical": ArrayRule(("bool",), ("n_features_in_",)),
        "n_indicators": COUNT,
        "origin": ArrayRule(INTEGERS, ("n_encoded",)),
        "_silent": ArrayRule(("bool",), ("n_numbers",), may_be_empty=True),
        "_unit": _NUMBERS,
        "_mean": _NUMBERS,
        "_scale": _NUMBERS,
        "_order": ArrayRule(INTEGERS, ("n_numbers",), may_be_empty=True),
        "_incomplete": ArrayRule(INTEGERS, ("n_incomplete",), may_be_empty=True),
        "_indicators": _Maybe(Indicators),
    },
    Indicators: {
        "known": _Each(ValueRule("an array of different categories", _are_categories)),
        "shared": ArrayRule(("bool",), ("n_categorical",)),
    },
    NormalScores: {
        "_scores": ValueRule("a list of increasing values, and their scores", _are_scores)
    },
    SoftVotes: {
        "points": ArrayRule(FLOATS, ("n_weighted", "n_components")),
        "_log_weight": _Maybe(ArrayRule(("float64",), ("n_weighted",))),
        "_n_jobs": _Maybe(_JOBS),
    },
    Classes: {
        "known": _Each(_CLASSES),
        "codes": ArrayRule(INTEGERS, ("n_samples_fit_", "n_outputs")),
        "several": _BOOL,
    },
}
_COMMON: dict[str, Any] = {
    "n_features_in_": LENGTH,
    "n_samples_fit_": LENGTH,
    "feature_names_in_": ArrayRule(("object",), ("n_features_in_",)),
    "embedding_": ValueRule("an embedding", lambda value: isinstance(value, Embedding)),
    "parameters_": _Each(_LISTED),
    "choices_": ValueRule("a dictionary of numbers", _are_costs),
    "validation_costs_": _Each(ValueRule("a list of numbers", are_numbers)),
    "oof_prediction_": ValueRule("an array of float64, or a list of them", _are_predictions),
    "_relevance": ArrayRule(("float64",), ("n_features_in_",)),
    "_table": Table,
    "_scores": _Maybe(NormalScores),
    "_voters": _Each(SoftVotes),
    "_rows": ArrayRule(INTEGERS, ("n_weighted",)),
}
# The fitted attributes of predictors.
PREDICTORS: dict[type, dict[str, Any]] = {
    NCAClassifier: {
        **_COMMON,
        "outputs_2d_": _BOOL,
        "classes_": ValueRule(
            "an array of different classes, or a list of them",
            lambda value: all(map(_are_classes, value if type(value) is list else [value])),
        ),
        "_labels": Classes,
        "_values": ArrayRule(("bool",), ("n_weighted", "n_values")),
        "_prior": ArrayRule(("float64",), ("n_values",)),
    },
    NCARegressor: {
        **_COMMON,
        "_numbers": ValueRule(
            "an array of float64 of one or two dimensions",
            lambda value: _are_predictions([value]) and value.ndim in (1, 2),
        ),
        "_values": ArrayRule(("float64",), ("n_weighted", "n_values")),
        "_unit": ArrayRule(("float64",), ("n_values",)),
    },
}
_OPTIONAL = {"feature_names_in_", "oof_prediction_"}


def build_record(name: str, fields: Mapping[str, Any]) -> Any:
    """Return one of the objects that predictors are made of, given its attributes."""
    kind = {kind.__name__: kind for kind in RECORDS}[name]
    if fields.keys() != RECORDS[kind].keys():
        raise ValueError(f"a {name} must have {', '.join(RECORDS[kind])}; found {list(fields)}")
    record: Any = object.__new__(kind)
    vars(record).update(fields)
    return record


def check_predictor(estimator: SoftNeighbors) -> None:
    """Refuse fitted attributes that a predictor does not have after `fit`.

    Raises ValueError that names the attribute, and states what it must be and what was found.
    """
    fitted, lengths = vars(estimator), dict[str, int]()
    for key, rule in PREDICTORS[type(estimator)].items():
        if key in fitted:
            _check(key, fitted[key], rule, lengths)
            if rule is LENGTH:
                lengths[key] = fitted[key]
        elif key not in _OPTIONAL:
            raise ValueError(f"{key} is missing")
    names = fitted.get("feature_names_in_", ())
    _require(all(type(name) is str for name in names), "feature_names_in_ must hold text")
    n_maps = {len(fitted[key]) for key in ("parameters_", "validation_costs_", "_voters")}
    _require(
        len(n_maps) == 1 and 0 not in n_maps,
        "parameters_, validation_costs_ and _voters must have an item for each map",
    )
    rows, n = fitted["_rows"], fitted["n_samples_fit_"]
    _require(
        rows[0] >= 0 and rows[-1] < n and (np.diff(rows) > 0).all(),
        f"_rows must increase, and be below n_samples_fit_={n}",
    )
    found = fitted.get("oof_prediction_", [])
    arrays = found if isinstance(found, list) else [found]
    fits = all(x.ndim in (1, 2) and len(x) == n for x in arrays)
    _require(fits, f"oof_prediction_ must have n_samples_fit_={n} rows")
    _check_table(estimator._table)
    if isinstance(estimator, NCAClassifier):
        _check_classes(estimator, lengths)
    else:
        shapes = (n,), (n, lengths["n_values"])
        _require(fitted["_numbers"].shape in shapes, f"_numbers must have one of shapes {shapes}")
    _check_maps(estimator)


def _check(name: str, value: Any, rule: Any, lengths: dict[str, int]) -> None:
    if isinstance(rule, _Maybe):
        if value is not None:
            _check(name, value, rule.rule, lengths)
    elif isinstance(rule, _Each):
        if type(value) is not list:
            raise ValueError(f"{name} must be a list, got {described(value)}")
        for i, each in enumerate(value):
            _check(f"{name}[{i}]", each, rule.rule, lengths)
    elif isinstance(rule, type):
        if type(value) is not rule:
            raise ValueError(f"{name} must be a {rule.__name__}, got {described(value)}")
        for key, of_part in RECORDS[rule].items():
            _check(f"{name}.{key}", vars(value)[key], of_part, lengths)
    else:
        check_value(name, value, rule, lengths)


def _require(holds: Any, message: str) -> None:
    if not holds:
        raise ValueError(message)


def _check_table(table: Table) -> None:
    n, indicators = len(table._order), table._indicators
    known: list[Any] = [] if indicators is None else indicators.known
    shared = known if indicators is None else indicators.shared
    _require(
        table.categorical.sum() == len(known) == len(shared)
        and n + len(known) == len(table.categorical),
        "_table.categorical must tell columns of numbers from columns of categories",
    )
    _require(
        (np.sort(table._order) == np.arange(n)).all(),
        f"_table._order must hold each integer below {n} once",
    )
    _require(
        np.isin(table._incomplete, np.arange(n)).all(),
        f"_table._incomplete must hold integers below {n}",
    )
    for name in ("_unit", "_scale"):
        _require((getattr(table, name) > 0).all(), f"_table.{name} must be positive")


def _check_classes(estimator: NCAClassifier, lengths: Mapping[str, int]) -> None:
    labels, classes = estimator._labels, estimator.classes_
    known = labels.known if labels.several else labels.known[:1]
    given = classes if isinstance(classes, list) else [classes]
    _require(
        estimator.outputs_2d_ == labels.several == isinstance(classes, list)
        and len(known) == len(labels.known) == len(given) == lengths["n_outputs"]
        and all(a.tolist() == b.tolist() for a, b in zip(given, known, strict=True)),
        "classes_ and outputs_2d_ must be those of _labels",
    )
    n_values = sum(map(len, known))
    _require(n_values == lengths["n_values"], f"_values must have {n_values} columns")


def _check_maps(estimator: SoftNeighbors) -> None:
    """Embed a point, and compare the result with the points of `fit`."""
    for i, arrays in enumerate(estimator.parameters_):
        check_parameters(f"parameters_[{i}]", arrays)
    table, scores = estimator._table, estimator._scores
    width = len(table._order) + len(table._incomplete)
    if table._indicators is not None:
        width += int(table._indicators.sizes.sum())
    _require(len(table.origin) == width, f"_table.origin must have {width} integers")
    point = np.zeros((1, width), np.float32)
    if scores is not None:
        n = len(table._order)
        _require(len(scores._scores) == n, f"_scores must be of {n} columns")
    try:
        embedded = estimator._embedded(point)
    except (LookupError, ValueError) as error:
        raise ValueError(f"parameters_ do not belong to embedding_: {error}") from error
    for Z, voters in zip(embedded, estimator._voters, strict=True):
        _require(
            Z.shape[1] == voters.points.shape[1]
            and Z.dtype == voters.points.dtype
            and np.isfinite(Z).all(),
            "parameters_ must embed a point as the points of _voters",
        )
