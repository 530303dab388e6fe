"""Neighbourhood gerrymandering: the loss of the vote of the nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from metricfast._core.arguments import called_like
from metricfast._core.dispatch import get_kernels
from metricfast._core.parameters import PositiveInt
from metricfast._core.types import Floats, Integers
from metricfast.distances.inference import (
    Inference,
    Ties,
    check_loss_matrix,
    empty_sets,
    vote_labels,
)
from metricfast.distances.neighbors import check_neighbors
from metricfast.losses._call import BaseLoss, Call, Totals
from metricfast.losses._labels import BoundLabels

_Rows = tuple[Floats, Integers, Integers]  # values, columns and row starts


@dataclass(eq=False, repr=False)
class Gerrymander(BaseLoss):
    r"""A bound on the cost of the vote of the nearest neighbours.

    .. math:: \sum_i s_i \left( \max_h [S(x_i, h) + \Delta(y_i, h)]
              - \max_{h: \Delta(y_i, h) = 0} S(x_i, h) \right)

    with h the sets of `n_neighbors` database points, S(x, h) minus the sum of their squared
    distances, and :math:`\Delta(y, h)` the cost of their vote. With pessimistic ties it is never
    less than the cost of the vote of the nearest neighbours. Its gradient by distances is -1 on the
    first set and 1 on the second.

    Parameters
    ----------
    n_neighbors : int, default=3
    loss_matrix : array-like of shape (n_classes, n_classes), optional
        ``loss_matrix[y, r]``: the cost of the answer r where y is right; labels are its indices. By
        default 1 for every wrong answer.
    ties : {"pessimistic", "optimistic", "label", "nearest"}, default="pessimistic"
    inference : {"exact", "greedy"}, default="exact"
        As for `metricfast.inference.targeted`. With "greedy" the value may be negative.
    reduction : {"sum", "mean"}, default="sum"
        "mean" divides by the weight of the feasible anchors.

    Attributes
    ----------
    n_infeasible_ : int
        In the last call, the anchors that no set is right for; they are left out.
    vote_loss_ : float
        In the last call, the sum of the costs of the vote of the nearest neighbours, with the
        weights of the anchors.
    vote_errors_ : float
        In the last call, the weight of the anchors whose nearest neighbours vote for another class,
        ties going to the class of the nearest.

    Notes
    -----
    ``sample_weight`` weighs anchors alone.

    References
    ----------
    S. Trivedi, D. McAllester, G. Shakhnarovich, "Discriminative metric learning by neighborhood
    gerrymandering", NIPS 2014.

    Examples
    --------
    >>> from metricfast.losses import Gerrymander
    >>> loss = Gerrymander(n_neighbors=1)
    >>> value, grad = loss([[0.0], [1.0], [1.5], [9.0]], [0, 0, 1, 1])
    >>> loss.vote_loss_, value >= loss.vote_loss_, grad.shape
    (2.0, True, (4, 1))
    """

    n_neighbors: PositiveInt = 3
    loss_matrix: ArrayLike | None = None
    ties: Ties = "pessimistic"
    inference: Literal["exact", "greedy"] = "exact"
    reduction: Literal["sum", "mean"] = "sum"

    def _run(self, call: Call) -> Totals:
        value, (weights, columns, starts) = self._value_and_weights(call)
        get_kernels().given(
            call.queries, call.database, starts, columns, call.gradient, call.database_gradient,
            call.threads, weights.astype(call.queries.dtype),
        )  # fmt: skip
        found = len(call.queries) - self.n_infeasible_
        return value, len(weights), found, self.n_infeasible_, 0

    @called_like(BaseLoss._call)
    def weights(self, *args: Any, **kwargs: Any) -> tuple[float, csr_array]:
        """Return the value, and its derivative by every distance.

        Returns
        -------
        value : float
        weights : csr_array of shape (n_queries, n_database)
            What `metricfast.metric_gradient` takes: so also a full matrix M can be trained.

        Raises
        ------
        LossOverflowError
            If squared distances overflow.
        """
        return self.of_distances(self._call(*args, **kwargs))

    def of_distances(self, call: Call) -> tuple[float, csr_array]:
        """Like :meth:`weights`, for checked arguments."""
        value, weights = self._value_and_weights(call)
        return value, csr_array(weights, shape=(len(call.queries), len(call.references)))

    def _value_and_weights(self, call: Call) -> tuple[float, _Rows]:
        """Return the value, and its derivative by every distance as the arrays of a CSR matrix."""
        check_neighbors(self.n_neighbors, len(call.references), call.exclude)
        weight = np.ones(len(call.queries)) if call.weight is None else call.weight
        targeted, augmented = self._sets(call, weight)
        self.n_infeasible_ = int((~targeted.feasible).sum())
        taken = np.flatnonzero(targeted.feasible)
        with np.errstate(invalid="ignore"):  # infinite minus infinite distances
            value = float(weight[taken] @ (augmented.values[taken] - targeted.values[taken]))
        if not np.isfinite(value):
            call.refuse_overflow()
        total = float(weight[taken].sum()) if call.reduction == "mean" else 1.0
        factor = 1 / total if total > 0 else 1.0
        return value * factor, _differing(targeted, augmented, weight * factor)

    def _bound_labels(
        self, y: ArrayLike, y_database: ArrayLike | None, n: int, m: int | None
    ) -> BoundLabels:
        labels = super()._bound_labels(y, y_database, n, m)
        if self.loss_matrix is None:
            return labels
        others, size = (y, n) if y_database is None or m is None else (y_database, m)
        matrix, names = check_loss_matrix(self.loss_matrix), ("y", "y_database")
        return BoundLabels("class", *vote_labels(y, others, n, size, matrix, names)[:2])

    def _sets(self, call: Call, weight: Floats) -> tuple[Inference, Inference]:
        """Find the sets, and count the votes of the nearest neighbours."""
        n, k = len(call.queries), int(self.n_neighbors)
        matrix, y, y_database = None, call.y, call.y_database
        if self.loss_matrix is None:
            y, y_database, classes = _without_gaps(y, y_database)
        else:
            matrix = check_loss_matrix(self.loss_matrix)
            classes = len(matrix)
        targeted, augmented = empty_sets(n, k), empty_sets(n, k)
        plain, wrong = np.empty(n), np.empty(n, bool)
        get_kernels().infer(
            call.queries, call.references, y, y_database,
            (k, (matrix, classes), self.ties, self.inference == "greedy"), call.exclude, targeted,
            augmented, plain, wrong, call.threads,
        )  # fmt: skip
        self.vote_loss_, self.vote_errors_ = float(weight @ plain), float(weight @ wrong)
        return targeted, augmented


def _without_gaps(y: Integers, y_database: Integers) -> tuple[Integers, Integers, int]:
    """Renumber the occurring classes from 0, in order; also return their number."""
    present = np.zeros(max(int(y.max()), int(y_database.max())) + 1, bool)
    present[y] = present[y_database] = True
    place = np.cumsum(present) - 1
    return place[y], place[y_database], int(place[-1]) + 1


def _differing(targeted: Inference, augmented: Inference, weight: Floats) -> _Rows:
    """Return weights of +w for targeted and -w for augmented sets, as sparse rows."""
    n, k = targeted.indices.shape
    columns = np.concatenate([targeted.indices, augmented.indices], axis=1)
    order = np.argsort(columns, axis=1, kind="stable")
    columns = np.take_along_axis(columns, order, axis=1)
    weights = np.where(order < k, weight[:, None], -weight[:, None])
    # Points in both sets cancel out.
    twice = columns[:, 1:] == columns[:, :-1]
    kept = np.repeat(targeted.feasible[:, None], 2 * k, axis=1)
    kept[:, 1:] &= ~twice
    kept[:, :-1] &= ~twice
    starts = np.zeros(n + 1, np.int64)
    np.cumsum(kept.sum(axis=1), out=starts[1:])
    return weights[kept], columns[kept], starts
