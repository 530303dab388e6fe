"""Distances compared with the oracle, for all forms of points."""

from functools import partial

import numpy as np
import pytest
from reference import squared_distances

import metricfast as mf

TOLERANCE = {np.float32: 2e-6, np.float64: 1e-13}
PRECISIONS = [np.float32, np.float64]


def points(n, d, dtype, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


@pytest.fixture(params=["euclidean", "L", "UV"])
def maps(request):
    rng = np.random.default_rng(3)
    L, U, V = rng.normal(size=(3, 5, 7))
    return {"euclidean": {}, "L": {"L": L}, "UV": {"U": U, "V": V}}[request.param]


def oracle(X, Y, maps):
    U = maps.get("L", maps.get("U"))
    V = maps.get("L", maps.get("V"))
    return squared_distances(X, Y, U, V)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 50), (97, 13), (130, 70)])
@pytest.mark.parametrize("squared", [False, True])
def test_all_pairs(maps, dtype, shape, squared):
    X, Y = points(shape[0], 7, dtype), points(shape[1], 7, dtype, 1)
    expected = oracle(X, Y, maps)
    result = mf.pairwise_distances(X, Y, squared=squared, **maps)
    assert result.dtype == dtype
    wanted = expected if squared else np.sqrt(expected)
    np.testing.assert_allclose(result, wanted, rtol=20 * TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_pairs_by_index_and_by_row(maps, dtype):
    X, Y = points(40, 7, dtype), points(30, 7, dtype, 1)
    expected = np.sqrt(oracle(X, Y, maps))
    rows = mf.paired_distances(X[:30], Y, **maps)
    np.testing.assert_allclose(rows, np.diag(expected[:30]), rtol=20 * TOLERANCE[dtype])
    for count in (25, 500):  # two algorithms, for fewer and for more pairs than points
        pairs = np.random.default_rng(5).integers(0, 30, (count, 2))
        result = mf.paired_distances(X, Y, pairs=pairs, **maps)
        assert result.dtype == dtype
        np.testing.assert_allclose(result, expected[pairs[:, 0], pairs[:, 1]], rtol=1e-5)


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_output_is_written_in_place(dtype):
    X = points(60, 4, dtype)
    holder = np.full((60, 80), 7, dtype)
    out = holder[:, 10:70]
    assert mf.pairwise_distances(X, out=out) is out
    np.testing.assert_array_equal(out, mf.pairwise_distances(X))
    assert (holder[:, :10] == 7).all() and (holder[:, 70:] == 7).all()


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_near_duplicates_keep_their_digits(dtype, offset):
    step = 1e-4 if dtype == np.float32 else 1e-9
    X = (points(50, 6, dtype) + dtype(offset)).astype(dtype)
    Y = (X + dtype(step * max(offset, 1))).astype(dtype)
    result = np.diag(mf.pairwise_distances(X, Y))
    expected = np.sqrt(((X.astype(np.float64) - Y.astype(np.float64)) ** 2).sum(1))
    # At least half of the digits are right; distances that lose more are computed from differences.
    np.testing.assert_allclose(result, expected, rtol=np.sqrt(np.finfo(dtype).eps))
    assert (np.diag(mf.pairwise_distances(X)) == 0).all()


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_tight_clusters_far_apart(dtype):
    # Most pairs are near-duplicates: blocks away from the centre are computed from differences. At
    # the centre products keep the promised half of the digits.
    spread = dtype(1e-5)
    X = np.concatenate([points(90, 5, dtype) * spread, points(90, 5, dtype, 1) * spread + dtype(9)])
    np.testing.assert_allclose(
        mf.pairwise_distances(X, squared=True),
        squared_distances(X, X),
        rtol=np.sqrt(np.finfo(dtype).eps),
    )


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("d", [2, 6, 20, 100, 700])
@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0], ids=["close", "wide", "clusters"])
def test_float32_distances_are_right_to_a_millionth(d, spread, squared):
    X, Y = points(300, d, np.float32), points(400, d, np.float32, 1)
    if spread > 1:
        X[::2], Y[::3] = X[::2] + spread, Y[::3] + spread
    Y[:300] = X + np.float32(spread) * Y[:300]
    found = mf.pairwise_distances(X, Y, squared=squared)
    exact = squared_distances(X.astype(np.float64), Y.astype(np.float64))
    np.testing.assert_allclose(found, exact if squared else np.sqrt(exact), rtol=1e-6)


def test_near_duplicates_under_a_map():
    L = np.random.default_rng(0).normal(size=(4, 6))
    X = points(30, 6, np.float32)
    Y = (X * np.float32(1 + 1e-5)).astype(np.float32)
    expected = np.linalg.norm((X.astype(float) - Y.astype(float)) @ L.T, axis=1)
    np.testing.assert_allclose(np.diag(mf.pairwise_distances(X, Y, L=L)), expected, rtol=1e-5)
    np.testing.assert_allclose(mf.paired_distances(X, Y, L=L), expected, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-150, 1e150, 1e-200, 1e200])
def test_extreme_units(scale):
    X = points(20, 3, np.float64)
    plain = mf.pairwise_distances(X)
    np.testing.assert_allclose(mf.pairwise_distances(X * scale) / scale, plain, rtol=1e-12)
    _, near = mf.kneighbors(X * scale, n_neighbors=4)
    np.testing.assert_array_equal(near, mf.kneighbors(X, n_neighbors=4)[1])
    pairs = [[0, 1], [2, 3]]
    np.testing.assert_allclose(
        mf.paired_distances(X * scale, pairs=pairs) / scale, plain[[0, 2], [1, 3]], rtol=1e-12
    )


