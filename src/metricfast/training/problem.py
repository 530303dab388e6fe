"""The problem that a learner minimises, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from metricfast._core.types import Array, RandomState
from metricfast._core.warn import warn_user
from metricfast.embeddings import Embedding
from metricfast.samplers import Batch
from metricfast.training.embedded import PlainLinear
from metricfast.training.history import Metrics
from metricfast.training.preconditioner import FlatParameters
from metricfast.training.samples import Samples
from metricfast.training.span import MapOfSpan

# Returns value and gradients, given the current and the initial parameters.
Penalty = Callable[[list[Array], list[Array]], tuple[float, list[Array]]]
# Takes an objective, a random generator and a batch size. Returns a function that draws the batches
# of an epoch.
DrawsBatches = Callable[[Any, RandomState, int | None], Callable[[], Iterable[Batch]]]
Preconditioning = Callable[[list[Array], MapOfSpan | None], FlatParameters]


def is_continuous(loss: Any) -> bool:
    """Return whether the labels of a loss are continuous, not classes."""
    return bool(getattr(loss, "labels", "class") != "class")


def is_learnable(loss: Any) -> bool:
    """Return whether a loss learns its database, a table of proxies."""
    return bool(getattr(loss, "learnable_database", False))


@dataclass(frozen=True)
class Traits:
    """Properties of a problem that solvers depend on.

    Attributes
    ----------
    smooth : bool
        Whether "lbfgs" is L-BFGS of SciPy. Otherwise it is the variant for sums of hinges.
    double : bool
        Whether the solver's vector is in float64, not in the dtype of the points.
    relative_steps : bool
        Whether learning rates are relative to the size of the initial vector.
    averages_batches : bool
        Whether the objective of an epoch is the mean over its batches, not the sum.
    keeps_last : bool
        Whether the result is the last iteration. By default it is the best. With validation points
        it is always the best.
    learning_rate, schedule : float, str
        Values for solvers without their own.
    quantity : str
        What progress calls the objective.
    remedy : str
        What to do if the loss is not finite.
    """

    smooth: bool = True
    double: bool = True
    relative_steps: bool = True
    averages_batches: bool = False
    keeps_last: bool = False
    learning_rate: float = 0.01
    schedule: str = "cosine"
    quantity: str = "objective"
    remedy: str = (
        "rescale X, choose another `init`, lower learning_rate, or make sure that your own loss "
        "and its gradient are finite"
    )


EMBEDDING = Traits(
    double=False, relative_steps=False, averages_batches=True, keeps_last=True,
    learning_rate=0.001, schedule="constant", quantity="loss",
)  # fmt: skip


def warn_of_no_slope(learner: Any, objective: Any, history: Any, diverged: bool) -> None:
    """Warn if the gradient vanished at the initial map."""
    del learner, diverged
    bound = objective.problem.lower_bound
    excess = history.best_objective - bound
    stayed = np.array_equal(history.best_x, history.start)
    if stayed and history.max_iter is None and excess > 1e-3 * abs(bound):
        warn_user(
            "The objective has no slope at the initial map, so nothing was learned. If that map is "
            "not a minimum already, rescale the points (StandardScaler), choose another `init` or "
            "solver='adam', or lower `tol`.",
            ConvergenceWarning,
        )


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise ``C * loss(Z, y) + penalty`` over the parameters of an embedding Z of the points.

    A learner returns it from `_problem`, and an `Objective` evaluates it. Only a loss, or a loss
    and a penalty, must be given to train a linear map.

    Parameters
    ----------
    samples : Samples
        ``samples.in_span`` if distances of points are all that the loss sees of a linear map, and
        there is no constraint. Points of many more features than there are points are then
        trained on in their span, which is faster. Without a penalty it gives the same map. A
        penalty is that of the map of the span.
    loss : loss
        One of `metricfast.losses`, a function with the same arguments, or one that has its labels.
        None if `evaluate` needs none.
    embedding : Embedding or PlainLinear, default=PlainLinear()
    penalty : callable, optional
        ``penalty(arrays, start)`` returns value and gradients, of parameters and of those that the
        training began with. A batch has its share of the penalty. If there are very many
        parameters, some batches in a row use the penalty of the first of them.
    C : float, default=1
        Weight of the loss.
    preconditioner : FlatParameters or callable, optional
        How the solver's vector stands for the parameters; by default it holds them. A function
        ``preconditioner(start, of_span)`` returns it, for initial parameters and, if the problem is
        trained in a span, their `MapOfSpan`.
    database : {"batch", "all"}, default="batch"
        The points that anchors are compared with, if the samples are their own database: the other
        points of their batch, or all.
    batches : callable, optional
        ``batches(objective, rng, batch_size)`` returns a function that draws the mini-batches of an
        epoch. By default all classes have a share of each batch.
    evaluate : callable, optional
        ``evaluate(embedded_loss, arrays, batch, part=None)`` returns the loss and its gradients, in
        place of `EmbeddedLoss.of_embedding`, if the loss is not a function of embedded points
        alone. Only a cluster gives `part`, a slice of the anchors; other fits give three arguments.
    extended : callable, optional
        ``extended(arrays)`` returns the initial map, and further parameters.
    refresh : callable, optional
        ``refresh(L)`` updates what the loss keeps between iterations, such as targets, for a map,
        every `refresh_every` iterations; 0 for never.
    score : callable, optional
        ``score(Z, y, Z_database, y_database)`` judges embedded validation points. By default they
        are predicted by their `n_voters` nearest points of the database.
    tally : callable, optional
        ``tally(loss, value, batch)`` is called after every evaluation, with the loss and the
        objective.
    metrics : callable, optional
        ``metrics(objective)`` returns further numbers of each iteration.
    store : callable, optional
        ``store(learner, objective, x, final)`` sets fitted attributes other than the map, for the
        solver's vector of an iteration or of the result.
    finish : callable, optional
        ``finish(learner, objective, history, diverged)`` chooses the final parameters, and warns if
        they are useless. By default it warns if the gradient vanished at the initial map.
    patience, tol : int, float
        Iterations without a relative decrease of the objective by `tol` that end a training.
    proxy_lr_factor : float, default=1
        Factor of the learning rate of proxies.
    traits : Traits
    n_jobs : int, optional
    lower_bound : float, default=0
        The lowest value of the loss for these samples.
    scale_loss : loss, optional
        The loss that chooses the scale of the initial map; by default `loss`.
    rescale : callable, optional
        ``rescale(L)`` returns the factor of the initial map, before its scale is searched for.
    searches_scale : bool, default=True
        Whether mini-batches start at the scale at which the loss is lowest.
    standardizes : bool, default=True
        Whether the identity competes with a map of standardized features.
    """

    samples: Samples
    loss: Any
    _: KW_ONLY
    embedding: Embedding | PlainLinear = PlainLinear()  # noqa: RUF009  (it has no state)
    penalty: Penalty | None = None
    C: float = 1.0
    preconditioner: FlatParameters | Preconditioning | None = None
    database: str = "batch"
    batches: DrawsBatches | None = None
    evaluate: Callable[..., tuple[float, list[Array]]] | None = None
    extended: Callable[[list[Array]], list[Array]] | None = None
    refresh: Callable[[Array], None] | None = None
    refresh_every: int = 0
    score: Callable[..., float] | None = None
    n_voters: int = 3
    tally: Callable[[float, float, Batch | None], None] | None = None
    metrics: Callable[[Any], Metrics] | None = None
    store: Callable[[Any, Any, Array, bool], None] | None = None
    finish: Callable[[Any, Any, Any, bool], None] = warn_of_no_slope
    patience: int | None = None
    tol: float = 0.0
    proxy_lr_factor: float = 1.0
    traits: Traits = Traits()
    n_jobs: int | None = None
    lower_bound: float = 0.0
    scale_loss: Any = None
    rescale: Callable[[Array], float] | None = None
    searches_scale: bool = True
    standardizes: bool = True
