"""Two sides: the initial maps, the mean of queries, and the penalty of parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricfast._core.arguments import check_no_overflow
from metricfast._core.sources import take
from metricfast._core.types import Array
from metricfast.embeddings import MLP, Asymmetric, Embedding, Linear
from metricfast.embeddings._asymmetric import sides_of
from metricfast.learners.base.inputs import check_warm_start
from metricfast.learners.gerrymandering.history import unit_scale
from metricfast.learners.gerrymandering.regularizers import penalty
from metricfast.training.chunks import mean_of
from metricfast.training.embedded import embed_samples
from metricfast.training.samples import Samples


def initial_maps(
    estimator: Any,
    embedding: Embedding,
    samples: Samples,
    rng: np.random.RandomState,
    kept: list[Array] | None,
    largest_cost: float,
) -> list[Array]:
    """Return the initial parameters, scaled for the loss."""
    points = samples.points
    alike = points.X.shape[1] == samples.X.shape[1]
    if alike or not isinstance(embedding, Asymmetric):
        start = embedding.initialize(points.X, points.labels, rng)
    else:
        sample = samples.representative
        start = embedding.initialize(
            sample.X, sample.labels, rng, sample.points.X, sample.points.labels
        )
    given = estimator.query is not None or estimator.database is not None
    if isinstance(embedding, Asymmetric) and alike and not given:
        start[1] = start[0].copy()  # one common start is better, also if random
    if not any(array.any() for array in start):
        raise ValueError("`init` is zero, where the objective has no slope: give other maps.")
    if kept is not None:
        check_warm_start(kept, [array.shape for array in start])
        return [array.astype(samples.X.dtype) for array in kept]
    sample = samples.representative
    queries, database = embed_samples(embedding, start, sample, estimator.n_jobs)
    remedy = "scale its features, or choose another init"
    check_no_overflow("embedded points", queries, database, remedy=remedy)
    fixed = isinstance(embedding, Asymmetric) and not all(embedding.split(start))
    if fixed or not isinstance(estimator.init, str):  # keep the scale of a side without parameters
        return start
    own = np.arange(len(queries)) if samples.database is None else None
    k = min(estimator.n_neighbors, len(database) - (own is not None))
    scale = unit_scale(queries, database, own, k, largest_cost)
    if not isinstance(embedding, Asymmetric):
        return _scaled(embedding, start, scale)
    of_queries, of_database = embedding.split(start)
    return [
        *_scaled(embedding.query, of_queries, scale),
        *_scaled(embedding.database, of_database, scale),
    ]


def two_sided_penalty(
    embedding: Embedding, regularizer: str | None, arrays: list[Array], n_jobs: int | None
) -> tuple[float, list[Array]]:
    """Return the penalty on the parameters of an embedding, and its gradients."""
    if all(isinstance(side, Linear) for side in sides_of(embedding)):
        return penalty(regularizer, arrays, n_jobs)
    total, gradients = 0.0, []
    # An embedding with its own decay does not use the default of the learner.
    for A, own, other in zip(arrays, embedding.decays(0.0), embedding.decays(1.0), strict=True):
        if own == other:
            value, gradient = own / 2 * float((A * A).sum()), own * A
        else:
            value, (gradient,) = penalty(regularizer, [A])
        total += value
        gradients.append(gradient)
    return total, gradients


def mean_of_queries(samples: Samples) -> Array:
    """Return the mean of the queries with the class frequencies of the database.

    If both sides have the same features, the position of a class without queries, relative to the
    other classes, is taken from the database.
    """
    X, y, weight = samples.X, samples.labels, samples.weight
    database, y_database = samples.points.X, samples.points.labels
    own = np.bincount(y, weight, y_database.max() + 1)
    known = own > 0
    shares = np.divide(np.bincount(y_database), own, out=np.zeros(len(own)), where=known)[y]
    mean = mean_of(X, shares if weight is None else shares * weight)
    if not known.all() and X.shape[1] == database.shape[1]:
        mean += mean_of(database) - mean_of(take(database, known[y_database]))
    return mean


def is_linear_map(embedding: Embedding) -> bool:
    """Return whether an embedding is a linear map."""
    return isinstance(embedding, Linear) and not embedding.normalize


def _scaled(embedding: Embedding, arrays: list[Array], factor: float) -> list[Array]:
    """Scale the parameters so that embedded points are `factor` times as long.

    Initial biases are zero. If the activation is homogeneous, all layers get the same norm, which
    approximately minimises the total penalty.
    """
    if getattr(embedding, "normalize", False):
        return arrays
    layers = slice(0, None, 2) if isinstance(embedding, MLP) else slice(-1, None)
    norms = np.array([float(np.linalg.norm(weight)) for weight in arrays[layers]])
    factors = np.append(np.ones(len(norms) - 1), factor)
    if getattr(embedding, "activation", "identity") != "tanh" and norms.all():
        factors = np.exp(np.log(norms * factors).mean()) / norms
    scaled = list(arrays)
    scaled[layers] = [
        (weight * by).astype(weight.dtype)
        for weight, by in zip(arrays[layers], factors, strict=True)
    ]
    return scaled
