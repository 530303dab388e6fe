"""What learners of a linear map share that minimise a loss of the embedded points."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import diags_array
from threadpoolctl import threadpool_limits

from metricfast._arrays import as_threads
from metricfast._dispatch import get_kernels
from metricfast._initialize import check_n_components, initialize_components
from metricfast._scaling import power_of_two_scale
from metricfast._targets import check_classification_target, check_sample_weight
from metricfast.base import MahalanobisMixin
from metricfast.solvers import Monitor, Progress, SolverState

__all__ = [
    "FULL_BASIS",
    "Coordinates",
    "LinearLearner",
    "LinearObjective",
    "TrainingSet",
    "best_scale",
    "check_count",
    "check_range",
    "embed",
]

Array = NDArray[Any]
# A full change of coordinates costs n_features^3 once and its square in memory.
FULL_BASIS = 2000
# Less gives directions without scatter steps that are too long; more gives up on evening them out.
_FLOOR = 0.03


@dataclass(frozen=True)
class TrainingSet:
    """Checked training data, made safe to compute with.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features), C order
        Points times `scale`, less their mean: distances keep more digits.
    labels : ndarray of shape (n_samples,), int64
        Classes as codes into `classes`.
    classes : ndarray of shape (n_classes,)
    weight : ndarray of shape (n_samples,), float64, or None
    scale : float
        A map of X times `scale` is the map of the points as given.
    """

    X: Array
    labels: NDArray[np.int64]
    classes: Array
    weight: NDArray[np.float64] | None
    scale: float


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

    def components(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn the solver's vector into a map."""
        return np.asarray(vector.reshape(-1, self._width) @ self._inverse)

    def gradient(self, gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn the gradient in the map into that in the solver's vector."""
        return np.asarray(gradient @ self._inverse.T).ravel()


def embed(X: Array, L: Array, n_jobs: int | None = None) -> Array:
    """Map points, in their own dtype."""
    Z = np.empty((len(X), len(L)), X.dtype)
    get_kernels().linear_forward(X, np.ascontiguousarray(L, dtype=X.dtype), Z, as_threads(n_jobs))
    return Z


class LinearObjective:
    """A loss of embedded points as a function of the solver's vector.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    loss : callable
        Gives the value and gradient at an embedding of shape (n_samples, n_components).
    coordinates : Coordinates
    n_jobs : int or None
    """

    def __init__(
        self, X: Array, loss: Callable[[Array], Any], coordinates: Coordinates, n_jobs: int | None
    ) -> None:
        self._X, self._loss = X, loss
        self._coordinates, self._n_jobs = coordinates, n_jobs

    def __call__(self, vector: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Compute value and gradient."""
        value, upstream = self._loss(
            embed(self._X, self._coordinates.components(vector), self._n_jobs)
        )
        gradient = get_kernels().linear_backward(upstream, self._X, as_threads(self._n_jobs))
        return value, self._coordinates.gradient(gradient)


def best_scale(value: Callable[[float], float]) -> float:
    """Return the power of two from 2^-20 to 2^20 at which `value` is lowest."""

    def finite(scale: float) -> float:
        result = value(scale)
        return result if math.isfinite(result) else math.inf

    return min((2.0**k for k in range(-20, 21)), key=finite)


class LinearLearner(MahalanobisMixin):
    """Base of learners that minimise a loss of the points that ``components_`` embeds."""

    _requires_y = True

    def _check_parameters(self) -> None:
        if self.solver not in ("lbfgs", "sgd"):
            raise ValueError(f"solver must be 'lbfgs' or 'sgd', got {self.solver!r}.")
        check_count("max_iter", self.max_iter)
        check_count("max_epochs", self.max_epochs)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)
        check_range("learning_rate", self.learning_rate, positive=True)
        for callback in self.callbacks or ():
            if not callable(callback):
                raise TypeError(f"callbacks must be functions of a SolverState, got {callback!r}.")
        as_threads(self.n_jobs)

    def _check_data(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> TrainingSet:
        X, y = self._prepare_inputs(X, y, ensure_min_samples=2)
        classes, labels = check_classification_target(y)
        weight = check_sample_weight(sample_weight, len(X))
        scale = power_of_two_scale(X)
        if scale != 1:
            X = X * X.dtype.type(scale)
        mean = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        return TrainingSet(X - mean, labels, classes, weight, scale)

    def _initialize(self, data: TrainingSet, rng: np.random.RandomState) -> Array:
        given = isinstance(self.init, np.ndarray) and self.init.ndim == 2
        if given and self.n_components is None:
            n_components = len(self.init)
        else:
            n_components = check_n_components(data.X.shape[1], self.n_components)
        return initialize_components(
            data.X,
            data.labels,
            self.init,
            n_components,
            rng,
            verbose=bool(self.verbose),
            sample_weight=data.weight,
        )

    def _batch_size(self, n_samples: int) -> int:
        if self.batch_size is not None:
            return int(self.batch_size)
        return min(1000, max(100, n_samples // 10))

    def _minimize(
        self,
        data: TrainingSet,
        coordinates: Coordinates,
        L: Array,
        n_iterations: int,
        run: Callable[[NDArray[np.float64], Monitor], None],
    ) -> None:
        """Run a solver from L and keep its best map, even when it is interrupted."""

        def components(x: NDArray[np.float64]) -> Array:
            return (coordinates.components(x) * data.scale).astype(data.X.dtype)

        def observer(iteration: int, value: float, x: NDArray[np.float64]) -> bool:
            if progress is not None:
                progress(iteration, value)
            answers = [
                callback(SolverState(iteration, value, components(x), self))
                for callback in self.callbacks or ()
            ]
            return any(answers)

        progress = Progress(type(self).__name__, n_iterations) if self.verbose else None
        x0 = coordinates.vector(L)
        monitor = Monitor(x0, observer)
        try:
            # Threads of a BLAS keep spinning for a while after a product, on the processors that
            # the loss needs next.
            with threadpool_limits(1, user_api="blas"):
                run(x0, monitor)
        finally:
            if progress is not None:
                progress.close()
            self.components_ = components(monitor.best_x)
            self.n_iter_ = len(monitor.curve)
            self.objective_ = monitor.best_value
            self.loss_curve_ = monitor.curve


def check_count(name: str, value: object, least: int = 1) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")


def check_range(name: str, value: object, high: float = math.inf, positive: bool = False) -> None:
    inside = isinstance(value, Real) and 0 <= float(value) <= high
    if not inside or (positive and value == 0):
        raise ValueError(
            f"{name} must be a number {'above' if positive else 'from'} 0"
            f"{f' to {high:g}' if high < math.inf else ''}, got {value!r}."
        )
