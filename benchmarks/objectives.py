"""Final objective and test error of fits, computed in the same way for all packages."""

from __future__ import annotations

__all__ = [
    "lmnn_objective",
    "mlkr_objective",
    "nca_objective",
    "neighbor_error",
    "similarity_error",
    "test_error",
    "triplet_hinge",
    "tuple_error",
]

from collections.abc import Iterator

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

BLOCK = 500


def _blocks(z: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield row numbers, and squared distances from them to all rows, with infinite diagonal."""
    squared = (z**2).sum(axis=1)
    for start in range(0, len(z), BLOCK):
        rows = np.arange(start, min(start + BLOCK, len(z)))
        distances = squared[rows][:, None] + squared - 2 * z[rows] @ z.T
        np.maximum(distances, 0, out=distances)
        distances[np.arange(len(rows)), rows] = np.inf
        yield rows, distances


def nca_objective(linear: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Return minus the expected number of points that stochastic neighbours classify correctly."""
    total = 0.0
    for rows, distances in _blocks(x @ linear.T):
        weights = np.exp(distances.min(axis=1, keepdims=True) - distances)
        same = y[rows][:, None] == y
        total += float(((weights * same).sum(axis=1) / weights.sum(axis=1)).sum())
    return -total


def mlkr_objective(linear: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Return the sum of squared errors of predictions by stochastic neighbours."""
    total = 0.0
    for rows, distances in _blocks(x @ linear.T):
        weights = np.exp(distances.min(axis=1, keepdims=True) - distances)
        total += float(((weights @ y / weights.sum(axis=1) - y[rows]) ** 2).sum())
    return total


def lmnn_objective(
    linear: np.ndarray, x: np.ndarray, y: np.ndarray, k: int = 3, regularization: float = 0.5
) -> float:
    """Return the pull towards k Euclidean target neighbours plus the hinges against impostors."""
    targets = np.empty((len(x), k), dtype=int)
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        nearest = NearestNeighbors(n_neighbors=k).fit(x[members]).kneighbors(return_distance=False)
        targets[members] = members[nearest]
    pull = push = 0.0
    for rows, distances in _blocks(x @ linear.T):
        to_targets = np.take_along_axis(distances, targets[rows], axis=1)
        distances[y[rows][:, None] == y] = np.inf
        pull += float(to_targets.sum())
        for column in to_targets.T:
            push += float(np.maximum(1 + column[:, None] - distances, 0).sum())
    return regularization * pull + (1 - regularization) * push


def test_error(
    linear: np.ndarray, x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray
) -> float:
    """Return the test error of a vote of 3 neighbours; the nearest decides ties."""
    return neighbor_error(linear, x, y, x_test, y_test, 3)


def neighbor_error(
    linear: np.ndarray, x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray, k: int
) -> float:
    """Return the test error of a vote of k neighbours; the nearest decides ties."""
    model = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(x @ linear.T)
    return _vote_error(y[model.kneighbors(x_test @ linear.T, return_distance=False)], y_test)


def similarity_error(
    bilinear: np.ndarray, x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray
) -> float:
    """Return the test error of a vote of the 3 most similar points."""
    order = np.argsort(-x_test @ bilinear @ x.T, axis=1, kind="stable")
    return _vote_error(y[order[:, :3]], y_test)


def _vote_error(votes: np.ndarray, y_test: np.ndarray) -> float:
    counts = (votes[:, :, None] == votes[:, None, :]).sum(axis=2)
    predicted = votes[np.arange(len(votes)), counts.argmax(axis=1)]
    return float(np.mean(predicted != y_test))


def tuple_error(
    linear: np.ndarray, x: np.ndarray, index: np.ndarray, y: np.ndarray | None = None
) -> float:
    """Return the share of tuples in wrong order; for pairs, 1 minus the area under the ROC curve.

    Parameters
    ----------
    linear, x : ndarray
        The map and the points.
    index : ndarray of shape (n_tuples, 2 | 3 | 4)
        Rows of x: pairs, or a nearer and a farther pair, which share their first point in triplets.
    y : ndarray of shape (n_tuples,)
        1 for similar pairs, -1 for dissimilar ones.
    """
    z = x @ linear.T
    near = np.linalg.norm(z[index[:, 0]] - z[index[:, 1]], axis=1)
    if y is not None:
        return 1 - float(roc_auc_score(y, -near))
    far = np.linalg.norm(z[index[:, 0 if index.shape[1] == 3 else 2]] - z[index[:, -1]], axis=1)
    return float(np.mean(far <= near))


def triplet_hinge(linear: np.ndarray, x: np.ndarray, index: np.ndarray) -> float:
    """Return the mean of [1 + s D_ab - s D_ac]_+ over triplets, for the best scale s of the map.

    D are squared distances after the map. The best s makes learners with different stopping rules
    comparable.
    """
    z = x @ linear.T
    a, b, c = (z[index[:, i]] for i in range(3))
    excess = ((a - b) ** 2).sum(axis=1) - ((a - c) ** 2).sum(axis=1)
    scales = np.geomspace(1e-6, 1e6, 601) / np.abs(excess).mean()
    return min(float(np.maximum(0, 1 + scale * excess).mean()) for scale in scales)
