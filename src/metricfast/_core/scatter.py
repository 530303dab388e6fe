"""Principal and discriminant components of weighted data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import cholesky, eigh
from scipy.linalg.lapack import dtrtri
from scipy.sparse.linalg import LinearOperator

from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels
from metricfast._core.memory import block_rows
from metricfast._core.points import dense, is_wide
from metricfast._core.sources import Source, parts, row_bytes, take
from metricfast._core.sparse import principal_axes
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.warn import SECONDS, warn_if_long

# Doubles per block, which fits into the cache. Float32 data are converted block by block.
_BLOCK_SIZE = 1 << 18
# Bytes per block; a block of this size stays in the last-level cache.
_READ = 8 << 20
# With more features, an eigendecomposition takes seconds or more.
MANY_FEATURES = 1000
# Directions with a smaller standard deviation, relative to the largest, are treated as constant.
RANK_TOL = 1e-4
RANK_TOL_DOUBLE = 1e-6
# The neighbour whose distance is the local scale of a point.
LOCAL_NEIGHBORS = 7


def repetitions(sample_weight: Floats | None, n_samples: int) -> Floats:
    """Return how often each sample counts.

    Integer weights are counts. Other weights are scaled to a mean of one over the samples of
    positive weight, because results must not depend on the unit of weights.
    """
    if sample_weight is None:
        return np.ones(n_samples)
    if np.array_equal(sample_weight, np.floor(sample_weight)):
        return sample_weight
    count = np.count_nonzero(sample_weight)
    return np.asarray(sample_weight * (count / sample_weight.sum()))


def principal_components(X: Array, weights: Floats, n_components: int) -> Floats:
    """Orthonormal directions of greatest variance in descending order, one per row.

    The entry with the largest absolute value in each row is positive.
    """
    check_principal(X.shape[1], weights, n_components)
    if is_wide(X) and n_components < min(X.shape):
        return with_signs(principal_axes(X, weights, n_components))
    group = np.zeros(X.shape[0], dtype=np.int64)
    means = group_means(X, weights, group, 1)
    if n_components <= X.shape[0] < X.shape[1]:
        axes = svd((dense(X[:]) - means[group]) * np.sqrt(weights)[:, None])[2]
    else:
        axes = eigh(scatter_matrix(X, weights, group, means), overwrite_a=True)[1].T[::-1]
    return with_signs(axes[:n_components])


def discriminant_components(X: Array, y: Array, weights: Floats, n_components: int) -> Floats:
    """Directions of linear discriminant analysis, scaled to unit variance within classes.

    Rows beyond the rank of the problem are zero. If classes are constant or have equal means,
    returns the principal components instead.
    """
    seen = weights > 0
    X, weights = (X, weights) if seen.all() else (take(X, seen), weights[seen])
    classes, group = np.unique(y[seen], return_inverse=True)
    n_samples, counts = weights.sum(), np.bincount(group, weights)
    check_discriminant(X.shape[1], counts, n_components)
    means = group_means(X, weights, group, len(classes))
    deviation = _deviation(X, weights, group, means)
    relative = weights / n_samples
    if X.shape[0] < X.shape[1]:
        deviations = (dense(X[:]) - means[group]) / deviation * np.sqrt(relative)[:, None]
        constant = np.sqrt(relative)[:, None] * (group[:, None] == np.arange(len(classes)))
        whitening = _whiten_rows(deviations, constant / np.linalg.norm(constant, axis=0))
    else:
        whitening = whiten_within(scatter_matrix(X, relative, group, means, scale=deviation))
    # The whitening is of features divided by their deviations.
    found = discriminant_directions(whitening, means / deviation, counts, n_components)
    if found is None:
        return principal_components(X, weights, n_components)
    return with_signs(found / deviation)


def whiten_within(scatter: Floats) -> Floats:
    """Return W with ``W.T @ W`` the pseudo-inverse of a scatter matrix within classes.

    Features have unit variance. Directions of less than `RANK_TOL` are treated as constant.
    """
    with suppress(np.linalg.LinAlgError):
        inverse = dtrtri(cholesky(scatter, lower=True), lower=True, overwrite_c=True)[0]
        # The squared norm is the sum of the inverse eigenvalues of the scatter matrix.
        if np.square(inverse).sum() < RANK_TOL**-2:
            return np.asarray(inverse)
    values, vectors = eigh(scatter)
    return _whitening_of(np.maximum(values[::-1], 0), vectors.T[::-1])


def _whiten_rows(rows: Floats, null: Floats) -> Floats | LinearOperator:
    """Return W with ``W.T @ W`` the pseudo-inverse of ``rows.T @ rows``, of few rows.

    `null`: orthonormal columns whose products with the rows are zero.
    """
    with suppress(np.linalg.LinAlgError):
        root = cholesky(rows @ rows.T + null @ null.T, lower=True)
        inverse = dtrtri(root, lower=True, overwrite_c=True)[0]
        if np.square(inverse).sum() < RANK_TOL**-2:

            def times(x: Floats) -> Floats:
                return np.asarray(inverse.T @ (inverse @ (rows @ x)))

            def transposed(x: Floats) -> Floats:
                return np.asarray(rows.T @ (inverse.T @ (inverse @ x)))

            return LinearOperator(rows.shape, times, transposed, times, np.float64, transposed)
    _, sizes, axes = svd(rows)
    return _whitening_of(sizes**2, axes)


def _whitening_of(variances: Floats, axes: Floats) -> Floats:
    """Return the axes of positive variance, divided by their standard deviations."""
    kept = variances > RANK_TOL**2
    return np.asarray(axes[kept] / np.sqrt(variances[kept])[:, None])


def discriminant_directions(
    whitening: Floats | LinearOperator, means: Floats, counts: Array, n_components: int
) -> Floats | None:
    """Return discriminant directions from class means and W of the within-class scatter S.

    ``W.T @ W`` is the pseudo-inverse of S. Returns None if classes are constant or have equal
    means.
    """
    n_samples = counts.sum()
    spread = (means - counts @ means / n_samples) * np.sqrt(counts / n_samples)[:, None]
    _, sizes, directions = svd((whitening @ spread.T).T)
    kept = directions[sizes > RANK_TOL * sizes.max(initial=0)][:n_components]
    found = (whitening.T @ kept.T).T
    if not len(found):
        return None
    components = np.zeros((n_components, means.shape[1]))
    components[: len(found)] = with_signs(found)
    return components


def check_principal(n_features: int, weights: Floats, n_components: int) -> None:
    """Raise ValueError if more principal components are asked for than exist."""
    most = int(min(n_features, weights.sum()))
    if n_components > most:
        raise ValueError(
            f"n_components={n_components} must be between 0 and min(n_samples, n_features)={most}"
        )


def check_discriminant(n_features: int, counts: Array, n_components: int) -> None:
    """Raise ValueError if more discriminant components are asked for than exist."""
    if n_components > min(n_features, len(counts) - 1):
        raise ValueError("n_components cannot be larger than min(n_features, n_classes - 1).")
    if counts.sum() <= len(counts):
        raise ValueError("The number of samples must be more than the number of classes.")


def within_scatter(X: Any, y: Integers, weights: Floats | None, *, diagonal: bool) -> Floats:
    """Return the within-class scatter matrix (a sum of outer products), or its diagonal."""
    weights = np.ones(len(y)) if weights is None else weights
    seen = weights > 0
    X, weights = (X, weights) if seen.all() else (take(X, seen), weights[seen])
    classes, group = np.unique(y[seen], return_inverse=True)
    means = group_means(X, weights, group, len(classes))
    if not diagonal:
        return scatter_matrix(X, weights, group, means)
    return _squares(X, weights, group, means)


def pair_scatter(points: Array, index: Integers, weights: Floats | None = None) -> Floats:
    """Return the sum of the (weighted) outer products of differences of indexed pairs of points."""
    scatter = np.zeros((points.shape[1], points.shape[1]))
    for rows in blocks(points, len(index)):
        left, right = index[rows].T
        difference = points[left].astype(np.float64) - points[right]
        if weights is not None:
            difference *= np.sqrt(weights[rows])[:, None]
        scatter += difference.T @ difference
    return scatter


def blocks(X: Array, n_rows: int | None = None) -> Iterator[slice]:
    """Yield slices of the rows of X, or of `n_rows` rows of its width, that fit into the cache."""
    step = max(1, _BLOCK_SIZE // X.shape[1])
    n_rows = X.shape[0] if n_rows is None else n_rows
    for start in range(0, n_rows, step):
        yield slice(start, start + step)


def pieces(X: Any) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of points of any kind as arrays, each with its slice."""
    if not isinstance(X, Source):
        for rows in blocks(X):
            yield rows, dense(X[rows])
        return
    for part, block in readings(X):
        for rows in blocks(block):
            found = block[rows]
            start = part.start + rows.start
            yield slice(start, start + len(found)), found


