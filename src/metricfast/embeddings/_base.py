"""The base class of embeddings, and compiled layers with their checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator

from metricfast._core.arguments import as_real, check_all_finite, check_choice, check_no_overflow
from metricfast._core.arrays import as_codes, as_points, as_threads, check_shape
from metricfast._core.dispatch import get_kernels
from metricfast._core.points import values_of, with_gradient
from metricfast._core.sources import on_disk
from metricfast._core.sparse import check_structure
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast._core.wide_map import WideMap
from metricfast.exceptions import LossOverflowError

Parameters = list[Array]
# Sums of squares of smaller numbers are finite in float64, for any number of columns.
_MOST = 1e140
# Normalisation sets points of at most this length to zero, as the kernels do.
NO_LENGTH = 1e-12


@dataclass(frozen=True)
class Cache:
    """Results of `forward` for `backward`: the points, the output of each layer, the lengths."""

    X: Any
    outputs: list[Array]
    lengths: Floats | None


def _as_embeddable(X: Any, dtype: Any = None, width: int | None = None) -> Any:
    """Return points in the form for `forward`: a C-ordered array or a csr_array of finite values.

    The default dtype is float32 for float32 points, else float64. `width` is the required number of
    features.
    """
    if issparse(X):
        check_structure(X)
        check_shape(X, "X", width)
    else:
        X = as_points(X, "X", width=width)
    name = "X" if dtype in (None, X.dtype) else f"X as {dtype}"
    with np.errstate(over="ignore"):
        X = _converted(X, dtype)
    check_all_finite(values_of(X), name)
    return X


def _converted(X: Any, dtype: Any) -> Any:
    """Convert checked points to the dtype and memory layout of compiled code."""
    if not issparse(X):
        return np.asarray(X, dtype, order="C")
    if dtype is None:
        dtype = np.float32 if X.dtype == np.float32 else np.float64
    return csr_array(X, dtype=dtype) if X.format != "csr" or X.dtype != dtype else X


def check_start(X: Any, y: Any) -> tuple[Any, Integers | None]:
    """Check the arguments of `initialize`; return points for `forward` and class indices."""
    if on_disk(X):
        check_shape(X, "X")
    else:
        X = _as_embeddable(X)
    return X, None if y is None else as_codes(y, "y", X.shape[0])[1]


def check_side(side: str) -> None:
    """Raise ValueError unless `side` is a side of a search."""
    check_choice("side", side, ("query", "database"))


class Embedding(BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of embeddings: one of your own defines the four methods below.

    Attributes
    ----------
    asymmetric : bool
        Whether queries and database points are embedded differently.
    centers : bool
        Whether learners subtract the mean of the points first.
    """

    asymmetric = False
    centers = True

    @abstractmethod
    def initialize(
        self, X: Any, y: Array | None = None, random_state: int | RandomState | None = None
    ) -> Parameters:
        """Make the parameters to start from.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Points, of mean zero if they are in an array.
        y : ndarray of shape (n_samples,), optional
            Class labels; None if the labels are not classes.
        random_state : int, RandomState or None

        Returns
        -------
        list of ndarray
            In float32 for float32 points, otherwise in float64.

        Raises
        ------
        ValueError
            If the embedding's own parameters do not fit the data.
        """

    @abstractmethod
    def forward(
        self, parameters: Parameters, X: Any, *, side: str = "query", n_jobs: int | None = None
    ) -> tuple[Array, Any]:
        """Embed points.

        Parameters
        ----------
        parameters : list of ndarray
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Computed with in the dtype of the parameters.
        side : {"query", "database"}, default="query"
            Matters to `Asymmetric` alone; anything else is a ValueError everywhere.
        n_jobs : int, optional
            Number of threads; results do not depend on it.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
        cache : object
            For `backward`; it may hold Z, which must not be changed before.

        Raises
        ------
        ValueError
            If X has no points, another width than the parameters, NaN or infinity, or is a damaged
            sparse matrix; or if embedded points overflow.
        """

    def _forward(
        self, parameters: Parameters, X: Any, *, side: str = "query", n_jobs: int | None = None
    ) -> tuple[Array, Any]:
        """Embed points that have been checked."""
        found = self.forward(parameters, X, side=side, n_jobs=n_jobs)
        Z = np.asarray(found[0] if isinstance(found, tuple) and len(found) == 2 else None)
        if Z.ndim != 2 or len(Z) != X.shape[0]:
            raise TypeError(
                f"forward of {type(self).__name__} must return (Z, cache) with Z of shape "
                f"({X.shape[0]}, n_components); found {found!r:.80}."
            )
        return np.ascontiguousarray(Z, parameters[0].dtype if parameters else X.dtype), found[1]

    @abstractmethod
    def backward(
        self, parameters: Parameters, cache: Any, upstream: Array, *, n_jobs: int | None = None
    ) -> Parameters:
        """Turn the gradient by embedded points into the gradient by the parameters.

        Parameters
        ----------
        parameters, cache
            As given to and by `forward`.
        upstream : ndarray of shape (n_samples, n_components)
            Gradient by Z; not modified.
        n_jobs : int, optional

        Returns
        -------
        list of ndarray
            In the shapes and the dtype of the parameters.

        Raises
        ------
        ValueError
            If `upstream` has another shape, or is not finite (a LossOverflowError).
        """

    def _backward(
        self, parameters: Parameters, cache: Any, upstream: Array, *, n_jobs: int | None = None
    ) -> Parameters:
        """Return the gradient by the parameters from arguments that need no check."""
        found = self.backward(parameters, cache, upstream, n_jobs=n_jobs)
        shapes = list(map(np.shape, parameters))
        if list(map(np.shape, found)) != shapes:
            raise ValueError(
                f"backward of {type(self).__name__} must return gradients of the shapes of its "
                f"parameters, {shapes}; found {list(map(np.shape, found))}."
            )
        return found

    @abstractmethod
    def decays(self, default: float) -> list[float]:
        """Return the weight decay of each array of parameters; `default` is the learner's."""

    def _check_parameters(self, parameters: Parameters) -> None:
        """Raise ValueError unless there are as many arrays as `initialize` returns."""
        n = len(self.decays(0.0))
        if not isinstance(parameters, (list, tuple)) or len(parameters) != n:
            raise ValueError(f"parameters must be a list of {n} arrays, as initialize gives.")

    def _width(self, parameters: Parameters, side: str) -> int | None:
        """Return the number of features of points; None for any number."""
        return int(parameters[0].shape[1])


