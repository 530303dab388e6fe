"""Local Fisher discriminant analysis against its definition."""

import numpy as np
import pytest
from reference import peak_memory
from scipy.linalg import eigh
from sklearn.datasets import load_iris, make_classification

from metricfast import LFDA
from metricfast._core.dispatch import get_kernels
from metricfast._core.scatter_statistics import ScatterStatistics

X, Y = load_iris(return_X_y=True)


def test_copies_that_leave_no_local_scale_are_named():
    copies = np.tile(X[::5], (10, 1)), np.tile(Y[::5], 10)
    with pytest.raises(ValueError, match="at most k=7 times"):
        LFDA().fit(*copies)
    assert np.isfinite(LFDA(k=10).fit(*copies).components_).all()


def test_classes_without_two_points():
    with pytest.raises(ValueError, match="two different points"):
        LFDA().fit(X, np.arange(150).astype(str))


def scatters(points, labels, k):
    """Return both matrices, summed pair by pair."""
    n = len(points)
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    same = labels[:, None] == labels[None]
    between, within = np.full((n, n), 1 / n), np.zeros((n, n))
    for i in range(n):
        mine = np.flatnonzero(same[i])
        for j in mine:
            scale = [
                np.sort(np.sqrt(squared[p, mine[mine != p]]))[min(k, len(mine) - 1) - 1]
                for p in (i, j)
            ]
            affinity = np.exp(-squared[i, j] / np.prod(scale)) if np.prod(scale) > 0 else 0.0
            within[i, j] = affinity / len(mine)
            between[i, j] = affinity * (1 / n - 1 / len(mine))

    def scatter(weights):
        return points.T @ (np.diag(weights.sum(axis=1)) - weights) @ points

    return scatter(between), scatter(within)


def expected_directions(points, labels, k):
    sizes, vectors = eigh(*scatters(points, labels, k))
    return sizes[::-1], vectors.T[::-1]


def assert_same_rows(found, expected, rtol=1e-7):
    signs = np.sign((found * expected).sum(axis=1))[:, None]
    np.testing.assert_allclose(
        found, expected * signs, rtol=rtol, atol=rtol * np.abs(expected).max()
    )


def local_scatter(points, weights, k, threads=2):
    scatter = np.empty((points.shape[1], points.shape[1]))
    get_kernels().local_scatter(scatter, points, weights, k, threads)
    return scatter


def expected_local_scatter(points, k):
    """Return the local scatter, summed pair by pair."""
    squared = np.array([((points - x) ** 2).sum(axis=1) for x in points])
    others = np.sort(np.where(np.eye(len(points)), np.inf, squared), axis=1)
    scale = np.sqrt(others[:, min(k, len(points) - 1) - 1])
    scatter = np.zeros((points.shape[1], points.shape[1]))
    for i, x in enumerate(points):
        near = np.flatnonzero((scale[:i] > 0) & (scale[i] > 0))
        affinity = np.exp(-squared[i, near] / (scale[i] * scale[near]))
        scatter += ((points[near] - x).T * affinity) @ (points[near] - x)
    return scatter


