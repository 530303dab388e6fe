"""Losses of all points of a row: softmax losses and losses of all pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from metricfast._core.dispatch import get_kernels
from metricfast._core.parameters import FiniteFloat
from metricfast.losses._call import BaseLoss, Call, Totals


class AllPairsLoss(BaseLoss):
    """Base class of losses in which every column of a row contributes, optionally with a weight."""

    _weighs_columns = True
    takes_tags = True


@dataclass(eq=False, repr=False)
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

    bias: FiniteFloat = 1.0

    def _run(self, call: Call) -> Totals:
        gradient = np.empty(len(call.queries))
        totals = get_kernels().ldml(call, self.bias, gradient)
        total = gradient.sum() if call.weight is None else call.weight @ gradient
        self.bias_gradient_ = float(total)
        return totals


@dataclass(eq=False, repr=False)
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

    reduction: Literal["sum", "mean"] = "sum"

    def _run(self, call: Call) -> Totals:
        return get_kernels().mcml(call)


@dataclass(eq=False, repr=False)
class MLKR(AllPairsLoss):
    """Metric learning for kernel regression: the squared error of a soft mean of neighbours.

    With ``p_ij`` the softmax of ``-D_ij`` over the database and the prediction
    ``t_i = sum_j p_ij y_j``, the loss is ``sum_i s_i ||t_i - y_i||^2``. The targets y are numbers,
    or several each, (n, n_outputs), whose errors add up.

    Parameters
    ----------
    reduction : {"sum", "mean"}, default="sum"
        "mean" divides by the number of anchors.
    squared : bool, default=True
        Whether D are squared distances; if not, plain ones, whose softmax has longer tails. Points
        at distance 0 then have no gradient.

    Notes
    -----
    On one set of points ``sample_weight`` weighs both anchors and kernel columns, a point's own
    column with ``max(w - 1, 0)``: integer weights equal repetition. With a database of its own it
    weighs the anchors alone.

    References
    ----------
    Weinberger, Tesauro. Metric learning for kernel regression. AISTATS 2007.

    Ye, Yin, Zhan, Chao. Revisiting nearest neighbor for tabular data: a deep tabular baseline two
    decades later. ICLR 2025. (Of distances that are not squared.)

    Examples
    --------
    >>> from metricfast.losses import MLKR
    >>> value, grad = MLKR()([[0.0], [0.1], [5.0], [5.1]], [1.0, 1.5, 7.0, 8.0])
    >>> round(value, 3)
    2.5
    """

    reduction: Literal["sum", "mean"] = "sum"
    squared: bool = True

    labels = "continuous"
    takes_tags = False
    _outputs = True

    def _run(self, call: Call) -> Totals:
        return get_kernels().mlkr(call, self.squared)


@dataclass(eq=False, repr=False)
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
    squared : bool, default=True
        Whether D are squared distances; if not, plain ones, whose softmax has longer tails. Points
        at distance 0 then have no gradient.

    Notes
    -----
    The nearest distance is subtracted before each sum of exponentials, over all points and over
    the class. So logarithms are finite and have a gradient, however far the class is. No small
    number is added to ``p_i``.

    On one set of points ``sample_weight`` weighs both anchors and kernel columns, a point's own
    column with ``max(w - 1, 0)``: integer weights equal repetition. With a database of its own it
    weighs the anchors alone.

    References
    ----------
    Goldberger, Roweis, Hinton, Salakhutdinov. Neighbourhood components analysis. NeurIPS 2004.

    Ye, Yin, Zhan, Chao. Revisiting nearest neighbor for tabular data: a deep tabular baseline two
    decades later. ICLR 2025. (Of distances that are not squared.)

    Examples
    --------
    >>> from metricfast.losses import NCA
    >>> value, grad = NCA()([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1])
    >>> round(value, 3)
    -4.0
    """

    form: Literal["sum", "log"] = "sum"
    reduction: Literal["sum", "mean"] = "sum"
    squared: bool = True

    def _run(self, call: Call) -> Totals:
        settings = (self.form == "log", self.squared, call.column_weight)
        return get_kernels().nca(call, settings)
