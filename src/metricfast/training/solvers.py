"""Solvers as objects: L-BFGS on all points, and steps on mini-batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator

from metricfast._core.arguments import check_unused, did_you_mean
from metricfast._core.dispatch import get_kernels
from metricfast._core.parameters import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Share,
    check_parameters,
)
from metricfast.samplers import Batch
from metricfast.training import steps
from metricfast.training.history import DivergedError, History, Vector
from metricfast.training.lbfgs import minimize_hinge
from metricfast.training.steps import Rule, Steps

__all__ = [
    "LBFGS",
    "SGD",
    "Adam",
    "AdamW",
    "FullBatchSolver",
    "MiniBatchSolver",
    "Solver",
    "Subgradient",
    "as_solver",
    "check_solver_params",
]

# For float32 points, smaller decreases of the objective are rounding errors.
_SINGLE_TOL = 1e-6
_HINGE_TOL = 1e-3

EpochBatches = Callable[[], Iterable[Batch]]


@dataclass(eq=False, repr=False)
class FullBatchSolver(BaseEstimator):  # type: ignore[misc]
    """Base class of full-batch solvers, which use all points in every iteration.

    A subclass defines `minimize`.

    Parameters
    ----------
    max_iter : int, default=100
    """

    max_iter: PositiveInt = 100

    by_batches: ClassVar[bool] = False
    n_moments: ClassVar[int] = 0

    @property
    def n_iter(self) -> int:
        """The largest number of iterations."""
        return int(self.max_iter)

    def minimize(self, problem: Any, history: History, batches: EpochBatches | None = None) -> None:
        """Continue to minimise a problem from the last vector of the history.

        Parameters
        ----------
        problem : callable
            ``problem(x)`` returns the value and the gradient, of all points. They are infinity and
            zeros where they are not finite.
        history : History
            `x` is the vector to start from. ``history(value, x)`` records an iteration, and returns
            whether to stop. ``len(history.curve)`` iterations are done.
        batches : None
        """
        raise NotImplementedError(f"{type(self).__name__} must define minimize.")


@dataclass(eq=False, repr=False)
class LBFGS(FullBatchSolver):
    """Limited-memory BFGS, which looks at all points in every iteration.

    Smooth losses are minimised by SciPy's L-BFGS-B; sums of hinges by L-BFGS with a weak Wolfe line
    search, which ends on the decrease of the objective.

    Parameters
    ----------
    max_iter : int, default=100
    tol : float, optional
        For smooth losses the tolerance of :func:`scipy.optimize.minimize`; by default 1e-6 for
        float32 points, else SciPy's own. For hinges the relative decrease an iteration; by default
        0.001.
    min_iter : int, default=0
        Least number of iterations, for hinges.
    memory : int, default=10
        Number of past steps, and of their changes of the gradient, from which the curvature is
        estimated; each is as large as the parameters.

    Examples
    --------
    >>> from metricfast import NCA
    >>> from metricfast.solvers import LBFGS
    >>> NCA(solver=LBFGS(max_iter=30, tol=1e-3)).get_params()["solver__max_iter"]
    30
    """

    tol: NonNegativeFloat | None = None
    min_iter: NonNegativeInt = 0
    memory: PositiveInt = 10

    def minimize(self, problem: Any, history: History, batches: EpochBatches | None = None) -> None:
        """Continue to minimise a problem from the last vector of the history."""
        del batches
        left, x = self.n_iter - len(history.curve), history.x.astype(np.float64)
        if not problem.traits.smooth:
            minimize_hinge(
                problem, x, history, min_iter=int(self.min_iter), max_iter=left,
                tol=_HINGE_TOL if self.tol is None else self.tol, memory=int(self.memory),
                refresh=partial(_refresh, problem, history) if problem.refresh_every else None,
                refresh_every=int(problem.refresh_every),
            )  # fmt: skip
            return
        if left < 1 or history.stalled:
            return
        single = self.tol is None and problem.X.dtype == np.float32

        def report(intermediate_result: Any) -> None:
            if history(intermediate_result.fun, intermediate_result.x):
                raise StopIteration

        result = minimize(
            problem, x, jac=True, method="L-BFGS-B", tol=_SINGLE_TOL if single else self.tol,
            callback=report,
            options={"maxiter": left, "maxfun": math.inf, "maxcor": int(self.memory)},
        )  # fmt: skip
        if math.isinf(history.best_objective):
            if not math.isfinite(result.fun):
                raise DivergedError
            history.record_start(result.fun, result.x)
        if not result.success and not history.stopped:
            reason, remedy = "without convergence", "raise max_iter, or give a larger tol"
            if result.nit < left:
                reason, remedy = "as its line search found no lower objective", "rescale the points"
            history.warn(f"L-BFGS stopped after {result.nit} iterations {reason}: {remedy}.")


@dataclass(eq=False, repr=False)
class MiniBatchSolver(BaseEstimator):  # type: ignore[misc]
    """Base of solvers that take a step for each mini-batch.

    A subclass defines `step` and `n_moments`.

    Parameters
    ----------
    learning_rate : float, optional
        Size of the first steps; the default depends on the learner. Learners of a linear map take
        it relative to the root mean square of the initial map.
    batch_size : int, optional
        Anchors in a batch; by default the batch size of the learner or its sampler.
    max_epochs : int, default=50
        Passes over the points.
    schedule : {"constant", "inverse", "cosine"}, optional
        "inverse" divides the learning rate by ``1 + step / 10000``; "cosine" lowers it along half a
        cosine to zero. By default the schedule of the learner.
    weight_decay : float, default=0.0
        Factor of the penalty, half the sum of the squared parameters. Biases and proxies do not
        decay. An embedding may have a decay of its own.
    """

    learning_rate: PositiveFloat | None = None
    batch_size: PositiveInt | None = None
    max_epochs: PositiveInt = 50
    schedule: Literal[None, "constant", "inverse", "cosine"] = None
    weight_decay: NonNegativeFloat = 0.0

    by_batches: ClassVar[bool] = True
    n_moments: ClassVar[int] = 0
    rate_factor: ClassVar[float] = 1.0  # factor of the problem's default learning rate

    def step(
        self, x: Vector, gradient: Vector, moments: list[Vector], rate: float, decay: float, t: int
    ) -> Vector:
        """Return the parameters after the t-th step, counted from 1.

        Parameters
        ----------
        x, gradient : ndarray of shape (n_parameters,)
        moments : list of `n_moments` ndarray of shape (n_parameters,)
            Memory of the solver, zero at the start. Update it in place.
        rate : float
            The learning rate.
        decay : float
            The weight decay of these parameters.
        t : int

        Returns
        -------
        ndarray of shape (n_parameters,)
        """
        raise NotImplementedError(f"{type(self).__name__} must define step.")

    @property
    def n_iter(self) -> int:
        """The largest number of epochs."""
        return int(self.max_epochs)

    def minimize(self, problem: Any, history: History, batches: EpochBatches | None) -> None:
        """Continue to minimise a problem from the last vector of the history."""
        assert batches is not None

        def epoch() -> Iterable[Batch]:
            done, every = len(history.curve), problem.refresh_every
            if every and done and done % every == 0:
                _refresh(problem, history, history.x)
            problem.begin_epoch()
            return batches()

        steps.minimize_minibatch(
            problem, epoch, history, max_epochs=self.n_iter,
            steps=self.steps(problem, history.start, self.n_iter),
        )  # fmt: skip

    def run_epoch(
        self, problem: Any, history: History, batches: EpochBatches, start: Vector
    ) -> None:
        """Take one step for each batch; `start` is the vector that the first epoch began with."""
        problem.begin_epoch()
        value = steps.run_epoch(problem, batches(), history, self.steps(problem, start, None))
        history(value, history.x)

    def steps(self, problem: Any, start: Vector, max_epochs: int | None) -> Steps:
        """Return the steps of a training; `max_epochs` is None without a last epoch."""
        first = self.learning_rate
        if first is None:
            first = self.rate_factor * float(problem.traits.learning_rate)
        if problem.traits.relative_steps:
            first *= math.sqrt(float(np.mean(start**2))) or 1.0
        schedule = problem.traits.schedule if self.schedule is None else self.schedule

        def rate(epoch: float, step: int) -> float:
            if schedule == "inverse":
                return float(first / (1 + 1e-4 * step))
            if schedule == "cosine" and max_epochs is not None:
                return float(first * (1 + math.cos(math.pi * epoch / max_epochs)) / 2)
            return float(first)

        runs = problem.runs(self.weight_decay)
        return Steps(
            self.rule(problem), self.n_moments, rate, runs, problem.traits.averages_batches
        )

    def rule(self, problem: Any) -> Rule:
        """Return `step`, adapted to the problem."""
        del problem
        return self.step


class Adam(MiniBatchSolver):
    """Adam on mini-batches (Kingma and Ba, ICLR 2015).

    Parameters
    ----------
    learning_rate, batch_size, max_epochs, schedule, weight_decay
        See `MiniBatchSolver`.

    Examples
    --------
    >>> from metricfast import NCA
    >>> from metricfast.solvers import Adam
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> NCA(solver=Adam(batch_size=50, max_epochs=5), random_state=0).fit(X, y).n_iter_
    5
    """

    n_moments = 2

    def step(
        self, x: Vector, gradient: Vector, moments: list[Vector], rate: float, decay: float, t: int,
        *, relative: bool = False,
    ) -> Vector:  # fmt: skip
        """Return the parameters after the t-th step, counted from 1.

        `relative`: ignore gradients that are rounding errors, relative to the scale of the data.
        """
        moved, (first, second) = np.empty_like(x), moments
        settings = rate, decay, float(t), relative
        if not get_kernels().adam_step(x, gradient, first, second, moved, settings):
            raise DivergedError
        return moved

    def rule(self, problem: Any) -> Rule:
        """Return `step`, with relative steps if the problem's data may have any scale."""
        if problem.traits.relative_steps and type(self).step is Adam.step:
            return partial(self.step, relative=True)
        return self.step


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, ICLR 2019).

    Each step makes decaying parameters smaller by `weight_decay` times the learning rate.

    Parameters
    ----------
    learning_rate, batch_size, max_epochs, schedule, weight_decay
        See `MiniBatchSolver`.
    """

    def step(
        self, x: Vector, gradient: Vector, moments: list[Vector], rate: float, decay: float, t: int,
        **how: Any,
    ) -> Vector:  # fmt: skip
        """Return the parameters after the t-th step, counted from 1."""
        shrunk = x * float(1 - rate * decay)  # keeps the dtype of x
        return super().step(shrunk, gradient, moments, rate, 0.0, t, **how)


@dataclass(eq=False, repr=False)
class SGD(MiniBatchSolver):
    """Gradient descent with momentum on mini-batches.

    Its default learning rate is ten times as large as in other solvers.

    Parameters
    ----------
    learning_rate, batch_size, max_epochs, schedule, weight_decay
        See `MiniBatchSolver`.
    momentum : float, default=0.9
    """

    momentum: Share = 0.9

    n_moments = 1
    rate_factor = 10.0

    def step(
        self, x: Vector, gradient: Vector, moments: list[Vector], rate: float, decay: float, t: int
    ) -> Vector:
        """Return the parameters after the t-th step, counted from 1."""
        del t
        moved, (velocity,) = np.empty_like(x), moments
        get_kernels().momentum_step(x, gradient, velocity, moved, rate, decay, self.momentum)
        return moved


@dataclass(eq=False, repr=False)
class Subgradient(MiniBatchSolver):
    r"""Plain subgradient steps with rates :math:`\eta_t = \eta_1 / t^p`.

    The first step that is not zero is `learning_rate` times as long as the parameters, for any
    scale of the data and the objective.

    Parameters
    ----------
    learning_rate, batch_size, max_epochs
        See `MiniBatchSolver`.
    power_t : float, default=0.5
        The exponent p.
    """

    schedule: Literal["constant"] = field(default="constant", init=False)
    weight_decay: float = field(default=0.0, init=False)
    power_t: NonNegativeFloat = 0.5

    n_moments = 1

    def step(
        self, x: Vector, gradient: Vector, moments: list[Vector], rate: float, decay: float, t: int
    ) -> Vector:
        """Return the parameters after the t-th step, counted from 1."""
        del decay
        norm, memory = float(np.linalg.norm(gradient)), moments[0]
        if memory[0] == 0 < norm:  # the first entry of the moments stores the first rate
            memory[0] = rate * (float(np.linalg.norm(x)) or 1.0) / norm
        return np.asarray(x - memory[0] / t**self.power_t * gradient)

    def steps(self, problem: Any, start: Vector, max_epochs: int | None) -> Steps:
        """Return the steps of a training."""
        del start, max_epochs
        rate = problem.traits.learning_rate if self.learning_rate is None else self.learning_rate
        average = problem.traits.averages_batches
        return Steps(self.step, self.n_moments, lambda epoch, step: float(rate), average=average)


Solver = FullBatchSolver | MiniBatchSolver
_FIRST = {False: "max_iter", True: "max_epochs"}  # an example for error messages
_NAMES: dict[str, type[MiniBatchSolver]] = {
    "adam": Adam, "adamw": AdamW, "sgd": SGD, "subgradient": Subgradient
}  # fmt: skip


def as_solver(
    value: Any, lbfgs: LBFGS, names: Iterable[str] = ("lbfgs", "adam"), **params: Any
) -> Solver:
    """Return the solver for the parameter `solver`; raise ValueError for other values.

    `lbfgs`: the solver for "lbfgs". `names`: the strings that the learner accepts. `params`:
        parameters of mini-batch solvers that are given by name.
    """
    names = tuple(names)
    if isinstance(value, str) and value in names:
        value = lbfgs if value == "lbfgs" else _NAMES[value](**params)
    if not isinstance(value, (FullBatchSolver, MiniBatchSolver)):
        known = ", ".join(map(repr, names))
        raise ValueError(
            f"solver must be {known} or one of metricfast.solvers, got {value!r}."
            + (did_you_mean(value, names) or did_you_mean(value, __all__, "solvers.{}()"))
        )
    check_parameters(value)
    return value


def check_solver_params(
    learner: Any, solver: Solver, *, lbfgs: Iterable[str] = (), by_batches: Iterable[str] = ()
) -> None:
    """Raise ValueError if a parameter is set that the learner's solver ignores.

    `lbfgs`: parameters for the solver "lbfgs". `by_batches`: parameters for other solvers given by
        name. A solver object has its own parameters.
    """
    reached: Iterable[str] = ()
    if isinstance(learner.solver, str):
        reached = by_batches if solver.by_batches else lbfgs
    unused, kind = sorted({*lbfgs, *by_batches}.difference(reached)), type(solver).__name__
    check_unused(
        learner, unused,
        f"with solver={learner.solver!r}, which it does not reach: set the parameters of this "
        f"solver in the object, such as solver={kind}({_FIRST[solver.by_batches]}=...)",
    )  # fmt: skip


def _refresh(problem: Any, history: History, x: Vector) -> None:
    history.refreshed = x
    problem.refresh(x)
