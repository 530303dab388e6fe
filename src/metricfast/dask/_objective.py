"""Evaluate a loss on workers: each task evaluates some anchors, and the client sums the results."""

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
from metricfast.training.embedded_loss import EmbeddedLoss

__all__ = ["ByParts"]

Array = NDArray[Any]
# Tasks per thread. More take longer to send. With two or fewer, Dask assigns all of them at once,
# so that some threads idle while others have waiting tasks.
_TASKS = 3
# Anchors per part: the overhead of a part equals the cost of 100 to 200 anchors. Lower and upper
# bounds of the number of parts: use all threads of a small cluster, and limit the gradients to sum.
_ANCHORS, _FEWEST, _MOST = 2500, 8, 256
# Value, gradients, and the fitted attributes of the loss, such as counts.
PartResult = tuple[float, list[Array], dict[str, Any]]


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
        of_tasks: list[list[PartResult]] = self._workers.run(
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
    known = loss._weighed_by if isinstance(loss, Loss) else {}
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
) -> list[PartResult]:  # fmt: skip
    """Evaluate the loss of several parts of the anchors; runs as a task."""
    own, found = loss.for_thread(threads_here(threads)), []
    try:
        for value, gradients in own.of_parts(arrays, batch, parts):
            counts = {name: each for name, each in vars(own.bound.loss).items() if name[-1] == "_"}
            found.append((value, gradients, counts))
    except LossOverflowError:
        return [(math.nan, [], {})]
    return found
