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
from sklearn.base import clone

import metricfast.losses as losses
from metricfast._core.arguments import check_random_state, did_you_mean
from metricfast._core.parameters import NonNegativeFloat, NumberOfJobs, Seed
from metricfast._core.targets import check_marks, check_sample_weight
from metricfast._core.tuples import TupleSet, index_tuples
from metricfast._core.warn import warn_user, without_advice
from metricfast._exports import LEARNERS
from metricfast._labels.binding import SaidDistance, agreed
from metricfast.embeddings import Linear
from metricfast.learners.auto_data import (
    TUPLES,
    GivenDistance,
    LabelledPoints,
    LabelledTuples,
    Labels,
    has_columns,
    map_of,
    shape_of,
)
from metricfast.learners.base.inputs import begin_fit
from metricfast.learners.base.learner import BaseMetricLearner, MahalanobisMixin
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
from metricfast.selection._folds import Path
from metricfast.selection._judge import Judge, Judgement, JudgeParameter, as_judge, judge_costs
from metricfast.selection._race import OutOfTimeError, Race, with_scores
from metricfast.training.train import warn_of_race

if TYPE_CHECKING:
    from typing_extensions import Self

# The learners of "auto", the cheap ones first.
_SUITED: dict[str, tuple[Callable[[], Any], ...]] = {
    "classes": (LFDA, RCA_Supervised, KISSME_Supervised, ANMM, NCA, LMNN),
    "numbers": (MLKR, NeighborhoodGerrymanderingRegressor),
    "vectors": (LogRatioLearner,),
    "labels": (LogRatioLearner,),
    "tags": (
        partial(EmbeddingLearner, losses.NCA(), solver="lbfgs"),
        partial(EmbeddingLearner, losses.SupCon(), Linear(normalize=False)),
    ),
    "pairs": (KISSME, GMML, SDML, ITML, MMC),
    "triplets": (SCML,),
    "quadruplets": (LSML,),
}
# From this number of points on, learners that use all pairs are trained on mini-batches.
MANY = 10_000
BY_BATCHES = (NCA, LMNN, MLKR)
_GIVEN, _STANDARDIZED = "given distance", "standardised features"


