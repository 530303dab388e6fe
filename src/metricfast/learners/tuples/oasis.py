"""Online learning of a bilinear similarity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from metricfast._core.arguments import as_matrix, check_named, check_no_overflow, check_random_state
from metricfast._core.dispatch import get_kernels
from metricfast._core.parameters import (
    NumberOfJobs,
    PositiveFloat,
    PositiveInt,
    Seed,
    Verbosity,
    positional,
)
from metricfast._core.progress import iteration_progress
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, RandomState
from metricfast._core.warn import SECONDS, warn_if_long
from metricfast._core.wide_map import memory_for_square
from metricfast.learners.base.bilinear import BilinearMixin
from metricfast.learners.base.classifiers import TripletsClassifierMixin
from metricfast.learners.base.inputs import tuples_of
from metricfast.learners.tuples.drawing import FitArguments, SupervisedForm, draw_triplets
from metricfast.training.callbacks import CallbackMixin, reports_to_sklearn
from metricfast.training.span import Span, span_of


@dataclass(eq=False, repr=False)
class _OASIS(CallbackMixin, BilinearMixin):
    """Parameters and solver of OASIS and OASIS_Supervised."""

    max_iter: PositiveInt = 10
    C: PositiveFloat = 0.1
    init: str | Array = "identity"
    projection: Literal[None, "symmetric", "psd"] = None
    shuffle: bool = True
    preprocessor: Any = None
    verbose: Verbosity = False
    random_state: Seed = None
    n_jobs: NumberOfJobs = None

    def _fit(self, triplets: TupleSet, rng: RandomState) -> None:
        """Learn the matrix W from triplets."""
        outer = None
        if isinstance(self.init, str):
            triplets, outer = _in_span(triplets, float(self.init == "identity"))
        self._start(triplets)
        self._train(triplets, rng, self.max_iter, outer)

    def _start(self, triplets: TupleSet) -> None:
        """Set the initial matrix."""
        n_features, dtype = triplets.points.shape[1], triplets.points.dtype
        check_named("init", self.init, ("identity", "zeros"), "(n_features, n_features)")
        if isinstance(self.init, str):
            W = np.eye(n_features, dtype=dtype) * dtype.type(self.init == "identity")
        else:
            W = as_matrix(self.init, "init", dtype)
            if W.shape != (n_features, n_features):
                raise ValueError(
                    f"`init` must have shape ({n_features}, {n_features}), got {W.shape}."
                )
        self.bilinear_, self.n_iter_ = W, 0
        self.loss_curve_: list[float] = []

    def _train(
        self,
        triplets: TupleSet,
        rng: RandomState,
        n_passes: int,
        outer: Callable[[Array], Array] | None = None,
    ) -> None:
        """Repeat passes over the triplets until all losses are zero, at most `n_passes` times.

        `outer`: converts a matrix for coordinates into the matrix for points.
        """
        outer = np.array if outer is None else outer
        dtype = np.result_type(triplets.points, self.bilinear_)
        points = triplets.points.astype(dtype, copy=False)
        W = self.bilinear_ = self.bilinear_.astype(dtype)
        index, weight = np.ascontiguousarray(triplets.index), triplets.weight
        total = len(index) if weight is None else weight.sum()
        order = np.arange(len(index))
        work = f"Passing {n_passes} times over {len(index):,} triplets"
        faster = "a smaller max_iter, fewer triplets, or PCA of the points before `fit`"
        seconds = SECONDS["triplet"] + SECONDS["triplet and entry"] * points.shape[1] ** 2
        warn_if_long(int(n_passes) * len(index) * seconds, work, faster)

        def set_fitted() -> None:
            self.bilinear_ = outer(W)  # further passes would not change it

        try:
            with iteration_progress(self, n_passes, set_fitted) as progress:
                for _ in range(n_passes):
                    if self.shuffle:
                        order = rng.permutation(len(index))
                    loss, n_updates = get_kernels().oasis(
                        points, index, weight, order, float(self.C), W, 1
                    )
                    check_no_overflow("similarities", loss, W)
                    if self.projection is not None:
                        W[...] = _project(W, self.projection)
                    self.n_iter_ += 1
                    self.loss_curve_ = [*self.loss_curve_, loss / total]
                    if progress(self.n_iter_, self.loss_curve_[-1]) or n_updates == 0:
                        break
        finally:
            set_fitted()


@dataclass(eq=False, repr=False)
class OASIS(TripletsClassifierMixin, _OASIS):
    r"""Online algorithm for scalable similarity learning from triplets.

    Learns the matrix of a bilinear similarity :math:`S(x, x') = x^T W x'` from triplets (a, b, c)
    of which a should be more similar to b than to c by a margin of 1. One triplet after the other
    changes W as little as its loss :math:`\ell = [1 - a^T W (b - c)]_+` asks for, within `C`:

    .. math::

        W \leftarrow W + \tau\, a (b - c)^T, \qquad
        \tau = \min\left(C, \frac{\ell}{\|a\|^2 \|b - c\|^2}\right)

    W need not be symmetric. No distance is learned: use `pair_score`.

    Parameters
    ----------
    max_iter : int, default=10
        Number of passes over the triplets in `fit`. Fewer are done if no triplet of one had a loss.
    C : float, default=0.1
        The longest step: smaller values stand more contradictions between triplets.
    init : {"identity", "zeros"} or ndarray of shape (n_features, n_features), default="identity"
        The matrix to start from.
    projection : {"symmetric", "psd"}, optional
        Replace W after each pass by the nearest symmetric, or symmetric positive semidefinite,
        matrix.
    shuffle : bool, default=True
        Take the triplets in a new random order in each pass.
    random_state : int, RandomState or None, default=None
        For the order of triplets.
    n_jobs : int, optional
        Number of threads that compute similarities; results do not depend on it. Training takes
        one triplet after the other, and one thread.
    verbose, preprocessor
        As for :class:`ITML`.

    Attributes
    ----------
    bilinear_ : ndarray of shape (n_features, n_features)
        The matrix W, in float32 for float32 points, else in float64.
    n_iter_ : int
        Number of passes done.
    loss_curve_ : list of float
        (Weighted) mean loss of the triplets of each pass, each before its own update.
    validation_, n_features_in_, preprocessor_
        As for :class:`ITML`.

    Notes
    -----
    Similarities depend on the lengths of points: scaling each point to length 1 is usual. An
    interrupted `fit` (Ctrl-C) raises KeyboardInterrupt and leaves the current W.

    References
    ----------
    G. Chechik, V. Sharma, U. Shalit, S. Bengio, "Large scale online learning of image similarity
    through ranking", Journal of Machine Learning Research 11 (2010).

    Examples
    --------
    >>> from metricfast import OASIS
    >>> points = [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]]
    >>> oasis = OASIS(preprocessor=points, random_state=0).fit([[0, 1, 2], [2, 3, 0]])
    >>> oasis.predict([[0, 1, 2], [2, 3, 0]])
    array([1, 1])
    """

    @reports_to_sklearn
    def fit(
        self,
        triplets: ArrayLike,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        validate: bool = False,
    ) -> OASIS:
        """Learn the similarity.

        Parameters
        ----------
        triplets : array-like of shape (n_triplets, 3, n_features) or (n_triplets, 3)
            Points, or indicators for the preprocessor. The first of a triplet should be more
            similar to the second than to the third.
        y : ignored
        sample_weight : array-like of shape (n_triplets,), optional
            Non-negative weights of the triplets, by which their `C` is multiplied.
        validate : bool, default=False
            As for :meth:`SDML.fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used.
        """
        tuples = self._prepare_tuples(triplets).weighted(sample_weight)
        self._fit(tuples, check_random_state(self.random_state))
        if validate:
            self._validate_fit(triplets, sample_weight=sample_weight)
        return self

    def partial_fit(
        self, triplets: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> OASIS:
        """Go on learning, by one pass over further triplets.

        Without `shuffle`, calls on parts of the triplets learn what one pass over all does.

        Parameters
        ----------
        triplets : array-like of shape (n_triplets, 3, n_features) or (n_triplets, 3)
            As for `fit`, like weights and errors. All calls use the preprocessor of the first.
        y : ignored
        sample_weight : array-like of shape (n_triplets,), optional

        Returns
        -------
        self
        """
        begun = hasattr(self, "bilinear_")
        given = tuples_of(self, triplets, 3) if begun else self._prepare_tuples(triplets)
        given = given.weighted(sample_weight)
        if not begun:
            self._start(given)
        self._train(given, check_random_state(self.random_state), 1)
        return self


@positional(
    "k_genuine k_impostor max_iter C init projection shuffle preprocessor verbose random_state "
    "n_jobs"
)
@dataclass(eq=False, repr=False)
class OASIS_Supervised(SupervisedForm, _OASIS):  # noqa: N801
    """Online algorithm for scalable similarity learning from class labels.

    Triplets are each point with each of its nearest points of the same class and each of its
    nearest points of other classes; see :class:`OASIS` for the objective.

    Parameters
    ----------
    k_genuine : int, default=3
        Nearest points of the same class to make triplets of.
    k_impostor : int, default=10
        Nearest points of other classes to make triplets of.
    max_iter, C, init, projection, shuffle, preprocessor, verbose, random_state, n_jobs
        As for :class:`OASIS`, and so are their defaults.

    Attributes
    ----------
    bilinear_, n_iter_, loss_curve_, n_features_in_, preprocessor_, validation_
        As for :class:`OASIS`.

    Notes
    -----
    `sample_weight` weights the triplets whose first point it belongs to, see :meth:`OASIS.fit`.

    References
    ----------
    As for :class:`OASIS`.

    Examples
    --------
    >>> from metricfast import OASIS_Supervised
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> oasis = OASIS_Supervised(random_state=0).fit(X, y)
    >>> oasis.get_bilinear_matrix().shape
    (4, 4)
    """

    k_genuine: PositiveInt = 3
    k_impostor: PositiveInt = 10

    _draw = draw_triplets
    _tuned = None

    def _learn(self, tuples: TupleSet, given: FitArguments, rng: RandomState, **_: Any) -> None:
        self._fit(tuples, rng)


def _in_span(triplets: TupleSet, rest: float) -> tuple[TupleSet, Callable[[Array], Array] | None]:
    """Return triplets in coordinates of the points' span, if there are fewer points than features.

    `rest`: W is this multiple of the identity outside of the span.
    Also returns a function that converts the matrix of coordinates to the matrix of points.
    """
    zero = np.zeros_like(triplets.points[:1])
    span = span_of(triplets.used_points(), zero)  # W depends on points, not only on differences
    if not isinstance(span, Span):
        return triplets, None
    Z = span.points(np.concatenate([triplets.points, zero]))
    basis = span.basis.astype(Z.dtype)

    def outer(W: Array) -> Array:
        with memory_for_square("bilinear_", len(basis), W.dtype):
            found: Array = (basis @ (W - rest * np.eye(len(W), dtype=W.dtype))) @ basis.T
            found[np.diag_indices_from(found)] += rest
            return found

    return replace(triplets, points=np.ascontiguousarray(Z[:-1] - Z[-1])), outer


def _project(W: Array, projection: str) -> Array:
    symmetric: Array = (W + W.T) / 2
    if projection == "symmetric":
        return symmetric
    values, vectors = np.linalg.eigh(symmetric)
    positive: Array = (vectors * np.maximum(values, 0)) @ vectors.T
    return np.asarray((positive + positive.T) / 2)
