"""Multi-similarity loss."""

from __future__ import annotations

from metricfast._core.dispatch import get_kernels
from metricfast.losses._call import Call, Loss, Totals, as_finite, as_positive

__all__ = ["MultiSimilarity"]


class MultiSimilarity(Loss):
    """Multi-similarity loss.

    ``log(1 + sum_p exp(-alpha (s_ip - base))) / alpha + log(1 + sum_n exp(beta (s_in - base))) /
    beta`` of inner products s, with p over the anchor's class and n over the others.

    Parameters
    ----------
    alpha : float, default=2.0
    beta : float, default=50.0
    base : float, default=0.5
    reduction : {"mean", "sum"}, default="mean"
        Over anchors.

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" and "anchors" (that took part) and "skipped" (those without any other
        point).

    Notes
    -----
    ``sample_weight`` weighs anchors. The similarities are cosines where embeddings are normalised,
    which losses do not do. On normalised embeddings, pytorch-metric-learning's
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

    def __init__(
        self, alpha: float = 2.0, beta: float = 50.0, base: float = 0.5, reduction: str = "mean"
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.base = base
        self.reduction = reduction

    def _run(self, call: Call) -> Totals:
        alpha, beta = as_positive(self.alpha, "alpha"), as_positive(self.beta, "beta")
        base = as_finite(self.base, "base")
        return get_kernels().softplus_pairs(
            call, alpha=alpha, base_positive=base, f_positive=1 / alpha, beta=beta,
            base_negative=base, f_negative=1 / beta,
        )  # fmt: skip
