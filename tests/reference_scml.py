"""Sparse compositional metric learning and OASIS, slow and obvious."""

from __future__ import annotations

import numpy as np


def dual_averaging(points, triplets, basis, draws, beta, gamma):
    """Weights after every iteration."""
    projected = points @ basis.T
    a, b, c = (projected[column] for column in triplets.T)
    differences = (a - b) ** 2 - (a - c) ** 2
    w, mean, squares = (np.zeros(len(basis)) for _ in range(3))
    path = []
    for t, batch in enumerate(differences[drawn] for drawn in draws):
        gradient = batch[1 + batch @ w > 0].sum(axis=0) / len(batch)
        mean = (t * mean + gradient) / (t + 1)
        squares = squares + gradient**2
        w = -(t + 1) / (gamma * (0.001 + np.sqrt(squares))) * np.minimum(mean + beta, 0)
        path.append(w)
    return np.array(path)


def triplet_objective(points, triplets, basis, w, beta, weight=None):
    a, b, c = (points[column] @ basis.T for column in triplets.T)
    slack = 1 + ((a - b) ** 2 - (a - c) ** 2) @ w
    return np.average(np.maximum(slack, 0), weights=weight) + beta * w.sum()


def passive_aggressive(points, triplets, W, C):
    """The matrix after all triplets in turn, and the losses that they had; C may be theirs each."""
    W, losses = W.copy(), []
    for (a, b, c), longest in zip(points[triplets], np.broadcast_to(C, len(triplets)), strict=True):
        loss = max(0.0, 1 - a @ W @ (b - c))
        direction = np.outer(a, b - c)
        size = (direction**2).sum()
        if loss > 0 and size > 0:
            W += min(longest, loss / size) * direction
        losses.append(loss)
    return W, losses
