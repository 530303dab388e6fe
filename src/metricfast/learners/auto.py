"""A learner that tries several learners, and uses the best one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn.base import clone

from metricfast._core.arguments import check_random_state
from metricfast._core.parameters import NonNegativeFloat, NumberOfJobs, Seed
from metricfast._core.scaling import center_and_rescale, undo_scale
from metricfast._core.scatter import repetitions
from metricfast._core.targets import (
    check_classification_target,
    check_marks,
    check_regression_target,
    check_sample_weight,
    labels_of_samples,
)
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.warn import warn_user, without_advice
from metricfast.learners.base.learner import BaseMetricLearner, MahalanobisMixin
from metricfast.learners.base.span import SpanMap
from metricfast.learners.closed.anmm import ANMM
from metricfast.learners.closed.lfda import LFDA
from metricfast.learners.closed.rca import RCA_Supervised
from metricfast.learners.gerrymandering.regressor import NeighborhoodGerrymanderingRegressor
from metricfast.learners.lmnn import LMNN
from metricfast.learners.mlkr import MLKR
from metricfast.learners.nca import NCA
from metricfast.learners.tuples.kissme import KISSME_Supervised
from metricfast.metrics._selection import look_continuous
from metricfast.selection._evidence import choose, means
from metricfast.selection._folds import (
    FoldJudge,
    Path,
    embedded_path,
    fold_path,
    joined,
    judged,
    may_win,
    settled,
)
from metricfast.selection._judge import Judge, Judgement, JudgeParameter, as_judge
from metricfast.selection._splits import Part

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["AutoLearner"]

# The learners of "auto", the cheap ones first.
_OF_CLASSES = (LFDA, RCA_Supervised, KISSME_Supervised, ANMM, NCA, LMNN)
_OF_NUMBERS = (MLKR, NeighborhoodGerrymanderingRegressor)
# Above this number of points, these are trained on mini-batches.
_MANY, _BY_BATCHES = 10_000, (NCA, LMNN, MLKR)


@dataclass(eq=False, repr=False)
class AutoLearner(MahalanobisMixin):
    """The learner that suits the data, out of several, or the given distance.

    Each learner is trained on parts of the points, and judged by the points that are held out. The
    cheap learners come first. A learner that cannot be expected to become better than the best one
    so far is dropped after any part. The best learner is fitted to all points, with the setting
    that the held-out points chose. If no learner is better than the given distance beyond chance,
    this stays, with a warning. The evidence that the judge asks for is raised with the number of
    learners, because the best of several is better by chance more often than a single one.

    Parameters
    ----------
    learners : "auto" or sequence of learners, default="auto"
        Learners of a linear map, the cheap ones first. "auto" is `LFDA`, `RCA_Supervised`,
        `KISSME_Supervised`, `ANMM`, `NCA` and `LMNN` for classes; `MLKR` and
        `NeighborhoodGerrymanderingRegressor` for numbers. Standardised features are tried as well.
        If they are better than the given features, learners get them.
    judge : "auto" or Judge, default="auto"
        What is held out, and the cost of a held-out point, such as
        ``Judge(measure="verification")`` for pairs; see :class:`~metricfast.selection.Judge`.
    time_limit : float, optional
        Seconds for trying learners. The fit to all points at the end takes additional time.
    preprocessor : array-like or callable, optional
        Returns the points where `X` holds indicators of points.
    task : {"auto", "classes", "numbers"}, default="auto"
        What labels are. With "auto" they are numbers if they are fractions, or integers of which
        most occur only once.
    random_state : int, RandomState or None, default=None
        For learners without a `random_state` of their own.
    n_jobs : int, optional
        Number of threads, for learners without an `n_jobs` of their own.

    Attributes
    ----------
    learner_ : learner
        The learner in use, fitted to all points, with the same map. Its class has no public name
        if the given distance, or standardised features, are in use.
    judgement_ : metricfast.selection.Judgement
        The given distance, the learners that were tried to the end, and their costs.
    dropped_ : dict of str to str
        The other learners, and why they were dropped.
    components_ : ndarray of shape (n_components, n_features)
        The learned map.
    n_features_in_, feature_names_in_, preprocessor_, validation_
        As for :class:`BaseMetricLearner`.

    Notes
    -----
    :func:`metricfast.compare` also tries learners without a linear map, and predictors.

    Examples
    --------
    >>> from metricfast import AutoLearner
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> auto = AutoLearner(random_state=0).fit(X, y)
    >>> auto.learner_
    LFDA()
    >>> auto.transform(X).shape
    (178, 13)
    """

    learners: Any = "auto"
    judge: JudgeParameter = "auto"
    time_limit: NonNegativeFloat | None = None
    preprocessor: Any = None
    _: KW_ONLY
    task: Literal["auto", "classes", "numbers"] = "auto"
    random_state: Seed = None
    n_jobs: NumberOfJobs = None

    _requires_y = True

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        views: ArrayLike | None = None,
        validate: bool = False,
    ) -> Self:
        """Try the learners, and fit the best one to all points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples,) with a preprocessor
            Points. float32 stays float32, everything else becomes float64.
        y : array-like of shape (n_samples,)
            Classes, at least two, or numbers.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the points.
        groups : array-like of shape (n_samples,), optional
            The group of each point, such as the patient. Whole groups are held out.
        views : array-like of shape (n_samples,), optional
            The view of each point, such as the camera, if neighbours will be searched among points
            of other views.
        validate : bool, default=False
            Also fit a clone to a part of the data, compare it with the given distance on the rest,
            and warn if it is worse. `validation_` has the result.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If an argument or parameter has a value that cannot be used. The error of a learner is
            in `dropped_`.

        Warns
        -----
        UserWarning
            If the given distance stays.
        """
        points, labels = self._prepare_inputs(X, y, ensure_min_samples=2)
        judge = as_judge(self.judge)
        if judge is None:
            raise ValueError(
                "judge must be 'auto' or a Judge, which chooses the learner; got None."
            )
        n = len(points)
        given, self._has_classes = labels_of_samples(labels, n, "y"), True
        learners = self._candidates()
        if self.task != "classes" and (self.task == "numbers" or _takes_numbers(learners, given)):
            self._has_classes = False
        codes, targets = np.zeros(n, np.int64), given
        if self._has_classes:
            codes = targets = check_classification_target(given)[1]
        else:
            targets = check_regression_target(given)
        weight = check_sample_weight(sample_weight, n)
        marks = check_marks(n, groups=groups, views=views)
        if weight is not None and not weight.all():
            rows = np.flatnonzero(weight)
            points, given, weight = points[rows], given[rows], weight[rows]
            targets, codes = targets[rows], codes[rows]
            marks = {name: each[rows] for name, each in marks.items()}
        if learners == "auto":
            learners = _suited(self._has_classes, n)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        race = _Race(self, judge, points, given, targets, weight, marks)
        parts = judge.split(points, codes, weight, **marks)
        race.run(parts, [self._with_defaults(each, seed) for each in learners])
        self.learner_ = race.fitted()
        self.components_ = self.learner_._map
        self.judgement_, self.dropped_ = race.judgement(), race.dropped
        if not self.judgement_.chosen:
            warn_user(
                f"{self.judgement_.reason}, so the given distance stays: give more "
                f"{self.judgement_.unit}, or use a learner with judge=None to learn anyway."
            )
        if validate:
            self._validate_fit(X, y, sample_weight=sample_weight, groups=groups, views=views)
        return self

    def _candidates(self) -> Any:
        """Return the checked learners, or "auto"."""
        if isinstance(self.learners, str) and self.learners == "auto":
            return "auto"
        given = self.learners
        for each in given if isinstance(given, (list, tuple)) else [given]:
            if not isinstance(each, MahalanobisMixin) or each._tuple_size is not None:
                raise TypeError(
                    'learners must be "auto" or a list of learners of a linear map from points, '
                    f"got {each!r}."
                )
        if not isinstance(given, (list, tuple)) or not given:
            raise TypeError(f'learners must be "auto" or a list of learners, got {given!r}.')
        return list(given)

    def _with_defaults(self, learner: Any, seed: int) -> Any:
        """Return a copy of a learner with the seed and the threads, if it has none."""
        own = {"random_state": int(seed), "n_jobs": self.n_jobs}
        known = learner.get_params(deep=False)
        unset = {n: each for n, each in own.items() if n in known and known[n] is None}
        return clone(learner).set_params(**unset)

    def _mapped(self, points: Any) -> Any:
        """Return the points as `learner_` gets them."""
        return points


class GivenDistance(MahalanobisMixin):
    """The Euclidean distance, of features as they are or standardised."""

    def __init__(self, standardize: bool = False) -> None:
        super().__init__()
        self.standardize = standardize

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **_: Any) -> GivenDistance:
        """Set the map."""
        X = self._prepare_inputs(X)
        scale = np.ones(X.shape[1], X.dtype)
        if self.standardize:
            points, exponent = center_and_rescale(X.astype(np.float64))
            scale = np.ldexp(_spreads(points, sample_weight), exponent).astype(X.dtype)
        self.components_ = SpanMap.of_features(1 / scale)
        return self


class _Race:
    """Learners in a race on held-out parts, and the best one so far."""

    def __init__(
        self, auto: AutoLearner, judge: Judge, X: Array, y: Array, labels: Array,
        weight: Floats | None, marks: dict[str, Integers],
    ) -> None:  # fmt: skip
        self._judge, self._X, self._y, self._labels = judge, X, y, labels
        # Points in safe units, whose squares neither overflow nor underflow.
        self._safe, self._exponent = center_and_rescale(X.astype(np.float64))
        self._kind = "classes" if auto._has_classes else "numbers"
        self._how = {"sample_weight": weight, "views": marks.get("views")}
        self._how = {name: each for name, each in self._how.items() if each is not None}
        self._groups = marks.get("groups")
        limit = math.inf if auto.time_limit is None else float(auto.time_limit)
        self._end, self._start = time.perf_counter() + limit, time.perf_counter()
        self.dropped: dict[str, str] = {}
        self._rows: dict[str, Array] = {}  # costs by name
        self._best = self._base = "given distance"
        self._learner: Any = GivenDistance()
        self._path: Path | None = None

    def run(self, parts: list[Part], learners: list[Any]) -> None:
        """Try the given distance, standardised features, and the learners."""
        self._parts = parts
        errors = self._judge.errors_for(self._kind)
        # As rare for the best of all learners by chance as `errors` are for one (Bonferroni).
        n_tests = len(learners) if errors > 0 else 1
        self._errors = float(norm.isf(norm.sf(errors) / n_tests))
        weights = [part.weight for part in parts] or [np.empty(0)]
        self._weight = np.concatenate(weights)
        self._spreads = [self._spread(part.train) for part in parts]
        if not parts:
            return
        for name, learner in (
            ("given distance", None),
            ("standardised features", GivenDistance(standardize=True)),
        ):
            paths = [
                embedded_path(
                    self._judge_of(part),
                    None if learner is None else partial(np.multiply, 1 / spread),
                    self._safe, self._labels, name, kind=self._kind,
                )
                for part, spread in zip(parts, self._spreads, strict=True)
            ]  # fmt: skip
            self._rows[name] = joined(paths).costs[0]
            if learner is not None and self._better(name):
                self._best = self._base = name
                self._learner = learner
        for name, learner in _named(learners):
            try:
                with without_advice():
                    path = self._tried(name, learner)
            except OutOfTimeError:
                self.dropped[name] = "no time left"
            except Exception as error:  # a learner that fails must not end the others
                self.dropped[name] = f"{type(error).__name__}: {error}"
            else:
                if path is not None:
                    self._keep(name, learner, path)

    def _tried(self, name: str, learner: Any) -> Path | None:
        """Return the path of a learner on all parts, or None if it is dropped."""
        paths = list[Path]()
        for part, spread in zip(self._parts, self._spreads, strict=True):
            seen = np.empty(0)
            if paths:
                path = joined(paths)
                row = path.choose(self._judge, self._kind, self._weight[: path.costs.shape[1]])
                seen = -path.costs[row, :, 0]
            best = -self._rows[self._best][:, 0]
            if not may_win(seen, best, 0.0, self._weight):
                done = f"after part {len(paths)} of {len(self._parts)}: " if paths else ""
                self.dropped[name] = (
                    f"{done}not expected to be better than {self._best.partition(',')[0]}"
                )
                return None
            self._check_time()
            X = self._X
            if self._base != "given distance":
                X = (self._safe / spread).astype(X.dtype)
            judge, how = self._judge_of(part, self._check_time), self._how
            paths.append(
                fold_path(learner, judge, X, self._y, self._labels, kind=self._kind, **how)
            )
        return joined(paths)

    def _judge_of(self, part: Part, check_time: Callable[[], None] | None = None) -> FoldJudge:
        own = self._judge.get_params(deep=False)
        return FoldJudge(fold=part, labels=self._labels, check_time=check_time, **own)

    def _keep(self, name: str, learner: Any, path: Path) -> None:
        """Add the chosen setting of a learner, and lead with it if it is the best."""
        row = path.choose(self._judge, self._kind, self._weight)
        if len(path.settings) > 1:
            if not row:
                self.dropped[name] = f"not better than {self._base}"
                return
            name = f"{name}, {path.names[row]}"
        self._rows[name] = path.costs[row]
        if self._better(name) and self._mean(name) < self._mean(self._best):
            self._best, self._learner, self._path = name, learner, path

    def _better(self, name: str) -> bool:
        """Return whether a candidate is surely better than the distance to beat."""
        costs = np.stack([self._rows[self._base], self._rows[name]])
        guard = costs[..., 1] if costs.shape[2] > 1 else None
        return bool(choose(costs[..., 0], self._weight, errors=self._errors, guard=guard))

    def _mean(self, name: str) -> float:
        return float(means(self._rows[name][None, :, 0], self._weight)[0])

    def fitted(self) -> Any:
        """Return the best learner, fitted to all points, with its map of the points as given."""
        learner, path = clone(self._learner), self._path
        if path is None:
            return learner.fit(self._X, self._y, **self._how)
        own, unit = learner.judge if hasattr(learner, "judge") else None, self._parts[0].unit
        if len(path.settings) > 1:
            judgement = judged(path, self._judge, self._weight, unit, self._kind)
            learner.judge = settled(path, judgement, own)
        X, scale = self._X, None
        if self._base != "given distance":
            scale = self._spread(np.arange(len(X)))
            X = (self._safe / scale).astype(X.dtype)
        groups = {} if self._groups is None else {"groups": self._groups}
        learner.fit(X, self._y, **self._how, **groups)
        if len(path.settings) > 1:
            learner.judge = own
        if scale is not None:
            learner.components_ = undo_scale(learner.components_ / scale, self._exponent, X.dtype)
        return learner

    def judgement(self) -> Judgement:
        """Return the judgement of the learners that were tried to the end."""
        measure, _ = self._judge.costs_by(self._kind)
        names, unit, n = list(self._rows) or ["given distance"], "points", len(self._weight)
        if not self._parts:
            none = np.full(1, np.nan)
            reason = "Nothing could be held out to judge by"
            return Judgement(names, none, none, 0, measure, unit, 0, reason)
        unit = self._parts[0].unit
        costs = np.stack([each[:, 0] for each in self._rows.values()])
        share = self._weight / self._weight.sum()
        errors = np.sqrt(np.square((costs - costs[0]) * share).sum(axis=1))
        found, chosen = means(costs, self._weight), names.index(self._best)
        reason = (
            f"No learner was better than the given distance by {self._errors:.2g} standard errors "
            f"on {n} held-out {unit}"
        )
        if chosen:
            reason = (
                f"{self._best}: {measure} {found[chosen]:.4f} instead of {found[0]:.4f} by the "
                f"given distance on {n} held-out {unit}"
            )
        return Judgement(names, found, errors, chosen, measure, unit, n, reason)

    def _check_time(self) -> None:
        if time.perf_counter() >= self._end:
            raise OutOfTimeError

    def _spread(self, rows: Integers) -> Floats:
        weight = self._how.get("sample_weight")
        return _spreads(self._safe[rows], None if weight is None else weight[rows])


class OutOfTimeError(Exception):
    """The time for trying learners is over."""


def _spreads(X: Array, weight: Any) -> Floats:
    """Return the standard deviation of each feature; 1 for constant features."""
    shares = repetitions(weight, len(X))
    mean = np.average(X, axis=0, weights=shares)
    spreads = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=shares))
    return np.where(spreads > 0, spreads, 1.0)


def _suited(classes: bool, n_points: int) -> list[Any]:
    """Return the learners of "auto"."""
    return [
        kind(solver="adam") if n_points > _MANY and kind in _BY_BATCHES else kind()
        for kind in (_OF_CLASSES if classes else _OF_NUMBERS)
    ]


def _takes_numbers(learners: Any, labels: Array) -> bool:
    """Return whether labels are numbers, as the learners take them, or else by their values."""
    kinds = set() if learners == "auto" else {each._has_classes for each in learners}
    return not kinds.pop() if len(kinds) == 1 else look_continuous(labels)


def _named(learners: list[Any]) -> Iterator[tuple[str, BaseMetricLearner]]:
    """Yield learners with their names, which are different."""
    names = [type(each).__name__ for each in learners]
    for i, (name, learner) in enumerate(zip(names, learners, strict=True)):
        yield (name if names.count(name) == 1 else f"{name} {names[:i].count(name) + 1}"), learner
