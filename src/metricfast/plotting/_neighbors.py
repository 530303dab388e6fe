"""Plots of queries and their nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import as_array, check_bool
from metricfast._core.arrays import as_indices, as_points
from metricfast._core.targets import as_label_array
from metricfast._core.types import Array, Integers
from metricfast.distances.neighbors import check_neighbors, kneighbors
from metricfast.metrics._report import both_sides
from metricfast.metrics._selection import are_continuous, takes_numbers
from metricfast.plotting._axes import DISSIMILAR, SIMILAR, Display, check_has

# Width of the content of a column, relative to the column.
_WIDTH = 0.9
# Heights of a line of text.
_LINE = 0.25


@dataclass(eq=False, repr=False, kw_only=True)
class NeighborsDisplay(Display):
    """Queries, a row each, and to the right of each its nearest points, as images or by name.

    Above each neighbour stand its distance and its label. A class is green if the query
    has it, otherwise red.

    Make one by :meth:`from_estimator` or :meth:`from_neighbors`.

    Parameters
    ----------
    distances, indices : ndarray of shape (n_queries, n_neighbors)
        The neighbours: rows of what is searched.
    images, query_images : ndarray of shape (n, height, width) or (n, height, width, 3), optional
        Images of the searched points, and of the queries.
    names, query_names : ndarray, optional
        Texts in place of images.
    y, query_y : ndarray, optional
        Labels.
    continuous : bool, optional
        Whether labels are numbers of a scale, which have no colour; by default if they are not all
        whole.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the drawing.

    Examples
    --------
    >>> from metricfast import LFDA
    >>> from metricfast.plotting import NeighborsDisplay
    >>> from sklearn.datasets import load_digits
    >>> digits = load_digits()
    >>> lfda = LFDA(n_components=10).fit(digits.data, digits.target)
    >>> display = NeighborsDisplay.from_estimator(
    ...     lfda, digits.data, [0, 1], n_neighbors=4, images=digits.images, y=digits.target
    ... )
    >>> len(display.ax_.images)  # 2 queries, 4 neighbours of each
    10
    """

    distances: Array
    indices: Integers
    images: Array | None = None
    names: Array | None = None
    y: Array | None = None
    query_images: Array | None = None
    query_names: Array | None = None
    query_y: Array | None = None
    continuous: bool | None = None

    def __post_init__(self) -> None:
        """Find out whether labels are continuous."""
        if self.continuous is None:
            self.continuous = self.y is not None and are_continuous(self.y, "y")
        check_bool("continuous", self.continuous)
        self.continuous = bool(self.continuous)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, queries: ArrayLike, *, n_neighbors: int = 5,
        images: ArrayLike | None = None, names: Any = None, y: Any = None,
        continuous: bool | None = None, **kwargs: Any,
    ) -> NeighborsDisplay:  # fmt: skip
        """Search some points among all, as a fitted transformer embeds them.

        Parameters
        ----------
        estimator : fitted transformer
            A learner, or a pipeline or search that ends in one.
        X : array-like of shape (n_samples, n_features)
            The points that are searched.
        queries : array-like of int of shape (n_queries,)
            Rows of X, each excluded from its own neighbours.
        n_neighbors : int, default=5
        images : array-like of shape (n_samples, height, width) or (n_samples, height, width, 3), \
