"""Training on workers: a loss in parts, and local epochs."""

from __future__ import annotations

import copy
import math
from itertools import pairwise
from typing import Any

import numpy as np

from metricfast._core.progress import Progress
from metricfast._core.targets import encode_together
from metricfast._core.types import Array, Integers
from metricfast.dask._rows import AlignedRows
from metricfast.dask._workers import N_PARTS, Shared, Workers, threads_here, total
from metricfast.exceptions import LossOverflowError
from metricfast.learners.embedding.base import BaseEmbeddingLearner
from metricfast.learners.trained import refuse_partial
from metricfast.losses._call import BaseLoss
from metricfast.samplers import Batch
from metricfast.training.callbacks import as_callbacks
from metricfast.training.history import SolverState
from metricfast.training.objective import EmbeddedLoss

# Tasks per thread. More take longer to send. With two or fewer, Dask assigns all of them at once,
# so that some threads idle while others have waiting tasks.
_TASKS = 3
# Anchors per part: the overhead of a part equals the cost of 100 to 200 anchors. Lower and upper
# bounds of the number of parts: use all threads of a small cluster, and limit the gradients to sum.
_ANCHORS, _FEWEST, _MOST = 2500, 8, 256
# Value, gradients, and the fitted attributes of the loss, such as counts.
_PartResult = tuple[float, list[Array], dict[str, Any]]


class ByParts:
    """Evaluate losses on workers, in `n_parts` parts, whatever the number of workers.

    Points and labels are sent to each worker once. An evaluation sends parameters, and returns a
    value and a gradient of each part. Losses with lists of active pairs are evaluated in this
    process. By default the number of parts depends on the number of anchors.
    """

    def __init__(self, workers: Workers, n_parts: int | None) -> None:
        self._workers, self._n_parts = workers, n_parts
        self._of: tuple[Any, ...] = ()
        self._shared: Shared | None = None

    def __call__(
        self, loss: EmbeddedLoss, arrays: list[Array], batch: Batch | None
    ) -> tuple[float, list[Array]]:
        """Return the loss and its gradients by the parameters; no gradients if it is not finite."""
        weighed_by = _weighed_by(loss)
        here = loss.evaluate_pairs(arrays) if batch is None else None
        if here is not None:  # faster than a round trip to the workers
            return here
        n_anchors = loss.X.shape[0] if batch is None else batch.n_anchors
        wanted = self._n_parts or min(_MOST, max(_FEWEST, n_anchors // _ANCHORS))
        n_parts = min(wanted, n_anchors)
        bounds = [n_anchors * i // n_parts for i in range(n_parts + 1)]
        parts = list(pairwise(bounds))
        of_task = math.ceil(n_parts / (_TASKS * self._workers.n_threads))
        n_tasks = math.ceil(n_parts / of_task)  # tasks differ by at most one part
        cuts = [n_parts * i // n_tasks for i in range(n_tasks + 1)]
        runs = [parts[start:stop] for start, stop in pairwise(cuts)]
        of_tasks: list[list[_PartResult]] = self._workers.run(
            _evaluate, runs, self._sent(loss), arrays=arrays, batch=batch
        )
        values, gradients, counts = zip(*(part for task in of_tasks for part in task), strict=True)
        if not (all(gradients) and np.isfinite(values).all()):
            return math.nan, []
        vars(loss.bound.loss).update(total(counts))
        shares = np.ones(n_parts)
        if weighed_by:
            shares = np.array([count["counts_"][weighed_by] for count in counts])
            shares = shares / max(1, shares.sum())
        return total(values, shares), total(gradients, shares)

    def _sent(self, loss: EmbeddedLoss) -> Shared:
        """Return a loss with its data on the workers. Only new and changed data are sent."""
        of = loss.X, loss.bound, getattr(loss.bound, "targets", None)
        if self._shared is None or any(a is not b for a, b in zip(of, self._of, strict=True)):
            self._of, self._shared = of, Shared(loss.for_thread(1))
        return self._shared


def _weighed_by(compared: EmbeddedLoss) -> str:
    """Return the name of the count that weights the mean of parts, or "" for sums."""
    loss = compared.bound.loss
    known = loss._weighed_by if isinstance(loss, BaseLoss) else {}
    by = known.get(loss.reduction) if known else None
    if by is None or (by and getattr(compared.bound, "_weight", None) is not None):
        raise ValueError(
            f"{loss!r} is not known to be a sum over anchors, so gradients of parts do not add up: "
            "set sync='epochs', reduction='sum' where the loss has that, or fit the learner in one "
            "place."
        )
    return by


def _evaluate(
    parts: list[tuple[int, int]], loss: EmbeddedLoss, arrays: list[Array], batch: Batch | None,
    threads: int,
) -> list[_PartResult]:  # fmt: skip
    """Evaluate the loss of several parts of the anchors; runs as a task."""
    own, found = loss.for_thread(threads_here(threads)), []
    try:
        for value, gradients in own.of_parts(arrays, batch, parts):
            counts = {name: each for name, each in vars(own.bound.loss).items() if name[-1] == "_"}
            found.append((value, gradients, counts))
    except LossOverflowError:
        return [(math.nan, [], {})]
    return found


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
    callbacks, checkpoint = as_callbacks(learner.callbacks)
    refuse_partial(None, None, checkpoint)
    model, n_epochs = _with(learner, silent), learner._solver().n_iter
    progress = Progress(type(learner).__name__, n_epochs, shown=learner.verbose)
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
        progress(epoch + 1, objective)
        arrays = getattr(model, "parameters_", None) or [model.components_]
        copies = [np.array(array) for array in arrays]
        state = SolverState(epoch + 1, objective, copies, _with(model, given))
        answers = [callback(state) for callback in callbacks]
        if any(answers):
            break
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
