"""Base classes of learners that train a linear map iteratively."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from metricfast._core.initialize import as_given_map, check_n_components, initialize_components
from metricfast._core.parameters import NonNegativeFloat, PositiveInt
from metricfast._core.scaling import center_and_rescale
from metricfast._core.scatter import repetitions
from metricfast._core.types import Array, RandomState
from metricfast._core.wide_map import AnyMap, WideMap
from metricfast.learners.base.inputs import begin_fit, check_warm_start
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.trained import Given, Plan, TrainedLearner, for_mini_batches
from metricfast.selection._judge import JudgeParameter
from metricfast.training.history import Vector
from metricfast.training.model_selection import Candidates
from metricfast.training.objective import Objective
from metricfast.training.samples import Samples, as_classes, load_samples
from metricfast.training.solvers import LBFGS, Solver, check_solver_params
from metricfast.training.span import LazyBasis, trains_in_span
from metricfast.training.starts import DISCRIMINANTS, GIVEN_START, STANDARDIZED, begin_at
from metricfast.training.train import warn_of_cost

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(eq=False, repr=False, kw_only=True)
class LinearLearner(TrainedLearner, MahalanobisMixin):
    """Base class of learners that minimise a loss of linearly mapped points.

    Subclasses define `_problem`, which returns the problem to minimise. Subclasses without one of
    the parameters `max_iter`, `tol` and `init_scale` use the default value. `NCA` describes them.
    """

    init: str | Array = "auto"
    n_components: int | None = None
    solver: Any = "lbfgs"

    max_iter = 100
    tol = cast("float | None", None)
    init_scale = cast('Literal["auto"] | None', None)

    _requires_y = True
    _state = ("components_",)
    _lbfgs_params: ClassVar[tuple[str, ...]] = ("max_iter", "tol")  # those that only "lbfgs" has
    # Converts y to classes, labels and unit.
    _target = cast(Any, staticmethod(as_classes))
    _accept_sparse: ClassVar[str | bool] = "csr"
    _keeps_points = False  # whether `Samples.given` is needed
    _selects_shortest = True  # prefer fewest iterations among equally good settings
    _min_class_size = 2  # minimum number of training points per class
    _selects_batches = False  # whether judge="auto" also judges mini-batch solvers
    _batches_in_span = False  # whether mini-batch solvers train in the span of wide points
    _learns_matrix = False  # whether the parameter is the matrix M, not the map
    _exponent = 0

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        views: ArrayLike | None = None,
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
        groups, views : array-like of shape (n_samples,), optional
        validate : bool, default=False
            All as for :meth:`LFDA.fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used, or a checkpoint belongs to
            another training.
        """
        return self._fit(X, y, sample_weight, groups=groups, views=views, validate=validate)

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
        return self._partial_fit(Given(X, y, sample_weight))

    def _plan(self) -> Plan:
        plan = super()._plan()
        check_solver_params(self, plan.solver, lbfgs=self._lbfgs_params)
        if isinstance(self.judge, str) and plan.solver.by_batches and not self._selects_batches:
            return replace(plan, judge=None)
        return plan

    def _load(self, plan: Plan, given: Given, kept: Any, *, reset: bool) -> Samples:
        if reset:
            begin_fit(self)
        samples = load_samples(
            self, given.X, given.y, given.sample_weight,
            exponent=None if reset else self._exponent, in_memory=plan.in_memory,
            keep=self._keeps_points, accept_sparse=self._accept_sparse, target=self._target,
        )  # fmt: skip
        self._exponent = samples.exponent
        X = samples.X
        n, d = X.shape
        in_span = self._batches_in_span and not self._learns_matrix
        by_batches = plan.solver.by_batches and not in_span
        if samples.in_chunks or by_batches or not plan.spans:
            return samples
        # A weighted point counts as repeated.
        if not trains_in_span(max(n, repetitions(samples.weight, n).sum()), d):
            return samples
        if issparse(X) and self._n_rows(d) >= n:
            # A map of so many rows takes as much memory as the points in an array.
            X, exponent = center_and_rescale(X.toarray())
            samples = replace(samples, X=X, exponent=samples.exponent + exponent)
        return replace(samples, span=None if issparse(X) else LazyBasis(X))

    def _initialize(self, plan: Plan, samples: Samples, rng: RandomState, kept: Any) -> Any:
        if plan.evaluator is None:
            n, d = samples.X.shape
            rows, width = self._n_rows(d), d
            if samples.span is not None:
                rows, width = min(rows, n), n
            self._warn_of_cost((rows, width), n, samples, plan.solver)
        L = self._initial_map(samples, rng, None if kept is None else kept[0])
        self.components_ = samples.undo_scale(L)  # set early, for interrupts
        return L, kept is None

    def _warn_of_cost(
        self, shape: tuple[int, int], n: int, samples: Samples, solver: Solver
    ) -> None:
        """Warn before a training that may take minutes. `shape`: the shape of the map."""
        if not solver.by_batches:
            warn_of_cost([shape], n, n, n, solver, self.n_jobs)

    def _begin(
        self, plan: Plan, samples: Samples, initial: Any, rng: RandomState, start: str | None,
        chosen: dict[str | None, tuple[int, float]] | None = None,
    ) -> Objective:  # fmt: skip
        (L, new), problem = initial, self._problem(samples)
        if getattr(problem.loss, "of_inner_products", False):
            raise ValueError(
                f"{type(problem.loss).__name__} is a loss of inner products, which depend on the "
                "origin; a metric does not. Use EmbeddingLearner with Linear(normalize=True), or a "
                "loss of distances."
            )
        named = new and isinstance(self.init, str)
        searches = new if plan.solver.by_batches else named and self.init_scale == "auto"
        return begin_at(
            problem, samples, L, rng, start, plan.solver, rescales=named, searches=searches,
            chosen=chosen,
        )  # fmt: skip

    def _candidates(self, plan: Plan, samples: Samples) -> Candidates | None:
        chosen: dict[str | None, tuple[int, float]] = {}  # the same scales on all splits

        def begin(part: Samples, name: str | None) -> Objective:
            rng = np.random.RandomState(0)  # the same map on all splits
            L = self._initial_map(part, rng, None, quiet=True)
            return self._begin(plan, part, (L, True), rng, name, chosen)

        names: list[str | None] = [None]
        auto, n_features = isinstance(self.init, str) and self.init == "auto", samples.X.shape[1]
        # The search of a scale also tries standardised features.
        if auto and self.n_components in (None, n_features) and self.init_scale != "auto":
            names.append(STANDARDIZED)
        narrow = n_features <= 500  # a discriminant start takes cubic time
        contest = list(DISCRIMINANTS) if auto and self._has_classes and narrow else []
        return Candidates(
            begin, names, GIVEN_START if auto else None, contest, self._min_class_size,
            shortest=self._selects_shortest,
        )  # fmt: skip

    def _initial_map(
        self, samples: Samples, rng: RandomState, warm: Array | None, *, quiet: bool = False
    ) -> AnyMap:
        """Return the map of `init`, or of an earlier fit; `quiet`: without a warning of its size.

        If the points have a span, the identity is a `WideMap`.
        """
        init, n_features = as_given_map(self.init), samples.X.shape[1]
        n_rows = self._n_rows(n_features)
        identity = warm is None and isinstance(init, str) and init in ("auto", "identity")
        if identity and samples.span is not None and n_rows == n_features:
            return WideMap(np.ones(n_features), dtype=samples.X.dtype)
        L = initialize_components(
            samples.X, samples.labels if self._has_classes else None, init, n_rows, rng,
            verbose=bool(self.verbose), sample_weight=samples.weight,
        )  # fmt: skip
        if warm is not None:
            shape = (n_features, n_features) if self._learns_matrix else L.shape
            check_warm_start([warm], [shape])
            return samples.rescale_map(warm, quiet=quiet)
        return samples.rescale_map(L, quiet=quiet) if isinstance(init, np.ndarray) else L

    def _n_rows(self, n_features: int) -> int:
        """Return the number of rows of the map."""
        init = as_given_map(self.init)
        if isinstance(init, np.ndarray) and init.ndim == 2 and self.n_components is None:
            return len(init)
        return check_n_components(n_features, self.n_components)

    @property
    def _lbfgs(self) -> LBFGS:
        return LBFGS(self.max_iter, self.tol)

    def _set_map(self, objective: Objective, x: Vector) -> None:
        (self.components_,) = objective.learned(x)


@dataclass(eq=False, repr=False, kw_only=True)
class AllPairsLearner(LinearLearner):
    """Base class of learners whose losses compare all pairs of points."""

    max_iter: PositiveInt = 100
    tol: NonNegativeFloat | None = None
    judge: JudgeParameter = "auto"
    init_scale: Literal["auto"] | None = "auto"

    _weights_neighbors = True
