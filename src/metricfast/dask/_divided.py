"""Distributed fits of learners that need whole classes, neighbours or drawn tuples."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from dask import delayed

from metricfast._core.arrays import as_points
from metricfast._core.scatter import repetitions
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.targets import as_label_array, codes_among, encode
from metricfast._core.types import Array, Floats, Integers
from metricfast.dask._remote import OnWorkers, labels_of
from metricfast.dask._rows import joined, row_blocks
from metricfast.dask._workers import Shared, Workers, threads_here
from metricfast.learners.base.closed_form import fit_points
from metricfast.learners.closed.anmm import ANMM
from metricfast.learners.closed.dmlmj import DMLMJ
from metricfast.learners.closed.lfda import LFDA, local_sums
from metricfast.learners.closed.neighborhoods import scatters_of_anchors
from metricfast.learners.closed.rca import RCA_Supervised
from metricfast.learners.tuples.drawing import SupervisedForm
from metricfast.learners.tuples.sdml import SDML_Supervised

__all__ = ["fit_divided", "is_divided"]

# Learners that draw tuples or chunks of rows.
_DRAWING = (SupervisedForm, RCA_Supervised, SDML_Supervised)
# Points, codes of their classes, and weights, of the classes from the first number on.
Group = tuple[int, Any, Integers, Floats]


def is_divided(learner: Any) -> bool:
    """Return whether a learner is one of these."""
    return isinstance(learner, (LFDA, ANMM, DMLMJ, *_DRAWING))


def fit_divided(
    learner: Any, workers: Workers, n_parts: int, X: Any, y: Any, weight: Any, **params: Any
) -> None:
    """Fit a learner, for which the client holds all labels and weights.

    `LFDA`: each worker gets the points of whole classes. `ANMM`, `DMLMJ`: the client and all
    workers hold all points, and workers look for neighbours of parts of them. Others draw tuples of
    rows, and the client gets these rows.
    """
    blocks = row_blocks(X, y=y, sample_weight=weight)
    if isinstance(learner, (ANMM, DMLMJ)):
        points, labels, weights = (
            None if column[0] is None else joined(column)
            for column in zip(*workers.computed(blocks), strict=True)
        )
        by_anchors = partial(_by_anchors, workers, n_parts)
        fit_points(learner, points, labels, weights, **params, execute=by_anchors)
        return
    labels, weights = labels_of(workers, blocks)
    points = OnWorkers(workers, [block[0] for block in blocks])
    if isinstance(learner, LFDA):
        by_classes = partial(_by_classes, workers, n_parts, blocks, weights)
        fit_points(learner, points, labels, weights, **params, execute=by_classes)
        return
    if weights is not None:
        params["sample_weight"] = weights
    learner.fit(points, labels, **params)


def _by_classes(
    workers: Workers,
    n_parts: int,
    blocks: list[Any],
    given: Floats | None,
    X: Any,
    classes: Array,
    codes: Integers,
    weights: Floats,
    k: int,
    n_jobs: int | None,
) -> tuple[ScatterStatistics, ...]:
    """Return what :func:`local_sums` does; each worker gets all points of some classes."""
    del weights, n_jobs
    ends = np.cumsum(np.bincount(codes))
    shares = np.arange(1, n_parts) * len(codes) / n_parts
    first = np.unique([0, *(np.searchsorted(ends, shares) + 1)])
    first = first[first < len(classes)]
    scale = 1.0 if given is None else float(repetitions(given, len(given)).sum() / given.sum())
    deal = partial(_dealt, classes=classes, first=first, scale=scale)
    dealt = [delayed(deal)(block) for block in blocks]
    groups = [
        delayed(_group)(int(start), [pieces[i] for pieces in dealt], X.dtype)
        for i, start in enumerate(first)
    ]
    of_groups = workers.run(_sums_of_classes, workers.client.compute(groups), Shared((classes, k)))
    total, *others = of_groups
    for found in others:
        for sums, more in zip(total, found, strict=True):
            sums.merge(more)
    return tuple(total)


def _dealt(
    block: tuple[Any, ...], classes: Array, first: Integers, scale: float
) -> list[tuple[Any, ...]]:
    """Deal the rows of a block that have weight out to groups of classes."""
    X, y, weight = block
    own, codes = encode(as_label_array(y, "y"), "y")
    weights = np.ones(len(codes)) if weight is None else np.asarray(weight, np.float64) * scale
    seen = weights > 0
    codes = codes_among(own, classes, "y")[codes]
    group = np.where(seen, np.searchsorted(first, codes, side="right") - 1, -1)
    pieces = []
    for i in range(len(first)):
        rows = np.flatnonzero(group == i)
        pieces.append((X.iloc[rows] if hasattr(X, "iloc") else X[rows], codes[rows], weights[rows]))
    return pieces


def _group(first: int, pieces: list[tuple[Any, ...]], dtype: np.dtype[Any]) -> Group:
    points, codes, weights = (joined(column) for column in zip(*pieces, strict=True))
    return first, as_points(np.asarray(points, dtype), "X"), codes - first, weights


def _sums_of_classes(
    group: Group, shared: tuple[Array, int], threads: int
) -> tuple[ScatterStatistics, ScatterStatistics]:
    first, points, codes, weights = group
    classes, k = shared
    last = first + int(codes.max()) + 1
    return local_sums(points, classes[first:last], codes, weights, k, threads_here(threads))


def _by_anchors(
    workers: Workers, n_parts: int, X: Any, labels: Integers, weights: Floats,
    k_genuine: int, k_impostor: int, n_jobs: int | None,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Return the scatters of all anchors, of which parts are of few classes each."""
    order = np.argsort(labels, kind="stable")
    parts = [np.sort(part) for part in np.array_split(order, min(n_parts, len(order)))]
    shared = Shared((X, labels, weights, k_genuine, k_impostor))
    found = workers.run(_scatters, parts, shared)
    scatters, totals = zip(*found, strict=True)
    return sum(scatters[1:], scatters[0]), sum(totals[1:], totals[0])


def _scatters(anchors: Integers, shared: tuple[Any, ...], threads: int) -> tuple[Floats, Floats]:
    X, labels, weights, *k = shared
    how: dict[str, Any] = {"n_jobs": threads_here(threads), "anchors": anchors}
    return scatters_of_anchors(X, labels, weights, *k, **how)
