"""Axes of displays."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

SIMILAR, DISSIMILAR, BASELINE = "#228833", "#cc3311", "#777777"


def check_has(estimator: Any, method: str) -> None:
    """Raise TypeError unless an estimator has a method."""
    if not hasattr(estimator, method):
        raise TypeError(f"estimator must have `{method}`, got {estimator!r}.")


class Display:
    """Base class of displays.

    Attributes
    ----------
    ax_ : matplotlib Axes, or ndarray of them
        Axes of the drawing; an array for several panels.
    figure_ : matplotlib Figure
        The figure that holds them.
    """

    def _panels(self, ax: Any, n: int = 1, size: tuple[float, float] = (5, 4)) -> list[Any]:
        """Return n Axes side by side: the given ones, parts of one, or those of a new figure.

        `size`: size of a panel of a new figure, in inches.
        """
        if ax is None:
            from matplotlib import pyplot as plt  # the import chooses a backend

            how: dict[str, Any] = {"figsize": (n * size[0], size[1]), "layout": "constrained"}
            panels = list(plt.subplots(1, n, squeeze=False, **how)[1][0])
        elif isinstance(ax, Axes) and n > 1 and (whole := ax.get_subplotspec()) is not None:
            ax.set_axis_off()
            cells = whole.subgridspec(1, n)
            panels = [ax.figure.add_subplot(cells[i]) for i in range(n)]
        else:
            panels = np.array(ax, dtype=object).ravel().tolist()
        if len(panels) != n or not all(isinstance(panel, Axes) for panel in panels):
            wanted = "a matplotlib Axes" if n == 1 else f"a matplotlib Axes, or {n} of them"
            raise ValueError(f"ax must be {wanted}, got {ax!r}.")
        self.ax_: Any = panels[0] if n == 1 else np.array(panels, dtype=object)
        self.figure_: Any = panels[0].figure
        return panels
