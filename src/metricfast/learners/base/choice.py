"""The choice of the units and of the setting of a learner, by the judge."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from metricfast._core.initialize import check_n_components, initialize_components
from metricfast._core.prior import is_identity
from metricfast._core.scaling import center_and_rescale, differ
from metricfast._core.scatter import within_scatter
from metricfast._core.targets import check_partial_target, class_codes
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.wide_map import AnyMap, WideMap
from metricfast.selection._judge import Judge, Sample, as_judge, judge_maps
from metricfast.training.train import warn_of_decompositions

# The distances that need no learning.
_UNLEARNED = "given distance", "standardised features"


def standardizing(X: Array, weight: Floats | None) -> Array:
    """Return factors of 1 and less that give all features the same standard deviation."""
    one_group, scaled = np.zeros(len(X), np.int64), center_and_rescale(X)[0]
    spread = np.sqrt(within_scatter(scaled, one_group, weight, diagonal=True))
    spread[spread == 0] = spread.max() or 1.0  # constant features
    return np.asarray(spread.min() / spread, X.dtype)


class ChosenUnits(NamedTuple):
    """The units of features that a learner works with, and how they were judged.

    Attributes
    ----------
    factors : ndarray of shape (n_features,) or None
        Factors that standardise the features; None for the given units.
    sample : Sample or None
        The points that judged.
    costs : list of list of ndarray
        For each part, the costs of the distances that need no learning, if these were judged.
    """

    factors: Array | None = None
    sample: Sample | None = None
    costs: Sequence[list[Array]] = ()


GIVEN_UNITS = ChosenUnits()


def choose_units(learner: Any, X: Any, y: Any, weight: Floats | None, **marks: Any) -> ChosenUnits:
    """Return the units of features: those that standardise them, if these are surely better.

    Points are left as they are for a learner that has a parameter in their units, or learns from
    their differences across views.

    `marks`: indices of groups and views.
    """
    judge = _judge_of(learner)
    if judge is None or not judge._chooses_units or _has_units(learner):
        return GIVEN_UNITS
    if learner._across_views and "views" in marks:
        return GIVEN_UNITS
    sample = judge.sample(X, _codes(learner, y), weight, **marks)
    points = sample.points
    factors = standardizing(points, sample.weight)
    if not differ(factors):
        return ChosenUnits(sample=sample)
    maps = [_without_learning(learner, points, each) for each in (np.ones_like(factors), factors)]
    costs = [list[Array]() for _ in sample.parts]
    judgement = judge_maps(
        judge, _UNLEARNED, sample, points, lambda _, __, some: [maps[row] for row in some],
        n_jobs=getattr(learner, "n_jobs", None), before=costs,
    )  # fmt: skip
    return ChosenUnits(factors if judgement.chosen else None, sample, costs)


def choose_setting(
    learner: Any, X: Any, y: Any, weight: Floats | None, *, partial: bool = False, **how: Any
) -> Any:
    """Return the setting to solve with: as given, as published, or chosen by the judge.

    Learners with statistics that add up exactly are not judged in `partial_fit`, because the result
    must not depend on how points are divided into calls. :func:`judge_settings` describes `how`.
    """
    tuned, settings = learner._tuned, learner._settings
    if _judge_of(learner) is None or (partial and learner._exact_in_parts):
        return learner._unjudged_setting()
    views = how.get("views") if learner._across_views else None
    earlier, part = learner._sums, copy.copy(learner)
    if hasattr(learner, "random_state"):
        part.random_state = 0
    vars(part).pop("_fit_task", None)  # iterations for the judge are not reported
    if hasattr(part, "verbose"):
        part.verbose = False

    def maps(rows: Integers, points: Array, some: Sequence[Any]) -> Iterator[Array]:
        given = points, y[rows], None if weight is None else weight[rows]
        across = {} if views is None else {"views": views[rows]}
        statistics = part._statistics(*given, partial=bool(earlier), **across)
        yield from part._maps(statistics.after(earlier).normalized(), some)

    names = [f"{tuned}={_as_text(setting)}" for setting in settings]
    return judge_settings(learner, settings, names, X, y, weight, maps, **how)


def judge_settings(
    learner: Any, settings: Sequence[Any], names: Sequence[str], X: Any, y: Any,
    weight: Floats | None, maps: Callable[[Integers, Array, Sequence[Any]], Iterator[Array]], *,
    units: ChosenUnits = GIVEN_UNITS, per_fit: int = 1, **marks: Any,
) -> Any:  # fmt: skip
    """Return the setting that the judge of a learner chooses, and set `judgement_`.

    `settings`: of which the first is the distance of X.
    `X`: coordinates of the points in the units of :func:`choose_units`.
    `maps`: takes rows to train on, their coordinates and settings, and yields the map of each.
    `per_fit`: how many decompositions of a matrix take as long as a fit.
    `units`: the result of :func:`choose_units`. Standardised features may be the distance to beat.
    `marks`: indices of groups and views.
    """
    judge, base, before = _judge_of(learner), int(units.factors is not None), None
    assert judge is not None
    # Principal components that the learner keeps, unless of standardised features, are of a part.
    if base or getattr(learner, "n_components", None) in (None, "auto"):
        before = [costs[: base + 1] for costs in units.costs] or None
    sample = units.sample
    if sample is None and judge._verdict is None:
        sample = judge.sample(X, _codes(learner, y), weight, **marks)
    n_parts = 0 if sample is None else len(sample.parts)
    warn_of_decompositions(X.shape[1], per_fit * (1 + n_parts) + len(settings) * n_parts)
    if judge._verdict is not None:
        learner.judgement_ = judge._verdict.judgement
    else:
        assert sample is not None
        learner.judgement_ = judge_maps(
            judge, [*_UNLEARNED[: base + 1], *names[1:]], sample, np.asarray(X[sample.rows]),
            lambda rows, points, some: maps(rows, points, [settings[row - base] for row in some]),
            n_jobs=getattr(learner, "n_jobs", None), base=base, before=before,
        )  # fmt: skip
    return settings[max(learner.judgement_.chosen - base, 0)]


def advise(learner: Any) -> None:
    """Warn if the judge kept the given distance."""
    if hasattr(learner, "judgement_"):
        learner.judgement_.warn(learner._tuned)


def _judge_of(learner: Any) -> Judge | None:
    """Return the judge, or None if it has nothing to choose."""
    judge, tuned = as_judge(learner.judge), learner._tuned
    return judge if tuned is not None and getattr(learner, tuned) is None else None


def _has_units(learner: Any) -> bool:
    """Return whether a parameter is in the units of the points."""
    starts = getattr(learner, "prior", "identity"), getattr(learner, "init", "identity")
    basis = getattr(learner, "basis", None)
    return not (all(map(is_identity, starts)) and (basis is None or isinstance(basis, str)))


def _codes(learner: Any, y: Any) -> Integers:
    """Return class indices, negative for unknown classes."""
    return (
        check_partial_target(y)[1] if learner._partial_labels else class_codes(y, partial=True)[1]
    )


def _without_learning(learner: Any, X: Array, units: Array) -> AnyMap:
    """Return the map to as many principal components as the learner keeps, or to all features."""
    n_components = getattr(learner, "n_components", None)
    if n_components is None or n_components == "auto":
        return WideMap(units.astype(np.float64), dtype=units.dtype)
    n_components = min(check_n_components(X.shape[1], n_components), len(X))
    return initialize_components(X * units, None, "pca", n_components) * units


def _as_text(setting: Any) -> str:
    """Return a setting, or a pair of target and fraction, as text."""
    if isinstance(setting, tuple):
        return f"{setting[1]:g} towards {setting[0]}"
    return str(setting) if setting is None else f"{setting:g}"
