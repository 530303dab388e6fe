"""Plots of choices: the settings that a judge compared, and the learners of a comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricfast.comparison import Comparison
from metricfast.metrics._selection import nested
from metricfast.plotting._axes import BASELINE, Display
from metricfast.selection._judge import Judgement


@dataclass(eq=False, repr=False)
class JudgementDisplay(Display):
    """Costs of the settings that a learner tried, on held-out points; the chosen one is marked.

    The band around a cost is one standard error of its difference to the cost of the given
    distance, which is the dotted line. Make one by :meth:`from_estimator`.

    Parameters
    ----------
    judgement : Judgement
        The `judgement_` of a learner.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The costs.
    ax_, figure_
        Axes and figure of the drawing.

    Examples
    --------
    >>> from metricfast import LFDA
    >>> from metricfast.plotting import JudgementDisplay
    >>> from sklearn.datasets import load_wine
    >>> lfda = LFDA().fit(*load_wine(return_X_y=True))
    >>> display = JudgementDisplay.from_estimator(lfda)
    >>> display.judgement.name
    'shrinkage=0.3 towards total'
    """

    judgement: Judgement

    @classmethod
    def from_estimator(cls, estimator: Any, **kwargs: Any) -> JudgementDisplay:
        """Draw the `judgement_` of a learner.

        Parameters
        ----------
        estimator : fitted learner
            One with a judge, or a pipeline or search that ends in one.
        **kwargs
            Arguments of :meth:`plot`.

        Returns
        -------
        JudgementDisplay

        Raises
        ------
        ValueError
            If the learner was not judged.
        """
        learner = nested(estimator, "best_estimator_", "learner_")[-1]
        judgement = getattr(learner, "judgement_", None)
        if judgement is None or not judgement.n_held_out:
            raise ValueError(
                f"estimator must be fitted, with a judge and points to hold out; got {learner!r}."
            )
        return cls(judgement).plot(**kwargs)

    def plot(self, *, ax: Any = None, **kwargs: Any) -> JudgementDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        **kwargs
            For the line, see :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        JudgementDisplay
            The display.
        """
        (axes,) = self._panels(ax)
        found, places = self.judgement, np.arange(len(self.judgement.names))
        how: dict[str, Any] = {"marker": "o", "markevery": [found.chosen]}
        (self.line_,) = axes.plot(places, found.costs, **how | kwargs)
        low, high = found.costs - found.errors, found.costs + found.errors
        axes.fill_between(places, low, high, color=self.line_.get_color(), alpha=0.2, lw=0)
        axes.axhline(found.costs[0], color=BASELINE, ls=":")
        title = f"{found.measure} on {found.held_out}"
        axes.set(xlabel=f"setting (●: {found.name})", ylabel="cost", title=title)
        return self


@dataclass(eq=False, repr=False)
class ComparisonDisplay(Display):
    """Scores of learners on held-out points, the best on top, and the seconds of a fit.

    The band is the 95 % interval of the baseline, which is the better one of the given Euclidean
    distance and the scaled one. Learners that were not tried to the end are grey, and have their
    note in place of a score. Make one by :meth:`from_comparison`.

    Parameters
    ----------
    comparison : Comparison
        The result of :func:`metricfast.compare`.

    Attributes
    ----------
    intervals_ : matplotlib ErrorbarContainer
        The scores and their 95 % intervals.
    ax_, figure_
        Axes and figure of the drawing.

    Examples
    --------
    >>> from metricfast import compare
    >>> from metricfast.plotting import ComparisonDisplay
    >>> from sklearn.datasets import load_wine
    >>> found = compare(*load_wine(return_X_y=True), learners=["LFDA", "NCA"], random_state=0)
    >>> display = ComparisonDisplay.from_comparison(found)
    >>> display.ax_.get_xlabel()
    'accuracy of 5 neighbours'
    """

    comparison: Comparison

    @classmethod
    def from_comparison(cls, comparison: Comparison, **kwargs: Any) -> ComparisonDisplay:
        """Draw the result of :func:`metricfast.compare`.

        Parameters
        ----------
        comparison : Comparison
        **kwargs
            Arguments of :meth:`plot`.

        Returns
        -------
        ComparisonDisplay

        Raises
        ------
        TypeError
            If it is another object.
        """
        if not isinstance(comparison, Comparison):
            raise TypeError(f"comparison must be the result of compare, got {comparison!r}.")
        return cls(comparison).plot(**kwargs)

    def plot(self, *, ax: Any = None, **kwargs: Any) -> ComparisonDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        **kwargs
            For the intervals, see :meth:`matplotlib.axes.Axes.errorbar`.

        Returns
        -------
        ComparisonDisplay
            The display.
        """
        rows = self.comparison.rows
        (axes,) = self._panels(ax, size=(7, 0.8 + 0.3 * len(rows)))
        tried = [i for i, row in enumerate(rows) if not math.isnan(row.score)]
        scores, lows, highs = np.array(
            [(rows[i].score, rows[i].low, rows[i].high) for i in tried]
        ).T
        how: dict[str, Any] = {"fmt": "o", "capsize": 3} | kwargs
        ends = np.abs([scores - lows, highs - scores])
        self.intervals_ = axes.errorbar(scores, tried, xerr=ends, **how)
        base = next(row for row in rows if row.learner == self.comparison.baseline)
        axes.axvspan(base.low, base.high, color=BASELINE, alpha=0.15, lw=0)
        axes.axvline(base.score, color=BASELINE, ls=":")
        score, _, data = self.comparison.task.partition(": ")
        axes.set(ylim=(len(rows) - 0.5, -0.5), xlabel=score, title=data)
        axes.set_yticks(range(len(rows)), [row.learner for row in rows])
        across = axes.get_yaxis_transform()  # x from 0 to 1, y in rows
        for i, (row, label) in enumerate(zip(rows, axes.get_yticklabels(), strict=True)):
            where: dict[str, Any] = {"transform": across, "va": "center", "fontsize": "small"}
            if i in tried:
                axes.text(1.01, i, f"{row.fit_seconds:.2f} s", **where)
            else:
                label.set_color(BASELINE)
                axes.text(0.01, i, row.note, color=BASELINE, clip_on=True, **where)
        return self
