"""The data of an AutoLearner: points or tuples, held-out parts, and learners on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    check_regression_target,
    labels_of_samples,
)
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.wide_map import WideMap
from metricfast._labels.binding import bind_labels, label_sequence
from metricfast._labels.distance import LabelDistance, subset
from metricfast._labels.tags import are_tags, as_tags
from metricfast.distances.neighbors import paired_distances
from metricfast.learners.base.choice import standardizing
from metricfast.learners.base.inputs import check_order_judge
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.metrics._selection import look_continuous
from metricfast.selection._folds import FoldJudge, Path, embedded_path, fold_path, settled
from metricfast.selection._judge import Judge
from metricfast.selection._measures import order
from metricfast.selection._splits import Part, split_tuples

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
        self.components_ = WideMap(units, dtype=X.dtype)
        return self


@dataclass(frozen=True)
class Labels:
    """The labels of points.

    Attributes
    ----------
    kind : {"classes", "numbers", "vectors", "tags", "labels"}
    values : array-like
        The labels as learners take them.
    targets : ndarray or sparse matrix
        The labels as measures take them.
    codes : ndarray of shape (n,)
        Class indices, all 0 for other labels.
    distance : LabelDistance or None
        The distance of the labels, if one was given.
    """

    kind: str
    values: Any
    targets: Any
    codes: Integers
    distance: LabelDistance | None = None

    @classmethod
    def of(cls, y: Any, n: int, numeric: bool | None, said: Any) -> Labels:
        """Check the labels of n points.

        `numeric`: whether labels in one column are numbers. None: their values decide.
        `said`: the label distance, or None.
        """
        codes, several = np.zeros(n, np.int64), has_columns(y)
        if said is not None:
            distance, targets, _ = bind_labels(said, y, sizes=(n, n))
            return cls("labels", label_sequence(said, y, "y"), targets, codes, distance)
        if several and (are_tags(y) or type_of_target(y) == "multilabel-indicator"):
            tags = as_tags(y, "y", n)
            return cls("tags", tags, tags, codes)
        if several:
            vectors = check_array(y, dtype=np.float64, input_name="y")
            return cls("vectors", vectors, vectors, codes)
        y = labels_of_samples(y, n, "y")
        if look_continuous(y) if numeric is None else numeric:
            return cls("numbers", y, check_regression_target(y), codes)
        codes = check_classification_target(y)[1]
        return cls("classes", y, codes, codes)

    @property
    def measured(self) -> str:
        """Their kind, as in :meth:`Judge.costs_by`."""
        if self.distance is not None and not self.distance.is_euclidean:
            return "distances"
        return "classes" if self.kind in ("classes", "tags") else "numbers"


class LabelledPoints:
    """Points with labels, their held-out parts, and learners on them.

    `marks`: indices of groups and views.
    """

    def __init__(
        self, judge: Judge, X: Any, labels: Labels, weight: Floats | None,
        marks: dict[str, Integers],
    ) -> None:  # fmt: skip
        self.kind, self.labels, self.n_samples = labels.kind, labels.measured, X.shape[0]
        how: dict[str, Any] = {**marks} if weight is None else {**marks, "sample_weight": weight}
        self._all, self._judge = (X, labels.values, how), judge
        self.measure = judge.costs_by(self.labels)[0]
        rows, self._X, _, self._share, self.parts = judge.sample(X, labels.codes, weight, **marks)
        self._y = subset(labels.values, rows)
        self._targets, self._distance = labels.targets[rows], labels.distance
        self._coordinates = center_and_rescale(self._X.astype(np.float64))[0]
        self._how = {name: each[rows] for name, each in how.items() if name != "groups"}
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
        self, learner: Any, part: Part, standardize: bool, check_time: Callable[[], None],
        earlier: Sequence[Path],
    ) -> Path:  # fmt: skip
        """Return the path of a learner; `earlier`: its paths on earlier parts."""
        X = self._X * self._units(part).astype(self._X.dtype) if standardize else self._X
        judge = self._judge_of(part, check_time, earlier)
        return fold_path(learner, judge, X, self._y, self._targets, kind=self.labels, **self._how)

    def fitted(self, learner: Any, paths: Any = None, standardize: bool = False) -> Any:
        """Return a learner that is fitted to all points, with a map of the points as given."""
        X, y, how = self._all
        if isinstance(learner, GivenDistance):
            return learner.fit(self._X, None, self._share)
        learner, units = clone(learner), None
        if standardize:
            units = standardizing(self._X, self._share)
            X = X * units
        own = getattr(learner, "judge", None)
        judge = settled(paths, self._judge, self.weight, self.unit, self.labels, own)
        if judge is not own:
            learner.judge = judge
        learner.fit(X, y, **how)
        if judge is not own:
            learner.judge = own
        if units is not None:
            _rescale(learner, units)
        return learner

    def _units(self, part: Part) -> Array:
        share = None if self._share is None else self._share[part.train]
        return standardizing(self._coordinates[part.train], share)

    def _judge_of(
        self, part: Part, check_time: Callable[[], None] | None = None, earlier: Sequence[Path] = ()
    ) -> FoldJudge:
        own = self._judge.get_params(deep=False)
        how = {"labels": self._targets, "distance": self._distance, "check_time": check_time}
        return FoldJudge(fold=part, earlier=earlier, **own, **how)


class LabelledTuples:
    """Pairs, triplets or quadruplets, of which each half is held out in turn."""

    labels, measure, unit = "classes", "order", "tuples"

    def __init__(self, judge: Judge, tuples: TupleSet) -> None:
        check_order_judge(judge)
        self.kind = TUPLES[tuples.index.shape[1]]
        self.n_samples = len(tuples.index)
        self._index, self._y = tuples.index, tuples.y
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
        self, learner: Any, part: Any, standardize: bool, check_time: Callable[[], None],
        earlier: Sequence[Path],
    ) -> Path:  # fmt: skip
        """Return the path of a learner, which does not depend on earlier parts."""
        del earlier
        check_time()
        return self._path(self._fit(learner, part[0], standardize), part)

    def fitted(self, learner: Any, paths: Any = None, standardize: bool = False) -> Any:
        """Return a learner that is fitted to all tuples, with a map of the points as given."""
        if isinstance(learner, GivenDistance):
            return learner.fit(self._used)
        return self._fit(learner, np.ones(len(self._index), bool), standardize)

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


def has_columns(y: Any) -> bool:
    """Return whether labels are in several columns."""
    columns = shape_of(y, "y")[1:]
    return bool(columns) and columns != (1,)


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
