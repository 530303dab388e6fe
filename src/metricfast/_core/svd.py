"""Singular value decomposition."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from metricfast._core.types import Array

__all__ = ["svd"]


def svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Return the thin decomposition: left vectors, singular values, right vectors as rows.

    LAPACK's gesdd is fast, but may fail to converge for repeated singular values. gesvd is slower
    and does not.
    """
    try:
        left, sizes, right = scipy.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError:
        left, sizes, right = scipy.linalg.svd(matrix, full_matrices=False, lapack_driver="gesvd")
    return left, sizes, right
