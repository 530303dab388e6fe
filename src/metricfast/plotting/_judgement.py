"""Plot of what the judge of a learner has compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metricfast.metrics._selection import nested
from metricfast.plotting._axes import BASELINE, Display
from metricfast.selection._judge import Judgement

__all__ = ["JudgementDisplay"]


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
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> JudgementDisplay:
        """Draw the `judgement_` of a learner.

        Parameters
        ----------
        estimator : fitted learner
            One with a judge, or a pipeline or search that ends in one.
        ax : matplotlib Axes, optional
        **kwargs
            For the line, see :meth:`matplotlib.axes.Axes.plot`.

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
        return cls(judgement).plot(ax=ax, **kwargs)

    def plot(self, *, ax: Any = None, **kwargs: Any) -> JudgementDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        **kwargs
            For the line.

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
        title = f"{found.measure} on {found.n_held_out} held-out {found.unit}"
        axes.set(xlabel=f"setting (●: {found.name})", ylabel="cost", title=title)
        return self
