"""Points before and after they are embedded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy.stats import mode
from sklearn.decomposition import PCA
from sklearn.metrics import r2_score

from metricfast._core.arguments import as_numbers, check_bool
from metricfast._core.arrays import as_codes, as_points, scaled_alike
from metricfast._core.types import Array, Floats
from metricfast.distances.neighbors import check_neighbors, kneighbors
from metricfast.learners.base.inputs import points_of
from metricfast.learners.base.learner import BaseMetricLearner
from metricfast.metrics._selection import are_continuous, takes_numbers, unwrapped
from metricfast.plotting._axes import Display, check_has


@dataclass(eq=False, repr=False, kw_only=True)
class EmbeddingDisplay(Display):
    """The same points in one space or several, coloured by their labels.

    A panel shows the first two principal components; of points of two columns these themselves;
    of one column that column against the labels. Its title gives how well the k nearest
    neighbours of a point, without the point itself, predict its label in the whole space: the error
    of their vote, or R² of their mean for continuous labels.

    Make one by :meth:`from_estimator` or :meth:`from_embeddings`.

    Parameters
    ----------
    points : list of ndarray of shape (n_samples, 1) or (n_samples, 2)
        Points of each panel.
    y : ndarray of shape (n_samples,)
        The labels: codes into `classes`, or numbers.
    classes : ndarray of shape (n_classes,) or None
        The classes; None where labels are continuous.
    titles : list of str
        Title of each panel.
    scores : list of float
        The error of the vote of each panel, or R².
    n_neighbors : int
        The k of these.

    Attributes
    ----------
    ax_, figure_
        Axes, or an array of Axes for several panels; and their figure.

    Examples
    --------
    >>> from metricfast import NCA
    >>> from metricfast.plotting import EmbeddingDisplay
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> display = EmbeddingDisplay.from_estimator(NCA(n_components=2).fit(X, y), X, y)
    >>> [axes.get_title().split(":")[0] for axes in display.ax_]
    ['before', 'NCA']
    """

    points: list[Array]
    y: Array
    classes: Array | None
    titles: list[str]
    scores: list[float]
    n_neighbors: int

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, before: bool = True, n_neighbors: int = 3,
        continuous: bool | None = None, **kwargs: Any,
    ) -> EmbeddingDisplay:  # fmt: skip
        """Draw points as a fitted transformer embeds them, and as it is given them.

        Parameters
        ----------
        estimator : fitted transformer
            A learner, or a pipeline that ends in one: the points before are then those that its
            other steps give.
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels: classes or numbers.
        before : bool, default=True
            Draw the points before, too.
        n_neighbors : int, default=3
            The k of the titles.
        continuous : bool, optional
            Whether labels are numbers of a scale; by default if the estimator takes such, or they
            are not all whole.
        **kwargs
            Arguments of :meth:`plot`.

        Returns
        -------
        EmbeddingDisplay

        Raises
        ------
        ValueError, TypeError
            If an argument is not as above.
        """
        check_bool("before", before)
        check_has(estimator, "transform")
        steps, final = unwrapped(estimator)
        if continuous is None and takes_numbers(estimator):
            continuous = True
        titles, embeddings = [type(final).__name__], [estimator.transform(X)]
        if before:
            for step in steps:
                X = step.transform(X)
            titles.insert(0, "before")
            embeddings.insert(0, points_of(final, X) if isinstance(final, BaseMetricLearner) else X)
        display = cls._of(titles, ["X"] * len(titles), embeddings, y, n_neighbors, continuous)
        return display.plot(**kwargs)

    @classmethod
    def from_embeddings(
        cls, embeddings: Mapping[str, ArrayLike], y: ArrayLike, *, n_neighbors: int = 3,
        continuous: bool | None = None, **kwargs: Any,
    ) -> EmbeddingDisplay:  # fmt: skip
        """Draw points that are embedded already, one panel for each embedding.

        Parameters
        ----------
        embeddings : dict of str to array-like of shape (n_samples, n_components)
            The points by the title of their panel.
        y, n_neighbors, **kwargs
            As in :meth:`from_estimator`.
        continuous : bool, optional
            Whether labels are numbers of a scale; by default if they are not all whole.

        Returns
        -------
        EmbeddingDisplay
        """
        if not isinstance(embeddings, Mapping) or not embeddings:
            raise TypeError(f"embeddings must be a dict of points by title, got {embeddings!r}.")
        titles = [str(title) for title in embeddings]
        names = [f"embeddings[{title!r}]" for title in embeddings]
        display = cls._of(titles, names, list(embeddings.values()), y, n_neighbors, continuous)
        return display.plot(**kwargs)

    @classmethod
    def _of(
        cls, titles: Sequence[str], names: Sequence[str], embeddings: Sequence[Any], y: Any,
        n_neighbors: int, continuous: bool | None,
    ) -> EmbeddingDisplay:  # fmt: skip
        """Compute the data of a display. Error messages use the given names of the arguments."""
        spaces = [as_points(*each) for each in zip(embeddings, names, strict=True)]
        n = len(spaces[0])
        for name, points in zip(names, spaces, strict=True):
            if len(points) != n:
                raise ValueError(f"{name}: expected {n} points, got shape {points.shape}")
        classes: Array | None = None
        if continuous is None:
            continuous = are_continuous(y, "y")
        check_bool("continuous", continuous)
        if continuous:
            labels: Array = as_numbers(y, "y", n)
        else:
            classes, labels = as_codes(y, "y", n)
        n_neighbors = check_neighbors(n_neighbors, n, np.zeros(1, np.int64))
        found = [kneighbors(points, n_neighbors=n_neighbors)[1] for points in spaces]
        if classes is None:
            scores = [float(r2_score(labels, labels[rows].mean(axis=1))) for rows in found]
        else:
            scores = [float(np.mean(mode(labels[rows], axis=1)[0] != labels)) for rows in found]
        return cls(
            points=[_shown(points) for points in spaces], y=labels, classes=classes,
            titles=list(titles), scores=scores, n_neighbors=n_neighbors,
        )  # fmt: skip

    def plot(self, *, ax: Any = None, **kwargs: Any) -> EmbeddingDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, or one for each panel, optional
            If there are several panels, one Axes is divided.
        **kwargs
            Arguments of :meth:`matplotlib.axes.Axes.scatter`.

        Returns
        -------
        EmbeddingDisplay
            The display.
        """
        panels = self._panels(ax, len(self.points), (4.5, 4))
        how = {"s": 8, **kwargs}
        for axes, points, title, score in zip(
            panels, self.points, self.titles, self.scores, strict=True
        ):
            shown = np.c_[points, self.y] if points.shape[1] == 1 else points
            if self.classes is None:
                drawn = axes.scatter(*shown.T, **{"c": self.y, "cmap": "viridis", **how})
                judged = f"R² {score:.2f}"
            else:
                for code, name in enumerate(self.classes):
                    points_of_class = shown[self.y == code].T
                    axes.scatter(*points_of_class, **{"color": _colour(code), **how}, label=name)
                judged = f"error {score:.1%}"
            axes.set_title(f"{title}: {self.n_neighbors}-NN {judged}")
            axes.set(xticks=[], yticks=[])
        if self.classes is None:
            self.figure_.colorbar(drawn, ax=panels)
        else:
            panels[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        return self


def plot_before_after(
    before: ArrayLike, after: ArrayLike, y: ArrayLike, *, n_neighbors: int = 3,
    titles: tuple[str, str] = ("before", "after"),
) -> Figure:  # fmt: skip
    """Scatter the same points before and after a metric was learned, coloured by class.

    Each panel shows the first two principal components, or the two columns that there are. Its
    title gives the leave-one-out error of a k-nearest-neighbour classifier in the whole space that
    was given, not only in the two components shown. :class:`EmbeddingDisplay` does more.

    Parameters
    ----------
    before, after : array-like of shape (n_samples, n_features) and (n_samples, n_components)
        The points, and the same points transformed; each with at least two columns.
    y : array-like of shape (n_samples,)
        Class labels.
    n_neighbors : int, default=3
        The k of the error in the titles.
    titles : pair of str
        Texts before the error in the titles.

    Returns
    -------
    figure : matplotlib.figure.Figure
        A figure that no window shows. ``figure.savefig(path)`` writes it.

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
    if np.shape(titles) != (2,):
        raise ValueError(f"titles must be two strings, got {titles!r}.")
    names = ("before", "after")
    display = EmbeddingDisplay._of(titles, names, (before, after), y, n_neighbors, False)
    for name, points in zip(names, display.points, strict=True):
        if points.shape[1] < 2:
            raise ValueError(f"{name} must have two columns or more, got one.")
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    display.plot(ax=figure.subplots(1, 2))
    return figure


def _shown(points: Array) -> Floats:
    """Return one or two columns, scaled to avoid overflow; the axes have no ticks."""
    (scaled,) = scaled_alike(points.astype(np.float64))
    if points.shape[1] <= 2:
        return scaled
    components: Floats = PCA(2).set_output(transform="default").fit_transform(scaled)
    return components


def _colour(label: int) -> tuple[float, ...]:
    # dark colours first, then their light partners
    return colormaps["tab20"]((2 * label + label // 10) % 20)
