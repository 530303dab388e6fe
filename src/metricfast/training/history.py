"""The history of a training: the curve, the best parameters, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.warn import warn_user

Vector = NDArray[Any]
# Attributes of a history that a snapshot holds.
_ARRAYS, _LISTS = ("x", "best_x", "before_best", "refreshed"), ("curve", "costs")
_NUMBERS = ("step", "first", "ended", "best_value", "best_objective")
_MOST = 2**53
# Iterations without a lower cost of held-out points after which training usually stops.
PATIENCE = 10


class DivergedError(Exception):
    """The loss, its gradient or a parameter is no longer finite."""


@dataclass(frozen=True)
class SolverState:
    """The argument of a callback, after every iteration or epoch of mini-batches.

    `fit` keeps the best map, which need not be the map of the last call.

    Attributes
    ----------
    iteration : int
        Number of iterations done, from 1.
    objective : float
        The objective being minimised, at `parameters`. With mini-batches: its estimate over the
        epoch, while the parameters moved.
    parameters : list of ndarray
        The current parameters, of a linear learner its map. Copies: changing them has no effect.
    estimator : estimator
        The estimator that is being fitted, with the fitted attributes of this iteration.
    score : float or None
        Score of the validation points, with early stopping; greater is better.
    """

    iteration: int
    objective: float
    parameters: list[NDArray[Any]]
    estimator: Any
    score: float | None = None

    @property
    def components(self) -> NDArray[Any]:
        """The current map of a linear learner, of shape (n_components, n_features)."""
        if not hasattr(self.estimator, "components_"):
            raise AttributeError(
                f"{type(self.estimator).__name__} has no linear map: `parameters`."
            )
        return self.parameters[0]


class Metrics(Protocol):
    """Additional numbers per iteration, which a history records.

    Attributes
    ----------
    values : dict of lists of float
        A list for each metric, with a number for each iteration.
    """

    values: dict[str, list[float]]

    def record(self, value: float) -> bool:
        """Record the metrics of an iteration with the given objective; True means stop."""

    def check(self, values: dict[str, list[float]], n_done: int) -> None:
        """Raise an error unless a snapshot's `values` fit a training of `n_done` iterations."""

    def follow(self, objective: Any) -> None:
        """Switch to another objective."""


