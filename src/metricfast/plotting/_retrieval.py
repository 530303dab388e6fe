"""Plots of retrieval metrics against k."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import check_bool, check_choice
from metricfast.metrics import RetrievalReport, Score
from metricfast.metrics._report import report_of
from metricfast.metrics._selection import METRICS
from metricfast.plotting._axes import BASELINE, Display, check_has

_AT_K = [name for name in METRICS if name.endswith("_at_k")]
# Matches names of metrics at one of several k.
_KEY = re.compile(rf"({'|'.join(name[:-1] for name in _AT_K)})(\d+)")


@dataclass(eq=False, repr=False)
class RetrievalDisplay(Display):
    """A metric "at k" of :func:`~metricfast.metrics.retrieval_report`, such as recall, by k.

    The band is the interval of the mean. Chance, a random order, and oracle, the best
    possible order, are drawn if the report has them.

    Make one by :meth:`from_estimator` or :meth:`from_report`.

    Parameters
    ----------
    scores : dict of int to Score
        Scores for each k.
    metric : str
        Name of the metric.
    name : str, optional
        Text in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The means.
    ax_, figure_
        Axes and figure of the drawing.

    Examples
    --------
    >>> from metricfast import LFDA
    >>> from metricfast.plotting import RetrievalDisplay
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> display = RetrievalDisplay.from_estimator(LFDA().fit(X, y), X, y, k=(1, 2, 4))
    >>> list(display.scores)
    [1, 2, 4]
    """

    scores: dict[int, Score]
    metric: str
    _: KW_ONLY
    name: str | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, metric: str = "recall_at_k",
        k: Sequence[int] = (1, 2, 4, 8, 16), baselines: bool = True, name: str | None = None,
        **kwargs: Any,
    ) -> RetrievalDisplay:  # fmt: skip
        """Search points among themselves, as a fitted transformer embeds them.

        Parameters
        ----------
        estimator : fitted transformer
            A learner, or a pipeline or search that ends in one.
        X : array-like of shape (n_samples, n_features)
            Points, each excluded from its own results.
        y : array-like of shape (n_samples,)
            Their labels.
        metric : {"recall_at_k", "ndcg_at_k", "mean_label_distance_at_k"}, default="recall_at_k"
            The last two are of continuous labels.
        k : sequence of int, default=(1, 2, 4, 8, 16)
        baselines : bool, default=True
            Draw chance and oracle, too: True in one of several displays on the same Axes is enough.
        name : str, optional
            For the legend; by default the name of the estimator.
        **kwargs
            Arguments of :meth:`plot`.

        Returns
        -------
        RetrievalDisplay

        Raises
        ------
        ValueError, TypeError
            If an argument is not as above.
        """
        check_choice("metric", metric, _AT_K)
        check_bool("baselines", baselines)
        check_has(estimator, "transform")
        every_k = list(k) if np.iterable(k) else [k]
        report = report_of(estimator, X, y, metrics=metric, k=every_k, baselines=baselines)
        name = type(estimator).__name__ if name is None else name
        return cls.from_report(report, name=name, baselines=baselines, **kwargs)

    @classmethod
    def from_report(
        cls, report: RetrievalReport, *, metric: str | None = None, name: str | None = None,
        **kwargs: Any,
    ) -> RetrievalDisplay:  # fmt: skip
        """Draw a report, or the scores of a cross-validation, that was asked for several k.

        Parameters
        ----------
        report : RetrievalReport
            As in ``retrieval_report(..., metrics="recall_at_k", k=(1, 5, 10))``.
        metric : str, optional
            The metric to draw; by default the only one of the report with several k.
        name, **kwargs
            As in :meth:`from_estimator`.

        Returns
        -------
        RetrievalDisplay

        Raises
        ------
        TypeError
            If it is no report.
        ValueError
            If it has no such metric at several k.
        """
        if not isinstance(report, RetrievalReport):
            raise TypeError(f"report must be a RetrievalReport, got {type(report).__name__}.")
        found: dict[str, dict[int, Score]] = {}
        for key, score in report.items():
            if parts := _KEY.fullmatch(key):
                found.setdefault(f"{parts[1]}k", {})[int(parts[2])] = score
        if metric is None and len(found) == 1:
            (metric,) = found
        if metric not in found:
            raise ValueError(
                f"report must have the metric to draw at several k, as of k=(1, 5, 10), and "
                f"metric= say which if it has more than one; it has {', '.join(report)}, and "
                f"metric is {metric!r}."
            )
        scores = dict(sorted(found[metric].items()))
        return cls(scores, metric, name=name).plot(**kwargs)

    def plot(
        self, *, baselines: bool = True, name: str | None = None, ax: Any = None, **kwargs: Any
    ) -> RetrievalDisplay:
        """Draw.

        Parameters
        ----------
        baselines : bool, default=True
            Draw chance and oracle, too.
        name : str, optional
            For the legend; by default the name of the display.
        ax : matplotlib Axes, optional
        **kwargs
            For the line, see :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        RetrievalDisplay
            The display.
        """
        check_bool("baselines", baselines)
        (axes,) = self._panels(ax)
        every_k, scores = list(self.scores), list(self.scores.values())
        name = self.name if name is None else name
        label = "mean" if name is None else name
        how = {"marker": "o", "label": label, **kwargs}
        (self.line_,) = axes.plot(every_k, [score.mean for score in scores], **how)
        low, high = np.clip(np.transpose([score.interval for score in scores]), -1e300, 1e300)
        axes.fill_between(every_k, low, high, color=self.line_.get_color(), alpha=0.2, lw=0)
        for kind, style in (("oracle", "--"), ("chance", ":")):
            values = [getattr(score, kind) for score in scores]
            if baselines and not np.isnan(values).any():
                axes.plot(every_k, values, color=BASELINE, ls=style, label=kind)
        axes.set_xscale("log", base=2)
        axes.set_xticks(every_k, map(str, every_k))
        axes.set(xlabel="k", ylabel=self.metric.replace("_at_", "@").replace("_", " "))
        axes.legend(frameon=False)
        return self
