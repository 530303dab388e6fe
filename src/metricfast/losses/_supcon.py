"""Supervised contrastive and NT-Xent losses."""

from __future__ import annotations

from metricfast._core.dispatch import get_kernels
from metricfast.losses._call import Call, Loss, Totals, as_positive

__all__ = ["NTXent", "SupCon"]


class SupCon(Loss):
    """Supervised contrastive loss.

    The mean over the points p of the anchor's class of ``-log(exp(s_ip / t) / sum_k exp(s_ik /
    t))``, with inner products s, the temperature t and k over all points but the anchor.

    Parameters
    ----------
    temperature : float, default=0.1
    reduction : {"mean", "sum"}, default="mean"
        Over anchors that are not the only one of their class; the others are skipped.

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" and "anchors" (that took part) and "skipped" (alone in their class).

    Notes
    -----
    ``sample_weight`` weighs anchors. The similarities are cosines where embeddings are normalised,
    which losses do not do. On normalised embeddings, pytorch-metric-learning's
    ``SupConLoss(temperature)`` is this.

    References
    ----------
    Khosla, Teterwak, Wang, Sarna, Tian, Isola, Maschinot, Liu, Krishnan. Supervised contrastive
    learning. NeurIPS 2020.

    Examples
    --------
    >>> from metricfast.losses import SupCon
    >>> value, grad = SupCon(temperature=0.5)([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], [0, 0, 1])
    >>> round(value, 3)
    0.348
    """

    def __init__(self, temperature: float = 0.1, reduction: str = "mean") -> None:
        self.temperature = temperature
        self.reduction = reduction

    def _run(self, call: Call) -> Totals:
        return get_kernels().supcon(call, temperature=as_positive(self.temperature, "temperature"))


class NTXent(Loss):
    """Normalised temperature-scaled cross entropy.

    ``-log(exp(s_ip / t) / (exp(s_ip / t) + sum_n exp(s_in / t)))`` for every pair of an anchor i
    and a point p of its class, with inner products s, the temperature t and n over the other
    classes. With two points a class it is :class:`SupCon`.

    Parameters
    ----------
    temperature : float, default=0.07
    reduction : {"mean_nonzero", "mean", "sum"}, default="mean_nonzero"
        Over pairs of one class, or over anchors (of sums over their pairs).

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" (pairs of one class), "anchors" and "skipped" (anchors without
        another point of their class, or without one of another).

    Notes
    -----
    ``sample_weight`` weighs anchors. The similarities are cosines where embeddings are normalised,
    which losses do not do. On normalised embeddings, pytorch-metric-learning's
    ``NTXentLoss(temperature)`` is this.

    References
    ----------
    Sohn. Improved deep metric learning with multi-class N-pair loss objective. NeurIPS 2016.
    Chen, Kornblith, Norouzi, Hinton. A simple framework for contrastive learning of visual
    representations. ICML 2020.

    Examples
    --------
    >>> from metricfast.losses import NTXent
    >>> value, grad = NTXent(temperature=0.5)([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], [0, 0, 1])
    >>> round(value, 3)
    0.348
    """

    _reductions = ("mean_nonzero", "mean", "sum")

    def __init__(self, temperature: float = 0.07, reduction: str = "mean_nonzero") -> None:
        self.temperature = temperature
        self.reduction = reduction

    def _run(self, call: Call) -> Totals:
        return get_kernels().ntxent(call, temperature=as_positive(self.temperature, "temperature"))