def readings(X: Any) -> Iterator[tuple[slice, Array]]:
    """Yield large blocks for kernels: blocks of a source, or the whole array."""
    if isinstance(X, Source):
        n = as_threads(None)  # number of blocks in memory at the same time
        yield from parts(X, block_rows(n * row_bytes(X), most=n * _READ))
    elif isinstance(X, np.ndarray):
        yield slice(0, len(X)), X
    else:
        yield from pieces(X)


def group_means(X: Any, weights: Floats, group: Integers, n_groups: int) -> Floats:
    """Return the weighted mean of each group of samples, one per row."""
    sums = np.zeros((n_groups, X.shape[1]))
    for rows, block in readings(X):
        sums += group_sums(block, weights[rows], group[rows], n_groups)[0]
    return sums / np.bincount(group, weights)[:, None]


def group_sums(
    X: Array, weights: Floats, group: Integers, n_groups: int, *, origin: Floats | None = None,
    n_jobs: int | None = None,
) -> tuple[Floats, float]:  # fmt: skip
    """Return weighted sums of points minus the origin, by group, and the largest offset."""
    sums = np.empty((n_groups, X.shape[1]))
    given = _arrays(X, weights, group)
    return sums, get_kernels().group_sums(*given, sums, origin, as_threads(n_jobs))


