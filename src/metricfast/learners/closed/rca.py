"""Relevant components analysis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import groupby
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import check_random_state
from metricfast._core.initialize import check_n_components
from metricfast._core.parameters import DEPRECATED, AtLeastTwo, PositiveInt, Seed, Share
from metricfast._core.scatter import whitening, with_signs
from metricfast._core.scatter_statistics import ScatterStatistics
from metricfast._core.sources import take
from metricfast._core.targets import as_label_array, check_partial_target
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast._core.warn import warn_user
from metricfast.constraints import Constraints
from metricfast.learners.base.closed_form import (
    ClosedFormLearner,
    Statistics,
    fit_points,
    padded_components,
    partial_fit_points,
)
from metricfast.learners.base.shrinkage import shrunk, shrunk_roots
from metricfast.selection._judge import JudgeParameter
from metricfast.training.span import Target

# Shrinkage fractions that RCA_Supervised tries.
_FRACTIONS = (0.6, 0.3, 0.1)
_TRIED = {"identity": (1.0, *_FRACTIONS), "diagonal": (1.0, *_FRACTIONS, 0.0)}


@dataclass(eq=False, repr=False)
class RCA(ClosedFormLearner):
    r"""Relevant components analysis.

    Chunks are small groups of points that are known to belong together. M is the inverse of the
    covariance within chunks,

    .. math::

        C = \frac{1}{n} \sum_{\text{chunks } j} \sum_{i \in j} (x_i - m_j)(x_i - m_j)^T

    with m_j the mean of a chunk and n the number of points in chunks: directions in which points
    that belong together differ count little.

    Parameters
    ----------
    n_components : int, optional
        Keep this many directions, of the largest ratio of the variance of all points in chunks to
        that within chunks; at most n_samples. By default n_features.
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    shrinkage : float from 0 to 1, "auto" or None, default=None
        Move C towards the multiple of the identity that has the same trace, and so the distance
        towards the Euclidean one, by this fraction. "auto" takes the fraction that brings C nearest
        to the true covariance, if points are normally distributed (oracle approximating shrinkage);
        it is small where the points in chunks are many more than the features. None is "auto" with
        a warning where C is singular, and otherwise 0.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map, in float32 for float32 points, else in float64. Without `n_components` it is
        :math:`C^{-1/2}`.
    shrinkage_ : float
        The fraction in use.
    n_features_in_, feature_names_in_, preprocessor_, validation_
        As for :class:`BaseMetricLearner`.

    Notes
    -----
    C is singular if features are constant or linearly dependent within chunks, or if all chunks
    together have fewer than n_features points beyond one each. Without shrinkage the pseudo-inverse
    then ignores the directions in which no chunk varies.

    References
    ----------
    N. Shental, T. Hertz, D. Weinshall, M. Pavel, "Adjustment learning and relevant component
    analysis", ECCV (2002).

    A. Bar-Hillel, T. Hertz, N. Shental, D. Weinshall, "Learning a Mahalanobis metric from
    equivalence constraints", Journal of Machine Learning Research 6 (2005).

    Y. Chen, A. Wiesel, Y. C. Eldar, A. O. Hero, "Shrinkage algorithms for MMSE covariance
    estimation", IEEE Transactions on Signal Processing 58 (2010).

    Examples
    --------
    >>> from metricfast import RCA
    >>> X = [[-1.0, 3.0], [1.0, -3.0], [4.0, 2.0], [5.0, -2.0], [9.0, 9.0]]
    >>> rca = RCA().fit(X, [0, 0, 1, 1, -1])
    >>> rca.transform(X).shape
    (5, 2)
    """

    n_components: int | None = None
    preprocessor: Any = None
    _: KW_ONLY
    shrinkage: Literal["auto"] | Share | None = None

    _partial_labels = True
    _on_chunks = True
    _exact_in_parts = True
    _beyond_span = True
    _spans = True

    def fit(  # type: ignore[override]
        self,
        X: ArrayLike,
        chunks: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
    ) -> RCA:
        """Learn the map.

        Parameters
        ----------
        X : array-like or source of shape (n_samples, n_features), or (n_samples,)
            Points, or indicators for the preprocessor. Points that are not in memory may be a
            memory map, an array of zarr or h5py, an Arrow table, or a `metricfast.sources.Source`.
        chunks : array-like of int of shape (n_samples,)
            The chunk of each point; negative for a point in no chunk.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights. Whole numbers mean the same as repeated points.
        validate : bool, default=False
            As for :meth:`LFDA.fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the input is not as above, no chunk holds two different points, or, with `validate`,
            fewer than three chunks hold two or more points.
        """
        fit_points(self, X, _chunks(chunks), sample_weight, validate=validate)
        return self

    def partial_fit(  # type: ignore[override]
        self, X: ArrayLike, chunks: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> RCA:
        """Learn from these points and from the ones of earlier calls, as `fit` from all of them.

        Parameters
        ----------
        X : array-like or source of shape (n_samples, n_features)
            Points, as for `fit`.
        chunks : array-like of int of shape (n_samples,)
            As for `fit`. A chunk may have points in several calls. The mean of each is kept.
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
        partial_fit_points(self, X, _chunks(chunks), sample_weight)
        return self

    def _statistics(self, X: Any, y: Any, weight: Floats | None, **_: Any) -> Statistics:
        weights = np.ones(X.shape[0]) if weight is None else weight
        return Statistics((_chunk_sums(X, _whole(y), weights),))

    def _solve(self, statistics: Statistics, setting: None) -> None:
        del setting
        within, chunks, n_components = _scatter_within(
            self, statistics, "At least one of the chunks must hold two different points."
        )
        identity = self._span.identity(within)
        self.shrinkage_ = _choose_shrinkage(self.shrinkage, within, identity, chunks)
        shrunken = shrunk(within, self.shrinkage_, identity)
        self.components_ = _components(shrunken, chunks, n_components)


@dataclass(eq=False, repr=False)
class RCA_Supervised(ClosedFormLearner):  # noqa: N801
    """Relevant components analysis on chunks drawn from classes.

    Parameters
    ----------
    n_components, preprocessor
        As for :class:`RCA`, and so are their defaults.
    n_chunks : int, default=100
        Number of chunks. If the classes have fewer, you get fewer, with a warning.
    chunk_size : int, default=2
        Points in a chunk.
    random_state : int, RandomState or None, default=None
        Makes the draw repeatable.
    num_chunks : int
        Former name of `n_chunks`.

        .. deprecated:: 0.1
    shrinkage : float from 0 to 1, optional
        As for :class:`RCA`. By default the judge chooses among fractions from 0 to 1, towards the
        identity and towards the diagonal of C. 1 towards the identity is the Euclidean distance.
        Chunks of few points determine a covariance badly: its smallest variances come out
        far too small, and their directions would count most.
    judge : "auto", None or Judge, default="auto"
        Chooses `shrinkage` by held-out points, see :class:`~metricfast.selection.Judge`. With None,
        `shrinkage` is by default 0, or the one of :class:`RCA` if C is singular.

    Attributes
    ----------
    components_, shrinkage_
        As for :class:`RCA`.
    shrinkage_target_ : {"identity", "diagonal"}
        The simpler metric towards which M is shrunk.
    n_features_in_, feature_names_in_, preprocessor_, validation_
        As for :class:`BaseMetricLearner`.

    Notes
    -----
    Classes that consist of several clusters vary most along the directions that separate the
    clusters; directions of noise then count for more than in the Euclidean distance, however
    many chunks there are. LFDA is made for such classes.

    `sample_weight` weights the points in their chunks. Points of weight zero are in none;
    otherwise chunks are drawn regardless of weights. If no chunk that is drawn holds two
    different points, `fit` raises ValueError: of many copies, another `random_state` may draw
    others.

    References
    ----------
    As for :class:`RCA`.

    Examples
    --------
    >>> from metricfast import RCA_Supervised
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> rca = RCA_Supervised(n_chunks=50, random_state=0).fit(X, y)
    >>> rca.transform(X).shape
    (150, 4)
    """

    n_components: int | None = None
    n_chunks: PositiveInt = 100
    chunk_size: AtLeastTwo = 2
    preprocessor: Any = None
    random_state: Seed = None
    num_chunks: Any = DEPRECATED
    _: KW_ONLY
    shrinkage: Share | None = None
    judge: JudgeParameter = "auto"

    _tuned, _published = "shrinkage", ("identity", None)
    _settings = tuple((name, f) for name, fractions in _TRIED.items() for f in fractions)
    _partial_labels = True
    _renamed: ClassVar[dict[str, str]] = {"num_chunks": "n_chunks"}
    _beyond_span = True
    _spans = True

    def _statistics(
        self, X: Any, y: Any, weight: Floats | None, *, partial: bool = False, execute: Any = None
    ) -> Statistics:
        weights = np.ones(X.shape[0]) if weight is None else weight
        seen = weights > 0
        if not seen.all():
            X, y, weights = take(X, seen), y[seen], weights[seen]
        _, codes = check_partial_target(y)
        rng = check_random_state(self.random_state)
        chunks = _draw_chunks(codes, int(self.n_chunks), int(self.chunk_size), rng)
        if self._sums:  # chunk numbers must be unique over calls
            chunks[chunks >= 0] += 1 + int(self._sums[0].groups[-1])
        return Statistics((_chunk_sums(X, chunks, weights),))

    def _solve(self, statistics: Statistics, setting: tuple[str, float | None]) -> None:
        within, chunks, n_components = _scatter_within(
            self,
            statistics,
            "No chunk that was drawn holds two different points. If the classes do, set another "
            "random_state, or raise n_chunks or chunk_size.",
        )
        self.shrinkage_target_, fraction = setting
        target = self._target(self.shrinkage_target_, within)
        self.shrinkage_ = _choose_shrinkage(fraction, within, target, chunks)
        L = _components(shrunk(within, self.shrinkage_, target), chunks, n_components)
        variances = None
        if self.shrinkage_target_ == "diagonal" and self.shrinkage_:
            variances = self._span.variances(within)
        square = self.n_components is None
        self.components_ = self._span.outer(L, square=square, variances=variances)

    def _maps(
        self, statistics: Statistics, settings: Sequence[tuple[str, float]]
    ) -> Iterator[Floats]:
        scatter, chunks, n_components = _scatter_within(self, statistics, "no chunk is left")
        for name, pairs in groupby(settings, key=lambda setting: setting[0]):
            fractions = [fraction for _, fraction in pairs]
            for W in shrunk_roots(scatter, self._target(name, scatter), fractions, chunks.dtype):
                yield W if self.n_components is None else _leading(W, chunks, n_components)

    def _target(self, name: str, within: Floats) -> Target:
        """Return the shrinkage target of the covariance within chunks."""
        if name == "identity":
            return self._span.identity(within)
        return self._span.of_variances(self._span.variances(within))


def _draw_chunks(codes: Integers, n_chunks: int, chunk_size: int, rng: RandomState) -> Integers:
    """Draw chunks of points of one class. Return the chunk number of each point, -1 for none."""
    counts = np.bincount(codes[codes >= 0])
    most = int((counts // chunk_size).sum())
    if most == 0:
        raise ValueError(
            f"Not enough possible chunks of {chunk_size} elements in each class to form "
            f"expected {n_chunks} chunks - maximum number of chunks is 0. Lower "
            f"chunk_size: the largest class has {counts.max(initial=0)} points."
        )
    if most < n_chunks:
        warn_user(
            f"The classes fill only {most} chunks of {chunk_size} points, not "
            f"n_chunks={n_chunks}: all of these are used."
        )
    return Constraints(codes).chunks(min(n_chunks, most), chunk_size, random_state=rng)


def _chunk_sums(X: Any, chunks: Integers, weights: Floats) -> ScatterStatistics:
    """Sum the points that are in chunks."""
    members = chunks >= 0
    if not members.all():
        X, chunks, weights = take(X, members), chunks[members], weights[members]
    return ScatterStatistics(X.shape[1], np.unique(chunks)).add(X, weights, chunks)


def _scatter_within(
    learner: Any, statistics: Statistics, no_difference: str
) -> tuple[Floats, ScatterStatistics, int]:
    """Return the covariance within chunks, the sums, and the number of components.

    Raises ValueError with the message `no_difference` if no chunk holds two distinct points.
    """
    (chunks,) = statistics.sums
    if not chunks.n_points:
        raise ValueError(no_difference)
    n_components = check_n_components(len(chunks.origin), learner.n_components)
    within = chunks.within
    # The computed mean of equal points may differ from them by rounding.
    rounding = np.finfo(chunks.dtype).eps ** 2 * np.trace(within + chunks.between)
    if not np.trace(within) > 4 * rounding:
        raise ValueError(no_difference)
    return within / chunks.total, chunks, n_components


def _choose_shrinkage(
    shrinkage: float | str | None, within: Floats, identity: Target, chunks: ScatterStatistics
) -> float:
    """Return the fraction by which to shrink the covariance within chunks."""
    if isinstance(shrinkage, Real):
        return float(shrinkage)
    if shrinkage is None:
        if len(whitening(within, chunks.dtype)) == len(within):
            return 0.0
        warn_user(
            "The inner covariance matrix is not invertible, so it was shrunk towards the "
            "identity. Give more or larger chunks, remove constant and linearly dependent "
            "features, or set `shrinkage`."
        )
    n_features = identity[1]
    freedom = chunks.total - len(chunks.groups)  # degrees of freedom
    mean_square = float(np.sum(within**2)) / n_features**2
    level_square = (float(np.trace(within)) / n_features) ** 2
    excess = mean_square - level_square / n_features
    share = mean_square + level_square
    return 1.0 if share >= (freedom + 1) * excess else share / ((freedom + 1) * excess)


def _components(within: Floats, chunks: ScatterStatistics, n_components: int) -> Array:
    """Return the map for a (shrunk) covariance within chunks."""
    W = whitening(within, chunks.dtype)
    if n_components == len(within):
        # The symmetric square root is W followed by the inverse of its rotation to eigenvectors.
        vectors = np.linalg.eigh(within)[1][:, -len(W) :]
        images, lengths = np.linalg.qr(W @ vectors)
        rows = (vectors * np.copysign(1, np.diag(lengths))) @ images.T @ W
    else:
        rows = with_signs(_leading(W, chunks, n_components))
    return padded_components(rows, n_components, chunks.exponent, chunks.dtype)


def _leading(W: Floats, chunks: ScatterStatistics, n_components: int) -> Floats:
    """Return the n_components directions of a map in which all points in chunks vary most."""
    _, vectors = np.linalg.eigh(W @ (chunks.within + chunks.between) @ W.T)
    return np.asarray(vectors.T[::-1][:n_components] @ W)


def _chunks(chunks: ArrayLike | None) -> Array:
    if chunks is None:
        raise ValueError(
            "chunks: Expected array-like (array or non-string sequence), got None. Give the "
            "chunk of each point, negative for a point without one."
        )
    found = as_label_array(chunks, "chunks")
    if found.ndim != 1:
        raise ValueError(f"chunks must have one dimension, got shape {found.shape}.")
    return found


def _whole(chunks: Any) -> Integers:
    """Return chunk labels as int64; raise ValueError unless they are integers."""
    given = np.asarray(chunks)
    if given.dtype.kind == "O":
        try:
            given = given.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"chunks must hold whole numbers: {error}") from error
    if given.dtype.kind in "biuf" and (given == np.floor(given)).all():
        return np.asarray(given, dtype=np.int64)
    raise ValueError(f"chunks must hold whole numbers, got dtype {given.dtype}.")
