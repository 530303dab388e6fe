"""A trial: one learner on one fold, in this process or on a worker."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing

from metricfast._core.arrays import as_points
from metricfast._core.checks import check_points
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.warn import ignored, without_advice
from metricfast.comparison.labels import shares
from metricfast.learners.base.learner import BaseMetricLearner
from metricfast.predictors.classifiers import KNeighborsClassifier
from metricfast.predictors.regressors import KNeighborsRegressor
from metricfast.selection._folds import FoldJudge, Path, embedded_path, fold_path
from metricfast.selection._judge import Judge
from metricfast.selection._measures import Search
from metricfast.selection._race import OutOfTimeError, with_scores
from metricfast.selection._splits import Fold, Part
from metricfast.training.history import SolverState

_NEIGHBORS = (KNeighborsClassifier, KNeighborsRegressor)

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
    `new_classes`: whether the classes of held-out points are unseen in training. A point then
        counts as correct if its nearest neighbour among all other points has its class.
    `judge`: chooses the settings of learners. If it names a measure, 1 minus this is the score.
    """

    n_neighbors: int
    variances: Floats | None
    scorer: Callable[..., Any] | None
    preprocessing: BaseEstimator | None
    n_jobs: int | None
    new_classes: bool = False
    judge: Judge = field(default_factory=Judge)

    @property
    def measured(self) -> bool:
        """True if the score is the measure of the judge."""
        return not isinstance(self.judge.measure, str) or self.judge.measure != "auto"

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest value of the score, infinite if unknown."""
        if callable(self.judge.measure):
            return -math.inf, math.inf
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

    def predictor(self, learner: Any, scale: bool) -> Pipeline:
        """Return the pipeline to fit: units, the learner, and nearest neighbours.

        `learner`: an estimator with `transform` or `predict`, or the name of a distance, such as
            "euclidean". Without `predict`, nearest neighbours make the predictions.
        `scale`: whether to standardise features.
        """
        continuous = self.variances is not None
        if isinstance(learner, BaseEstimator) and "n_jobs" in learner.get_params(deep=False):
            learner = clone(learner)
            learner.n_jobs = self.n_jobs if learner.n_jobs is None else learner.n_jobs
        predicts = hasattr(learner, "predict") and not isinstance(learner, BaseMetricLearner)
        if not predicts:
            kind = KNeighborsRegressor if continuous else KNeighborsClassifier
            learner = kind(self.n_neighbors, metric=learner, n_jobs=self.n_jobs)
        first = "passthrough" if self.preprocessing is None else clone(self.preprocessing)
        steps = ("preprocessing", first), ("units", Units(scale)), ("predictor", learner)
        return Pipeline(list(steps))


@dataclass(frozen=True)
class Trial:
    """The result of a learner on a fold.

    `path`: the settings of the learner, and their scores of held-out points or, with a scorer, of
        groups of held-out points (:func:`grouped_scores`); None if the trial failed.
    `seconds`: the fit time.
    `note`: the reason if `path` is None.
    """

    path: Path | None
    seconds: float
    note: str = ""


def try_learner(
    scoring: Scoring, predictor: Pipeline, X: Any, y: Any, fold: Fold,
    seconds: float | None = None, prepared: Array | None = None, earlier: Sequence[Path] = (),
) -> Trial:  # fmt: skip
    """Fit to the training points of a fold, and score on its test points.

    After `seconds`, a learner that a judge judges or that has callbacks stops at the end of its
    iteration. Apart from the time it takes, this is a pure function with arguments that can be
    pickled. Errors become notes.

    `prepared`: the result of :func:`prepare`, if it is known.
    `earlier`: the paths of the learner on earlier folds, which leave out starts.
    """
    train, test = fold
    start = time.perf_counter()

    def stop_in_time(state: SolverState | None = None) -> None:
        del state
        if seconds is not None and time.perf_counter() - start > seconds:
            raise OutOfTimeError

    check_time = None if seconds is None else stop_in_time

    try:
        with one_blas_thread(), without_advice():  # the table shows problems as notes
            points = prepare(predictor, X, y, fold) if prepared is None else prepared
            last = clone(predictor[-1])
            if scoring.scorer is None and isinstance(last, _NEIGHBORS):
                path = _path(scoring, last, points, y, fold, check_time, earlier)
            elif scoring.measured:
                raise ValueError("a predictor without a distance cannot be measured by the judge")
            else:
                fitted = _limited(last, check_time).fit(points[train], y[train])
                values = _values(scoring, fitted, points[test], y[test])
                path = Path([("",)], values.reshape(1, -1, 1), np.zeros(1))
            elapsed = time.perf_counter() - start
    except OutOfTimeError:
        return Trial(None, time.perf_counter() - start, "out of time")
    except Exception as error:  # one failing learner must not end the comparison
        lines = str(error).strip().splitlines() or [""]
        plain = re.sub(r"np\.\w+\(([^()]*)\)", r"\1", lines[0])
        return Trial(None, time.perf_counter() - start, f"{type(error).__name__}: {plain}")
    if not np.isfinite(path.costs[0]).all():
        return Trial(None, elapsed, "predictions are not finite")
    return Trial(path, elapsed)


def prepare(predictor: Pipeline, X: Any, y: Any, fold: Fold) -> Array:
    """Return all points as the learner gets them; preprocessing and units follow the fold."""
    train, _ = fold
    first = clone(predictor[:-1]).fit(_safe_indexing(X, train), y[train])
    points: Array = first.transform(X)
    return points


def _path(
    scoring: Scoring, last: Any, X: Array, y: Any, fold: Fold, check_time: Any,
    earlier: Sequence[Path],
) -> Path:  # fmt: skip
    """Return the path of a learner whose neighbours predict, or of a named distance."""
    (train, test), learner = fold, last.metric
    database = np.arange(len(y)) if scoring.new_classes else train
    exclude = test if scoring.new_classes else None
    part = Part(train, test, database, np.ones(len(test)), np.ones(len(database)), exclude)
    continuous = scoring.variances is not None
    kind = "numbers" if continuous else "classes"
    labels = y if continuous else np.unique(y, return_inverse=True)[1]
    scores = None if scoring.measured else partial(_of_neighbors, scoring, labels, part)
    own = scoring.judge.get_params(deep=False)
    judge = FoldJudge(
        **own, fold=part, labels=labels, scores=scores, check_time=check_time, earlier=earlier
    )
    if isinstance(learner, BaseMetricLearner):
        path = fold_path(_limited(learner, check_time), judge, X, y, labels, kind=kind)
    else:
        fitted = last.fit(X[part.train], y[part.train])
        embed, function = getattr(fitted.metric_, "transform", None), None
        if isinstance(learner, str) and learner != "euclidean":
            function = partial(_search, fitted)
        path = embedded_path(judge, embed, X, labels, str(learner), kind=kind, function=function)
    return with_scores(path) if scoring.measured else path


def _limited(learner: Any, check_time: Callable[..., None] | None) -> Any:
    """Let a learner with callbacks check the time after each iteration, if it is limited."""
    if check_time is not None:
        learner.set_params(
            **{
                name: [*(value or ()), check_time]
                for name, value in learner.get_params().items()
                if name.rpartition("__")[2] == "callbacks"
            }
        )
    return learner


def _search(
    fitted: Any, queries: Array, database: Array, k: int, exclude: Integers | None = None, **_: Any
) -> tuple[Array, Integers]:
    """Search the neighbours under the metric of a fitted estimator."""
    search = clone(fitted).fit(database, np.arange(len(database)) % 2)
    distances, near = search.kneighbors(queries, min(k + 1, len(database)))
    if exclude is not None:
        order = np.argsort(near == exclude[:, None], axis=1, kind="stable")
        distances, near = (np.take_along_axis(each, order, 1) for each in (distances, near))
    return distances[:, :k], near[:, :k]


def _of_neighbors(scoring: Scoring, labels: Array, part: Part, search: Search) -> Floats:
    """Return the score of the prediction of the nearest neighbours of each query."""
    near = labels[part.database][search.nearest(scoring.n_neighbors)]
    if scoring.variances is not None:
        return shares(near.mean(axis=1), labels[part.queries], scoring.variances)
    votes = np.zeros((len(near), labels.max() + 1), np.int64)
    np.add.at(votes, (np.arange(len(near))[:, None], near), 1)
    return shares(votes.argmax(axis=1), labels[part.queries], None)


def _values(scoring: Scoring, fitted: Any, X: Any, y: Any) -> Floats:
    """Return the scores of held-out points, or of groups of them, by an estimator."""
    if scoring.scorer is not None:
        return grouped_scores(scoring.scorer, fitted, X, y)
    if scoring.new_classes:  # it predicts only classes of training points
        return np.zeros(len(y))
    return shares(fitted.predict(X), y, scoring.variances)


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


class Units(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Standardise features if `scale` is true, or leave them unchanged."""

    def __init__(self, scale: bool = True) -> None:
        self.scale = scale

    def fit(self, X: Any, y: Any = None) -> Units:
        """Compute the spread of each feature."""
        self.scaler_ = StandardScaler().fit(check_points(self, X, reset=True, **_TABLE))
        return self

    @property
    def scale_(self) -> Array:
        """The divisor of each feature."""
        found: Array = self.scaler_.scale_ if self.scale else np.ones(self.n_features_in_)
        return found

    def transform(self, X: Any) -> Array:
        """Return points in these units; sparse points become an array."""
        X = check_points(self, X, reset=False, **_TABLE)
        points: Array = self.scaler_.transform(X) if self.scale else as_points(X, "X")
        return points
