"""A trial: one learner on one fold, in this process or on a worker."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing

from metricfast._core.arguments import check_choice
from metricfast._core.arrays import as_points
from metricfast._core.checks import check_points
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.warn import ignored, without_advice
from metricfast.comparison.labels import shares
from metricfast.learners.base.learner import BaseMetricLearner
from metricfast.predictors.classifiers import KNeighborsClassifier
from metricfast.predictors.regressors import KNeighborsRegressor
from metricfast.training.history import SolverState

__all__ = ["Scoring", "Trial", "group_count", "grouped_scores", "try_learner"]

# Maximum number of points on which the choice of units is based.
_MOST_JUDGED = 2000
# How points are checked: the predictor may take missing values.
_TABLE: dict[str, Any] = {"preprocessor": None, "ensure_all_finite": "allow-nan"}
# The lowest values of those scikit-learn metrics whose highest value is 1.
_LEAST = {
    **dict.fromkeys(("accuracy", "balanced_accuracy", "top_k_accuracy", "roc_auc"), 0.0),
    **dict.fromkeys(("average_precision", "f1", "fbeta", "jaccard", "precision", "recall"), 0.0),
    **dict.fromkeys(("matthews_corrcoef", "cohen_kappa"), -1.0),
    **dict.fromkeys(("r2", "explained_variance", "d2_absolute_error"), -math.inf),
    **dict.fromkeys(("d2_brier", "d2_log_loss", "d2_pinball", "d2_tweedie"), -math.inf),
}


@dataclass(frozen=True)
class Scoring:
    """Score learners.

    `variances`: variances of the columns of continuous labels, or None for classes.
    `scorer`: a function of an estimator, points and labels in place of accuracy or R².
    `preprocessing`: a transformer of the points as given, or None.
    `scale`: "auto", True or False, as in :class:`ChosenUnits`.
    `new_classes`: whether the classes of held-out points are unseen in training. A point then
        counts as correct if its nearest neighbour among all other points has its class.
    """

    n_neighbors: int
    variances: Floats | None
    scorer: Callable[..., Any] | None
    preprocessing: BaseEstimator | None
    scale: bool | str
    n_jobs: int | None
    new_classes: bool = False

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest value of the score, infinite if unknown."""
        if self.scorer is None:
            return (0.0, 1.0) if self.variances is None else (-math.inf, 1.0)
        metric = getattr(self.scorer, "_score_func", None)
        changed = {"adjusted", "normalize"} & getattr(self.scorer, "_kwargs", {}).keys()
        if changed or not getattr(metric, "__module__", "").startswith("sklearn."):
            return -math.inf, math.inf
        if getattr(self.scorer, "_sign", 1) < 0:  # the negative of an error
            return -math.inf, 0.0
        name = getattr(metric, "__name__", "").removesuffix("_score")
        return _LEAST.get(name, -math.inf), 1.0 if name in _LEAST else math.inf

    def predictor(self, learner: Any, scale: bool | str | None = None) -> Pipeline:
        """Return the pipeline to fit: a choice of units, the learner, and nearest neighbours.

        `learner`: an estimator with `transform` or `predict`, or the name of a distance, such as
            "euclidean". Without `predict`, nearest neighbours make the predictions.
        """
        continuous = self.variances is not None
        if isinstance(learner, BaseEstimator) and "n_jobs" in learner.get_params(deep=False):
            learner = clone(learner)
            learner.n_jobs = self.n_jobs if learner.n_jobs is None else learner.n_jobs
        predicts = hasattr(learner, "predict") and not isinstance(learner, BaseMetricLearner)
        if not predicts:
            kind = KNeighborsRegressor if continuous else KNeighborsClassifier
            learner = kind(self.n_neighbors, metric=learner, n_jobs=self.n_jobs)
        units = ChosenUnits(
            self.scale if scale is None else scale, self.n_neighbors, continuous, self.n_jobs
        )
        first = "passthrough" if self.preprocessing is None else clone(self.preprocessing)
        return Pipeline([("preprocessing", first), ("units", units), ("predictor", learner)])


class OutOfTimeError(Exception):
    """The time of a trial is over."""


@dataclass(frozen=True)
class Trial:
    """The result of a learner on a fold.

    `values`: contributions to the score, by held-out point or, with a scorer, by group of held-out
        points (:func:`grouped_scores`); None if the trial failed.
    `seconds`: the fit time.
    `note`: the reason if `values` is None.
    """

    values: Floats | None
    seconds: float
    note: str = ""


