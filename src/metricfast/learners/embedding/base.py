"""Base class of learners of an embedding: training of loss, embedding and sampler."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.arguments import check_unused
from metricfast._core.parameters import PositiveInt
from metricfast._core.types import Array, RandomState
from metricfast._core.warn import warn_user
from metricfast._labels.binding import agreed, bind_labels, is_precomputed
from metricfast._labels.distance import LabelDistance
from metricfast.embeddings import Embedding
from metricfast.embeddings._asymmetric import sides_of, with_length
from metricfast.embeddings._base import NO_LENGTH
from metricfast.learners.base.inputs import check_warm_start, forget
from metricfast.learners.embedding.input import (
    check_database,
    check_parts,
    load_points,
    share_label_distance,
)
from metricfast.learners.embedding.metric import EmbeddedMetricMixin
from metricfast.learners.embedding.starts import alternatives, given_of, start_at
from metricfast.learners.trained import Given, Plan, TrainedLearner, for_mini_batches
from metricfast.losses import Gerrymander
from metricfast.losses._call import BaseLoss
from metricfast.samplers import Batch, Sampler
from metricfast.selection._judge import JudgeParameter
from metricfast.training.adapters import in_wide_span
from metricfast.training.embedded import embed
from metricfast.training.fingerprint import fingerprint
from metricfast.training.history import History, Vector
from metricfast.training.model_selection import Candidates
from metricfast.training.objective import Objective
from metricfast.training.preconditioner import ScaledParameters
from metricfast.training.problem import EMBEDDING, Problem, is_continuous, is_learnable
from metricfast.training.samples import Samples, center
from metricfast.training.sampling import SamplerBatches, check_neighbors_of
from metricfast.training.solvers import LBFGS, MiniBatchSolver, check_solver_params
from metricfast.training.steps import RISE
from metricfast.training.train import warn_of_cost

# Epochs without improvement after which the training of a part stops, if there are classes. The
# costs of numbers vary too much to stop.
_PATIENCE = 7
# Epochs by default. A judge of classes may choose more, until there are enough steps, with batches
# of a usual size: that is, of few points.
_EPOCHS, _MOST_EPOCHS, _ENOUGH_STEPS, _USUAL_BATCH = 50, 200, 600, 128


@dataclass(eq=False, repr=False, kw_only=True)
class BaseEmbeddingLearner(TrainedLearner, EmbeddedMetricMixin):
    """Base class of learners of an embedding.

    Subclasses define `_parts`, which returns loss, embedding and sampler. Subclasses without a
    parameter such as `batch_size` use the default value. `EmbeddingLearner` describes them.
    """

    learning_rate: float | None = None
    max_epochs: PositiveInt | None = None
    judge: JudgeParameter = "auto"

    batch_size = cast("int | None", None)
    database = "batch"
    candidate_fraction = cast("float | None", None)
    proxy_lr_factor = 1.0
    label_distance = cast(Any, None)

    _requires_y = True
    _solver_names = ("adam", "adamw", "sgd", "lbfgs")
    _sampler_params: ClassVar[tuple[str, ...]] = ("sampler",)
    _traits = EMBEDDING
    _state = "parameters_", "proxies_", "mean_query_", "mean_"
    _reseeds = True

    @abstractmethod
    def _parts(self) -> tuple[Any, Embedding, Sampler]:
        """Return loss, embedding and sampler."""

    def fit(
        self, X: Any, y: Any = None, X_database: Any = None, y_database: Any = None, *,
        groups: ArrayLike | None = None, views: ArrayLike | None = None, validate: bool = False,
        **unknown: Any,
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
        groups, views : array-like of shape (n_samples,), optional
        validate : bool, default=False
            All as for :meth:`LFDA.fit`.
        **unknown
            Other arguments, such as `sample_weight`, raise a TypeError.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            If there are other arguments.
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
        if unknown:
            raise TypeError(
                f"{type(self).__name__}.fit takes no {', '.join(unknown)}. To weight a point by "
                "sample_weight, repeat its row, or draw it more often by a sampler."
            )
        marks: dict[str, Any] = {"groups": groups, "views": views}
        return self._fit(X, y, None, X_database, y_database, **marks, validate=validate)

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
        if getattr(self._solver(), "schedule", None) == "cosine":
            raise ValueError("partial_fit needs a solver with schedule 'constant' or 'inverse'.")
        return self._partial_fit(Given(X, y, None, X_database, y_database, classes))

    def _plan(self) -> Plan:
        plan = super()._plan()
        solver = plan.solver
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
        parts = clone(loss, safe=False), clone(embedding), clone(sampler, safe=False)
        return replace(plan, parts=parts)

    @property
    def _lbfgs(self) -> LBFGS:
        return LBFGS(_EPOCHS if self.max_epochs is None else self.max_epochs)

    @property
    def _of_batches(self) -> dict[str, Any]:
        epochs, rate, size = self._lbfgs.max_iter, self.learning_rate, self.batch_size
        return {"max_epochs": epochs, "learning_rate": rate, "batch_size": size}

    @property
    def _has_classes(self) -> bool:  # type: ignore[override]
        return not is_continuous(self._parts()[0])

    @property
    def _said_label_distance(self) -> Any:
        """The label distance that the learner, the loss or the sampler gives."""
        loss, _, sampler = self._parts()
        parts = {"the learner": self, "loss": loss, "sampler": sampler}
        given = {name: getattr(part, "label_distance", None) for name, part in parts.items()}
        # A function as loss still has the distance that `share_label_distance` set.
        said = agreed({n: each for n, each in given.items() if not isinstance(each, LabelDistance)})
        own = not isinstance(loss, BaseLoss)  # a user's loss
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
        """Return the distance of continuous labels, and the labels in the form for it."""
        said = self._said_label_distance
        if said is None:
            said = getattr(self._parts()[0], "_default_label_distance", "euclidean")
            said = said.removeprefix("sq")  # scores use plain distances
        return bind_labels(said, y, y_database, sizes=sizes)

    def _load(self, plan: Plan, given: Given, kept: Any, *, reset: bool) -> Samples | None:
        loss, embedding, _ = plan.parts
        said = self._said_label_distance
        check_database(
            loss, given.X_database, given.y_database, is_precomputed(said), self.candidate_fraction
        )
        if reset:
            forget(self)
        else:
            _check_continuation(self, plan, given.X_database is not None)
        samples = load_points(
            self, given.X, given.y, loss, embedding, given.X_database, given.y_database,
            classes=given.classes, reset=reset, needed=plan.in_memory,
        )  # fmt: skip
        distance, labels = samples.distance, samples.labels
        if plan.validate:
            _check_comparison(samples, said)
        alone = samples.database is None
        if not reset and alone and distance is not None and distance.all_zero(labels):
            warn_user(
                "All labels of this call are the same, so they have no distances: nothing "
                "is learned from it. Give more points at a time."
            )
            return None
        means = None
        if kept is not None:
            means = kept[3] if kept[2] is None else kept[2], kept[3]
        samples, means = center(
            samples, means, shared=not embedding.asymmetric, centers=embedding.centers
        )
        self.mean_ = means[1]
        if not alone:
            self.mean_query_ = means[0]
        if plan.spans and kept is None:
            samples = in_wide_span(embedding, samples)
        if self._training is not None and self._training[0].x.dtype != samples.X.dtype:
            self._training = None
        return samples

    def _initialize(self, plan: Plan, samples: Samples, rng: RandomState, kept: Any) -> Any:
        embedding = _as_preferred(plan.parts[1], plan.parts[0], samples)
        embedding, start = self._start(samples, plan.parts[0], embedding, rng)
        n, shapes = samples.X.shape[0], [array.shape for array in start]
        batch = min(n, self.batch_size or _USUAL_BATCH) if plan.solver.by_batches else n
        compared = samples.points.X.shape[0] if self.database == "all" else batch
        step = getattr(plan.parts[2], "n_anchors", batch) if plan.solver.by_batches else n
        warn_of_cost(shapes, n, compared, step, plan.solver, self.n_jobs)
        if kept is not None:
            arrays = kept[0] if kept[1] is None else [*kept[0], kept[1]]
            check_warm_start(arrays, shapes)
            start = [array.astype(samples.X.dtype) for array in arrays]
        self._set_start(samples, embedding, start)
        return embedding, start

    def _begin(
        self, plan: Plan, samples: Samples, initial: Any, rng: RandomState, start: str | None
    ) -> Objective:
        embedding, arrays = initial
        if start is not None:
            embedding, arrays = self._start(samples, plan.parts[0], embedding, rng, start)
            self._set_start(samples, embedding, arrays)
        objective = Objective(self._problem(samples), arrays)
        check_neighbors_of(objective, plan.solver.by_batches)
        return objective

    def _candidates(self, plan: Plan, samples: Samples) -> Candidates | None:
        loss, embedding = plan.parts[0], _as_preferred(plan.parts[1], plan.parts[0], samples)
        chosen = samples.has_classes and self.max_epochs is None and isinstance(self.solver, str)
        if chosen and isinstance(plan.solver, MiniBatchSolver):
            wanted = _ENOUGH_STEPS * (self.batch_size or _USUAL_BATCH) // samples.X.shape[0]
            plan.solver.max_epochs = min(max(wanted, _EPOCHS), _MOST_EPOCHS)

        def begin(part: Samples, name: str | None) -> Objective:
            # Losses of embeddings ignore weights, so each distinct point counts once.
            part, rng = replace(part, weight=None), np.random.RandomState(0)
            own, start = self._start(part, loss, embedding, rng, name)
            return Objective(replace(self._problem(part), embedding=own), start)

        return Candidates(
            begin, [None, *alternatives(embedding, samples)], given_of(embedding, samples),
            equal=0.0, patience=_PATIENCE if samples.has_classes else self._solver().n_iter,
        )  # fmt: skip

    def _problem(self, samples: Samples) -> Problem:
        given, _, sampler = self._parts()
        loss, sampler = clone(given, safe=False), clone(sampler, safe=False)
        share_label_distance(samples.distance, loss, sampler, self._said_label_distance)
        whole, share = self.database == "all", self.candidate_fraction
        decays = [] if self._solver().by_batches else self.embedding_.decays(0.0)
        tally = _Feasible(loss, samples.X.shape[0]) if isinstance(loss, Gerrymander) else None
        return Problem(
            # The last rows of a batch are its candidates.
            samples, loss, embedding=self.embedding_, traits=EMBEDDING, n_jobs=self.n_jobs,
            database="all" if whole and share is None else "batch",
            batches=SamplerBatches(sampler, not whole, share),
            penalty=partial(_decay, decays) if any(decays) else None,
            score=partial(self._retrieval_score, label_distance=samples.distance),
            proxy_lr_factor=self.proxy_lr_factor, preconditioner=self._scaled(samples),
            tally=tally, store=None if tally is None else tally.store, finish=_warn_of_rise,
        )  # fmt: skip

    def _scaled(self, samples: Samples) -> Any:
        """Return parameters of which steps are as long, relative to the map, as in the features.

        A step changes each entry alike. The length of the identity is the root of its rows.
        """
        if samples.outer is None or not self._solver().by_batches:
            return None
        factor = math.sqrt(samples.n_features / samples.X.shape[1])
        return lambda arrays, _: ScaledParameters([array.shape for array in arrays], factor)

    def _set_start(self, samples: Samples, embedding: Any, arrays: list[Array]) -> None:
        """Set initial parameters as fitted attributes."""
        self.embedding_ = embedding
        self._set(samples, arrays)
        X = samples.representative.X[:1]
        own = arrays[: len(embedding.decays(0.0))]
        Z = embed(embedding, own, X, n_jobs=self.n_jobs)
        self.n_components_ = samples.outer_points(Z).shape[1]

    def _start(
        self, samples: Samples, loss: Any, embedding: Embedding, rng: RandomState,
        name: str | None = None,
    ) -> tuple[Embedding, list[Array]]:  # fmt: skip
        """Return an embedding, its initial parameters, and initial proxies if the loss has any."""
        embedding, start = start_at(name, embedding, self._parts()[1], samples, rng)
        if is_learnable(loss):
            sample, unit = samples.representative, bool(getattr(embedding, "normalize", False))
            Z = embed(embedding, start, sample.X, n_jobs=self.n_jobs)
            start.append(
                _initial_proxies(Z, sample.labels, len(samples.classes), rng if unit else None)
            )
        return embedding, start

    def _set_map(self, objective: Objective, x: Vector) -> None:
        dtype = objective.X.dtype
        arrays = [array.astype(dtype) for array in objective.parameters(x)]
        self._set(objective.samples, arrays)

    def _set(self, samples: Samples, arrays: list[Array]) -> None:
        n_own = len(self.embedding_.decays(0.0))
        if samples.outer is None:
            self.parameters_ = [array.copy() for array in arrays[:n_own]]
        else:
            self.parameters_ = [samples.outer_map(array) for array in arrays[:n_own]]
        if len(arrays) > n_own:
            self.proxies_ = samples.outer_points(arrays[n_own]).copy()


def _warn_of_rise(
    learner: BaseEmbeddingLearner, objective: Objective, history: History, diverged: bool
) -> None:
    """Warn if the loss has risen."""
    del learner, objective
    risen = 0 < RISE * history.first < (history.curve or [0.0])[-1]
    if risen and not diverged and not history.costs:
        warn_user(
            f"The loss has risen from {history.first:.3g} to {history.curve[-1]:.3g}: training "
            "diverged. Lower learning_rate.",
            ConvergenceWarning,
        )


class _Feasible:
    """Counts queries, and queries without a set of neighbours with a right vote."""

    def __init__(self, loss: Gerrymander, n: int) -> None:
        self._loss, self._n = loss, n
        self._n_queries = self._n_infeasible = 0

    def __call__(self, loss: float, value: float, batch: Batch | None) -> None:
        """Count the queries of an evaluation."""
        self._n_queries += self._n if batch is None else batch.n_anchors
        self._n_infeasible += self._loss.n_infeasible_

    def store(
        self, learner: BaseEmbeddingLearner, objective: Objective, x: Vector, final: bool
    ) -> None:
        """Set the share of queries without a right set, and warn of it."""
        del x
        learner.infeasible_share_ = share = self._n_infeasible / max(self._n_queries, 1)
        if final and share:
            warn_user(
                f"No set of n_neighbors={objective.problem.loss.n_neighbors} neighbours in a batch "
                f"is right for {share:.2%} of the queries, which are left out of the loss: raise "
                "batch_size, choose a sampler of more points of a class, set database='all', or "
                "lower n_neighbors."
            )


def _decay(
    decays: list[float], arrays: list[Array], start: list[Array]
) -> tuple[float, list[Array]]:
    """Return the embedding's own weight decay, for a solver without weight decay."""
    del start
    decays = decays + [0.0] * (len(arrays) - len(decays))
    pairs = list(zip(decays, arrays, strict=True))
    value = sum(c / 2 * float(np.sum(a.astype(np.float64) ** 2)) for c, a in pairs)
    return value, [c * a for c, a in pairs]


