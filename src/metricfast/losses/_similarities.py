"""Losses of inner products, which are cosines of normalised embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from metricfast._core.arguments import check_count
from metricfast._core.dispatch import get_kernels
from metricfast._core.parameters import FiniteFloat, PositiveFloat
from metricfast.losses._call import BaseLoss, Call, Totals


class SimilarityLoss(BaseLoss):
    """Base class of losses of inner products of points of length 1."""

    of_unit_length = True
    of_inner_products = True
    takes_tags = True


@dataclass(eq=False, repr=False)
class Circle(SimilarityLoss):
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
        Mean or sum over anchors with both kinds of neighbours. Other anchors are skipped.

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" and "anchors" (that took part) and "skipped".

    Notes
    -----
    ``sample_weight`` weighs anchors. The formula is one of cosines: normalise embeddings, which
    losses do not do. The gradient is the gradient of the formula. The paper's holds the weights in
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

    margin: FiniteFloat = 0.25
    gamma: PositiveFloat = 256.0
    reduction: Literal["mean", "sum"] = "mean"

    def _run(self, call: Call) -> Totals:
        return get_kernels().circle(call, self.margin, self.gamma)


@dataclass(eq=False, repr=False)
class MultiSimilarity(SimilarityLoss):
    """Multi-similarity loss.

    ``log(1 + sum_p exp(-alpha (s_ip - base))) / alpha + log(1 + sum_n exp(beta (s_in - base))) /
    beta`` of inner products s, with p over the anchor's class and n over the others.

    Parameters
    ----------
    alpha : float, default=2.0
    beta : float, default=50.0
    base : float, default=0.5
    reduction : {"mean", "sum"}, default="mean"
        Mean or sum over anchors.

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" and "anchors" (that took part) and "skipped" (those without any other
        point).

    Notes
    -----
    ``sample_weight`` weighs anchors. Similarities are cosines if embeddings are normalised.
    Losses do not normalise. On normalised embeddings, pytorch-metric-learning's
    ``MultiSimilarityLoss(alpha, beta, base)`` without a miner is this.

    References
    ----------
    Wang, Han, Huang, Dong, Scott. Multi-similarity loss with general pair weighting for deep metric
    learning. CVPR 2019.

    Examples
    --------
    >>> from metricfast.losses import MultiSimilarity
    >>> value, grad = MultiSimilarity()([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], [0, 0, 1])
    >>> round(value, 3)
    0.213
    """

    alpha: PositiveFloat = 2.0
    beta: PositiveFloat = 50.0
    base: FiniteFloat = 0.5
    reduction: Literal["mean", "sum"] = "mean"

    def _run(self, call: Call) -> Totals:
        alpha, beta, base = self.alpha, self.beta, self.base
        positive, negative = (alpha, base, 1 / alpha), (beta, base, 1 / beta)
        return get_kernels().softplus_pairs(call, (*positive, *negative))


@dataclass(eq=False, repr=False)
class SupCon(SimilarityLoss):
    """Supervised contrastive loss.

    The mean over the points p of the anchor's class of ``-log(exp(s_ip / t) / sum_k exp(s_ik /
    t))``, with inner products s, the temperature t and k over all points but the anchor.

    Parameters
    ----------
    temperature : float, default=0.1
    reduction : {"mean", "sum"}, default="mean"
        Mean or sum over anchors that share their class. Other anchors are skipped.

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" and "anchors" (that took part) and "skipped" (alone in their class).

    Notes
    -----
    ``sample_weight`` weighs anchors. Similarities are cosines if embeddings are normalised.
    Losses do not normalise. On normalised embeddings, pytorch-metric-learning's
    ``SupConLoss(temperature)`` is this where the batch has two classes or more. For one class it
    returns 0. The formula, which is the paper's, has a value there too, since k runs over the
    anchor's own class: ``log(n - 1)`` for n equal points.

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

    temperature: PositiveFloat = 0.1
    reduction: Literal["mean", "sum"] = "mean"

    def _run(self, call: Call) -> Totals:
        return get_kernels().supcon(call, self.temperature)


