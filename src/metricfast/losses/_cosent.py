"""CoSENT."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._arrays import as_numbers, as_points
from metricfast._dispatch import get_kernels
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
    points, and the nearer the labels of two, the higher the score. There are no sample weights, and
    no anchors: in learners, it takes one embedding of all points, the database of a batch, and
    samplers of which all points are anchors. The similarities are cosines where embeddings are
    normalised, which losses do not do.

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
        if Z_database is None:
            return self._all_pairs(Z, y, n_jobs)
        if y_database is not None:
            raise ValueError("y_database must be None: y holds the scores of the pairs.")
        left = as_points(Z, "Z")
        right = as_points(Z_database, "Z_database", width=left.shape[1])
        if len(left) != len(right):
            raise ValueError(
                f"Z and Z_database must hold the two points of each pair; found {len(left)} and "
                f"{len(right)} points."
            )
        scores = as_numbers(y, "y", len(left))
        similarities = np.einsum("ij,ij->i", left, right, dtype=np.float64)
        value, weights = self._order(similarities, scores, len(left))
        dtype = np.result_type(left, right)
        return value, (
            (weights[:, None] * right).astype(dtype),
            (weights[:, None] * left).astype(dtype),
        )

    def _all_pairs(self, Z: ArrayLike, y: ArrayLike, n_jobs: int | None) -> tuple[float, Gradient]:
        call = Call(Z, y, None, None, None, None, n_jobs, labels="unchecked")
        points = call.queries.astype(np.float64)
        metric, labels, _ = label_arguments(self, call, y, None)
        rows, columns = np.triu_indices(len(points), 1)
        rounding = 0.0
        if metric == "precomputed":
            distances = labels[rows, columns]
        else:
            difference = labels[rows] - labels[columns]
            squared = metric != "cityblock"
            power = difference**2 if squared else np.abs(difference)
            distances = np.sqrt(power.sum(1)) if squared else power.sum(1)
            rounding = _ROUNDING * labels.shape[1] * float(np.abs(labels).max())
        with np.errstate(over="ignore", invalid="ignore"):
            similarities = (points @ points.T)[rows, columns]
        value, weights = self._order(similarities, -distances, len(points), rounding)
        matrix = np.zeros((len(points), len(points)))
        matrix[rows, columns] = weights
        gradient: NDArray[np.float64] = (matrix + matrix.T) @ points
        return value, gradient.astype(call.queries.dtype)

    def _order(
        self,
        similarities: NDArray[np.float64],
        scores: NDArray[np.float64],
        points: int,
        rounding: float = 0.0,
    ) -> tuple[float, NDArray[np.float64]]:
        weights = np.empty(len(scores))
        value, terms = get_kernels().cosent(
            np.ascontiguousarray(similarities), np.ascontiguousarray(scores), rounding,
            positive(self.scale, "scale"), weights,
        )  # fmt: skip
        pairs = len(scores)
        self.counts_ = {
            "terms": terms,
            "anchors": points,
            "skipped": 0,
            "dropped": pairs * (pairs - 1) // 2 - terms,
        }
        if not np.isfinite(value):
            raise LossOverflowError(
                "The loss overflows: Z is too large. Divide Z, or normalise it."
            )
        return value, weights
