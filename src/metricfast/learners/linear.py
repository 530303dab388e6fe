"""Learners of a linear map that is trained iteration by iteration."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.arguments import check_random_state
from metricfast._core.parameters import (
    NonNegativeFloat,
    PositiveInt,
    TrainingParameters,
    check_parameters,
    take_renamed,
)
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.warn import ignored, warn_user
from metricfast.learners.base.inputs import forget
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.base.validation import naming_held_out
from metricfast.learners.closed.lfda import LFDA
from metricfast.training.callbacks import (
    CallbackMixin,
    OpenCheckpoint,
    as_callbacks,
    reports_to_sklearn,
)
from metricfast.training.chunks import why_in_memory
from metricfast.training.dataset import (
    Dataset,
    Target,
    as_classes,
    deduplicate_if_smaller,
    load_dataset,
)
from metricfast.training.fingerprint import params_of
from metricfast.training.history import History, Vector
from metricfast.training.initialization import Initialization
from metricfast.training.linear_problem import LinearProblem
from metricfast.training.model_selection import select_training
from metricfast.training.objective import Evaluator
from metricfast.training.solvers import (
    LBFGS,
    MiniBatchSolver,
    Solver,
    as_solver,
    check_solver_params,
)
from metricfast.training.span import span_of
from metricfast.training.stopping import CrossValidated, HeldOut, as_stopping_rule, hold_out
from metricfast.training.train import Observers, train

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "AllPairsLearner",
    "LinearLearner",
    "for_mini_batches",
    "forget_on_error",
    "refuse_partial",
    "warn_without_slope",
]

_Method = TypeVar("_Method", bound=Callable[..., Any])


class _OfMiniBatches:
    """Descriptor of a method that exists only if the solver takes mini-batches."""

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
    """Expose a method only for solvers that take mini-batches."""
    return cast(_Method, _OfMiniBatches(method))


@dataclass(eq=False, repr=False, kw_only=True)
class LinearParameters(TrainingParameters):
    """The parameters of all learners of a linear map, which `NCA` describes."""

    init: str | Array = "auto"
    n_components: int | None = None
    solver: Any = "lbfgs"


class LinearLearner(CallbackMixin, LinearParameters, MahalanobisMixin):
    """Base class of learners of a linear map by a loss of the mapped points.

    A learner defines `_problem`, which returns what to minimise. A learner without one of the
    parameters below uses their values.
    """

    _requires_y = True

    init_scale: str | None = None
    max_iter: int = 100
    min_iter: int = 0
    tol: float | None = None

    _solver_names: tuple[str, ...] = ("lbfgs", "adam")
    _tolerance = "tol"  # the parameter that is the tolerance of "lbfgs"
    _target: Target = staticmethod(as_classes)  # returns classes, labels and unit of y
    _accept_sparse: str | bool = "csr"
    _keeps_points = False  # whether `Dataset.given` is needed
    _selects_shortest = True  # among settings without a significant difference
    _min_class_size: int = 2  # points of a class that a training needs
    _weights_neighbors = False  # whether a duplicate is the same as a point of weight 2
    _selects_batches = False  # whether "auto" chooses by folds for mini-batches too
    _training: Any = None  # where `partial_fit` continues
    _exponent: int = 0

    @abstractmethod
    def _problem(self, data: Dataset) -> LinearProblem:
        """Return what to minimise."""

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
    ) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or (n_samples,) with a \
                preprocessor
            Points, in float32 or float64. Other dtypes become float64. With mini-batches, X may be
            a source that does not fit into memory, such as a memory map.
        y : array-like of shape (n_samples,)
            Class labels of at least two classes. `MLKR` takes numbers, not all equal.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of points, as anchors and as neighbours. With "lbfgs", whole
            numbers mean the same as repeated points. `LMNN` and gerrymandering weight anchors only.
        validate : bool, default=False
            Also fit a clone to four fifths of the points, compare the errors of 3 nearest
            neighbours in the learned and in the Euclidean distance on the others, store the numbers
            in `validation_`, and warn if the learned distance is worse.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used, or a checkpoint belongs to
            another training.
        """
        return self._fit(X, y, sample_weight, validate=validate)

    @reports_to_sklearn
    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None,
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
        evaluator: Evaluator | None = None,
    ) -> Self:
        """Learn the map. `evaluator` computes the loss elsewhere, such as on a cluster."""
        solver, rule, callbacks = self._check_parameters()
        warm = self.components_ if self.warm_start and hasattr(self, "components_") else None
        self._training = None
        with forget_on_error(self):
            data = _load(self, X, y, sample_weight, solver, validate=validate)
            whole = solver.by_batches or evaluator is not None or data.weight is not None
            if not whole:  # a point of weight 2 is the same as two points
                data = replace(data, span=span_of(data.X))
            checkpoint = OpenCheckpoint(
                callbacks, self.random_state, data.X, data.labels, data.weight,
                *params_of(self, solver, LinearProblem.schedule),
            )  # fmt: skip
            rng, test_rows = checkpoint.rng, None
            train_rows: Any = slice(None)
            if isinstance(rule, HeldOut):
                classes = data.labels if data.has_classes else None
                train_rows, test_rows = hold_out(rule.fraction, data.X, classes, rng)
            train_data = data if test_rows is None else data.take(train_rows)
            if self._weights_neighbors and not solver.by_batches:
                train_data = deduplicate_if_smaller(train_data)
            initialization = self._initialization(solver, warm)
            start, n_iter = None, None
            with naming_held_out(test_rows, data.X.shape[0]):
                L = initialization.initial_map(train_data, rng)
                self.components_ = train_data.undo_scale(L)  # in case of an interrupt
                if isinstance(rule, CrossValidated) and warm is None:
                    start, n_iter = select_training(
                        self,
                        data,
                        rule,
                        solver,
                        initialization,
                        required=self.early_stopping != "auto",
                    )
                problem = self._problem(train_data)
                problem.all_data, problem.initial_map = data, L
                problem.evaluator = evaluator
                x0 = initialization.start(problem, train_data, L, rng, start)
            history = problem.history(x0, rng)
            history.max_iter = n_iter
            if test_rows is not None:
                validation = problem.coordinates(data).validation(train_rows, test_rows)
                error = partial(_validation_error, problem, validation)
                history.judge(error, int(rule.patience))
            batches = problem.batches(history.rng, solver.batch_size) if solver.by_batches else None
            observers = _observers(self, problem, history, callbacks, checkpoint)
            train(problem, history, solver, observers, batches)
            self._finish(problem, history)
        if validate:
            self._validate_fit(X, y, sample_weight=sample_weight)
        return self

    @for_mini_batches
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train for one epoch, from where the last call, or `fit`, has ended.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Points, which are compared with each other. Later calls use the units of the first.
        y : array-like of shape (n_samples,)
            Labels, as for `fit`. Each call may bring other classes.
        classes : array-like, optional
            Ignored; scikit-learn's classifiers take it.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As for `fit`; and with `early_stopping` or a checkpoint, which need all points.
        """
        solver, rule, callbacks = self._check_parameters()
        refuse_partial(None if isinstance(self.early_stopping, str) else rule, callbacks)
        assert isinstance(solver, MiniBatchSolver)
        warm = getattr(self, "components_", None)
        exponent = None if warm is None else self._exponent
        data = _load(self, X, y, sample_weight, solver, exponent)
        if warm is not None and self._training is not None:
            history, preconditioner, x0 = self._training
            problem = self._problem(data)
            problem.preconditioner = preconditioner
        else:
            rng = check_random_state(self.random_state)
            initialization = self._initialization(solver, warm)
            L = initialization.initial_map(data, rng)
            problem = self._problem(data)
            x0 = initialization.start(problem, data, L, rng)
            history = problem.history(x0, rng)
            self._training = history, problem.preconditioner, x0
        history.restart(history.x)
        if history.metrics is not None:
            history.metrics.follow(problem, data.weight)
        batches = problem.batches(history.rng, solver.batch_size)
        observers = _observers(self, problem, history, callbacks)
        train(problem, history, solver, observers, batches, epoch_from=x0)
        return self

    def _check_parameters(self) -> tuple[Solver, Any, list[Any]]:
        """Check the parameters; return solver, stopping rule and callbacks."""
        take_renamed(self)
        check_parameters(self)
        self._lbfgs.check()
        rule, solver = as_stopping_rule(self.early_stopping), self._solver()
        solver.check()
        check_solver_params(self, solver, lbfgs=self._lbfgs_params)
        by_default = isinstance(self.early_stopping, str)
        if by_default and solver.by_batches and not self._selects_batches:
            rule = None
        return solver, rule, as_callbacks(self.callbacks, warm_start=self.warm_start)

    def _solver(self) -> Solver:
        """Return the solver."""
        return as_solver(self.solver, self._lbfgs, self._solver_names)

    @property
    def _lbfgs_params(self) -> tuple[str, ...]:
        return "max_iter", "min_iter", self._tolerance

    @property
    def _lbfgs(self) -> LBFGS:
        return LBFGS(self.max_iter, getattr(self, self._tolerance), self.min_iter)

    def _initialization(self, solver: Solver, warm: Array | None) -> Initialization:
        return Initialization(
            self.init, self.n_components, self.init_scale, self._has_classes, solver.by_batches,
            getattr(solver, "batch_size", None), partial(_discriminant, self.n_jobs),
            bool(self.verbose), warm,
        )  # fmt: skip

    def _set_fitted(self, problem: LinearProblem, history: History, x: Vector, final: bool) -> None:
        """Set the fitted attributes of x: the result, or the present iteration."""
        data = problem.data
        self.components_ = data.undo_scale(problem.full_map(x))
        self.objective_ = data.unit * (history.best_objective if final else history.curve[-1])
        self.loss_curve_ = [value * data.unit for value in history.curve]
        self.n_iter_ = len(history.curve)
        if history.costs:
            sign = 1.0 if data.has_classes else 0.0
            self.validation_scores_ = [sign - cost for cost in history.costs]

    def _finish(self, problem: LinearProblem, history: History) -> None:
        """Warn if the result is of no use."""
        warn_without_slope(problem, history)


@dataclass(eq=False, repr=False, kw_only=True)
class AllPairsLearner(LinearLearner):
    """Base class of learners whose losses compare all pairs of points."""

    max_iter: PositiveInt = 100
    tol: NonNegativeFloat | None = None
    early_stopping: Any = "auto"
    init_scale: Literal["auto"] | None = "auto"

    _weights_neighbors = True


def _load(
    learner: LinearLearner, X: Any, y: Any, sample_weight: Any, solver: Solver,
    exponent: int | None = None, *, validate: bool = False,
) -> Dataset:  # fmt: skip
    data = load_dataset(
        learner, X, y, sample_weight, exponent=exponent,
        in_memory=why_in_memory(learner, solver.by_batches, validate), keep=learner._keeps_points,
        accept_sparse=learner._accept_sparse, target=learner._target,
    )  # fmt: skip
    learner._exponent = data.exponent
    return data


def _observers(
    learner: LinearLearner,
    problem: LinearProblem,
    history: History,
    callbacks: list[Any],
    checkpoint: OpenCheckpoint | None = None,
) -> Observers:
    data = problem.data
    return Observers(
        learner, lambda x, final: learner._set_fitted(problem, history, x, final),
        lambda x: [data.undo_scale(problem.full_map(x))], callbacks, checkpoint,
        unit=data.unit, score=(lambda cost: 1 - cost) if data.has_classes else float.__neg__,
    )  # fmt: skip


def refuse_partial(rule: Any, callbacks: list[Any]) -> None:
    """Raise ValueError for early stopping and checkpoints, which `partial_fit` cannot have."""
    if rule is not None:
        raise ValueError("partial_fit needs early_stopping as it is by default.")
    if any(not callable(each) for each in callbacks):
        raise ValueError("partial_fit takes no Checkpoint: save the learner instead.")


@contextmanager
def forget_on_error(learner: Any) -> Iterator[None]:
    """Leave a learner unfitted if its fit fails. An interrupt leaves what is learned so far."""
    try:
        yield
    except Exception:
        forget(learner)
        raise


def warn_without_slope(problem: LinearProblem, history: History) -> None:
    """Warn if the solver found no slope at the initial map."""
    excess = history.best_objective - problem.lower_bound
    stayed = np.array_equal(history.best_x, history.start)
    if stayed and history.max_iter is None and excess > 1e-3 * abs(problem.lower_bound):
        warn_user(
            "The objective has no slope at the initial map, so nothing was learned. If that map is "
            "not a minimum already, rescale the points (StandardScaler), choose another `init` or "
            "solver='adam', or lower `tol`.",
            ConvergenceWarning,
        )


def _discriminant(
    n_jobs: int | None, X: Array, classes: Integers, weight: Floats | None, n_rows: int
) -> Array:
    with ignored(UserWarning):  # fit has warned of y
        return LFDA(n_rows, n_jobs=n_jobs).fit(X, classes, weight).components_


def _validation_error(problem: LinearProblem, validation: Any, x: Vector) -> float:
    return problem.validation_error(x, *validation)
