"""Losses of a batch by their definitions, in float64: value, and gradient from pair weights."""

from __future__ import annotations

__all__ = [
    "DEFINITIONS",
    "contrastive",
    "log_ratio",
    "multi_similarity",
    "nca",
    "sup_con",
    "triplet",
]

import numpy as np
from scipy.special import logsumexp

from benchmarks.calls import MARGIN

Result = tuple[float, np.ndarray]


def _by_distance(z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the gradient of sum w_ij D_ij with squared distances D."""
    both = weights + weights.T
    return 2 * (both.sum(axis=1)[:, None] * z - both @ z)


def _squared(z: np.ndarray) -> np.ndarray:
    return np.stack([((z - row) ** 2).sum(axis=1) for row in z])


def _pairs(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return masks of positive and of negative pairs."""
    same = y[:, None] == y[None]
    return same & ~np.eye(len(y), dtype=bool), ~same


def log_ratio(z: np.ndarray, y: np.ndarray) -> Result:
    """Mean over anchors of the mean of (e_i - e_j)^2 over pairs, with e = log D - log D_label."""
    n, others = len(z), ~np.eye(len(z), dtype=bool)
    distance, label = _squared(z), _squared(y)
    weights, value = np.zeros((n, n)), 0.0
    for i in range(n):
        e = np.log(distance[i, others[i]]) - np.log(label[i, others[i]])
        differences = e[:, None] - e[None]
        pairs = n * (n - 1) * (n - 2)
        value += (differences**2).sum() / pairs
        weights[i, others[i]] = 4 * differences.sum(axis=1) / pairs / distance[i, others[i]]
    return value, _by_distance(z, weights)


def triplet(z: np.ndarray, y: np.ndarray, margin: float = 0.2) -> Result:
    """Mean of [D_ap - D_an + margin]_+ over the nonzero triplets."""
    distance, weights = _squared(z), np.zeros((len(z), len(z)))
    total, active = 0.0, 0
    for i, (p, n) in enumerate(zip(*_pairs(y), strict=True)):
        hinge = distance[i, p][:, None] - distance[i, n][None] + margin
        above = hinge > 0
        total, active = total + hinge[above].sum(), active + above.sum()
        weights[i, p], weights[i, n] = above.sum(axis=1), -above.sum(axis=0)
    return total / active, _by_distance(z, weights) / active


def contrastive(z: np.ndarray, y: np.ndarray, margin: float = MARGIN) -> Result:
    """Positive distances, and [margin - d]_+ of negative ones, each averaged over those above 0."""
    d = np.sqrt(_squared(z))
    positive, negative = _pairs(y)
    near = negative & (d < margin)
    value = d[positive].mean() + (margin - d[near]).mean()
    safe = np.where(d > 0, d, 1)
    weights = positive / positive.sum() / (2 * safe) - near / near.sum() / (2 * safe)
    return value, _by_distance(z, weights)


def multi_similarity(
    z: np.ndarray, y: np.ndarray, alpha: float = 2.0, beta: float = 50.0, base: float = 0.5
) -> Result:
    """Mean over anchors of the loss of Wang et al. (2019), with two soft maxima of similarities."""
    s, (positive, negative) = z @ z.T, _pairs(y)
    zero = np.zeros((len(z), 1))
    value, weights = 0.0, np.zeros_like(s)
    for kept, scale in ((positive, -alpha), (negative, beta)):
        exponents = np.where(kept, scale * (s - base), -np.inf)
        total = logsumexp(np.hstack([exponents, zero]), axis=1)
        value += (total / abs(scale)).mean()
        weights += np.sign(scale) * np.exp(exponents - total[:, None]) / len(z)
    return value, (weights + weights.T) @ z


def sup_con(z: np.ndarray, y: np.ndarray, temperature: float = 0.1) -> Result:
    """Mean over anchors and their positives of -log softmax, excluding the anchor itself."""
    positive, negative = _pairs(y)
    s = np.where(positive | negative, z @ z.T / temperature, -np.inf)
    log_p = s - logsumexp(s, axis=1)[:, None]
    share = positive / positive.sum(axis=1)[:, None]
    value = -(np.where(positive, log_p, 0) * share).sum(axis=1).mean()
    weights = (np.exp(log_p) - share) / temperature / len(z)
    return value, (weights + weights.T) @ z


def nca(z: np.ndarray, y: np.ndarray) -> Result:
    """Mean over anchors of -log of the probability that the neighbour has the anchor's class."""
    positive, negative = _pairs(y)
    s = np.where(positive | negative, -_squared(z), -np.inf)
    total = logsumexp(s, axis=1)[:, None]
    same = logsumexp(np.where(positive, s, -np.inf), axis=1)[:, None]
    weights = np.where(positive, np.exp(s - same), 0) - np.exp(s - total)
    return float((total - same).mean()), _by_distance(z, weights / len(z))


DEFINITIONS = {
    "LogRatio": log_ratio,
    "Triplet": triplet,
    "Contrastive": contrastive,
    "MultiSimilarity": multi_similarity,
    "SupCon": sup_con,
    "NCA": nca,
}
