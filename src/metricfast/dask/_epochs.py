"""Local epochs: train on each shard separately, then average the parameters."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from dask import delayed

from metricfast._core.progress import Progress
from metricfast._core.targets import encode_together
from metricfast.dask._rows import joined, row_blocks, starts_of
from metricfast.dask._workers import Shared, Workers, threads_here
from metricfast.learners.embedding.base import BaseEmbeddingLearner
from metricfast.learners.trained import refuse_partial
from metricfast.training.callbacks import as_callbacks
from metricfast.training.history import SolverState

__all__ = ["fit_by_epochs"]

# Fitted attributes that are averaged.
_LEARNED = ("components_", "bias_", "parameters_", "proxies_")


def fit_by_epochs(
    learner: Any,
    workers: Workers,
    n_shards: int,
    X: Any,
    y: Any,
    weight: Any,
) -> Any:
    """Return the learner, trained on `n_shards` shards that stay where they are.

    Row i is of shard i modulo their number. The first epoch is of the first shard alone, which
    finds where to start; then all train for an epoch from the same parameters, and what they end
    with is averaged by the number of their rows.
    """
    blocks = row_blocks(X, y=y, sample_weight=weight)
    starts = starts_of([block[0] for block in blocks])
    n_rows = workers.computed([starts])[0][-1]
    n_shards = max(1, min(n_shards, n_rows // 2))
    dealt = [delayed(_dealt)(block, i, starts, n_shards) for i, block in enumerate(blocks)]
    shards = workers.client.compute(
        [delayed(_shard)([pieces[s] for pieces in dealt]) for s in range(n_shards)]
    )
    described = workers.run(_described, shards)
    classes = None
    if learner._has_classes:
        classes = encode_together([labels for _, labels in described], "y")[0]
    # Progress and callbacks see averages, here.
    silent: dict[str, Any] = {"callbacks": None, "verbose": False}
    said = {name: getattr(learner, name) for name in silent}
    callbacks = as_callbacks(learner.callbacks)
    refuse_partial(None, callbacks)
    model = _with(learner, silent)
    sizes = [size for size, _ in described]
    n_epochs = learner._solver().n_iter
    progress = None
    if learner.verbose:
        progress = Progress(type(learner).__name__, n_epochs, "objective")
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
        if progress is not None:
            progress(epoch + 1, model.loss_curve_[-1])
        arrays = getattr(model, "parameters_", None) or [model.components_]
        state = SolverState(
            epoch + 1, model.loss_curve_[-1], [np.array(array) for array in arrays],
            _with(model, said),
        )  # fmt: skip
        answers = [callback(state) for callback in callbacks]
        if any(answers):
            break
    if progress is not None:
        progress.close()
    return _with(model, said)


def _with(learner: Any, parameters: dict[str, Any]) -> Any:
    """Return a copy with other parameters, be they ones of its own or not."""
    found = copy.copy(learner)
    vars(found).update(parameters)
    return found


def _dealt(block: tuple[Any, ...], i: int, starts: list[int], n_shards: int) -> list[Any]:
    """Deal the rows of a block out."""
    n = starts[i + 1] - starts[i]
    dealt = []
    for shard in range(n_shards):
        rows = np.arange((shard - starts[i]) % n_shards, n, n_shards)
        dealt.append(tuple(None if part is None else _taken(part, rows) for part in block))
    return dealt


def _taken(part: Any, rows: Any) -> Any:
    return part.iloc[rows] if hasattr(part, "iloc") else part[rows]


def _shard(pieces: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    columns = zip(*pieces, strict=True)
    return tuple(None if column[0] is None else joined(column) for column in columns)


def _described(shard: tuple[Any, ...], threads: int) -> tuple[int, Any]:
    X, y, _ = shard
    return X.shape[0], np.unique(np.asarray(y))


def _epoch(shard: tuple[Any, ...], model: Any, classes: Any, threads: int) -> Any:
    """Train for one epoch: a task."""
    X, y, weight = shard
    learner = copy.deepcopy(model)
    before, learner.n_jobs = learner.n_jobs, threads_here(threads)
    how = {} if weight is None else {"sample_weight": weight}
    learner.partial_fit(X, y, classes, **how)
    learner.n_jobs = before
    return learner


def _average(found: list[Any], sizes: list[int]) -> Any:
    """Return the first learner with the averages of what all have learned."""
    model = found[0]
    shares = np.asarray(sizes) / sum(sizes)

    def mean(values: list[Any]) -> Any:
        if isinstance(values[0], list):
            return [mean(list(each)) for each in zip(*values, strict=True)]
        doubles = (np.asarray(value, np.float64) for value in values)
        total = sum(share * value for share, value in zip(shares, doubles, strict=True))
        return np.asarray(total, values[0].dtype) if hasattr(values[0], "dtype") else float(total)

    for name in _LEARNED:
        if hasattr(model, name):
            setattr(model, name, mean([getattr(each, name) for each in found]))
    histories = [each._training[0] for each in found]
    history = histories[0]
    history.x = mean([each.x for each in histories])
    history.moments = mean([each.moments for each in histories])
    # The objective of an epoch is a sum over batches for linear maps, a mean for embeddings.
    means = isinstance(model, BaseEmbeddingLearner)
    last = [each.loss_curve_[-1] for each in found]
    model.loss_curve_[-1] = mean(last) if means else sum(last)
    if hasattr(model, "objective_"):
        model.objective_ = model.loss_curve_[-1]
    return model
