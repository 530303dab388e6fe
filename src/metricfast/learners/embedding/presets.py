"""Embedding learners with matching loss and sampler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

import metricfast.losses as losses
from metricfast._core.parameters import NonNegativeFloat
from metricfast._labels.binding import SaidDistance
from metricfast.embeddings import MLP, Embedding, Linear
from metricfast.learners.embedding.base import BaseEmbeddingLearner
from metricfast.samplers import ClassBalanced, DenseTriplet, Sampler, Uniform


@dataclass(eq=False, repr=False)
class LogRatioLearner(BaseEmbeddingLearner):
    """Log-ratio loss of continuous labels, on batches of anchors and their label neighbours.

    Embedded distances are made proportional to distances of labels.

    Parameters
    ----------
    n_components : int, optional
        Dimension of the embedding; by default n_features, or 64 with hidden layers.
    hidden_layer_sizes : sequence of int, default=()
        Widths of hidden layers; without any, the embedding is linear.
    normalize : bool, default=False
        Divide embedded points by their length.
    n_neighbors : int, default=5
        Label neighbours of each anchor in a batch, of other labels than the anchor's.
    n_anchors : int, default=8
        Anchors in a batch.
    batch_size : int, default=150
    solver, learning_rate, max_epochs, judge, early_stopping, database, warm_start, callbacks
        See `EmbeddingLearner`, which takes any other combination.
    preprocessor, verbose, random_state, n_jobs
        See `EmbeddingLearner`.
    label_distance : str, tuple or callable, optional
        See `EmbeddingLearner`, of the loss, the sampler and scores; by default "euclidean".

    Attributes
    ----------
    embedding_, parameters_, mean_, n_components_, loss_curve_, n_iter_
        See `EmbeddingLearner`.

    References
    ----------
    S. Kim, M. Seo, I. Laptev, M. Cho, S. Kwak, "Deep metric learning beyond binary supervision",
    CVPR 2019.

    Examples
    --------
    >>> from metricfast import LogRatioLearner
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> learner = LogRatioLearner(2, max_epochs=3, random_state=0).fit(20 * X, y)
    >>> learner.transform(20 * X).shape
    (442, 2)
    """

    n_components: int | None = None
    _: KW_ONLY
    hidden_layer_sizes: Sequence[int] = ()
    normalize: bool = False
    n_neighbors: int = 5
    n_anchors: int = 8
    batch_size: int = 150
    database: str = "batch"
    label_distance: SaidDistance | None = None

    _sampler_params = "n_neighbors", "n_anchors"

    def _parts(self) -> tuple[Any, Embedding, Sampler]:
        sampler = DenseTriplet(self.n_neighbors, n_anchors=self.n_anchors, ties="drop")
        # By default, the loss squares both distances; a given label distance is not squared.
        squared = self.label_distance in (None, "sqeuclidean")
        return losses.LogRatio(squared), _linear_or_mlp(self), sampler


@dataclass(eq=False, repr=False)
class TripletLearner(BaseEmbeddingLearner):
    """Triplet loss of classes, over all triplets of batches with several points per class.

    Parameters
    ----------
    n_components : int, optional
        Dimension of the embedding; by default n_features, or 64 with hidden layers.
    margin : float, default=0.2
        By which squared distances to points of other classes shall exceed those to the own.
    mining : {"all", "semihard", "hardest"}, default="all"
        Triplets in the loss, see `metricfast.losses.Triplet`.
    hidden_layer_sizes : sequence of int, default=()
        Widths of hidden layers; without any, the embedding is linear.
    normalize : bool, optional
        Divide embedded points by their length, which `margin` is in proportion to. By default so,
        unless the given distance is kept.
    m_per_class : int, default=8
        Points of each class in a batch.
    batch_size : int, default=128
    solver, learning_rate, max_epochs, judge, early_stopping, database, warm_start, callbacks
        See `EmbeddingLearner`, which takes any other combination.
    preprocessor, verbose, random_state, n_jobs
        See `EmbeddingLearner`.

    Attributes
    ----------
    embedding_, parameters_, classes_, mean_, n_components_, loss_curve_, n_iter_
        See `EmbeddingLearner`.

    References
    ----------
    F. Schroff, D. Kalenichenko, J. Philbin, "FaceNet: a unified embedding for face recognition and
    clustering", CVPR 2015.

    Examples
    --------
    >>> from metricfast import TripletLearner
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = TripletLearner(3, max_epochs=3, judge=None, random_state=0).fit(X, y)
    >>> learner.transform(X).shape
    (150, 3)
    """

    n_components: int | None = None
    margin: float = 0.2
    mining: str = "all"
    _: KW_ONLY
    hidden_layer_sizes: Sequence[int] = ()
    normalize: bool | None = None
    m_per_class: int = 8
    batch_size: int = 128
    database: str = "batch"

    _sampler_params = ("m_per_class",)

    def _parts(self) -> tuple[Any, Embedding, Sampler]:
        sampler = ClassBalanced(self.m_per_class)
        return losses.Triplet(self.margin, self.mining), _linear_or_mlp(self), sampler


@dataclass(eq=False, repr=False)
class ProxyNCALearner(BaseEmbeddingLearner):
    """Proxy-NCA: points near the proxy of their class, far from all others, both learned.

    An epoch takes time in proportion to points times classes. Batches need not have two points of a
    class.

    Parameters
    ----------
    n_components : int, optional
        Dimension of the embedding; by default n_features, or 64 with hidden layers.
    scale : float, default=8.0
        Factor of the squared distances in the softmax.
    hidden_layer_sizes : sequence of int, default=()
        Widths of hidden layers; without any, the embedding is linear.
    normalize : bool, optional
        Divide embedded points, and proxies, by their length. By default so, unless the given
        distance is kept.
    proxy_lr_factor : float, default=10.0
        Factor of the learning rate for proxies.
    batch_size : int, default=128
    solver, learning_rate, max_epochs, judge, early_stopping, warm_start, callbacks
        See `EmbeddingLearner`, which takes any other combination.
    preprocessor, verbose, random_state, n_jobs
        See `EmbeddingLearner`.

    Attributes
    ----------
    embedding_, parameters_, proxies_, classes_, mean_, n_components_, loss_curve_, n_iter_
        See `EmbeddingLearner`.

    References
    ----------
    Y. Movshovitz-Attias, A. Toshev, T. K. Leung, S. Ioffe, S. Singh, "No fuss distance metric
    learning using proxies", ICCV 2017.

    Examples
    --------
    >>> from metricfast import ProxyNCALearner
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = ProxyNCALearner(2, max_epochs=3, judge=None, random_state=0).fit(X, y)
    >>> learner.proxies_.shape
    (3, 2)
    """

    n_components: int | None = None
    scale: float = 8.0
    _: KW_ONLY
    hidden_layer_sizes: Sequence[int] = ()
    normalize: bool | None = None
    proxy_lr_factor: NonNegativeFloat = 10.0
    batch_size: int = 128

    def _parts(self) -> tuple[Any, Embedding, Sampler]:
        return losses.ProxyNCA(self.scale), _linear_or_mlp(self), Uniform()


def _linear_or_mlp(learner: Any) -> Embedding:
    """Return the embedding that the parameters of a learner describe."""
    if np.size(learner.hidden_layer_sizes) == 0:
        return Linear(learner.n_components, normalize=learner.normalize)
    width = 64 if learner.n_components is None else learner.n_components
    return MLP(learner.hidden_layer_sizes, width, normalize=learner.normalize)
