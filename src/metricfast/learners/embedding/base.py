"""The training of any embedding by any loss."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.arguments import check_random_state
from metricfast._core.sources import Scaled, Source
from metricfast._core.warn import warn_user
from metricfast._labels.binding import is_precomputed
from metricfast._labels.distance import LabelDistance
from metricfast.embeddings import Embedding, Linear
from metricfast.learners.base.told import tells_callbacks
from metricfast.learners.base.trained import Callback, with_batches
from metricfast.learners.base.validation import naming_held_out
from metricfast.learners.embedding.input import share_label_distance
from metricfast.learners.embedding.metric import embed
from metricfast.learners.embedding.training import (
    EmbeddingTraining,
    check_continuation,
    earlier_fit,
    initial_proxies,
)
from metricfast.training.chunks import Chunked, mean_and_exponent, rows_of
from metricfast.training.coordinates import flat, parts
from metricfast.training.lbfgs import minimize_smooth
from metricfast.training.monitor import Monitor
from metricfast.training.objective import Objective, is_learnable
from metricfast.training.own_parts import initial_parameters
from metricfast.training.steps import RISE, run_epoch

__all__ = ["BaseEmbeddingLearner"]

Array = NDArray[Any]
# Below this, decreases of a loss of float32 points are rounding.
_SINGLE_TOL = 1e-6


class BaseEmbeddingLearner(EmbeddingTraining):
    """Base of learners of any embedding.

    A learner defines `_parts`, and has parameters of those names below that it lets one choose.
    """

    @tells_callbacks
    def fit(self, X: Any, y: Any, *, validate: bool = False) -> BaseEmbeddingLearner:
        """Learn the embedding.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or (n_samples,) with a \
                preprocessor
            Points. float32 is computed with as it is, everything else as float64. Of a source that
            does not fit into memory, such as a memory map, mini-batches hold a part at a time.
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
        self._train(X, y, validate)
        if validate:
            self._validate_fit(X, y)
        return self

    def _train(self, X: Any, y: Any, validate: bool = False) -> None:
        loss, embedding, sampler, callbacks = self._check_parameters()
        kept = earlier_fit(self) if self.warm_start else None
        self._forget()
        self.__dict__.pop("_course", None)
        said, given = self._said_label_distance, y
        X, y, distance = self._check_data(X, y, loss, validate=validate)
        what = given if is_precomputed(said) else y
        rng, checkpoint, found = self._begin(X, what, loss, embedding, sampler)
        rng = np.random.RandomState(rng.randint(2**31 - 1))
        share_label_distance(distance, loss, sampler, said)
        known = kept is not None and len(kept[1]) == X.shape[1]
        if kept is not None and known:
            self.mean_ = kept[1]
        X = self._centred(X, not known)
        n, held_out = X.shape[0], None
        train, test = self._hold_out(y if self._has_classes else None, X, rng)
        if test is not None:
            held_out, X, y = (X[test], y[test]), rows_of(X, train), y[train]
        with naming_held_out(test, n):
            self._check_numbers(loss, X.shape[0])
        start = self._initialize(X, y, loss, embedding, rng, kept and kept[0])
        objective = self._objective(X, y, loss, start)
        monitor = Monitor(flat(start), rng=rng)
        if held_out is not None:
            among = self._few(X, y)
            monitor.judge(
                lambda x: -self._held_out_score(objective, *held_out, *among, x, distance),
                self.n_iter_no_change,
            )
        batches: Any = None
        if self.solver != "lbfgs":
            seed = rng.randint(2**31 - 1)
            batches = self._batches(sampler, objective, monitor, random_state=seed)
        with self._keeping(monitor, objective, callbacks, checkpoint=checkpoint, found=found):
            self._solve(objective, monitor, batches)
            if not monitor.costs and 0 < RISE * monitor.first < (monitor.curve or [0.0])[-1]:
                warn_user(
                    f"The loss has risen from {monitor.first:.3g} to {monitor.curve[-1]:.3g}: "
                    "training diverged. Lower learning_rate.",
                    ConvergenceWarning,
                )

    @with_batches
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
            As of `fit`; for early stopping, `checkpoint` and "cosine", which need all points or the
            number of epochs; for classes that a table does not have; and for another solver,
            embedding or kind of loss or labels than before. With "lbfgs" there is no `partial_fit`.

        Warns
        -----
        UserWarning
            If all continuous labels of a later call are the same: nothing is learned from it.
        """
        loss, embedding, sampler, callbacks = self._check_parameters()
        self._refuse_in_parts()
        if self.schedule == "cosine":
            raise ValueError("partial_fit needs schedule 'constant' or 'inverse'.")
        begun = hasattr(self, "parameters_")
        if begun:
            check_continuation(self, loss, embedding)
        X, y, distance = self._check_data(X, y, loss, classes, reset=not begun)
        if begun and distance is not None and distance.all_zero(y):
            warn_user(
                "All labels of this call are the same, which tells nothing of distances: nothing "
                "is learned from it. Give more points at a time."
            )
            return self
        X = self._centred(X, not begun)
        share_label_distance(distance, loss, sampler, self._said_label_distance)
        if begun:
            start = [*self.parameters_, *([self.proxies_] if is_learnable(loss) else [])]
            start = [array.astype(X.dtype, copy=False) for array in start]
        else:
            rng = np.random.RandomState(check_random_state(self.random_state).randint(2**31 - 1))
            start = self._initialize(X, y, loss, embedding, rng)
        objective = self._objective(X, y, loss, start)
        monitor: Monitor | None = getattr(self, "_course", None)
        if monitor is None or monitor.x.dtype != X.dtype:
            seed = check_random_state(self.random_state).randint(2**31 - 1)
            monitor = Monitor(flat(start), rng=np.random.RandomState(seed))
        batches = self._batches(sampler, objective, monitor)
        with self._keeping(monitor, objective, callbacks):
            steps = self._steps(objective, monitor.x, None)
            monitor(run_epoch(objective, batches(), monitor, steps), monitor.x)
        return self

    def _centred(self, X: Any, anew: bool) -> Any:
        """Return points less the mean, which is that of these where it is taken anew."""
        if anew:
            self.mean_ = np.zeros(X.shape[1], X.dtype) if issparse(X) else _mean(X)
        if isinstance(X, Source):
            return Chunked(Scaled(X, self.mean_, 0))
        return X if issparse(X) else X - self.mean_.astype(X.dtype, copy=False)

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
        all_of_them, (X, y) = (X, y), self._few(X, y)
        # Components of all points are sums; what other embeddings start from, nobody knows.
        of, labels = all_of_them if type(embedding) is Linear else (X, y)
        start = initial_parameters(embedding, of, labels if self._has_classes else None, rng)
        embedding.decays(self.weight_decay)
        self._refuse_beyond_memory(all_of_them[0], [array.shape for array in start])
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
        self._set(start)
        return start

    def _few(self, X: Any, y: Array) -> tuple[Any, Array]:
        """Return all points; where these are not in memory, as many that represent them."""
        if not isinstance(X, Chunked):
            return X, y
        rows = X.sample(y if self._has_classes else None)
        return X[rows], y[rows]

    def _set(self, arrays: list[Array]) -> None:
        own = len(self.embedding_.decays(0.0))
        self.parameters_ = [array.copy() for array in arrays[:own]]
        if len(arrays) > own:
            self.proxies_ = arrays[own].copy()

    @contextmanager
    def _keeping(
        self, monitor: Monitor, objective: Objective, callbacks: tuple[Callback, ...], **how: Any
    ) -> Iterator[None]:
        """Set the fitted attributes in the end, even when training is interrupted or diverges."""
        own = len(self.embedding_.decays(0.0))

        def arrays(x: Array) -> list[Array]:
            return parts(x.astype(objective.X.dtype), objective.coordinates.shapes)

        def keep(x: Array, last: bool) -> None:
            self._set(arrays(x))
            self._keep_course(monitor, last)
            if objective.tally is not None:
                self.infeasible_share_ = self._infeasible / max(self._seen, 1)

        how["parameters"] = lambda x: arrays(x)[:own]
        try:
            with self._watching(monitor, keep, callbacks=callbacks, quantity="loss", **how):
                yield
                if objective.tally is not None and self._infeasible:
                    warn_user(
                        f"No set of n_neighbors={objective.loss.loss.n_neighbors} neighbours in a "
                        f"batch is right for {self._infeasible / self._seen:.2%} of the queries, "
                        "which are left out of the loss: raise batch_size, choose a sampler of "
                        "more points of a class, set database='all', or lower n_neighbors."
                    )
        finally:
            monitor.cost = None
            self._course = monitor

    def _report_divergence(self, monitor: Monitor) -> None:
        if monitor.step == 0 and not monitor.curve:
            super()._report_divergence(monitor)
        warn_user(
            f"Training diverged in epoch {len(monitor.curve) + 1}, step {monitor.step}: the last "
            "parameters with a finite loss are kept. Lower learning_rate, and bring the features "
            "to a spread of about 1.",
            ConvergenceWarning,
        )

    def _solve_all(self, objective: Objective, monitor: Monitor) -> None:
        minimize_smooth(
            objective, monitor.x.astype(np.float64), monitor,
            max_iter=int(self.max_epochs) - len(monitor.curve),
            tol=_SINGLE_TOL if objective.X.dtype == np.float32 else None,
            remedy="raise max_epochs",
        )  # fmt: skip

    def _chosen(self, monitor: Monitor) -> Array:
        chosen: Array = monitor.best_x if monitor.costs else monitor.x
        return chosen

    def _held_out_score(
        self, objective: Objective, X: Any, y: Array, X_database: Any, y_database: Array, x: Array,
        distance: LabelDistance | None,
    ) -> float:  # fmt: skip
        arrays = parts(x.astype(objective.X.dtype), objective.coordinates.shapes)
        arrays = arrays[: len(self.embedding_.decays(0.0))]
        queries = embed(self.embedding_, arrays, X, n_jobs=self.n_jobs)
        database = embed(self.embedding_, arrays, X_database, "database", self.n_jobs)
        return self._retrieval_score(queries, y, database, y_database, label_distance=distance)


def _mean(X: Any) -> Array:
    """Return the mean, relative to a point, so that rounding is not taken for a spread."""
    if isinstance(X, Source):
        return mean_and_exponent(X)[0].astype(X.dtype)
    return np.asarray(X[0] + (X - X[0]).mean(axis=0, dtype=np.float64), X.dtype)
