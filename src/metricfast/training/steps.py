"""Steps by the gradients of mini-batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.dispatch import get_kernels
from metricfast._core.warn import warn_user
from metricfast.training.history import DivergedError, History, Vector

# Growth of the loss by this factor exceeds the noise of mini-batches: training diverges.
RISE = 10
# If the first epoch seems to diverge, its first value is replaced by the mean over these batches.
_FIRST_BATCHES = 64


# ``rule(x, gradient, moments, rate, decay, t)`` returns x after step t, and updates moments.
Rule = Callable[[Vector, Vector, list[Vector], float, float, int], Vector]


@dataclass(frozen=True)
class Steps:
    """The update of parameters.

    `rule` stores `n_moments` arrays with the shape of the parameters between steps. ``rate(epoch,
    step)`` gives the learning rate. Both count from 0; epochs include the finished fraction of the
    current epoch, if known. `runs` are adjacent parameters, with their weight decay and their
    factor of the learning rate. The objective of an epoch is the sum over its batches, or their
    `average`.
    """

    rule: Rule
    n_moments: int
    rate: Callable[[float, int], float]
    runs: Sequence[tuple[slice, float, float]] = ((slice(None), 0.0, 1.0),)
    average: bool = False

    def moved(self, history: History, gradient: Vector, epoch: float) -> Vector:
        """Return the parameters after a step."""
        rate = self.rate(epoch, history.step - 1)
        found = []
        for run, decay, factor in self.runs:
            moments = [moment[run] for moment in history.moments]
            of_run = history.x[run], gradient[run]
            found.append(self.rule(*of_run, moments, rate * factor, decay, history.step))
        return found[0] if len(found) == 1 else np.concatenate(found)


def minimize_minibatch(
    fun: Callable[[Vector, Any], tuple[float, Vector]],
    batches: Callable[[], Iterable[Any]],
    history: History,
    *,
    steps: Steps,
    max_epochs: int,
) -> None:
    """Minimise a sum over samples by steps on mini-batches.

    The objective of an epoch is the sum (or mean) of its batches', each taken before its step. A
    history that has epochs behind it is where the minimisation goes on.

    Parameters
    ----------
    fun : callable
        ``fun(x, batch)`` gives the value and gradient of a batch.
    batches : callable
        Gives the batches of one epoch.
    history : History
        Told after every epoch.
    steps : Steps
    max_epochs : int
        Number of epochs.

    Raises
    ------
    DivergedError
        Where a value, a gradient or a parameter is not finite. The last parameters with a finite
        value are in the history.

    Warns
    -----
    ConvergenceWarning
        If no batch of the first epoch has a gradient.
    """
    while max(len(history.curve), history.ended) < max_epochs and not history.stalled:
        total = run_epoch(fun, batches(), history, steps)
        if history(total, history.x):
            return


def run_epoch(
    fun: Callable[[Vector, Any], tuple[float, Vector]],
    batches: Iterable[Any],
    history: History,
    steps: Steps,
) -> float:
    """Take one step for each batch, and return the objective of the epoch."""
    if not history.moments:
        history.moments = [np.zeros_like(history.x) for _ in range(steps.n_moments)]
    # Moments of an unpickled learner may be read-only, for example memory-mapped.
    history.moments = [np.require(moment, requirements="W") for moment in history.moments]
    values, epoch, moves = [], len(history.curve), False
    start, tried = history.x, history.x
    first: list[Any] = []
    count = len(batches) if isinstance(batches, Sized) else math.inf
    with _closing(iter(batches)) as drawn:
        for number, batch in enumerate(drawn):
            if epoch == 0 and len(first) < _FIRST_BATCHES:
                first.append(batch)
            value, gradient = fun(history.x, batch)
            if not (math.isfinite(value) and _finite(gradient)):
                history.x = tried
                raise DivergedError
            values.append(value)
            moves = moves or bool(gradient.any())
            tried = history.x
            history.step += 1
            history.x = steps.moved(history, gradient, epoch + number / count)
    if not _finite(history.x):
        history.x = tried
        raise DivergedError
    total = float(np.mean(values) if steps.average else np.sum(values))
    if epoch == 0:
        history.first = values[0]
        if 0 < RISE * history.first < total and steps.average:
            history.first = float(np.mean([fun(start, batch)[0] for batch in first]))
        history.still = not moves
        if history.still and not history.quiet:
            warn_user(
                "No batch of the first epoch gave a gradient to learn from. Its points may have "
                "none to be compared with: give more points of a class, raise batch_size, or "
                "choose another sampler. Or the loss is satisfied already: raise its margin.",
                ConvergenceWarning,
            )
    return total


@contextmanager
def _closing(batches: Iterator[Any]) -> Iterator[Iterator[Any]]:
    """Close an epoch's reader thread, also if the training is interrupted."""
    try:
        yield batches
    finally:
        if hasattr(batches, "close"):
            batches.close()


def _finite(vector: Vector) -> bool:
    return bool(get_kernels().all_finite(vector[None]))
