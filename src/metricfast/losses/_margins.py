"""Losses of distances and margins between classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from numpy.typing import ArrayLike

from metricfast._core.dispatch import get_kernels
from metricfast._core.parameters import FiniteFloat, NonNegativeFloat
from metricfast._labels.binding import SaidDistance
from metricfast.losses._call import BaseLoss, Call, Totals
from metricfast.losses._labels import BoundLabels


@dataclass(eq=False, repr=False)
class Contrastive(BaseLoss):
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

    pos_margin: NonNegativeFloat = 0.0
    neg_margin: NonNegativeFloat = 1.0
    power: Literal[1, 2] = 1
    reduction: Literal["mean_nonzero", "mean", "sum"] = "mean_nonzero"

    of_unit_length = True
    takes_tags = True
    _weighed_by: ClassVar[dict[str, str]] = {"sum": ""}  # each kind has its mean

    def _run(self, call: Call) -> Totals:
        return get_kernels().contrastive(
            call,
            (self.pos_margin, self.neg_margin, self.power == 2),
            {"sum": "", "mean": "all", "mean_nonzero": "active"}[call.reduction],
        )


@dataclass(eq=False, repr=False)
class GeneralizedLifted(BaseLoss):
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
        Mean or sum over anchors with both kinds of neighbours. Other anchors are skipped.

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

    neg_margin: FiniteFloat = 1.0
    pos_margin: FiniteFloat = 0.0
    squared: bool = False
    reduction: Literal["mean", "sum"] = "mean"

    of_unit_length = True
    takes_tags = True

    def _run(self, call: Call) -> Totals:
        return get_kernels().lifted(call, (self.pos_margin, self.neg_margin, self.squared))


@dataclass(eq=False, repr=False)
class Triplet(BaseLoss):
    """Triplet loss over all triplets of a batch.

    ``[d_near + margin - d_far]_+`` for an anchor, a near and a far point. Sorted distances stand
    for the triplets, so all of a batch of n cost O(n^2 log n), and O(n) memory each anchor.

    Parameters
    ----------
    margin : float, default=0.2
    mining : {"all", "semihard", "hardest"}, default="all"
        The triplets that count. "semihard": those with ``d_near < d_far < d_near + margin``.
        "hardest": for each anchor, its farthest near point with its nearest far point (for
        continuous labels, the triplet with the largest loss).
    labels : {"class", "dense"}, default="class"
        "class": near points share the anchor's class, and far points do not. "dense": labels are
        continuous. Two points make a triplet if their labels are not equally far from the anchor's;
        the point with the nearer label is the near one. Label distances are equal if they differ
        by rounding alone: in each dimension by at most 8 units in the last place of the largest
        label, or of the larger distance if distances are given.
    squared : bool, default=True
        Whether distances are squared.
    reduction : {"mean_nonzero", "mean", "sum"}, default="mean_nonzero"
        Divide by the number of triplets with a loss above 0, or of anchors that have any triplet.
    label_distance : str, tuple or callable, optional
        Distance of dense labels, as in :class:`LogRatio`; by default "sqeuclidean".

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" (triplets with a loss above 0), "anchors" and "skipped" (anchors
        without a near or without a far point).

    Notes
    -----
    ``sample_weight`` weighs anchors. Embeddings are not normalised. pytorch-metric-learning's
    ``TripletMarginLoss(margin, distance=LpDistance(normalize_embeddings=False))`` is
    ``squared=False``, with ``power=2`` ``squared=True``; ``TripletMarginMiner(margin, "semihard")``
    and ``BatchHardMiner`` before it are the other two kinds of mining.

    References
    ----------
    Schroff, Kalenichenko, Philbin. FaceNet: a unified embedding for face recognition and
    clustering. CVPR 2015. Hermans, Beyer, Leibe. In defense of the triplet loss for person
    re-identification. 2017.

    Examples
    --------
    >>> from metricfast.losses import Triplet
    >>> loss = Triplet(margin=1.0)
    >>> value, grad = loss([[0.0], [1.0], [1.5], [9.0]], [0, 0, 1, 1])
    >>> value > 0, loss.counts_["terms"]
    (True, 3)
    """

    margin: NonNegativeFloat = 0.2
    mining: Literal["all", "semihard", "hardest"] = "all"
    labels: Literal["class", "dense"] = "class"
    squared: bool = True
    reduction: Literal["mean_nonzero", "mean", "sum"] = "mean_nonzero"
    label_distance: SaidDistance | None = None

    of_unit_length = True

    @property
    def takes_tags(self) -> bool:  # type: ignore[override]
        """Whether y may hold tags, which replace classes."""
        return self.labels == "class"

    def _bound_labels(
        self, y: ArrayLike, y_database: ArrayLike | None, n: int, m: int | None
    ) -> BoundLabels:
        if self.labels == "class" and self.label_distance is not None:
            raise ValueError("label_distance needs labels='dense'; found labels='class'.")
        return super()._bound_labels(y, y_database, n, m)

    def _run(self, call: Call) -> Totals:
        kernels = get_kernels()
        kernel = kernels.triplet if call.kind in ("class", "tags") else kernels.dense_triplet
        return kernel(call, (self.margin, self.mining, self.squared))
