"""Bases of sparse compositional metrics: directions that may separate points."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.random import sample_without_replacement
from threadpoolctl import threadpool_limits

from metricfast._core.arguments import as_matrix
from metricfast._core.scaling import center_and_rescale, moderate
from metricfast._core.scatter import discriminant_components
from metricfast._core.targets import by_appearance
from metricfast._core.threadpool import one_blas_thread
from metricfast._core.tuples import TupleSet
from metricfast._core.types import Array, Floats, Integers, RandomState
from metricfast._core.warn import ignored, warn_user
from metricfast.distances.neighbors import kneighbors_per_class

# Maximum number of elements of the matrices in one batched eigendecomposition.
_MATRICES = 1 << 18


def check_given_basis(basis: Any, n_features: int) -> Floats:
    """Return a checked copy of the user's bases, one per row."""
    found: Floats = as_matrix(basis, "basis")
    if found.shape[1] != n_features:
        raise ValueError(
            f"The dimensionality ({found.shape[1]}) of the provided bases must match the "
            f"dimensionality of the data ({n_features})."
        )
    return found


def triplet_directions(
    triplets: TupleSet, n_basis: int | None, rng: RandomState, *, n_features: int | None = None
) -> Floats:
    """Return directions in which far or near pairs of random triplets differ most.

    They are the eigenvectors of the sum over n_features triplets (a, b, c) of
    ``outer(a - b, a - b) - outer(a - c, a - c)``, for as many draws as it takes.

    `n_basis`: by default 80 times the number of features.
    `n_features`: number of features, if the triplets hold coordinates of the span.
    Returns an ndarray of shape (n_basis, n_coordinates): of unit length. Raises ValueError if there
    are fewer triplets than features, or points do not differ.
    """
    points, index = triplets.points, triplets.index
    n_triplets = len(index)
    n_features = points.shape[1] if n_features is None else n_features
    if n_features > n_triplets:
        raise ValueError(
            f"Number of features ({n_features}) is greater than the number of "
            f"triplets({n_triplets}).\nConsider using dimensionality reduction or using another "
            "basis generation scheme."
        )
    n_basis = 80 * n_features if n_basis is None else int(n_basis)
    found: list[Floats] = []
    n_found = n_failures = 0
    at_once = max(1, _MATRICES // n_features**2)
    with one_blas_thread():
        while n_found < n_basis:
            n_draws = min(at_once, -(-(n_basis - n_found) // n_features))
            drawn = [
                sample_without_replacement(n_triplets, n_features, random_state=rng)
                for _ in range(n_draws)
            ]
            a, b, c = points[np.moveaxis(index[np.array(drawn)], 2, 0)].astype(np.float64)
            near, far = a - b, a - c
            size = np.maximum(np.abs(near), np.abs(far)).max(axis=(1, 2), keepdims=True)
            size[size == 0] = 1
            near, far = near / size, far / size  # avoids overflow of squares
            values, vectors = np.linalg.eigh(_squares(near) - _squares(far))
            sizes = np.abs(values)
            smallest = n_features * np.finfo(points.dtype).eps * sizes.max(axis=1, keepdims=True)
            found.append(vectors.swapaxes(1, 2)[sizes > smallest])
            n_found += len(found[-1])
            n_failures = 0 if len(found[-1]) else n_failures + n_draws
            if n_failures >= 100:  # consecutive draws without a direction
                raise ValueError(
                    "The triplets give no bases: their points do not differ, or the second and "
                    "third differ from the first alike. Give `basis` as an array, or other "
                    "triplets."
                )
    return np.concatenate(found)[:n_basis]


def _squares(rows: Floats) -> Floats:
    squares: Floats = rows.swapaxes(1, 2) @ rows
    return squares


def local_discriminants(
    X: Array, labels: Integers, n_basis: int | None, rng: RandomState
) -> Floats:
    """Return linear discriminants of neighbourhoods around cluster centres, at two scales.

    `X`: ndarray of shape (n_samples, n_features).
    `labels`: ndarray of shape (n_samples,); class indices.
    `n_basis`: by default 20 times the number of features, or fewer if there are too few samples.
    Returns unit vectors in an ndarray of shape (at most n_basis, n_features). Neighbourhoods of low
    rank give fewer vectors. Raises ValueError if there are too few samples for `n_basis`.
    """
    n_samples, n_features = X.shape
    labels = by_appearance(labels)
    n_classes = int(labels.max()) + 1
    n_directions = min(n_classes - 1, n_features)
    limit = 2 * n_directions * n_samples
    if n_basis is None:
        n_basis = min(20 * n_features, limit - 1)
    elif n_basis < n_classes:
        warn_user(
            "The number of basis is less than the number of classes, "
            "which may lead to poor discriminative performance."
        )
    elif n_basis >= limit:
        raise ValueError(
            f"Not enough samples to generate {n_basis} LDA bases, n_basis"
            f"should be smaller than {limit}"
        )
    X, _ = moderate(X)
    # Clusters may change with the last digit of a mean. So an actual data value per feature is
    # subtracted, which gives the same differences after any shift of the points.
    middle = len(X) // 2
    X, _ = center_and_rescale(X - np.partition(X, middle, axis=0)[middle])
    scales = _scales(n_features)
    centres = _cluster_centres(X, -(-int(n_basis) // (2 * n_directions)), rng)
    _, near = kneighbors_per_class(centres, X, labels, scales[-1])
    found = []
    with one_blas_thread():
        for scale in scales:
            for region in near[:, :, :scale]:
                rows = region[region >= 0]
                found.append(
                    discriminant_components(X[rows], labels[rows], np.ones(len(rows)), n_directions)
                )
    basis = np.concatenate(found)
    lengths = np.linalg.norm(basis, axis=1, keepdims=True)
    kept = lengths[:, 0] > 0
    return np.asarray(basis[kept] / lengths[kept])[:n_basis]


def cost_of_discriminants(
    n_samples: int, n_features: int, n_classes: int, n_basis: int | None
) -> tuple[int, int, float]:
    """Return the number of bases, of their directions, and of multiplications that they take."""
    n_directions = min(n_classes - 1, n_features)
    most = min(20 * n_features, 2 * n_directions * n_samples - 1)
    n_basis = most if n_basis is None else int(n_basis)
    region = min(n_samples, n_classes * sum(_scales(n_features)) // 2)
    small, large = sorted((region, n_features))
    products = n_basis / n_directions * small**2 * float(large + small)
    return n_basis, min(n_samples, n_features), products


def _scales(n_features: int) -> tuple[int, int]:
    """Return the numbers of points of a class in small and in large neighbourhoods."""
    return (20, 50) if n_features > 50 else (10, 20)


def _cluster_centres(X: Array, n_clusters: int, rng: RandomState) -> Array:
    n_samples = min(len(X), 100 * n_clusters)  # enough for approximate centres
    rows = sample_without_replacement(len(X), n_samples, random_state=rng)
    # One thread, because results would depend on the number of threads.
    with (
        one_blas_thread(),
        threadpool_limits(1, "openmp"),
        ignored(ConvergenceWarning),  # it warns about duplicate points
    ):
        model = KMeans(n_clusters, n_init=1, random_state=rng).fit(X[np.sort(rows)])
    return np.asarray(model.cluster_centers_, X.dtype)
