"""Learners with a closed-form solution: the map is computed from sums over points."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh

from metricfast._core.checks import check_points
from metricfast._core.scaling import undo_scale
from metricfast._core.scatter import RANK_TOL, RANK_TOL_DOUBLE, with_signs
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.sources import on_disk
from metricfast._core.stores import in_memory
from metricfast._core.targets import (
    check_kinds,
    check_marks,
    check_sample_weight,
    labels_of_samples,
)
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, Self
from metricfast._core.warn import warn_user
from metricfast.learners.base.choice import GIVEN_UNITS, advise, choose_setting, choose_units
from metricfast.learners.base.inputs import begin_fit
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.training.span import in_span

ONE_CLASS = "y must hold at least 2 classes, together with earlier calls of partial_fit."


@dataclass(frozen=True)
class Statistics:
    """Sums over points, from which a learner solves for its map.

    Parameters
    ----------
    sums : tuple of ScatterStatistics
        Sums that are added over calls of `partial_fit`, and over machines.
    tuples : TupleSet, optional
        The tuples or points of `fit`, which some priors need.
    """

    sums: tuple[ScatterStatistics, ...] = ()
    tuples: TupleSet | None = None

    def __add__(self, other: Statistics) -> Statistics:
        """Return the sum of both statistics."""
        sums = (one + more for one, more in zip(self.sums, other.sums, strict=True))
        return Statistics(tuple(sums))

    def after(self, sums: tuple[ScatterStatistics, ...]) -> Statistics:
        """Return statistics of these points plus the given sums of earlier points."""
        return Statistics(sums) + self if sums else self

    def normalized(self) -> Statistics:
        """Return statistics with fractional weights scaled to a mean of 1."""
        return replace(self, sums=tuple(each.counted() for each in self.sums))


class ClosedFormLearner(MahalanobisMixin):
    """Base class of learners that solve for their map from sums over points.

    Subclasses define `_statistics` and `_solve`. `fit`, `partial_fit`, points on disk and Dask use
    only these two. A learner with a parameter that the judge chooses names its settings; it may
    define `_maps`, to compute the maps of all of them at once.
    """

    judge: Any = None

    _requires_y = True
    # The parameter that the judge chooses; its settings, of which the first is the given distance;
    # and the setting of the published algorithm.
    _tuned: ClassVar[str | None] = None
    _settings: ClassVar[Sequence[Any]] = ()
    _published: ClassVar[Any] = None
    _sums: tuple[ScatterStatistics, ...] = ()  # sums over all calls of `partial_fit`
    # Whether statistics of parts add up to the statistics of all points (no random draws or
    # neighbours).
    _exact_in_parts: bool = False
    # Whether the result is invariant to rotations, so that `fit` may rotate the axes; and whether
    # the metric is nonzero in directions in which no points differ.
    _spans: bool = False
    _beyond_span: bool = False
    # Whether `_statistics` takes `views`, to learn only from pairs across these.
    _across_views: bool = False

    @abstractmethod
    def _statistics(
        self,
        X: Any,
        y: Any,
        weight: Floats | None,
        *,
        partial: bool = False,
        execute: Callable[..., Any] | None = None,
    ) -> Statistics:
        """Return the statistics of checked points, an array or a source.

        `partial`: whether statistics of other points will be added later.
        `execute`: called instead of the function that does the work, with the same arguments.
        """

    @abstractmethod
    def _solve(self, statistics: Statistics, setting: Any) -> None:
        """Set the fitted attributes, for one of the settings."""

    def _maps(self, statistics: Statistics, settings: Sequence[Any]) -> Iterator[Any]:
        """Yield a map of coordinates for each of the settings."""
        for setting in settings:
            self._solve(statistics, setting)
            yield self._span.inside(self._map)

    def _unjudged_setting(self) -> Any:
        """Return the setting of the parameter, or by default of the published algorithm."""
        value = None if self._tuned is None else getattr(self, self._tuned)
        if value is not None and isinstance(self._published, tuple):
            return self._published[0], float(value)  # a fraction, towards the same target
        return self._published if value is None else value

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
        """Learn the map from classes.

        Parameters
        ----------
        X : array-like or source of shape (n_samples, n_features), or (n_samples,)
            Points, or indicators for the preprocessor. float32 stays float32, everything else
            becomes float64. Points that are not in memory may be a memory map, an array of zarr or
            h5py, an Arrow table, or a `metricfast.sources.Source`.
        y : array-like of shape (n_samples,)
            Class labels, of at least two classes. For the learners whose names end in
            "_Supervised", numbers below 0 mean that the class is unknown.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the points; the notes on the learner describe their effect.
        groups : array-like of shape (n_samples,), optional
            The group of each point, such as the patient or the session. The judge and `validate`
            hold out whole groups, so that no held-out point is of a group that trains. Groups have
            no other effect.
        views : array-like of shape (n_samples,), optional
            The view of each point, such as the camera, if neighbours will be searched among points
            of other views. So do held-out points, for the judge and for `validate`; and
            `KISSME_Supervised` and `XQDA` learn only from pairs of points of different views.
        validate : bool, default=False
            Also fit a clone to a part of the data, compare it with the given distance on the rest,
            and warn if it is worse. `validation_` has the result.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used, or the classes give no
            constraints.
        numpy.linalg.LinAlgError
            If a `prior` that must be is not positive definite.

        Notes
        -----
        The searches of scikit-learn give `groups` to the splitter alone, and pass `views` on to
        this method: ``GridSearchCV(...).fit(X, y, views=views)``, or
        ``cross_val_score(..., params={"views": views})``. With metadata routing, call
        ``set_fit_request(groups=True, views=True)`` to pass on both; scikit-learn raises an error
        if it is missing.
        """
        fit_points(self, X, y, sample_weight, groups=groups, views=views, validate=validate)
        return self

    def partial_fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from these points and from the points of earlier calls, by adding up sums.

        If the learner needs no neighbours, the result is the same as with `fit` on all points,
        within rounding. Otherwise neighbours are found among the points of one call. The points of
        the last call choose the shrinkage. Then give thousands of points of all classes at a time.

        Parameters
        ----------
        X : array-like or source of shape (n_samples, n_features)
            Points, as for `fit`.
        y : array-like of shape (n_samples,)
            Class labels, of one type in all calls. Classes may be missing in one call, and others
            may come. `Covariance` ignores them.
        sample_weight : array-like of shape (n_samples,), optional
            As for `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As for `fit`. Results of earlier calls stay.

        Warns
        -----
        UserWarning
            If `fit` was called before: it stores no sums, so the learner starts again.
        """
        partial_fit_points(self, X, y, sample_weight)
        return self


