"""Losses of smooth ranks: average precision and recall."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metricfast._core.arguments import check_count
from metricfast._core.dispatch import get_kernels
from metricfast.losses._call import Call, Loss, Totals, as_positive

__all__ = ["RecallAtK", "SmoothAP"]


class SmoothAP(Loss):
    """Smooth-AP: average precision with sigmoids in place of ranks.

    1 less the mean over the points p of the anchor's class of ``(1 + sum_q g(s_iq - s_ip)) / (1 +
    sum_q g(s_iq - s_ip) + sum_n g(s_in - s_ip))`` with ``g(x) = 1 / (1 + exp(-x / temperature))``,
    inner products s, q over the others of the class and n over other classes.

    Parameters
    ----------
    temperature : float, default=0.01
        The smaller, the nearer to average precision, and the fewer pairs that have a gradient.
    reduction : {"mean", "sum"}, default="mean"
        Over anchors that have both kinds of neighbours; the others are skipped.

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" (pairs of one class), "anchors" and "skipped".

    Notes
    -----
    ``sample_weight`` weighs anchors. The similarities are cosines where embeddings are normalised,
    which losses do not do. An anchor is none of its own neighbours. An anchor costs O(n) for each
    point of its class.

    References
    ----------
    Brown, Xie, Kalogeiton, Zisserman. Smooth-AP: smoothing the path towards large-scale image
    retrieval. ECCV 2020.

    Examples
    --------
    >>> from metricfast.losses import SmoothAP
    >>> value, grad = SmoothAP(0.1)([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], [0, 0, 1])
    >>> round(value, 3)
    0.053
    """

    def __init__(self, temperature: float = 0.01, reduction: str = "mean") -> None:
        self.temperature = temperature
        self.reduction = reduction

    def _run(self, call: Call) -> Totals:
        return get_kernels().smooth_ap(
            call, temperature=as_positive(self.temperature, "temperature")
        )


class RecallAtK(Loss):
    """Recall@k surrogate: the share of the anchor's class among the k nearest, with sigmoids.

    1 less the mean over k of ``sum_p g((k - r_ip) / rank_temperature) / min(k, n_p)``, p over the
    ``n_p`` points of the anchor's class with the smooth ranks ``r_ip = 1 + sum_j g((s_ij - s_ip) /
    temperature)``, where ``g(x) = 1 / (1 + exp(-x))``, s are inner products and j all others.

    Parameters
    ----------
    k : int or sequence of int, default=(1, 2, 4, 8, 16)
    temperature : float, default=0.01
        Of the ranks.
    rank_temperature : float, default=1.0
        Of what is counted as one of the k nearest.
    reduction : {"mean", "sum"}, default="mean"
        Over anchors that have both kinds of neighbours; the others are skipped.

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" (pairs of one class), "anchors" and "skipped".

    Notes
    -----
    ``sample_weight`` weighs anchors. The similarities are cosines where embeddings are normalised,
    which losses do not do. It is meant for large batches. An anchor costs O(n) for each point of
    its class. The published code also cuts the sums off at k; there is no similarity mixup.

    References
    ----------
    Patel, Tolias, Matas. Recall@k surrogate loss with large batches and similarity mixup. CVPR
    2022.

    Examples
    --------
    >>> from metricfast.losses import RecallAtK
    >>> value, grad = RecallAtK(1, 0.1)([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], [0, 0, 1])
    >>> round(value, 3)
    0.515
    """

    def __init__(
        self,
        k: int | Sequence[int] = (1, 2, 4, 8, 16),
        temperature: float = 0.01,
        rank_temperature: float = 1.0,
        reduction: str = "mean",
    ) -> None:
        self.k = k
        self.temperature = temperature
        self.rank_temperature = rank_temperature
        self.reduction = reduction

    def _run(self, call: Call) -> Totals:
        several = self.k if isinstance(self.k, Sequence) and len(self.k) else [self.k]
        return get_kernels().recall_at_k(
            call,
            k=np.array([check_count("k", each) for each in several], np.float64),
            temperature=as_positive(self.temperature, "temperature"),
            rank_temperature=as_positive(self.rank_temperature, "rank_temperature"),
        )
