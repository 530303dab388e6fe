"""Losses of points and proxies."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from metricfast._core.dispatch import get_kernels
from metricfast._core.parameters import FiniteFloat, PositiveFloat
from metricfast.losses._all_pairs import NCA
from metricfast.losses._call import BaseLoss, Call, Totals


@dataclass(eq=False, repr=False)
class ProxyNCA(BaseLoss):
    """Neighbourhood components analysis with proxies in place of neighbours.

    ``-log`` of the share of the proxies of the point's class in the softmax of ``-scale D`` over
    all proxies, D being squared distances.

    Parameters
    ----------
    scale : float, default=1.0
    reduction : {"mean", "sum"}, default="mean"
        Mean or sum over points whose class has a proxy. Other points are skipped.

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" and "anchors" (that took part) and "skipped".

    Notes
    -----
    Called with the table of proxies as ``Z_database`` and their classes as ``y_database``; the
    second gradient is the proxies'. ``sample_weight`` weighs points. Embeddings and proxies are not
    normalised. The softmax is over all proxies, as in ProxyNCA++; the first paper leaves the
    point's own out of the sum. On normalised points and proxies, pytorch-metric-learning's
    ``ProxyNCALoss(softmax_scale=scale)`` is this.

    References
    ----------
    Movshovitz-Attias, Toshev, Leung, Ioffe, Singh. No fuss distance metric learning using proxies.
    ICCV 2017. Teh, DeVries, Taylor. ProxyNCA++: revisiting and revitalizing proxy neighborhood
    component analysis. ECCV 2020.

    Examples
    --------
    >>> from metricfast.losses import ProxyNCA
    >>> value, (grad, of_proxies) = ProxyNCA()([[0.0], [0.5]], [0, 1], [[0.0], [1.0]], [0, 1])
    >>> round(value, 3)
    0.503
    """

    scale: PositiveFloat = 1.0
    reduction: Literal["mean", "sum"] = "mean"

    of_unit_length = True
    learnable_database = True

    def _run(self, call: Call) -> Totals:
        root = math.sqrt(self.scale)
        with np.errstate(over="ignore"):
            scaled = replace(call, queries=root * call.queries, database=root * call.references)
        scaled.check_points(squares=False)
        totals = NCA("log")._run(scaled)
        call.gradient = root * scaled.gradient
        call.database_gradient = root * np.asarray(scaled.database_gradient)
        return totals


@dataclass(eq=False, repr=False)
class ProxyAnchor(BaseLoss):
    """Proxy-anchor loss.

    With proxies p, inner products s, points x of the proxy's class and others, the mean over
    proxies that have points of ``log(1 + sum_x exp(-alpha (s(x, p) - margin)))`` plus the mean over
    all proxies of ``log(1 + sum_x exp(alpha (s(x, p) + margin)))``.

    Parameters
    ----------
    margin : float, default=0.1
    alpha : float, default=32.0

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" and "anchors" (proxies that took part).

    Notes
    -----
    Called with the table of proxies as ``Z_database`` and their classes as ``y_database``; the
    second gradient is the proxies'. ``sample_weight`` weighs points: integer weights equal
    repetition. The similarities are cosines where points and proxies are normalised, which losses
    do not do. There pytorch-metric-learning's ``ProxyAnchorLoss`` is this.

    References
    ----------
    Kim, Kim, Cho, Kwak. Proxy anchor loss for deep metric learning. CVPR 2020.

    Examples
    --------
    >>> from metricfast.losses import ProxyAnchor
    >>> points, proxies = [[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.0, 1.0]]
    >>> value, (grad, of_proxies) = ProxyAnchor()(points, [0, 1], proxies, [0, 1])
    >>> round(value, 2)
    12.82
    """

    margin: FiniteFloat = 0.1
    alpha: PositiveFloat = 32.0

    of_unit_length = True
    learnable_database = True
    of_inner_products = True
    _weighed_by: ClassVar[dict[str, str]] = {}  # a sum over proxies

    def _run(self, call: Call) -> Totals:
        if call.exclude is not None and (call.exclude >= 0).any():
            raise ValueError(
                "ProxyAnchor compares all points with all proxies: exclude is of no use."
            )
        alpha, margin = self.alpha, self.margin
        weighty = slice(None) if call.weight is None else call.weight > 0
        with_points = np.zeros(max(call.y.max(), call.y_database.max()) + 1, bool)
        with_points[call.y[weighty]] = True
        n_with_points = int(with_points[call.y_database].sum())
        return get_kernels().softplus_pairs(
            call.swapped(),
            (alpha, margin, 1 / max(n_with_points, 1), alpha, -margin, 1 / len(call.references)),
        )