optional
            A picture of each point.
        names : sequence of n_samples str, optional
            Texts in place of images; by default the row numbers.
        y : array-like of shape (n_samples,), optional
            Labels to write, classes or numbers.
        continuous : bool, optional
            Whether labels are numbers of a scale, which have no colour; by default if the estimator
            takes such, or they are not all whole.
        **kwargs
            Arguments of :meth:`plot`.

        Returns
        -------
        NeighborsDisplay

        Raises
        ------
        ValueError, TypeError
            If an argument is not as above.
        """
        check_has(estimator, "transform")
        embedded, database = both_sides(estimator, X)
        embedded = as_points(embedded, "X")
        n = len(embedded)
        rows = as_rows(queries, "queries", 1, n)
        n_neighbors = check_neighbors(n_neighbors, n, rows)
        distances, indices = kneighbors(
            embedded[rows], embedded if database is None else as_points(database, "X"),
            n_neighbors, exclude=rows,
        )  # fmt: skip
        names = np.arange(n) if images is None and names is None else names
        found = _items(n, images=images, names=names, y=y)
        found |= {f"query_{kind}": _taken(items, rows) for kind, items in found.items()}
        if continuous is None and takes_numbers(estimator):
            continuous = True
        return cls.from_neighbors(distances, indices, continuous=continuous, **found, **kwargs)

    @classmethod
    def from_neighbors(
        cls, distances: ArrayLike, indices: ArrayLike, *, images: ArrayLike | None = None,
        names: Any = None, y: Any = None, query_images: ArrayLike | None = None,
        query_names: Any = None, query_y: Any = None, continuous: bool | None = None,
        **kwargs: Any,
    ) -> NeighborsDisplay:  # fmt: skip
        """Draw neighbours that were found already, as by :func:`metricfast.kneighbors`.

        Parameters
        ----------
        distances, indices : array-like of shape (n_queries, n_neighbors)
        images, names, y : array-like, optional
            Images, texts and labels of the searched points, as in :meth:`from_estimator`.
        query_images, query_names, query_y : array-like, optional
            The same of the queries.
        continuous : bool, optional
            Whether labels are numbers of a scale; by default if they are not all whole.
        **kwargs
            Arguments of :meth:`plot`.

        Returns
        -------
        NeighborsDisplay
        """
        far = as_points(distances, "distances")
        rows = as_rows(indices, "indices", 2)
        if rows.shape != far.shape:
            raise ValueError(
                f"distances and indices must have one shape, got {far.shape} and {rows.shape}."
            )
        found = _items(int(rows.max()) + 1, exact=False, images=images, names=names, y=y)
        own = {"images": query_images, "names": query_names, "y": query_y}
        found |= _items(len(far), "query_", **own)
        display = cls(distances=far, indices=rows, continuous=continuous, **found)
        if (display.images is None) != (display.query_images is None):
            raise ValueError("images and query_images must be given together.")
        return display.plot(**kwargs)

    def plot(self, *, ax: Any = None, **kwargs: Any) -> NeighborsDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        **kwargs
            Arguments of :meth:`matplotlib.axes.Axes.imshow`.

        Returns
        -------
        NeighborsDisplay
            The display.
        """
        n, k = self.indices.shape
        height = _LINE
        if self.images is not None:
            height = _WIDTH * self.images.shape[1] / self.images.shape[2]
        pitch = height + 1.4 * _LINE
        size = (1.2 * (k + 1.3), 1.2 * pitch * n)
        (axes,) = self._panels(ax, size=size)
        how = {"cmap": "gray_r", **kwargs}

        def cell(row: int, column: int, image: Any, name: Any, told: str, color: str) -> None:
            left, top = column + 0.3 * (column > 0), row * pitch
            centre, how_text = left + _WIDTH / 2, {"ha": "center", "fontsize": "small"}
            if image is not None:
                axes.imshow(image, extent=(left, left + _WIDTH, top + height, top), **how)
            else:
                axes.text(centre, top + height / 2, str(name), va="center", **how_text)
            axes.text(centre, top, told, va="bottom", color=color, **how_text)

        for row in range(n):
            own, image = _taken(self.query_y, row), _taken(self.query_images, row)
            name = row if self.query_names is None else self.query_names[row]
            cell(row, 0, image, name, _caption("query", own), "black")
            for column in range(k):
                found, far = self.indices[row, column], self.distances[row, column]
                label, image = _taken(self.y, found), _taken(self.images, found)
                name = found if self.names is None else self.names[found]
                color = "black"
                if not (self.continuous or label is None or own is None):
                    color = SIMILAR if label == own else DISSIMILAR
                cell(row, column + 1, image, name, _caption(f"{far:.3g}", label), color)
        axes.set(xlim=(0, k + 1.3), ylim=(n * pitch - 1.2 * _LINE, -1.2 * _LINE))
        axes.set_aspect("equal")
        axes.set_axis_off()
        return self


def _taken(items: Any, rows: Any) -> Any:
    """Return the items at the given rows, or None if there are no items."""
    return None if items is None else items[rows]


def _caption(what: str, label: Any) -> str:
    if label is None:
        return what
    return f"{what}, {label:.3g}" if isinstance(label, float) else f"{what}, {label}"


def as_rows(rows: ArrayLike, name: str, ndim: int, n: float = np.inf) -> Integers:
    """Check and return indices of points."""
    expected = f"hold rows of the points that are searched, integers in {ndim} dimension(s)"
    found = as_indices(rows, name, expected, (None,) * ndim, (0, n))
    if not found.size:
        raise ValueError(f"{name} is empty: give a row at least.")
    return found


def _items(n: int, prefix: str = "", exact: bool = True, **given: Any) -> dict[str, Any]:
    """Check properties of n points (or of at least n if not `exact`), and return them."""
    found: dict[str, Any] = {}
    for kind, items in given.items():
        name = prefix + kind
        if items is None:
            found[name] = None
            continue
        array = as_label_array(items, name) if kind == "y" else np.atleast_1d(as_array(items, name))
        if len(array) < n or (exact and len(array) > n):
            raise ValueError(f"{name} must hold one for each of {n} points; got {len(array)}.")
        shape = array.shape
        if kind == "images" and not (len(shape) == 3 or (len(shape) == 4 and shape[3] in (3, 4))):
            raise ValueError(
                f"{name} must have shape ({n}, height, width), or ({n}, height, width, 3) in "
                f"colour; got {shape}: reshape rows of pixels."
            )
        found[name] = array
    return found
