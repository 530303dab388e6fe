"""Contrastive loss."""

from __future__ import annotations

from metricfast._core.arguments import check_choice
from metricfast._core.dispatch import get_kernels
from metricfast.losses._call import Call, Loss, Totals, as_positive

__all__ = ["Contrastive"]


class Contrastive(Loss):
    """Contrastive loss: one class near, others beyond a margin.

    ``h(d_ij - pos_margin)`` for pairs of one class and ``h(neg_margin - d_ij)`` for pairs of two,
    with plain distances d and ``h(x) = [x]_+ ** power``.

    Parameters
    ----------
    pos_margin : float, default=0.0
    neg_margin : float, default=1.0
    power : {1, 2}, default=1
        2 is the loss of the paper.
    reduction : {"mean_nonzero", "mean", "sum"}, default="mean_nonzero"
        The mean over pairs of one class plus the mean over pairs of two, of pairs with a loss above
        0 or of all; or the sum over all pairs.

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" (pairs with a loss above 0), "anchors" and "skipped" (anchors without
        any other point).

    Notes
    -----
    On one set of points, each pair counts twice in sums and once in means. ``sample_weight`` weighs
    anchors. Embeddings are not normalised. pytorch-metric-learning's ``ContrastiveLoss(pos_margin,
    neg_margin, distance=LpDistance(normalize_embeddings=False))`` is this; with
    ``reducer=MeanReducer()`` it is ``reduction="mean"``.

    References
    ----------
    Hadsell, Chopra, LeCun. Dimensionality reduction by learning an invariant mapping. CVPR 2006.

    Examples
    --------
    >>> from metricfast.losses import Contrastive
    >>> value, grad = Contrastive()([[0.0], [0.5], [0.75], [9.0]], [0, 0, 1, 1])
    >>> value
    4.875
    """

    _reductions = ("mean_nonzero", "mean", "sum")

    def __init__(
        self,
        pos_margin: float = 0.0,
        neg_margin: float = 1.0,
        power: int = 1,
        reduction: str = "mean_nonzero",
    ) -> None:
        self.pos_margin = pos_margin
        self.neg_margin = neg_margin
        self.power = power
        self.reduction = reduction

    def _run(self, call: Call) -> Totals:
        check_choice("power", self.power, (1, 2))
        return get_kernels().contrastive(
            call,
            positive_margin=as_positive(self.pos_margin, "pos_margin", zero=True),
            negative_margin=as_positive(self.neg_margin, "neg_margin", zero=True),
            squared_hinge=self.power == 2,
            mean={"sum": "", "mean": "all", "mean_nonzero": "active"}[call.reduction],
        )
