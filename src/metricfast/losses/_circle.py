"""Circle loss."""

from __future__ import annotations

from metricfast._core.dispatch import get_kernels
from metricfast.losses._call import Call, Loss, Totals, as_finite, as_positive

__all__ = ["Circle"]


class Circle(Loss):
    """Circle loss: similarities that are far from where they should be weigh more.

    ``log(1 + sum_n exp(gamma [s_in + m]_+ (s_in - m)) sum_p exp(-gamma [1 + m - s_ip]_+ (s_ip - 1 +
    m)))`` of inner products s and the margin m, with p over the anchor's class and n over the
    others.

    Parameters
    ----------
    margin : float, default=0.25
    gamma : float, default=256.0
        The paper's for retrieval; 80 is usual for small batches.
    reduction : {"mean", "sum"}, default="mean"
        Over anchors that have both kinds of neighbours; the others are skipped.

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" and "anchors" (that took part) and "skipped".

    Notes
    -----
    ``sample_weight`` weighs anchors. The formula is one of cosines: normalise embeddings, which
    losses do not do. The gradient is that of the formula. The paper's holds the weights in
    brackets constant, as pytorch-metric-learning's ``CircleLoss(m, gamma)`` does: the value is the
    same, the slopes ``2 s_in`` and ``2 (1 - s_ip)`` are there ``s_in + m`` and ``1 + m - s_ip``.

    References
    ----------
    Sun, Cheng, Zhang, Zhang, Zheng, Wang, Wei. Circle loss: a unified perspective of pair
    similarity optimization. CVPR 2020.

    Examples
    --------
    >>> from metricfast.losses import Circle
    >>> value, grad = Circle(gamma=8.0)([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], [0, 0, 1])
    >>> round(value, 3)
    1.357
    """

    def __init__(self, margin: float = 0.25, gamma: float = 256.0, reduction: str = "mean") -> None:
        self.margin = margin
        self.gamma = gamma
        self.reduction = reduction

    def _run(self, call: Call) -> Totals:
        margin, gamma = as_finite(self.margin, "margin"), as_positive(self.gamma, "gamma")
        return get_kernels().circle(call, margin=margin, gamma=gamma)
