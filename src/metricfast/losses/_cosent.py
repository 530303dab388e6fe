"""CoSENT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import as_numbers
from metricfast._core.dispatch import get_kernels
from metricfast._core.parameters import PositiveFloat
from metricfast._core.types import Floats
from metricfast._labels.binding import SaidDistance
from metricfast.losses._call import BaseLoss, BoundLoss, Call, Totals
from metricfast.losses._labels import BoundLabels

# Label distances count as equal up to this tolerance per dimension, relative to the largest label.
_ROUNDING = 8 * np.finfo(np.float64).eps


@dataclass(eq=False, repr=False)
class CoSENT(BaseLoss):
    """CoSENT: pairs of points in the order of their scores.

    ``log(1 + sum exp(scale (s_b - s_a)))`` over all a, b for which pair a has the higher score, s
    being the pairs' inner products. Sorted by score, n pairs cost O(n log n).

    Parameters
    ----------
    scale : float, default=20.0
    label_distance : str, tuple or callable, optional
        As in :class:`LogRatio`, where pairs have no scores of their own; by default "sqeuclidean".

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" (ordered pairs of pairs), "anchors" (points) and "dropped" (pairs of
        pairs with equal scores; those from labels may differ by rounding, see :class:`Triplet`).

    Notes
    -----
    Called as ``loss(Z, y, Z_database)``, the i-th pair is ``Z[i], Z_database[i]`` and y holds the
    pairs' scores; there is no y_database. Called as ``loss(Z, y)``, the pairs are all pairs of
    points, and the nearer the labels of two, the higher the score: sorted together, the pairs of n
    points take 10 n² bytes. There are no anchors: in learners, it takes one embedding of all
    points, the database of a batch, and samplers of which all points are anchors. ``sample_weight``
    weighs pairs with scores: a pair of weight 2 counts as the pair twice.
    Similarities are cosines if embeddings are normalised. Losses do not normalise.

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

    scale: PositiveFloat = 20.0
    label_distance: SaidDistance | None = None

    labels = "continuous"
    has_anchors = False
    _weighs_pairs = True
    _weighed_by: ClassVar[dict[str, str]] = {}
    of_inner_products = True

    def on_pairs(
        self, y: ArrayLike, sample_weight: ArrayLike | None = None, *, n_jobs: int | None = None
    ) -> BoundLoss:
        """Return the loss of pairs with these scores, which are checked once.

        Parameters
        ----------
        y, sample_weight : array-like of shape (n_pairs,)
        n_jobs : int, optional

        Returns
        -------
        BoundLoss
            ``bound.evaluate_two_sided(Z, Z_database)`` is
            ``loss(Z, y, Z_database, sample_weight=sample_weight)``.
        """
        n = np.size(y)
        return self._on(y, None, n, n, sample_weight, n_jobs)

    def _bound_labels(
        self, y: ArrayLike, y_database: ArrayLike | None, n: int, m: int | None
    ) -> BoundLabels:
        if y_database is not None:
            raise ValueError("y_database must be None: y holds all labels, or scores of pairs.")
        if m is None:
            return super()._bound_labels(y, y_database, n, m)
        if n != m:
            raise ValueError(
                f"Z and Z_database must hold the two points of each pair; found {n} and {m} points."
            )
        return BoundLabels("scores", as_numbers(y, "y", n))

    def _run(self, call: Call) -> Totals:
        with np.errstate(over="ignore", invalid="ignore"):
            return self._all_pairs(call) if call.database is None else self._pairs(call)

    def _pairs(self, call: Call) -> Totals:
        left, right = call.queries, call.references
        weights = call.y.copy()
        similarities = np.asarray((left * right).sum(axis=1, dtype=np.float64))
        log_weights = None
        if call.weight is not None:
            with np.errstate(divide="ignore"):
                log_weights = np.log(call.weight)
        totals = self._order(similarities, weights, len(left), log_weights=log_weights)
        slopes = weights.astype(left.dtype)[:, None]
        call.gradient, call.database_gradient = slopes * right, slopes * left
        return totals

    def _all_pairs(self, call: Call) -> Totals:
        points = call.queries.astype(np.float64)
        rounding = 0.0
        if call.kind != "precomputed":
            rounding = _ROUNDING * call.y.shape[1] * float(np.abs(call.y).max())
        # Scores (later overwritten by weights) and similarities of all pairs i < j, row by row.
        ends = np.cumsum(np.arange(len(points) - 1, -1, -1))
        weights, similarities = np.empty((2, ends[-1]))
        for i, pairs in enumerate(map(slice, [0, *ends[:-1]], ends)):
            weights[pairs] = -_distances(call.y, i, call.kind)
            similarities[pairs] = points[i + 1 :] @ points[i]
        totals = self._order(similarities, weights, len(points), rounding)
        gradient = np.zeros_like(points)
        for i, pairs in enumerate(map(slice, [0, *ends[:-1]], ends)):
            gradient[i] += weights[pairs] @ points[i + 1 :]
            gradient[i + 1 :] += weights[pairs, None] * points[i]
        call.gradient = gradient.astype(call.queries.dtype)
        return totals

    def _order(
        self, similarities: Floats, scores: Floats, points: int, rounding: float = 0.0,
        log_weights: Floats | None = None,
    ) -> Totals:  # fmt: skip
        """Return value and counts; overwrite the scores with derivatives by the similarities."""
        value, terms, *_ = get_kernels().cosent(
            similarities, scores, self.scale, scores, rounding, log_weights
        )
        pairs = len(scores)
        return value, terms, points, 0, pairs * (pairs - 1) // 2 - terms


def _distances(labels: Floats, i: int, metric: str) -> Floats:
    """Return the distances of label i to all later labels."""
    if metric == "precomputed":
        return labels[i, i + 1 :]
    difference = labels[i + 1 :] - labels[i]
    if metric == "cityblock":
        return np.asarray(np.abs(difference).sum(1))
    return np.asarray(np.sqrt((difference**2).sum(1)))
