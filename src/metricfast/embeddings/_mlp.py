"""Multilayer perceptrons."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from metricfast._core.arguments import check_random_state
from metricfast._core.parameters import LayerSizes, NonNegativeFloat, PositiveInt, check_parameters
from metricfast._core.types import Array, RandomState
from metricfast.embeddings._base import LayeredEmbedding, Parameters, check_start


@dataclass(eq=False, repr=False)
class MLP(LayeredEmbedding):
    """A multilayer perceptron: ``z = W_k f(... f(W_1 x + b_1) ...) + b_k``.

    Its parameters are the arrays ``[W_1, b_1, ..., W_k, b_k]``, weights of shape (width, inputs).

    Parameters
    ----------
    hidden_layer_sizes : sequence of int, default=(256,)
        Widths of the layers between the points and the embedding.
    n_components : int, default=64
        Dimension of the embedding.
    activation : {"relu", "tanh", "identity"}, default="relu"
        The function f.
    normalize : bool, optional
        Divide embedded points by their length. A point whose length is at most 1e-12 becomes zero,
        and passes no gradient on. By default a learner does it if the loss is `of_unit_length`.
    weight_decay : float, optional
        Decay of the weights; by default the learner's. Biases have none.

    Notes
    -----
    Weights are drawn from a uniform distribution of variance 2 / inputs after which "relu" follows
    (He), else 2 / (inputs + width) (Glorot); biases begin at zero. Features should be of similar
    scale, about 1. A learner that selects its training on held-out points also tries networks that
    compute a linear map at first, unless the activation is "tanh".

    References
    ----------
    X. Glorot, Y. Bengio, "Understanding the difficulty of training deep feedforward neural
    networks", AISTATS 2010.

    K. He, X. Zhang, S. Ren, J. Sun, "Delving deep into rectifiers", ICCV 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast.embeddings import MLP
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> embedding = MLP((8,), n_components=2, normalize=True)
    >>> parameters = embedding.initialize(X, random_state=0)
    >>> [array.shape for array in parameters]
    [(8, 3), (8,), (2, 8), (2,)]
    >>> Z, cache = embedding.forward(parameters, X)
    >>> bool(np.allclose(np.linalg.norm(Z, axis=1), 1))
    True
    """

    hidden_layer_sizes: LayerSizes = (256,)
    n_components: PositiveInt = 64
    activation: Literal["relu", "tanh", "identity"] = "relu"
    normalize: bool | None = None
    weight_decay: NonNegativeFloat | None = None

    def initialize(
        self, X: Any, y: Array | None = None, random_state: int | RandomState | None = None
    ) -> Parameters:
        check_parameters(self)
        X, _ = check_start(X, y)
        rng = check_random_state(random_state)
        widths = [X.shape[1], *map(int, self.hidden_layer_sizes), int(self.n_components)]
        parameters = []
        for layer, (inputs, width) in enumerate(pairwise(widths)):
            rectified = self.activation == "relu" and layer < len(widths) - 2
            variance = 2 / inputs if rectified else 2 / (inputs + width)
            limit = np.sqrt(3 * variance)
            parameters.append(rng.uniform(-limit, limit, (width, inputs)).astype(X.dtype))
            parameters.append(np.zeros(width, X.dtype))
        return parameters

    def decays(self, default: float) -> list[float]:
        own = default if self.weight_decay is None else self.weight_decay
        return [own, 0.0] * (1 + len(self.hidden_layer_sizes))


def linear_rows(network: MLP) -> int:
    """Return the most rows of a linear map that a network can compute; 0 with "tanh"."""
    units = {"relu": 2, "identity": 1}.get(network.activation)
    if units is None:
        return 0
    widths = [int(width) // units for width in network.hidden_layer_sizes]
    return min([int(network.n_components), *widths])


def linear_start(network: MLP, L: Array, random_state: int | RandomState | None) -> Parameters:
    """Return parameters with which a network computes Lx, and zeros beyond its components.

    With "relu", two units of each hidden layer have the positive and the negative part of a
    component. The others are random, and have no influence before training.
    """
    parameters = network.initialize(L[:1], random_state=random_state)
    rows = np.concatenate([L, -L]) if network.activation == "relu" else L
    *hidden, last = parameters[::2]
    for layer, weight in enumerate(hidden):
        weight[: len(rows)] = 0 if layer else rows
        if layer:
            np.fill_diagonal(weight[: len(rows)], 1)
    last[:] = 0
    np.fill_diagonal(last[: len(L)], 1)
    if len(rows) > len(L):
        np.fill_diagonal(last[: len(L), len(L) :], -1)
    return parameters
