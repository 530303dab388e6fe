"""Neighbours against a sort of all distances, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from reference import nearest, numeric_gradient, squared_distances
from scipy.sparse import csr_array

import metricfast as mf
from metricfast._dispatch import get_kernels

PRECISIONS = [np.float32, np.float64]


def points(n, d, dtype, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def grid(n, d, dtype, seed=0):
    """Few distinct coordinates: most distances occur many times."""
    return np.random.default_rng(seed).integers(0, 3, (n, d)).astype(dtype)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("make", [points, grid])
@pytest.mark.parametrize(
    ("n", "m", "k"),
    [(1, 1, 1), (7, 40, 40), (130, 90, 5), (50, 400, 17), (9, 3000, 150), (9, 700, 300)],
)
def test_neighbors(make, dtype, n, m, k):
    X, Y = make(n, 4, dtype), make(m, 4, dtype, 1)
    D = squared_distances(X, Y)
    distances, indices = mf.kneighbors(X, Y, k, squared=True)
    np.testing.assert_array_equal(indices, nearest(D, k))
    np.testing.assert_allclose(distances, np.take_along_axis(D, indices, 1), rtol=1e-6)
    assert distances.dtype == dtype and indices.dtype == np.int64


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("make", [points, grid])
def test_points_leave_themselves_out_by_index(make, dtype):
    X = make(150, 3, dtype)
    _, indices = mf.kneighbors(X, n_neighbors=6)
    np.testing.assert_array_equal(indices, nearest(squared_distances(X, X), 6, np.arange(150)))


def test_given_exclusions():
    X, Y = points(30, 3, np.float64), points(20, 3, np.float64, 1)
    exclude = np.random.default_rng(2).integers(-1, 20, 30)
    _, indices = mf.kneighbors(X, Y, 19, exclude=exclude)
    np.testing.assert_array_equal(indices, nearest(squared_distances(X, Y), 19, exclude))


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("copies", [200, 3000])
def test_copies_are_ordered_by_index(dtype, copies):
    # Every candidate ties: first the float64 screen, then the exhaustive search has to decide.
    X = np.repeat(points(2, 3, dtype), copies, axis=0)
    distances, indices = mf.kneighbors(X[:3], X, 4, exclude=[-1, 1, 2])
    assert (distances == 0).all()
    np.testing.assert_array_equal(indices, [[0, 1, 2, 3], [0, 2, 3, 4], [0, 1, 3, 4]])


def test_float32_cannot_tell_but_float64_can():
    # Two clusters 1e4 apart: within one, float32 screens see only rounding.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 5)) * 1e-3
    X[450:] += 1e4
    _, indices = mf.kneighbors(X[:40], X, 8, exclude=np.arange(40))
    np.testing.assert_array_equal(indices, nearest(squared_distances(X[:40], X), 8, np.arange(40)))


def test_one_outlier_does_not_matter():
    X = points(500, 4, np.float64)
    X[77] = 1e9
    _, indices = mf.kneighbors(X[:60], X, 5)
    np.testing.assert_array_equal(indices, nearest(squared_distances(X[:60], X), 5))


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("make", [points, grid])
def test_per_class(make, dtype):
    X, Y = make(60, 3, dtype), make(200, 3, dtype, 1)
    labels = np.array(["b", "a", "c"])[np.random.default_rng(4).choice(3, 200, p=[0.6, 0.39, 0.01])]
    classes = np.unique(labels)
    exclude = np.random.default_rng(2).integers(-1, 200, 60)
    D = squared_distances(X, Y)
    distances, indices = mf.kneighbors_per_class(X, Y, labels, 6, exclude=exclude, squared=True)
    assert indices.shape == (60, len(classes), 6)
    for r, label in enumerate(classes):
        members = np.flatnonzero(labels == label)
        for i in range(60):
            allowed = members[members != exclude[i]]
            expected = allowed[nearest(D[i : i + 1, allowed], 6)[0]]
            found = indices[i, r]
            np.testing.assert_array_equal(found[: len(expected)], expected)
            assert (found[len(expected) :] == -1).all()
            assert np.isinf(distances[i, r, len(expected) :]).all()


def test_asymmetric_neighbors():
    rng = np.random.default_rng(0)
    X, Y, U, V = (rng.normal(size=s) for s in [(30, 6), (50, 6), (4, 6), (4, 6)])
    _, indices = mf.kneighbors(X, Y, 7, U=U, V=V)
    np.testing.assert_array_equal(indices, nearest(squared_distances(X, Y, U, V), 7))


def test_threads_do_not_change_results():
    X = points(800, 6, np.float32)
    one = mf.kneighbors(X, n_neighbors=9, n_jobs=1)
    for threads in (2, 5):
        other = mf.kneighbors(X, n_neighbors=9, n_jobs=threads)
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("classes", [1, 4])
def test_impostor_lists_miss_nothing(dtype, classes):
    X = grid(160, 3, dtype) + dtype(50)
    labels = np.random.default_rng(0).integers(0, classes, 160)
    radius = np.random.default_rng(1).choice([0.0, 1.0, np.sqrt(2), 2.0], 160)
    starts, columns = get_kernels().find_impostors(X, labels, classes, radius, 10**6, 2)
    D = squared_distances(X, X)
    for i in range(160):
        found = columns[starts[i] : starts[i + 1]]
        expected = np.flatnonzero((labels != labels[i]) & (D[i] <= radius[i] ** 2 * (1 - 1e-12)))
        assert set(expected) <= set(found)
        assert (D[i, found] <= radius[i] ** 2 + 1e-4).all() and (labels[found] != labels[i]).all()
        assert len(set(found)) == len(found)


def test_impostor_lists_over_the_limit_are_dropped():
    X, labels = np.zeros((40, 2)), np.arange(40) % 2
    assert get_kernels().find_impostors(X, labels, 2, np.ones(40), 799, 1) is None
    assert len(get_kernels().find_impostors(X, labels, 2, np.ones(40), 800, 1)[1]) == 800


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("form", ["L", "UV", "M"])
def test_metric_gradient(sparse, form):
    rng = np.random.default_rng(0)
    X, Y, W = rng.normal(size=(9, 4)), rng.normal(size=(11, 4)) + 3, rng.normal(size=(9, 11))
    W[rng.random(W.shape) < 0.5] = 0
    L, U, V = rng.normal(size=(3, 3, 4))
    weights = csr_array(W) if sparse else W
    if form == "L":
        expected = numeric_gradient(lambda A: (W * squared_distances(X, Y, A, A)).sum(), L)
        np.testing.assert_allclose(mf.metric_gradient(X, weights, Y, L=L), expected, rtol=1e-6)
    elif form == "UV":
        grad_u, grad_v = mf.metric_gradient(X, weights, Y, U=U, V=V)
        np.testing.assert_allclose(
            grad_u,
            numeric_gradient(lambda A: (W * squared_distances(X, Y, A, V)).sum(), U),
            rtol=1e-5,
        )
        np.testing.assert_allclose(
            grad_v,
            numeric_gradient(lambda A: (W * squared_distances(X, Y, U, A)).sum(), V),
            rtol=1e-5,
        )
    else:
        expected = np.zeros((4, 4))
        for i, x in enumerate(X):
            for j, y in enumerate(Y):
                expected += W[i, j] * np.outer(x - y, x - y)
        np.testing.assert_allclose(
            mf.metric_gradient(X, weights, Y, M=np.eye(4)), expected, rtol=1e-10, atol=1e-10
        )


def test_neighbors_at_the_end_of_the_range():
    X = np.array([[1.7e308], [-1.7e308], [1.6e308]])
    np.testing.assert_array_equal(mf.kneighbors(X, n_neighbors=1)[1].ravel(), [2, 2, 0])
