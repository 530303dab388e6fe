"""Periodic features of numbers, and a linear map of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metricfast._core.arguments import check_random_state
from metricfast._core.dispatch import get_kernels
from metricfast._core.parameters import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    check_parameters,
)
from metricfast._core.points import dense
from metricfast._core.types import Array, RandomState
from metricfast.embeddings._base import Cache, CompiledEmbedding, Parameters, check_start

# Largest number of turns at which float32 still resolves the phase.
_MOST_TURNS = 2.0**18


@dataclass(eq=False, repr=False)
class Periodic(CompiledEmbedding):
    """Periodic features of each number, and a linear map of all: for tables.

    The features of a number ``x_f`` are ``h_f = relu(A [cos 2 pi c_f x_f, sin 2 pi c_f x_f] + a)``,
    with frequencies ``c_f`` of its own, and A and a that all numbers share ("PLR-lite"). Columns
    that are no numbers, such as categories coded one-hot, come last and are taken as they are. The
    embedded point is ``z = L [h_1, ..., h_d, rest]``. So a distance may change fast along one
    feature and back again, while the distance of a linear map could only grow or shrink.

    Its parameters are the arrays ``[c, A, a, L]``, of shapes (n_features - n_passthrough,
    n_frequencies), (n_embedding, 2 n_frequencies), (n_embedding,) and (n_components,
    (n_features - n_passthrough) n_embedding + n_passthrough). All are learned.

    Parameters
    ----------
    n_components : int, default=64
        Dimension of the embedding.
    n_frequencies : int, default=16
        Frequencies of each number.
    n_embedding : int, default=8
        Features made of each number.
    scale : float, default=0.3
        Standard deviation of the normal distribution that frequencies are drawn from, in turns for
        each unit of a feature. It decides how fine the differences are that matter, and much else:
        choose it on held-out points.
    n_passthrough : int, default=0
        So many of the last columns are taken as they are.
    normalize : bool, optional
        Divide embedded points by their length. A point whose length is at most 1e-12 becomes zero,
        and passes no gradient on. By default a learner does it if the loss is `of_unit_length`.
    weight_decay : float, optional
        Of A and L; by default the learner's. Frequencies and a have none.

    Notes
    -----
    A, a and L are drawn from a uniform distribution between ``-1 / sqrt(k)`` and ``1 / sqrt(k)``,
    where k is the number of inputs. Numbers should have a spread of about 1. A number
    overflows if a frequency times it has no digits left for the fraction of a turn, at about half a
    million turns in float32.

    Features are computed for a block of points at a time, and computed again for the gradient, so
    that memory does not grow with them. Sparse points are made dense.

    References
    ----------
    Y. Gorishniy, I. Rubachev, A. Babenko, "On embeddings for numerical features in tabular deep
    learning", NeurIPS 2022.

    H.-J. Ye, H.-H. Yin, D.-C. Zhan, W.-L. Chao, "Revisiting nearest neighbor for tabular data: a
    deep tabular baseline two decades later", ICLR 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast.embeddings import Periodic
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> embedding = Periodic(n_components=5, n_passthrough=1)
    >>> parameters = embedding.initialize(X, random_state=0)
    >>> [array.shape for array in parameters]
    [(2, 16), (8, 32), (8,), (5, 17)]
    >>> Z, cache = embedding.forward(parameters, X)
    >>> Z.shape
    (20, 5)
    """

    n_components: PositiveInt = 64
    n_frequencies: PositiveInt = 16
    n_embedding: PositiveInt = 8
    scale: PositiveFloat = 0.3
    n_passthrough: NonNegativeInt = 0
    normalize: bool | None = None
    weight_decay: NonNegativeFloat | None = None

    def initialize(
        self, X: Any, y: Array | None = None, random_state: int | RandomState | None = None
    ) -> Parameters:
        check_parameters(self)
        X, _ = check_start(X, y)
        p, m, e = int(self.n_components), int(self.n_frequencies), int(self.n_embedding)
        rest = int(self.n_passthrough)
        numbers = X.shape[1] - rest
        if numbers < 1:
            raise ValueError(
                f"n_passthrough must be less than n_features={X.shape[1]}, got {rest}: use Linear "
                "or MLP where no column is a number."
            )
        rng = check_random_state(random_state)

        def drawn(inputs: int, *shape: int) -> Array:
            limit = 1 / np.sqrt(inputs)
            return rng.uniform(-limit, limit, shape)

        inputs = numbers * e + rest
        with np.errstate(over="ignore"):
            frequencies = (self.scale * rng.standard_normal((numbers, m))).astype(X.dtype)
        if not np.isfinite(frequencies).all():
            raise ValueError(f"scale={self.scale} is too large for points of {X.dtype}.")
        others = drawn(2 * m, e, 2 * m), drawn(2 * m, e), drawn(inputs, p, inputs)
        return [frequencies, *(array.astype(X.dtype) for array in others)]

    def _fit(self, parameters: Parameters) -> bool:
        c, A, a, L = parameters
        if not (c.ndim == A.ndim == L.ndim == 2 and c.size and A.size and a.ndim == 1):
            return False
        inputs = len(c) * len(A) + int(self.n_passthrough)
        return A.shape[1] == 2 * c.shape[1] and len(a) == len(A) and L.shape[1] == inputs

    def _width(self, parameters: Parameters, side: str) -> int:
        return len(parameters[0]) + int(self.n_passthrough)

    def _reachable(self, parameters: Parameters, X: Array) -> Array:
        """Clip points to the range in which every frequency's phase has precision left."""
        fastest = np.abs(parameters[0]).max(axis=1)
        most = _MOST_TURNS / np.maximum(fastest, np.finfo(X.dtype).tiny * _MOST_TURNS)
        if not (np.abs(X[:, : len(most)]) > most).any():
            return X
        X = X.copy()
        X[:, : len(most)] = np.clip(X[:, : len(most)], -most, most)
        return X

    def _outputs(self, parameters: Parameters, X: Any, threads: int) -> list[Array]:
        Z = np.empty((X.shape[0], len(parameters[-1])), parameters[0].dtype)
        get_kernels().periodic_forward(dense(X), list(parameters), Z, threads)
        return [Z]

    def _pull(
        self, parameters: Parameters, cache: Cache, upstream: Array, threads: int
    ) -> Parameters:
        gradients = [np.empty_like(array) for array in parameters]
        get_kernels().periodic_backward(
            dense(cache.X), list(parameters), upstream, gradients, threads
        )
        return gradients

    def decays(self, default: float) -> list[float]:
        own = default if self.weight_decay is None else self.weight_decay
        return [0.0, own, 0.0, own]
