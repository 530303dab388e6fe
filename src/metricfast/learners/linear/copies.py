"""Points that are there more than once, as one that counts as often."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import issparse

from metricfast._core.scatter import repetitions
from metricfast.learners.base.points import TrainingSet
from metricfast.training.chunks import Chunked

__all__ = ["counted_once", "distinct"]

# Share of the points that are different, above which to count them once saves little.
_FEW = 0.8


def distinct(data: TrainingSet) -> TrainingSet:
    """Return the different points of positive weight: what is there twice weighs twice."""
    weights = repetitions(data.weight, len(data.labels))
    points = data.X.toarray() if issparse(data.X) else data.X
    rows = np.flatnonzero(weights)
    # Labels come last, so that the order of points does not depend on the names of classes.
    labelled = np.column_stack([points[rows], data.labels[rows]])
    _, first, place = np.unique(labelled, axis=0, return_index=True, return_inverse=True)
    weight = np.bincount(place.ravel(), weights[rows]).astype(np.float64)
    return replace(data.take(rows[first]), weight=weight)


def counted_once(data: TrainingSet) -> TrainingSet:
    """Return the different points, where they are much fewer and that is the same to a loss.

    It is where whole weights mean repetition, and are whole.
    """
    weight = data.weight
    whole = weight is None or np.array_equal(weight, np.floor(weight))
    if not whole or isinstance(data.X, Chunked) or issparse(data.X) or data.n_kept:
        return data
    few = distinct(data)
    return few if len(few.labels) <= _FEW * len(data.labels) else data
