"""Any embedding, learned by any loss from the batches of any sampler."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from metricfast._core.parameters import NonNegativeFloat
from metricfast._labels.binding import SaidDistance
from metricfast.embeddings import Embedding, Linear
from metricfast.learners.embedding.base import BaseEmbeddingLearner
from metricfast.samplers import ClassBalanced, Sampler, Uniform
from metricfast.training.problem import is_continuous


@dataclass(eq=False, repr=False)
class EmbeddingLearner(BaseEmbeddingLearner):
    """Any embedding, learned by any loss from the batches of any sampler.

    Parameters
    ----------
    loss : loss
        One of `metricfast.losses`, or a function ``loss(Z, y)`` of your own that returns value and
        gradient, with an attribute ``labels`` that is "class" or "continuous". With other points
        as the database, it is called like a loss of `metricfast.losses`.
    embedding : Embedding, optional
        One of `metricfast.embeddings`, or of a class of your own. By default `Linear()`. If its
        `normalize` is None, embedded points have length 1 for losses `of_unit_length`.
    sampler : Sampler, optional
        One of `metricfast.samplers`, or of a class of your own; by default `ClassBalanced()`
        for losses of classes, else `Uniform()`. "lbfgs" ignores it.
    solver : {"adam", "adamw", "sgd", "lbfgs"} or solver, default="adam"
        "adam", "adamw" (the same with decoupled weight decay) and "sgd" (gradient descent with
        momentum) take a step for each batch. "lbfgs" looks at all points in every iteration, for
        losses that are smooth and data that are not many. `metricfast.solvers` has the solvers with
        all of their parameters, such as ``AdamW(schedule="cosine", weight_decay=1e-4)``.
    learning_rate : float, optional
        Learning rate, if `solver` is a name. By default 0.001, and 0.01 for "sgd".
    batch_size : int, optional
        Largest number of points in a batch, if `solver` is a name. By default the sampler's. No
        batch is larger than the data.
    max_epochs : int, optional
        Passes over the points, or iterations of "lbfgs", if `solver` is a name. By default 50; a
        judge of classes may choose up to 200 if these are at most 600 batches of `batch_size`, by
        default of 128.
    judge : "auto", None or Judge, default="auto"
        Chooses, for losses of classes, the start and the number of epochs by held-out points, see
        :class:`~metricfast.selection.Judge`. Points that are read in chunks, or have tags or other
        labels, are trained on to the end. With None, all points are.
    early_stopping : bool or HeldOut, default=False
        True, or a `metricfast.stopping.HeldOut`: hold a tenth of the points out, `score` them
        against the others after every epoch, stop after ten epochs without a better score, and keep
        the parameters with the best one. Then there is no judge.
    database : {"batch", "all"}, default="batch"
        The points that anchors of a batch are compared with: the other points of the batch, or all
        training points (all of `X_database`, if `fit` has one), which are embedded anew in every
        step. Points beyond memory allow "batch" alone.
    candidate_fraction : float, optional
        With ``database="all"``: compare the anchors of a batch with the rest of it and this share
        of all other training points, drawn anew for each batch. The others are not embedded. By
        default all.
    proxy_lr_factor : float, default=1.0
        Factor of the learning rate for proxies, if the loss has any.
    label_distance : str, tuple or callable, optional
        Distance of continuous labels, as for `metricfast.losses.LogRatio`. Give it once, here or to
        the loss or to the sampler. It is used by the loss, the sampler, `score`, early stopping and
        `metricfast.metrics.cross_validate_retrieval`. By default each loss has its own, and scores
        use Euclidean distances ("cityblock" with `RankNContrast`). With "precomputed", `y` is the
        matrix of all distances, (n_samples, n_samples), which may be a memory map.
    warm_start : bool, default=False
        Start from what an earlier `fit` has learned.
    callbacks : iterable of callables, optional
        Each is called with a `metricfast.callbacks.SolverState` after every epoch. One that returns
        True ends the training. `metricfast.callbacks.Checkpoint` writes the training to a file, and
        continues from it.
    preprocessor : array-like or callable, optional
        Returns the points where `X` holds indicators of points.
    verbose : bool or int, default=False
        Show progress on standard error.
    random_state : int, RandomState or None, default=None
        For the initial parameters, the held-out points and the batches.
    n_jobs : int, optional
        Number of threads; results do not depend on it. By default all that the process may use.

    Attributes
    ----------
    embedding_ : Embedding
        The embedding, whose parameters are in
    parameters_ : list of ndarray
        In float32 for float32 points, else in float64.
    proxies_ : ndarray of shape (n_classes, n_components)
        The learned table, where the loss has one.
    classes_ : ndarray of shape (n_classes,)
        Only for losses of classes; of tags, the numbers of their columns.
    mean_ : ndarray of shape (n_features,)
        Subtracted from points; zero after sparse ones.
    mean_query_ : ndarray of shape (n_features,)
        Only after a `fit` with `X_database`: subtracted from queries. `mean_` is then the mean of
        the database.
    feature_names_database_in_ : ndarray of shape (n_features_database,)
        Names of the features of the database, if it was a frame and the embedding is `Asymmetric`.
    n_components_ : int
        Dimension of the embedding.
    loss_curve_ : list of float
        Mean loss of the batches of each epoch; with "lbfgs" the loss of all points, and its
        penalty, after each iteration.
    infeasible_share_ : float
        With the loss `Gerrymander` alone: of all queries of all batches, the share for which no set
        of neighbours has a right vote. They are left out of the loss, with a warning.
    judgement_ : Judgement
        What the judge tried and chose, see :class:`~metricfast.selection.Judgement`.
    validation_scores_ : list of float
        The score of the held-out points after each epoch, with `HeldOut`.
    validation_ : Judgement
        Only after ``fit(..., validate=True)``, as in every learner. Labels that are not classes are
        measured by the mean label distance of the 5 nearest points.
    n_iter_ : int
        Number of epochs, or iterations, done.
    n_features_in_, feature_names_in_, preprocessor_
        As in every learner.

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

    loss: Any
    embedding: Embedding | None = None
    sampler: Sampler | None = None
    _: KW_ONLY
    batch_size: int | None = None
    database: str = "batch"
    candidate_fraction: float | None = None
    proxy_lr_factor: NonNegativeFloat = 1.0
    label_distance: SaidDistance | None = None

    def _parts(self) -> tuple[Any, Embedding, Sampler]:
        default = Uniform() if is_continuous(self.loss) else ClassBalanced()
        return (
            self.loss,
            Linear() if self.embedding is None else self.embedding,
            default if self.sampler is None else self.sampler,
        )