@dataclass(eq=False, repr=False)
class AutoLearner(MahalanobisMixin):
    """The learner that suits the data, out of several, or the given distance.

    Each learner is trained on parts of the points, and judged by the points that are held out. The
    cheap learners come first. A learner is dropped after any part if it is further behind the best
    one so far than the parts left may differ, by one standard error. The best learner is fitted to
    all points, with the setting that the held-out points chose. If no learner is better than the
    given distance beyond chance, this stays, with a warning. The evidence that the judge asks for
    is raised with the number of learners, because the best of several is better by chance more
    often than a single one.

    Parameters
    ----------
    learners : "auto" or sequence of learners, default="auto"
        Learners of a linear map, the cheap ones first. "auto" depends on the data:

        - classes: `LFDA`, `RCA_Supervised`, `KISSME_Supervised`, `ANMM`, `NCA` and `LMNN`;
        - numbers: `MLKR` and `NeighborhoodGerrymanderingRegressor`;
        - vectors, and labels with a `label_distance`: `LogRatioLearner`;
        - tags: `EmbeddingLearner` with the losses `NCA` and `SupCon`;
        - pairs: `KISSME`, `GMML`, `SDML`, `ITML` and `MMC`;
        - triplets: `SCML`; quadruplets: `LSML`.

        Standardised features are tried as well. If their cost is lower than the cost of the given
        features, learners get them.
    judge : "auto" or Judge, default="auto"
        What is held out, and the cost of a held-out point, such as
        ``Judge(measure="verification")`` for pairs; see :class:`~metricfast.selection.Judge`.
    time_limit : float, optional
        Seconds for trying learners. The fit to all points at the end takes additional time.
    preprocessor : array-like or callable, optional
        Returns the points where `X` holds indicators of points.
    label_distance : str, tuple or callable, optional
        The distance of continuous labels, as for `EmbeddingLearner`. Learners without one of their
        own get it, and the judge measures it.
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
    label_distance: SaidDistance | None = None
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
        data: LabelledPoints | LabelledTuples
        if self._tuple_size is None:
            data = self._with_labels(judge, learners, X, y, validate, given)
        else:
            for name in [*given, *["validate"] * validate]:
                raise ValueError(
                    f"{name} is for points, but X holds {TUPLES[self._tuple_size]}: leave it out."
                )
            data = LabelledTuples(judge, self._checked_tuples(X, y))
        if learners is None:
            learners = _suited(data)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        self._choose(data, judge, [self._with_defaults(each, seed) for each in learners])
        if self._tuple_size is not None:
            self.learner_.preprocessor = self.preprocessor
            self.learner_.preprocessor_ = self.preprocessor_
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

    def _with_labels(
        self, judge: Judge, learners: list[Any] | None, X: Any, y: Any, validate: bool,
        given: dict[str, Any],
    ) -> LabelledPoints:  # fmt: skip
        """Check points with labels. `given`: weights, groups and views."""
        said = self._said_label_distance
        how: dict[str, Any] = {"ensure_min_samples": 2, "accept_sources": not validate}
        if said is None and not has_columns(y):
            X, y = self._prepare_inputs(X, y, **how)
        else:
            X = self._prepare_inputs(X, "no_validation", **how)
        if self.time_limit is None and learners is None:
            n_learners = len(_SUITED["classes"])
            warn_of_race(n_learners, min(X.shape[0], judge._n_drawn), X.shape[1], self.n_jobs)
        n, numeric = X.shape[0], {not each._has_classes for each in learners or ()}
        of_numbers = numeric.pop() if len(numeric) == 1 else None
        labels = Labels.of(y, n, of_numbers, said)
        self._has_classes = labels.measured == "classes"
        weight = check_sample_weight(given.get("sample_weight"), n)
        marks = check_marks(n, **{name: given.get(name) for name in ("groups", "views")})
        return LabelledPoints(judge, X, labels, weight, marks)

    def _checked_tuples(self, X: Any, y: Any) -> TupleSet:
        if self._tuple_size == 2 and (y is None or not np.isin(y, (-1, 1)).all()):
            raise ValueError(
                "y must hold 1 for similar pairs and -1 for others. AdapterLearner learns from "
                "scores of pairs, and from pairs that belong together, and judges itself."
            )
        begin_fit(self)
        how: dict[str, Any] = {"preprocessor": self.preprocessor_, "tuple_size": self._tuple_size}
        return index_tuples(self, X, y if self._tuple_size == 2 else None, reset=True, **how)

    @property
    def _said_label_distance(self) -> Any:
        """The label distance that the parameter or the learners give."""
        given = {} if isinstance(self.learners, str) else dict(_named(self.learners))
        said = {name: getattr(e, "_said_label_distance", None) for name, e in given.items()}
        return agreed({"AutoLearner": self.label_distance, **said})

    def _choose(
        self, data: LabelledPoints | LabelledTuples, judge: Judge, learners: list[Any]
    ) -> None:
        """Try the learners on held-out parts, and set the fitted attributes."""
        start, limit = time.perf_counter(), self.time_limit
        end = start + (math.inf if limit is None else float(limit))
        # Parts choose a setting by the lowest cost: evidence is asked for once, of the learner.
        race = Race(replace(judge, errors=0), data.labels, data.weight)
        errors = judge.errors_for(data.labels, len(learners))
        strict, base = replace(judge, errors=errors), 0
        self.dropped_: dict[str, str] = {}

        def judged_now() -> Judgement:
            costs = np.array([each[:, :-1] for each in race.costs.values()] or [np.empty((0, 1))])
            costs = costs[..., 0] if costs.shape[2] == 1 else costs
            return judge_costs(
                strict, list(race.paths) or [_GIVEN], costs, data.weight, data.measure, data.unit,
                labels=data.labels, base=base,
            )  # fmt: skip

        def check_time() -> None:
            if time.perf_counter() >= end:
                raise OutOfTimeError("no time left")

        for name in (_GIVEN, _STANDARDIZED) if data.parts else ():
            given = GivenDistance(name == _STANDARDIZED)
            race.add(name, [with_scores(data.unlearned(given, each)) for each in data.parts])
        judgement = judged_now()
        base, race.leader = judgement.chosen, judgement.name
        scaled = bool(data.parts) and race.standardizes(_GIVEN, _STANDARDIZED)
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
                        path = data.path(learner, part, scaled, check_time, paths)
                    paths.append(with_scores(path))
            except OutOfTimeError as error:
                note = str(error)
            except Exception as error:  # a learner that fails must not end the others
                note = f"{type(error).__name__}: {error}"
            if note:
                self.dropped_[name] = note
                continue
            race.add(name, paths)
            found[name] = learner
            judgement = judged_now()
            race.leader = judgement.name
        name, seconds = judgement.name, time.perf_counter() - start
        if name in found:
            self.learner_ = data.fitted(found[name], race.paths[name], scaled)
        else:
            self.learner_ = data.fitted(GivenDistance(name == _STANDARDIZED))
        self.components_ = map_of(self.learner_)
        self.judgement_ = replace(judgement, reason=_sentence(judgement, errors, seconds))

    def _given_learners(self) -> list[Any] | None:
        """Return the learners, or None for "auto"."""
        given = self.learners
        if isinstance(given, str) and given == "auto":
            return None
        if not isinstance(given, (list, tuple)) or not given:
            hint = did_you_mean(given, ["auto"]) or did_you_mean(given, LEARNERS, "[{}()]")
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
            if self.label_distance is not None and not hasattr(each, "label_distance"):
                raise ValueError(
                    "learners must have a parameter label_distance, as LogRatioLearner has; got "
                    f"{each!r}."
                )
        return list(given)

    def _size_of_tuples(self, X: Any, learners: list[Any] | None) -> int | None:
        """Return the number of points in a tuple, or None for points."""
        if learners is not None:
            return getattr(learners[0], "_tuple_size", None)
        shape, size = shape_of(X, "X"), None
        if len(shape) == 3 or (self.preprocessor is not None and len(shape) == 2):
            size = int(shape[1])
        if size not in TUPLES and len(shape) == 3:
            raise ValueError(
                f"X must hold points, or pairs, triplets or quadruplets; found shape {shape}."
            )
        indicators = len(shape) == 3 or np.asarray(X).dtype.kind != "f"
        return size if size in TUPLES and indicators else None

    def _with_defaults(self, learner: Any, seed: int) -> Any:
        """Return a copy of a learner with seed, threads and label distance, if it has none."""
        own: dict[str, Any] = {"random_state": int(seed), "n_jobs": self.n_jobs}
        own["label_distance"] = self._said_label_distance
        known = learner.get_params(deep=False)
        unset = {n: each for n, each in own.items() if n in known and known[n] is None}
        return clone(learner).set_params(**unset)

    def _mapped(self, points: Any) -> Any:
        """Return the points as `learner_` gets them."""
        return points


def _suited(data: LabelledPoints | LabelledTuples) -> list[Any]:
    """Return the learners of "auto"."""
    many = data.n_samples >= MANY
    return [
        kind(solver="adam") if many and kind in BY_BATCHES else kind()
        for kind in _SUITED[data.kind]
    ]


def _sentence(judgement: Judgement, errors: float, seconds: float) -> str:
    """Return what was chosen, and by how much it is better."""
    if not judgement.n_held_out:
        return judgement.reason
    on = f"on {judgement.held_out}"
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


def _is_linear(learner: Any) -> bool:
    """Return whether a learner learns a linear map of points."""
    if isinstance(learner, BaseEmbeddingLearner):
        embedding = learner._parts()[1]
        loss = learner._parts()[0]
        unit = embedding.normalize if hasattr(embedding, "normalize") else None
        unit = getattr(loss, "of_unit_length", False) if unit is None else unit
        return isinstance(embedding, Linear) and not unit
    return isinstance(learner, MahalanobisMixin)
