"""Preprocessors: functions from indicators of points to points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_array

from metricfast._core.frames import as_readable
from metricfast._core.points import dense
from metricfast._core.sparse import check_structure
from metricfast._core.stores import as_source
from metricfast._core.types import Array
from metricfast.exceptions import PreprocessorError

__all__ = ["ArrayIndexer", "Preprocessor", "check_preprocessor", "form"]

Preprocessor = Callable[[Array], Any]


class ArrayIndexer:
    """Look up indices in an array of points. The points are checked later, when they are used.

    If `X` is a source, a lookup reads only the indexed points.
    """

    def __init__(self, X: Any) -> None:
        X = as_readable(X, "preprocessor")
        source = as_source(X, "preprocessor")
        if source is not None:
            self.X: Any = source
            return
        check_structure(X, "preprocessor")
        self.X = check_array(
            X,
            accept_sparse="csr",
            dtype=None,
            ensure_all_finite=False,
            ensure_2d=False,
            allow_nd=True,
            ensure_min_samples=0,
            ensure_min_features=0,
        )

    def __call__(self, indices: Array) -> Any:
        # NumPy would wrap unsigned indices above the range of int64 to negative ones.
        largest = indices.max(initial=0) if indices.dtype.kind == "u" else 0
        if largest > np.iinfo(np.intp).max:
            raise IndexError(f"index {largest} is out of bounds for {self.X.shape[0]} points")
        return self.X[indices]


def check_preprocessor(preprocessor: object) -> Preprocessor | None:
    """Return an array-like or callable preprocessor as a function, or None if there is none."""
    if preprocessor is None:
        return None
    arraylike = any(hasattr(preprocessor, name) for name in ("__len__", "shape", "__array__"))
    arraylike = arraylike or as_source(preprocessor) is not None
    if arraylike and not isinstance(preprocessor, (str, bytes)):
        return ArrayIndexer(preprocessor)
    if callable(preprocessor):
        return preprocessor
    raise ValueError(
        f"Invalid type for the preprocessor: {type(preprocessor)}. You should "
        "provide either None, an array-like object, or a callable."
    )


def form(preprocessor: Preprocessor, *columns: Array) -> Any:
    """Return points for one column of indicators, or an array of tuples for several columns."""
    try:
        points = [preprocessor(column) for column in columns]
        if len(points) == 1:
            return points[0]
        return np.stack([dense(p) for p in points], axis=1)
    except Exception as error:
        raise PreprocessorError(error) from error
