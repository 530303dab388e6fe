"""The problem of learning a linear map: minimise the loss of mapped points over the map."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from scipy.sparse import issparse, vstack

from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast.metrics._neighbor_error import neighbor_costs, neighbor_error
from metricfast.samplers import Batch, class_batches
from metricfast.training.adapters import bind
from metricfast.training.chunks import batches_of
from metricfast.training.history import History, Vector
from metricfast.training.objective import LinearMap, Objective, Penalty, map_points
from metricfast.training.preconditioner import FlatParameters, Preconditioner
from metricfast.training.samples import Samples
from metricfast.training.span import MapOfSpan, WithConstant

__all__ = ["LinearProblem"]

# Points of a mini-batch by default.
_LEAST_BATCH, _LARGEST_BATCH, _BATCHES = 100, 1000, 10


class LinearProblem(Objective):
    """Minimise ``C * loss(X L^T, y) + penalty(L)`` over a linear map L.

    The object is a function of the solver's vector x: ``problem(x, batch)`` returns the value and
    its gradient. `vector` and `map` turn L into x and back.

    A learner whose training differs derives from this class, and overrides one of the methods.

    Parameters
    ----------
    samples : Samples
        ``samples.in_span`` if distances of points are all that the problem sees of the map: no
        penalty, no constraint. Points of many more features than there are points are then
        trained on in their span, which is faster and gives the same map.
    loss : loss
        One of `metricfast.losses`, or one that has its labels.
    preconditioner : Preconditioner, optional
        How x stands for L; by default it holds its entries.
    scale_loss : loss, optional
        The loss that chooses the scale of the initial map; by default `loss`.
    lower_bound : float, default=0
        The lowest value of the loss for these data.
    database : {"batch", "all"}, default="batch"
        The points that a batch is compared with.
    penalty : callable, optional
        Returns value and gradients of a list of arrays.
    C : float, default=1
        Weight of the loss.
    n_jobs : int, optional

    Attributes
    ----------
    initial_map : ndarray or None
        The map that `init` names, of points in `samples`.
    of_span : MapOfSpan or None
        The initial map of all features, if the problem is trained in the span of the points.
    searches_scale : bool
        Whether mini-batches start at the scale at which the loss is lowest.
    standardizes : bool
        Whether the identity competes with a map of standardized features.
    n_voters : int
        Number of neighbours that predict validation samples.
    """

    searches_scale = True
    standardizes = True
    n_voters = 3

    def __init__(
        self,
        samples: Samples,
        loss: Any,
        *,
        preconditioner: FlatParameters | None = None,
        scale_loss: Any = None,
        lower_bound: float = 0.0,
        database: str = "batch",
        penalty: Penalty | None = None,
        C: float = 1.0,
        n_jobs: int | None = None,
    ) -> None:
        _refuse_inner_products(loss)
        if preconditioner is None:
            preconditioner = Preconditioner(samples.X.shape[1])
        super().__init__(
            samples, LinearMap(), loss, preconditioner, database=database, penalty=penalty, C=C,
            n_jobs=n_jobs,
        )  # fmt: skip
        self.unit = samples.unit
        self.initial_map: Array | None = None
        self.of_span: MapOfSpan | None = None
        self.lower_bound, self._scale_loss = lower_bound, scale_loss

    def learned(self, x: Vector) -> list[Array]:
        """Return the map of points as they were given."""
        return [self.samples.undo_scale(self.full_map(x))]

    def coordinates(self, samples: Samples) -> Samples:
        """Return points of all features as this problem sees points: in a basis, or as they are."""
        return samples if self.samples.outer is None else samples.in_span

    def score(self, cost: float) -> float:
        """Return the share of right classes, or the negative squared error."""
        return 1 - cost if self.samples.has_classes else -cost

    def vector(self, L: Array) -> Vector:
        """Return the solver's vector of a map."""
        return self.preconditioner.vector([L])

    def map(self, x: Vector) -> Array:
        """Return the map of the solver's vector."""
        return self.preconditioner.arrays(x)[0]

    def full_map(self, x: Vector) -> Array:
        """Return the map of the solver's vector, for points of all features."""
        L = self.map(x)
        return L if self.of_span is None else self.of_span.outer(L)

    def map_of_span(self, L: Array) -> MapOfSpan | None:
        """Return a map of all features as a map of the span of points, if training is in it."""
        if self.samples.outer is None or self.samples.span is None:
            return None
        return MapOfSpan(L, self.samples.span.basis)

    def start_in_span(self, start: MapOfSpan, *, selected: bool = False) -> Vector:
        """Prepare to start from a map in the span of the points, and return its vector."""
        self.start_at(start.inner, selected=selected)
        assert isinstance(self.preconditioner, Preconditioner)
        self.of_span = start
        self.preconditioner = WithConstant(self.preconditioner, start.rest_norm)
        return self.vector(start.inner)

    def start_at(self, L: Array, *, selected: bool = False) -> Vector:
        """Prepare to start from a map, and return its vector.

        `selected`: whether model selection has replaced the map of `init`.
        """
        del selected
        return self.vector(L)

    def scale_initial(self, L: Array, *, named: bool) -> Array:
        """Rescale the initial map, before its scale is searched for; `named` or an array."""
        del named
        return L

    def scale_problem(self) -> Objective:
        """Return the problem whose value is lowest at the best scale of the initial map."""
        problem = self.local()
        if self._scale_loss is not None:
            problem.loss = bind(self._scale_loss, self.samples, None, self.n_jobs)
        return problem

    def batches(
        self, rng: RandomState, batch_size: int | None = None
    ) -> Callable[[], Iterable[Batch]]:
        """Return a function that draws the mini-batches of an epoch, from all classes."""
        classes, size = self.samples.groups, self.batch_rows(batch_size)

        def draw(rows: Integers) -> list[Batch]:
            drawn = class_batches(classes[rows], size, rng)
            return [self.complete(Batch(rows[some], len(some))) for some in drawn]

        return batches_of(self.X, draw, rng, size)

    def batch_rows(self, batch_size: int | None) -> int:
        """Return the number of anchors in a batch."""
        usual = min(_LARGEST_BATCH, max(_LEAST_BATCH, self.X.shape[0] // _BATCHES))
        return usual if batch_size is None else int(batch_size)

    def complete(self, batch: Batch) -> Batch:
        """Add to a batch of anchors what their loss needs."""
        return batch

    def history(self, x0: Vector, rng: RandomState) -> History:
        """Return the history of a training from x0."""
        return History(x0, rng=rng)

    def validation_costs(
        self, x: Vector, data: Samples, train: Integers, test: Integers, weight: Floats
    ) -> Array:
        """Return the cost of each validation point, by its nearest training points."""
        # Mapped together: sparse points are centred where they are mapped to.
        Z = map_points(data.X, self.map(x), self.n_jobs)
        return neighbor_costs(Z, data.labels, train, test, weight, self.n_jobs)

    def validation_error(self, held_out: Samples, x: Vector) -> float:
        """Return the error of validation samples: share of wrong classes, or mean squared error."""
        Z, Zd = self._embedded(held_out, x)
        numeric = not held_out.has_classes
        y, of_database = held_out.labels, held_out.points.labels
        error = neighbor_error(Zd, of_database, Z, y, numeric, self.n_voters, self.n_jobs)
        return error * held_out.unit if numeric else error

    def _embedded(self, samples: Samples, x: Vector) -> tuple[Array, Array]:
        """Return queries and their database under the map."""
        queries, database, L = samples.X, samples.points.X, self.map(x)
        if not issparse(queries):
            return map_points(queries, L, self.n_jobs), map_points(database, L, self.n_jobs)
        # Sparse points are centred where they are mapped to, so both sides are mapped together.
        Z = map_points(vstack([queries, database], format="csr"), L, self.n_jobs)
        return Z[: queries.shape[0]], Z[queries.shape[0] :]


def _refuse_inner_products(loss: Any) -> None:
    if getattr(loss, "of_inner_products", False):
        raise ValueError(
            f"{type(loss).__name__} is a loss of inner products, which depend on the origin; a "
            "metric does not. Use EmbeddingLearner with Linear(normalize=True), or a loss of "
            "distances."
        )
