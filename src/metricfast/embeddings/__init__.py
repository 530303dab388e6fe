"""Embeddings of points as vectors, with the gradients for training.

An embedding object defines the kind of map. A separate list of arrays holds its parameters.
`initialize` returns the parameters for data, `forward` embeds points, and `backward` returns the
gradient by the parameters, given the gradient by the embedded points::

    parameters = embedding.initialize(X, y, random_state=0)
    Z, cache = embedding.forward(parameters, X)
    gradients = embedding.backward(parameters, cache, upstream)
"""

from metricfast.embeddings._asymmetric import Asymmetric
from metricfast.embeddings._base import Embedding
from metricfast.embeddings._linear import Identity, Linear
from metricfast.embeddings._mlp import MLP
from metricfast.embeddings._periodic import Periodic

__all__ = ["MLP", "Asymmetric", "Embedding", "Identity", "Linear", "Periodic"]
