"""Where the proxies of classes begin."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["initial_proxies"]

# Rows of this length or less are zero where rows are normalized, and have no gradient.
_LEAST = 1e-12


def initial_proxies(
    Z: NDArray[Any], y: NDArray[Any], n_classes: int, rng: np.random.RandomState | None
) -> NDArray[Any]:
    """Return the mean of each class of embedded points, in their dtype.

    `rng` is given where proxies are normalized: it draws a direction for each class that has no
    point, or a mean without one, unless no class has any.
    """
    table = np.zeros((n_classes, Z.shape[1]))
    np.add.at(table, y, Z)
    table /= np.maximum(np.bincount(y, minlength=n_classes), 1)[:, None]
    if rng is not None:
        missing = np.linalg.norm(table, axis=1) <= _LEAST
        if not missing.all():
            drawn = rng.standard_normal((int(missing.sum()), Z.shape[1]))
            table[missing] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return table.astype(Z.dtype)
