"""Training on the votes of nearest neighbours: its course, and what it is stopped by."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from metricfast.inference import check_loss_matrix, check_method
from metricfast.learners._linear import check_count, check_range
from metricfast.learners._regularizers import REGULARIZERS
from metricfast.losses import Gerrymander
from metricfast.neighbors import kneighbors
from metricfast.solvers import Monitor, Progress

__all__ = ["Course", "check_vote_parameters", "hold_out", "unit_scale", "vote", "vote_loss"]

Array = NDArray[Any]
_QUANTITIES = ("objective", "surrogate", "error", "infeasible")
# Epochs without progress that end a training.
_PATIENCE = 10


class Course(Monitor):
    """What happens from epoch to epoch; keeps the best parameters.

    Parameters
    ----------
    x0 : ndarray of shape (n_parameters,)
    n : int
        Number of training points.
    label : str or None
        Named where progress is shown.
    max_epochs : int
    tol : float
        Relative decrease that counts as progress.
    validation : callable, optional
        Error of held-out points at some parameters: what the best parameters are chosen by, in
        place of the objective.
    """

    def __init__(
        self,
        x0: Array,
        n: int,
        label: str | None,
        max_epochs: int,
        tol: float,
        validation: Callable[[Array], float] | None,
    ) -> None:
        super().__init__(x0)
        self._n, self._tol, self._validation = n, tol, validation
        self._progress = None if label is None else Progress(label, max_epochs)
        self.history: dict[str, list[float]] = {name: [] for name in _QUANTITIES}
        if validation is not None:
            self.history["validation_error"] = []
        self._mark, self._since = math.inf, 0
        self._begin()

    def _begin(self) -> None:
        self._surrogate, self._votes, self._infeasible = 0.0, 0.0, 0

    def add(self, surrogate: float, votes: float, infeasible: int) -> None:
        """Count a batch: its loss, what the votes of its neighbours cost, its infeasible points."""
        self._surrogate += surrogate
        self._votes += votes
        self._infeasible += infeasible

    def __call__(self, value: float, x: Array) -> bool:
        if not math.isfinite(value):
            raise FloatingPointError
        found = (value, self._surrogate, self._votes / self._n, self._infeasible)
        for name, number in zip(_QUANTITIES, found, strict=True):
            self.history[name].append(float(number))
        self._begin()
        self.curve.append(float(value))
        judged = value
        if self._validation is not None:
            judged = self._validation(x)
            self.history["validation_error"].append(judged)
        if judged < self.best_value:
            self.best_x, self.best_value = x.copy(), float(judged)
        if judged < self._mark - self._tol * abs(self._mark if self._mark < math.inf else 0.0):
            self._mark, self._since = judged, 0
        else:
            self._since += 1
        if self._progress is not None:
            self._progress(len(self.curve), value)
        self.stopped = self._since >= _PATIENCE
        return self.stopped

    def close(self) -> None:
        """Leave the terminal in order."""
        if self._progress is not None:
            self._progress.close()


def check_vote_parameters(estimator: Any) -> None:
    """Check what the learners share."""
    check_count("n_neighbors", estimator.n_neighbors)
    check_count("max_epochs", estimator.max_epochs)
    if estimator.batch_size is not None:
        check_count("batch_size", estimator.batch_size)
    check_range("C", estimator.C, positive=True)
    check_range("learning_rate", estimator.learning_rate, high=1e6, positive=True)
    check_range("tol", estimator.tol)
    check_range("validation_fraction", estimator.validation_fraction, high=1, positive=True)
    check_method(estimator.ties, estimator.inference, "inference")
    if estimator.regularizer is not None and estimator.regularizer not in REGULARIZERS:
        raise ValueError(
            f"regularizer must be None or one of {tuple(REGULARIZERS)}, got "
            f"{estimator.regularizer!r}."
        )


def vote_loss(estimator: Any, n_classes: int) -> Gerrymander:
    """Make the loss of a learner whose labels are codes."""
    matrix = estimator.loss_matrix
    if matrix is None and estimator.ties == "label":
        matrix = 1.0 - np.eye(n_classes)  # so that codes keep their order in every batch
    elif matrix is not None:
        matrix = check_loss_matrix(matrix, n_classes)
    return Gerrymander(estimator.n_neighbors, matrix, estimator.ties, estimator.inference)


def hold_out(
    estimator: Any, labels: NDArray[np.int64], rng: np.random.RandomState
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Return the rows to train on and those to validate on, if early stopping needs any."""
    rows = np.arange(len(labels))
    if not estimator.early_stopping:
        return rows, None
    held_out = max(1, round(estimator.validation_fraction * len(labels)))
    if len(labels) - held_out < 2:
        raise ValueError(
            f"validation_fraction={estimator.validation_fraction} of {len(labels)} points leaves "
            "fewer than 2 to train on: lower it, or set early_stopping=False."
        )
    counts = np.bincount(labels)
    alike = labels if counts[counts > 0].min() >= 2 and (counts > 0).sum() <= held_out else None
    train, test = train_test_split(rows, test_size=held_out, stratify=alike, random_state=rng)
    return np.sort(train), np.sort(test)


def unit_scale(
    queries: Array, database: Array, exclude: NDArray[np.int64] | None, k: int, largest: float
) -> float:
    """Return the factor that brings the mean sum of k squared distances to the largest loss."""
    some = np.linspace(0, len(queries) - 1, min(len(queries), 1000)).astype(int)
    left_out = None if exclude is None else exclude[some]
    found = kneighbors(queries[some], database, k, exclude=left_out, squared=True)[0]
    mean = float(found.sum(axis=1, dtype=np.float64).mean())
    return math.sqrt((largest or 1.0) / mean) if mean > 0 else 1.0


def vote(
    neighbors: NDArray[np.int64], labels: NDArray[np.int64], n_classes: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Count votes; ties go to the class of the nearest neighbour in it.

    Returns
    -------
    winners : ndarray of int64 of shape (n,)
    shares : ndarray of shape (n, n_classes)
    """
    votes = labels[neighbors]
    n, k = votes.shape
    counts = np.zeros((n, n_classes))
    np.add.at(counts, (np.arange(n)[:, None], votes), 1.0)
    own = np.take_along_axis(counts, votes, axis=1)
    winners = votes[np.arange(n), own.argmax(axis=1)]
    return winners, counts / k