class History:
    """The curve and the best parameters of a minimisation, and whether it continues.

    Parameters
    ----------
    x0 : ndarray of shape (n_parameters,)
        The initial parameters.
    observer : callable, optional
        Called as ``observer(iteration, value, x)``; a true result stops the solver.
    cost : callable, optional
        Returns the cost of parameters on validation points. It replaces the objective in the choice
        of the best iteration.
    patience : int, optional
        Iterations without progress after which the minimisation ends.
    tol : float, default=0.0
        Relative decrease that counts as progress.
    rng : RandomState, optional
        Generator that draws the batches.
    quiet : bool, default=False
        Whether solvers give no warnings.
    metrics : Metrics, optional
        Further numbers of each iteration.

    Attributes
    ----------
    start : ndarray
        The initial parameters, or those given to `restart`.
    x : ndarray
        The last parameters, even in the middle of an epoch; a solver replaces, never changes them.
    best_x, best_value, best_objective
        The best parameters since the last `restart`, their cost (without validation points, the
        objective), and their objective. Ties go to the lower objective.
    before_best : ndarray
        The parameters at the start of the iteration that ended at `best_x`.
    refreshed : ndarray
        The parameters under which the loss last brought its latent part up to date.
    curve, costs : list of float
        The objective, and the cost, after each iteration.
    stopped : bool
        Whether the observer has asked to stop, or patience has run out.
    moments : list of ndarray
        Moments of gradients, such as the two moments of Adam.
    step : int
        Steps done.
    first : float
        The loss before the first step.
    max_iter : int or None
        Number of iterations that model selection chose; None: the solver decides.
    still : bool
        Whether no batch of the first epoch gave a gradient.
    ended : int
        The largest number of epochs of a training that was `stopped`, 0 if none was.
    """

    def __init__(
        self,
        x0: Vector,
        observer: Callable[[int, float, Vector], object] | None = None,
        *,
        cost: Callable[[Vector], float] | None = None,
        patience: int | None = None,
        tol: float = 0.0,
        rng: np.random.RandomState | None = None,
        quiet: bool = False,
        metrics: Metrics | None = None,
    ) -> None:
        self.quiet, self.metrics = quiet, metrics
        self.observer, self.cost, self._patience, self._tol = observer, cost, patience, tol
        self.rng = np.random.RandomState(0) if rng is None else rng
        self.curve: list[float] = []
        self.costs: list[float] = []
        self.moments: list[Vector] = []
        self.step, self.first, self.ended, self.stopped = 0, math.nan, 0, False
        self.max_iter: int | None = None
        self.still = False
        self.refreshed = x0
        self.restart(x0)

    def judge(self, cost: Callable[[Vector], float], patience: int = PATIENCE) -> None:
        """Rate iterations by their cost on held-out points, with patience."""
        self.cost, self._patience = cost, patience

    def restart(self, x: Vector) -> None:
        """Forget the best parameters, and continue from `x` with another objective."""
        self.start = self.x = self.best_x = self.before_best = self._last = x.copy()
        self.best_value = self.best_objective = math.inf

    def record_start(self, value: float, x: Vector) -> None:
        """Record the result of a solver that ended before its first iteration."""
        self.x = self.best_x = x
        self.best_value = self.best_objective = float(value)
        self.curve.append(self.best_objective)

    def __call__(self, value: float, x: Vector) -> bool:
        """Record the end of an iteration; True means stop."""
        judged = value = float(value)
        useless = self.metrics is not None and self.metrics.record(value)
        self.curve.append(value)
        if self.cost is not None:
            judged = float(self.cost(x))
            self.costs.append(judged)
        x = x.copy()
        if (judged, value) < (self.best_value, self.best_objective):
            self.best_x, self.best_value = x, judged
            self.before_best, self.best_objective = self._last, value
        self.x = self._last = x
        asked = self.observer is not None and self.observer(len(self.curve), value, x)
        self.stopped = bool(asked) or self.stalled or useless
        return self.stopped

    @property
    def stalled(self) -> bool:
        """Whether the patience is exhausted, or no iteration is left."""
        if self.max_iter is not None and len(self.curve) >= self.max_iter:
            return True
        if self._patience is None:
            return False
        mark, since = math.inf, 0
        for judged in self.costs or self.curve:
            if math.isinf(mark) or judged < mark - self._tol * abs(mark):
                mark, since = judged, 0
            else:
                since += 1
        return since >= self._patience

    def warn(self, message: str) -> None:
        """Warn that a solver ended without convergence, unless `quiet`."""
        if not self.quiet:
            warn_user(message, ConvergenceWarning)

    def snapshot(self) -> tuple[dict[str, Vector], dict[str, Any]]:
        """Return the state as arrays, and as numbers for JSON."""
        kind, keys, *rest = self.rng.get_state(legacy=True)
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {name: np.array(getattr(self, name), np.float64) for name in _LISTS}
        arrays |= {f"moment{i}": moment for i, moment in enumerate(self.moments)}
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        numbers |= {"moments": len(self.moments), "rng": [kind, *rest]}
        if self.metrics is not None:
            numbers["history"] = self.metrics.values
        return {**arrays, "rng": np.asarray(keys)}, numbers

    def check(self, arrays: dict[str, Vector], numbers: dict[str, Any], n_moments: int) -> None:
        """Raise an error unless a snapshot fits this training.

        `n_moments`: number of moments of the solver.
        """
        own, own_numbers = self.snapshot()
        moments = {f"moment{i}" for i in range(min(numbers["moments"], len(arrays)))}
        _demand(numbers.keys() == own_numbers.keys(), "numbers", sorted(numbers))
        _demand(arrays.keys() == own.keys() | moments, "arrays", sorted(arrays))
        for name in ("step", "ended", "moments"):
            number = numbers[name]
            _demand(type(number) is int and 0 <= number <= _MOST, name, number)
        _demand(numbers["moments"] in (0, n_moments), "moments", numbers["moments"])
        for name in ("first", "best_value", "best_objective"):
            number = numbers[name]
            known = name == "first" or not math.isnan(number)
            _demand(type(number) is float and known, name, number)
        kind = arrays["x"].dtype
        for name in {*_ARRAYS, *moments}:
            array = arrays[name]
            kinds = (kind,) if name in moments else (np.float32, np.float64)
            _demand(array.dtype in kinds and array.shape == self.start.shape, name, array)
            _demand(np.isfinite(array).all(), name, array)
        n_done = len(arrays["curve"])
        for name, size in (("curve", n_done), ("costs", n_done if self.cost else 0)):
            array = arrays[name]
            _demand(array.dtype == np.float64 and array.shape == (size,), name, array)
            _demand(not np.isnan(array).any(), name, array)
        _demand(np.isfinite(arrays["curve"]).all(), "curve", arrays["curve"])
        generator, place, has_gauss, gauss = numbers["rng"]
        keys = arrays["rng"]
        _demand(generator == "MT19937" and type(place) is int and 0 <= place <= 624, "rng", place)
        _demand(has_gauss in (0, 1) and math.isfinite(gauss), "rng", gauss)
        # A generator with a state of zeros returns only zeros, so that rejection sampling never
        # ends.
        _demand(keys.dtype == np.uint32 and keys.shape == (624,) and keys[1:].any(), "rng", keys)
        if self.metrics is not None:
            self.metrics.check(numbers["history"], n_done)

    def resume(self, arrays: dict[str, Vector], numbers: dict[str, Any]) -> None:
        """Continue from a snapshot."""
        vars(self).update({name: arrays[name] for name in _ARRAYS})
        vars(self).update({name: arrays[name].tolist() for name in _LISTS})
        vars(self).update({name: numbers[name] for name in _NUMBERS})
        if self.metrics is not None:
            self.metrics.values = numbers["history"]
        self._last = self.x
        self.moments = [arrays[f"moment{i}"] for i in range(numbers["moments"])]
        kind, *rest = numbers["rng"]
        self.rng.set_state((kind, arrays["rng"], *rest))


def _demand(right: Any, name: str, found: Any) -> None:
    if not right:
        raise ValueError(f"{name} cannot be {found!r:.80}")
