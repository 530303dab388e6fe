"""What embeddings have in common: fully connected layers, run in compiled code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from metricfast._arrays import as_threads
from metricfast._dispatch import get_kernels

__all__ = ["Array", "Cache", "Embedding", "LayeredEmbedding", "Parameters"]

Array = NDArray[Any]
Parameters = list[Array]


@dataclass(frozen=True)
class Cache:
    """What `backward` needs of a `forward`: the points, each layer's output, the lengths."""

    X: Any
    outputs: list[Array]
    lengths: NDArray[np.float64] | None


class Embedding(BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of embeddings.

    Attributes
    ----------
    asymmetric : bool
        Whether queries and database points are embedded differently.
    """

    asymmetric = False

    @abstractmethod
    def initialize(
        self,
        X: Any,
        y: Array | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> Parameters:
        """Make the parameters to start from.

        Parameters
        ----------
        X : {ndarray, csr_array} of shape (n_samples, n_features), float32 or float64
            Points, of mean zero if they are in an array.
        y : ndarray of shape (n_samples,), optional
            Class labels; None where labels are no classes.
        random_state : int, RandomState or None

        Returns
        -------
        list of ndarray
            In the dtype of X.

        Raises
        ------
        ValueError
            If the embedding's own parameters do not fit the data.
        """

    @abstractmethod
    def forward(
        self, parameters: Parameters, X: Any, *, side: str = "query", n_jobs: int | None = None
    ) -> tuple[Array, Cache]:
        """Embed points.

        Parameters
        ----------
        parameters : list of ndarray
        X : {ndarray, csr_array} of shape (n_samples, n_features)
            In C order and in the dtype of the parameters.
        side : {"query", "database"}, default="query"
            Matters to `Asymmetric` alone.
        n_jobs : int, optional
            Number of threads; results do not depend on it.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
        cache : Cache
            For `backward`; it holds Z, which must not be changed before.
        """

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
        """

    @abstractmethod
    def decays(self, default: float) -> list[float]:
        """Return the weight decay of each array of parameters, where the learner's is `default`."""


class LayeredEmbedding(Embedding):
    """An embedding by fully connected layers, perhaps with rows brought to unit length."""

    normalize: bool

    @property
    def _activation(self) -> str:
        return "identity"

    @abstractmethod
    def _layers(self, parameters: Parameters) -> tuple[list[Array], list[Array | None]]:
        """Return each layer's weight and bias."""

    def forward(
        self, parameters: Parameters, X: Any, *, side: str = "query", n_jobs: int | None = None
    ) -> tuple[Array, Cache]:
        weights, biases = self._layers(parameters)
        n, dtype = X.shape[0], weights[0].dtype
        outputs = [np.empty((n, len(weight)), dtype) for weight in weights]
        if issparse(X):
            outputs[0] = np.ascontiguousarray(X @ weights[0].T)
        threads, kernels = as_threads(n_jobs), get_kernels()
        points = None if issparse(X) else X
        kernels.layers_forward(points, weights, biases, self._activation, outputs, threads)
        lengths = None
        if self.normalize:
            lengths = np.empty(n)
            kernels.normalize_forward(outputs[-1], lengths, threads)
        return outputs[-1], Cache(X, outputs, lengths)

    def backward(
        self, parameters: Parameters, cache: Any, upstream: Array, *, n_jobs: int | None = None
    ) -> Parameters:
        weights, biases = self._layers(parameters)
        threads, kernels = as_threads(n_jobs), get_kernels()
        if cache.lengths is not None:
            upstream = upstream.copy()
            kernels.normalize_backward(cache.outputs[-1], cache.lengths, upstream, threads)
        deltas = [np.empty_like(output) for output in cache.outputs[:-1]] + [upstream]
        gradients = [np.empty_like(array) for array in parameters]
        into = self._layers(gradients)
        points = None if issparse(cache.X) else cache.X
        kernels.layers_backward(
            points, weights, biases, self._activation, cache.outputs, deltas, *into, threads
        )
        if points is None:
            into[0][0][:] = (cache.X.T @ deltas[0]).T
        return gradients