def try_learner(
    scoring: Scoring,
    predictor: Pipeline,
    X: Any,
    y: Any,
    fold: tuple[Integers, Integers],
    seconds: float | None = None,
) -> Trial:
    """Fit to the training points of a fold, and score on its test points.

    After `seconds`, a learner with callbacks stops at the end of its iteration. Apart from the time
    it takes, this is a pure function with arguments that can be pickled. Errors become notes.
    """
    train, test = fold
    start = time.perf_counter()

    def stop_in_time(state: SolverState) -> None:
        if seconds is not None and time.perf_counter() - start > seconds:
            raise OutOfTimeError

    predictor = clone(predictor)
    if seconds is not None:
        predictor.set_params(
            **{
                name: [*(value or ()), stop_in_time]
                for name, value in predictor.get_params().items()
                if name.rpartition("__")[2] == "callbacks"
            }
        )
    try:
        with one_blas_thread(), without_advice():  # the table shows problems as notes
            fitted = predictor.fit(_safe_indexing(X, train), y[train])
            elapsed = time.perf_counter() - start
            values = (
                _found_again(fitted, X, y, test)
                if scoring.new_classes
                else _values(scoring, fitted, _safe_indexing(X, test), y[test])
            )
    except OutOfTimeError:
        return Trial(None, time.perf_counter() - start, "out of time")
    except Exception as error:  # one failing learner must not end the comparison
        lines = str(error).strip().splitlines() or [""]
        plain = re.sub(r"np\.\w+\(([^()]*)\)", r"\1", lines[0])
        return Trial(None, time.perf_counter() - start, f"{type(error).__name__}: {plain}")
    if not np.isfinite(values).all():
        return Trial(None, elapsed, "predictions are not finite")
    return Trial(values, elapsed)


def _values(scoring: Scoring, fitted: Pipeline, X: Any, y: Any) -> Floats:
    if scoring.scorer is not None:
        return grouped_scores(scoring.scorer, fitted, X, y)
    return shares(fitted.predict(X), y, scoring.variances)


def _found_again(fitted: Pipeline, X: Any, y: Any, test: Integers) -> Floats:
    """Return whether the nearest of all other points is of the class of each held-out point."""
    last = fitted[-1]
    if not isinstance(last, KNeighborsClassifier):  # it predicts only classes of training points
        return np.zeros(len(test))
    search = clone(last).set_params(metric=last.metric_)
    nearest = search.fit(fitted[:-1].transform(X), y).kneighbors(return_distance=False)[:, 0]
    return np.asarray(y[nearest] == y, np.float64)[test]


def grouped_scores(scorer: Callable[..., Any], fitted: Any, X: Any, y: Array) -> Floats:
    """Return the contribution of each group of held-out points to the score, which is their mean.

    There are ten groups of points with similar labels. The contributions are pseudo-values of the
    delete-a-group jackknife (Kott. The delete-a-group jackknife. Journal of Official Statistics 17,
    2001), so their variance estimates the variance of the score. If the score is undefined without
    some group, the only returned value is the score itself.
    """
    score, n_groups = float(scorer(fitted, X, y)), group_count(len(y))
    labels = np.asarray(y).reshape(len(y), -1)
    group = np.empty(len(y), np.intp)
    group[np.lexsort(labels.T)] = np.arange(len(y)) % n_groups
    without = np.full(n_groups, np.nan)
    with suppress(ValueError), ignored():  # a class may be missing without the group
        for i in range(n_groups if n_groups > 1 else 0):
            rest = np.flatnonzero(group != i)
            without[i] = scorer(fitted, _safe_indexing(X, rest), y[rest])
    if not np.isfinite(without).all():
        return np.array([score])
    found: Floats = score + (n_groups - 1) * (without.mean() - without)
    return found


def group_count(n_points: int) -> int:
    """Return the number of groups of :func:`grouped_scores`."""
    return min(10, n_points)


class ChosenUnits(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Standardise features, or leave them unchanged.

    `scale`: True, False or "auto", which chooses by the leave-one-out error of nearest neighbours
        on the training points. Features with one unit, such as pixels, are usually better unscaled.
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
        """Choose whether to scale."""
        check_choice("scale", self.scale, ["auto", True, False])
        X = check_points(self, X, reset=True, **_TABLE)
        self.scaler_ = StandardScaler().fit(X)
        self.scaled_ = bool(self._better(X, y) if self.scale == "auto" else self.scale)
        return self

    def _better(self, X: Any, y: Any) -> bool:
        rows = np.random.default_rng(0).permutation(len(y))[:_MOST_JUDGED]
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
        """Return points in the chosen units; sparse points become an array."""
        X = check_points(self, X, reset=False, **_TABLE)
        if self.scaled_:
            scaled: Array = self.scaler_.transform(X)
            return scaled
        points: Array = as_points(X, "X")
        return points