def _arrays(X: Array, weights: Floats, group: Integers) -> tuple[Array, Floats, Integers]:
    """Convert points, weights and groups to the dtypes of the kernels."""
    return (
        np.ascontiguousarray(X),
        np.ascontiguousarray(weights, dtype=np.float64),
        np.ascontiguousarray(group, dtype=np.int64),
    )


def _squares(X: Any, weights: Floats, group: Integers, means: Floats) -> Floats:
    """Return the diagonal of the scatter matrix; zero for columns constant within groups."""
    squares = np.zeros(X.shape[1])
    for rows, block in pieces(X):
        squares += weights[rows] @ (block - means[group[rows]]) ** 2
    rounding = 16 * np.finfo(np.float64).eps * np.abs(means).max(axis=0)
    return np.where(squares > weights.sum() * rounding**2, squares, 0.0)


def _deviation(X: Array, weights: Floats, group: Integers, means: Floats) -> Floats:
    """Return standard deviations within groups; 1 for columns that are constant within groups."""
    deviation = np.sqrt(_squares(X, weights, group, means) / weights.sum())
    return np.where(deviation > 0, deviation, 1.0)


def scatter_matrix(
    X: Any, weights: Floats, group: Integers, means: Floats, *, scale: Floats | None = None,
    origin: Floats | None = None, n_jobs: int | None = None,
) -> Floats:  # fmt: skip
    """Return the weighted sum of the outer products of deviations from the mean of the group."""
    scatter = np.zeros((X.shape[1], X.shape[1]))
    for rows, block in readings(X):
        part = np.empty_like(scatter)
        given = _arrays(block, weights[rows], group[rows])
        get_kernels().group_scatter(part, *given, means, scale, as_threads(n_jobs), origin)
        scatter += part
    return scatter


