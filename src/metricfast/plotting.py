"""Pictures of an embedding; needs the extra ``plot``."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA

from metricfast._core.arrays import as_codes, as_points, scaled_alike
from metricfast._core.types import Array
from metricfast.distances.neighbors import check_neighbors, kneighbors

try:
    from matplotlib import colormaps
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError("plotting needs matplotlib: pip install 'metricfast[plot]'") from error

__all__ = ["plot_before_after"]


def plot_before_after(
    before: ArrayLike,
    after: ArrayLike,
    y: ArrayLike,
    *,
    n_neighbors: int = 3,
    titles: tuple[str, str] = ("before", "after"),
) -> Figure:
    """Scatter the same points before and after a metric was learned, coloured by class.

    Each panel shows the first two principal components. Its title gives the leave-one-out error of
    a k-nearest-neighbour classifier in the whole space that was given, not only in the two
    components shown.

    Parameters
    ----------
    before, after : array-like of shape (n_samples, n_features) and (n_samples, n_components)
        The points, and the same points transformed; each with at least two columns.
    y : array-like of shape (n_samples,)
        Class labels.
    n_neighbors : int, default=3
        The k of the error in the titles.
    titles : pair of str
        What stands before the error in the titles.

    Returns
    -------
    figure : matplotlib.figure.Figure
        A figure of its own, known to no window: ``figure.savefig(path)`` writes it.

    Raises
    ------
    ValueError
        If the arrays differ in length, or hold fewer than two columns.

    Examples
    --------
    >>> from metricfast import NCA
    >>> from metricfast.plotting import plot_before_after
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> figure = plot_before_after(X, NCA(n_components=2).fit(X, y).transform(X), y)
    >>> [axes.get_title().split(":")[0] for axes in figure.axes]
    ['before', 'after']
    """
    both = [as_points(points, n) for points, n in ((before, "before"), (after, "after"))]
    n = len(both[0])
    for name, points in zip(("before", "after"), both, strict=True):
        if len(points) != n or points.shape[1] < 2:
            raise ValueError(
                f"{name}: expected {n} points with two columns or more, got shape {points.shape}"
            )
    classes, labels = as_codes(y, "y", n)
    check_neighbors(n_neighbors, n, np.zeros(1, np.int64))
    if np.shape(titles) != (2,):
        raise ValueError(f"titles must be two strings, got {titles!r}.")
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    for axes, points, title in zip(figure.subplots(1, 2), both, titles, strict=True):
        # In units in which no square overflows: the axes have no ticks.
        (scaled,) = scaled_alike(points.astype(np.float64))
        shown = PCA(2).set_output(transform="default").fit_transform(scaled)
        for label, name in enumerate(classes):
            axes.scatter(*shown[labels == label].T, s=8, color=_colour(label), label=str(name))
        error = _leave_one_out_error(points, labels, n_neighbors)
        axes.set_title(f"{title}: {n_neighbors}-NN error {error:.1%}")
        axes.set(xticks=[], yticks=[])
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False
    )
    return figure


def _colour(label: int) -> tuple[float, ...]:
    # dark colours first, then their light partners
    return colormaps["tab20"]((2 * label + label // 10) % 20)


def _leave_one_out_error(points: Array, labels: NDArray[np.intp], n_neighbors: int) -> float:
    _, indices = kneighbors(points, n_neighbors=n_neighbors)
    votes = np.apply_along_axis(np.bincount, 1, labels[indices], minlength=labels.max() + 1)
    return float(np.mean(votes.argmax(axis=1) != labels))
