"""Losses of continuous labels: how far apart labels are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._arrays import as_labels, as_real, scaled_alike
from metricfast._label_distance import distances_by
from metricfast.losses._call import Call, RowLoss

__all__ = ["LabelDistance", "LabelLoss", "label_arguments"]

LabelDistance = str | Callable[[NDArray[Any], NDArray[Any]], ArrayLike]
_METRICS = ("sqeuclidean", "euclidean", "cityblock")


class LabelLoss(RowLoss):
    """Base of losses that compare distances between labels."""

    labels = "continuous"
    _call_labels = "unchecked"
    label_distance: LabelDistance


def label_arguments(
    label_distance: LabelDistance, call: Call, y: ArrayLike, y_database: ArrayLike | None
) -> tuple[str, NDArray[np.float64], NDArray[np.float64]]:
    """What kernels take: a metric's name and labels, or "precomputed" and distances twice.

    Labels are scaled by a power of two: none of the losses depends on their unit.
    """
    n, m = len(call.queries), call.m
    if not (callable(label_distance) or label_distance in (*_METRICS, "precomputed")):
        raise ValueError(
            f"label_distance must be one of {', '.join(map(repr, _METRICS))}, 'precomputed' or a "
            f"function; found {label_distance!r}."
        )
    if label_distance == "precomputed":
        distances = _as_distances(y, "y", n, m)
        return "precomputed", distances, distances
    if call.symmetric != (y_database is None):
        raise ValueError("Z_database and y_database must be given together.")
    if callable(label_distance):
        of_queries = np.asarray(y)
        of_database = of_queries if y_database is None else np.asarray(y_database)
        given = distances_by(label_distance, of_queries, of_database)
        distances = _as_distances(given, "label_distance(y, y_database)", n, m)
        return "precomputed", distances, distances
    queries = as_labels(y, "y", n)
    if y_database is None:
        (queries,) = scaled_alike(queries)
        return str(label_distance), queries, queries
    database = as_labels(y_database, "y_database", m)
    if database.shape[1] != queries.shape[1]:
        raise ValueError(
            f"y_database must have {queries.shape[1]} label dimension(s), as y; "
            f"found {database.shape[1]}."
        )
    queries, database = scaled_alike(queries, database)
    return str(label_distance), queries, database


def _as_distances(values: ArrayLike, name: str, n: int, m: int) -> NDArray[np.float64]:
    distances = np.ascontiguousarray(as_real(values, name), dtype=np.float64)
    if distances.shape != (n, m):
        raise ValueError(
            f"{name} must hold the distances of all labels, of shape {(n, m)}; "
            f"found {distances.shape}."
        )
    if not np.isfinite(distances).all() or (distances < 0).any():
        raise ValueError(f"{name} must hold finite distances from 0 on.")
    return distances
