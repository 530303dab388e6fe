"""Learners that suit the data, in order of their cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.pipeline import Pipeline

import metricfast.learners as learners
from metricfast._core.arguments import did_you_mean
from metricfast._exports import LEARNERS
from metricfast.learners.auto import BY_BATCHES, MANY
from metricfast.learners.base.learner import BaseMetricLearner
from metricfast.predictors.multi_metric import MultiMetricLMNN
from metricfast.predictors.soft import NCAClassifier, NCARegressor

# Fixed distances to compare with, on scaled points.
DISTANCES = ("cityblock", "cosine")

# Closed forms first, then what is best most often for its time.
CLASSES = [
    "LFDA", "Covariance", "KISSME_Supervised", "XQDA", "RCA_Supervised", "ANMM", "DMLMJ",
    "GMML_Supervised", "SDML_Supervised", "LSML_Supervised", "MMC_Supervised", "NCAClassifier",
    "NCA", "NCMML", "MCML", "LDML", "ProxyNCALearner", "LMNN", "TripletLearner", "ITML_Supervised",
    "SCML_Supervised", "NeighborhoodGerrymandering",
]  # fmt: skip
CONTINUOUS = [
    "Covariance", "MLKR", "LogRatioLearner", "NeighborhoodGerrymanderingRegressor", "NCARegressor",
]  # fmt: skip
# Estimators that predict by other means than nearest neighbours.
PREDICTORS: dict[str, Any] = {
    each.__name__: each for each in (MultiMetricLMNN, NCAClassifier, NCARegressor)
}
# Learners that are tried only above FEW points (they train on mini-batches), and learners that are
# too slow above it.
OF_MANY = {"ProxyNCALearner", "TripletLearner"}
OF_FEW = {"LDML", "MCML", "MMC_Supervised", "NCMML"}
FEW = 1000
# Learners that are too slow above this number of features: each step takes its square.
NARROW = 100
OF_NARROW = {"ITML_Supervised", "SCML_Supervised"}


def suited(n_points: int, n_features: int, continuous: bool) -> dict[str, Any]:
    """Return the learners that suit so many points, by name, with default parameters."""
    left_out = OF_FEW if n_points >= FEW else OF_MANY
    if n_features > NARROW:
        left_out = left_out | OF_NARROW
    found: dict[str, Any] = {}
    if n_points < MANY:
        found |= {name: name for name in DISTANCES}
    names = CONTINUOUS if continuous else CLASSES
    if n_points >= MANY:  # predictors take longest then, and cannot be stopped
        names = sorted(names, key=PREDICTORS.__contains__)
    for name in names:
        if name not in left_out:
            kind = class_of(name)
            batches = n_points >= MANY and kind in BY_BATCHES
            found[name] = kind(**{"solver": "adam"} if batches else {})
    return found


def class_of(name: str) -> Any:
    """Return the class of a learner or predictor."""
    return PREDICTORS[name] if name in PREDICTORS else getattr(learners, name)


def as_learners(given: Any, n_points: int, n_features: int, continuous: bool) -> dict[str, Any]:
    """Return the learners for the argument `learners`, by name."""
    auto, found = suited(n_points, n_features, continuous), dict[str, Any]()
    if isinstance(given, Mapping):
        return {str(name): _estimator(each) for name, each in given.items()}
    if isinstance(given, str):
        given = list(auto) if given == "auto" else [given]
    several = np.iterable(given) and not hasattr(given, "fit")
    for each in given if several else [given]:
        estimator = auto[each] if isinstance(each, str) and each in auto else _estimator(each)
        name = estimator if isinstance(estimator, str) else type(estimator).__name__
        if name in found:  # the name is taken
            name = repr(estimator)
        if name in found:
            raise ValueError(f"learners has {name} twice.")
        found[name] = estimator
    if not found:
        raise ValueError("learners must have one at least, got none.")
    return found


def of_numbers(given: Any) -> bool | None:
    """Return True if all learners take numbers as labels, False if all take classes, else None.

    `given`: the argument `learners` of the user.
    """
    if isinstance(given, str) and given == "auto":
        return None
    several = np.iterable(given) and not isinstance(given, str) and not hasattr(given, "fit")
    values = given.values() if isinstance(given, Mapping) else given if several else [given]
    found = {_takes_numbers(_estimator(each)) for each in values} - {None}
    return found.pop() if len(found) == 1 else None


def _takes_numbers(learner: Any) -> bool | None:
    """Return whether an estimator takes numbers as labels; None if it takes both or neither."""
    while isinstance(learner, Pipeline):
        learner = learner[-1]
    if isinstance(learner, BaseMetricLearner):
        return not learner._has_classes if learner._requires_y else None
    if isinstance(learner, BaseEstimator) and is_regressor(learner) != is_classifier(learner):
        return bool(is_regressor(learner))
    return None


def _estimator(given: Any) -> Any:
    """Return an unfitted estimator, or the name of a distance unchanged."""
    if isinstance(given, str) and given in DISTANCES:
        return given
    if isinstance(given, str):
        known = [*sorted(LEARNERS), *PREDICTORS, *DISTANCES]
        if given not in known:
            raise ValueError(
                f"learners must be names among {', '.join(known)}, got {given!r}."
                + did_you_mean(given, known)
            )
        try:
            return class_of(given)()
        except TypeError as error:
            raise ValueError(f"learners: {given} has no defaults: {error}") from error
    if isinstance(given, type) and hasattr(given, "fit"):
        raise TypeError(
            f"learners must be estimators, not classes of them, got {given.__name__}: did you mean "
            f"{given.__name__}()?"
        )
    if not hasattr(given, "fit"):
        raise TypeError(f'learners must be "auto", names of learners or estimators, got {given!r}.')
    return clone(given)