def checked_forward(
    embedding: Embedding, parameters: Parameters, X: Any, side: str, n_jobs: int | None
) -> tuple[Array, Any]:
    """Check parameters and points, and embed the points. Raise ValueError on overflow."""
    check_side(side)
    embedding._check_parameters(parameters)
    dtype = parameters[0].dtype if parameters else None
    X = _as_embeddable(X, dtype, embedding._width(parameters, side))
    with np.errstate(over="ignore", invalid="ignore"):
        found = embedding._forward(parameters, X, side=side, n_jobs=n_jobs)
    remedy = "scale its features, or the parameters"
    check_no_overflow(f"embedded points in {X.dtype}", found[0], remedy=remedy)
    return found


class CompiledEmbedding(Embedding):
    """Base class of compiled embeddings, with optional normalisation of rows."""

    normalize: bool | None

    def forward(
        self, parameters: Parameters, X: Any, *, side: str = "query", n_jobs: int | None = None
    ) -> tuple[Array, Any]:
        return checked_forward(self, parameters, X, side, n_jobs)

    def _check_parameters(self, parameters: Parameters) -> None:
        super()._check_parameters(parameters)
        dtypes = {array.dtype if isinstance(array, np.ndarray) else None for array in parameters}
        if len(dtypes) > 1 or not dtypes <= {np.dtype(np.float32), np.dtype(np.float64)}:
            raise ValueError(
                "parameters must be arrays of one dtype, float32 or float64, as initialize gives."
            )
        if not self._fit(parameters):
            raise ValueError(
                "parameters must be arrays of the shapes that initialize gives, found "
                f"{[array.shape for array in parameters]}."
            )
        if not all(array.flags.c_contiguous for array in parameters):
            raise ValueError("parameters must be C-contiguous: give numpy.ascontiguousarray.")

    @abstractmethod
    def _fit(self, parameters: Parameters) -> bool:
        """Return whether the shapes of parameters match."""

    @abstractmethod
    def _outputs(self, parameters: Parameters, X: Any, threads: int) -> list[Array]:
        """Return the intermediate arrays of a forward pass; the last is before normalisation."""

    @abstractmethod
    def _pull(
        self, parameters: Parameters, cache: Cache, upstream: Array, threads: int
    ) -> Parameters:
        """Return gradients by the parameters. `upstream`, before normalisation, may be modified."""

    def _forward(
        self, parameters: Parameters, X: Any, *, side: str = "query", n_jobs: int | None = None
    ) -> tuple[Array, Cache]:
        dtype = parameters[0].dtype if parameters else None
        X, threads = _converted(X, dtype), as_threads(n_jobs)
        outputs = self._outputs(parameters, X, threads)
        lengths = None
        if self.normalize:
            lengths = np.empty(X.shape[0])
            factors = _shrink(outputs[-1])
            get_kernels().normalize_forward(outputs[-1], lengths, threads)
            if factors is not None:
                with np.errstate(over="ignore"):
                    lengths /= factors
        return outputs[-1], Cache(X, outputs, lengths)

    def backward(
        self, parameters: Parameters, cache: Any, upstream: Array, *, n_jobs: int | None = None
    ) -> Parameters:
        self._check_parameters(parameters)
        if not isinstance(cache, Cache):
            raise TypeError(f"cache must be what forward returned, got {type(cache)}.")
        with np.errstate(over="ignore"):
            upstream = as_real(upstream, "upstream").astype(cache.outputs[-1].dtype, copy=False)
        if upstream.shape != cache.outputs[-1].shape:
            raise ValueError(
                f"upstream must have the shape of Z, {cache.outputs[-1].shape}; "
                f"found {upstream.shape}."
            )
        if not get_kernels().all_finite(upstream):
            raise LossOverflowError(f"upstream contains NaN, or infinity in {upstream.dtype}.")
        return self._backward(parameters, cache, upstream, n_jobs=n_jobs)

    def _backward(
        self, parameters: Parameters, cache: Any, upstream: Array, *, n_jobs: int | None = None
    ) -> Parameters:
        threads, upstream = as_threads(n_jobs), np.ascontiguousarray(upstream)
        if cache.lengths is not None or not upstream.flags.writeable:
            upstream = upstream.copy()
        if cache.lengths is not None:
            Z, lengths = cache.outputs[-1], cache.lengths
            get_kernels().normalize_backward(Z, lengths, upstream, threads)
        return self._pull(parameters, cache, upstream, threads)


