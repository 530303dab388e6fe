"""Training samples: points and labels, validated once, centred and in safe units."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse

from metricfast._core.checks import check_points
from metricfast._core.memory import working_memory
from metricfast._core.points import dense, values_of
from metricfast._core.scaling import (
    center_and_rescale,
    log2_spread,
    rescale_targets,
    times_power_of_two,
    undo_scale,
)
from metricfast._core.scatter import repetitions
from metricfast._core.sources import Named, Source, scaled
from metricfast._core.sparse import rescale
from metricfast._core.stores import in_memory
from metricfast._core.targets import (
    check_classification_target,
    check_kinds,
    check_regression_target,
    check_sample_weight,
)
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.warn import warn_user
from metricfast._core.wide_map import AnyMap, WideMap
from metricfast._labels.distance import LabelDistance
from metricfast.training.chunks import SHARE, Chunked, mean_and_exponent, mean_of, subtract_mean
from metricfast.training.preconditioner import FlatParameters
from metricfast.training.span import LazyBasis, MapOfSpan, WithConstant

# A given map is rescaled if the log2 spread of mapped points exceeds this in absolute value.
_USUAL_START = 20
# Share of the memory for a chunk of each side. More of the database gives nearer neighbours.
_OF_QUERIES, _OF_DATABASE = 1 / 16, 3 / 16
# Share of distinct points above which deduplication saves little.
_FEW = 0.8

# Returns classes, codes or targets, and the unit of the objective.
LabelReader = Callable[[Any], tuple[Array, Array, float]]


@dataclass(frozen=True)
class Samples:
    """The queries of a training, and their database.

    Attributes
    ----------
    X : {ndarray, csr_array, Chunked} of shape (n_samples, n_features)
        Points less their mean, times ``2**-exponent``. Sparse points are not centred. `Chunked`
        points are read from a source by chunks.
    labels : ndarray of shape (n_samples,) or (n_samples, n_labels), or csr_array
        int64 indices into `classes`, or float64 targets of a regression, or continuous labels as
        `distance` takes them, or tags, of which a point may have several; None if the loss has
        its own.
    classes : ndarray of shape (n_classes,)
        Empty if labels are no classes.
    weight : ndarray of shape (n_samples,) or None
    repeated : bool
        Whether weights count copies of points that were given without weights. Losses without
        weights ignore these: each distinct point counts once.
    exponent : int
        Not 0 if the points came in unusual units.
    unit : float, default=1
        Factor that turns the objective into units of the given targets.
    given : array, sparse array or Source, optional
        The points as they were given, if the learner keeps them.
    span : LazyBasis, optional
        The span of points of many more features than there are points, if a problem may be
        trained in it.
    outer : int, optional
        The number of features of points that are given by their coordinates in a basis.
    database : Samples, optional
        The points that queries are compared with. By default each other.
    distance : LabelDistance, optional
        Of continuous labels.
    marks : dict of ndarray of shape (n_samples,)
        The indices of `groups` and `views` of the points, if these are given.
    """

    X: Any
    labels: Any = None
    classes: Array = field(default_factory=lambda: np.empty(0))
    weight: Floats | None = None
    exponent: int = 0
    unit: float = 1.0
    given: Any = None
    span: LazyBasis | None = None
    outer: int | None = None
    database: Samples | None = None
    distance: LabelDistance | None = None
    marks: dict[str, Any] = field(default_factory=dict)
    repeated: bool = False

    @property
    def points(self) -> Samples:
        """The database, which may be the samples themselves."""
        return self if self.database is None else self.database

    @property
    def in_chunks(self) -> bool:
        """Whether the points are chunks of a source."""
        return isinstance(self.X, Chunked)

    @property
    def n_features(self) -> int:
        """The number of original features, also for points in a basis of their span."""
        return int(self.X.shape[1] if self.outer is None else self.outer)

    @cached_property
    def in_span(self) -> Samples:
        """The samples, with points in coordinates of `span` if there is one."""
        if self.span is None or self.outer is not None:
            return self
        X = (self.X @ self.span.basis).astype(self.X.dtype)
        database = None if self.database is None else self.database.in_span
        return replace(self, X=X, outer=self.n_features, database=database)

    @property
    def has_classes(self) -> bool:
        """Whether labels are classes."""
        return self.distance is None and not issparse(self.labels) and self.labels.dtype.kind == "i"

    @property
    def kind(self) -> str:
        """The kind of labels to the judge. Points with tags are of one class if they share one."""
        if self.distance is not None:
            return "numbers" if self.distance.is_euclidean else "distances"
        return "classes" if self.has_classes or issparse(self.labels) else "numbers"

    @property
    def class_codes(self) -> Integers | None:
        """The labels if they are classes, else None."""
        return self.labels if self.has_classes else None

    @property
    def strata(self) -> Integers:
        """The class of each point; 0 for points without classes."""
        return self.labels if self.has_classes else np.zeros(self.X.shape[0], np.int64)

    @property
    def identity(self) -> tuple[Any, ...]:
        """Values that identify the samples of a training, for fingerprints."""
        table = self.distance and self.distance.table
        own = self.X, self.labels, self.weight, table, *self.marks.values()
        return own if self.database is None else (*own, *self.database.identity)

    def take(self, rows: Any) -> Samples:
        """Return a subset of the samples; a database of other points remains the same."""
        weight = None if self.weight is None else self.weight[rows]
        labels = None if self.labels is None else self.labels[rows]
        marks = {name: each[rows] for name, each in self.marks.items()}
        X = self.X.subset(rows) if self.in_chunks else self.X[rows]
        return replace(self, X=X, labels=labels, weight=weight, given=None, marks=marks)

    @cached_property
    def representative(self) -> Samples:
        """All samples; for points on disk, a subset from all classes."""
        found = self
        if self.in_chunks:
            rows = self.representative_rows
            found = replace(self.take(rows), X=self.X[rows])
        if self.database is None:
            return found
        return replace(found, database=self.database.representative)

    @cached_property
    def representative_rows(self) -> Any:
        """The row indices of `representative`."""
        if not self.in_chunks:
            return slice(None)
        return self.X.sample(self.class_codes, self.weight)

    def validation(self, train: Any, test: Any) -> Samples:
        """Return validation samples and their database, both in memory.

        If samples are their own database, it consists of the training samples.
        """
        among = self.take(train) if self.database is None else self.database
        found = self.take(test)
        X = found.X[:] if found.in_chunks else found.X
        return replace(found, X=X, database=among.representative)

    def undo_scale(self, L: Any) -> Any:
        """Convert a map of `X`, an array or a `WideMap`, to a map of the given points."""
        return undo_scale(L, self.exponent, self.X.dtype)

    def map_of_span(self, L: AnyMap) -> MapOfSpan | None:
        """Return a map of all features as a map of the span of `in_span`, or None without one."""
        if self.outer is None or self.span is None or L.shape[1] != self.outer:
            return None
        return MapOfSpan(L, self.span.basis)

    def inner_map(self, L: Any) -> Array:
        """Convert a map of all features to a map of `X`, which may be coordinates."""
        start = self.map_of_span(L)
        found: Array = L if start is None else start.inner
        return found

    def in_span_and_beyond(self) -> Samples:
        """Return the samples in coordinates of `span`, and a coordinate of zeros.

        The last coordinate stands for all directions that no point has.
        """
        found, database = self.in_span, self.database
        if database is not None:
            database = replace(database, span=self.span).in_span_and_beyond()
        return replace(found, X=np.pad(found.X, ((0, 0), (0, 1))), database=database)

    def outer_map(self, A: Array) -> AnyMap:
        """Convert a square map of the coordinates of `in_span_and_beyond` to a map of features."""
        if self.outer is None:
            return A
        assert self.span is not None
        basis, beyond = self.span.basis, float(A[-1, -1])
        change = A[:-1, :-1].astype(np.float64) - beyond * np.eye(len(A) - 1)
        return WideMap(np.full(self.outer, beyond), basis @ change, basis, A.dtype)

    def with_rest(self, arrays: list[Array], _: Any = None) -> WithConstant:
        """Return parameters with the norm of square maps in directions that no point has.

        `arrays`: the initial maps of the coordinates of `in_span_and_beyond`.
        """
        size = math.hypot(*(A[-1, -1] for A in arrays))
        rest, shapes = (
            math.sqrt(self.n_features - self.X.shape[1]) * size,
            [A.shape for A in arrays],
        )
        found = WithConstant(FlatParameters(shapes), rest)
        found.shapes = [*shapes, (1,)]
        return found

    def outer_points(self, Z: Array) -> Array:
        """Convert points embedded by a map of coordinates to points embedded by `outer_map`."""
        if self.outer is None:
            return Z
        assert self.span is not None
        return np.asarray(Z[:, :-1] @ self.span.basis.T, Z.dtype)

    def rescale_map(self, L: Array, *, quiet: bool = False) -> Array:
        """Convert a map of the given points to a map of `X`.

        A map with vanishing gradients for all losses is multiplied by a power of two, with a
        warning unless `quiet`.
        """
        size = math.frexp(float(np.abs(L).max()))[1]
        unit = times_power_of_two(L.astype(np.float64), -size)
        Z = self.representative.X @ unit.T
        spread = log2_spread(Z - Z.mean(axis=0))
        shift = size + self.exponent
        if spread is not None and abs(shift + sum(spread)) > _USUAL_START:
            shift = -spread[0]
            if not quiet:
                warn_user(
                    f"`init` spreads the points over about 2^{spread[0] + size + self.exponent}, "
                    f"where no loss has a slope: it was multiplied by "
                    f"2^{shift - size - self.exponent}."
                )
        return times_power_of_two(unit, shift)


def hold(X: Any, needed: tuple[str, str] | None = None, name: str = "X") -> Any:
    """Return points as an array or CSR array, or as a source if they take too much memory.

    Too much is more than half of the working memory. With `needed`, a reason and a remedy, all
    points are read, and a MemoryError says why.
    """
    if not isinstance(X, Source):
        return csr_array(X) if issparse(X) else X
    X = X if name == "X" else Named(X, name)
    if needed is not None:
        reason, remedy = needed
        return in_memory(X, f"{name}, which {reason},", remedy)
    if 2 * len(X) * X.row_bytes > working_memory():
        return X
    return in_memory(X, name, "read parts of it")


def load_samples(
    learner: Any,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    *,
    target: LabelReader,
    accept_sparse: str | bool = "csr",
    in_memory: tuple[str, str] | None = None,
    exponent: int | None = None,
    keep: bool = False,
) -> Samples:
    """Validate the data of `fit`, or of a later call of `partial_fit`, and centre the points.

    Parameters
    ----------
    learner : BaseMetricLearner
        `preprocessor_` is set. `n_features_in_` and `feature_names_in_` will be, unless the call
        is a later one.
    X, y, sample_weight
        What the method was given.
    target : callable
        Turns y into classes, labels and unit, such as `as_classes`.
    accept_sparse : str or bool, default="csr"
    in_memory : tuple of two str, optional
        Why all points must be in memory, such as "validate=True needs in memory", and the remedy,
        for the error message. By default they need not be.
    exponent : int, optional
        The `exponent` of the first call, for a later one.
    keep : bool, default=False
        Whether to keep the points as `given`.

    Returns
    -------
    Samples
    """
    later = exponent is not None
    X, y = check_points(
        learner, X, y, preprocessor=learner.preprocessor_, reset=not later, order="C",
        ensure_min_samples=2, accept_sparse=accept_sparse, accept_sources=True,
    )  # fmt: skip
    weight = check_sample_weight(sample_weight, X.shape[0])
    X = hold(X, in_memory)
    given = X if keep else None
    check_kinds(learner, later, y=y)
    classes, labels, unit = target(y)
    if isinstance(X, Source):
        mean, own = mean_and_exponent(X)
        exponent = own if exponent is None else exponent
        X = Chunked(scaled(X, mean, exponent))
        return Samples(X, labels, classes, weight, exponent, unit, given)
    if exponent is None:
        X, exponent = rescale(X) if issparse(X) else center_and_rescale(X)
    elif issparse(X):
        X = X.copy()
        X.data = times_power_of_two(X.data, -exponent)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            X = times_power_of_two(X - X.mean(axis=0), -exponent)
    # Sums of squares must not overflow.
    if later and not np.abs(values_of(X)).max(initial=0) < np.finfo(X.dtype).max ** 0.25:
        raise ValueError(
            "X is too large for the units of the first call: scale it as those points were."
        )
    return Samples(X, labels, classes, weight, exponent, unit, given)


def center(
    samples: Samples, means: tuple[Array, Array] | None = None, *, shared: bool,
    centers: bool = True,
    mean_of_queries: Callable[[Samples], Array] | None = None,
) -> tuple[Samples, tuple[Array, Array]]:  # fmt: skip
    """Subtract the mean of each side; return the samples, and both means.

    Sparse points are not centred, nor are points of the same features that they are compared with.

    Parameters
    ----------
    samples : Samples
    means : tuple of ndarray, optional
        The means of an earlier fit, to subtract these if the features are as many.
    shared : bool
        Whether the mean of the database is that of the queries as well.
    centers : bool, default=True
        False for points that stay as they are, on both sides: both means are zero.
    mean_of_queries : callable, optional
        Returns the mean of dense queries that have a database of other points.
    """
    queries, database = samples.X, samples.points.X
    dtype = np.result_type(queries.dtype, database.dtype)
    widths = [side.shape[1] for side in (queries, database)]
    if not centers:
        means = np.zeros(widths[0]), np.zeros(widths[1])
    elif means is None or [len(mean) for mean in means] != widths:
        if widths[0] == widths[1] and (issparse(queries) or issparse(database)):
            means = np.zeros(widths[0]), np.zeros(widths[1])
        elif shared or samples.database is None:
            means = (mean_of(database),) * 2
        else:
            of_queries = mean_of_queries or (lambda samples: mean_of(samples.X))
            means = (
                np.zeros(widths[0]) if issparse(queries) else of_queries(samples),
                np.zeros(widths[1]) if issparse(database) else mean_of(database),
            )
    means = means[0].astype(dtype), means[1].astype(dtype)
    if samples.database is None:
        return replace(samples, X=subtract_mean(queries, means[0], dtype)), means
    both_read = isinstance(database, Source)
    X = subtract_mean(queries, means[0], dtype, _OF_QUERIES if both_read else SHARE)
    others = replace(samples.database, X=subtract_mean(database, means[1], dtype, _OF_DATABASE))
    return replace(samples, X=X, database=others), means


def as_classes(y: Any) -> tuple[Array, Array, float]:
    """Return the classes of labels, their codes, and 1."""
    return *check_classification_target(y), 1.0


def as_targets(y: Any) -> tuple[Array, Array, float]:
    """Return no classes, regression targets in a safe unit, and the unit of their squares."""
    targets, exponent = rescale_targets(check_regression_target(y))
    return np.empty(0), targets, math.ldexp(1.0, 2 * exponent)


def deduplicate(data: Samples) -> Samples:
    """Return the distinct points with positive weight, with the summed weights of duplicates."""
    weights = repetitions(data.weight, len(data.labels))
    points = dense(data.X)
    rows = np.flatnonzero(weights)
    # Labels are the last sort key, so that the order does not depend on class names.
    marks = [each[rows] for each in data.marks.values()]
    labelled = np.column_stack([*marks, points[rows], data.labels[rows]])
    _, first, place = np.unique(labelled, axis=0, return_index=True, return_inverse=True)
    weight = np.bincount(place.ravel(), weights[rows]).astype(np.float64)
    repeated = data.repeated or data.weight is None
    return replace(data.take(rows[first]), weight=weight, repeated=repeated)


def deduplicate_if_smaller(data: Samples) -> Samples:
    """Return the distinct points if there are much fewer of them.

    For losses, only integer weights mean repetition. Data with other weights are returned
    unchanged.
    """
    weight = data.weight
    whole = weight is None or np.array_equal(weight, np.floor(weight))
    if not whole or data.in_chunks or issparse(data.X):
        return data
    distinct = deduplicate(data)
    return distinct if len(distinct.labels) <= _FEW * len(data.labels) else data