@dataclass(eq=False, repr=False)
class NTXent(SimilarityLoss):
    """Normalised temperature-scaled cross entropy.

    ``-log(exp(s_ip / t) / (exp(s_ip / t) + sum_n exp(s_in / t)))`` for every pair of an anchor i
    and a point p of its class, with inner products s, the temperature t and n over the other
    classes. With two points per class it is :class:`SupCon`.

    Parameters
    ----------
    temperature : float, default=0.07
    reduction : {"mean_nonzero", "mean", "sum"}, default="mean_nonzero"
        Mean over pairs of one class ("mean_nonzero"), or mean or sum over anchors of the sums over
        their pairs.

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" (pairs of one class), "anchors" and "skipped" (anchors without
        another point of their class, or without one of another).

    Notes
    -----
    ``sample_weight`` weighs anchors. Similarities are cosines if embeddings are normalised.
    Losses do not normalise. On normalised embeddings, pytorch-metric-learning's
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

    temperature: PositiveFloat = 0.07
    reduction: Literal["mean_nonzero", "mean", "sum"] = "mean_nonzero"

    def _run(self, call: Call) -> Totals:
        return get_kernels().ntxent(call, self.temperature)


@dataclass(eq=False, repr=False)
class SmoothAP(SimilarityLoss):
    """Smooth-AP: average precision with sigmoids in place of ranks.

    1 less the mean over the points p of the anchor's class of ``(1 + sum_q g(s_iq - s_ip)) / (1 +
    sum_q g(s_iq - s_ip) + sum_n g(s_in - s_ip))`` with ``g(x) = 1 / (1 + exp(-x / temperature))``,
    inner products s, q over the others of the class and n over other classes.

    Parameters
    ----------
    temperature : float, default=0.01
        The smaller, the nearer to average precision, and the fewer pairs that have a gradient.
    reduction : {"mean", "sum"}, default="mean"
        Mean or sum over anchors with both kinds of neighbours. Other anchors are skipped.

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" (pairs of one class), "anchors" and "skipped".

    Notes
    -----
    ``sample_weight`` weighs anchors. Similarities are cosines if embeddings are normalised.
    Losses do not normalise. An anchor is not its own neighbour. An anchor costs O(n) for each point
    of its class.

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

    temperature: PositiveFloat = 0.01
    reduction: Literal["mean", "sum"] = "mean"

    def _run(self, call: Call) -> Totals:
        return get_kernels().smooth_ap(call, self.temperature)


@dataclass(eq=False, repr=False)
class RecallAtK(SimilarityLoss):
    """Recall@k surrogate: the share of the anchor's class among the k nearest, with sigmoids.

    1 less the mean over k of ``sum_p g((k - r_ip) / rank_temperature) / min(k, n_p)``, p over the
    ``n_p`` points of the anchor's class with the smooth ranks ``r_ip = 1 + sum_j g((s_ij - s_ip) /
    temperature)``, where ``g(x) = 1 / (1 + exp(-x))``, s are inner products and j all others.

    Parameters
    ----------
    k : int or sequence of int, default=(1, 2, 4, 8, 16)
    temperature : float, default=0.01
        Width of the sigmoids that smooth the ranks.
    rank_temperature : float, default=1.0
        Width of the sigmoid at rank k.
    reduction : {"mean", "sum"}, default="mean"
        Mean or sum over anchors with both kinds of neighbours. Other anchors are skipped.

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" (pairs of one class), "anchors" and "skipped".

    Notes
    -----
    ``sample_weight`` weighs anchors. Similarities are cosines if embeddings are normalised.
    Losses do not normalise. It is meant for large batches. An anchor costs O(n) for each point of
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

    k: int | Sequence[int] = (1, 2, 4, 8, 16)
    temperature: PositiveFloat = 0.01
    rank_temperature: PositiveFloat = 1.0
    reduction: Literal["mean", "sum"] = "mean"

    def _run(self, call: Call) -> Totals:
        several = self.k if isinstance(self.k, Sequence) and len(self.k) else [self.k]
        return get_kernels().recall_at_k(
            call, [check_count("k", each) for each in several], self.temperature,
            self.rank_temperature,
        )  # fmt: skip
