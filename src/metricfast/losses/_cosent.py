"""CoSENT."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.arrays import as_numbers, as_points
from metricfast._core.dispatch import get_kernels
from metricfast.exceptions import LossOverflowError
from metricfast.losses._call import Call, Gradient, Loss, positive
from metricfast.losses._labels import SaidDistance, label_arguments

__all__ = ["CoSENT"]

# Distances of labels may differ by so much of the largest label and be ties, in each dimension.
_ROUNDING = 8 * np.finfo(np.float64).eps


class CoSENT(Loss):
    """CoSENT: pairs of points in the order of their scores.

    ``log(1 + sum exp(scale (s_b - s_a)))`` over all a, b for which pair a has the higher score, s
    being the pairs' inner products. Sorted by score, n pairs cost O(n log n).

    Parameters
    ----------
    scale : float, default=20.0
    label_distance : str, tuple or callable, optional
        As of :class:`LogRatio`, where pairs have no scores of their own; by default "sqeuclidean".

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" (ordered pairs of pairs), "anchors" (points) and "dropped" (pairs of
        pairs with equal scores; those from labels may differ by rounding, see :class:`Triplet`).

    Notes
    -----
    Called as ``loss(Z, y, Z_database)``, the i-th pair is ``Z[i], Z_database[i]`` and y holds the
    pairs' scores; there is no y_database. Called as ``loss(Z, y)``, the pairs are all pairs of
    points, and the nearer the labels of two, the higher the score: sorted together, those of n
    points take 10 n² bytes. There are no sample weights, and no anchors: in learners, it takes one
    embedding of all points, the database of a batch, and samplers of which all points are anchors.
    The similarities are cosines where embeddings are normalised, which losses do not do.

    References
    ----------
    Su. CoSENT: a more effective scheme for sentence embeddings than Sentence-BERT. 2022.

    Examples
    --------
    >>> from metricfast.losses import CoSENT
    >>> left, right = [[1.0, 0.0], [1.0, 0.0]], [[0.8, 0.6], [0.6, 0.8]]
    >>> value, (grad, grad_database) = CoSENT()(left, [0.9, 0.1], right)
    >>> round(value, 3)
    0.018
    """

    labels = "continuous"
    has_anchors = False
    _default_label_distance = "sqeuclidean"

    def __init__(self, scale: float = 20.0, label_distance: SaidDistance | None = None) -> None:
        self.scale = scale
        self.label_distance = label_distance

    def __call__(
        self,
        Z: ArrayLike,
        y: ArrayLike,
        Z_database: ArrayLike | None = None,
        y_database: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> tuple[float, Gradient]:
        """Value and gradient; see the class's notes."""
        for name, value in (("sample_weight", sample_weight), ("exclude", exclude)):
            if value is not None:
                raise ValueError(f"{name} must be None: CoSENT compares pairs, all alike.")
        if y_database is not None:
            raise ValueError("y_database must be None: y holds all labels, or scores of pairs.")
        if Z_database is None:
            return self._all_pairs(Z, y, n_jobs)
        left = as_points(Z, "Z")
        right = as_points(Z_database, "Z_database", width=left.shape[1])
        if len(left) != len(right):
            raise ValueError(
                f"Z and Z_database must hold the two points of each pair; found {len(left)} and "
                f"{len(right)} points."
            )
        scores = as_numbers(y, "y", len(left))
        similarities = np.einsum("ij,ij->i", left, right, dtype=np.float64)
        value, weights = self._order(similarities, scores.copy(), len(left))
        dtype = np.result_type(left, right)
        with np.errstate(over="ignore"):
            of_left, of_right = weights[:, None] * right, weights[:, None] * left
            return value, (_as_gradient(of_left, dtype), _as_gradient(of_right, dtype))

    def _all_pairs(self, Z: ArrayLike, y: ArrayLike, n_jobs: int | None) -> tuple[float, Gradient]:
        call = Call(Z, y, None, None, None, None, n_jobs, labels="unchecked")
        points = call.queries.astype(np.float64)
        metric, labels, _ = label_arguments(self, call, y, None)
        rounding = 0.0
        if metric != "precomputed":
            rounding = _ROUNDING * labels.shape[1] * float(np.abs(labels).max())
        # Of each point with those after it, one after the other: scores, which become weights,
        # and similarities.
        ends = np.cumsum(np.arange(len(points) - 1, -1, -1))
        weights, similarities = np.empty((2, ends[-1]))
        with np.errstate(over="ignore", invalid="ignore"):
            for i, pairs in enumerate(map(slice, [0, *ends[:-1]], ends)):
                weights[pairs] = -_distances(labels, i, metric)
                similarities[pairs] = points[i + 1 :] @ points[i]
        value, _ = self._order(similarities, weights, len(points), rounding)
        gradient = np.zeros_like(points)
        with np.errstate(over="ignore", invalid="ignore"):
            for i, pairs in enumerate(map(slice, [0, *ends[:-1]], ends)):
                gradient[i] += weights[pairs] @ points[i + 1 :]
                gradient[i + 1 :] += weights[pairs, None] * points[i]
            return value, _as_gradient(gradient, call.queries.dtype)

    def _order(
        self,
        similarities: NDArray[np.float64],
        scores: NDArray[np.float64],
        points: int,
        rounding: float = 0.0,
    ) -> tuple[float, NDArray[np.float64]]:
        """Value, and the derivatives by similarities in place of the scores."""
        value, terms = get_kernels().cosent(
            np.ascontiguousarray(similarities), scores, rounding, positive(self.scale, "scale"),
            scores,
        )  # fmt: skip
        pairs = len(scores)
        self.counts_ = {
            "terms": terms,
            "anchors": points,
            "skipped": 0,
            "dropped": pairs * (pairs - 1) // 2 - terms,
        }
        if not np.isfinite(value):
            _refuse_overflow()
        return value, scores


def _distances(labels: NDArray[np.float64], i: int, metric: str) -> NDArray[np.float64]:
    """Distances of a label to those after it."""
    if metric == "precomputed":
        return labels[i, i + 1 :]
    difference = labels[i + 1 :] - labels[i]
    if metric == "cityblock":
        return np.asarray(np.abs(difference).sum(1))
    return np.asarray(np.sqrt((difference**2).sum(1)))


def _as_gradient(gradient: NDArray[np.float64], dtype: Any) -> NDArray[Any]:
    result = gradient.astype(dtype)
    if not get_kernels().all_finite(result):
        _refuse_overflow()
    return result


def _refuse_overflow() -> NoReturn:
    raise LossOverflowError(
        "The loss or its gradient overflows: Z is too large. Divide Z, or normalise it."
    )
