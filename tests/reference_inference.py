"""Inference of neighbour sets by enumeration of all sets."""

from functools import cache
from itertools import combinations

import numpy as np


@cache
def sets_of(n, k):
    return np.array(list(combinations(range(n), k)), dtype=np.int64).reshape(-1, k)


def vote_losses(votes, ranked_labels, delta, ties):
    """Return the costs of sets' votes; `votes` (sets, k) ascend in the order of `ranked_labels`."""
    labels = ranked_labels[votes]
    counts = (labels[:, :, None] == np.arange(len(delta))).sum(axis=1)
    most = counts == counts.max(axis=1, keepdims=True)
    if ties == "pessimistic":
        return np.where(most, delta, -np.inf).max(axis=1)
    if ties == "optimistic":
        return np.where(most, delta, np.inf).min(axis=1)
    if ties == "label":
        return delta[most.argmax(axis=1)]
    tied = np.take_along_axis(most, labels, axis=1)
    return delta[labels[np.arange(len(labels)), tied.argmax(axis=1)]]


def brute_force(distances, labels, delta, k, ties, exclude=-1):
    """Return value and loss of the best targeted and the best augmented set, or None."""
    order = np.lexsort((np.arange(len(distances)), distances))
    order = order[order != exclude]
    if len(order) < k:
        return None, None
    sets = sets_of(len(order), k)
    costs = distances[order][sets].sum(axis=1)
    losses = vote_losses(sets, labels[order], delta, ties)
    right = losses == 0
    targeted = -costs[right].min() if right.any() else None
    return targeted, (losses - costs).max()
