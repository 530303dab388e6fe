"""Slow and obvious versions of the objectives of LSML and MMC, and tuples to try them on."""

from __future__ import annotations

import numpy as np


def labelled_pairs(X, y, n, seed=0):
    """Pairs of different rows, and 1 or -1 for each."""
    pairs = np.random.RandomState(seed).randint(len(X), size=(n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)


def quadruplets(X, y, n, seed=0):
    """Two points of a class that differ, and two points of different classes."""
    q = np.random.RandomState(seed).randint(len(X), size=(n, 4))
    q = q[(y[q[:, 0]] == y[q[:, 1]]) & (y[q[:, 2]] != y[q[:, 3]])]
    return q[(X[q[:, 0]] != X[q[:, 1]]).any(axis=1)]


def lsml(M, X, q, weights=None, prior=None):
    """Objective of LSML at M."""
    weights = np.ones(len(q)) if weights is None else np.asarray(weights, dtype=float)
    prior = np.eye(len(M)) if prior is None else prior
    total = 0.0
    for weight, (a, b, c, d) in zip(weights / weights.sum(), q, strict=True):
        near, far = X[a] - X[b], X[c] - X[d]
        excess = np.sqrt(near @ M @ near) - np.sqrt(far @ M @ far)
        total += weight * max(0.0, excess) ** 2
    return total + np.trace(M @ np.linalg.inv(prior)) - np.linalg.slogdet(M)[1]


def mmc(A, X, pairs, y):
    """Sum of distances of dissimilar pairs, and of squared distances of similar ones."""
    squares = [max(0.0, float(v @ A @ v)) for v in X[pairs[:, 0]] - X[pairs[:, 1]]]
    return np.sqrt(squares)[y == -1].sum(), np.array(squares)[y == 1].sum()


def best_mmc(X, pairs, y, steps=3000):
    """The largest log of the first over the root of the second, by projected gradient ascent.

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
    """The nearest non-negative vector of sum 1."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    return np.maximum(values - excess[np.flatnonzero(ordered > excess)[-1]], 0)
