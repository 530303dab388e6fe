"""The base of learners of any embedding: how their parts are trained."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.arguments import (
    check_random_state,
    check_unused,
)
from metricfast._core.parameters import PositiveInt, TrainingParameters, check_parameters
from metricfast._core.types import Array, RandomState
from metricfast._core.warn import warn_user
from metricfast._labels.binding import agreed, bind_labels, is_precomputed
from metricfast._labels.distance import LabelDistance
from metricfast.embeddings import Embedding, Linear
from metricfast.learners.base.inputs import forget
from metricfast.learners.base.validation import naming_held_out
from metricfast.learners.embedding.input import (
    LabelledPoints,
    check_database,
    check_parts,
    load_points,
    share_label_distance,
)
from metricfast.learners.embedding.metric import EmbeddedMetricMixin, embed
from metricfast.learners.linear import for_mini_batches, refuse_partial
from metricfast.losses._call import Loss
from metricfast.samplers import Sampler
from metricfast.training.adapters import initial_parameters
from metricfast.training.callbacks import (
    CallbackMixin,
    OpenCheckpoint,
    as_callbacks,
    reports_to_sklearn,
)
from metricfast.training.chunks import mean_of, rows_of, subtract_mean, why_in_memory
from metricfast.training.embedding_problem import EmbeddingProblem
from metricfast.training.fingerprint import fingerprint, params_of
from metricfast.training.history import History, Vector
from metricfast.training.objective import Evaluator, is_continuous, is_learnable
from metricfast.training.preconditioner import flat
from metricfast.training.solvers import (
    LBFGS,
    MiniBatchSolver,
    Solver,
    as_solver,
    check_solver_params,
)
from metricfast.training.steps import RISE
from metricfast.training.stopping import HeldOut, as_stopping_rule, hold_out
from metricfast.training.train import Observers, train

__all__ = ["BaseEmbeddingLearner"]

# Rows of this length or less are zero where rows are normalized, and have no gradient.
_LEAST = 1e-12


@dataclass(eq=False, repr=False, kw_only=True)
class EmbeddingParameters(TrainingParameters, EmbeddedMetricMixin):
    """The parameters of all learners of an embedding, which `EmbeddingLearner` describes."""

    learning_rate: float | None = None
    max_epochs: PositiveInt = 50


class BaseEmbeddingLearner(CallbackMixin, EmbeddingParameters):
    """Base of learners of any embedding.

    A learner defines `_parts`, which returns loss, embedding and sampler. A learner without one of
    the parameters below uses their values.
    """

    _requires_y = True
    _solver_names = ("adam", "adamw", "sgd", "lbfgs")
    _sampler_params: tuple[str, ...] = ("sampler",)

    batch_size: int | None = None
    database: str = "batch"
    candidate_fraction: float | None = None
    proxy_lr_factor: float = 1.0
    label_distance: Any = None

    @abstractmethod
    def _parts(self) -> tuple[Any, Embedding, Sampler]:
        """Return loss, embedding and sampler."""

    def fit(
        self, X: Any, y: Any = None, X_database: Any = None, y_database: Any = None, *,
        validate: bool = False,
    ) -> BaseEmbeddingLearner:  # fmt: skip
        """Learn the embedding.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or (n_samples,) with a \
                preprocessor
            Points, in float32 or float64. Other dtypes become float64. With mini-batches, X may be
            a source that does not fit into memory, such as a memory map.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), or sequence of objects
            Class labels, of at least two classes; or tags, of which a point may have several, in
            place of classes: a sparse matrix of zeros and ones, or booleans of shape (n_samples,
            n_tags), for losses with `takes_tags`; or labels, not all equal, where the loss is one
            of continuous labels: numbers, or whatever the label distance takes.
        X_database : {array-like, sparse matrix} of shape (n_database, n_features_database), \
                optional
            Points that the queries X are compared with, in the loss and later in searches. They are
            held in memory. With an `embedding` `Asymmetric` they may have other features, such as
            texts where X holds images. By default the points are their own database.
        y_database : array-like of shape (n_database,) or (n_database, n_labels), or sequence of \
                objects, optional
            Labels of the database, given with `X_database`. If label distances are precomputed,
            leave it out: y has shape (n_samples, n_database).
        validate : bool, default=False
            Also fit a clone to four fifths of the points, `score` it on the others as queries among
            those, as well as the points as they were given, store the numbers in `validation_`, and
            warn if it is worse.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used, or a checkpoint belongs to
            another training.
        ImportError, FileNotFoundError
            If there is a checkpoint without the package safetensors, or in a folder that does not
            exist; before training.

        Warns
        -----
        ConvergenceWarning
            If training diverged: the last parameters with a finite loss are kept. If the loss has
            risen more than tenfold since the first step, without early stopping. With "lbfgs": if
            it ended before convergence.
        UserWarning
            With `validate`, if the embedding is worse than none.
        """
        return self._fit(X, y, X_database, y_database, validate=validate)

    @reports_to_sklearn
    def _fit(
        self, X: Any, y: Any, X_database: Any = None, y_database: Any = None, *,
        validate: bool = False, evaluator: Evaluator | None = None,
    ) -> BaseEmbeddingLearner:  # fmt: skip
        """Learn the embedding. `evaluator` computes the loss elsewhere, such as on a cluster."""
        solver, rule, callbacks, (loss, embedding, sampler) = self._check_parameters()
        self._check_database(loss, X_database, y_database)
        kept = _earlier_fit(self) if self.warm_start else None
        forget(self)
        self._training = None
        said = self._said_label_distance
        needed = why_in_memory(self, solver.by_batches, validate)
        data = load_points(self, X, y, loss, embedding, X_database, y_database, needed=needed)
        distance = data.distance
        if validate and X_database is not None:
            _check_comparison(data, said)
        if validate and issparse(data.y):
            raise ValueError(
                "validate must be False where y holds tags: hold points out, and judge their "
                "embedding by metricfast.metrics.retrieval_report, which prints chance."
            )
        labels = y if is_precomputed(said) else data.y
        depends_on = data.X, labels, data.X_database, data.y_database, loss, embedding, sampler
        checkpoint = OpenCheckpoint(
            callbacks, self.random_state, *depends_on,
            *params_of(self, solver, EmbeddingProblem.schedule),
        )  # fmt: skip
        rng = np.random.RandomState(checkpoint.rng.randint(2**31 - 1))
        share_label_distance(distance, loss, sampler, said)
        data = self._centred(data, embedding, None if kept is None else kept[1])
        n, held_out, test = data.X.shape[0], None, None
        if rule is not None:
            train_rows, test = hold_out(rule.fraction, data.X, data.classes, rng)
            held_out = data.X[test], data.y[test]
            data = replace(data, X=rows_of(data.X, train_rows), y=data.y[train_rows])
        start = self._initialize(data, loss, embedding, rng, kept and kept[0])
        problem = self._problem(data, loss, start)
        problem.evaluator = evaluator
        with naming_held_out(test, n):
            problem.check_size(solver.by_batches)
        history = History(flat(start), rng=rng)
        if held_out is not None and rule is not None:
            sample: tuple[Any, Any] = data.X_database, data.y_database
            if data.X_database is None:
                sample = data.representative
            cost = partial(_validation_cost, self, problem, held_out, sample, distance)
            history.judge(cost, int(rule.patience))
        batches: Any = None
        if isinstance(solver, MiniBatchSolver):
            seed = rng.randint(2**31 - 1)
            batches = problem.batches(sampler, history.rng, solver.batch_size, seed)
        else:
            problem.add_decay()
        diverged = self._train(problem, history, solver, callbacks, batches, checkpoint)
        if (
            not diverged
            and not history.costs
            and 0 < RISE * history.first < (history.curve or [0.0])[-1]
        ):
            warn_user(
                f"The loss has risen from {history.first:.3g} to {history.curve[-1]:.3g}: "
                "training diverged. Lower learning_rate.",
                ConvergenceWarning,
            )
        if validate:
            self._validate_fit(X, y, X_database=X_database, y_database=y_database)
        return self

    @for_mini_batches
    def partial_fit(
        self, X: Any, y: ArrayLike, classes: ArrayLike | None = None, *, X_database: Any = None,
        y_database: Any = None,
    ) -> BaseEmbeddingLearner:  # fmt: skip
        """Train for one epoch on some points, from where the last call, or `fit`, has ended.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The mean of the points of the first call is subtracted from all.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), or sequence of objects
        classes : array-like of shape (n_classes,), optional
            All classes there will be, for the first call of a loss with proxies, such as
            `ProxyNCA`; by default the classes of `y`. Other losses accept new classes in any call.
        X_database, y_database : array-like, optional
            As for `fit`, in every call or in none.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As for `fit`; for early stopping, a checkpoint and "cosine", which need all points or
            the number of epochs; for classes without a proxy; and for another solver, embedding or
            kind of loss or labels than before.

        Warns
        -----
        UserWarning
            If all continuous labels of a later call are the same: nothing is learned from it.
        """
        solver, rule, callbacks, parts = self._check_parameters()
        loss, embedding, sampler = parts
        self._check_database(loss, X_database, y_database)
        refuse_partial(rule, callbacks)
        assert isinstance(solver, MiniBatchSolver)
        if solver.schedule == "cosine":
            raise ValueError("partial_fit needs a solver with schedule 'constant' or 'inverse'.")
        begun = hasattr(self, "parameters_")
        if begun:
            _check_continuation(self, solver, loss, embedding, X_database is not None)
        data = load_points(
            self, X, y, loss, embedding, X_database, y_database, classes=classes, reset=not begun
        )
        X, distance = data.X, data.distance
        alone = data.X_database is None
        if begun and alone and distance is not None and distance.all_zero(data.y):
            warn_user(
                "All labels of this call are the same, so they have no distances: nothing "
                "is learned from it. Give more points at a time."
            )
            return self
        data = self._centred(data, embedding, self._means() if begun else None)
        share_label_distance(distance, loss, sampler, self._said_label_distance)
        if begun:
            start = [*self.parameters_, *([self.proxies_] if is_learnable(loss) else [])]
            start = [array.astype(X.dtype, copy=False) for array in start]
        else:
            rng = np.random.RandomState(check_random_state(self.random_state).randint(2**31 - 1))
            start = self._initialize(data, loss, embedding, rng)
        problem = self._problem(data, loss, start)
        history = self._training
        if history is None or history.x.dtype != X.dtype:
            seed = check_random_state(self.random_state).randint(2**31 - 1)
            history = History(flat(start), rng=np.random.RandomState(seed))
        batches = problem.batches(sampler, history.rng, solver.batch_size)
        self._train(problem, history, solver, callbacks, batches, epoch=True)
        return self

    def _train(
        self, problem: EmbeddingProblem, history: History, solver: Solver, callbacks: list[Any],
        batches: Any, checkpoint: OpenCheckpoint | None = None, epoch: bool = False,
    ) -> bool:  # fmt: skip
        """Run the solver, or a single epoch; return whether the training diverged."""
        n_own = len(problem.embedding.decays(0.0))
        observers = Observers(
            self, lambda x, final: self._set_fitted(problem, history, x),
            lambda x: problem.parameters(x)[:n_own], callbacks, checkpoint, quantity="loss",
        )  # fmt: skip
        epoch_from = history.x if epoch else None
        try:
            diverged = train(problem, history, solver, observers, batches, epoch_from=epoch_from)
        finally:
            history.cost = None
            self._training = history
        if not diverged and problem.n_infeasible:
            warn_user(
                f"No set of n_neighbors={problem.loss.loss.n_neighbors} neighbours in a batch is "
                f"right for {problem.n_infeasible / problem.n_queries:.2%} of the queries, which "
                "are left out of the loss: raise batch_size, choose a sampler of more points of a "
                "class, set database='all', or lower n_neighbors."
            )
        return diverged

    def _check_parameters(
        self,
    ) -> tuple[Solver, HeldOut | None, list[Any], tuple[Any, Embedding, Sampler]]:
        """Check the parameters; return solver, stopping rule, callbacks and copies of the parts."""
        check_parameters(self)
        solver = self._solver()
        check_solver_params(
            self, solver, lbfgs=["max_epochs"],
            by_batches=["max_epochs", "learning_rate", "batch_size"],
        )  # fmt: skip
        if not solver.by_batches:
            check_unused(
                self, self._sampler_params, f"with solver={self.solver!r}, which draws no batches"
            )
        loss, embedding, sampler = self._parts()
        check_parts(
            loss, embedding, sampler, database=self.database, by_batches=solver.by_batches,
            candidate_fraction=self.candidate_fraction,
        )  # fmt: skip
        if not is_learnable(loss):
            check_unused(self, ["proxy_lr_factor"], "unless the loss learns proxies")
        rule, callbacks = (
            as_stopping_rule(self.early_stopping, folds=False),
            as_callbacks(self.callbacks, warm_start=self.warm_start),
        )
        assert rule is None or isinstance(rule, HeldOut)
        parts = clone(loss, safe=False), clone(embedding), clone(sampler, safe=False)
        return solver, rule, callbacks, parts

    def _solver(self) -> Solver:
        """Return the solver."""
        return as_solver(
            self.solver, LBFGS(self.max_epochs), self._solver_names, max_epochs=self.max_epochs,
            learning_rate=self.learning_rate, batch_size=self.batch_size,
        )  # fmt: skip

    @property
    def _has_classes(self) -> bool:  # type: ignore[override]
        return not is_continuous(self._parts()[0])

    @property
    def _said_label_distance(self) -> Any:
        """The label distance that the learner, the loss or the sampler names."""
        loss, _, sampler = self._parts()
        parts = {"the learner": self, "loss": loss, "sampler": sampler}
        said = agreed({name: getattr(part, "label_distance", None) for name, part in parts.items()})
        own = not isinstance(loss, Loss)  # one of the user's may do as it likes
        if said is not None and not (
            is_continuous(loss) and (own or hasattr(loss, "label_distance"))
        ):
            raise ValueError(
                f"label_distance must be None with {type(loss).__name__}, which compares no "
                f"distances of labels: found {said!r}. Choose another loss, such as LogRatio."
            )
        return said

    def _bind_labels(
        self, y: Any, y_database: Any = None, sizes: tuple[int, int] | None = None
    ) -> tuple[LabelDistance, Array, Array]:
        """Return the distance of continuous labels, and the labels as it takes them."""
        said = self._said_label_distance
        if said is None:
            said = getattr(self._parts()[0], "_default_label_distance", "euclidean")
            said = said.removeprefix("sq")  # scores are in the unit of the labels
        return bind_labels(said, y, y_database, sizes=sizes)

    def _check_database(self, loss: Any, X_database: Any, y_database: Any) -> None:
        precomputed = is_precomputed(self._said_label_distance)
        check_database(loss, X_database, y_database, precomputed, self.candidate_fraction)

    def _problem(self, data: LabelledPoints, loss: Any, start: list[Array]) -> EmbeddingProblem:
        return EmbeddingProblem(
            data.X, data.y, loss, self.embedding_, start, database=self.database,
            candidate_fraction=self.candidate_fraction, n_jobs=self.n_jobs,
            n_classes=len(getattr(self, "classes_", ())), proxy_lr_factor=self.proxy_lr_factor,
            X_database=data.X_database, y_database=data.y_database,
        )  # fmt: skip

    def _means(self) -> tuple[Array, Array]:
        return self._mean("query"), self._mean("database")

    def _centred(
        self, data: LabelledPoints, embedding: Embedding, means: tuple[Array, Array] | None
    ) -> LabelledPoints:
        """Subtract the mean of each side, and set it. `means`: the means of an earlier fit.

        One embedding of both sides has one mean, the database's.
        """
        X, database = data.X, data.X_database
        sides = [X] if database is None else [X, database]
        if means is None or [len(mean) for mean in means][: len(sides)] != [
            side.shape[1] for side in sides
        ]:
            found = [
                np.zeros(X.shape[1], X.dtype) if issparse(X) else mean_of(X).astype(X.dtype)
                for X in sides
            ]
            if not embedding.asymmetric and len(sides) == 2:
                sparse = any(map(issparse, sides))
                found = [np.zeros_like(found[1]) if sparse else found[1]] * 2
            means = found[0], found[-1]
        self.mean_ = means[1]
        if database is None:
            return replace(data, X=subtract_mean(X, means[0]))
        self.mean_query_ = means[0]
        return replace(
            data, X=subtract_mean(X, means[0]), X_database=subtract_mean(database, means[1])
        )

    def _initialize(
        self, data: LabelledPoints, loss: Any, embedding: Embedding, rng: RandomState,
        kept: list[Array] | None = None,
    ) -> list[Array]:  # fmt: skip
        """Return the initial parameters, and set them as what is fitted so far."""
        X, y = data.representative
        # A linear map's "pca" reads all points in blocks; other embeddings get a sample.
        points: Any = X
        labels: Any = y
        if type(embedding) is Linear:
            points, labels = data.X, data.y
        if data.X_database is not None and not embedding.asymmetric:
            points, labels = data.X_database, data.y_database
        has_classes = data.classes is not None
        database: tuple[Any, ...] = ()
        if data.X_database is not None and embedding.asymmetric:
            database = data.X_database, data.y_database if has_classes else None
        start = initial_parameters(
            embedding, points, labels if has_classes else None, rng, *database
        )
        Z = embed(embedding, start, X, n_jobs=self.n_jobs)
        if is_learnable(loss):
            unit = bool(getattr(embedding, "normalize", False))
            start.append(_initial_proxies(Z, y, len(self.classes_), rng if unit else None))
        if kept is not None:
            if [array.shape for array in kept] != [array.shape for array in start]:
                raise ValueError(
                    "warm_start needs an embedding of the same shapes, and as many classes, as in "
                    "the fit before: set warm_start=False."
                )
            start = [array.astype(X.dtype) for array in kept]
        self.embedding_, self.n_components_ = embedding, Z.shape[1]
        self._set(start)
        return start

    def _set(self, arrays: list[Array]) -> None:
        n_own = len(self.embedding_.decays(0.0))
        self.parameters_ = [array.copy() for array in arrays[:n_own]]
        if len(arrays) > n_own:
            self.proxies_ = arrays[n_own].copy()

    def _set_fitted(self, problem: EmbeddingProblem, history: History, x: Vector) -> None:
        """Set the fitted attributes of x."""
        self._set(problem.parameters(x))
        self.loss_curve_ = list(history.curve)
        self.n_iter_ = len(history.curve)
        if history.costs:
            self.validation_scores_ = [-cost for cost in history.costs]
        if problem.tally is not None:
            self.infeasible_share_ = problem.n_infeasible / max(problem.n_queries, 1)


def _validation_cost(
    learner: BaseEmbeddingLearner, problem: EmbeddingProblem, held_out: tuple[Any, Array],
    database: tuple[Any, Array], distance: LabelDistance | None, x: Vector,
) -> float:  # fmt: skip
    """Return the negative score of validation points, among the points of a database."""
    embedding, n_jobs = learner.embedding_, learner.n_jobs
    arrays = problem.parameters(x)[: len(embedding.decays(0.0))]
    queries = embed(embedding, arrays, held_out[0], n_jobs=n_jobs)
    points = embed(embedding, arrays, database[0], "database", n_jobs)
    return -learner._retrieval_score(
        queries, held_out[1], points, database[1], label_distance=distance
    )


def _check_continuation(
    learner: BaseEmbeddingLearner, solver: MiniBatchSolver, loss: Any, embedding: Embedding,
    has_database: bool,
) -> None:  # fmt: skip
    """Raise ValueError for parameters that do not go with what `partial_fit` continues."""
    if not hasattr(learner, "loss_curve_"):
        raise ValueError(
            "partial_fit cannot continue from a model file, which holds the map alone: call fit "
            "with warm_start=True, or save the learner by skops."
        )
    history = learner._training
    proxies, numbers = hasattr(learner, "proxies_"), not hasattr(learner, "classes_")
    other_solver = (
        history is not None and history.moments and len(history.moments) != solver.n_moments
    )
    for name, has_changed in (
        ("solver", other_solver),
        ("loss", (is_learnable(loss), is_continuous(loss)) != (proxies, numbers)),
        ("embedding", fingerprint(embedding) != fingerprint(learner.embedding_)),
        ("kind of database", has_database != learner._has_database),
    ):
        if has_changed:
            raise ValueError(
                f"partial_fit goes on with the {name} that it began with, which parameters no "
                "longer ask for: call fit, with warm_start=True to keep what was learned where "
                "that fits."
            )


def _earlier_fit(
    learner: BaseEmbeddingLearner,
) -> tuple[list[Array], tuple[Array, Array]] | None:
    """Return the parameters and the means of an earlier fit to start from, if there was one."""
    if not hasattr(learner, "parameters_"):
        return None
    proxies = [learner.proxies_] if hasattr(learner, "proxies_") else []
    return [*learner.parameters_, *proxies], learner._means()


def _initial_proxies(Z: Array, y: Array, n_classes: int, rng: RandomState | None) -> Array:
    """Return the mean of each class of embedded points, in their dtype.

    `rng` is given where proxies are normalized: it draws a direction for each class that has no
    point, or a mean without one, unless no class has any.
    """
    proxies = np.zeros((n_classes, Z.shape[1]))
    np.add.at(proxies, y, Z)
    proxies /= np.maximum(np.bincount(y, minlength=n_classes), 1)[:, None]
    if rng is not None:
        missing = np.linalg.norm(proxies, axis=1) <= _LEAST
        if not missing.all():
            drawn = rng.standard_normal((int(missing.sum()), Z.shape[1]))
            proxies[missing] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return proxies.astype(Z.dtype)


def _check_comparison(data: LabelledPoints, said: Any) -> None:
    """Refuse to compare with a Euclidean distance that does not exist."""
    if data.X.shape[1] != data.X_database.shape[1] or is_precomputed(said):
        raise ValueError(
            "validate must be False where queries and database have different features, or "
            "label distances are precomputed: hold queries out, and judge their embedding by "
            "metricfast.metrics.retrieval_report, which prints chance."
        )
