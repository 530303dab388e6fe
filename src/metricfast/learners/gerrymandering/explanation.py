"""Explanations of votes: the sets of neighbours behind an answer and its loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metricfast._core.types import Array, Floats, Integers
from metricfast.distances.inference import both
from metricfast.distances.neighbors import kneighbors
from metricfast.learners.gerrymandering.voting import majority_vote
from metricfast.losses import Gerrymander

# Number of queries in the text of an explanation.
_SHOWN = 5


@dataclass(frozen=True, repr=False)
class Explanation:
    r"""The vote of each of n queries, its loss, and the database points behind both.

    The learners' `explain` returns it. Sets of points are arrays of shape (n, n_neighbors) of
    database indices, nearest first; a set that does not exist holds -1.

    Attributes
    ----------
    right : ndarray of shape (n,)
        The right class of each query, or the predicted one where `explain` was called without `y`.
    vote : ndarray of shape (n,)
        The class that `predict` returns: the vote of the nearest neighbours.
    loss : ndarray of float64 of shape (n,)
        :math:`S(x, \hat h) + \Delta(y, \hat h) - S(x, h^*)`, as training has it; NaN where no set
        of neighbours votes right.
    nearest, targeted, augmented : ndarray of int64
        The nearest neighbours; :math:`h^*`, the nearest set that votes right; :math:`\hat h`, the
        set of largest :math:`S + \Delta`.
    distances : ndarray of float64 of shape (n, 3, n_neighbors)
        Distances of the points in the three sets from the query, in the order above; NaN for a set
        that does not exist.
    database_classes : ndarray of shape (n_database,)
        Classes of the database points.
    """

    right: Array
    vote: Array
    loss: Floats
    nearest: Integers
    targeted: Integers
    augmented: Integers
    distances: Floats
    database_classes: Array

    @property
    def pulls(self) -> Array:
        """Whether training pulls the points of `targeted`: those that are not in `augmented`."""
        apart = (self.targeted[:, :, None] != self.augmented[:, None]).all(axis=2)
        return np.asarray(apart & ~np.isnan(self.loss)[:, None])

    @property
    def pushes(self) -> Array:
        """Whether training pushes the points of `augmented`: those that are not in `targeted`."""
        apart = (self.augmented[:, :, None] != self.targeted[:, None]).all(axis=2)
        return np.asarray(apart & ~np.isnan(self.loss)[:, None])

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns of `table`, as lists."""
        names = ("query", "right", "vote", "loss", "point", "class", "distance")
        flags = ("nearest", "targeted", "augmented")
        found: dict[str, list[Any]] = {name: [] for name in (*names, *flags, "training")}
        for query, sets in enumerate(zip(self.nearest, self.targeted, self.augmented, strict=True)):
            members = np.concatenate(sets)
            points, first = np.unique(members, return_index=True)
            far = self.distances[query].ravel()[first]
            order = np.lexsort((points, far))
            effects = {
                **dict.fromkeys(sets[1][self.pulls[query]].tolist(), "pull"),
                **dict.fromkeys(sets[2][self.pushes[query]].tolist(), "push"),
            }
            own = self.right[query], self.vote[query], float(self.loss[query])
            for point, distance in zip(points[order].tolist(), far[order].tolist(), strict=True):
                if point < 0:
                    continue
                row = [query, *own, point, self.database_classes[point], distance]
                row += [*(point in each for each in sets), effects.get(point, "")]
                for column, value in zip(found.values(), row, strict=True):
                    column.append(value)
        return found

    @property
    def table(self) -> Any:
        """A table with a row for each query and point in its sets, nearest first.

        A pandas DataFrame; without pandas a dictionary of the same columns: "query", "right",
        "vote", "loss", "point" (the database index), "class", "distance", "nearest", "targeted",
        "augmented" (whether the point is in these sets) and "training" ("pull", "push" or "").
        """
        try:
            from pandas import DataFrame
        except ImportError:
            return self.columns()
        return DataFrame(self.columns())

    def __repr__(self) -> str:
        """Return the sets of the first queries as text."""
        lines = ["query  right -> vote     loss  point:class, nearest first; + pull, - push"]
        for row in range(min(len(self.loss), _SHOWN)):
            answer = f"{_text(self.right[row])} -> {_text(self.vote[row])}"
            lines.append(f"{row:5d}  {answer:13}  {self.loss[row]:7.3f}")
            none = np.zeros_like(self.pulls[row])
            for name, mark, marked in (
                ("nearest", "", none),
                ("targeted", "+", self.pulls[row]),
                ("augmented", "-", self.pushes[row]),
            ):
                members = [
                    f"{mark if moved else ''}{point}:{_text(self.database_classes[point])}"
                    for point, moved in zip(getattr(self, name)[row], marked, strict=True)
                    if point >= 0
                ]
                lines.append(f"       {name:9}  {'  '.join(members) or 'none votes right'}")
        if len(self.loss) > _SHOWN:
            lines.append(f"... {len(self.loss) - _SHOWN} more queries")
        return "\n".join(lines)


def _text(label: Any) -> str:
    return f"{label:.4g}" if isinstance(label, np.floating) else str(label)


def explanation(
    queries: Array,
    database: Array,
    codes: Integers | None,
    database_codes: Integers,
    classes: Array,
    loss: Gerrymander,
    exclude: Integers | None,
    n_jobs: int | None,
) -> Explanation:
    """Explain the votes of embedded points; without query codes, explain the predicted classes."""
    k = int(loss.n_neighbors)
    nearest = kneighbors(queries, database, k, exclude=exclude, n_jobs=n_jobs)[1]
    winners = majority_vote(nearest, database_codes, len(classes))[0]
    right = winners if codes is None else codes
    targeted, augmented = both(
        queries, database, right, database_codes, k, loss_matrix=loss.loss_matrix, ties=loss.ties,
        method=loss.inference, exclude=exclude, n_jobs=n_jobs,
    )  # fmt: skip
    value = np.where(targeted.feasible, augmented.values - targeted.values, np.nan)
    sets = np.stack([nearest, targeted.indices, augmented.indices], axis=1)
    far = np.linalg.norm(database[sets].astype(np.float64) - queries[:, None, None], axis=3)
    return Explanation(
        classes[right], classes[winners], value, nearest, targeted.indices, augmented.indices,
        np.where(sets < 0, np.nan, far), classes[database_codes],
    )  # fmt: skip
