"""Base class of iterative learners: the steps of `fit` and `partial_fit`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np

from metricfast._core.arguments import check_random_state
from metricfast._core.arrays import threads_of
from metricfast._core.parameters import (
    NumberOfJobs,
    Seed,
    Verbosity,
    check_parameters,
    take_renamed,
)
from metricfast._core.targets import check_marks
from metricfast._core.types import RandomState
from metricfast.learners.base.inputs import forget
from metricfast.selection._judge import Judge, as_judge
from metricfast.training.adapters import takes_weights
from metricfast.training.callbacks import Callback, CallbackMixin, as_callbacks, reports_to_sklearn
from metricfast.training.checkpoint import CheckpointFile
from metricfast.training.fingerprint import params_of
from metricfast.training.history import History, Vector
from metricfast.training.model_selection import Candidates, select_training
from metricfast.training.objective import Evaluator, Objective
from metricfast.training.problem import Problem, Traits
from metricfast.training.samples import Samples, deduplicate_if_smaller
from metricfast.training.solvers import LBFGS, Solver, as_solver
from metricfast.training.stopping import HeldOut, as_stopping_rule, hold_out, naming_held_out
from metricfast.training.train import train

if TYPE_CHECKING:
    from typing_extensions import Self

_Method = TypeVar("_Method", bound=Callable[..., Any])


@dataclass(frozen=True)
class Given:
    """The unchanged arguments of `fit`."""

    X: Any
    y: Any
    sample_weight: Any = None
    X_database: Any = None
    y_database: Any = None
    classes: Any = None


@dataclass(frozen=True)
class Plan:
    """The checked parameters and arguments of a training.

    Attributes
    ----------
    solver : solver
    rule : HeldOut or None
    judge : Judge or None
    callbacks : list of callables
    checkpoint : str or None
        The path of the file.
    parts : tuple
        Copies of parameters that are objects, such as a loss or an embedding.
    in_memory : tuple of two str, or None
        The reason why all points must be in memory, and a remedy.
    validate : bool
        Whether to compare the fit with the Euclidean distance.
    evaluator : callable or None
        Computes the loss elsewhere, for example on a cluster.
    spans : bool
        Whether wide points may be trained on in their span: no other points will come.
    """

    solver: Solver
    rule: HeldOut | None
    judge: Judge | None
    callbacks: list[Callback]
    checkpoint: str | None
    parts: tuple[Any, ...] = ()
    in_memory: tuple[str, str] | None = None
    validate: bool = False
    evaluator: Evaluator | None = None
    spans: bool = True


class _OfMiniBatches:
    """Descriptor of a method that exists only for mini-batch solvers."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        update_wrapper(cast(Any, self), method)

    def __get__(self, learner: Any, owner: type) -> Any:
        if learner is not None and not learner._solver().by_batches:
            raise AttributeError(
                f"This {owner.__name__!r} has no attribute {self.method.__name__!r}: its solver, "
                f"{learner.solver!r}, needs all points. Set solver='adam'."
            )
        return self.method.__get__(learner, owner)


def for_mini_batches(method: _Method) -> _Method:
    """Expose a method only for mini-batch solvers."""
    return cast(_Method, _OfMiniBatches(method))


