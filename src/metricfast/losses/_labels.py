"""Losses of continuous labels: how far apart labels are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.arrays import as_labels, scaled_alike
from metricfast._labels.binding import SaidDistance, bind_labels, is_precomputed
from metricfast._labels.distance import LabelDistance
from metricfast._labels.named import KERNELS
from metricfast.losses._call import Call, RowLoss

__all__ = ["LabelLoss", "SaidDistance", "label_arguments"]


class LabelLoss(RowLoss):
    """Base of losses that compare distances between labels."""

    labels = "continuous"
    _call_labels = "unchecked"
    _default_label_distance = "sqeuclidean"
    label_distance: SaidDistance | None


def label_arguments(
    loss: Any, call: Call, y: ArrayLike, y_database: ArrayLike | None
) -> tuple[str, NDArray[np.float64], NDArray[np.float64]]:
    """What kernels take: a metric's name and labels, or "precomputed" and distances twice.

    Labels are scaled by a power of two: none of the losses depends on their unit.
    """
    said = loss.label_distance
    if said is None:
        said = loss._default_label_distance
    if isinstance(said, LabelDistance) and said.kernel is not None:
        said = said.kernel
    n, m = len(call.queries), call.m
    if not is_precomputed(said) and call.symmetric != (y_database is None):
        raise ValueError("Z_database and y_database must be given together.")
    if not (isinstance(said, str) and said in KERNELS):
        distance, of_queries, of_database = bind_labels(said, y, y_database, sizes=(n, m))
        distances = distance(of_queries, of_database)
        return "precomputed", distances, distances
    queries = as_labels(y, "y", n)
    if y_database is None:
        (queries,) = scaled_alike(queries)
        return said, queries, queries
    database = as_labels(y_database, "y_database", m)
    if database.shape[1] != queries.shape[1]:
        raise ValueError(
            f"y_database must have {queries.shape[1]} label dimension(s), as y; "
            f"found {database.shape[1]}."
        )
    queries, database = scaled_alike(queries, database)
    return said, queries, database