def _as_preferred(embedding: Embedding, loss: Any, samples: Samples) -> Any:
    """Return a copy with `normalize` decided, if the embedding leaves it open.

    Normalisation is on for losses of classes with margins or similarities, and for two kinds of
    points.
    """
    two_kinds = embedding.asymmetric and samples.database is not None
    suits = two_kinds or getattr(loss, "of_unit_length", False)
    return with_length(embedding, suits and not is_continuous(loss))


def _check_continuation(learner: BaseEmbeddingLearner, plan: Plan, has_database: bool) -> None:
    """Raise ValueError for parameters that conflict with the training to be continued."""
    if not hasattr(learner, "loss_curve_"):
        raise ValueError(
            "partial_fit cannot continue from a model file, which holds the map alone: call fit "
            "with warm_start=True, or save the learner by skops."
        )
    loss, fitted = plan.parts[0], learner.embedding_
    embedding = with_length(learner._parts()[1], getattr(sides_of(fitted)[0], "normalize", False))
    moments = [] if learner._training is None else learner._training[0].moments
    proxies, numbers = hasattr(learner, "proxies_"), not hasattr(learner, "classes_")
    for name, has_changed in (
        ("solver", moments and len(moments) != plan.solver.n_moments),
        ("loss", (is_learnable(loss), is_continuous(loss)) != (proxies, numbers)),
        ("embedding", fingerprint(embedding) != fingerprint(fitted)),
        ("kind of database", has_database != learner._has_database),
    ):
        if has_changed:
            raise ValueError(
                f"partial_fit goes on with the {name} that it began with, which parameters no "
                "longer ask for: call fit, with warm_start=True to keep what was learned where "
                "that fits."
            )


