"""The vote of nearest neighbours: winners, and the loss of wrong answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricfast._core.types import Floats, Integers
from metricfast.distances.inference import check_loss_matrix
from metricfast.losses import Gerrymander

# Share of a vote that the winner of a tie gets in addition.
_TRIFLE = 1e-9


def majority_vote(neighbors: Integers, labels: Integers, n_classes: int) -> tuple[Integers, Floats]:
    """Count votes. Ties go to the class of the nearest neighbour among them.

    Returns winners, and shares of shape (n, n_classes). A winner of a tie has a slightly larger
    share.
    """
    votes = labels[neighbors]
    n, k = votes.shape
    counts = np.zeros((n, n_classes))
    np.add.at(counts, (np.arange(n)[:, None], votes), 1.0)
    own = np.take_along_axis(counts, votes, axis=1)
    winners = votes[np.arange(n), own.argmax(axis=1)]
    counts[np.arange(n), winners] += _TRIFLE
    return winners, counts / (k + _TRIFLE)


def largest_cost(loss: Gerrymander) -> float:
    """Return the largest cost of an answer."""
    matrix: Any = loss.loss_matrix
    return 1.0 if matrix is None else float(np.max(matrix))


def vote_loss(estimator: Any, n_classes: int, costs: Floats | None = None) -> Gerrymander:
    """Return the vote loss of a learner with class indices as labels.

    `costs`: of votes of the classes of columns where those of rows are right; by default those of
        the parameter `loss_matrix`.
    """
    if costs is None and estimator.loss_matrix is None:
        costs = 1.0 - np.eye(n_classes)  # indexed by class, independent of the batch
    elif costs is None:
        costs = check_loss_matrix(estimator.loss_matrix, n_classes)
    return Gerrymander(estimator.n_neighbors, costs, estimator.ties, estimator.inference)
