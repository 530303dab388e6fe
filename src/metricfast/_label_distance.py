"""Distances of labels that a function gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["distances_by"]


def distances_by(
    function: Callable[[NDArray[Any], NDArray[Any]], ArrayLike],
    queries: NDArray[Any],
    database: NDArray[Any],
) -> NDArray[Any]:
    """Call a function of labels, of shape (n, n_label_dimensions), as `cdist` is called.

    One number each, of shape (n,), it is called with as they are, and if that does not give the
    distances of all of them, with a column.

    Returns
    -------
    ndarray
        Of shape (n, m), or the other one that the function gave.
    """
    shape = len(queries), len(database)
    try:
        given = np.asarray(function(queries, database))
        if given.shape == shape or queries.ndim != 1:
            return given
    except Exception:  # what a function does with labels that it was not written for
        if queries.ndim != 1:
            raise
        return np.asarray(function(queries[:, None], database[:, None]))
    try:
        columns = np.asarray(function(queries[:, None], database[:, None]))
    except Exception:
        return given
    return columns if columns.shape == shape else given
