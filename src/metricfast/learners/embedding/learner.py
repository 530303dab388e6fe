"""Any embedding, learned by any loss from the batches of any sampler."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from metricfast._labels.binding import SaidDistance
from metricfast.embeddings import Embedding, Linear
from metricfast.learners.embedding.base import BaseEmbeddingLearner
from metricfast.samplers import ClassBalanced, Sampler, Uniform
from metricfast.training.monitor import SolverState
from metricfast.training.objective import is_continuous

__all__ = ["EmbeddingLearner"]


class EmbeddingLearner(BaseEmbeddingLearner):
    """Any embedding, learned by any loss from the batches of any sampler.

    Parameters
    ----------
    loss : loss
        One of `metricfast.losses`, or a function ``loss(Z, y)`` of your own that returns value and
        gradient, with an attribute ``labels`` that is "class" or "continuous". Where anchors are
        compared with other points, it is called as those of `metricfast.losses` are.
    embedding : Embedding, optional
        One of `metricfast.embeddings`, or of a class of your own; by default `Linear()`.
    sampler : Sampler, optional
        One of `metricfast.samplers`, or of a class of your own; by default `ClassBalanced()`
        for losses of classes, else `Uniform()`. "lbfgs" has no use for it.
    solver : {"adam", "adamw", "sgd", "lbfgs"}, default="adam"
        "adam", "adamw" (the same with decoupled weight decay) and "sgd" (gradient descent with
        momentum) take a step for each batch. "lbfgs" looks at all points in every step, for losses
        that are smooth and data that are not many.
    learning_rate : float, optional
        By default 0.001 for "adam" and "adamw", and 0.01 for "sgd", whose steps depend on the
        reduction of the loss.
    schedule : {"constant", "inverse", "cosine"}, default="constant"
        "inverse" divides the learning rate by ``1 + step / 10000``; "cosine" lowers it from epoch
        to epoch, towards zero after `max_epochs`.
    momentum : float, default=0.9
        Of "sgd".
    weight_decay : float, default=0.0
        Times half the squared parameters, biases and proxies left out, is added to the loss. With
        "adamw" it is not: each step makes these parameters smaller, by the share `weight_decay`
        times the learning rate. An embedding may have its own.
    proxy_rate : float, default=1.0
        Times the learning rate is that of the proxies, for losses that have any.
    batch_size : int, optional
        The most points in a batch; by default the sampler's own. No batch is larger than the data.
    max_epochs : int, default=50
        Largest number of passes over the points; of iterations, with "lbfgs".
    early_stopping : bool, default=False
        Hold points out, `score` them against the others after every epoch, stop where the score no
        longer rises, and keep the parameters of the best one.
    validation_fraction : float, default=0.1
        Share of the points that is held out, of each class alike where that can be.
    n_iter_no_change : int, default=10
        So many epochs without a new best score end the training.
    database : {"batch", "all"}, default="batch"
        What the anchors of a batch are compared with: the other points of the batch, or all
        training points, which are embedded anew in every step. Points beyond memory allow "batch"
        alone.
    checkpoint : path-like, optional
        A file that is replaced after every epoch. Where it is there already, `fit` goes on from
        it, and ends with the same result as if it had never been interrupted: bit for bit, on the
        same kind of processor; "lbfgs", though, goes on without its memory of gradients. One of
        another training is refused: other data or parameters, and functions of other code (what
        they use by global names is not looked at); also one of more epochs than `max_epochs`, and
        any where `warm_start` has an earlier `fit` to start from. `max_epochs` may be raised,
        unless the schedule is "cosine". A training that a callback has ended stays ended until
        then. Needs the extra ``metricfast[io]``.
    callbacks : iterable of callables, optional
        Each is called with a `SolverState` (iteration, objective, score, parameters, estimator)
        after every epoch. One that returns True ends the training. The estimator has the
        attributes below as of that epoch.
    warm_start : bool, default=False
        Start from what an earlier `fit` has learned.
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    verbose : bool or int, default=False
        Show progress on standard error.
    random_state : int, RandomState or None, default=None
        For the start, the held-out points and the batches.
    n_jobs : int, optional
        Number of threads; results do not depend on it. By default all that the process may use.
    label_distance : str, tuple or callable, optional
        How far continuous labels are apart, as of `metricfast.losses.LogRatio`, which says what it
        may be, and what labels may then be. It is said once, here or of the loss or of the sampler,
        and is that of the loss, of the sampler, of `score` and early stopping, and of
        `metricfast.metrics.cross_validate_retrieval`. By default each loss has its own, and scores
        are of Euclidean distances ("cityblock" with `RankNContrast`). With "precomputed", `y` is
        the matrix of all distances, (n_samples, n_samples), which may be a memory map.
    candidate_fraction : float, optional
        With ``database="all"``: compare the anchors of a batch with the rest of it and this share
        of all other training points, drawn anew for each batch. Others are not embedded, so a step
        takes time in proportion. By default all.

    Attributes
    ----------
    embedding_ : Embedding
        The embedding, whose parameters are in
    parameters_ : list of ndarray
        In float32 for float32 points, else in float64.
    proxies_ : ndarray of shape (n_classes, n_components)
        The learned table, where the loss has one.
    classes_ : ndarray of shape (n_classes,)
        Only for losses of classes.
    mean_ : ndarray of shape (n_features,)
        Subtracted from points; zero after sparse ones.
    n_components_ : int
        Dimension of the embedding.
    loss_curve_ : list of float
        Mean loss of the batches of each epoch; with "lbfgs" the loss of all points, and its
        penalty, after each iteration.
    infeasible_share_ : float
        With the loss `Gerrymander` alone: of all queries of all batches, the share for which no set
        of neighbours votes right. They are left out of the loss, and warned of.
    validation_scores_ : list of float
        The score of the held-out points after each epoch, with early stopping.
    validation_ : dict
        Only after ``fit(..., validate=True)``: the score of the embedding and of the points as they
        were given, on a fifth of the points that a clone has not seen.
    n_iter_ : int
        Number of epochs, or iterations, done.
    n_features_in_, feature_names_in_, preprocessor_
        As of every learner.

    Notes
    -----
    An interrupted `fit` (Ctrl-C) raises KeyboardInterrupt and leaves what was learned so far. A
    training whose loss becomes infinite or NaN ends with ConvergenceWarning and the last parameters
    whose loss was finite. Features should have a spread of about 1; losses with a margin expect
    distances of about that size, as they are with ``normalize=True``. There is no
    ``sample_weight``: weighted anchors would not draw more batches, nor be neighbours of others
    more often. Repeat rows instead.

    Examples
    --------
    >>> from metricfast import EmbeddingLearner
    >>> from metricfast.embeddings import MLP
    >>> from metricfast.losses import NCA
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = EmbeddingLearner(NCA(reduction="mean"), MLP((16,), 2), random_state=0)
    >>> learner.fit(X, y).transform(X).shape
    (150, 2)
    """

    def __init__(
        self,
        loss: Any,
        embedding: Embedding | None = None,
        sampler: Sampler | None = None,
        *,
        solver: str = "adam",
        learning_rate: float | None = None,
        schedule: str = "constant",
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        proxy_rate: float = 1.0,
        batch_size: int | None = None,
        max_epochs: int = 50,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        database: str = "batch",
        checkpoint: str | os.PathLike[str] | None = None,
        callbacks: Iterable[Callable[[SolverState], object]] | None = None,
        warm_start: bool = False,
        preprocessor: Any = None,
        verbose: bool | int = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        label_distance: SaidDistance | None = None,
        candidate_fraction: float | None = None,
    ) -> None:
        self._take(locals())

    def _parts(self) -> tuple[Any, Embedding, Sampler]:
        default = Uniform() if is_continuous(self.loss) else ClassBalanced()
        return (
            self.loss,
            Linear() if self.embedding is None else self.embedding,
            default if self.sampler is None else self.sampler,
        )
