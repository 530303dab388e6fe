"""What learners of a linear map share that minimise a loss of the embedded points."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, diags_array, issparse
from sklearn.utils import Tags

from metricfast._core.arguments import check_choice, check_count, check_range
from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.initialize import as_given_map, check_n_components, initialize_components
from metricfast._core.progress import Progress
from metricfast._core.scaling import center_and_rescale, log2_spread, times_power_of_two, undo_scale
from metricfast._core.sparse import embed_sparse, rescale, sparse_gradient
from metricfast._core.targets import check_classification_target, check_sample_weight
from metricfast._core.threadpool import one_blas_thread
from metricfast.exceptions import LossOverflowError
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.training.solvers import Monitor, SolverState

__all__ = [
    "FULL_BASIS",
    "Coordinates",
    "LinearLearner",
    "LinearObjective",
    "TrainingSet",
    "best_scale",
    "check_callbacks",
    "embed",
]

Array = NDArray[Any]
# A full change of coordinates costs n_features^3 once and its square in memory.
FULL_BASIS = 2000
# Less gives directions without scatter steps that are too long; more gives up on evening them out.
_FLOOR = 0.03
# Logarithm of the spread of embedded points, up to a sign, from which a given map is rescaled.
_USUAL_START = 20
# Steps a million times the size of the map itself are a mistake.
_MAX_RATE = 1e6

Callback = Callable[[SolverState], object]


@dataclass(frozen=True)
class TrainingSet:
    """Checked training data, made safe to compute with.

    Attributes
    ----------
    X : {ndarray, csr_array} of shape (n_samples, n_features), C order
        Points less their mean, so that distances keep more digits, times ``2**-exponent``. Sparse
        points are not centred.
    labels : ndarray of shape (n_samples,)
        Classes as codes into `classes`, int64; or numbers, float64, where there are no classes.
    classes : ndarray of shape (n_classes,)
    weight : ndarray of shape (n_samples,), float64, or None
    exponent : int
        Not 0 if the points are given in unusual units.
    unit : float
        By which the objective is multiplied to be in the units of the numbers as given.
    """

    X: Any
    labels: Array
    classes: Array
    weight: NDArray[np.float64] | None
    exponent: int
    unit: float = 1.0

    def take(self, rows: NDArray[np.int64]) -> TrainingSet:
        """Return some of the samples."""
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, X=self.X[rows], labels=self.labels[rows], weight=weight)

    def undo_scale(self, L: Array) -> Array:
        """Turn a map of `X` into that of the points as given."""
        return undo_scale(L, self.exponent, self.X.dtype)

    def start(self, init: Array) -> Array:
        """Turn a map of the points as given into one of `X`, rescaled if it fits nothing at all."""
        size = math.frexp(float(np.abs(init).max()))[1]
        unit = times_power_of_two(init.astype(np.float64), -size)
        Z = self.X @ unit.T
        spread = log2_spread(Z - Z.mean(axis=0))
        shift = size + self.exponent
        if spread is not None and abs(shift + sum(spread)) > _USUAL_START:
            shift = -spread[0]
            warnings.warn(
                f"`init` spreads the points over about 2^{spread[0] + size + self.exponent}, where "
                f"no loss has a slope: it was multiplied by 2^{shift - size - self.exponent}.",
                stacklevel=4,
            )
        return times_power_of_two(unit, shift)


class Coordinates:
    """The vector that a solver moves: the entries of A in ``L = A K^-1``.

    K is chosen to suit the loss.

    Parameters
    ----------
    n_features : int
    scatter : ndarray of shape (n_features, n_features) or (n_features,), optional
        A symmetric positive semidefinite matrix or its diagonal, approximating the curvature of the
        loss in each row of L. K is its Cholesky factor, after 3 % of its mean diagonal entry
        is added to the diagonal. By default K is the identity.
    """

    def __init__(self, n_features: int, scatter: NDArray[np.float64] | None = None) -> None:
        self._width = n_features
        if scatter is None or not scatter.any():
            self._factor = self._inverse = diags_array(np.ones(n_features))
        elif scatter.ndim == 1:
            root = np.sqrt(scatter / scatter.mean() + _FLOOR)
            self._factor, self._inverse = diags_array(root), diags_array(1 / root)
        else:
            relative = scatter / np.diag(scatter).mean()
            self._factor = np.linalg.cholesky(relative + _FLOOR * np.eye(n_features))
            self._inverse = np.linalg.inv(self._factor)

    def vector(self, L: Array) -> NDArray[np.float64]:
        """Turn a map into the solver's vector."""
        return np.asarray(L.astype(np.float64) @ self._factor).ravel()

    def scaled(self, vector: NDArray[np.float64], factor: float) -> NDArray[np.float64]:
        """Return the vector of the map times a factor."""
        return vector * factor

    def components(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn the solver's vector into a map."""
        return np.asarray(vector.reshape(-1, self._width) @ self._inverse)

    def gradient(self, gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn the gradient in the map into that in the solver's vector."""
        return np.asarray(gradient @ self._inverse.T).ravel()


def embed(X: Any, L: Array, n_jobs: int | None = None) -> Array:
    """Map points, in their own dtype; sparse ones to points of mean zero."""
    if issparse(X):
        return embed_sparse(X, L)
    Z = np.empty((len(X), len(L)), X.dtype)
    get_kernels().linear_forward(X, np.ascontiguousarray(L, dtype=X.dtype), Z, as_threads(n_jobs))
    return Z


class LinearObjective:
    """A loss of embedded points as a function of the solver's vector.

    Parameters
    ----------
    X : {ndarray, csr_array} of shape (n_samples, n_features)
    loss : callable
        Gives the value and gradient at an embedding of shape (n_samples, n_components).
    coordinates : Coordinates
    n_jobs : int or None
    """

    def __init__(
        self, X: Any, loss: Callable[[Array], Any], coordinates: Coordinates, n_jobs: int | None
    ) -> None:
        self._X, self._loss = X, loss
        self._coordinates, self._n_jobs = coordinates, n_jobs

    def __call__(self, vector: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Compute value and gradient; infinity and zeros where the loss overflows."""
        try:
            value, upstream = self._loss(
                embed(self._X, self._coordinates.components(vector), self._n_jobs)
            )
        except LossOverflowError:
            return math.inf, np.zeros_like(vector)
        if issparse(self._X):
            gradient = sparse_gradient(upstream, self._X)
        else:
            gradient = get_kernels().linear_backward(upstream, self._X, as_threads(self._n_jobs))
        return value, self._coordinates.gradient(gradient)


def best_scale(value: Callable[[float], float]) -> float:
    """Return where from 2^-20 to 2^20 `value` is lowest, to an eighth of a power of two."""

    def finite(scale: float) -> float:
        try:
            return value(scale)
        except LossOverflowError:
            return math.inf

    best: float = min((2.0**k for k in range(-20, 21)), key=finite)
    # From twice or half the best scale, mini-batches would first spend epochs on the scale alone.
    eighths = (0, *range(-4, 0), *range(1, 5))
    return min((best * float(2.0 ** (k / 8)) for k in eighths), key=finite)


class LinearLearner(MahalanobisMixin):
    """Base of learners that minimise a loss of the points that ``components_`` embeds."""

    _requires_y = True
    _accept_sparse: str | bool = False

    def _check_parameters(self) -> tuple[Callback, ...]:
        """Check what the learners share, and return the callbacks."""
        check_choice("solver", self.solver, ("lbfgs", "sgd"))
        check_count("max_iter", self.max_iter)
        check_count("max_epochs", self.max_epochs)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)
        check_range("learning_rate", self.learning_rate, high=_MAX_RATE, positive=True)
        as_threads(self.n_jobs)
        return check_callbacks(self.callbacks)

    def _check_data(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> TrainingSet:
        X, y = self._prepare_inputs(X, y, ensure_min_samples=2, accept_sparse=self._accept_sparse)
        classes, labels, unit = self._check_target(y)
        weight = check_sample_weight(sample_weight, X.shape[0])
        X, exponent = rescale(csr_array(X)) if issparse(X) else center_and_rescale(X)
        return TrainingSet(X, labels, classes, weight, exponent, unit)

    def _check_target(self, y: Any) -> tuple[Array, Array, float]:
        """Return the classes, and `labels` and `unit` as a TrainingSet has them."""
        return *check_classification_target(y), 1.0

    def _initialize(self, data: TrainingSet, rng: np.random.RandomState) -> Array:
        """Make the map of `data.X` to start from, and keep it in case of an interrupt."""
        init = as_given_map(self.init)
        given = isinstance(init, np.ndarray)
        if given and init.ndim == 2 and self.n_components is None:
            n_components = len(init)
        else:
            n_components = check_n_components(data.X.shape[1], self.n_components)
        L = initialize_components(
            data.X,
            data.labels if self._has_classes else None,
            init,
            n_components,
            rng,
            verbose=bool(self.verbose),
            sample_weight=data.weight,
        )
        if given:
            L = data.start(L)
        self.components_ = data.undo_scale(L)
        return L

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = bool(self._accept_sparse)
        return tags

    def _batch_size(self, n_samples: int) -> int:
        if self.batch_size is not None:
            return int(self.batch_size)
        return min(1000, max(100, n_samples // 10))

    def _keep(self, coordinates: Coordinates, x: NDArray[np.float64]) -> None:
        """Set the fitted attributes of a loss that has parameters of its own."""

    def _minimize(
        self,
        data: TrainingSet,
        coordinates: Coordinates,
        L: Array,
        n_iterations: int,
        run: Callable[[NDArray[np.float64], Monitor], None],
        callbacks: tuple[Callback, ...],
    ) -> None:
        """Run a solver from L and keep its best map, even when it is interrupted."""

        def components(x: NDArray[np.float64]) -> Array:
            return data.undo_scale(coordinates.components(x))

        def record(value: float, x: NDArray[np.float64]) -> None:
            self.components_ = components(x)
            self._keep(coordinates, x)
            self.n_iter_ = len(monitor.curve)
            self.objective_ = value * data.unit
            self.loss_curve_ = [value * data.unit for value in monitor.curve]

        def observer(iteration: int, value: float, x: NDArray[np.float64]) -> bool:
            if callbacks:
                record(value, x)
            value *= data.unit
            if progress is not None:
                progress(iteration, value)
            answers = [
                callback(SolverState(iteration, value, components(x), self))
                for callback in callbacks
            ]
            return any(answers)

        progress = Progress(type(self).__name__, n_iterations) if self.verbose else None
        x0 = coordinates.vector(L)
        monitor = Monitor(x0, observer)
        try:
            with one_blas_thread():
                run(x0, monitor)
        finally:
            if progress is not None:
                progress.close()
            record(monitor.best_value, monitor.best_x)


def check_callbacks(callbacks: Any, state: str = "a SolverState") -> tuple[Callback, ...]:
    """Return the callbacks, checked to be functions."""
    try:
        found: tuple[Any, ...] = () if callbacks is None else tuple(callbacks)
    except TypeError as error:
        raise TypeError(f"callbacks must be several functions, got {callbacks!r}.") from error
    for callback in found:
        if not callable(callback):
            raise TypeError(f"callbacks must be functions of {state}, got {callback!r}.")
    return found
