"""Neighbours within a radius, compared with all distances, including points at the radius."""

import numpy as np
import pytest
from reference import squared_distances
from scipy.sparse import csr_array
from sklearn.neighbors import NearestNeighbors
from test_neighbors import PRECISIONS, grid, points
from working_memory import working_memory

import metricfast as mf


def far(n, d, dtype, seed=0):
    """Return two clusters, 1e6 from the origin: float32 bounds cannot separate their points."""
    offsets = np.where(np.arange(n) % 3 == 0, -1e6, 1e6)[:, None]
    return (points(n, d, np.float64, seed) + offsets).astype(dtype)


def outlier(n, d, dtype, seed=0):
    X = points(n, d, dtype, seed)
    X[n // 2] = 1e18
    return X


def expected(X, Y, radius, exclude=None, **maps):
    within = np.sqrt(squared_distances(X, Y, **maps)) <= radius
    if exclude is not None:
        rows = np.flatnonzero(exclude >= 0)
        within[rows, exclude[rows]] = False
    return [np.flatnonzero(row) for row in within]


def check(X, Y, radius, exclude=None, L=None, **maps):
    both = {"U": L, "V": L} if L is not None else maps
    distances, indices, starts = mf.neighbors.radius_neighbors(
        X, Y, radius, exclude=exclude, L=L, n_jobs=2, **maps
    )
    D = np.sqrt(squared_distances(X, Y, **both))
    assert distances.dtype == np.result_type(X, Y)
    assert indices.dtype == starts.dtype == np.int64
    rows = np.split(indices, starts[1:-1])
    for found, wanted in zip(rows, expected(X, Y, radius, exclude, **both), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(distances, D[np.repeat(np.arange(len(X)), np.diff(starts)), indices])
    ordered = mf.neighbors.radius_neighbors(
        X, Y, radius, exclude=exclude, L=L, sort_results=True, n_jobs=1, **maps
    )
    for i, row in enumerate(np.split(ordered[1], ordered[2][1:-1])):
        np.testing.assert_array_equal(row, sorted(rows[i], key=lambda j: (D[i, j], j)))


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("make", [points, grid, far, outlier])
@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 1), (30, 70, 1), (260, 90, 4), (20, 700, 33)])
def test_against_all_distances(make, dtype, n, m, d):
    X, Y = make(n, d, dtype), make(m, d, dtype, 1)
    Y[: min(n, m) // 2] = X[: min(n, m) // 2]
    D = np.sqrt(squared_distances(X, Y))
    some = np.quantile(D[D < 1e5], [0.02, 0.5]) if (D < 1e5).any() else [1.0]
    for radius in (0.0, 1.0, *some, float(D.max())):  # each of the quantiles is a distance
        check(X, Y, float(radius))


@pytest.mark.parametrize(
    "maps", [{"L": points(3, 4, float)}, {"U": points(3, 4, float), "V": points(3, 4, float, 5)}]
)
def test_maps_and_exclusions(maps):
    X, Y = points(40, 4, np.float64), points(60, 4, np.float64, 1)
    exclude = np.random.default_rng(2).integers(-1, 60, 40)
    check(X, Y, 2.0, exclude, **maps)


@pytest.mark.parametrize("scale", [1e-160, 1e150])
def test_units_in_which_squares_overflow_or_vanish(scale):
    X = grid(50, 3, np.float64)
    found = mf.neighbors.radius_neighbors(X * scale, radius=np.sqrt(2) * scale * (1 + 1e-9))
    wanted = mf.neighbors.radius_neighbors(X, radius=np.sqrt(2) * (1 + 1e-9))
    np.testing.assert_array_equal(found[1], wanted[1])
    np.testing.assert_allclose(found[0], wanted[0] * scale)


def test_a_distance_that_was_found_is_within():
    X = points(300, 7, np.float64)
    distances, indices = mf.kneighbors(X, n_neighbors=4)
    for i in range(40):
        found, within, _ = mf.neighbors.radius_neighbors(
            X[i : i + 1], X, distances[i, -1], exclude=[i], sort_results=True
        )
        np.testing.assert_array_equal(within, indices[i])
        np.testing.assert_array_equal(found, distances[i])


def test_points_leave_themselves_out_and_the_result_is_a_sparse_matrix():
    X = points(200, 3, np.float64)
    graph = csr_array(mf.neighbors.radius_neighbors(X, radius=0.7), shape=(200, 200))
    wanted = NearestNeighbors(radius=0.7).fit(X).radius_neighbors_graph(mode="distance")
    np.testing.assert_allclose(graph.toarray(), wanted.toarray())


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_a_distance_that_was_returned_reaches_its_neighbour(dtype, scale, tmp_path):
    X = (scale * points(200, 3, np.float64)).astype(dtype)
    np.save(tmp_path / "X.npy", X)
    file, L = np.load(tmp_path / "X.npy", mmap_mode="r"), np.array([[1.0, 0.3, -0.2]])
    for maps in ({}, {"L": L}):
        distances, near = mf.kneighbors(X[:40], X, 5, **maps)
        for i, (far, last) in enumerate(zip(distances[:, 4], near[:, 4], strict=True)):
            found = mf.neighbors.radius_neighbors(X[i : i + 1], X, far, **maps)
            assert last in found[1] and found[0].max() <= far
            with working_memory(20_000):
                by_blocks = mf.neighbors.radius_neighbors(X[i : i + 1], file, far, **maps)
            for one, other in zip(found, by_blocks, strict=True):
                np.testing.assert_array_equal(one, other)


def test_the_distance_in_float64_decides_where_the_radius_is_no_float32():
    near, far = np.float32([[0.1]]), np.nextafter(np.float32([[0.1]]), np.float32(1))
    zero = np.zeros((1, 1), np.float32)
    radius = float(near[0, 0]) * (1 + 1e-9)
    assert len(mf.neighbors.radius_neighbors(zero, near, radius)[1]) == 1
    assert len(mf.neighbors.radius_neighbors(zero, near, float(near[0, 0]) * (1 - 1e-9))[1]) == 0
    assert len(mf.neighbors.radius_neighbors(zero, far, radius)[1]) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("scale", [1e-30, 1, 1e38, 1e300])
def test_an_infinite_radius_reaches_all_points(dtype, sort, scale):
    """Also points whose distances overflow."""
    X = 1.5 * np.array([[1.0, 0], [-1, 0], [1, 1], [0, -1], [1, 0]])
    if scale == 1e300:
        scale = float(np.finfo(dtype).max) / 2
    X = (X * scale).astype(dtype)
    expected_distances, expected = mf.kneighbors(X, None, 4)
    found = mf.neighbors.radius_neighbors(X, radius=np.inf, sort_results=sort)
    distances, indices, row_starts = found
    np.testing.assert_array_equal(row_starts, np.arange(6) * 4)
    assert distances.dtype == dtype
    if not sort:
        order = np.argsort(expected, axis=1)
        expected_distances = np.take_along_axis(expected_distances, order, axis=1)
        expected = np.sort(expected, axis=1)
    np.testing.assert_array_equal(distances.reshape(5, 4), expected_distances)
    if not sort or np.isfinite(distances).all():
        np.testing.assert_array_equal(indices.reshape(5, 4), expected)
    with working_memory(4000):
        by_blocks = mf.neighbors.radius_neighbors(
            mf.sources.Rows(X), radius=np.inf, sort_results=sort
        )
        for one, other in zip(by_blocks, found, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"radius": -1.0}, "radius must be a number from 0, got -1.0"),
        ({"radius": -np.inf}, "radius must be a number from 0, got -inf"),
        ({"radius": 10**400}, "radius must be a number"),
        ({"radius": np.nan}, "radius must be a number"),
        ({"radius": "1"}, "radius must be a number"),
        ({"sort_results": 1}, "sort_results must be True or False"),
        ({"database": np.ones((3, 2))}, "database must have 3 columns; found 2"),
        ({"exclude": [0]}, "exclude must hold one database index"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_wrong_arguments(given, message):
    with pytest.raises(ValueError, match=message):
        mf.neighbors.radius_neighbors(points(5, 3, float), **given)
