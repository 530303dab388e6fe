"""Logistic discriminant metric learning."""

from __future__ import annotations

import numpy as np

from metricfast._core.dispatch import get_kernels
from metricfast.losses._call import AllPairsLoss, Call, Totals, as_finite

__all__ = ["LDML"]


class LDML(AllPairsLoss):
    """Logistic discriminant metric learning.

    Two points are said to be of one class with probability ``1 / (1 + exp(D_ij - bias))``. The
    loss is the negative log-likelihood of all pairs of an anchor and another point of the database,
    so on one set of points each pair counts twice.

    Parameters
    ----------
    bias : float, default=1.0
        The squared distance at which both answers are equally probable.

    Attributes
    ----------
    bias_gradient_ : float
        The derivative of the last value by the bias.

    Notes
    -----
    On one set of points ``sample_weight`` weighs a pair with the product of its weights, and a
    point with itself with ``w max(w - 1, 0)``: integer weights equal repetition. With a database of
    its own it weighs the anchors alone.

    References
    ----------
    Guillaumin, Verbeek, Schmid. Is that you? Metric learning approaches for face identification.
    ICCV 2009.

    Examples
    --------
    >>> from metricfast.losses import LDML
    >>> value, grad = LDML(bias=9.0)([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1])
    >>> value < 0.01
    True
    """

    def __init__(self, bias: float = 1.0) -> None:
        self.bias = bias

    def _run(self, call: Call) -> Totals:
        gradient = np.empty(len(call.queries))
        totals = get_kernels().ldml(call, bias=as_finite(self.bias, "bias"), bias_gradient=gradient)
        total = gradient.sum() if call.weight is None else call.weight @ gradient
        self.bias_gradient_ = float(total)
        return totals