def local_scatters(
    X: Array, codes: Integers, weights: Floats, k: int, n_jobs: int | None = None
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the scatters that `LFDA` mixes, of points of the classes 0, 1, ...

    They are the scatter between and within classes, the local scatter within classes, the scatter
    around the means of classes, and the scatter of all points. Local scatters of single classes are
    not stored.

    `k`: the neighbour whose distance is the local scale of a point.
    """
    n_pairs = float(np.square(np.bincount(codes), dtype=np.float64).sum())
    warn_if_long(
        n_pairs * (SECONDS["local pair"] + X.shape[1] * SECONDS["local coordinate"]),
        f"Computing {n_pairs:.2g} distances between points of one class",
        "some of the points, or features with fewer points of a class",
        as_threads(n_jobs),
    )
    counts, all_points = np.bincount(codes, weights), weights.sum()
    means = group_means(X, weights, codes, len(counts))
    others = weights * (1 - counts / all_points)[codes]
    spread = (means - counts @ means / all_points) * np.sqrt(counts)[:, None]
    between = spread.T @ spread
    mixed = scatter_matrix(X, others, codes, means) + between
    within, scatter = np.zeros_like(mixed), np.empty_like(mixed)
    for label, members in members_of_groups(codes):
        deviations = np.subtract(X[members], means[label], dtype=np.float64)
        get_kernels().local_scatter(scatter, deviations, weights[members], k, as_threads(n_jobs))
        mixed += scatter / all_points
        within += scatter / counts[label]
    around_means = scatter_matrix(X, weights, codes, means)
    return mixed, within, around_means, around_means + between


def members_of_groups(code: Integers) -> Iterator[tuple[int, Integers]]:
    """Yield each group that has points, and its rows in ascending order."""
    order = np.argsort(code, kind="stable")
    groups, first = np.unique(code[order], return_index=True)
    return zip(groups.tolist(), np.split(order, first[1:]), strict=True)


def has_full_rank(matrix: Floats, least: float) -> bool:
    """Return whether all eigenvalues of a symmetric matrix are above `least`."""
    try:  # takes much less time than eigenvalues
        np.linalg.cholesky(matrix - least * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True


def square_root(scatter: Floats) -> Floats:
    """Return the symmetric root of a scatter matrix, or of its diagonal.

    Constant features remain exactly uncorrelated with the others.
    """
    if scatter.ndim == 1:
        return np.sqrt(scatter)
    values, vectors = eigh(scatter)
    root = np.asarray((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)
    constant = np.diag(scatter) == 0
    root[constant] = root[:, constant] = 0
    return root


def whitening(scatter: Floats, precision: np.dtype[Any]) -> Floats:
    """Return W of full row rank, with ``W.T @ W`` the pseudo-inverse of a scatter matrix.

    Directions are treated as constant if their standard deviation, after scaling each feature to
    unit variance, is below 1e-6 of the largest (1e-4 for float32 data).
    """
    deviation = np.sqrt(np.diag(scatter))
    constant = deviation == 0
    deviation[constant] = 1
    values, vectors = np.linalg.eigh(scatter / deviation / deviation[:, None])
    tol = RANK_TOL if precision == np.float32 else RANK_TOL_DOUBLE
    kept = values > tol**2 * values[-1]
    W = vectors.T[kept] / np.sqrt(values[kept])[:, None] / deviation
    if not kept.all():
        # Any such W inverts the matrix on its range; the QR decomposition removes the part outside
        # of it.
        basis, _ = np.linalg.qr(vectors[:, kept] * deviation[:, None])
        W = (W @ basis) @ basis.T
        W[:, constant] = 0
    return np.asarray(W)


def with_signs(axes: Floats) -> Floats:
    """Flip the sign of rows so that the entry with the largest absolute value is positive."""
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return axes * np.where(largest < 0, -1.0, 1.0)


def svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Return the thin decomposition: left vectors, singular values, right vectors as rows.

    LAPACK's gesdd is fast, but may fail to converge for repeated singular values. gesvd is slower
    and does not.
    """
    try:
        left, sizes, right = scipy.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError:
        left, sizes, right = scipy.linalg.svd(matrix, full_matrices=False, lapack_driver="gesvd")
    return left, sizes, right
