"""Slow and obvious versions of ITML, LSML, MMC, SCML and OASIS, and tuples to test them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def labelled_pairs(X, y, n, seed=0):
    """Return pairs of different rows, with labels 1 or -1."""
    pairs = np.random.RandomState(seed).randint(len(X), size=(n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)


def quadruplets(X, y, n, seed=0):
    """Return quadruplets: two distinct points of a class, and two points of different classes."""
    q = np.random.RandomState(seed).randint(len(X), size=(n, 4))
    q = q[(y[q[:, 0]] == y[q[:, 1]]) & (y[q[:, 2]] != y[q[:, 3]])]
    return q[(X[q[:, 0]] != X[q[:, 1]]).any(axis=1)]


def lsml(M, X, q, weights=None, prior=None):
    """Return the objective of LSML at M."""
    weights = np.ones(len(q)) if weights is None else np.asarray(weights, dtype=float)
    prior = np.eye(len(M)) if prior is None else prior
    total = 0.0
    for weight, (a, b, c, d) in zip(weights / weights.sum(), q, strict=True):
        near, far = X[a] - X[b], X[c] - X[d]
        excess = np.sqrt(near @ M @ near) - np.sqrt(far @ M @ far)
        total += weight * max(0.0, excess) ** 2
    return total + np.trace(M @ np.linalg.inv(prior)) - np.linalg.slogdet(M)[1]


def mmc(A, X, pairs, y):
    """Return the sum of distances of dissimilar pairs, and of squares for similar pairs."""
    squares = [max(0.0, float(v @ A @ v)) for v in X[pairs[:, 0]] - X[pairs[:, 1]]]
    return np.sqrt(squares)[y == -1].sum(), np.array(squares)[y == 1].sum()


def best_mmc(X, pairs, y, steps=3000):
    """Return the maximum of log(first / sqrt(second)), by projected gradient ascent.

    Where similar pairs have the identity as scatter, the bound is one of the trace, and a
    projection moves the eigenvalues onto a simplex.
    """
    v = X[pairs[:, 0]] - X[pairs[:, 1]]
    root = np.linalg.cholesky(v[y == 1].T @ v[y == 1])
    u = np.linalg.solve(root, v[y == -1].T).T
    B = np.eye(u.shape[1]) / u.shape[1]
    for step in range(steps):
        distances = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", u, B, u), 1e-30))
        gradient = (u / distances[:, None]).T @ u / 2 / distances.sum()
        values, vectors = np.linalg.eigh(B + gradient / np.sqrt(1 + step))
        B = (vectors * on_simplex(values)) @ vectors.T
    return np.log(np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", u, B, u), 0)).sum())


def on_simplex(values):
    """Return the nearest non-negative vector with sum 1."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    return np.maximum(values - excess[np.flatnonzero(ordered > excess)[-1]], 0)


Array = NDArray[Any]


def itml(v: Array, similar: Array, M: Array, bounds: Array, gamma: float, sweeps: int) -> Any:
    """Project M onto one pair after the other; slack variables follow their definition.

    v are the differences of the pairs, `bounds` the two bounds on squared distances. Returns M, the
    dual variables, and the sum of their absolute changes in each sweep.
    """
    M, duals, moved = M.copy(), np.zeros(len(v)), []
    slack = np.where(similar, *bounds)
    for _ in range(sweeps):
        before = duals.copy()
        for i in range(len(v)):
            sign = 1 if similar[i] else -1
            p = v[i] @ M @ v[i]
            if p == 0:
                continue
            weight = 1 if gamma == np.inf else gamma / (gamma + 1)
            alpha = min(duals[i], sign * weight * (1 / p - 1 / slack[i]))
            duals[i] -= alpha
            slack[i] = 1 / (1 / slack[i] + sign * alpha / gamma)
            u = M @ v[i]
            M += sign * alpha / (1 - sign * alpha * p) * np.outer(u, u)
        moved.append(np.abs(duals - before).sum())
    return M, duals, moved


def dual_averaging(points, triplets, basis, draws, beta, gamma):
    """Return the weights after every iteration."""
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
    """Return the matrix after all triplets, and their losses; C may differ between triplets."""
    W, losses = W.copy(), []
    for (a, b, c), longest in zip(points[triplets], np.broadcast_to(C, len(triplets)), strict=True):
        loss = max(0.0, 1 - a @ W @ (b - c))
        direction = np.outer(a, b - c)
        size = (direction**2).sum()
        if loss > 0 and size > 0:
            W += min(longest, loss / size) * direction
        losses.append(loss)
    return W, losses
