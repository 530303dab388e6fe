"""Losses of continuous labels: ratios of distances, and their order."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

from metricfast._core.dispatch import get_kernels
from metricfast._core.parameters import NonNegativeFloat, PositiveFloat
from metricfast._labels.binding import SaidDistance
from metricfast.losses._call import BaseLoss, Call, Totals

_PARAMETERS = """Parameters
    ----------
    squared : bool, default=True
        Whether embedded distances are squared, as label distances are by default; if not,
        ``delta_ij = sqrt(D_ij + eps_distance)``.
    label_distance : str, tuple or callable, optional
        Distance of labels. A name: "sqeuclidean" (the default here), "euclidean",
        "cityblock", "cosine", "hamming" (share of columns that differ), "jaccard" (of sets, or rows
        of 0 and 1), "haversine" (latitude and longitude in radians), ``("angular", period)``
        (angles; the period of each column, or one for all), or another metric of
        :func:`scipy.spatial.distance.cdist`. A function of two labels, which may be anything, or of
        two arrays of labels that returns all distances, (n, m). ``("metric", f)``: such a function
        that is a metric, for which :class:`metricfast.samplers.DenseTriplet` makes fewer calls.
        "precomputed": y holds the distances themselves, of shape (n, m), and there is no
        y_database.
    ties : {"drop", "epsilon"}, default="drop"
        What happens to neighbours with the label of the anchor, up to rounding. "drop" leaves them
        out. "epsilon" adds ``eps_log`` times the anchor's mean label distance to all of its label
        distances.
    eps_distance : float or None, default=None
        Added to squared distances; None is the published 1e-4 / n_components. It keeps gradients
        finite: none exceeds about ``1 / sqrt(eps_distance)`` times a neighbour's share.
    eps_log : float, default=1e-6
        Added to distances, inside of the logarithm if there is one. If both are 0, neighbours
        that coincide with the anchor are left out.
    reduction : {"mean", "sum"}, default="mean"
        Mean or sum over anchors. "mean" counts anchors with two or more neighbours."""


_ATTRIBUTES = """Attributes
    ----------
    counts_ : dict
        After a call: "terms" (pairs of neighbours), "anchors", "skipped" (anchors with fewer than
        two neighbours left) and "dropped" (neighbours left out, above all for tied labels)."""


@dataclass(eq=False, repr=False)
class _OfRatios(BaseLoss):
    squared: bool = True
    label_distance: SaidDistance | None = None
    ties: Literal["drop", "epsilon"] = "drop"
    eps_distance: NonNegativeFloat | None = None
    eps_log: NonNegativeFloat = 1e-6
    reduction: Literal["mean", "sum"] = "mean"
    labels = "continuous"

    def _run(self, call: Call) -> Totals:
        if self.ties == "epsilon" and self.eps_log == 0:
            raise ValueError("ties='epsilon' needs eps_log above 0.")
        published = 1e-4 / call.queries.shape[1]
        eps_distance = published if self.eps_distance is None else self.eps_distance
        settings = (self.squared, self.ties == "drop", eps_distance, self.eps_log)
        totals: Totals = self._kernel(get_kernels())(call, settings)
        return totals


class LogRatio(_OfRatios):
    __doc__ = f"""Log-ratio loss: distances proportional to label distances.

    With ``e_j = log delta_ij - log t_ij`` of an anchor i, where ``delta`` are embedded and ``t``
    label distances, the anchor's loss is the mean of ``(e_j - e_k)^2`` over all pairs of its
    neighbours. That is twice the variance of ``e``, so all anchors with all pairs of a batch cost
    O(n^2).

    {_PARAMETERS}

    {_ATTRIBUTES}

    Notes
    -----
    ``sample_weight`` weighs anchors. Embeddings are not normalised. The paper squares both
    distances. Its published code squares neither: ``squared=False, label_distance="euclidean"``.
    Apart from the epsilons, that is a quarter of the squared loss.

    References
    ----------
    Kim, Seo, Laptev, Cho, Kwak. Deep metric learning beyond binary supervision. CVPR 2019.

    Examples
    --------
    >>> from metricfast.losses import LogRatio
    >>> value, grad = LogRatio()([[0.0], [1.0], [2.0], [4.0]], [0.0, 10.0, 20.0, 40.0])
    >>> value < 1e-6
    True
    """

    _kernel = attrgetter("log_ratio")


class Ratio(_OfRatios):
    __doc__ = f"""Ratios of distances equal to ratios of label distances, without the logarithm.

    The mean of ``(delta_ij / delta_ik - t_ij / t_ik)^2`` over the anchor's ordered pairs of
    neighbours j, k, where ``delta`` are embedded and ``t`` label distances. Sums over neighbours
    suffice, so all anchors with all pairs of a batch cost O(n^2).

    {_PARAMETERS}

    {_ATTRIBUTES}

    Notes
    -----
    ``sample_weight`` weighs anchors. Unlike :class:`LogRatio`, a ratio that is too large costs more
    than one that is too small, and near neighbours dominate.

    Examples
    --------
    >>> from metricfast.losses import Ratio
    >>> value, grad = Ratio()([[0.0], [1.0], [2.0], [4.0]], [0.0, 10.0, 20.0, 40.0])
    >>> value < 1e-6
    True
    """

    _kernel = attrgetter("plain_ratio")


class BoundedRatio(_OfRatios):
    __doc__ = f"""Shares of distances equal to shares of label distances: bounded, no logarithm.

    The mean of ``(delta_ij / (delta_ij + delta_ik) - t_ij / (t_ij + t_ik))^2`` over all pairs j, k
    of its neighbours, where ``delta`` are embedded and ``t`` label distances. A pair never
    exceeds 1, so that near neighbours do not dominate as in :class:`Ratio`. All pairs are visited:
    O(n^3) for all anchors of a batch, where :class:`LogRatio` takes O(n^2).

    {_PARAMETERS}

    {_ATTRIBUTES}

    Notes
    -----
    ``sample_weight`` weighs anchors.

    Examples
    --------
    >>> from metricfast.losses import BoundedRatio
    >>> value, grad = BoundedRatio()([[0.0], [1.0], [2.0], [4.0]], [0.0, 10.0, 20.0, 40.0])
    >>> value < 1e-6
    True
    """

    _kernel = attrgetter("bounded_ratio")


@dataclass(eq=False, repr=False)
class RankNContrast(BaseLoss):
    """Rank-N-Contrast: nearer labels, nearer embeddings.

    The mean over an anchor's neighbours j of ``-log(exp(-d_ij / t) / sum_k exp(-d_ik / t))``, with
    plain distances d, the temperature t and k over the neighbours whose labels are at least as far
    from the anchor's as j's, j among them. Neighbours are sorted by label distance once, so an
    anchor costs O(n log n).

    Parameters
    ----------
    temperature : float, default=2.0
    label_distance : str, tuple or callable, optional
        As in :class:`LogRatio`; by default "cityblock".
    reduction : {"mean", "sum"}, default="mean"
        Mean or sum over anchors.

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

    temperature: PositiveFloat = 2.0
    label_distance: SaidDistance | None = None
    reduction: Literal["mean", "sum"] = "mean"

    labels = "continuous"
    _default_label_distance = "cityblock"

    def _run(self, call: Call) -> Totals:
        return get_kernels().rank_n_contrast(call, self.temperature)
