"""Checked labels for losses: classes, numbers, or label distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from metricfast._core.arguments import as_numbers, check_together
from metricfast._core.arrays import as_codes, as_common_codes, scaled_alike
from metricfast._core.frames import check_alike
from metricfast._core.targets import as_label_array, check_class_labels, numeric_labels
from metricfast._core.types import Floats, Integers
from metricfast._labels.binding import bind_labels, is_precomputed
from metricfast._labels.distance import LabelDistance
from metricfast._labels.named import KERNELS
from metricfast._labels.tags import are_tags, as_tags, both_tags, lists_of

RowIndices = Integers | None


class BoundLabels:
    """Labels of queries and of a database.

    `kind`: "class" (codes of classes), "tags" (a sparse matrix), "targets" (numbers, one or
        several each), a metric that kernels know (vectors), or "precomputed": a function gives
        the distances.
    `y`, `y_database`: all labels, from which rows are selected; `y_database` defaults to `y`.
    `between`: a function that maps rows of both to their label distances.
    `n_classes`: upper bound of the class indices.
    """

    def __init__(
        self,
        kind: str,
        y: Any,
        y_database: Any = None,
        between: Callable[[Any, Any], Floats] | None = None,
        n_classes: int = 0,
    ) -> None:
        self.kind, self._between = kind, between
        self._y, self._y_database = y, y if y_database is None else y_database
        self._n_classes = n_classes

    def take(self, rows: RowIndices, database_rows: RowIndices, alone: bool) -> tuple[Any, Any]:
        """Return the labels of both sides for kernels, or the same table of distances twice.

        Rows are None for all. With `alone`, points are their own database. Vectors are scaled by a
        power of two, because no loss depends on their unit.
        """
        y = self._y if rows is None else self._y[rows]
        if alone:
            references = y
        else:
            references = self._y_database
            references = references if database_rows is None else references[database_rows]
        if self._between is not None:
            distances = self._between(y, references)
            return distances, distances
        if self.kind == "tags":
            return lists_of(y), lists_of(references.T.tocsr())
        if self.kind == "class":
            if self._n_classes <= 4 * (len(y) + len(references)):
                return y, references
            # Kernels list all classes, of which few occur: they would take longer than the points.
            codes = np.unique(np.concatenate([y, references]), return_inverse=True)[1]
            return codes[: len(y)], codes[len(y) :]
        if self.kind not in KERNELS:
            return y, references
        if alone:
            (y,) = scaled_alike(y)
            return y, y
        y, references = scaled_alike(y, references)
        return y, references


def bound_labels(
    loss: Any, y: ArrayLike, y_database: ArrayLike | None, n: int, m: int | None
) -> BoundLabels:
    """Check labels of n queries and m database points, or of one set of points."""
    check_alike(y, y_database, ("y", "y_database"))
    distances = loss.labels != "class" and hasattr(loss, "label_distance")
    said = loss.label_distance if distances else None
    if not is_precomputed(said):
        check_together(Z_database=m, y_database=y_database)
    if distances:
        return _apart(loss._default_label_distance if said is None else said, y, y_database, n, m)
    if loss.labels != "class":
        read = _rows if loss._outputs else as_numbers
        if y_database is None or m is None:
            return BoundLabels("targets", read(y, "y", n))
        queries, database = read(y, "y", n), read(y_database, "y_database", m)
        _check_widths(queries, database)
        return BoundLabels("targets", queries, database)
    if are_tags(y) or are_tags(y_database):
        return BoundLabels("tags", *tags_for(loss, y, y_database, n, m))
    of_queries = _classes(y, "y")
    if y_database is None or m is None:
        classes, codes = as_codes(of_queries, "y", n)
        return BoundLabels("class", codes, n_classes=len(classes))
    of_database, names = _classes(y_database, "y_database"), ("y", "y_database")
    known, codes, others = as_common_codes(of_queries, of_database, names, (n, m))
    return BoundLabels("class", codes, others, n_classes=len(known))


def tags_for(
    loss: Any, y: Any, y_database: Any, n: int, m: int | None
) -> tuple[csr_array, csr_array | None]:
    """Return the tags of points, and of a database if there is one, for a loss that takes tags."""
    if not getattr(loss, "takes_tags", False):
        name = getattr(loss, "__name__", type(loss).__name__)
        raise ValueError(
            f"y holds tags, of which a point may have several, and {name} needs one class per "
            "point: give classes, or choose another loss, such as SupCon or NCA."
        )
    if y_database is None or m is None:
        return as_tags(y, "y", n), None
    return both_tags(y, y_database, ("y", "y_database"), (n, m))


def _apart(
    said: Any, y: ArrayLike, y_database: ArrayLike | None, n: int, m: int | None
) -> BoundLabels:
    if isinstance(said, LabelDistance) and said.kernel is not None:
        said = said.kernel
    if not (isinstance(said, str) and said in KERNELS):
        sizes = n, n if m is None else m
        distance, queries, database = bind_labels(said, y, y_database, sizes=sizes)
        encoded = distance.encode(queries)
        others = encoded if database is queries else distance.encode(database)
        return BoundLabels("precomputed", encoded, others, distance.between)
    queries = _rows(y, "y", n)
    if y_database is None or m is None:
        return BoundLabels(said, queries)
    database = _rows(y_database, "y_database", m)
    _check_widths(queries, database)
    return BoundLabels(said, queries, database)


def _rows(y: ArrayLike, name: str, n: int) -> Floats:
    """Return the continuous labels of n points as an array of shape (n, n_label_dimensions)."""
    return numeric_labels(y, name, n).reshape(n, -1)


def _check_widths(queries: Floats, database: Floats) -> None:
    if database.shape[1:] != queries.shape[1:]:
        raise ValueError(
            f"y_database must have {queries.shape[1]} label dimension(s), as y; "
            f"found {database.shape[1]}."
        )


def _classes(labels: ArrayLike, name: str) -> ArrayLike:
    """Return class labels; raise ValueError for fractional numbers."""
    array = as_label_array(labels, name)
    if array.dtype.kind == "O":
        check_class_labels(array, name)
    if array.dtype.kind == "f" and (array != np.round(array)).any() and np.isfinite(array).all():
        raise ValueError(
            f"{name} holds continuous numbers, and this loss needs class labels: use a loss of "
            "continuous labels, such as LogRatio, or divide the numbers into classes."
        )
    return array
