"""Generalised lifted-structure loss."""

from __future__ import annotations

from metricfast._core.arguments import check_bool
from metricfast._core.dispatch import get_kernels
from metricfast.losses._call import Call, Loss, Totals, as_finite

__all__ = ["GeneralizedLifted"]


class GeneralizedLifted(Loss):
    """Generalised lifted-structure loss.

    ``[log sum_p exp(d_ip - pos_margin) + log sum_n exp(neg_margin - d_in)]_+`` of distances d, with
    p over the anchor's class and n over the others.

    Parameters
    ----------
    neg_margin : float, default=1.0
    pos_margin : float, default=0.0
    squared : bool, default=False
        Whether distances are squared.
    reduction : {"mean", "sum"}, default="mean"
        Over anchors that have both kinds of neighbours; the others are skipped.

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" (anchors with a loss above 0), "anchors" and "skipped".

    Notes
    -----
    ``sample_weight`` weighs anchors. Embeddings are not normalised. pytorch-metric-learning's
    ``GeneralizedLiftedStructureLoss(neg_margin, pos_margin,
    distance=LpDistance(normalize_embeddings=False))`` is this where every anchor has both kinds of
    neighbours.

    References
    ----------
    Hermans, Beyer, Leibe. In defense of the triplet loss for person re-identification. 2017.

    Examples
    --------
    >>> from metricfast.losses import GeneralizedLifted
    >>> value, grad = GeneralizedLifted()([[0.0], [0.5], [0.75], [9.0]], [0, 0, 1, 1])
    >>> round(value, 3)
    3.175
    """

    def __init__(
        self,
        neg_margin: float = 1.0,
        pos_margin: float = 0.0,
        squared: bool = False,
        reduction: str = "mean",
    ) -> None:
        self.neg_margin = neg_margin
        self.pos_margin = pos_margin
        self.squared = squared
        self.reduction = reduction

    def _run(self, call: Call) -> Totals:
        check_bool("squared", self.squared)
        return get_kernels().lifted(
            call,
            positive_margin=as_finite(self.pos_margin, "pos_margin"),
            negative_margin=as_finite(self.neg_margin, "neg_margin"),
            squared=bool(self.squared),
        )
