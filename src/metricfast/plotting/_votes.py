"""Votes of nearest neighbours, and the points that training would pull and push."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast.learners.gerrymandering.explanation import Explanation
from metricfast.plotting._axes import DISSIMILAR, SIMILAR, Display, check_has
from metricfast.plotting._neighbors import as_rows


@dataclass(eq=False, repr=False, kw_only=True)
class VoteDisplay(Display):
    """Queries, a row each, and the points of their sets by distance.

    Points of the right class are green, others red; the nearest neighbours, which vote, are filled.
    An arrow to the left marks a point that training pulls, an arrow to the right one that it
    pushes. Left of each row stand the right class, the vote and the loss.

    Make one by :meth:`from_estimator` or :meth:`from_explanation`.

    Parameters
    ----------
    explanation : Explanation
        What `explain` of a learner has returned.
    queries : ndarray of int of shape (n_rows,)
        The queries that are drawn.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the drawing.

    Examples
    --------
    >>> from metricfast import NeighborhoodGerrymandering
    >>> from metricfast.plotting import VoteDisplay
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = NeighborhoodGerrymandering(3, random_state=0).fit(X[::2], y[::2])
    >>> display = VoteDisplay.from_estimator(learner, X[1::2], y[1::2], queries=[30, 40])
    >>> len(display.ax_.get_yticks())
    2
    """

    explanation: Explanation
    queries: Any

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: ArrayLike | None = None, **kwargs: Any
    ) -> VoteDisplay:
        """Explain predictions of a learner.

        Parameters
        ----------
        estimator : NeighborhoodGerrymandering or AsymmetricSimilarity
            Fitted.
        X, y
            As for its `explain`.
        **kwargs
            Arguments of :meth:`from_explanation`.

        Returns
        -------
        VoteDisplay

        Raises
        ------
        TypeError
            If the estimator has no `explain`.
        """
        check_has(estimator, "explain")
        return cls.from_explanation(estimator.explain(X, y), **kwargs)

    @classmethod
    def from_explanation(
        cls, explanation: Explanation, *, queries: ArrayLike | None = None, ax: Any = None
    ) -> VoteDisplay:
        """Draw what `explain` has returned.

        Parameters
        ----------
        explanation : Explanation
        queries : array-like of int of shape (n_rows,), optional
            The queries to draw. By default the five of largest loss.
        ax : matplotlib Axes, optional

        Returns
        -------
        VoteDisplay
        """
        loss = explanation.loss
        if queries is None:
            queries = np.argsort(-np.nan_to_num(loss, nan=-np.inf), kind="stable")[:5]
        rows = as_rows(queries, "queries", 1, len(loss))
        return cls(explanation=explanation, queries=rows).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> VoteDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        VoteDisplay
            The display.
        """
        (axes,) = self._panels(ax, size=(7, 1 + 0.5 * len(self.queries)))
        shown, ticks = self.explanation, []
        for place, query in enumerate(self.queries.tolist()):
            far = shown.distances[query]
            right = shown.right[query]
            sets = (shown.nearest, shown.targeted, shown.augmented)
            exists = [each[query] >= 0 for each in sets]
            colors = [
                np.where(shown.database_classes[each[query]] == right, SIMILAR, DISSIMILAR)
                for each in sets
            ]
            for i, face in ((1, "none"), (2, "none"), (0, None)):
                drawn = colors[i][exists[i]]
                axes.scatter(
                    far[i][exists[i]], np.full(len(drawn), place), s=60, edgecolors=drawn,
                    facecolors=drawn if face is None else face,
                )  # fmt: skip
            for i, moved, marker in ((1, shown.pulls, "<"), (2, shown.pushes, ">")):
                drawn = colors[i][moved[query]]
                axes.scatter(
                    far[i][moved[query]], np.full(len(drawn), place + 0.25), s=25, color=drawn,
                    marker=marker,
                )  # fmt: skip
            ticks.append(
                f"{query}: {right}, vote {shown.vote[query]}, loss {shown.loss[query]:.2f}"
            )
        axes.set_yticks(range(len(ticks)), ticks)
        axes.set(xlabel="distance", ylim=(len(ticks) - 0.5, -0.5), xlim=(0, None))
        return self
