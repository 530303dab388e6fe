"""Maximally collapsing metric learning."""

from __future__ import annotations

from metricfast._core.dispatch import get_kernels
from metricfast.losses._call import AllPairsLoss, Call, Totals

__all__ = ["MCML"]


class MCML(AllPairsLoss):
    """Maximally collapsing metric learning.

    With ``p_ij`` the softmax of ``-D_ij`` over the database and ``q_ij`` uniform over the ``m_i``
    points of the anchor's class there, the loss is the divergence of the two:
    ``sum_i s_i KL(q_i || p_i) = sum_i s_i (mean_j D_ij + log sum_l exp(-D_il) - log m_i)`` with j
    over the class and l over all. Anchors without a neighbour of their class are skipped.

    Parameters
    ----------
    reduction : {"sum", "mean"}, default="sum"
        "mean" divides by the number of anchors that took part.

    Notes
    -----
    On one set of points ``sample_weight`` weighs both anchors and columns, a point's own column
    with ``max(w - 1, 0)``: integer weights equal repetition. With a database of its own it weighs
    the anchors alone.

    References
    ----------
    Globerson, Roweis. Metric learning by collapsing classes. NeurIPS 2005.

    Examples
    --------
    >>> from metricfast.losses import MCML
    >>> value, grad = MCML()([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1])
    >>> round(abs(value), 3)
    0.0
    """

    def __init__(self, reduction: str = "sum") -> None:
        self.reduction = reduction

    def _run(self, call: Call) -> Totals:
        return get_kernels().mcml(call)