@pytest.mark.parametrize(("dtype", "huge"), [(np.float32, 1e25), (np.float64, 1e200)])
def test_squares_that_overflow_do_not_spoil_zero(dtype, huge):
    X = np.array([[huge, 0], [0, huge], [huge, 0]], dtype)
    expected = [[0, np.inf, 0], [np.inf, 0, np.inf], [0, np.inf, 0]]
    np.testing.assert_array_equal(mf.pairwise_distances(X, squared=True), expected)


@pytest.mark.parametrize("maps", [{}, {"L": np.eye(2)}, {"U": np.eye(2), "V": 2 * np.eye(2)}])
@pytest.mark.parametrize("pairs", [[[0, 1]], [[0, 1]] * 6])
@pytest.mark.parametrize(("dtype", "huge"), [(np.float32, 1e25), (np.float64, 1e200)])
def test_pairs_whose_distance_overflows_are_infinitely_far(dtype, huge, pairs, maps):
    """As in `pairwise_distances`."""
    X = np.array([[huge, 0], [0, huge]], dtype)
    assert np.isfinite(mf.paired_distances(X, pairs=pairs, **maps)).all()
    assert np.isposinf(mf.paired_distances(X, pairs=pairs, squared=True, **maps)).all()
    assert np.isposinf(mf.pairwise_distances(X, squared=True, **maps)[0, 1])


def test_maps_that_overflow_are_named():
    X, L = np.eye(3) * 1e200, np.full((1, 3), 1e200)
    for call in (mf.pairwise_distances, partial(mf.kneighbors, n_neighbors=1)):
        with pytest.raises(ValueError, match="the maps L, U and V, hold NaN or are too large"):
            call(X, L=L)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize(
    ("dtype", "far"), [(np.float32, 1e19), (np.float32, 1e25), (np.float64, 1e155)]
)
def test_outliers_do_not_spoil_the_others(dtype, far, squared):
    X = np.array([[far], [-far], [0], [3], [7]], dtype)
    near = np.array([[0, 3, 7], [3, 0, 4], [7, 4, 0]])
    result = mf.pairwise_distances(X, squared=squared)
    np.testing.assert_allclose(result[2:, 2:], near**2 if squared else near, rtol=1e-6)


@pytest.mark.parametrize(("dtype", "tiny"), [(np.float32, 1e-25), (np.float64, 1e-200)])
def test_tiny_pairs_beside_large_ones(dtype, tiny):
    X = np.array([[1], [0], [tiny], [4 * tiny]], dtype)
    result = mf.paired_distances(X, pairs=[[1, 2], [2, 3]])
    np.testing.assert_allclose(result, [tiny, 3 * tiny], rtol=1e-6)
    result = mf.paired_distances(X, pairs=[[0, 1]], L=[[tiny]])
    np.testing.assert_allclose(result, tiny, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("constant", [1e20, 1e30])
def test_a_large_constant_does_not_swallow_the_other_coordinates(dtype, constant):
    constant = constant if dtype == np.float32 else constant**6
    X = np.random.default_rng(0).normal(size=(60, 5)).astype(dtype)
    beside = np.c_[X, np.full(60, constant, dtype)]
    expected = mf.pairwise_distances(X)
    np.testing.assert_allclose(mf.pairwise_distances(beside), expected, rtol=1e-5, atol=1e-6)
    pairs = np.argwhere(expected > 0)
    found = mf.paired_distances(beside, pairs=pairs)
    np.testing.assert_allclose(found, expected[expected > 0], rtol=1e-5)
    for k in (1, 59):
        indices = mf.kneighbors(beside, n_neighbors=k)[1]
        np.testing.assert_array_equal(indices, mf.kneighbors(X, n_neighbors=k)[1])


def test_a_matrix_in_place_of_a_map():
    rng = np.random.default_rng(0)
    X, Y, L = rng.normal(size=(20, 4)), rng.normal(size=(9, 4)), rng.normal(size=(4, 4))
    M = L.T @ L
    D = np.sqrt(((X[:, None] - Y[None]) @ M * (X[:, None] - Y[None])).sum(axis=2))
    np.testing.assert_allclose(mf.pairwise_distances(X, Y, M=M), D)
    np.testing.assert_allclose(mf.paired_distances(X[:9], Y, M=M), np.diag(D))
    distances, indices = mf.kneighbors(X, Y, 3, M=M)
    np.testing.assert_array_equal(indices, np.argsort(D, axis=1)[:, :3])
    np.testing.assert_allclose(distances, np.sort(D, axis=1)[:, :3])
    singular = np.outer(L[0], L[0])
    np.testing.assert_allclose(
        mf.pairwise_distances(X, Y, M=singular), np.abs((X[:, None] - Y[None]) @ L[0]), atol=1e-7
    )
    for wrong, message in [
        (M[:3], r"M must be a symmetric matrix of shape \(4, 4\); found shape \(3, 4\)"),
        (L, "M must be a symmetric matrix"),
        (-M, "M must be positive semidefinite"),
        (M * np.nan, "M contains NaN"),
    ]:
        with pytest.raises(ValueError, match=message):
            mf.kneighbors(X, Y, 3, M=wrong)
    with pytest.raises(ValueError, match="Give M, or L"):
        mf.pairwise_distances(X, Y, M=M, L=L)
