"""Rank-N-Contrast."""

from __future__ import annotations

from metricfast._core.dispatch import get_kernels
from metricfast.losses._call import Call, Loss, Totals, as_positive
from metricfast.losses._labels import SaidDistance

__all__ = ["RankNContrast"]


class RankNContrast(Loss):
    """Rank-N-Contrast: nearer labels, nearer embeddings.

    The mean over an anchor's neighbours j of ``-log(exp(-d_ij / t) / sum_k exp(-d_ik / t))``, with
    plain distances d, the temperature t and k over the neighbours whose labels are at least as far
    from the anchor's as j's, j among them. Neighbours are sorted by label distance once, so an
    anchor costs O(n log n).

    Parameters
    ----------
    temperature : float, default=2.0
    label_distance : str, tuple or callable, optional
        As of :class:`LogRatio`; by default "cityblock".
    reduction : {"mean", "sum"}, default="mean"
        Over anchors.

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" (pairs of anchor and neighbour), "anchors" and "skipped" (anchors
        without any other point).

    Notes
    -----
    ``sample_weight`` weighs anchors. Embeddings are not normalised. Equal label distances are ties:
    each of the neighbours is in the sums of the others. Those that differ by rounding alone are
    equal, see :class:`Triplet`.

    References
    ----------
    Zha, Cao, Son, Yang, Katabi. Rank-N-Contrast: learning continuous representations for
    regression. NeurIPS 2023.

    Examples
    --------
    >>> from metricfast.losses import RankNContrast
    >>> value, grad = RankNContrast()([[0.0], [1.0], [2.0], [4.0]], [0.0, 1.0, 2.0, 4.0])
    >>> round(value, 3)
    0.498
    """

    labels = "continuous"
    _default_label_distance = "cityblock"

    def __init__(
        self,
        temperature: float = 2.0,
        label_distance: SaidDistance | None = None,
        reduction: str = "mean",
    ) -> None:
        self.temperature = temperature
        self.label_distance = label_distance
        self.reduction = reduction

    def _run(self, call: Call) -> Totals:
        temperature = as_positive(self.temperature, "temperature")
        return get_kernels().rank_n_contrast(call, temperature=temperature)
