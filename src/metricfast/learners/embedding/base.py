"""The training of any embedding by any loss."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if

from metricfast._core.arguments import check_random_state
from metricfast._core.progress import Progress
from metricfast._labels.binding import is_precomputed
from metricfast._labels.distance import LabelDistance
from metricfast.embeddings import Embedding
from metricfast.learners.embedding.continuation import check_continuation, earlier_fit
from metricfast.learners.embedding.input import EmbeddingInput, share_label_distance
from metricfast.learners.embedding.metric import embed
from metricfast.learners.embedding.proxies import initial_proxies
from metricfast.learners.embedding.task import Task
from metricfast.learners.linear.base import check_callbacks
from metricfast.training.minibatch import (
    DivergedError,
    EpochState,
    Stepper,
    Training,
    flat,
    parts,
)
from metricfast.training.objective import EmbeddedLoss, is_learnable
from metricfast.training.own_parts import checked_batches, initial_parameters, prepared
from metricfast.training.solvers import Monitor, minimize_smooth

__all__ = ["BaseEmbeddingLearner"]

Array = NDArray[Any]
_FITTED = (
    *("embedding_", "parameters_", "proxies_", "classes_", "mean_", "n_components_", "n_iter_"),
    *("loss_curve_", "validation_scores_", "threshold_", "_training", "infeasible_share_"),
)
# Below this, decreases of a loss of float32 points are rounding.
_SINGLE_TOL = 1e-6

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _available_for_batches(method: _Method) -> _Method:
    available: _Method = available_if(lambda learner: learner.solver != "lbfgs")(method)
    return available


class BaseEmbeddingLearner(EmbeddingInput):
    """Base of learners of any embedding.

    A learner defines `_parts`, and has parameters of those names below that it lets one choose.
    """

    def fit(self, X: Any, y: Any, *, validate: bool = False) -> BaseEmbeddingLearner:
        """Learn the embedding.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or (n_samples,) with a \
                preprocessor
            Points. float32 is computed with as it is, everything else as float64.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), or sequence of objects
            Class labels, of at least two classes; or labels, not all equal, where the loss is one
            of continuous labels: numbers, or whatever the label distance takes.
        validate : bool, default=False
            Also fit a clone to four fifths of the points, `score` it on the others as queries among
            those, as well as the points as they were given, keep the numbers in `validation_`, and
            warn if it is worse.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used, or `checkpoint` is of
            another training.
        ImportError, FileNotFoundError
            If `checkpoint` is given without the package safetensors, or in a folder that there is
            not; before training.

        Warns
        -----
        ConvergenceWarning
            If training diverged: the last parameters with a finite loss are kept. If the loss has
            risen more than tenfold since the first step, without early stopping. With "lbfgs": if
            it ended before convergence.
        UserWarning
            With `validate`, if the embedding is worse than none.
        """
        self._train(X, y)
        if validate:
            self._validate_fit(X, y)
        return self

    def _train(self, X: Any, y: Any) -> None:
        loss, embedding, sampler = self._check_parameters()
        callbacks = check_callbacks(self.callbacks, "an EpochState")
        kept = earlier_fit(self) if self.warm_start else None
        for name in _FITTED:
            self.__dict__.pop(name, None)
        said, given = self._said_label_distance, y
        X, y, distance = self._check_data(X, y, loss)
        what = given if is_precomputed(said) else y
        checkpoint = self._checkpoint(X, what, loss, embedding, sampler)
        share_label_distance(distance, loss, sampler, said)
        found = None if checkpoint is None else checkpoint.read(self.max_epochs)
        if found is None:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        else:
            seed = found[0]
        rng = np.random.RandomState(seed)
        if kept is not None and len(kept[1]) == X.shape[1]:
            self.mean_ = kept[1]
        else:
            self.mean_ = np.zeros(X.shape[1], X.dtype) if issparse(X) else _mean(X)
        X = X if issparse(X) else X - self.mean_.astype(X.dtype, copy=False)
        X, y, held_out = self._hold_out(X, y, rng)
        start = self._initialize(X, y, loss, embedding, rng, kept and kept[0])
        shapes = [array.shape for array in start]
        task = self._task(X, y, loss, embedding, shapes, callbacks, distance)
        if self.solver == "lbfgs":
            self._full_batch(task, flat(start), held_out)
            return
        epochs = prepared(
            sampler, y, self.batch_size, self.n_jobs, random_state=rng.randint(2**31 - 1)
        )
        stepper = self._stepper(task)
        training = stepper.start(flat(start), rng) if found is None else found[1]
        with self._keeping(training, task) as report:
            while training.reaches < self.max_epochs and not self._is_done(training):
                stepper.epoch(training, checked_batches(epochs, training.rng, len(y)))
                stop = self._after_epoch(training, task, held_out, report)
                training.stopped = self.max_epochs if stop else 0
                if checkpoint is not None:
                    checkpoint.write(seed, training)
            if training.best is None:
                training.warn_of_rise()

    @_available_for_batches
    def partial_fit(
        self, X: Any, y: ArrayLike, classes: ArrayLike | None = None
    ) -> BaseEmbeddingLearner:
        """Train for one epoch on some points, from where the last call, or `fit`, has ended.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The mean of those of the first call is the one that is subtracted from all.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), or sequence of objects
        classes : array-like of shape (n_classes,), optional
            All classes there will be, for the first call of a loss with a table of classes, such as
            `ProxyNCA`; by default those of `y`. Other losses take new ones in any call.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As of `fit`; for early stopping and "cosine", which need all points or the number of
            epochs; for classes that a table does not have; and for another solver, embedding or
            kind of loss or labels than before. With "lbfgs" there is no `partial_fit`.

        Warns
        -----
        UserWarning
            If all continuous labels of a later call are the same: nothing is learned from it.
        """
        loss, embedding, sampler = self._check_parameters()
        callbacks = check_callbacks(self.callbacks, "an EpochState")
        if self.early_stopping or self.schedule == "cosine":
            raise ValueError(
                "partial_fit needs early_stopping=False, and schedule 'constant' or 'inverse'."
            )
        begun = hasattr(self, "parameters_")
        if begun:
            check_continuation(self, loss, embedding)
        X, y, distance = self._check_data(X, y, loss, classes, reset=not begun)
        if begun and distance is not None and distance.all_zero(y):
            warnings.warn(
                "All labels of this call are the same, which tells nothing of distances: nothing "
                "is learned from it. Give more points at a time.",
                UserWarning,
                stacklevel=2,
            )
            return self
        if not begun:
            self.mean_ = np.zeros(X.shape[1], X.dtype) if issparse(X) else _mean(X)
        X = X if issparse(X) else X - self.mean_.astype(X.dtype, copy=False)
        share_label_distance(distance, loss, sampler, self._said_label_distance)
        if begun:
            start = [*self.parameters_, *([self.proxies_] if is_learnable(loss) else [])]
            start = [array.astype(X.dtype, copy=False) for array in start]
            embedding = self.embedding_
        else:
            rng = np.random.RandomState(check_random_state(self.random_state).randint(2**31 - 1))
            start = self._initialize(X, y, loss, embedding, rng)
        shapes = [array.shape for array in start]
        task = self._task(X, y, loss, embedding, shapes, callbacks, distance)
        stepper = self._stepper(task)
        training: Training | None = getattr(self, "_training", None)
        if training is None or training.vector.dtype != X.dtype:
            seed = check_random_state(self.random_state).randint(2**31 - 1)
            training = stepper.start(flat(start), np.random.RandomState(seed))
        epochs = prepared(sampler, y, self.batch_size, self.n_jobs)
        with self._keeping(training, task) as report:
            stepper.epoch(training, checked_batches(epochs, training.rng, len(y)))
            self._after_epoch(training, task, None, report)
        return self

    def _initialize(
        self,
        X: Any,
        y: Array,
        loss: Any,
        embedding: Embedding,
        rng: np.random.RandomState,
        kept: list[Array] | None = None,
    ) -> list[Array]:
        """Return what to start from, and set it as what is fitted so far."""
        start = initial_parameters(embedding, X, y if self._has_classes else None, rng)
        embedding.decays(self.weight_decay)
        Z = embed(embedding, start, X, n_jobs=self.n_jobs)
        if is_learnable(loss):
            unit = bool(getattr(embedding, "normalize", False))
            start.append(initial_proxies(Z, y, len(self.classes_), rng if unit else None))
        if kept is not None:
            if [array.shape for array in kept] != [array.shape for array in start]:
                raise ValueError(
                    "warm_start needs an embedding of the same shapes, and as many classes, as in "
                    "the fit before: set warm_start=False."
                )
            start = [array.astype(X.dtype) for array in kept]
        self.embedding_, self.n_components_ = embedding, Z.shape[1]
        self._set(start, embedding)
        return start

    def _set(self, arrays: list[Array], embedding: Embedding) -> None:
        own = len(embedding.decays(0.0))
        self.parameters_ = [array.copy() for array in arrays[:own]]
        if len(arrays) > own:
            self.proxies_ = arrays[own].copy()

    def _task(
        self,
        X: Any,
        y: Array,
        loss: Any,
        embedding: Embedding,
        shapes: list[tuple[int, ...]],
        callbacks: tuple[Any, ...],
        distance: LabelDistance | None,
    ) -> Task:
        n_classes = len(self.classes_) if is_learnable(loss) else None
        objective = EmbeddedLoss(embedding, loss, n_classes, self.n_jobs)
        decays = embedding.decays(self.weight_decay)
        decays += [0.0] * (len(shapes) - len(decays))
        return Task(X, y, objective, shapes, decays, callbacks, distance)

    def _stepper(self, task: Task) -> Stepper:
        def rate(epoch: int, step: int) -> float:
            first = self.learning_rate or (1e-3 if self.solver == "adam" else 1e-2)
            if self.schedule == "inverse":
                return first / (1 + 1e-4 * step)
            if self.schedule == "cosine":
                return first * (1 + math.cos(math.pi * epoch / self.max_epochs)) / 2
            return first

        own = len(self.parameters_)
        factors = [1.0] * own + [self.proxy_rate] * (len(task.shapes) - own)
        return Stepper(
            partial(task.of_batch, database=self.database), task.shapes, task.decays, factors,
            solver=self.solver, momentum=self.momentum, rate=rate,
        )  # fmt: skip

    @contextmanager
    def _keeping(self, training: Training, task: Task) -> Iterator[Progress | None]:
        """Set the fitted attributes in the end, even when training is interrupted or diverges."""
        progress = Progress(type(self).__name__, self.max_epochs, "loss") if self.verbose else None
        try:
            yield progress
            task.loss.report()
        except DivergedError:
            if training.step == 0:
                raise ValueError(
                    "The loss is not finite at the start: rescale X, or choose another `init`."
                ) from None
            warnings.warn(
                f"Training diverged in epoch {len(training.curve) + 1}, step {training.step}: the "
                "last parameters with a finite loss are kept. Lower learning_rate, and bring the "
                "features to a spread of about 1.",
                ConvergenceWarning,
                stacklevel=3,
            )
        finally:
            if progress is not None:
                progress.close()
            self._training = training
            self._record(training, training.kept, task)

    def _record(self, training: Training, vector: Array, task: Task) -> None:
        """Set the fitted attributes, with the parameters in `vector`."""
        self._set(parts(vector, task.shapes), self.embedding_)
        self.__dict__.update(task.loss.fitted)
        self.loss_curve_ = list(training.curve)
        self.n_iter_ = len(training.curve)
        if training.scores:
            self.validation_scores_ = list(training.scores)

    def _is_done(self, training: Training) -> bool:
        return self.early_stopping and training.has_stalled(self.n_iter_no_change)

    def _after_epoch(
        self,
        training: Training,
        task: Task,
        held_out: tuple[Any, Array] | None,
        progress: Progress | None,
    ) -> bool:
        """Score, report, and tell whether a callback wants to stop."""
        arrays = parts(training.vector, task.shapes)[: len(self.parameters_)]
        if held_out is not None:
            queries = embed(self.embedding_, arrays, held_out[0], n_jobs=self.n_jobs)
            database = embed(self.embedding_, arrays, task.X, "database", self.n_jobs)
            score = self._retrieval_score(
                queries, held_out[1], database, task.y, label_distance=task.label_distance
            )
            training.record(score)
        epoch, value = len(training.curve), training.curve[-1]
        if progress is not None:
            progress(epoch, value)
        state = EpochState(
            epoch, value, training.scores[-1] if training.scores else None,
            [array.copy() for array in arrays], self,
        )  # fmt: skip
        if task.callbacks:
            self._record(training, training.vector, task)
        answers = [callback(state) for callback in task.callbacks]
        return any(answers)

    def _full_batch(self, task: Task, start: Array, held_out: tuple[Any, Array] | None) -> None:
        """Minimise the loss of all points by L-BFGS."""
        dtype = start.dtype
        training = Training(start, [], np.random.RandomState(0))

        def objective(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            found = task.of_all(x, dtype)
            if math.isfinite(found[0]):
                training.step += 1
            elif training.step == 0:
                raise DivergedError
            return found  # from an infinite value the line search comes back

        def observer(iteration: int, value: float, x: NDArray[np.float64]) -> bool:
            training.vector = x.astype(dtype)
            training.curve.append(value)
            stop = self._after_epoch(training, task, held_out, progress)
            return stop or self._is_done(training)

        with self._keeping(training, task) as progress:
            x0 = start.astype(np.float64)
            minimize_smooth(
                objective, x0, Monitor(x0, observer), max_iter=self.max_epochs,
                tol=_SINGLE_TOL if dtype == np.float32 else None, remedy="raise max_epochs",
            )  # fmt: skip


def _mean(X: Array) -> Array:
    """Return the mean, relative to a point, so that rounding is not taken for a spread."""
    return np.asarray(X[0] + (X - X[0]).mean(axis=0, dtype=np.float64), X.dtype)
