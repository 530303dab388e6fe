"""Plots of distances of similar and dissimilar pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import roc_auc_score, roc_curve

from metricfast._core.arguments import as_numbers, check_bool
from metricfast._core.checks import check_both_kinds
from metricfast._core.types import Array, Floats
from metricfast.metrics._pairs import equal_error_rate
from metricfast.plotting._axes import BASELINE, DISSIMILAR, SIMILAR, Display, check_has


@dataclass(eq=False, repr=False, kw_only=True)
class PairScoreDisplay(Display):
    """Distances of similar and of dissimilar pairs, the threshold between them, and the ROC curve.

    For a learner of a similarity, the distance is the negative similarity.

    Make one by :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    distances : ndarray of shape (n_pairs,)
        The distances of the pairs.
    similar : ndarray of bool of shape (n_pairs,)
        Which pairs are similar.
    threshold : float, optional
        Pairs of at most this distance count as similar.
    name : str, optional
        Text in the legend.

    Attributes
    ----------
    fpr, tpr : ndarray
        The ROC curve.
    roc_auc : float
        The area under it.
    equal_error_rate : float
        The rate at which it has equal errors of both kinds.
    ax_, figure_
        Axes, or two of them with a ROC curve; and their figure.

    Examples
    --------
    >>> from metricfast import GMML
    >>> from metricfast.plotting import PairScoreDisplay
    >>> pairs = [[[0.0, 1.0], [0.1, 1.2]], [[0.0, 2.0], [4.0, 2.0]]]
    >>> gmml = GMML().fit(pairs, [1, -1])
    >>> PairScoreDisplay.from_estimator(gmml, pairs, [1, -1]).roc_auc
    1.0
    """

    distances: Floats
    similar: Array
    threshold: float | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        """Compute the ROC curve."""
        self.fpr, self.tpr, _ = roc_curve(self.similar, -self.distances)
        self.roc_auc = float(roc_auc_score(self.similar, -self.distances))
        self.equal_error_rate = equal_error_rate(self.fpr, self.tpr)

    @classmethod
    def from_estimator(
        cls, estimator: Any, pairs: Any, y: ArrayLike, *, name: str | None = None, **kwargs: Any
    ) -> PairScoreDisplay:
        """Draw the distances of pairs under a fitted learner, and its threshold if one is set.

        Parameters
        ----------
        estimator : fitted learner
            One with `pair_score`.
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of points, or of indicators for the preprocessor.
        y : array-like of shape (n_pairs,)
            1 for similar pairs, -1 for dissimilar ones.
        name : str, optional
            For the legend; by default the name of the learner.
        **kwargs
            Arguments of :meth:`plot`.

        Returns
        -------
        PairScoreDisplay

        Raises
        ------
        TypeError
            If the estimator has no `pair_score`.
        ValueError
            If an argument is not as above, or all pairs are of one kind.
        """
        check_has(estimator, "pair_score")
        distances = -estimator.pair_score(pairs)
        check_both_kinds(y, len(distances))
        name = type(estimator).__name__ if name is None else name
        threshold = getattr(estimator, "threshold_", None)
        return cls.from_predictions(y, distances, threshold=threshold, name=name, **kwargs)

    @classmethod
    def from_predictions(
        cls, y_true: ArrayLike, distances: ArrayLike, *, threshold: float | None = None,
        name: str | None = None, **kwargs: Any,
    ) -> PairScoreDisplay:  # fmt: skip
        """Draw distances of pairs that are known already.

        Parameters
        ----------
        y_true : array-like of shape (n_pairs,)
            1 for similar pairs, -1 for dissimilar ones.
        distances : array-like of shape (n_pairs,)
            Distances; or similarities, each multiplied by -1.
        threshold : float, optional
            The largest distance of pairs that count as similar.
        name, **kwargs
            As in :meth:`from_estimator`.

        Returns
        -------
        PairScoreDisplay
        """
        known = as_numbers(distances, "distances")
        similar = check_both_kinds(y_true, len(known), "y_true") == 1
        display = cls(distances=known, similar=similar, threshold=threshold, name=name)
        return display.plot(**kwargs)

    def plot(self, *, roc: bool = True, ax: Any = None, **kwargs: Any) -> PairScoreDisplay:
        """Draw.

        Parameters
        ----------
        roc : bool, default=True
            Draw the ROC curve, too.
        ax : matplotlib Axes, or two of them, optional
            Axes to draw on. If there are two panels, one Axes is divided.
        **kwargs
            Arguments of :meth:`matplotlib.axes.Axes.hist`, for both histograms.

        Returns
        -------
        PairScoreDisplay
            The display.
        """
        check_bool("roc", roc)
        counts, *rest = self._panels(ax, 1 + roc)
        how = {"bins": np.histogram_bin_edges(self.distances, 30), "alpha": 0.6, **kwargs}
        for kind, color, label in (
            (self.similar, SIMILAR, "similar"),
            (~self.similar, DISSIMILAR, "dissimilar"),
        ):
            counts.hist(self.distances[kind], **how, color=color, label=label)
        if self.threshold is not None:
            counts.axvline(self.threshold, color="black", ls="--", label="threshold")
        counts.set(xlabel="distance", ylabel="pairs")
        counts.legend(frameon=False)
        for axes in rest:
            named = "" if self.name is None else f"{self.name}: "
            found = f"area {self.roc_auc:.3f}, EER {self.equal_error_rate:.3f}"
            axes.plot(self.fpr, self.tpr, label=f"{named}{found}")
            axes.plot([0, 1], [0, 1], color=BASELINE, ls=":", label="chance")
            if self.threshold is not None:
                accepted = self.distances <= self.threshold
                rates = (accepted[kind].mean() for kind in (~self.similar, self.similar))
                axes.plot(*([rate] for rate in rates), "o", color="black", label="threshold")
            axes.set(xlabel="dissimilar pairs accepted", ylabel="similar pairs accepted")
            axes.legend(frameon=False, loc="lower right")
        return self