def fit_points(
    learner: ClosedFormLearner,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    *,
    groups: ArrayLike | None = None,
    views: ArrayLike | None = None,
    validate: bool = False,
    execute: Callable[..., Any] | None = None,
) -> None:
    """Fit a learner to points. `ClosedFormLearner._statistics` describes `execute`."""
    learner._sums = ()
    required = learner._requires_y
    checked = learner._prepare_inputs(
        X, y if required else None, ensure_min_samples=2, accept_sources=not validate
    )
    points, labels = checked if required else (checked, None)
    weight = check_sample_weight(sample_weight, points.shape[0])
    marks = check_marks(points.shape[0], groups=groups, views=views)
    if points.shape[0] < points.shape[1]:
        points = in_memory(points, "X", "give fewer points")  # n < d here
    tol = RANK_TOL if points.dtype == np.float32 else RANK_TOL_DOUBLE
    how: dict[str, Any] = {"beyond": learner._beyond_span, "tol": tol, "when": learner._spans}
    counted = points if weight is None or on_disk(points) else points[weight > 0]
    remote = execute is not None and on_disk(points)
    units = GIVEN_UNITS if remote else choose_units(learner, points, labels, weight, **marks)
    if units.factors is not None:
        points, counted = points * units.factors, counted * units.factors
    with in_span(learner, counted, **how) as span:
        some = span.points(points), labels, weight
        across: dict[str, Any] = {"views": marks.get("views")} if learner._across_views else {}
        setting = choose_setting(learner, *some, units=units, **marks)
        statistics = learner._statistics(*some, execute=execute, **across)
        learner._solve(statistics.normalized(), setting)
        advise(learner)
    if units.factors is not None:
        learner.components_ = learner._map * units.factors
    if validate:
        learner._validate_fit(X, y, sample_weight=sample_weight, groups=groups, views=views)


def partial_fit_points(
    learner: ClosedFormLearner, X: Any, y: Any, sample_weight: ArrayLike | None, **given: Any
) -> None:
    """Fit a learner to these points and to the points of earlier calls.

    `given`: further arguments of `_statistics`, with one label per point.
    """
    begun, required = continues(learner), learner._requires_y
    if not begun:
        begin_fit(learner)
    checked = check_points(
        learner, X, y if required else None, preprocessor=learner.preprocessor_, reset=not begun,
        order="C", accept_sources=True,
    )  # fmt: skip
    points, labels = checked if required else (checked, None)
    weight = check_sample_weight(sample_weight, points.shape[0])
    check_kinds(learner, begun, y=labels, **given)
    marks: dict[str, Any] = {
        name: None if each is None else labels_of_samples(each, points.shape[0], name)
        for name, each in given.items()
    }
    statistics = learner._statistics(points, labels, weight, partial=True, **marks)
    setting = choose_setting(learner, points, labels, weight, partial=True)
    add_statistics(learner, statistics, setting)
    advise(learner)


def continues(learner: Any) -> bool:
    """Return whether `partial_fit` has been called before; warn if `fit` was called instead."""
    if not learner._sums and learner.__sklearn_is_fitted__():
        warn_user(
            "partial_fit begins anew, without the points of fit: fit stores no sums to add to. "
            "Give partial_fit the points of fit as well."
        )
    return bool(learner._sums)


def add_statistics(learner: Any, new: Statistics, setting: Any = None) -> None:
    """Solve from new and earlier statistics.

    If that fails, the learner keeps the earlier statistics.
    """
    statistics = new.after(learner._sums)
    learner._solve(statistics.normalized(), setting)
    learner._sums = statistics.sums


def given_distance(
    learner: Any, total: Floats, variance: float, exponent: int, dtype: np.dtype[Any]
) -> Any:
    """Return the map of the Euclidean distance, in the units of the points.

    The map is a multiple of the identity, or of the principal components.

    `total`: the scatter of all points, which were divided by ``2**exponent``, in coordinates.
    `variance`: the variance that the map scales to 1.
    """
    span, factor = learner._span, 1 / np.sqrt(variance)
    if learner.n_components in (None, "auto"):
        L = span.multiple(len(total), factor)
    else:
        axes = with_signs(eigh(total)[1].T[::-1][: learner.n_components])
        L = span.outer(factor * axes, square=False)
    return undo_scale(L, exponent, dtype)


def padded_components(
    rows: Floats, n_components: int, exponent: int, dtype: np.dtype[Any]
) -> Array:
    """Return the map in the units of the points, padded with zero rows.

    `rows`: map of points that were divided by ``2**exponent``.
    """
    components = np.zeros((n_components, rows.shape[1]))
    components[: len(rows)] = rows[:n_components]
    found: Array = undo_scale(components, exponent, dtype)
    return found
