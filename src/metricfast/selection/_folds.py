"""A learner in a comparison: all of its settings are judged on one fold after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from metricfast._core.types import Array, Floats, Integers
from metricfast._labels.distance import subset
from metricfast.selection._evidence import near_best
from metricfast.selection._judge import Judge, Judgement, Verdict, in_single_precision, judge_costs
from metricfast.selection._measures import Measure, Search
from metricfast.selection._splits import Part

# Returns scores of the queries of a search.
Scores = Callable[[Search], Array]


@dataclass(frozen=True, eq=False)
class Path:
    """The settings of a learner, and their costs on one or several folds.

    Attributes
    ----------
    settings : list of tuple
        (name,); or (start, n) for n iterations from a start, where None is the start of the
        parameters. The first is the given distance.
    costs : ndarray of shape (n_settings, n_queries, n_columns)
        Costs of the queries; in the next column, if the measure has any, costs that must not get
        worse; in the last column, if scores were asked for, these.
    order : ndarray of shape (n_settings,)
        The order in which equally good settings are preferred.
    equal : float
        The number of standard errors within which settings count as equally good.
    """

    settings: list[tuple[Any, ...]]
    costs: Array
    order: Array
    equal: float = 0.0

    @property
    def names(self) -> list[str]:
        """The settings as text."""
        given = ["given distance"] if len(self.settings) > 1 else []
        return given + [
            each[0] if len(each) == 1 else f"{each[0] or 'init'}, {each[1]} iterations"
            for each in self.settings[len(given) :]
        ]


class Judged(Exception):  # noqa: N818
    """The path of a learner on a fold, which ends its fit."""

    def __init__(self, path: Path) -> None:
        self.path = path


@dataclass(eq=False, repr=False)
class FoldJudge(Judge):
    """A judge that holds out a given fold, and ends `fit` by `Judged` instead of choosing.

    `fit` gets the row of each point as `groups`.

    `fold`: the part of all points to hold out.
    `labels`: of all points; numbers, which learners may have in units of their own, are replaced.
    `distance`: of the labels of all points, if they are neither classes nor numbers.
    `scores`: computes a last column, or None.
    `check_time`: called before each setting is measured; it may raise an error.
    `earlier`: the paths of the learner on earlier folds. Only the starts that are near the best of
        them are trained.
    """

    fold: Any = None
    labels: Array | None = None
    distance: Any = None
    scores: Scores | None = None
    check_time: Callable[[], None] | None = None
    earlier: Sequence[Path] = ()

    _n_drawn = np.iinfo(np.int64).max
    _chooses_units = False  # who compares learners has chosen them

    @property
    def _starts(self) -> list[str | None] | None:  # type: ignore[override]
        path = joined(self.earlier) if self.earlier else None
        if path is None or len(path.settings[-1]) == 1:
            return None
        rows: dict[str | None, list[int]] = {}
        for row, (start, *_) in enumerate(path.settings[1:], 1):
            rows.setdefault(start, []).append(row)
        costs = {start: path.costs[each, :, 0] for start, each in rows.items()}
        return near_best(costs, np.ones(path.costs.shape[1]), path.equal)

    def split(
        self, X: Any, codes: Integers, weight: Floats | None = None, **how: Any
    ) -> list[Part]:
        """Return the fold, as rows of these points."""
        groups = how["groups"]
        place = np.empty(int(groups.max()) + 1, np.int64)
        place[groups] = np.arange(len(groups))
        rows = {n: place[getattr(self.fold, n)] for n in ("train", "queries", "database")}
        return [replace(self.fold, **rows)]

    def costs_by(self, labels: str = "classes", distance: Any = None) -> tuple[str, Measure]:
        """Return the measure, with the scores as a further column."""
        name, costs_of = super().costs_by(labels, self.distance)

        def measure(search: Search, y: Any, y_database: Any, weight: Floats | None) -> Array:
            if self.check_time is not None:
                self.check_time()
            if labels != "classes" and self.labels is not None:
                y, y_database = self.labels[self.fold.queries], self.labels[self.fold.database]
            costs = costs_of(search, y, y_database, weight)
            return costs if self.scores is None else np.column_stack([costs, self.scores(search)])

        return name, measure

    def receive(
        self, names: Sequence[str], costs: Array, error: Exception | None, *,
        settings: Sequence[Any] | None = None, order: Array | None = None, equal: float = 0.0,
        **_: Any,
    ) -> None:  # fmt: skip
        """Raise the path, or the error of a learner that cannot be fitted to a part."""
        if not costs.size:
            raise error or ValueError("no setting could be fitted to a part of the points")
        costs = costs if costs.ndim == 3 else costs[..., None]
        of: list[tuple[Any, ...]] = [(each,) for each in names]
        if settings is not None:
            of = [of[0], *settings[1:]]
        ranks = np.arange(len(of)) if order is None else order
        raise Judged(Path(of, np.asarray(costs, np.float64), np.asarray(ranks, float), equal))


@dataclass(eq=False, repr=False)
class SettledJudge(Judge):
    """A judge that has chosen already."""

    _verdict: Verdict | None = None  # type: ignore[misc]

    _chooses_units = False


def fold_path(
    learner: Any, judge: FoldJudge, X: Array, y: Any, labels: Array, *, kind: str = "classes",
    **given: Any,
) -> Path:  # fmt: skip
    """Return the path of an unfitted learner on a fold.

    It is trained once. A learner that has no judge has a single setting.

    `X`, `y`: all points and their labels.
    `labels`: class indices, or numbers.
    `given`: further arguments of `fit` with one value for each point.
    """
    fold: Part = judge.fold
    if _has_judge(learner):
        judging = clone(learner).set_params(judge=judge)
        try:
            judging.fit(X, y, groups=np.arange(len(X)), **given)
        except Judged as found:
            return found.path
    fitted = clone(learner).fit(
        X[fold.train], subset(y, fold.train), **{n: each[fold.train] for n, each in given.items()}
    )
    return embedded_path(judge, fitted.transform, X, labels, type(learner).__name__, kind=kind)


def embedded_path(
    judge: FoldJudge, embed: Callable[[Array], Array] | None, X: Array, labels: Array, name: str,
    *, kind: str = "classes", function: Any = None,
) -> Path:  # fmt: skip
    """Return the path of a single setting: points as they are, or embedded.

    `function`: as in :class:`Search`.
    """
    fold: Part = judge.fold
    points = [X[fold.queries], X[fold.database]]
    queries, database = points if embed is None else (np.asarray(embed(each)) for each in points)
    if function is None:
        center = database.mean(axis=0, dtype=np.float64)
        queries, database = in_single_precision(queries - center, database - center)
    search = Search(queries, database, fold.exclude, fold.where, function=function)
    both = labels[fold.queries], labels[fold.database]
    costs = judge.costs_by(kind)[1](search, *both, fold.database_weight)
    costs = np.asarray(costs, np.float64).reshape(1, len(fold.queries), -1)
    return Path([(name,)], costs, np.zeros(1))


def joined(paths: Sequence[Path]) -> Path:
    """Return the settings that all folds have; shorter trainings repeat their last iteration."""
    if len(paths[0].settings[-1]) == 1:
        return replace(paths[0], costs=np.concatenate([each.costs for each in paths], axis=1))
    places = [{s: i for i, s in enumerate(path.settings)} for path in paths]
    lasts = [{s[0]: s[1] for s in path.settings[1:]} for path in paths]
    shared = [start for start in lasts[0] if all(start in each for each in lasts)]
    longest = {start: max(each[start] for each in lasts) for start in shared}
    settings = [paths[0].settings[0]]
    settings += [(start, n) for start in shared for n in range(longest[start] + 1)]
    costs, ranks = list[Array](), dict[Any, float]()
    for path, place, last in zip(paths, places, lasts, strict=True):
        rows = [0, *(place[start, min(n, last[start])] for start, n in settings[1:])]
        costs.append(path.costs[rows])
        ranks |= dict(zip(path.settings, path.order, strict=True))
    order = np.array([ranks[each] for each in settings])
    return Path(settings, np.concatenate(costs, axis=1), order, paths[0].equal)


def cross_fitted(paths: Sequence[Path], judge: Judge, labels: str) -> list[Floats]:
    """Return the costs of the queries of each fold, under the setting that other folds choose.

    A single fold chooses for itself.

    `paths`: of each fold, with scores in the last column.
    """
    whole = joined(paths)
    fold = np.repeat(np.arange(len(paths)), [path.costs.shape[1] for path in paths])
    found = list[Floats]()
    for i in range(len(paths)):
        others = (fold != i) | (len(paths) == 1)
        path, weight = replace(whole, costs=whole.costs[:, others]), np.ones(int(others.sum()))
        row = 0
        if len(path.settings) > 1:
            row = _judged(path, judge, weight, "points", labels).chosen
        costs = whole.costs[row, fold == i]
        # A setting that could not be fitted to this fold gives way to the given distance.
        found.append(costs if np.isfinite(costs).all() else whole.costs[0, fold == i])
    return found


def settled(
    paths: Sequence[Path], judge: Judge, weight: Floats, unit: str, labels: str, own: Any
) -> Any:
    """Return a judge for `fit` on all points, which chooses what is best on all folds.

    `paths`: of each fold, with scores in the last column.
    `own`: the judge of a learner without settings.
    """
    path = joined(paths)
    if len(path.settings) == 1:
        return own
    judgement = _judged(path, judge, weight, unit, labels)
    setting, is_last = path.settings[judgement.chosen], False
    if judgement.chosen and len(setting) == 2:
        is_last = setting[1] == max(n for start, n in path.settings[1:] if start == setting[0]) > 1
    return SettledJudge(_verdict=Verdict(judgement, setting, is_last))


def _judged(path: Path, judge: Judge, weight: Floats, unit: str, labels: str) -> Judgement:
    """Return the judgement of the settings of a path with scores."""
    costs = path.costs[..., 0] if path.costs.shape[2] == 2 else path.costs[..., :-1]
    return judge_costs(
        judge, path.names, costs, weight, judge.costs_by(labels)[0], unit, None, labels,
        order=path.order, equal=path.equal,
    )  # fmt: skip


def _has_judge(learner: Any) -> bool:
    """Return whether `fit` lets a judge choose; a learner of mini-batches may not by default."""
    if getattr(learner, "judge", None) is None or getattr(learner, "early_stopping", False):
        return False
    if getattr(learner, "_selects_batches", True) or not isinstance(learner.judge, str):
        return True
    return not learner._solver().by_batches
