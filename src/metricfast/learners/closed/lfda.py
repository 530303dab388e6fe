"""Local Fisher discriminant analysis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np

from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.initialize import check_n_components
from metricfast._core.memory import working_memory
from metricfast._core.parameters import NumberOfJobs, PositiveInt, Share
from metricfast._core.scaling import center_and_rescale
from metricfast._core.scatter import (
    LOCAL_NEIGHBORS,
    local_scatters,
    members_of_groups,
    repetitions,
    whitening,
    with_signs,
)
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.sources import on_disk, take
from metricfast._core.stores import in_memory
from metricfast._core.targets import class_codes
from metricfast._core.types import Array, Floats, Integers
from metricfast.learners.base.closed_form import (
    ONE_CLASS,
    ClosedFormLearner,
    Statistics,
    given_distance,
    padded_components,
)
from metricfast.learners.base.shrinkage import shrunk
from metricfast.selection._judge import JudgeParameter


def _check_embedding_type(name: str, value: object) -> None:
    """Raise ValueError for unknown types, with the message of metric-learn."""
    if not isinstance(value, str) or value not in ("weighted", "orthonormalized", "plain"):
        raise ValueError(f"Invalid {name}: {value!r}")


_EmbeddingType = Annotated[str, _check_embedding_type]
# Variance within classes, relative to the total, below which it is a rounding error; and the
# standard deviation, relative to the total, that such features are assigned.
_COLLAPSED = 1e-11
_NOISE = 1e-3
# The target and the fraction of shrinkage for the given distance.
_GIVEN = ("identity", 1.0)


@dataclass(eq=False, repr=False)
class LFDA(ClosedFormLearner):
    r"""Local Fisher discriminant analysis.

    Finds directions that separate the classes while points of a class stay near those that they
    are near to already, so that a class may consist of several clusters. With the affinity

    .. math::

        A_{ij} = \exp\left(-\frac{\|x_i - x_j\|^2}{\sigma_i \sigma_j}\right)

    of points of one class, :math:`\sigma_i` being the distance of a point to the k-th nearest other
    point of its class, they are the generalised eigenvectors of
    :math:`S^b v = \lambda S^w v` with the largest :math:`\lambda`, where

    .. math::

        S = \frac{1}{2} \sum_{ij} W_{ij} (x_i - x_j)(x_i - x_j)^T, \qquad
        W^w_{ij} = \frac{A_{ij}}{n_c}, \quad
        W^b_{ij} = A_{ij} \left(\frac{1}{n} - \frac{1}{n_c}\right)

    within a class of n_c points, and :math:`W^w_{ij} = 0, W^b_{ij} = 1/n` between classes.

    Parameters
    ----------
    n_components : int, optional
        Number of directions, at most n_samples; by default n_features.
    k : int, optional
        The neighbour that sets the local scale; by default 7. A class with no more than k points
        has its farthest instead.
    embedding_type : {"weighted", "orthonormalized", "plain"}, default="weighted"
        "plain" scales eigenvectors such that :math:`v^T S^w v = 1`; "weighted" multiplies those by
        :math:`\sqrt{\max(\lambda, 0)}`; "orthonormalized" makes them orthonormal, in order.
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    shrinkage : float from 0 to 1, optional
        Move :math:`S^w` towards the multiple of the identity that has the same trace by this
        fraction. Directions along which points hardly differ then count for less. 0 is the
        published algorithm. 1 is the Euclidean distance, in the first principal components if
        `n_components` is given. By default the judge chooses among 0, 0.6, 1, two fractions towards
        the scatter of all points, and, in place of :math:`S^w`, the scatter around the means of the
        classes.
    judge : "auto", None or Judge, default="auto"
        Chooses `shrinkage` by held-out points, see :class:`~metricfast.selection.Judge`. With None,
        `shrinkage` is 0 by default.
    n_jobs : int, optional
        Number of threads; results do not depend on it. By default all that the process may use.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map, in float32 for float32 points, else in float64. Rows are zero where there are
        fewer directions along which points differ, and for "weighted" where
        :math:`\lambda \le 0`, which needs shrinkage.
    shrinkage_ : float
        The fraction in use.
    shrinkage_target_ : {"identity", "total", "within"}
        Towards what. With ``shrinkage_ == 1``, "identity" is the Euclidean distance, and "within"
        the scatter around the means of the classes.
    n_features_in_, feature_names_in_, preprocessor_, validation_
        As for :class:`BaseMetricLearner`.

    Notes
    -----
    Where points of a class do not differ along some direction, as with fewer points than features,
    :math:`S^w` is singular and :math:`\lambda` infinite. Then each feature counts as if it had
    noise of a thousandth of its deviation.

    Without shrinkage, the result does not depend on units of features except through the
    neighbours. But "weighted" and "plain" then let directions of noise count as much as the
    informative ones, if there are many, and :math:`S^w` of few points' neighbours is itself noisy:
    nearest neighbours may become worse than in the Euclidean distance. An `n_components` that
    leaves out what does not separate helps as well.

    Memory grows with the number of points; for points on disk, with the largest class. In
    `partial_fit`, neighbours are found among the points of the same call, and the local scatters of
    a class are added.

    Whole numbers as `sample_weight` mean the same as repeated points; others are scaled to a mean
    of 1, and the local scale is where the weights of nearer points reach k.

    References
    ----------
    M. Sugiyama, "Dimensionality reduction of multimodal labeled data by local Fisher discriminant
    analysis", Journal of Machine Learning Research 8 (2007).

    Examples
    --------
    >>> from metricfast import LFDA
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> LFDA(n_components=2).fit(X, y).transform(X).shape
    (150, 2)
    """

    _spans = True
    _tuned, _published = "shrinkage", ("identity", 0.0)
    _settings = (
        _GIVEN, ("identity", 0.6), ("total", 0.6), ("total", 0.3), _published, ("within", 1.0)
    )  # fmt: skip

    n_components: int | None = None
    k: PositiveInt | None = None
    embedding_type: _EmbeddingType = "weighted"
    preprocessor: Any = None
    _: KW_ONLY
    shrinkage: Share | None = None
    judge: JudgeParameter = "auto"
    n_jobs: NumberOfJobs = None

    def _statistics(
        self, X: Any, y: Any, weight: Floats | None, *, partial: bool = False, execute: Any = None
    ) -> Statistics:
        k = LOCAL_NEIGHBORS if self.k is None else int(self.k)
        check_n_components(X.shape[1], self.n_components)
        classes, codes = class_codes(y, partial=partial)
        weights = repetitions(weight, X.shape[0])
        seen = weights > 0
        if not seen.all():
            X, weights = take(X, seen), weights[seen]
            classes, codes = class_codes(y[seen], partial=partial)
        if partial or on_disk(X):
            return Statistics((execute or local_sums)(X, classes, codes, weights, k, self.n_jobs))
        # Centring makes constant features exactly zero.
        X, exponent = center_and_rescale(X)
        return _all_scatters(X, codes, weights, k, self.n_jobs, exponent)

    def _solve(self, statistics: Statistics, setting: tuple[str, float]) -> None:
        scatters = _Scatters.of(statistics)
        n_components = check_n_components(len(scatters.mixed), self.n_components)
        (rows,) = self._maps(scatters, [setting])
        self.shrinkage_target_, self.shrinkage_ = setting
        if setting == _GIVEN:
            self.components_ = self._given(scatters, scatters.exponent)
            return
        unit = 0 if self.embedding_type == "orthonormalized" else scatters.exponent
        self.components_ = padded_components(rows, n_components, unit, scatters.dtype)

    def _given(self, scatters: _Scatters, exponent: int) -> Any:
        """Return the map of the Euclidean distance, for points divided by ``2**exponent``."""
        variance = np.trace(scatters.within) / self._span.identity(scatters.within)[1]
        if self.embedding_type == "orthonormalized":
            variance, exponent = 1.0, 0
        return given_distance(self, scatters.total, variance, exponent, scatters.dtype)

    def _maps(
        self, statistics: Statistics, settings: Sequence[tuple[str, float]]
    ) -> Iterator[Floats]:
        scatters = _Scatters.of(statistics)
        n_components = check_n_components(len(scatters.mixed), self.n_components)
        mixed, within, around_means = scatters.mixed, scatters.within, scatters.around_means
        targets = {
            "identity": self._span.identity(mixed),
            "within": (around_means, np.trace(around_means)),
        }
        if not np.trace(within) > 0:
            k = LOCAL_NEIGHBORS if self.k is None else self.k
            raise ValueError(
                "y must hold a class with two different points, of which one occurs at most "
                f"k={k} times: its local scale, the distance of its k-th nearest neighbour, is "
                "otherwise zero. Use a larger k, or remove duplicates."
            )
        whiten = whitening(mixed, scatters.dtype)
        noise = whiten @ self._span.diagonal(_NOISE**2 * self._span.variances(mixed)) @ whiten.T
        plain = None
        for name, fraction in settings:
            if (name, fraction) == _GIVEN:
                yield self._span.inside(self._given(scatters, 0))
                continue
            if name == "total" or fraction == 0:
                # Shrinkage towards the whitened matrix changes only the eigenvalues.
                plain = plain or _relative_axes(whiten, within, noise)
                level = np.trace(within) / np.trace(mixed)
                sizes, vectors = (1 - fraction) * plain[0] + fraction * level, plain[1]
            else:
                scatter = shrunk(within, fraction, targets[name])
                sizes, vectors = _relative_axes(whiten, scatter, noise)
            rows = with_signs(vectors.T @ whiten) / np.sqrt(sizes)[:, None]
            if self.embedding_type == "weighted":
                rows *= np.sqrt(np.maximum(1 / sizes - 1, 0))[:, None]
            if self.embedding_type == "orthonormalized":
                rows = with_signs(np.linalg.qr(rows[:n_components].T)[0].T)
            yield rows[:n_components]


@dataclass(frozen=True, kw_only=True)
class _Scatters(Statistics):
    """Scatter matrices summed over classes, for points in units of ``2**exponent``."""

    mixed: Floats  # between and within classes
    within: Floats  # local scatter within classes
    around_means: Floats  # scatter around class means
    total: Floats  # scatter around the mean of all points
    exponent: int
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, statistics: Statistics) -> _Scatters:
        """Return the scatters of all points, which may be stored as sums of each class."""
        if isinstance(statistics, cls):
            return statistics
        points, local = statistics.sums
        if len(points.groups) < 2:
            raise ValueError(ONE_CLASS)
        shares = (points.weights / points.total)[:, None, None]
        inner = local.scatters_in(points.exponent)
        mixed = ((1 - shares) * points.scatters + shares * inner).sum(axis=0) + points.between
        return cls(
            mixed=mixed, within=inner.sum(axis=0), around_means=points.within,
            total=points.within + points.between, exponent=points.exponent, dtype=points.dtype,
        )  # fmt: skip


def _all_scatters(
    X: Array, codes: Integers, weights: Floats, k: int, n_jobs: int | None, exponent: int
) -> _Scatters:
    """Compute the scatters of all points, without storing the scatters of single classes."""
    mixed, within, plain, total = local_scatters(X, codes, weights, k, n_jobs)
    return _Scatters(
        mixed=mixed, within=within, around_means=plain, total=total, exponent=exponent,
        dtype=X.dtype,
    )  # fmt: skip


def local_sums(
    X: Any, classes: Array, codes: Integers, weights: Floats, k: int, n_jobs: int | None
) -> tuple[ScatterStatistics, ScatterStatistics]:
    """Return the statistics and the local scatters of some classes.

    `classes`: labels of the classes; each must have points.
    `weights`: the result of :func:`repetitions`.
    """
    d, counts = X.shape[1], np.bincount(codes, weights).astype(np.float64)
    points = ScatterStatistics(d, classes, per_group=True)
    scatters, exponents = np.empty((len(classes), d, d)), np.zeros(len(classes), np.int64)
    for rows, block in _whole_classes(X, codes):
        points.add(block, weights[rows], classes[codes[rows]])
        for label, members in members_of_groups(codes[rows]):
            w = weights[rows[members]]
            deviations, exponents[label] = center_and_rescale(block[members])
            deviations = (deviations - w @ deviations / w.sum()).astype(np.float64)
            get_kernels().local_scatter(scatters[label], deviations, w, k, as_threads(n_jobs))
    scatters /= counts[:, None, None]
    exponent = int(exponents[scatters.any(axis=(1, 2))].max(initial=exponents.min()))
    scatters = np.ldexp(scatters, 2 * (exponents - exponent)[:, None, None])
    return points, ScatterStatistics.of_scatters(classes, counts, scatters, exponent, X.dtype)


def _whole_classes(X: Any, codes: Integers) -> Iterator[tuple[Integers, Array]]:
    """Yield the rows and the points of as many classes as fit into memory, and at least one."""
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))
    starts = np.append(0, ends[:-1])
    row_bytes = X.dtype.itemsize * X.shape[1]
    most, first = working_memory() // (4 * row_bytes), 0
    while first < len(ends):
        last = max(first + 1, int(np.searchsorted(ends, starts[first] + most, side="right")))
        rows = np.sort(order[starts[first] : ends[last - 1]])
        what = f"A class of {len(rows)} points, which is learned from as a whole,"
        yield rows, in_memory(take(X, rows), what, "give fewer points")
        first = last


def _relative_axes(whiten: Floats, within: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Return ascending eigenvalues, as 1 / (1 + lambda), and eigenvectors of a whitened scatter.

    `noise`: whitened scatter that is added if the within-class scatter is singular.
    """
    relative = whiten @ within @ whiten.T
    sizes, vectors = np.linalg.eigh((relative + relative.T) / 2)
    if sizes[0] < _COLLAPSED:
        sizes, vectors = np.linalg.eigh((relative + relative.T + noise + noise.T) / 2)
        sizes = np.maximum(sizes, _COLLAPSED)
    return sizes, vectors
