"""Draws gerrymandering.png: a point's nearest neighbours, h* and h^ before and after training.

python docs/img/gerrymandering.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from metricfast import NeighborhoodGerrymandering, inference, kneighbors
from metricfast.solvers import Adam

K = 5


def data() -> tuple[np.ndarray, np.ndarray]:
    """Return two classes in stripes: the first coordinate tells them apart, the second is noise."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 160)
    return np.c_[0.9 * y + 0.28 * rng.normal(size=160), 2.0 * rng.normal(size=160)], y


def panel(axes: plt.Axes, Z: np.ndarray, y: np.ndarray, query: int, title: str) -> None:
    """Draw the points, and the sets of one of them."""
    targeted, augmented = inference.both(Z, None, y, y, K)
    plain = kneighbors(Z, None, K)[1][query]
    for label, color in ((0, "#4477aa"), (1, "#cc6677")):
        axes.scatter(*Z[y == label].T, s=22, color=color, linewidths=0, label=f"class {label}")
    sets = (
        (plain, "o", 70, "#222222", "nearest neighbours"),
        (targeted.indices[query], "s", 150, "#228833", "h*: nearest set that votes right"),
        (augmented.indices[query], "D", 250, "#aa7700", "ĥ: worst of what is near"),
    )
    for members, marker, size, color, name in sets:
        axes.scatter(
            *Z[members].T, s=size, marker=marker, facecolors="none", edgecolors=color,
            linewidths=1.4, label=name,
        )  # fmt: skip
    axes.scatter(*Z[query], s=180, marker="*", color="black", zorder=3, label="query, of class 0")
    loss = augmented.values[query] - targeted.values[query]
    mean = float((augmented.values - targeted.values).mean())
    axes.set_title(f"{title}\nloss of the query {loss:.2f}, mean of all {mean:.2f}")
    reach = np.abs(Z[np.r_[targeted.indices[query], augmented.indices[query]]] - Z[query]).max()
    for bounds, centre in ((axes.set_xlim, Z[query, 0]), (axes.set_ylim, Z[query, 1])):
        bounds(centre - 1.6 * reach, centre + 1.6 * reach)
    axes.set_aspect("equal")


def main() -> None:
    """Draw the picture."""
    X, y = data()
    learner = NeighborhoodGerrymandering(
        K, init="identity", regularizer=None, random_state=0, solver=Adam(learning_rate=0.1)
    )
    start = NeighborhoodGerrymandering(
        K,
        init="identity",
        regularizer=None,
        random_state=0,
        solver=Adam(max_epochs=1, learning_rate=1e-9),
    )
    before, after = (model.fit(X, y).transform(X) for model in (start, learner))
    votes = y[kneighbors(before, None, K)[1]].sum(axis=1)
    found = [inference.both(Z, None, y, y, K) for Z in (before, after)]
    losses = [augmented.values - targeted.values for targeted, augmented in found]
    query = int(np.argmax(np.where((y == 0) & (votes >= 3), losses[0] - losses[1], -np.inf)))
    figure, axes = plt.subplots(1, 2, figsize=(11, 6.6))
    panel(axes[0], before, y, query, "before training")
    panel(axes[1], after, y, query, "after training")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=3, frameon=False)
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    main()
