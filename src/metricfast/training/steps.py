"""Steps by the gradients of mini-batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.dispatch import get_kernels
from metricfast._core.warn import warn_user
from metricfast.training.history import DivergedError, History, Vector

__all__ = [
    "RISE",
    "Adam",
    "Momentum",
    "Rule",
    "Steps",
    "Subgradient",
    "minimize_minibatch",
    "relative_adam",
    "run_epoch",
    "runs_of",
]

# A loss that has grown by this factor is no noise of batches,
RISE = 10
# of so many of which the mean is taken where a single one looks so.
_FIRST_BATCHES = 64


class Rule(Protocol):
    """A step from x by a gradient; `n_moments` arrays like x are its memory."""

    n_moments: int

    def __call__(
        self, x: Vector, gradient: Vector, moments: list[Vector], rate: float, decay: float, t: int
    ) -> Vector:
        """Return where the t-th step, from 1, leads; the moments are updated in place."""


@dataclass(frozen=True)
class Adam:
    """Kingma and Ba, ICLR 2015.

    ``relative``: no step is made of a gradient's rounding. ``decoupled``: decay shrinks parameters,
    in proportion to the rate, and is no part of gradients (Loshchilov and Hutter, ICLR 2019).
    """

    relative: bool = False
    decoupled: bool = False
    n_moments = 2

    def __call__(
        self, x: Vector, gradient: Vector, moments: list[Vector], rate: float, decay: float, t: int
    ) -> Vector:
        """Return where the t-th step leads."""
        if self.decoupled:
            x, decay = x * float(1 - rate * decay), 0.0  # float32 as it was
        moved, least = np.empty_like(x), 1e-8
        if self.relative:
            most = float(np.abs(gradient).max(initial=0))
            gradient = np.where(np.abs(gradient) < 1e-13 * most, 0, gradient)
            with np.errstate(over="ignore"):
                square = 0.999 * moments[1] + 0.001 * gradient**2
            if not _finite(square):
                raise DivergedError
            least = 1e-12 * math.sqrt(float(square.max(initial=0)) / (1 - 0.999**t)) + 1e-30
        get_kernels().adam_step(x, gradient, *moments, moved, rate, decay, float(t), least)
        return moved


@dataclass(frozen=True)
class Momentum:
    """Gradient descent with momentum."""

    momentum: float
    n_moments = 1

    def __call__(
        self, x: Vector, gradient: Vector, moments: list[Vector], rate: float, decay: float, t: int
    ) -> Vector:
        """Return where the t-th step leads."""
        del t
        moved = np.empty_like(x)
        get_kernels().momentum_step(x, gradient, *moments, moved, rate, decay, self.momentum)
        return moved


class Subgradient:
    r"""Plain steps :math:`x - \eta_t g_t` with :math:`\eta_t = \eta_1 / t^p`.

    The first step that is not zero is `rate` times as long as x, so that it fits any scale of data
    and objective.
    """

    n_moments = 1  # whose first entry is the first factor

    def __init__(self, power_t: float) -> None:
        self._power = power_t

    def __call__(
        self, x: Vector, gradient: Vector, moments: list[Vector], rate: float, decay: float, t: int
    ) -> Vector:
        """Return where the t-th step leads."""
        del decay
        norm, memory = float(np.linalg.norm(gradient)), moments[0]
        if memory[0] == 0 < norm:
            memory[0] = rate * (float(np.linalg.norm(x)) or 1.0) / norm
        return np.asarray(x - memory[0] / t**self._power * gradient)


@dataclass(frozen=True)
class Steps:
    """How parameters move.

    ``rate(epoch, step)`` gives the learning rate. Both count from 0, epochs with the share of the
    present one that is done, where that is known. `runs` are adjacent parameters, with their weight
    decay and their factor of the learning rate. The objective of an epoch is the sum over its
    batches, or their `average`.
    """

    rule: Rule
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


def runs_of(
    shapes: Sequence[tuple[int, ...]], decays: Sequence[float], factors: Sequence[float]
) -> list[tuple[slice, float, float]]:
    """Return where adjacent parameters have the same decay and factor, and so move together."""
    runs: list[tuple[slice, float, float]] = []
    stop = 0
    for shape, decay, factor in zip(shapes, decays, factors, strict=True):
        start, stop = stop, stop + math.prod(shape)
        if runs and runs[-1][1:] == (decay, factor):
            start = runs.pop()[0].start
        runs.append((slice(start, stop), decay, factor))
    return runs


def relative_adam(x0: Vector, learning_rate: float, max_epochs: int | None = None) -> Steps:
    """Return steps of Adam that fit any scale of the data.

    The first is `learning_rate` times the root mean square of `x0`; they fall to zero along half a
    cosine, unless there is no last epoch.
    """
    size = learning_rate * (math.sqrt(float(np.mean(x0**2))) or 1.0)

    def rate(epoch: float, step: int) -> float:
        del step
        return (
            size if max_epochs is None else size * (1 + math.cos(math.pi * epoch / max_epochs)) / 2
        )

    return Steps(Adam(relative=True), rate)


def minimize_minibatch(
    fun: Callable[[Vector, Any], tuple[float, Vector]],
    x0: Vector,
    batches: Callable[[], Iterable[Any]],
    history: History,
    *,
    max_epochs: int,
    learning_rate: float = 0.01,
    steps: Steps | None = None,
) -> None:
    """Minimise a sum over samples by steps on mini-batches.

    The objective of an epoch is the sum (or mean) of its batches', each taken before its step. A
    history that has epochs behind it is where the minimisation goes on.

    Parameters
    ----------
    fun : callable
        ``fun(x, batch)`` gives the value and gradient of a batch.
    x0 : ndarray of shape (n_parameters,)
        The initial vector of the history.
    batches : callable
        Gives the batches of one epoch.
    history : History
        Told after every epoch.
    max_epochs : int
        Number of epochs.
    learning_rate : float
        First step of `relative_adam`, which is used where no `steps` are given.
    steps : Steps, optional

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
    steps = relative_adam(x0, learning_rate, max_epochs) if steps is None else steps
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
        history.moments = [np.zeros_like(history.x) for _ in range(steps.rule.n_moments)]
    # Those of a learner that was unpickled may be read-only, such as a memory map.
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
        if not (moves or history.quiet):
            warn_user(
                "No batch of the first epoch gave a gradient to learn from. Its points may have "
                "none to be compared with: give more points of a class, raise batch_size, or "
                "choose another sampler. Or the loss is satisfied already: raise its margin.",
                ConvergenceWarning,
            )
    return total


@contextmanager
def _closing(batches: Iterator[Any]) -> Iterator[Iterator[Any]]:
    """End what reads ahead for an epoch, even of a training that is interrupted."""
    try:
        yield batches
    finally:
        if hasattr(batches, "close"):
            batches.close()


def _finite(vector: Vector) -> bool:
    return bool(get_kernels().all_finite(vector[None]))
