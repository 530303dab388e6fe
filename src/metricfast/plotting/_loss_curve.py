"""Plot of the loss and the validation scores of a training."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import as_numbers
from metricfast._core.types import Floats
from metricfast.metrics._selection import nested
from metricfast.plotting._axes import DISSIMILAR, Display


@dataclass(eq=False, repr=False)
class LossCurveDisplay(Display):
    """The objective after each iteration, and the scores of held-out points where there are any.

    Make one by :meth:`from_estimator` or :meth:`from_curves`.

    Parameters
    ----------
    loss_curve : ndarray of shape (n_iter,)
        The objective.
    validation_scores : ndarray of shape (n_scores,), optional
        Scores of held-out points, on an axis to the right; the best is marked.
    name : str, optional
        For a legend.

    Attributes
    ----------
    line_, validation_line_ : matplotlib Line2D
        The curves; the second is None without scores.
    ax_, figure_, validation_ax_
        Axes and figure of the drawing. The last is the axis to the right, or None.

    Examples
    --------
    >>> from metricfast import NCA
    >>> from metricfast.plotting import LossCurveDisplay
    >>> from sklearn.datasets import load_iris
    >>> nca = NCA(tol=1e-3).fit(*load_iris(return_X_y=True))
    >>> display = LossCurveDisplay.from_estimator(nca)
    >>> len(display.loss_curve) == nca.n_iter_
    True
    """

    loss_curve: Floats
    validation_scores: Floats | None = None
    _: KW_ONLY
    name: str | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, name: str | None = None, **kwargs: Any
    ) -> LossCurveDisplay:
        """Draw the `loss_curve_` of a learner, and its `validation_scores_`.

        Parameters
        ----------
        estimator : fitted learner
            One that is trained by iterations, or a pipeline or search that ends in one.
        name : str, optional
            For the legend; by default the name of the learner.
        **kwargs
            Arguments of :meth:`plot`.

        Returns
        -------
        LossCurveDisplay

        Raises
        ------
        ValueError
            If the learner has no curve: it is in closed form, or not fitted.
        """
        learner = nested(estimator, "best_estimator_", "learner_")[-1]
        curve = getattr(learner, "loss_curve_", None)
        if curve is None:
            raise ValueError(
                "estimator must be trained by iterations, and fitted, to have a loss_curve_; got "
                f"{learner!r}."
            )
        name = type(learner).__name__ if name is None else name
        scores = getattr(learner, "validation_scores_", None)
        return cls.from_curves(curve, scores, name=name, **kwargs)

    @classmethod
    def from_curves(
        cls, loss_curve: ArrayLike, validation_scores: ArrayLike | None = None, *,
        name: str | None = None, **kwargs: Any,
    ) -> LossCurveDisplay:  # fmt: skip
        """Draw recorded curves, for example from a callback.

        Parameters
        ----------
        loss_curve : array-like of shape (n_iter,)
        validation_scores : array-like of shape (n_scores,), optional
        name, **kwargs
            As in :meth:`from_estimator`.

        Returns
        -------
        LossCurveDisplay
        """
        curve = _numbers(loss_curve, "loss_curve")
        scores = None
        if validation_scores is not None:
            scores = _numbers(validation_scores, "validation_scores")
        return cls(curve, scores, name=name).plot(**kwargs)

    def plot(self, *, ax: Any = None, name: str | None = None, **kwargs: Any) -> LossCurveDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        name : str, optional
            For the legend; by default the name of the display.
        **kwargs
            For the line, see :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        LossCurveDisplay
            The display.
        """
        (axes,) = self._panels(ax)
        name = self.name if name is None else name
        label = {} if name is None else {"label": name}
        steps = np.arange(1, len(self.loss_curve) + 1)
        (self.line_,) = axes.plot(steps, self.loss_curve, **label | kwargs)
        axes.set(xlabel="iteration", ylabel="objective")
        if name is not None:
            axes.legend(frameon=False)
        self.validation_ax_ = self.validation_line_ = None
        if self.validation_scores is not None:
            best = int(self.validation_scores.argmax())
            self.validation_ax_ = axes.twinx()
            (self.validation_line_,) = self.validation_ax_.plot(
                np.arange(1, len(self.validation_scores) + 1), self.validation_scores, "--",
                color=DISSIMILAR, marker="o", markevery=[best],
            )  # fmt: skip
            self.validation_ax_.set_ylabel("score of held-out points (dashed; ●: best)")
        return self


def _numbers(values: ArrayLike, name: str) -> Floats:
    numbers = as_numbers(values, name)
    if not len(numbers):
        raise ValueError(f"{name} is empty: give a number for each iteration.")
    return numbers
