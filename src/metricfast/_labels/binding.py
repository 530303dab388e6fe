"""The label distance of a learner, and labels in the form for it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from metricfast._core.arguments import check_length
from metricfast._core.frames import check_alike
from metricfast._core.types import Array, Floats
from metricfast._core.warn import ignored
from metricfast._labels.distance import DistanceTable, LabelDistance, label_array
from metricfast._labels.named import named_distance

# A name, a name and its parameter (a period, or a function), or a function.
SaidDistance = str | tuple[str, Any] | Callable[[Any, Any], Any]


def is_precomputed(said: Any) -> bool:
    """Return whether labels are given as a matrix of distances."""
    return isinstance(said, str) and said == "precomputed"


def label_sequence(said: Any, y: Any, name: str) -> Any:
    """Return labels in a form that :func:`subset` can index: an array, or a table of distances."""
    if not is_precomputed(said):
        return label_array(y, name)
    table = DistanceTable.of(y, name)
    _check_shape(table, (len(table), len(table)), name)
    return table


def bind_labels(
    said: Any,
    y: Any,
    y_database: Any = None,
    *,
    sizes: tuple[int, int] | None = None,
    names: tuple[str, str] = ("y", "y_database"),
) -> tuple[LabelDistance, Array, Array]:
    """Determine the kind of labels for which a distance is given.

    `said`: the user's distance. A bound one is returned unchanged, with labels in its form. `y`,
    `y_database`: labels of any kind. With "precomputed", `y` holds their distances, (n, m).
    `sizes`: the required numbers of labels, n and m.
    `names`: their names in error messages.
    Returns the distance, and labels and references in the form for it: numbers in float64, a list
    of other objects, or indices of rows and columns for "precomputed". Raises ValueError if the
    distance is invalid, or not defined for these labels.
    """
    if isinstance(said, LabelDistance):
        labels = np.asarray(y)
        return said, labels, labels if y_database is None else np.asarray(y_database)
    if is_precomputed(said):
        return _given(y, y_database, sizes, names)
    check_alike(y, y_database, names)
    given = ((y, names[0]), (y_database, names[1]))[: 1 if y_database is None else 2]
    arrays = [label_array(labels, name) for labels, name in given]
    for array, name, size in zip(arrays, names, sizes or (None, None), strict=False):
        if size is not None:
            check_length(array, size, name)
    labels, references = arrays[0], arrays[-1]
    if labels.shape[1:] != references.shape[1:]:
        raise ValueError(
            f"{names[0]} and {names[1]} must have as many columns; "
            f"found shapes {labels.shape} and {references.shape}."
        )
    function, is_metric = _function(said)
    if function is not None:
        between = of_function(
            function,
            labels,
            references,
            "label_distance",
            "their distances, (n, m), which are finite and from 0 on",
        )
        distance = LabelDistance(between, metric=is_metric)
    else:
        distance = named_distance(said)
    for array, name in zip(arrays, names, strict=False):
        try:
            distance.encode(array)
        except ValueError as error:
            raise ValueError(f"{name} {error}") from None
    return distance, labels, references


def _function(said: Any) -> tuple[Callable[[Any, Any], Any] | None, bool]:
    """Return the user's distance function, if any, and whether it is declared a metric."""
    if isinstance(said, (tuple, list)) and len(said) == 2 and said[0] == "metric":
        if not callable(said[1]):
            raise ValueError(
                "label_distance ('metric', f) needs a function f of two labels, or of two arrays "
                f"of labels; found {said[1]!r}."
            )
        return said[1], True
    return (said, False) if callable(said) else (None, False)


def _given(
    y: Any, y_database: Any, sizes: tuple[int, int] | None, names: tuple[str, str]
) -> tuple[LabelDistance, Array, Array]:
    if y_database is not None:
        raise ValueError(
            f"{names[1]} must be None where label_distance is 'precomputed': {names[0]} holds the "
            "distances of all labels, of shape (n, m)."
        )
    table = DistanceTable.of(y, names[0])
    if sizes is not None:
        _check_shape(table, sizes, names[0])
    distance = LabelDistance(table.block, table=table)
    return distance, np.arange(table.shape[0]), np.arange(table.shape[1])


def _check_shape(table: DistanceTable, shape: tuple[int, int], name: str) -> None:
    if table.shape != shape:
        raise ValueError(
            f"{name} must hold the distances of all labels, of shape {shape}; found {table.shape}."
        )


def agreed(said: dict[str, Any]) -> Any:
    """Return the label distance that the parameters give, or None.

    Raises ValueError if they differ.
    """
    found, first = None, ""
    for place, one in said.items():
        if one is None:
            continue
        if found is not None and not _same(found, one):
            raise ValueError(
                f"label_distance is given twice: {first} has {found!r}, {place} has {one!r}. Give "
                "it once: loss, sampler, score and metrics all use it."
            )
        found, first = (one, place) if found is None else (found, first)
    return found


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(
            _same(x, y) or np.array_equal(x, y) for x, y in zip(a, b, strict=True)
        )
    if a is b or (isinstance(a, str) and a == b):
        return True
    try:  # a copy made by clone is equal, not identical
        return callable(a) and callable(b) and pickle.dumps(a) == pickle.dumps(b)
    except Exception:  # not picklable, such as a lambda
        return False


def of_function(
    function: Callable[[Any, Any], Any], labels: Array, references: Array, name: str, returns: str
) -> Callable[[Array, Array], Any]:
    """Vectorise a user's function, which takes either two labels or two arrays of labels.

    `name`, `returns`: the function and its return value in error messages.

    A trial call with two arrays of different lengths, neither equal to the number of label
    dimensions, shows which kind the function is.
    """
    width = labels.shape[1] if labels.ndim > 1 else 1
    shape = width + 2, width + 1
    some = [
        array[np.arange(size) % len(array)]
        for array, size in zip((labels, references), shape, strict=True)
    ]
    views = _views(labels)
    failures: list[tuple[str, Exception | None]] = []
    for call, view in product((_of_arrays, _of_pairs), views):
        try:
            with ignored(), np.errstate(all="ignore"):
                found = np.shape(call(function, *map(view, some)))
        except Exception as error:  # the function may fail on this form of labels
            failures.append((f"raised {type(error).__name__}: {error}", error))
            continue
        if found == shape:
            return partial(_called, call, view, function)
        failures.append((f"returned an array of shape {found}", None))
    what, cause = failures[len(views)]  # the error for two labels in their original form
    raise ValueError(
        f"{name} must be a function of two labels, or of two arrays of labels, that returns "
        f"{returns}. Called with labels, it {what}."
    ) from cause


def _views(labels: Array) -> list[Callable[[Array], Any]]:
    """Return the forms of labels to try: single numbers as numbers and as vectors of length 1."""
    views: list[Callable[[Array], Any]] = [lambda array: array]
    if labels.dtype.kind in "if" and labels.ndim == 1:
        views.append(lambda array: array[:, None])
    elif labels.dtype.kind in "if" and labels.shape[1:] == (1,):
        views.append(lambda array: array[:, 0])
    return views


def _called(call: Any, view: Any, function: Any, a: Array, b: Array) -> Any:
    return call(function, view(a), view(b))


def _of_arrays(function: Callable[[Any, Any], Any], a: Array, b: Array) -> Any:
    return function(a, b)


def _of_pairs(function: Callable[[Any, Any], Any], a: Array, b: Array) -> Floats:
    found = np.empty((len(a), len(b)))
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            value = function(x, y)
            if np.ndim(value):
                raise ValueError(f"two labels must have one distance; found {value!r}")
            found[i, j] = value
    return found
