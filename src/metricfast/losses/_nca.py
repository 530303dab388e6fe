"""Neighbourhood components analysis."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metricfast._core.arguments import check_choice
from metricfast._core.dispatch import get_kernels
from metricfast.losses._call import AllPairsLoss, Call, Totals

__all__ = ["NCA"]

Integers = NDArray[np.int64]


class NCA(AllPairsLoss):
    """Neighbourhood components analysis.

    With ``p_ij`` the softmax of ``-D_ij`` over the database and ``p_i`` its sum over the anchor's
    own class, the loss is ``-sum_i s_i p_i`` ("sum") or ``-sum_i s_i log p_i`` ("log").

    Parameters
    ----------
    form : {"sum", "log"}, default="sum"
        Expected number of correctly classified points, or their log-likelihood. With "log", anchors
        without a neighbour of their class are skipped.
    reduction : {"sum", "mean"}, default="sum"
        "mean" divides by the number of anchors that took part.

    Notes
    -----
    On one set of points ``sample_weight`` weighs both anchors and kernel columns, a point's own
    column with ``max(w - 1, 0)``: integer weights equal repetition. With a database of its own it
    weighs the anchors alone.

    References
    ----------
    Goldberger, Roweis, Hinton, Salakhutdinov. Neighbourhood components analysis. NeurIPS 2004.

    Examples
    --------
    >>> from metricfast.losses import NCA
    >>> value, grad = NCA()([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1])
    >>> round(value, 3)
    -4.0
    """

    def __init__(self, form: str = "sum", reduction: str = "sum") -> None:
        self.form = form
        self.reduction = reduction

    def _run(self, call: Call) -> Totals:
        check_choice("form", self.form, ("sum", "log"))
        return get_kernels().nca(call, log_form=self.form == "log")
