"""The data of an AutoLearner: points or tuples, held-out parts, and learners on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_array
from sklearn.utils.multiclass import type_of_target

from metricfast._core.arguments import as_array
from metricfast._core.scaling import center_and_rescale
from metricfast._core.targets import (
    check_classification_target,
    check_marks,
    check_regression_target,
    check_sample_weight,
    labels_of_samples,
)
from metricfast._core.tuples import index_tuples
from metricfast._core.types import Array, Floats
from metricfast._core.wide_map import WideMap
from metricfast._labels.tags import are_tags, as_tags
from metricfast.distances.neighbors import paired_distances
from metricfast.learners.base.choice import standardizing
from metricfast.learners.base.inputs import begin_fit
from metricfast.learners.base.learner import BaseMetricLearner, MahalanobisMixin
from metricfast.learners.base.span import SpanMap
from metricfast.metrics._selection import look_continuous
from metricfast.selection._folds import (
    FoldJudge,
    Path,
    embedded_path,
    fold_path,
    joined,
    judged,
    settled,
)
from metricfast.selection._judge import Judge
from metricfast.selection._measures import order
from metricfast.selection._splits import Part, split_tuples

__all__ = ["TUPLES", "GivenDistance", "LabelledPoints", "LabelledTuples", "map_of", "shape_of"]

# Names of tuples by size.
TUPLES = {2: "pairs", 3: "triplets", 4: "quadruplets"}


class GivenDistance(MahalanobisMixin):
    """The Euclidean distance, of features as they are or standardised."""

    def __init__(self, standardize: bool = False) -> None:
        super().__init__()
        self.standardize = standardize

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **_: Any) -> GivenDistance:
        """Set the map."""
        X = self._prepare_inputs(X)
        units = standardizing(X, sample_weight) if self.standardize else np.ones(X.shape[1])
        self.components_ = SpanMap.of_features(units.astype(X.dtype))
        return self


class LabelledPoints:
    """Points with labels, their held-out parts, and learners on them."""

    def __init__(
        self, auto: BaseMetricLearner, judge: Judge, learners: list[Any] | None, X: Any, y: Any,
        validate: bool, given: dict[str, Any],
    ) -> None:  # fmt: skip
        columns = shape_of(y, "y")[1:]
        several = bool(columns) and columns != (1,)
        tagged = several and (are_tags(y) or type_of_target(y) == "multilabel-indicator")
        how: dict[str, Any] = {"ensure_min_samples": 2, "accept_sources": not validate}
        if several:
            X = auto._prepare_inputs(X, "no_validation", **how)
        else:
            X, y = auto._prepare_inputs(X, y, **how)
        n = X.shape[0]
        codes = np.zeros(n, np.int64)
        numbers = {not each._has_classes for each in learners or ()}
        if tagged:
            self.kind, y = "tags", as_tags(y, "y", n)
            targets = y
        elif several:
            self.kind = "vectors"
            y = targets = check_array(y, dtype=np.float64, input_name="y")
        else:
            y = targets = labels_of_samples(y, n, "y")
            of_numbers = look_continuous(y) if len(numbers) != 1 else numbers.pop()
            self.kind = "numbers" if of_numbers else "classes"
            if of_numbers:
                targets = check_regression_target(y)
            else:
                codes = targets = check_classification_target(y)[1]
        weight = check_sample_weight(given.get("sample_weight"), n)
        marks = check_marks(n, **{m: given.get(m) for m in ("groups", "views")})
        self.n_samples = n
        self._all = X, y, {**marks, **({} if weight is None else {"sample_weight": weight})}
        self.labels = "numbers" if self.kind in ("numbers", "vectors") else "classes"
        auto._has_classes, self._judge = self.labels == "classes", judge
        self.measure = judge.costs_by(self.labels)[0]
        rows = judge.draw(codes, weight)
        self._X, self._y, self._targets = X[rows], y[rows], targets[rows]
        self._X = np.asarray(self._X)
        self._coordinates = center_and_rescale(self._X.astype(np.float64))[0]
        self._share = None if weight is None else weight[rows]
        of_rows = {name: each[rows] for name, each in marks.items()}
        self._how = {name: each for name, each in of_rows.items() if name == "views"}
        if self._share is not None:
            self._how["sample_weight"] = self._share
        self.parts = judge.split(self._X, codes[rows], self._share, **of_rows)
        self.unit = self.parts[0].unit if self.parts else "points"
        self.weight = np.concatenate([each.weight for each in self.parts] or [np.empty(0)])

    def unlearned(self, given: GivenDistance, part: Part) -> Path:
        """Return the path of a distance that needs no learning."""
        units = self._units(part) if given.standardize else np.ones(1)
        how: dict[str, Any] = {"name": "", "kind": self.labels}
        return embedded_path(
            self._judge_of(part), partial(np.multiply, units), self._coordinates, self._targets,
            **how,
        )  # fmt: skip

    def path(
        self, learner: Any, part: Part, standardize: bool, check_time: Callable[[], None]
    ) -> Path:
        """Return the path of a learner."""
        X = self._X * self._units(part).astype(self._X.dtype) if standardize else self._X
        judge = self._judge_of(part, check_time)
        return fold_path(learner, judge, X, self._y, self._targets, kind=self.labels, **self._how)

    def fitted(self, learner: Any, paths: Any = None, standardize: bool = False) -> Any:
        """Return a learner that is fitted to all points, with a map of the points as given."""
        X, y, how = self._all
        if isinstance(learner, GivenDistance):
            return learner.fit(self._X, None, self._share)
        learner, path, units = clone(learner), joined(paths or []), None
        if standardize:
            units = standardizing(self._X, self._share)
            X = X * units
        own, chooses = getattr(learner, "judge", None), len(path.settings) > 1
        if chooses:
            path = replace(path, costs=path.costs[..., :-1])
            judgement = judged(path, self._judge, self.weight, self.unit, self.labels)
            learner.judge = settled(path, judgement, own)
        learner.fit(X, y, **how)
        if chooses:
            learner.judge = own
        if units is not None:
            _rescale(learner, units)
        return learner

    def _units(self, part: Part) -> Array:
        share = None if self._share is None else self._share[part.train]
        return standardizing(self._coordinates[part.train], share)

    def _judge_of(self, part: Part, check_time: Callable[[], None] | None = None) -> FoldJudge:
        own = self._judge.get_params(deep=False)
        return FoldJudge(fold=part, labels=self._targets, check_time=check_time, **own)


class LabelledTuples:
    """Pairs, triplets or quadruplets, of which each half is held out in turn."""

    labels, measure, unit = "classes", "order", "tuples"

    def __init__(
        self,
        auto: BaseMetricLearner,
        judge: Judge,
        X: Any,
        y: Any,
        validate: bool,
        given: dict[str, Any],
    ) -> None:
        size = auto._tuple_size
        assert size is not None
        self.kind = TUPLES[size]
        for name in [*given, *["validate"] * validate]:
            raise ValueError(f"{name} is for points, but X holds {self.kind}: leave it out.")
        if judge.measure != "auto" or judge.unit != "auto":
            raise ValueError(
                "judge must have measure='auto' and unit='auto' for tuples, which are judged by "
                f"their order; got {judge!r}."
            )
        if size == 2 and (y is None or not np.isin(y, (-1, 1)).all()):
            raise ValueError(
                "y must hold 1 for similar pairs and -1 for others. AdapterLearner learns from "
                "scores of pairs, and from pairs that belong together, and judges itself."
            )
        begin_fit(auto)
        how: dict[str, Any] = {"preprocessor": auto.preprocessor_, "tuple_size": size}
        tuples = index_tuples(auto, X, y if size == 2 else None, reset=True, **how)
        self.n_samples = len(tuples.index)
        self._auto, self._index, self._y = auto, tuples.index, tuples.y
        self._points, self._used = tuples.points, tuples.used_points()
        self._coordinates = center_and_rescale(tuples.points.astype(np.float64))[0]
        held = split_tuples(tuples, np.random.RandomState(0))
        self.parts: list[Any] = [(~held, held), (held, ~held)]
        kinds = [2 if self._y is None else len(set(self._y[held])) for _, held in self.parts]
        if min(kinds) < 2 or not all(held.any() for _, held in self.parts):
            self.parts = []
        self.weight: Floats = np.ones(len(held) if self.parts else 0)

    def unlearned(self, given: GivenDistance, part: Any) -> Path:
        """Return the path of a distance that needs no learning."""
        return self._path(given.fit(self._used), part)

    def path(
        self, learner: Any, part: Any, standardize: bool, check_time: Callable[[], None]
    ) -> Path:
        """Return the path of a learner."""
        check_time()
        return self._path(self._fit(learner, part[0], standardize), part)

    def fitted(self, learner: Any, paths: Any = None, standardize: bool = False) -> Any:
        """Return a learner that is fitted to all tuples, with a map of the points as given."""
        if isinstance(learner, GivenDistance):
            return learner.fit(self._used)
        learner = self._fit(learner, np.ones(len(self._index), bool), standardize)
        learner.preprocessor = self._auto.preprocessor
        learner.preprocessor_ = self._auto.preprocessor_
        return learner

    def _fit(self, learner: Any, rows: Array, standardize: bool) -> Any:
        units = standardizing(self._used, None) if standardize else None
        points = self._points if units is None else self._points * units
        labels = () if self._y is None else (self._y[rows],)
        learner = clone(learner).set_params(preprocessor=points).fit(self._index[rows], *labels)
        if units is not None:
            _rescale(learner, units)
        return learner

    def _path(self, learner: Any, part: Any) -> Path:
        index, labels = self._index[part[1]], None if self._y is None else self._y[part[1]]
        L, (_, size) = map_of(learner), index.shape
        Z = self._coordinates
        Z = L.embed(Z) if isinstance(L, WideMap) else Z @ L.T.astype(np.float64)
        scores = -paired_distances(Z, pairs=index[:, :2])
        if size > 2:
            scores += paired_distances(Z, pairs=index[:, [0, 2] if size == 3 else [2, 3]])
        costs = order(scores, labels)
        return Path([("",)], costs[None, :, None], np.zeros(1))


def shape_of(values: Any, name: str) -> tuple[int, ...]:
    """Return the shape of an array-like."""
    return tuple((values if hasattr(values, "shape") else as_array(values, name)).shape)


def map_of(learner: Any) -> Any:
    """Return the linear map of a fitted learner."""
    return learner.parameters_[0] if hasattr(learner, "parameters_") else learner._map


def _rescale(learner: Any, units: Array) -> None:
    """Turn a map of points times `units` into a map of the points."""
    if hasattr(learner, "parameters_"):
        learner.parameters_ = [learner.parameters_[0] * units]
        learner.mean_ = learner.mean_ / units
    else:
        learner.components_ = learner._map * units
