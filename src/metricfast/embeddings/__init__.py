"""Embeddings: how a point becomes a vector, with the gradients that training needs.

An embedding object says what kind of map it is; the numbers are in a list of arrays, its
parameters. `initialize` makes the list from data, `forward` embeds points, `backward` turns the
gradient by the embedded points into that by the parameters::

    parameters = embedding.initialize(X, y, random_state=0)
    Z, cache = embedding.forward(parameters, X)
    gradients = embedding.backward(parameters, cache, upstream)
"""

from __future__ import annotations

from metricfast.embeddings._asymmetric import Asymmetric
from metricfast.embeddings._base import Embedding
from metricfast.embeddings._identity import Identity
from metricfast.embeddings._linear import Linear
from metricfast.embeddings._mlp import MLP
from metricfast.embeddings._periodic import Periodic

__all__ = ["MLP", "Asymmetric", "Embedding", "Identity", "Linear", "Periodic"]