@dataclass(eq=False, repr=False, kw_only=True)
class TrainedLearner(CallbackMixin, ABC):
    """Base class of learners that minimise a problem iteratively.

    Subclasses define the abstract methods, and call the methods below in `fit` and `partial_fit`.
    """

    solver: Any = "adam"
    early_stopping: Any = False
    warm_start: bool = False
    callbacks: Any = None
    preprocessor: Any = None
    verbose: Verbosity = False
    random_state: Seed = None
    n_jobs: NumberOfJobs = None

    judge = cast(Any, None)  # not a parameter of all learners
    _traits = Traits()
    _weights_neighbors = False  # whether a weight of 2 equals a duplicate
    _solver_names: ClassVar[tuple[str, ...]] = ("lbfgs", "adam")
    _of_batches = cast(Any, {})  # parameters of mini-batch solvers that are given by name
    _reseeds = False  # whether `random_state` seeds the generator that draws the batches
    _training = cast(Any, None)  # state of `partial_fit`: history, initial vector, preconditioner
    if TYPE_CHECKING:
        _fitted: ClassVar[str]  # attribute that marks a fitted learner
        _state: ClassVar[tuple[str, ...]]  # attributes that a warm start continues from
        _validate_fit: ClassVar[Callable[..., None]]

    def _plan(self) -> Plan:
        """Check the parameters, and return the plan of the training."""
        take_renamed(self)
        check_parameters(self)
        rule, judge = as_stopping_rule(self.early_stopping), as_judge(self.judge)
        if rule is not None and isinstance(self.judge, Judge):
            raise ValueError(
                "judge and early_stopping both choose the iterations: set early_stopping=False or "
                "judge=None."
            )
        callbacks, checkpoint = as_callbacks(self.callbacks, warm_start=self.warm_start)
        judge = judge if rule is None else None
        solver, in_memory = self._solver(), None
        if not solver.by_batches:
            reason = f"{type(self).__name__} needs in memory with solver={self.solver!r}"
            in_memory = reason, "set solver='adam', which reads parts of it"
        return Plan(solver, rule, judge, callbacks, checkpoint, in_memory=in_memory)

    @property
    @abstractmethod
    def _lbfgs(self) -> LBFGS:
        """The solver "lbfgs" of the parameters."""

    def _solver(self) -> Solver:
        """Return the solver."""
        return as_solver(self.solver, self._lbfgs, self._solver_names, **self._of_batches)

    @abstractmethod
    def _load(self, plan: Plan, given: Given, kept: Any, *, reset: bool) -> Samples | None:
        """Check points and labels, and centre the points; return None if there is nothing to learn.

        `kept`: the result of `_earlier`, to continue from an earlier fit, or None.
        `reset`: whether to start a new fit, instead of continuing with points like those of the
            first call.
        """

    @abstractmethod
    def _problem(self, samples: Samples) -> Problem:
        """Return the problem to minimise."""

    @abstractmethod
    def _initialize(self, plan: Plan, samples: Samples, rng: RandomState, kept: Any) -> Any:
        """Return the initial parameters in the form of `_begin`, and set them as attributes."""

    @abstractmethod
    def _begin(
        self, plan: Plan, samples: Samples, initial: Any, rng: RandomState, start: str | None
    ) -> Objective:
        """Return the objective of samples at the initial parameters, or at a named start."""

    @abstractmethod
    def _candidates(self, plan: Plan, samples: Samples) -> Candidates | None:
        """Return the starts from which the judge chooses, or None if it need not choose."""

    def _earlier(self) -> list[Any] | None:
        """Return the attributes that a warm start continues from, or None before any fit."""
        found = [getattr(self, name, None) for name in self._state]
        return None if found[0] is None else found

    @abstractmethod
    def _set_map(self, objective: Objective, x: Vector) -> None:
        """Set the learned attributes from the solver's vector x."""

    def _set_fitted(self, objective: Objective, history: History, x: Vector, final: bool) -> None:
        """Set the fitted attributes for x: the result, or the current iteration."""
        self._set_map(objective, x)
        unit = objective.samples.unit
        self.loss_curve_ = np.multiply(history.curve, unit).tolist()
        if objective.traits.quantity == "objective":
            self.objective_ = unit * (history.best_objective if final else history.curve[-1])
        if objective.problem.store is not None:
            objective.problem.store(self, objective, x, final)
        self.n_iter_ = len(history.curve)
        if history.costs:
            self.validation_scores_ = [objective.score(cost) for cost in history.costs]
        if history.metrics is not None:
            self.history_ = {name: list(values) for name, values in history.metrics.values.items()}
            if history.costs:
                self.history_["validation_error"] = list(history.costs)

    @reports_to_sklearn
    def _fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, X_database: Any = None,
        y_database: Any = None, *, groups: Any = None, views: Any = None, validate: bool = False,
        evaluator: Evaluator | None = None,
    ) -> Self:  # fmt: skip
        """Fit. `evaluator` computes the loss elsewhere, for example on a cluster."""
        given = Given(X, y, sample_weight, X_database, y_database)
        plan = replace(
            self._plan(), validate=validate, evaluator=evaluator, spans=evaluator is None
        )
        if validate:
            in_memory = "validate=True needs in memory", "set validate=False"
            plan = replace(plan, in_memory=in_memory)
        kept = self._earlier() if self.warm_start else None
        self._training = None
        with forget_on_error(self), threads_of(self.n_jobs):
            samples = self._load(plan, given, kept, reset=True)
            assert samples is not None
            if groups is not None or views is not None:
                samples = _marked(samples, plan.rule, groups=groups, views=views)
            if samples.in_chunks and kept is None and isinstance(self.judge, Judge):
                raise ValueError("judge needs points in memory: set judge=None.")
            checkpoint = None
            if plan.checkpoint is not None:
                depends_on = params_of(self, plan.solver, self._traits.schedule)
                checkpoint = CheckpointFile(
                    plan.checkpoint, *samples.identity, *plan.parts, *depends_on
                )
            rng, rule, n = self._generator(checkpoint), plan.rule, samples.X.shape[0]
            train_samples, train_rows, test_rows, start, n_iter = samples, None, None, None, None
            if isinstance(rule, HeldOut):
                train_rows, test_rows = hold_out(rule.fraction, samples.X, samples.class_codes, rng)
                train_samples = samples.take(train_rows)
            if self._weights_neighbors and not plan.solver.by_batches:
                distinct = deduplicate_if_smaller(train_samples)
                if distinct is not train_samples and takes_weights(self._problem(distinct).loss):
                    train_samples = distinct
            with naming_held_out(test_rows, n):
                initial = self._initialize(plan, train_samples, rng, kept)
                if plan.judge is not None and kept is None and not samples.in_chunks:
                    candidates = self._candidates(plan, samples)
                    if candidates is not None:
                        start, n_iter, self.judgement_ = select_training(
                            candidates, samples, plan.judge, plan.solver
                        )
                objective = self._begin(plan, train_samples, initial, rng, start)
            objective.all_samples, objective.evaluator = samples, evaluator
            history = objective.history(rng)
            history.max_iter = n_iter
            if isinstance(rule, HeldOut):
                held_out = samples.validation(train_rows, test_rows)
                history.judge(partial(objective.cost, held_out), int(rule.patience))
            diverged = train(self, objective, history, plan.solver, plan.callbacks, checkpoint)
            objective.problem.finish(self, objective, history, diverged)
            keeps_last = objective.traits.keeps_last and samples.outer is None
            if plan.solver.by_batches and keeps_last and not history.costs:
                self._training = history, objective.x0, objective.preconditioner
        if validate:
            others = {
                "sample_weight": sample_weight, "X_database": X_database, "y_database": y_database,
                "groups": groups, "views": views,
            }  # fmt: skip
            others = {name: value for name, value in others.items() if value is not None}
            self._validate_fit(X, y, **others)
        return self

    def _generator(self, checkpoint: CheckpointFile | None = None) -> RandomState:
        """Return the random number generator that draws the batches."""
        if checkpoint is None:
            rng = check_random_state(self.random_state)
        else:
            rng = checkpoint.generator(self.random_state)
        return np.random.RandomState(rng.randint(2**31 - 1)) if self._reseeds else rng

    def _partial_fit(self, given: Given) -> Self:
        """Train for one epoch, continuing from the last call or from `fit`."""
        with threads_of(self.n_jobs):
            plan = replace(self._plan(), spans=False)
            refuse_partial(plan.rule, self.judge, plan.checkpoint)
            begun = hasattr(self, self._fitted)
            kept = self._earlier() if begun else None
            samples = self._load(plan, given, kept, reset=not begun)
            if samples is None:
                return self
            if self._training is None:
                rng = self._generator()
                initial = self._initialize(plan, samples, rng, kept)
                objective = self._begin(plan, samples, initial, rng, None)
                history = objective.history(rng)
                self._training = history, objective.x0, objective.preconditioner
            else:
                history, *continued = self._training
                objective = Objective(self._problem(samples), continued=tuple(continued))
                if history.metrics is not None:
                    history.metrics.follow(objective)
            history.restart(history.x)
            train(self, objective, history, plan.solver, plan.callbacks, epoch_from=objective.x0)
            return self


def _marked(samples: Samples, rule: HeldOut | None, **marks: Any) -> Samples:
    """Return samples with `groups` or `views`; raise ValueError if these have no effect."""
    found = check_marks(samples.X.shape[0], **marks)
    for name in found:
        if rule is not None:
            raise ValueError(
                f"early_stopping must be False with {name}: it holds out points of all {name}. "
                "The judge takes them into account."
            )
        if name == "views" and samples.database is not None:
            raise ValueError("views must be None with X_database, whose points have no views.")
    return replace(samples, marks=found)


def refuse_partial(rule: HeldOut | None, judge: Any, checkpoint: str | None) -> None:
    """Raise ValueError for what needs all points, which `partial_fit` does not support."""
    for name, given in (("early_stopping", rule), ("judge", judge)):
        if given is not None and not isinstance(given, str):
            raise ValueError(f"partial_fit needs {name} as it is by default.")
    if checkpoint is not None:
        raise ValueError("partial_fit takes no Checkpoint: save the learner instead.")


@contextmanager
def forget_on_error(learner: Any) -> Iterator[None]:
    """Reset a learner to unfitted if its fit fails. An interrupt keeps the current result."""
    try:
        yield
    except Exception:
        forget(learner)
        raise
