"""The label distances that users choose by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import haversine_distances

from metricfast._core.arguments import did_you_mean
from metricfast._core.types import Array, Floats
from metricfast._labels.distance import LabelDistance

# Distances that compiled losses compute themselves.
KERNELS = ("sqeuclidean", "euclidean", "cityblock")
# With more dimensions, a tree search would visit most points anyway.
_TREE = 8
# Relative rounding error up to which labels are treated as equal.
_ROUNDING = 8 * np.finfo(np.float64).eps
# Distances that depend on statistics of the labels, so they differ between two sets of labels.
_OF_THE_SAMPLE = ("mahalanobis", "seuclidean")
_NAMES = (*KERNELS, "cosine", "hamming", "haversine", "jaccard")


def named_distance(said: Any) -> LabelDistance:
    """Return the distance for a name or ``("angular", period)``; raise ValueError if unknown."""
    if isinstance(said, (tuple, list)) and len(said) == 2 and said[0] == "angular":
        return _angular(said[1])
    if isinstance(said, str):
        if said == "angular":
            raise ValueError(
                "label_distance 'angular' needs the period: ('angular', 360) for degrees, "
                "('angular', 2 * np.pi) for radians."
            )
        if said in _OF_THE_SAMPLE:
            raise ValueError(
                f"label_distance must not be {said!r}, which depends on which labels are "
                "compared: scale them yourself, and use 'euclidean'."
            )
        if said in KERNELS:
            return LabelDistance(partial(cdist, metric=said), _vectors, _straight(said), said)
        if said in _SPECIAL:
            return _SPECIAL[said]()
        try:
            cdist([[1.0, 2.0]], [[2.0, 1.0]], said)
        except ValueError:
            pass
        else:
            return LabelDistance(partial(cdist, metric=said), _vectors)
    raise ValueError(
        f"label_distance must be one of {', '.join(map(repr, _NAMES))}, ('angular', period), "
        "'precomputed', another metric of scipy.spatial.distance.cdist, a function f, or "
        "('metric', f); "
        f"found {said!r}.{did_you_mean(said, [*_NAMES, 'precomputed'])}"
    )


def _vectors(labels: Array) -> Floats:
    """Return labels as an array with one vector per row."""
    if labels.dtype.kind not in "if" or labels.ndim > 2:
        remedy = " Reshape it to (n, -1)." if labels.ndim > 2 else ""
        raise ValueError(
            "must hold numbers, one or several for each point, as this label_distance takes them; "
            f"found {_kind(labels)}.{remedy}"
        )
    return labels.reshape(len(labels), -1).astype(np.float64, copy=False)


def _kind(labels: Array) -> str:
    if labels.dtype.kind == "O" and labels.ndim == 1:
        return f"a {type(labels[0]).__name__}"
    return f"shape {labels.shape}, dtype {labels.dtype}"


def _straight(name: str) -> Callable[[Array], tuple[Array, dict[str, Any]] | None]:
    def places(labels: Array) -> tuple[Array, dict[str, Any]] | None:
        points = _vectors(labels)
        if name != "cityblock" or points.shape[1] == 1:
            return points, {}
        return (points, {"p": 1}) if points.shape[1] <= _TREE else None

    return places


def _angular(period: Any) -> LabelDistance:
    """Return the Euclidean norm of angle differences, modulo `period`."""
    periods = np.atleast_1d(np.asarray(period, np.float64))
    if periods.ndim != 1 or not (periods > 0).all():
        raise ValueError(
            "label_distance ('angular', period) needs a period above 0, or one for each column of "
            f"the labels (infinite for one that is no angle); found {period!r}."
        )

    def encode(labels: Array) -> Floats:
        angles = _vectors(labels)
        if len(periods) not in (1, angles.shape[1]):
            raise ValueError(
                f"must have {len(periods)} columns, one for each period of label_distance; "
                f"found {angles.shape[1]}."
            )
        return angles

    def between(a: Floats, b: Floats) -> Floats:
        squares: Floats = np.zeros((len(a), len(b)))
        for column, wide in enumerate(np.broadcast_to(periods, a.shape[1])):
            x, y = a[:, column, None], b[:, column]
            away = np.abs(x - y) % wide
            np.minimum(away, wide - away, out=away)
            away[away <= _ROUNDING * max(np.abs(x).max(), np.abs(y).max())] = 0
            squares += away**2
        return np.sqrt(squares)

    def places(labels: Array) -> tuple[Array, dict[str, Any]] | None:
        angles = encode(labels)
        if angles.shape[1] > _TREE:
            return None
        cyclic = np.isfinite(periods)
        within = np.where(cyclic, np.mod(angles, periods), angles)
        within[cyclic & (within >= periods)] = 0  # rounding of values just below 0
        sizes = np.where(cyclic, periods, 0.0)
        return within, {"boxsize": np.broadcast_to(sizes, angles.shape[1])}

    return LabelDistance(between, encode, places)


def _cosine() -> LabelDistance:
    def encode(labels: Array) -> Floats:
        vectors = _vectors(labels)
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        if not largest.all():
            raise ValueError("must not hold rows of zeros, which have no direction, for 'cosine'.")
        unit = vectors / largest
        found: Floats = unit / np.linalg.norm(unit, axis=1, keepdims=True)
        return found

    def between(a: Floats, b: Floats) -> Floats:
        distances: Floats = 1 - a @ b.T
        distances[distances <= _ROUNDING] = 0
        return distances

    def places(labels: Array) -> tuple[Array, dict[str, Any]]:
        # Round, so that vectors of the same direction become equal points.
        return np.round(encode(labels) * 2.0**48), {}

    return LabelDistance(between, encode, places)


def _haversine() -> LabelDistance:
    def encode(labels: Array) -> Floats:
        points = _vectors(labels)
        if points.shape[1] != 2 or np.abs(points[:, 0]).max() > np.pi / 2 + _ROUNDING:
            raise ValueError(
                "must hold (latitude, longitude) in radians for label_distance='haversine': "
                f"convert degrees by np.radians; found {points.shape[1]} columns, the first from "
                f"{points[:, 0].min():g} to {points[:, 0].max():g}."
            )
        return points

    def places(labels: Array) -> tuple[Array, dict[str, Any]]:
        north, east = encode(labels).T
        level = np.cos(north)
        return np.column_stack([level * np.cos(east), level * np.sin(east), np.sin(north)]), {}

    return LabelDistance(haversine_distances, encode, places)


def _hamming() -> LabelDistance:
    """Return the share of columns that differ."""

    def encode(labels: Array) -> Array:
        if labels.ndim != 2 and labels.dtype.kind not in "if":
            raise ValueError(
                "must hold one or several values for each point, of shape (n, q), for "
                f"label_distance='hamming'; found {_kind(labels)}: divide texts into characters, "
                "np.array([list(text) for text in y])."
            )
        return labels.reshape(len(labels), -1)

    def between(a: Array, b: Array) -> Floats:
        differ: Floats = np.zeros((len(a), len(b)))
        for column in range(a.shape[1]):
            differ += a[:, column, None] != b[:, column]
        differ /= a.shape[1]
        return differ

    return LabelDistance(between, encode)


def _jaccard() -> LabelDistance:
    """Return 1 minus the intersection over the union of two sets, or of two binary rows."""
    columns: dict[Any, int] = {}

    def encode(labels: Array) -> Any:
        if labels.dtype.kind in "if" and labels.ndim == 2 and np.isin(labels, (0, 1)).all():
            return labels.astype(np.float64)
        if labels.dtype.kind != "O" or not all(
            isinstance(label, (set, frozenset)) for label in labels
        ):
            raise ValueError(
                "must hold sets, or rows of 0 and 1, for label_distance='jaccard'; found "
                f"{_kind(labels)}: make sets of lists of words, [set(words) for words in y]."
            )
        members = [columns.setdefault(item, len(columns)) for label in labels for item in label]
        ends = np.cumsum([0, *map(len, labels)])
        return csr_array((np.ones(len(members)), members, ends), shape=(len(labels), len(columns)))

    def between(a: Any, b: Any) -> Floats:
        if isinstance(a, csr_array):
            width = max(a.shape[1], b.shape[1])
            a, b = (csr_array((x.data, x.indices, x.indptr), (x.shape[0], width)) for x in (a, b))
            common = (a @ b.T).toarray()
        else:
            common = a @ b.T
        union = np.asarray(a.sum(axis=1))[:, None] + np.asarray(b.sum(axis=1)) - common
        return np.where(union > 0, 1 - common / np.maximum(union, 1), 0.0)

    return LabelDistance(between, encode)


_SPECIAL: dict[str, Callable[[], LabelDistance]] = {
    "cosine": _cosine,
    "hamming": _hamming,
    "haversine": _haversine,
    "jaccard": _jaccard,
}
