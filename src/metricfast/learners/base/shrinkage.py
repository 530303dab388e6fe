"""Shrinkage of a scatter matrix towards a target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from metricfast._core.scatter import whitening
from metricfast._core.types import Floats
from metricfast.training.span import Target


def shrunk(scatter: Floats, shrinkage: float, target: Target) -> Floats:
    """Shrink a scatter matrix towards a target matrix, which is scaled to the same trace."""
    matrix, trace = target
    share = shrinkage * np.trace(scatter) / trace
    return np.asarray((1 - shrinkage) * scatter + share * matrix)


def shrunk_roots(
    scatter: Floats, target: Target, fractions: Sequence[float], precision: np.dtype[Any]
) -> Iterator[Floats]:
    """Return maps W, with ``W.T @ W`` the inverse of the scatter, shrunk by each of the fractions.

    Shrinkage changes only the eigenvalues of the scatter relative to the target. The map without
    shrinkage ignores directions of rounding errors, like :func:`whitening`.
    """
    matrix, trace = target
    whiten = whitening(matrix, precision)
    relative = whiten @ scatter @ whiten.T
    sizes, vectors = np.linalg.eigh((relative + relative.T) / 2)
    axes, level = vectors.T @ whiten, np.trace(scatter) / trace
    for fraction in fractions:
        if fraction == 0:
            yield whitening(scatter, precision)
        else:
            moved = (1 - fraction) * np.maximum(sizes, 0) + fraction * level
            yield axes / np.sqrt(moved)[:, None]
