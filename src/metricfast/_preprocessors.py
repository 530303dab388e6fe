"""Preprocessors: what turns indicators of points into points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from metricfast.exceptions import PreprocessorError

__all__ = ["ArrayIndexer", "Preprocessor", "check_preprocessor", "form", "indexed_pairs"]

Preprocessor = Callable[[NDArray[Any]], Any]


class ArrayIndexer:
    """Preprocessor that looks indices up in an array.

    Parameters
    ----------
    X : array-like
        The points, one per row. They are checked when they are used, not here.
    """

    def __init__(self, X: ArrayLike) -> None:
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

    def __call__(self, indices: NDArray[Any]) -> Any:
        return self.X[indices]


def check_preprocessor(preprocessor: object) -> Preprocessor | None:
    """Return `preprocessor` as a function, or None if there is none.

    Raises
    ------
    ValueError
        If it is neither None, nor array-like, nor callable.
    """
    if preprocessor is None:
        return None
    arraylike = any(hasattr(preprocessor, name) for name in ("__len__", "shape", "__array__"))
    if arraylike and not isinstance(preprocessor, (str, bytes)):
        return ArrayIndexer(preprocessor)  # type: ignore[arg-type]
    if callable(preprocessor):
        return preprocessor
    raise ValueError(
        f"Invalid type for the preprocessor: {type(preprocessor)}. You should "
        "provide either None, an array-like object, or a callable."
    )


def form(preprocessor: Preprocessor, *columns: NDArray[Any]) -> Any:
    """Points of one column of indicators, or tuples of several."""
    try:
        points = [preprocessor(column) for column in columns]
        return points[0] if len(points) == 1 else np.stack(points, axis=1)
    except Exception as error:
        raise PreprocessorError(error) from error


def indexed_pairs(
    pairs: ArrayLike, preprocessor: Preprocessor | None, n_features: int
) -> tuple[NDArray[Any], NDArray[np.int64]] | None:
    """Points and pairs of rows of them, where `pairs` index an array that can serve as it is.

    Forming the pairs would take more memory than the points do. None wherever that is not so, or
    something is wrong with the input: then the checks of formed tuples know what to say.
    """
    if not isinstance(preprocessor, ArrayIndexer):
        return None
    points, index = preprocessor.X, np.asarray(pairs)
    if not isinstance(points, np.ndarray) or points.dtype not in (np.float32, np.float64):
        return None
    if index.dtype.kind not in "iu" or index.shape[1:] != (2,) or len(points) > index.size:
        return None
    if points.shape != (len(points), n_features):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(points.sum()):
            return None
    index = index.astype(np.int64)
    index[index < 0] += len(points)
    if index.min() < 0 or index.max() >= len(points):
        return None
    return points, index
