"""Evaluation of a loss on workers: each task takes some anchors; sums have a fixed order."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricfast.dask._workers import Shared, Workers, threads_here, total
from metricfast.exceptions import LossOverflowError
from metricfast.losses._call import Loss
from metricfast.samplers import Batch
from metricfast.training.objective import Objective

__all__ = ["ByParts"]

Array = NDArray[Any]
# Tasks for each thread: more take longer to send; of two or fewer Dask does not keep any until a
# thread is free, so that some wait for others.
_TASKS = 3
# Anchors of a part: the overhead of a part equals the cost of 100 to 200 anchors. Never fewer parts
# than threads of a small cluster, nor gradients without end.
_ANCHORS, _FEWEST, _MOST = 2500, 8, 256
# Value, gradients, and the fitted attributes of the loss, such as counts.
Found = tuple[float, list[Array], dict[str, Any]]


class ByParts:
    """An evaluator of objectives on workers, in `n_parts` parts for any number of workers.

    Points and labels are sent to each worker once. An evaluation sends parameters, and gets a value
    and a gradient of each part. Losses with lists of active pairs are
    evaluated from these in this process. Without `n_parts`, the number of anchors decides.
    """

    def __init__(self, workers: Workers, n_parts: int | None) -> None:
        self._workers, self._n_parts = workers, n_parts
        self._of: tuple[Any, ...] = ()
        self._shared: Shared | None = None

    def __call__(
        self, objective: Objective, arrays: list[Array], batch: Batch | None
    ) -> tuple[float, list[Array]]:
        """Return the loss and its gradients by the parameters; none where it is not finite."""
        weighed_by = _weighed_by(objective)
        here = objective.evaluate_pairs(arrays) if batch is None else None
        if here is not None:  # in less time than a round trip takes
            return here
        n_anchors = objective.X.shape[0] if batch is None else batch.n_anchors
        wanted = self._n_parts or min(_MOST, max(_FEWEST, n_anchors // _ANCHORS))
        n_parts = min(wanted, n_anchors)
        bounds = [n_anchors * i // n_parts for i in range(n_parts + 1)]
        parts = list(pairwise(bounds))
        of_task = math.ceil(n_parts / (_TASKS * self._workers.n_threads))
        n_tasks = math.ceil(n_parts / of_task)  # such that all have as many, or one fewer
        cuts = [n_parts * i // n_tasks for i in range(n_tasks + 1)]
        runs = [parts[start:stop] for start, stop in pairwise(cuts)]
        of_tasks: list[list[Found]] = self._workers.run(
            _evaluate, runs, self._sent(objective), arrays=arrays, batch=batch
        )
        values, gradients, counts = zip(*(part for task in of_tasks for part in task), strict=True)
        if not (all(gradients) and np.isfinite(values).all()):
            return math.nan, []
        vars(objective.loss.loss).update(total(counts))
        shares = np.ones(n_parts)
        if weighed_by:
            shares = np.array([count["counts_"][weighed_by] for count in counts])
            shares = shares / max(1, shares.sum())
        return total(values, shares), total(gradients, shares)

    def _sent(self, objective: Objective) -> Shared:
        """Return what workers have of an objective: each is sent once, and where it changed."""
        of = objective.X, objective.loss, getattr(objective.loss, "targets", None)
        if self._shared is None or any(a is not b for a, b in zip(of, self._of, strict=True)):
            self._of, self._shared = of, Shared(objective.for_thread(1))
        return self._shared


def _weighed_by(objective: Objective) -> str:
    """Return the count that means of parts are weighed by, "" for sums; ValueError for others."""
    loss = objective.loss.loss
    known = loss._weighed_by if isinstance(loss, Loss) else {}
    by = known.get(loss.reduction) if known else None
    if by is None or (by and getattr(objective.loss, "_weight", None) is not None):
        raise ValueError(
            f"{loss!r} is not known to be a sum over anchors, so gradients of parts do not add up: "
            "set sync='epochs', reduction='sum' where the loss has that, or fit the learner in one "
            "place."
        )
    return by


def _evaluate(
    parts: list[tuple[int, int]], objective: Objective, arrays: list[Array], batch: Batch | None,
    threads: int,
) -> list[Found]:  # fmt: skip
    """Evaluate the loss of some anchors: a task of several parts."""
    own, found = objective.for_thread(threads_here(threads)), []
    try:
        for value, gradients in own.of_parts(arrays, batch, parts):
            counts = {name: each for name, each in vars(own.loss.loss).items() if name[-1] == "_"}
            found.append((value, gradients, counts))
    except LossOverflowError:
        return [(math.nan, [], {})]
    return found