@pytest.mark.parametrize(
    ("n", "d", "k"),
    [(2, 3, 1), (3, 1, 7), (47, 2, 7), (150, 33, 1), (611, 5, 7), (611, 5, 32), (611, 5, 300)],
)
def test_local_scatter(n, d, k):
    rng = np.random.RandomState(n)
    points = rng.normal(size=(n, d))
    points[: n // 3] += 20  # affinities between the groups underflow
    points[n // 2 : n // 2 + 9] = points[n // 2]
    expected = expected_local_scatter(points, k)
    found = local_scatter(points, np.ones(n), k)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-11 * np.abs(expected).max())
    np.testing.assert_array_equal(found, local_scatter(points, np.ones(n), k, threads=1))
    np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("k", [1, 7, 100])
def test_is_what_the_definition_says(k):
    keep = np.r_[0:20, 50:62, 100:103]
    points, labels = X[keep] + 1e-3 * np.random.RandomState(0).normal(size=(35, 4)), Y[keep]
    sizes, vectors = expected_directions(points, labels, k)
    assert_same_rows(
        LFDA(shrinkage=0, k=k, embedding_type="plain").fit(points, labels).components_, vectors
    )
    weighted = LFDA(shrinkage=0, k=k).fit(points, labels)
    assert_same_rows(weighted.components_, vectors * np.sqrt(np.maximum(sizes, 0))[:, None])
    ortho = LFDA(shrinkage=0, k=k, embedding_type="orthonormalized").fit(points, labels).components_
    np.testing.assert_allclose(ortho @ ortho.T, np.eye(4), atol=1e-12)
    assert_same_rows(ortho, np.linalg.qr(vectors.T)[0].T)
    two = LFDA(n_components=2, k=k, shrinkage=0).fit(points, labels)
    np.testing.assert_array_equal(two.components_, weighted.components_[:2])


def test_default_k_is_seven():
    np.testing.assert_array_equal(LFDA().fit(X, Y).components_, LFDA(k=7).fit(X, Y).components_)


def test_directions_that_do_not_separate_have_no_weight():
    # Without shrinkage, eigenvalues are negative only by rounding.
    assert expected_directions(X, Y, 7)[0].min() > 0
    points = np.c_[X, 0.01 * np.random.RandomState(0).normal(size=150)]
    rows = LFDA(shrinkage=0.5).fit(points, Y).components_
    assert rows[:4].any(axis=1).all()
    assert not rows[4].any()


def test_linear_combinations_of_features_add_nothing():
    points = np.c_[X, X @ [1, -2, 0.5, 0]]
    _, _, axes = np.linalg.svd(points - points.mean(0), full_matrices=False)
    expected = (
        LFDA(shrinkage=0)
        .fit(points @ axes[:4].T, Y)
        .transform((points - points.mean(0)) @ axes[:4].T)
    )
    found = LFDA(shrinkage=0).fit(points, Y)
    assert not found.components_[4].any()
    assert_same_rows(found.transform(points - points.mean(0)).T[:4], expected.T, 1e-6)


def test_a_feature_that_is_constant_within_classes_comes_first():
    points = np.c_[X, np.array([0.0, 1.0, 5.0])[Y]]
    model = LFDA(shrinkage=0).fit(points, Y)
    assert np.isfinite(model.components_).all()
    direction = np.abs(model.components_[0])
    assert direction.argmax() == 4
    assert direction[4] > 1e3 * direction[:4].max()


def test_shrinkage():
    between, within = scatters(X, Y, 7)
    level = np.trace(within) / 4
    sizes, vectors = eigh(between + within, 0.7 * within + 0.3 * level * np.eye(4))
    expected = vectors.T[::-1] * np.sqrt(np.maximum(sizes[::-1] - 1, 0))[:, None]
    assert_same_rows(LFDA(shrinkage=0.3).fit(X, Y).components_, expected)


def test_weights_that_are_not_whole():
    weights = np.random.RandomState(0).uniform(0.01, 1, len(X))
    found = LFDA(shrinkage=0).fit(X, Y, sample_weight=weights).components_
    np.testing.assert_allclose(
        LFDA(shrinkage=0).fit(X, Y, sample_weight=5 * weights).components_, found
    )
    nearly = LFDA(shrinkage=0).fit(X, Y, sample_weight=np.full(150, 2.5)).components_
    np.testing.assert_allclose(nearly, LFDA(shrinkage=0).fit(X, Y).components_)


def test_memory_grows_with_points_only():
    points, labels = make_classification(
        8000, 8, n_informative=6, n_redundant=0, n_classes=2, random_state=0
    )
    LFDA(shrinkage=0).fit(points[:500], labels[:500])
    # A matrix of all pairs of a class would take 128 MB.
    assert peak_memory(lambda: LFDA(shrinkage=0).fit(points, labels)) < 24e6


def test_a_call_adds_the_sums_of_all_classes_at_once(monkeypatch):
    """Each addition takes time in proportion to all classes."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(60), 3)
    X = rng.normal(size=(60, 5))[y] + 0.3 * rng.normal(size=(180, 5))
    merges, merge = [], ScatterStatistics.merge
    monkeypatch.setattr(
        ScatterStatistics, "merge", lambda self, other: merges.append(1) or merge(self, other)
    )
    found = LFDA(shrinkage=0.3).partial_fit(X, y).components_
    assert not merges
    np.testing.assert_allclose(found, LFDA(shrinkage=0.3).fit(X, y).components_, atol=1e-9)
