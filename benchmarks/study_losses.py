"""A baseline that only the study of dimensions needs."""

from __future__ import annotations

__all__ = ["BinaryTriplet"]

from typing import Any

import numpy as np
from scipy.spatial import KDTree

from metricfast.losses import Triplet


class BinaryTriplet:
    """The triplet loss with binarised continuous labels, a baseline of Kim et al. (2019).

    The positives of an anchor are its 30 nearest training points in label space, including ties.
    All others are negatives.
    """

    labels = "continuous"

    def __init__(self, y: np.ndarray, margin: float, n_positives: int = 30) -> None:
        self.margin = margin
        self._tree = KDTree(y)
        self._n_positives = n_positives
        self._loss = Triplet(margin=margin, mining="all")

    def __call__(
        self,
        Z: np.ndarray,
        y: np.ndarray,
        Z_database: np.ndarray | None = None,
        y_database: np.ndarray | None = None,
        *,
        exclude: np.ndarray | None = None,
        **options: Any,
    ) -> tuple[float, Any]:
        """Return the mean over anchors with both positives and negatives in the batch."""
        queries, labels = Z, np.reshape(y, (len(Z), -1))
        own = np.arange(len(Z)) if exclude is None else exclude
        database = Z if Z_database is None else Z_database
        others = labels if y_database is None else np.reshape(y_database, (len(database), -1))
        radius = self._tree.query(labels, self._n_positives + 1)[0][:, -1]
        near = np.linalg.norm(labels[:, None] - others[None], axis=-1) <= radius[:, None]
        total, taken = 0.0, 0
        by_query, by_database = np.zeros_like(queries), np.zeros_like(database)
        for i, positive in enumerate(near):
            rest = np.delete(positive, own[i]) if own[i] >= 0 else positive
            if not rest.any() or rest.all():
                continue
            value, (of_query, of_database) = self._loss(
                queries[i : i + 1], [1], database, positive.astype(int),
                exclude=own[i : i + 1], **options,
            )  # fmt: skip
            total, taken = total + value, taken + 1
            by_query[i] += of_query[0]
            by_database += of_database
        by_query, by_database = by_query / max(taken, 1), by_database / max(taken, 1)
        gradient = by_query + by_database if Z_database is None else (by_query, by_database)
        return total / max(taken, 1), gradient