def _initial_proxies(Z: Array, y: Array, n_classes: int, rng: RandomState | None) -> Array:
    """Return the mean of each class of embedded points, in their dtype.

    With normalised proxies, `rng` draws a direction for each class without points or with a zero
    mean, unless that is true of all classes.
    """
    proxies = np.zeros((n_classes, Z.shape[1]))
    np.add.at(proxies, y, Z)
    proxies /= np.maximum(np.bincount(y, minlength=n_classes), 1)[:, None]
    if rng is not None:
        missing = np.linalg.norm(proxies, axis=1) <= NO_LENGTH
        if not missing.all():
            drawn = rng.standard_normal((int(missing.sum()), Z.shape[1]))
            proxies[missing] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return proxies.astype(Z.dtype)


def _check_comparison(samples: Samples, said: Any) -> None:
    """Raise ValueError if there is no Euclidean distance to compare with."""
    if samples.X.shape[1] != samples.points.X.shape[1] or (
        samples.database is not None and is_precomputed(said)
    ):
        raise ValueError(
            "validate must be False where queries and database have different features, or "
            "label distances are precomputed: hold queries out, and judge their embedding by "
            "metricfast.metrics.retrieval_report, which prints chance."
        )
    if samples.distance is None and not samples.has_classes:
        raise ValueError(
            "validate must be False where y holds tags: hold points out, and judge their "
            "embedding by metricfast.metrics.retrieval_report, which prints chance."
        )