class LayeredEmbedding(CompiledEmbedding):
    """An embedding by fully connected layers."""

    activation: str = "identity"

    def _fit(self, parameters: Parameters) -> bool:
        inputs: int | None = None
        for weight, bias in _layers(parameters):
            if not (weight.ndim == 2 and inputs in (None, weight.shape[1])):
                return False
            if not (bias is None or bias.shape == weight.shape[:1]):
                return False
            inputs = len(weight)
        return True

    def _outputs(self, parameters: Parameters, X: Any, threads: int) -> list[Array]:
        if isinstance(parameters[0], WideMap):
            return [np.ascontiguousarray(parameters[0].embed(X))]
        layers = _layers(parameters)
        outputs = [np.empty((X.shape[0], len(weight)), weight.dtype) for weight, _ in layers]
        if issparse(X):
            outputs[0] = np.ascontiguousarray(X @ layers[0][0].T)
        points: Any = None if issparse(X) else X
        get_kernels().layers_forward(points, layers, self.activation, outputs, threads)
        return outputs

    def _pull(
        self, parameters: Parameters, cache: Cache, upstream: Array, threads: int
    ) -> Parameters:
        layers = _layers(parameters)
        upstream, X, *outputs = with_gradient(upstream, cache.X, *cache.outputs)
        deltas = [np.empty_like(output) for output in outputs[:-1]] + [upstream]
        gradients = [np.empty_like(array) for array in parameters]
        into = _layers(gradients)
        points: Any = None if issparse(X) else X
        get_kernels().layers_backward(
            points, layers, self.activation, outputs, deltas, into, threads
        )
        if points is None:
            into[0][0][:] = (X.T @ deltas[0]).T
        return gradients


def _layers(parameters: Parameters) -> list[tuple[Array, Array | None]]:
    """Return each layer's weight and bias; a single layer has no bias."""
    if len(parameters) == 1:
        return [(parameters[0], None)]
    return list(zip(parameters[::2], parameters[1::2], strict=True))


def _shrink(Z: Array) -> Floats | None:
    """Scale down rows whose squared length would overflow; return the factors, or None.

    Squares of float32 values are summed in float64 and cannot overflow.
    """
    if Z.dtype == np.float32 or max(Z.max(initial=0), -Z.min(initial=0)) < _MOST:
        return None
    largest = np.abs(Z).max(axis=1)
    factors = np.where((largest < _MOST) | ~np.isfinite(largest), 1, 1 / np.maximum(largest, 1))
    Z *= factors[:, None]
    return factors
