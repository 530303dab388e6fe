"""Neighbourhood gerrymandering: a metric trained on the votes of nearest neighbours."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast.learners.base.points import TrainingSet
from metricfast.learners.votes.map_of_votes import MapOfVotes
from metricfast.learners.votes.stored_database import VotesOfDatabase
from metricfast.training.monitor import Monitor, SolverState
from metricfast.training.objective import Objective

__all__ = ["NeighborhoodGerrymandering"]

Array = NDArray[Any]


class NeighborhoodGerrymandering(VotesOfDatabase, MapOfVotes):
    r"""Neighbourhood gerrymandering.

    Learns a Mahalanobis distance that lowers a bound of the error of k nearest neighbours: for
    every point, the nearest set of k neighbours that votes for its class shall be nearer than any
    other set, by what the vote of that other set costs. The objective is

    .. math:: \Omega + C \sum_i s_i \left( \max_h [S(x_i, h) + \Delta(y_i, h)]
              - \max_{h: \Delta(y_i, h) = 0} S(x_i, h) \right)

    with S(x, h) minus the sum of the squared distances of the set h, :math:`\Delta` what its vote
    costs, and both maxima found exactly (`metricfast.inference`).

    Parameters
    ----------
    n_neighbors : int, default=3
        Size of the sets.
    n_components : int, optional
        Number of rows of the map, by default n_features. For ``parameterization="L"`` only.
    parameterization : {"L", "M"}, default="L"
        Learn the map L; or the matrix :math:`M = L^T L`, with eigenvalues below zero set to zero
        before every step. "M" needs ``n_components=None``, another solver than
        "lbfgs" and another regularizer than "factors", and learns more slowly at the same
        `learning_rate`: .1 suits it where .03 suits "L".
    loss_matrix : array-like of shape (n_classes, n_classes), optional
        ``loss_matrix[i, j]`` is the cost of the answer j where i is right, of the sorted classes.
        By default 1 for every wrong answer.
    ties : {"pessimistic", "optimistic", "label", "nearest"}, default="pessimistic"
        Who wins among the classes of most votes: the one that costs most, or least, the first, or
        that of the nearest of the points. Only with "pessimistic" ties is the objective a bound for
        every way of predicting.
    inference : {"exact", "greedy"}, default="exact"
        "greedy" is the heuristic of the literature, for comparison.
    C : float, default=1.0
        Weight of the loss.
    regularizer : {"frobenius2", "frobenius", "notes", "factors2", "factors", "trace"} or None, \
            default="frobenius2"
        :math:`\Omega`: the squared norm of M, its norm, or, for "factors" (not with
        ``parameterization="M"``), the norm of L. "trace" is that of M, the squared norm of L. For
        one map, "notes" and "factors2" are "frobenius2".
    init : {"auto", "pca", "lda", "identity", "random"} or array-like, default="auto"
        The map to start from, as of `metricfast.NCA`. All but an array are scaled so that the sum
        of `n_neighbors` squared distances is about the largest loss.
    solver : {"sgd", "lbfgs", "subgradient"}, default="sgd"
        "sgd" takes a step of Adam for every mini-batch of queries, against all points;
        "subgradient" takes a plain step :math:`L \leftarrow L - \eta_t g_t`, with g_t the gradient
        at the t-th batch and :math:`\eta_t = \eta_1 / t^p`; "lbfgs" looks at all points in every
        step, for data that are not many.
    batch_size : int, optional
        Queries in a batch, by default a twentieth of the points, from 32 to 1000.
    max_iter : int, default=100
        Iterations of "lbfgs".
    max_epochs : int, default=50
        Passes over the points, of "sgd" and "subgradient".
    learning_rate : float, default=0.03
        First step of these, relative to the size of the initial map. That of "subgradient" is as
        long: :math:`\eta_1` is `learning_rate` times the norm of the initial map over that of the
        first gradient. It is slower than "sgd" at the same rate, and diverges sooner: try .1.
    tol : float, default=1e-4
        These stop after `n_iter_no_change` epochs in which the objective (with early stopping, the
        validation error) has not fallen by this share; "lbfgs" where it falls by less in an
        iteration.
    early_stopping : bool or {"auto", "folds"}, default="auto"
        True: hold points out, and keep the map of their least error in place of the least
        objective. "folds": select the number of epochs or iterations as
        `metricfast.NCA` does, on five folds up to 2,000 points, beyond that on one fifth; then
        train on all points. With ``init="auto"`` the directions of `LFDA`, and features divided by
        their standard deviations, compete as starts. "auto" is "folds" where points are in memory,
        and two classes have enough of them; else False. False: train to the
        end.
    validation_fraction : float, default=0.1
        Share of the points that is held out.
    warm_start : bool, default=False
        Start from what an earlier `fit` has learned, of as many components and features.
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    verbose : bool or int, default=False
        Show progress on standard error.
    random_state : int, RandomState or None, default=None
    n_jobs : int, optional
        Number of threads; results do not depend on it.
    callbacks : iterable of callables, optional
        Each is called with a `metricfast.solvers.SolverState` after every epoch or iteration. One
        that returns True ends the training.
    power_t : float, default=0.5
        The exponent p of "subgradient": .5 suits any convex objective, 1 a strongly convex one.
    checkpoint : path-like, optional
        File that the training is written to after every epoch, and goes on from where it is there
        already. It needs the package safetensors. A training by "lbfgs" goes on without its memory
        of gradients.
    n_iter_no_change : int, default=10
        Epochs without progress that end a training, see `tol`.
    reservoir : int, optional
        Number of points, drawn from those of all calls, that `partial_fit` adds to the points of a
        call as neighbours that vote, in `predict` too. By default 4096, or what an eighth of
        `memory_limit` has room for.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The best, by the objective of all points (with early stopping, by the validation error
        first), of the maps before and after the best epoch and of the initial one.
    history_ : dict of lists of float
        For every epoch the "objective", the "surrogate" (the sum of the losses), the "vote_loss"
        (what votes of the nearest neighbours cost, per point), the "error" (the leave-one-out share
        of points whose nearest neighbours vote for another class, ties going to the class of the
        nearest), and the number of "infeasible" points, for which no set votes right: they are left
        out of the objective. All are sums over the batches of the epoch, in which the map moves.
        With early stopping, also the "validation_error".
    validation_scores_ : list of float
        With early stopping, the share of held-out points that are right after each epoch.
    loss_curve_ : list of float
        The objective after each epoch.
    objective_ : float
        That of `components_`, computed once more with all points; after an interrupt the best
        epoch's.
    n_iter_ : int
        Number of epochs.
    classes_ : ndarray of shape (n_classes,)
    database_embedding_ : ndarray of shape (n_samples, n_components)
        The points of `fit`, embedded, which vote in `predict`, and
    database_labels_ : ndarray of int64 of shape (n_samples,)
        their classes, as indices into `classes_`.
    n_features_in_, feature_names_in_, preprocessor_
        As of every learner.

    Notes
    -----
    The gradient of a query's loss by its distances is 1 on the points of the right set and -1 on
    those of the other: only a few distances of each query are moved. The zero map is a stationary
    point, and is refused as `init`.

    The regularizer measures the map, which is large where the features are small: of features a
    tenth as large, C must be ten thousand times as large. Standardize them. Data whose largest
    standard deviation of a feature is below 2^-10 or above 2^10 are trained on times a power of two
    that makes it about 1, which `components_` undo; `objective_` is that of the rescaled data.

    References
    ----------
    S. Trivedi, D. McAllester, G. Shakhnarovich, "Discriminative metric learning by neighborhood
    gerrymandering", NIPS 2014.

    Examples
    --------
    >>> from metricfast import NeighborhoodGerrymandering
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = NeighborhoodGerrymandering(n_components=2, random_state=0).fit(X[::2], y[::2])
    >>> learner.transform(X).shape
    (150, 2)
    >>> learner.score(X[1::2], y[1::2]) > 0.9
    True
    """

    _stoppings = ("folds", "auto")
    _by_folds = ("lbfgs", "sgd", "subgradient")

    def __init__(
        self,
        n_neighbors: int = 3,
        n_components: int | None = None,
        *,
        parameterization: str = "L",
        loss_matrix: ArrayLike | None = None,
        ties: str = "pessimistic",
        inference: str = "exact",
        C: float = 1.0,
        regularizer: str | None = "frobenius2",
        init: str | Array = "auto",
        solver: str = "sgd",
        batch_size: int | None = None,
        max_iter: int = 100,
        max_epochs: int = 50,
        learning_rate: float = 0.03,
        tol: float = 1e-4,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        preprocessor: Any = None,
        verbose: bool | int = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        callbacks: Iterable[Callable[[SolverState], object]] | None = None,
        power_t: float = 0.5,
        checkpoint: str | os.PathLike[str] | None = None,
        n_iter_no_change: int = 10,
        reservoir: int | None = None,
    ) -> None:
        self._take(locals())

    def _own_queries(self) -> Array:
        return self.database_embedding_

    def _end(self, X: Any, data: TrainingSet, monitor: Monitor, objective: Objective) -> None:
        self.classes_, self.database_labels_ = data.classes, data.labels
        super()._end(X, data, monitor, objective)
