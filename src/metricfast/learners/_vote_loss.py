"""What the votes of nearest neighbours cost, and how often they are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast.inference import Inference, check_loss_matrix
from metricfast.losses import Gerrymander
from metricfast.losses._call import Call
from metricfast.neighbors import kneighbors

__all__ = ["VoteLoss", "vote", "vote_error", "vote_loss"]

Array = NDArray[Any]
# A part of a vote by which the winner of a tie leads.
_TRIFLE = 1e-9


class VoteLoss(Gerrymander):
    """The loss of the learners, whose labels are codes.

    Attributes
    ----------
    errors_ : float
        In the last call, the weight of the queries whose nearest neighbours vote for another class,
        ties going to the class of the nearest.
    """

    def _sets(
        self, call: Call, y: ArrayLike, y_database: ArrayLike
    ) -> tuple[Inference, Inference, NDArray[np.float64]]:
        found = super()._sets(call, y, y_database)
        rows = np.arange(len(call.queries))
        if self.ties == "pessimistic" and self._every_wrong_answer_costs:
            rows = np.flatnonzero(found[2])  # no way of ties makes the other votes wrong
        self.errors_ = 0.0
        if len(rows):
            weight = None if call.weight is None else call.weight[rows]
            wrong = _wrong(
                call.queries[rows], np.asarray(y)[rows],
                call.queries if call.database is None else call.database, np.asarray(y_database),
                self.n_neighbors, call.threads,
                None if call.exclude is None else call.exclude[rows],
            )  # fmt: skip
            self.errors_ = float(wrong.sum() if weight is None else weight @ wrong)
        return found

    @property
    def _every_wrong_answer_costs(self) -> bool:
        if self.loss_matrix is None:
            return True
        matrix = np.asarray(self.loss_matrix)
        return bool((matrix + np.eye(len(matrix)) > 0).all())


def vote(
    neighbors: NDArray[np.int64], labels: NDArray[np.int64], n_classes: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Count votes; ties go to the class of the nearest neighbour in it.

    Returns
    -------
    winners : ndarray of int64 of shape (n,)
    shares : ndarray of shape (n, n_classes)
        Of classes of equally many votes, the winner has more by a trifle.
    """
    votes = labels[neighbors]
    n, k = votes.shape
    counts = np.zeros((n, n_classes))
    np.add.at(counts, (np.arange(n)[:, None], votes), 1.0)
    own = np.take_along_axis(counts, votes, axis=1)
    winners = votes[np.arange(n), own.argmax(axis=1)]
    counts[np.arange(n), winners] += _TRIFLE
    return winners, counts / (k + _TRIFLE)


def vote_error(
    queries: Array,
    labels: NDArray[np.int64],
    database: Array,
    database_labels: NDArray[np.int64],
    k: int,
    n_jobs: int | None,
) -> float:
    """Return the share of queries whose k nearest neighbours vote for another class."""
    return float(_wrong(queries, labels, database, database_labels, k, n_jobs).mean())


def _wrong(
    queries: Array,
    labels: NDArray[np.int64],
    database: Array,
    database_labels: NDArray[np.int64],
    k: int,
    n_jobs: int | None,
    exclude: NDArray[np.int64] | None = None,
) -> NDArray[np.bool_]:
    found = kneighbors(queries, database, k, exclude=exclude, n_jobs=n_jobs)[1]
    n_classes = int(max(labels.max(), database_labels.max())) + 1
    return np.asarray(vote(found, database_labels, n_classes)[0] != labels)


def vote_loss(estimator: Any, n_classes: int) -> VoteLoss:
    """Make the loss of a learner whose labels are codes."""
    matrix = estimator.loss_matrix
    if matrix is None and estimator.ties == "label":
        matrix = 1.0 - np.eye(n_classes)  # so that codes keep their order in every batch
    elif matrix is not None:
        matrix = check_loss_matrix(matrix, n_classes)
    return VoteLoss(estimator.n_neighbors, matrix, estimator.ties, estimator.inference)
