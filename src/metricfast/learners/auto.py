"""A learner that tries several learners, and uses the best one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn.base import clone
from sklearn.utils import check_array
from sklearn.utils.multiclass import type_of_target

import metricfast.losses as losses
from metricfast._core.arguments import as_array, check_random_state, did_you_mean
from metricfast._core.parameters import NonNegativeFloat, NumberOfJobs, Seed
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
from metricfast._core.warn import warn_user, without_advice
from metricfast._core.wide_map import WideMap
from metricfast._labels.tags import are_tags, as_tags
from metricfast.distances.neighbors import paired_distances
from metricfast.embeddings import Linear
from metricfast.learners.base.choice import standardizing
from metricfast.learners.base.inputs import begin_fit
from metricfast.learners.base.learner import BaseMetricLearner, MahalanobisMixin
from metricfast.learners.base.span import SpanMap
from metricfast.learners.closed.anmm import ANMM
from metricfast.learners.closed.lfda import LFDA
from metricfast.learners.closed.rca import RCA_Supervised
from metricfast.learners.embedding.base import BaseEmbeddingLearner
from metricfast.learners.embedding.learner import EmbeddingLearner
from metricfast.learners.embedding.presets import LogRatioLearner
from metricfast.learners.gerrymandering.regressor import NeighborhoodGerrymanderingRegressor
from metricfast.learners.lmnn import LMNN
from metricfast.learners.mlkr import MLKR
from metricfast.learners.nca import NCA
from metricfast.learners.tuples.gmml import GMML
from metricfast.learners.tuples.itml import ITML
from metricfast.learners.tuples.kissme import KISSME, KISSME_Supervised
from metricfast.learners.tuples.lsml import LSML
from metricfast.learners.tuples.mmc import MMC
from metricfast.learners.tuples.scml import SCML
from metricfast.learners.tuples.sdml import SDML
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
from metricfast.selection._judge import Judge, Judgement, JudgeParameter, as_judge, judge_costs
from metricfast.selection._measures import order
from metricfast.selection._race import OutOfTimeError, Race, with_scores
from metricfast.selection._splits import Part, split_tuples

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["AutoLearner"]

# The learners of "auto", the cheap ones first.
_SUITED: dict[str, tuple[Callable[[], Any], ...]] = {
    "classes": (LFDA, RCA_Supervised, KISSME_Supervised, ANMM, NCA, LMNN),
    "numbers": (MLKR, NeighborhoodGerrymanderingRegressor),
    "vectors": (LogRatioLearner,),
    "tags": (
        partial(EmbeddingLearner, losses.NCA(), solver="lbfgs"),
        partial(EmbeddingLearner, losses.SupCon(), Linear(normalize=False)),
    ),
    "pairs": (KISSME, GMML, SDML, ITML, MMC),
    "triplets": (SCML,),
    "quadruplets": (LSML,),
}
_TUPLES = {2: "pairs", 3: "triplets", 4: "quadruplets"}
# Above this number of points, these are trained on mini-batches.
_MANY, _BY_BATCHES = 10_000, (NCA, LMNN, MLKR)
_GIVEN, _STANDARDIZED = "given distance", "standardised features"


@dataclass(eq=False, repr=False)
class AutoLearner(MahalanobisMixin):
    """The learner that suits the data, out of several, or the given distance.

    Each learner is trained on parts of the points, and judged by the points that are held out. The
    cheap learners come first. A learner that is behind the best one so far by half a standard
    error is dropped after any part. The best learner is fitted to all points, with the setting
    that the held-out points chose. If no learner is better than the given distance beyond chance,
    this stays, with a warning. The evidence that the judge asks for is raised with the number of
    learners, because the best of several is better by chance more often than a single one.

    Parameters
    ----------
    learners : "auto" or sequence of learners, default="auto"
        Learners of a linear map, the cheap ones first. "auto" depends on the data:

        - classes: `LFDA`, `RCA_Supervised`, `KISSME_Supervised`, `ANMM`, `NCA` and, unless classes
          are held out, `LMNN`;
        - numbers: `MLKR` and `NeighborhoodGerrymanderingRegressor`;
        - vectors: `LogRatioLearner`;
        - tags: `EmbeddingLearner` with the losses `NCA` and `SupCon`;
        - pairs: `KISSME`, `GMML`, `SDML`, `ITML` and `MMC`;
        - triplets: `SCML`; quadruplets: `LSML`.

        Standardised features are tried as well. If they are better than the given features,
        learners get them.
    judge : "auto" or Judge, default="auto"
        What is held out, and the cost of a held-out point, such as
        ``Judge(measure="verification")`` for pairs; see :class:`~metricfast.selection.Judge`.
    time_limit : float, optional
        Seconds for trying learners. The fit to all points at the end takes additional time.
    preprocessor : array-like or callable, optional
        Returns the points where `X` holds indicators of points.
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
        The given distance, standardised features, the learners that were tried to the end, and
        their costs. Its `reason` is a sentence. The setting of a learner, such as its shrinkage, is
        chosen by the other parts for each held-out part, so costs are not optimistic.
    dropped_ : dict of str to str
        The other learners, and why they were dropped.
    components_ : ndarray of shape (n_components, n_features)
        The learned map.
    threshold_ : float
        Only for pairs: the distance up to which pairs are similar, as for `predict_pairs`.
    n_features_in_, feature_names_in_, preprocessor_, validation_
        As for :class:`BaseMetricLearner`.

    Notes
    -----
    :func:`metricfast.compare` also tries learners without a linear map, and predictors. Half of the
    tuples are held out in turn, and their order is judged.

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
    random_state: Seed = None
    n_jobs: NumberOfJobs = None

    _requires_y = True

    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        views: ArrayLike | None = None,
        validate: bool = False,
    ) -> Self:
        """Try the learners, and fit the best one to all points.

        Parameters
        ----------
        X : array-like or source of shape (n_samples, n_features), or (n_samples,) with a \
                preprocessor
            Points. float32 stays float32, everything else becomes float64. Learners are tried on
            5,000 points at most, drawn at random. Or tuples, of shape (n_tuples, size, n_features),
            or (n_tuples, size) with a preprocessor: pairs, triplets, of which the second point is
            nearer to the first than the third is, or quadruplets, of which the first two are nearer
            to each other than the last two are.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), or sparse matrix
            Classes, at least two; or numbers, if they are fractions, or integers of which most
            occur only once, or if all given learners take numbers; or vectors; or tags, zeros and
            ones in columns. For pairs, 1 if they are similar and -1 if not. Triplets and
            quadruplets have no labels.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the points.
        groups, views : array-like of shape (n_samples,), optional
        validate : bool, default=False
            All as for :meth:`LFDA.fit`.

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
        judge = as_judge(self.judge)
        if judge is None:
            raise ValueError(
                "judge must be 'auto' or a Judge, which chooses the learner; got None."
            )
        learners = self._given_learners()
        self._tuple_size = self._size_of_tuples(X, learners)
        given = {"sample_weight": sample_weight, "groups": groups, "views": views}
        given = {name: each for name, each in given.items() if each is not None}
        data: _Points | _Tuples
        if self._tuple_size is None:
            data = _Points(self, judge, learners, X, y, validate, given)
        else:
            data = _Tuples(self, judge, X, y, validate, given)
        if learners is None:
            learners = _suited(data)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        self._choose(data, judge, [self._with_defaults(each, seed) for each in learners])
        if self._tuple_size == 2:
            self.learner_.threshold_ = self.calibrate_threshold(X, y).threshold_
        if not self.judgement_.chosen:
            warn_user(
                f"{self.judgement_.reason}, so the given distance stays: give more "
                f"{self.judgement_.unit}, or use a learner with judge=None to learn anyway."
            )
        if validate:
            self._validate_fit(X, y, **given)
        return self

    def _choose(self, data: _Points | _Tuples, judge: Judge, learners: list[Any]) -> None:
        """Try the learners on held-out parts, and set the fitted attributes."""
        start, limit = time.perf_counter(), self.time_limit
        end = start + (math.inf if limit is None else float(limit))
        # Parts choose a setting by the lowest cost: evidence is asked for once, of the learner.
        race = Race(replace(judge, errors=0), data.labels, data.weight)
        # As rare for the best of all learners by chance as `errors` are for one (Bonferroni).
        errors = judge.errors_for(data.labels)
        errors = float(norm.isf(norm.sf(errors) / len(learners))) if errors > 0 else 0.0
        strict, base = replace(judge, errors=errors), 0
        self.dropped_: dict[str, str] = {}

        def judged_now() -> Judgement:
            rows = [
                np.stack([race.column(paths, i) for i in range(paths[0].costs.shape[2] - 1)], -1)
                for paths in race.paths.values()
            ]
            costs = np.array(rows) if rows else np.empty((1, 0))
            costs = costs[..., 0] if costs.ndim == 3 and costs.shape[2] == 1 else costs
            return judge_costs(
                strict, list(race.paths) or [_GIVEN], costs, data.weight, data.measure, data.unit,
                labels=data.labels, base=base,
            )  # fmt: skip

        def check_time() -> None:
            if time.perf_counter() >= end:
                raise OutOfTimeError("no time left")

        for name in (_GIVEN, _STANDARDIZED) if data.parts else ():
            given = GivenDistance(name == _STANDARDIZED)
            race.paths[name] = [with_scores(data.unlearned(given, each)) for each in data.parts]
        judgement = judged_now()
        base, race.leader = judgement.chosen, judgement.name
        found: dict[str, Any] = {}
        for name, learner in _named(learners) if data.parts else ():
            paths, note = list[Path](), ""
            try:
                for part in data.parts:
                    note = race.dropped(paths, len(data.parts))
                    if note:
                        break
                    check_time()
                    with without_advice():
                        path = data.path(learner, part, base == 1, check_time)
                    paths.append(with_scores(path))
            except OutOfTimeError as error:
                note = str(error)
            except Exception as error:  # a learner that fails must not end the others
                note = f"{type(error).__name__}: {error}"
            if note:
                self.dropped_[name] = note
                continue
            race.paths[name], found[name] = paths, learner
            judgement = judged_now()
            race.leader = judgement.name
        name, seconds = judgement.name, time.perf_counter() - start
        if name in found:
            self.learner_ = data.fitted(found[name], race.paths[name], base == 1)
        else:
            self.learner_ = data.fitted(GivenDistance(name == _STANDARDIZED))
        self.components_ = _map_of(self.learner_)
        self.judgement_ = replace(judgement, reason=_sentence(judgement, errors, seconds))

    def _given_learners(self) -> list[Any] | None:
        """Return the learners, or None for "auto"."""
        given = self.learners
        if isinstance(given, str) and given == "auto":
            return None
        if not isinstance(given, (list, tuple)) or not given:
            hint = did_you_mean(given, ["auto"]) if isinstance(given, str) else ""
            raise TypeError(f'learners must be "auto" or a list of learners, got {given!r}.{hint}')
        size = getattr(given[0], "_tuple_size", None)
        for each in given:
            if isinstance(each, type):
                name = each.__name__
                raise TypeError(f"learners must not be classes: did you mean {name}()?")
            if not _is_linear(each) or each._tuple_size != size:
                raise TypeError(
                    'learners must be "auto" or a list of learners of a linear map, all of points '
                    f"or all of tuples of one size; got {each!r}."
                )
        return list(given)

    def _size_of_tuples(self, X: Any, learners: list[Any] | None) -> int | None:
        """Return the number of points in a tuple, or None for points."""
        if learners is not None:
            return getattr(learners[0], "_tuple_size", None)
        shape, size = _shape(X, "X"), None
        if len(shape) == 3 or (self.preprocessor is not None and len(shape) == 2):
            size = int(shape[1])
        if size not in _TUPLES and len(shape) == 3:
            raise ValueError(
                f"X must hold points, or pairs, triplets or quadruplets; found shape {shape}."
            )
        indicators = len(shape) == 3 or np.asarray(X).dtype.kind != "f"
        return size if size in _TUPLES and indicators else None

    def _with_defaults(self, learner: Any, seed: int) -> Any:
        """Return a copy of a learner with the seed and the threads, if it has none."""
        own = {"random_state": int(seed), "n_jobs": self.n_jobs}
        known = learner.get_params(deep=False)
        unset = {n: each for n, each in own.items() if n in known and known[n] is None}
        return clone(learner).set_params(**unset)

    def _mapped(self, points: Any) -> Any:
        """Return the points as `learner_` gets them."""
        return points

    def _learned(self) -> Iterator[tuple[str, str]]:
        if hasattr(self, "judgement_"):
            yield "chosen", self.judgement_.reason
        yield from super()._learned()


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


class _Points:
    """Points with labels, their held-out parts, and learners on them."""

    def __init__(
        self, auto: AutoLearner, judge: Judge, learners: list[Any] | None, X: Any, y: Any,
        validate: bool, given: dict[str, Any],
    ) -> None:  # fmt: skip
        columns = _shape(y, "y")[1:]
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


class _Tuples:
    """Pairs, triplets or quadruplets, of which each half is held out in turn."""

    labels, measure, unit = "classes", "order", "tuples"

    def __init__(
        self, auto: AutoLearner, judge: Judge, X: Any, y: Any, validate: bool, given: dict[str, Any]
    ) -> None:
        size = auto._tuple_size
        assert size is not None
        self.kind = _TUPLES[size]
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
        L, (_, size) = _map_of(learner), index.shape
        Z = self._coordinates
        Z = L.embed(Z) if isinstance(L, WideMap) else Z @ L.T.astype(np.float64)
        scores = -paired_distances(Z, pairs=index[:, :2])
        if size > 2:
            scores += paired_distances(Z, pairs=index[:, [0, 2] if size == 3 else [2, 3]])
        costs = order(scores, labels)
        return Path([("",)], costs[None, :, None], np.zeros(1))


def _suited(data: _Points | _Tuples) -> list[Any]:
    """Return the learners of "auto"."""
    kinds, many = _SUITED[data.kind], data.n_samples > _MANY
    if data.unit == "classes":  # of few points each, which have no neighbours of their class
        kinds = tuple(kind for kind in kinds if kind is not LMNN)
    return [kind(solver="adam") if many and kind in _BY_BATCHES else kind() for kind in kinds]


def _shape(values: Any, name: str) -> tuple[int, ...]:
    """Return the shape of an array-like."""
    return tuple((values if hasattr(values, "shape") else as_array(values, name)).shape)


def _is_linear(learner: Any) -> bool:
    """Return whether a learner learns a linear map of points."""
    if isinstance(learner, BaseEmbeddingLearner):
        embedding = learner._parts()[1]
        loss = learner._parts()[0]
        unit = embedding.normalize if hasattr(embedding, "normalize") else None
        unit = getattr(loss, "of_unit_length", False) if unit is None else unit
        return isinstance(embedding, Linear) and not unit
    return isinstance(learner, MahalanobisMixin)


def _map_of(learner: Any) -> Any:
    """Return the linear map of a fitted learner."""
    return learner.parameters_[0] if hasattr(learner, "parameters_") else learner._map


def _rescale(learner: Any, units: Array) -> None:
    """Turn a map of points times `units` into a map of the points."""
    if hasattr(learner, "parameters_"):
        learner.parameters_ = [learner.parameters_[0] * units]
        learner.mean_ = learner.mean_ / units
    else:
        learner.components_ = learner._map * units


def _sentence(judgement: Judgement, errors: float, seconds: float) -> str:
    """Return what was chosen, and by how much it is better."""
    if not judgement.n_held_out:
        return judgement.reason
    on = f"on {judgement.n_held_out} held-out {judgement.unit}"
    if not judgement.chosen:
        return f"No learner was better than the given distance by {errors:.2g} standard errors {on}"
    given, cost = judgement.costs[[0, judgement.chosen]]
    return (
        f"{judgement.name}: {judgement.measure} {cost:.4f} instead of {given:.4f} by the given "
        f"distance {on}, chosen in {seconds:.2g} s"
    )


def _named(learners: list[Any]) -> Iterator[tuple[str, BaseMetricLearner]]:
    """Yield learners with their names, which are different."""
    names = [type(each).__name__ for each in learners]
    for i, (name, learner) in enumerate(zip(names, learners, strict=True)):
        yield (name if names.count(name) == 1 else f"{name} {names[:i].count(name) + 1}"), learner
