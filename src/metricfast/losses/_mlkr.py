"""Metric learning for kernel regression."""

from __future__ import annotations

from metricfast._core.dispatch import get_kernels
from metricfast.losses._call import AllPairsLoss, Call, Totals

__all__ = ["MLKR"]


class MLKR(AllPairsLoss):
    """Metric learning for kernel regression.

    With ``p_ij`` the softmax of ``-D_ij`` over the database and the prediction
    ``t_i = sum_j p_ij y_j``, the loss is ``sum_i s_i (t_i - y_i)^2``. The targets y are numbers.

    Parameters
    ----------
    reduction : {"sum", "mean"}, default="sum"
        "mean" divides by the number of anchors.

    Notes
    -----
    On one set of points ``sample_weight`` weighs both anchors and kernel columns, a point's own
    column with ``max(w - 1, 0)``: integer weights equal repetition. With a database of its own it
    weighs the anchors alone.

    References
    ----------
    Weinberger, Tesauro. Metric learning for kernel regression. AISTATS 2007.

    Examples
    --------
    >>> from metricfast.losses import MLKR
    >>> value, grad = MLKR()([[0.0], [0.1], [5.0], [5.1]], [1.0, 1.5, 7.0, 8.0])
    >>> round(value, 3)
    2.5
    """

    labels = "continuous"

    def __init__(self, reduction: str = "sum") -> None:
        self.reduction = reduction

    def _run(self, call: Call) -> Totals:
        return get_kernels().mlkr(call)
