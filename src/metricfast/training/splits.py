"""Splits of samples into training samples and validation samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import issparse

from metricfast._core.scatter import repetitions
from metricfast._core.types import Integers
from metricfast.selection._judge import Judge
from metricfast.selection._measures import Measure
from metricfast.selection._splits import DENSE_VALUES, Part, class_halves
from metricfast.training.samples import Samples, deduplicate


@dataclass(frozen=True, eq=False)
class Split:
    """Training samples and validation samples.

    Attributes
    ----------
    train, held_out : Samples
        The database of `held_out` holds the points among which neighbours are searched.
    part : Part
        The rows of both.
    measure : callable
        The cost of each held-out point.
    """

    train: Samples
    held_out: Samples
    part: Part
    measure: Measure


def splits_of(data: Samples, measure: Measure, judge: Judge, *, least: int) -> list[Split]:
    """Return the splits of a judge; `split_points` describes `least`.

    There are none if too few points can be held out. Queries that have a database of other points
    search it; if classes are held out, the database of training is of the known classes.
    """
    points = _distinct(data)
    if points.database is not None and "groups" not in points.marks:
        halves = _class_halves(points, least, judge.unit)
        if halves or judge.unit == "classes":
            return [_class_split(points, *half, measure) for half in halves]
        judge = replace(judge, unit="points") if judge.unit == "auto" else judge
    parts = judge.split(
        points.X, points.strata, points.weight, least=least,
        groups=points.marks.get("groups"), views=points.marks.get("views"),
    )  # fmt: skip
    found = list[Split]()
    for part in parts:
        among = points.take(part.database) if points.database is None else points.database
        held_out = replace(points.take(part.queries), database=among)
        found.append(Split(points.take(part.train), held_out, part, measure))
    return found


def holds_classes_out(data: Samples) -> bool:
    """Return whether to hold out classes instead of points: if there are many small classes."""
    return bool(_class_halves(data, 2, "auto"))


def _distinct(data: Samples) -> Samples:
    """Return the distinct points with positive weight, so that no duplicates are in both parts."""
    n, d = data.X.shape
    if data.database is not None and _same(data, data.database):
        data = replace(data, database=None)
    arrays = data.distance is None and not issparse(data.labels)
    if data.database is None and arrays and (not issparse(data.X) or n * d <= DENSE_VALUES):
        return deduplicate(data)
    weight = repetitions(data.weight, n)
    rows = np.flatnonzero(weight)
    return replace(data.take(rows), weight=weight[rows])


def _same(queries: Samples, database: Samples) -> bool:
    """Return whether the database holds the queries themselves, which would find each other."""
    pairs = (queries.X, database.X), (queries.labels, database.labels)
    return all(isinstance(a, np.ndarray) and np.array_equal(a, b) for a, b in pairs)


def _class_halves(data: Samples, least: int, unit: str) -> list[tuple[Integers, Integers]]:
    """Return the rows of both halves of the classes; queries precede the database."""
    if not data.has_classes:
        return []
    both = data.labels
    if data.database is not None:
        both = np.append(both, data.database.labels)
    return class_halves(both, least, unit)


def _class_split(data: Samples, known: Integers, new: Integers, measure: Measure) -> Split:
    """Return a split of two tables into points of known classes and of new classes."""
    assert data.weight is not None and data.database is not None
    n, database = len(data.labels), data.database
    asked, trained = new[new < n], known[known < n]
    train = replace(data.take(trained), database=database.take(known[known >= n] - n))
    weights = data.weight[asked], repetitions(database.weight, len(database.labels))
    part = Part(trained, asked, np.arange(len(weights[1])), *weights, unit="classes")
    return Split(train, data.take(asked), part, measure)
