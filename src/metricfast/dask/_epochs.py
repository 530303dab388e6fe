"""Local epochs: train on each shard separately, then average the parameters."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from metricfast._core.progress import Progress
from metricfast._core.targets import encode_together
from metricfast._core.types import Integers
from metricfast.dask._rows import AlignedRows
from metricfast.dask._workers import N_PARTS, Shared, threads_here, total
from metricfast.learners.embedding.base import BaseEmbeddingLearner
from metricfast.learners.trained import refuse_partial
from metricfast.training.callbacks import as_callbacks
from metricfast.training.history import SolverState

__all__ = ["fit_by_epochs"]

# Fitted attributes, and attributes of the history, that are averaged.
_LEARNED = ("components_", "bias_", "parameters_", "proxies_")
_HISTORY = ("x", "moments")


def fit_by_epochs(learner: Any, rows: AlignedRows, n_parts: int | None) -> Any:
    """Train the learner on `n_parts` shards, which stay on their workers, and return it.

    Row i belongs to shard i modulo `n_parts`. The first epoch uses only the first shard and finds
    the start. In each later epoch all shards train from the same parameters; the results are
    averaged, weighted by the number of rows.
    """
    workers, starts = rows.workers, rows.starts()
    n_shards = max(1, min(n_parts or N_PARTS, workers.computed([starts])[0][-1] // 2))
    shards = workers.client.compute(rows.dealt(n_shards, _shard_of_rows, starts, n_shards))
    sizes, labels = zip(*workers.run(_described, shards), strict=True)
    classes = encode_together(list(labels), "y")[0] if learner._has_classes else None
    # Progress and callbacks receive the averages, in this process.
    silent: dict[str, Any] = {"callbacks": None, "verbose": False}
    given = {name: getattr(learner, name) for name in silent}
    callbacks = as_callbacks(learner.callbacks)
    refuse_partial(None, None, callbacks)
    model, n_epochs = _with(learner, silent), learner._solver().n_iter
    progress = Progress(type(learner).__name__, n_epochs, "objective") if learner.verbose else None
    for epoch in range(n_epochs):
        some = shards if epoch else shards[:1]
        try:
            found = workers.run(_epoch, some, Shared(model), classes=classes)
        except ValueError as error:
            raise ValueError(
                f"A shard of {min(sizes)} to {max(sizes)} points, of which there are {n_shards}, "
                f"cannot be learned from. If they are too few, set n_parts to fewer. {error}"
            ) from error
        model = _average(found, sizes) if epoch else found[0]
        objective = model.loss_curve_[-1]
        if progress is not None:
            progress(epoch + 1, objective)
        arrays = getattr(model, "parameters_", None) or [model.components_]
        copies = [np.array(array) for array in arrays]
        state = SolverState(epoch + 1, objective, copies, _with(model, given))
        answers = [callback(state) for callback in callbacks]
        if any(answers):
            break
    if progress is not None:
        progress.close()
    return _with(model, given)


def _with(learner: Any, parameters: dict[str, Any]) -> Any:
    """Return a copy with the given attributes, which need not be parameters of the constructor."""
    found = copy.copy(learner)
    vars(found).update(parameters)
    return found


def _shard_of_rows(i: int, block: tuple[Any, ...], starts: list[int], n_shards: int) -> Integers:
    return np.arange(starts[i], starts[i + 1]) % n_shards


def _described(shard: tuple[Any, ...], threads: int) -> tuple[int, Any]:
    X, y, _ = shard
    return X.shape[0], np.unique(np.asarray(y))


def _epoch(shard: tuple[Any, ...], model: Any, classes: Any, threads: int) -> Any:
    """Train for one epoch; runs as a task."""
    X, y, weight = shard
    learner = copy.deepcopy(model)
    before, learner.n_jobs = learner.n_jobs, threads_here(threads)
    how = {} if weight is None else {"sample_weight": weight}
    learner.partial_fit(X, y, classes, **how)
    learner.n_jobs = before
    return learner


def _average(found: list[Any], sizes: tuple[int, ...]) -> Any:
    """Return the first learner with the averaged parameters of all."""
    model, shares = found[0], np.asarray(sizes) / sum(sizes)

    def average(name: str, of_learner: Any = lambda learner: learner) -> None:
        values = [getattr(of_learner(each), name) for each in found]
        setattr(of_learner(model), name, total(values, shares))

    for name in _LEARNED:
        if hasattr(model, name):
            average(name)
    for name in _HISTORY:
        average(name, lambda learner: learner._training[0])
    # The objective of an epoch is a sum over batches for linear maps, and a mean for embeddings.
    weights = shares if isinstance(model, BaseEmbeddingLearner) else None
    model.loss_curve_[-1] = total([each.loss_curve_[-1] for each in found], weights)
    if hasattr(model, "objective_"):
        model.objective_ = model.loss_curve_[-1]
    return model
