"""Mini-batch training: where it stands, and how it goes on."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.dispatch import get_kernels
from metricfast.samplers import Batch

__all__ = ["DivergedError", "EpochState", "Stepper", "Training", "flat", "parts"]

Array = NDArray[Any]
BatchLoss = Callable[[list[Array], Batch], tuple[float, list[Array]]]

# A loss that has grown by this factor is no noise of batches,
_RISE = 10
# of so many of which the mean is taken where a single one looks so.
_FIRST_BATCHES = 64


class DivergedError(Exception):
    """The loss, or a parameter, is no longer finite."""


@dataclass(frozen=True)
class EpochState:
    """What a callback is told after every epoch (with "lbfgs": every iteration).

    Attributes
    ----------
    iteration : int
        Number of epochs done, from 1.
    objective : float
        Mean loss of its batches, each before its step.
    score : float or None
        Score on held-out points, with early stopping.
    parameters : list of ndarray
        The parameters of the embedding: copies.
    estimator : estimator
        The estimator that is being fitted, with the fitted attributes of this epoch.
    """

    iteration: int
    objective: float
    score: float | None
    parameters: list[Array]
    estimator: Any


def flat(arrays: Sequence[Array]) -> Array:
    """Return all values as one vector."""
    return np.concatenate([array.ravel() for array in arrays])


def parts(vector: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Return the arrays of which `flat` made a vector, as views of it."""
    arrays, start = [], 0
    for shape in shapes:
        size = math.prod(shape)
        arrays.append(vector[start : start + size].reshape(shape))
        start += size
    return arrays


@dataclass
class Training:
    """Where a training stands after an epoch: all that it takes to go on.

    Attributes
    ----------
    vector : ndarray
        All parameters.
    moments : list of ndarray
        Running means of the solver, as long as `vector`.
    step : int
        Steps done.
    curve : list of float
        Mean loss of the batches of each epoch.
    scores : list of float
        Score on held-out points after each epoch, if there are any.
    best : ndarray
        Parameters of the best score.
    first : float
        The loss before the first step, of one batch or several.
    stopped : int
        `max_epochs` of the fit that a callback has ended, 0 if none has.
    rng : RandomState
    """

    vector: Array
    moments: list[Array]
    rng: np.random.RandomState
    step: int = 0
    curve: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    best: Array | None = None
    first: float = math.nan
    stopped: int = 0

    @property
    def kept(self) -> Array:
        """The parameters of choice: the best by score, else the last."""
        return self.vector if self.best is None else self.best

    @property
    def reaches(self) -> int:
        """The `max_epochs` up to which nothing is left to do."""
        return max(len(self.curve), self.stopped)

    def record(self, score: float) -> None:
        """Note the score of the epoch just done."""
        if not self.scores or score > max(self.scores):
            self.best = self.vector.copy()
        self.scores.append(score)

    def has_stalled(self, patience: int) -> bool:
        """Tell whether the last `patience` scores brought no new best."""
        return len(self.scores) - int(np.argmax(self.scores or [0])) > patience

    def warn_of_rise(self) -> None:
        """Warn of a loss that ends far above where it began, though it is finite."""
        if self.curve and 0 < _RISE * self.first < self.curve[-1]:
            warnings.warn(
                f"The loss has risen from {self.first:.3g} to {self.curve[-1]:.3g}: training "
                "diverged. Lower learning_rate.",
                ConvergenceWarning,
                stacklevel=3,
            )


class Stepper:
    """Moves parameters by the gradients of batches.

    Parameters
    ----------
    loss : callable
        ``loss(parameters, batch)`` gives value and gradients.
    shapes : list of tuple
        Of the parameters.
    decays, factors : list of float
        Weight decay and factor of the learning rate for each of them.
    solver : {"adam", "sgd"}
    momentum : float
        Of "sgd".
    rate : callable
        ``rate(epoch, step)``, both from 0, gives the learning rate.
    """

    def __init__(
        self,
        loss: BatchLoss,
        shapes: list[tuple[int, ...]],
        decays: list[float],
        factors: list[float],
        *,
        solver: str,
        momentum: float,
        rate: Callable[[int, int], float],
    ) -> None:
        self._loss, self._shapes, self._rate = loss, shapes, rate
        self._runs = _runs(shapes, decays, factors)
        self._adam, self._momentum = solver == "adam", momentum
        self._tried: Array | None = None  # the last parameters with a finite loss

    def start(self, vector: Array, rng: np.random.RandomState) -> Training:
        """Return the training before its first step."""
        return Training(vector, [np.zeros_like(vector) for _ in range(1 + self._adam)], rng)

    def epoch(self, training: Training, batches: Iterable[Batch]) -> None:
        """Take one step for each batch.

        The parameters are replaced, never changed, so that those of an interrupted training
        are whole.

        Raises
        ------
        DivergedError
            Where the loss, its gradient or a parameter is not finite. The last parameters
            with a finite loss are kept.

        Warns
        -----
        ConvergenceWarning
            If no batch of the first epoch has a gradient.
        """
        values, epoch, moves = [], len(training.curve), False
        start = training.vector
        first: list[Batch] = []
        for batch in batches:
            if epoch == 0 and len(first) < _FIRST_BATCHES:
                first.append(batch)
            value, gradients = self._loss(parts(training.vector, self._shapes), batch)
            gradient = flat(gradients) if math.isfinite(value) else None
            if gradient is None or not _finite(gradient):
                self._give_up(training)
            values.append(value)
            moves = moves or bool(gradient.any())
            self._tried = training.vector
            training.step += 1
            training.vector = self._moved(training, gradient, self._rate(epoch, training.step - 1))
        if not _finite(training.vector):
            self._give_up(training)
        training.curve.append(float(np.mean(values)))
        if epoch == 0:
            training.first = values[0]
            if 0 < _RISE * training.first < training.curve[0]:
                known = parts(start, self._shapes)
                training.first = float(np.mean([self._loss(known, batch)[0] for batch in first]))
        if epoch == 0 and not moves:
            warnings.warn(
                "No batch of the first epoch gave a gradient to learn from. Its points may have "
                "none to be compared with: give more points of a class, raise batch_size, or "
                "choose another sampler. Or the loss is satisfied already: raise its margin.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _give_up(self, training: Training) -> NoReturn:
        if self._tried is not None:
            training.vector = self._tried
        raise DivergedError

    def _moved(self, training: Training, gradient: Array, rate: float) -> Array:
        moved, kernels = np.empty_like(training.vector), get_kernels()
        vectors = (training.vector, gradient, *training.moments, moved)
        for run, decay, factor in self._runs:
            arrays = [vector[run] for vector in vectors]
            if self._adam:
                kernels.adam_step(*arrays, rate * factor, decay, float(training.step))
            else:
                kernels.momentum_step(*arrays, rate * factor, decay, self._momentum)
        return moved


def _runs(
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


def _finite(vector: Array) -> bool:
    return bool(get_kernels().all_finite(vector[None]))
