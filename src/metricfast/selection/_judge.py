"""The judge: chooses between the given distance and learned ones by held-out data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.base import BaseEstimator

from metricfast._core.arguments import did_you_mean
from metricfast._core.parameters import AtLeastTwo, NonNegativeFloat, check_parameters
from metricfast._core.scaling import center_and_rescale
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.warn import warn_user, without_advice
from metricfast._core.wide_map import AnyMap, WideMap
from metricfast.selection._evidence import choose, in_reach, means
from metricfast.selection._measures import (
    MEASURES,
    Measure,
    Search,
    label_distance,
    of_distances,
    order,
)
from metricfast.selection._splits import Part, draw_rows, split_points

# Number of settings that are printed, out of more.
_SHOWN = 12
# The measures of "auto", by the kind of labels.
_DEFAULTS = {"classes": "neighbors", "numbers": "squared_error", "distances": "label_distance"}
# Yields the embedded queries and the embedded database of a part, for some of the candidates.
MapsOfPart = Callable[[Part, Sequence[int]], Iterable[tuple[Array, Array]]]


@dataclass(eq=False, repr=False)
class Judge(BaseEstimator):  # type: ignore[misc]
    """How a learner chooses between the given distance and learned ones, by held-out data.

    A learner tries several settings: fractions of shrinkage, weights of a penalty, starts, numbers
    of iterations. It trains each of them on a part of the data, and computes a cost for each
    held-out query. The setting with the lowest mean cost is used, if that is lower than the mean
    cost of the given distance by a number of standard errors of the paired difference. Otherwise
    the given distance stays, with a warning. It may be multiplied by a factor: the order of
    distances is then the same, but their thresholds are not.

    If features have standard deviations that differ by more than a factor of 2, closed forms and
    learners of tuples from classes first compare the given distance with the one of standardised
    features. If that is better by the same evidence, the learner learns from standardised features,
    and must be better than these.

    Parameters
    ----------
    measure : str or callable, default="auto"
        The cost of a held-out query:

        - "neighbors": the weighted share of other classes among its 5 nearest neighbours, where
          nearer ones count more. Settings with a higher "nearest" than the given distance are out;
        - "nearest": whether its nearest neighbour is of another class;
        - "vote": the share of other classes among its 5 nearest neighbours;
        - "retrieval": 1 - average precision at R, where R database points have its class;
        - "verification": the share of its pairs of the same class that are refused, at a threshold
          that accepts 1 % of all pairs of different classes;
        - "squared_error", for numbers and vectors: the squared error of the mean of its 5 nearest
          neighbours;
        - "label_distance", for labels with another than the Euclidean distance: the mean distance
          of its label to the labels of its 5 nearest neighbours;
        - a function of distances and relevance, arrays of shape (n_queries, n_database), that
          returns finite costs, of shape (n_queries,), or else `fit` raises MeasureError. Relevance
          is true where a database point has the class of the query. Excluded points have infinite
          distances.

        "auto" is "neighbors", "squared_error" or "label_distance". Points with tags are of one
        class if they share a tag.
    unit : {"auto", "points", "classes", "groups"}, default="auto"
        What is held out. With "classes", each half of the classes is held out in turn, as if they
        were new, and its points search among all points. "auto" holds classes out if half of them
        have fewer than 5 points, or fewer points than half as many as there are classes. "groups"
        are those that `fit` got, and "auto" holds them out if it got any.
    n_splits : int, default=3
        Number of parts of points or groups that are held out in turn. Parts are held out until
        there are 1,000 held-out points.
    errors : float, optional
        Number of standard errors by which a setting must be better than the given distance. By
        default 2 for classes, and 1 for numbers and label distances, whose costs vary more.

    Examples
    --------
    >>> from metricfast import LFDA
    >>> from metricfast.selection import Judge
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> lfda = LFDA(judge=Judge(measure="retrieval")).fit(X, y)
    >>> lfda.judgement_.measure
    'retrieval'
    """

    measure: Any = "auto"
    unit: Literal["auto", "points", "classes", "groups"] = "auto"
    n_splits: AtLeastTwo = 3
    errors: NonNegativeFloat | None = None

    _verdict: ClassVar[Verdict | None] = None  # the choice, if it is known already
    _starts: ClassVar[Sequence[str | None] | None] = None  # to choose from, if known already
    _n_drawn: ClassVar[int] = 5000  # maximum number of points from which maps are judged
    _chooses_units: ClassVar[bool] = True  # whether closed forms may standardise features

    def check(self) -> None:
        """Raise ValueError if a parameter has a value that cannot be used."""
        check_parameters(self)
        if not callable(self.measure) and self.measure not in ("auto", *MEASURES):
            raise ValueError(
                f"measure must be 'auto', a function, or one of {', '.join(map(repr, MEASURES))}; "
                f"got {self.measure!r}.{did_you_mean(self.measure, ('auto', *MEASURES))}"
            )

    def costs_by(self, labels: str = "classes", distance: Any = None) -> tuple[str, Measure]:
        """Return the name of the measure, and its function.

        `labels`: their kind, one of "classes", "numbers" and "distances".
        `distance`: of labels that are neither classes nor numbers.
        """
        default = _DEFAULTS[labels]
        for_classes = self.measure not in ("squared_error", "label_distance")
        if self.measure not in ("auto", default) and not (for_classes and labels == "classes"):
            known = f"'auto' or {default!r}" if labels != "classes" else "one of classes"
            raise ValueError(
                f"measure of the judge must be {known} for these labels; got {self.measure!r}."
            )
        if callable(self.measure):
            name = getattr(self.measure, "__name__", type(self.measure).__name__)
            return name, of_distances(self.measure)
        name = default if self.measure == "auto" else self.measure
        if name == "label_distance":
            return name, partial(label_distance, distance=distance)
        return name, MEASURES[name]

    def split(
        self, X: Any, codes: Integers, weight: Floats | None = None, **how: Any
    ) -> list[Part]:
        """Return the parts to hold out, as :func:`split_points`, which has the arguments."""
        return split_points(X, codes, weight, n_splits=self.n_splits, unit=self.unit, **how)

    def receive(
        self, names: Sequence[str], costs: Array, error: Exception | None, **how: Any
    ) -> None:
        """Do nothing with the costs from which :func:`judge_costs` is about to choose.

        `how`: the keyword arguments of :func:`judge_costs`.
        """

    def sample(
        self, X: Any, codes: Integers, weight: Floats | None = None, **marks: Integers
    ) -> Sample:
        """Return at most 5000 rows of known class and positive weight, and their parts.

        `X`: points, an array or a source.
        `codes`: class indices, negative for unknown classes.
        `marks`: indices of groups and views.
        """
        rows = draw_rows(codes, weight, self._n_drawn)
        points, labels = np.asarray(X[rows]), codes[rows]
        share = None if weight is None else weight[rows]
        parts = self.split(points, labels, share, **{n: mark[rows] for n, mark in marks.items()})
        return Sample(rows, points, labels, share, parts)

    def errors_for(self, labels: str = "classes", n_learners: int = 1) -> float:
        """Return the number of standard errors.

        The best of several learners is better by these as rarely by chance as one learner is by
        `errors` (Bonferroni).
        """
        default = 2.0 if labels == "classes" else 1.0
        errors = default if self.errors is None else float(self.errors)
        return float(-ndtri(ndtr(-errors) / n_learners)) if errors and n_learners > 1 else errors


@dataclass(frozen=True, eq=False)
class Judgement:
    """The settings that a learner tried, their costs on held-out data, and the chosen one.

    It prints as a table.

    Attributes
    ----------
    names : list of str
        The settings; the first is the given distance.
    costs : ndarray of shape (n_settings,)
        Mean costs of held-out queries. A setting that is surely worse than the best one after some
        of the parts is given up; its cost is estimated from the difference to the given distance
        on these parts. NaN for a setting that could not be fitted.
    errors : ndarray of shape (n_settings,)
        Standard errors of the differences to the cost of the given distance.
    chosen : int
        The index of the setting in use.
    measure : str
        What costs are.
    unit : {"points", "classes", "groups", "tuples", "pairs", "queries"}
        What was held out.
    n_held_out : int
        The number of held-out queries; 0 if nothing could be held out, and so nothing was judged.
    reason : str
        Why it was chosen.
    """

    names: list[str]
    costs: Floats
    errors: Floats
    chosen: int
    measure: str
    unit: str
    n_held_out: int
    reason: str

    @property
    def name(self) -> str:
        """The name of the setting in use."""
        return self.names[self.chosen]

    @property
    def held_out(self) -> str:
        """The number of held-out queries, as text."""
        of = "points of " if self.unit in ("classes", "groups") else ""
        return f"{self.n_held_out} {of}held-out {self.unit}"

    def warn(self, parameter: str | None = None) -> None:
        """Warn if the given distance stays.

        `parameter`: the one that was chosen, if it has one number.
        """
        if self.chosen:
            return
        by_number = "" if parameter is None else f" or a number as {parameter}"
        by_points = ", or Judge(unit='points') if no new classes will come"
        warn_user(
            f"{self.reason}, so the given distance stays: give more {self.unit}, or "
            f"judge=None{by_number} to learn anyway{by_points if self.unit == 'classes' else ''}."
        )

    def __repr__(self) -> str:
        """Return a table of all settings."""
        if not self.n_held_out:
            return f"{self.reason}, so the given distance stays."
        shown = np.arange(len(self.names))
        if len(shown) > _SHOWN:
            some = np.linspace(0, len(shown) - 1, _SHOWN).astype(int)
            shown = np.unique([*some, self.chosen])
        width = max(len(self.names[i]) for i in shown)
        head = f"{self.measure} on {self.held_out}"
        lines = [f"{'':{width + 2}}  cost    gain   error  ({head})"]
        for i in shown:
            mark, cost = "*" if i == self.chosen else " ", self.costs[i]
            numbers = f"{cost:6.4f} {self.costs[0] - cost:+7.4f} {self.errors[i]:7.4f}"
            found = "could not be fitted" if np.isnan(cost) else numbers
            lines.append(f"{mark} {self.names[i]:{width}} {found}")
        return "\n".join(lines)


class Sample(NamedTuple):
    """Rows of a table that judge, and parts of these rows.

    Attributes
    ----------
    rows : ndarray of int64
        Indices in the table.
    points, codes, weight : ndarray
        Their points, class indices, and weights, if any were given.
    parts : list of Part
        What is held out; indices in `rows`.
    """

    rows: Integers
    points: Array
    codes: Integers
    weight: Floats | None
    parts: list[Part]


class Verdict(NamedTuple):
    """The choice of a judge: the judgement, the chosen setting, and whether it is the last one."""

    judgement: Judgement
    setting: Any
    is_last: bool


def as_judge(value: Any) -> Judge | None:
    """Return the judge for the parameter `judge`; None for no judge.

    Raises ValueError for other values.
    """
    if value is None:
        return None
    if isinstance(value, str) and value == "auto":
        return Judge()
    if isinstance(value, Judge):
        value.check()
        return value
    raise ValueError(f"judge must be 'auto', None or a metricfast.selection.Judge, got {value!r}.")


# The type of the parameter `judge`.
JudgeParameter = Annotated[Any, lambda _, value: as_judge(value)]


def judge_path(
    judge: Judge,
    names: Sequence[str],
    parts: Sequence[Part],
    path: MapsOfPart,
    labels: Array,
    *,
    measure: tuple[str, Measure] | None = None,
    kind: str = "classes",
    base: int = 0,
    n_jobs: int | None = None,
    before: Sequence[list[Array]] | None = None,
) -> Judgement:
    """Choose one of several candidates.

    After each part, candidates that are surely worse than the best one are given up.

    `names`: names of the candidates; the first is the given distance.
    `path`: yields the embedded queries and database of a part, for each of some candidates in turn.
        If it raises ValueError or LinAlgError, this candidate and the later ones have lost. If it
        raises before the second candidate, this part does not count.
    `labels`: the labels of all rows, and `kind` their kind, as in :meth:`Judge.costs_by`.
    `measure`: its name and its function; by default the judge's.
    `base`: as for :func:`judge_costs`.
    `before`: for each part, the costs of the first candidates, which `path` leaves out. The costs
        of the others are added.
    """
    name, costs_of = measure or judge.costs_by(kind)
    weight, unit, failure = np.empty(0), "points", None
    matrix, left, lost = np.empty((len(names), 0)), np.arange(len(names)), list[int]()
    for part, costs in zip(parts, before or [list[Array]() for _ in parts], strict=True):
        unit, rows = part.unit, left[left >= len(costs)].tolist()
        rows, candidates = [*range(len(costs)), *rows], iter(path(part, rows))
        while len(costs) < len(rows):
            try:
                queries, database = in_single_precision(*next(candidates))
            except (ValueError, np.linalg.LinAlgError) as error:
                failure = error
                break
            search = Search(queries, database, part.exclude, part.where, n_jobs)
            both = labels[part.queries], labels[part.database]
            costs.append(costs_of(search, *both, part.database_weight))
        if len(costs) < min(2, len(names)):
            continue
        lost += rows[len(costs) :]
        found = np.full((len(names), *np.shape(costs[0])), np.nan)
        found[rows[: len(costs)]] = costs
        matrix = np.concatenate([matrix, found], axis=1) if weight.size else found
        weight = np.append(weight, part.weight)
        goals, guard = split_columns(matrix)
        left = np.flatnonzero(in_reach(goals, weight, guard) | (np.arange(len(names)) <= base))
        if len(left) == base + 1:
            break
    matrix[lost] = np.nan
    return judge_costs(judge, names, matrix, weight, name, unit, failure, kind, base=base)


def judge_maps(
    judge: Judge, names: Sequence[str], sample: Sample, points: Array,
    maps: Callable[[Integers, Array, Sequence[int]], Iterable[AnyMap]], **how: Any,
) -> Judgement:  # fmt: skip
    """Choose one of several linear maps of points with classes.

    `points`: the points of the sample, or coordinates of these.
    `maps`: takes rows of the table to train on, their points, and some of the candidates, and
        yields the map of each of these in turn.
    `how`: further arguments of :func:`judge_path`.
    """
    coordinates = center_and_rescale(points.astype(np.float64))[0]

    def path(part: Part, some: Sequence[int]) -> Iterator[tuple[Array, Array]]:
        for L in maps(sample.rows[part.train], points[part.train], some):
            Z = L.embed(coordinates) if isinstance(L, WideMap) else coordinates @ L.T
            yield Z[part.queries], Z[part.database]

    with without_advice():
        return judge_path(judge, names, sample.parts, path, sample.codes, **how)


def judge_tuples(
    judge: Judge, names: Sequence[str], y: Array | None, path: Iterable[Array], **how: Any
) -> Judgement:
    """Choose one of several candidates by the order of held-out tuples.

    `y`: 1 for similar pairs and -1 for dissimilar ones; None for other tuples.
    `path`: yields the scores of the tuples by each candidate, as :func:`order` takes them.
    `how`: arguments of :func:`choose`.
    """
    costs, failure = list[Floats](), None
    try:
        costs = [order(scores, y) for scores in path]
    except (ValueError, np.linalg.LinAlgError) as error:
        failure = error
    matrix = np.array(costs) if costs else np.empty((len(names), 0))
    weight = np.ones(matrix.shape[1])
    return judge_costs(judge, names, matrix, weight, "order", "tuples", failure, **how)


def judge_costs(
    judge: Judge, names: Sequence[str], costs: Array, weight: Floats, measure: str, unit: str,
    error: Exception | None = None, labels: str = "classes", *, base: int = 0,
    settings: Sequence[Any] | None = None, **how: Any,
) -> Judgement:  # fmt: skip
    """Choose one of several candidates by their costs; `how` are arguments of :func:`choose`.

    Without costs, nothing could be judged, and the given distance is chosen. `error` is the reason,
    unless nothing could be held out.

    `costs`: one row for each candidate, one column for each held-out item; along a third axis,
        costs that must not get worse may follow. NaN for items that did not judge a candidate.
    `base`: the candidate to beat. Earlier ones are worse, and never chosen.
    `settings`: what the candidates are, for `receive`; by default their names.
    """
    judge.receive(names, costs, error, settings=settings, **how)
    if not costs.size:
        reason = f"No part of the data could be learned from ({error})"
        if error is None:
            reason = "Nothing could be held out to judge by"
        none = np.full(len(names), np.nan)
        return Judgement(list(names), none, none, 0, measure, unit, 0, reason)
    costs, guard = split_columns(costs)
    if guard is not None:
        how["guard"] = guard[base:]
    how |= {"weight": weight, "errors": judge.errors_for(labels)}
    chosen = base + choose(costs[base:], **how)
    gains, errors = _gains(costs, weight)
    verdict = "better" if chosen > base else "not better"
    evidence = f"by {how['errors']:g} standard errors on held-out {unit}"
    reason = f"Learning was {verdict} than the {names[base]} {evidence}"
    if chosen == base and guard is not None and choose(costs[base:], **how | {"guard": None}):
        reason = f"Learning made the nearest neighbours of held-out {unit} worse"
    found = np.round(means(costs[:1], weight) - gains, 12) + 0.0  # 0.0 in place of -0.0
    return Judgement(list(names), found, errors, chosen, measure, unit, costs.shape[1], reason)


def split_columns(costs: Array) -> tuple[Array, Array | None]:
    """Return the costs to lower, and those that must not get worse, if a measure has any."""
    return (costs, None) if costs.ndim == 2 else (costs[..., 0], costs[..., 1])


def _gains(costs: Array, weight: Floats) -> tuple[Floats, Floats]:
    """Return the mean gain of each row over the first one, and its standard error.

    They are of the items that judged the row; NaN if there are none.
    """
    weights = np.isfinite(costs) * weight
    totals = weights.sum(axis=1, keepdims=True)
    gains = np.where(weights, costs[0] - costs, 0) * (weights / np.where(totals, totals, np.nan))
    return gains.sum(axis=1), np.sqrt(np.square(gains).sum(axis=1))


def join_parts(found: list[Array]) -> Array:
    """Return the costs of all parts side by side; shorter trainings repeat their last row.

    `found`: for each part, one row for each iteration.
    """
    most = max(map(len, found))
    return np.concatenate([np.concatenate([e, *[e[-1:]] * (most - len(e))]) for e in found], axis=1)


def in_single_precision(queries: Array, database: Array) -> tuple[Array, Array]:
    """Return points in float32, because a shift of the origin would otherwise break ties.

    Raises ValueError if points are not finite.
    """
    size = max(np.abs(queries).max(initial=0), np.abs(database).max(initial=0)) or 1.0
    if not np.isfinite(size):
        raise ValueError("embedded points are not finite")
    return (queries / size).astype(np.float32), (database / size).astype(np.float32)
