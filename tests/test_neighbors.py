"""Nearest neighbours, and neighbours within a radius, compared with a sort of all distances."""

import time
from functools import partial

import numpy as np
import pytest
from reference import nearest, numeric_gradient, squared_distances
from scipy.sparse import csr_array
from sklearn.neighbors import NearestNeighbors
from working_memory import working_memory

import metricfast as mf
from metricfast._core.dispatch import get_kernels
from metricfast.distances.filters import Filter, LabelFilter
from metricfast.exceptions import LossOverflowError

PRECISIONS = [np.float32, np.float64]


def points(n, d, dtype, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def grid(n, d, dtype, seed=0):
    """Return points with few distinct coordinates, so that most distances are tied."""
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


def in_order(X, Y, k, exclude):
    """Like `nearest`, for many points."""
    D = squared_distances(X, Y)
    D[np.flatnonzero(exclude >= 0), exclude[exclude >= 0]] = np.inf
    return np.argsort(D, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize(("features", "k"), [(1, 1), (1, 70), (2, 5), (4, 9)])
def test_repeated_rows(features, k, dtype):
    # Up to 667 copies of a row, more than a candidate list holds.
    Y = grid(2000, features, dtype) - dtype(0.5)
    Y[::9] += points(223, features, dtype)
    X = np.concatenate([Y[:200], -Y[:50]])
    exclude = np.random.default_rng(2).integers(-1, 2000, 250)
    exclude[:200:2] = np.arange(0, 200, 2)
    _, indices = mf.kneighbors(X, Y, k, exclude=exclude)
    np.testing.assert_array_equal(indices, in_order(X, Y, k, exclude))
    labels = np.arange(2000) % 2
    _, indices = mf.neighbors.kneighbors_per_class(X, Y, labels, k, exclude=exclude)
    for label in (0, 1):
        members = np.flatnonzero(labels == label)
        own = np.where(labels[exclude] == label, exclude // 2, -1)
        own[exclude < 0] = -1
        np.testing.assert_array_equal(indices[:, label], members[in_order(X, Y[members], k, own)])


@pytest.mark.parametrize(
    "search",
    [
        lambda X, y: mf.kneighbors(X, n_neighbors=5, n_jobs=1),
        lambda X, y: mf.inference.both(X, None, y, y, 5, n_jobs=1),
        lambda X, y: mf.ANMM(n_jobs=1).fit(X, y),
    ],
)
def test_repeated_rows_take_no_longer(search):
    X, y = points(10000, 4, np.float64), np.arange(10000) % 5

    def seconds(X):
        start = time.process_time()
        search(X, y)
        return time.process_time() - start

    distinct = seconds(X)
    for repeated in (grid(10000, 4, np.float64), X.round(1)[:, :1]):
        assert seconds(repeated) < 10 * distinct + 0.5  # the ratio was above 60


@pytest.mark.parametrize("far", [1e9, 1e20, 1e200])
@pytest.mark.parametrize("maps", [{}, {"L": np.eye(4)}, {"U": np.eye(4), "V": 2 * np.eye(4)}])
def test_one_outlier_does_not_matter(maps, far):
    X = points(500, 4, np.float64)
    X[0] = far
    distances, indices = mf.kneighbors(X[1:60], X, 5, **maps)
    Y = X @ maps["V"] if "V" in maps else X
    D = squared_distances(X[1:60], Y[1:])
    np.testing.assert_array_equal(indices, nearest(D, 5) + 1)
    np.testing.assert_allclose(distances, np.sqrt(np.sort(D, axis=1)[:, :5]), rtol=1e-12)
    given = mf.pairwise_distances(X[1:60], X, squared=True, **maps)
    np.testing.assert_allclose(given[:, 1:], D, rtol=1e-9)


@pytest.mark.parametrize("ratio", [1e12, 1e18])
def test_maps_of_different_units(ratio):
    rng = np.random.default_rng(0)
    X, Y, U, V = (rng.normal(size=s) for s in [(30, 4), (50, 4), (3, 4), (3, 4)])
    Y, V = (Y + 5) * ratio, V / ratio
    D = squared_distances(X, Y, U, V)
    distances, indices = mf.kneighbors(X, Y, 7, U=U, V=V, squared=True)
    np.testing.assert_array_equal(indices, nearest(D, 7))
    np.testing.assert_allclose(distances, np.take_along_axis(D, indices, 1), rtol=1e-12)
    maps = {"U": U, "V": V, "squared": True}
    np.testing.assert_allclose(mf.pairwise_distances(X, Y, **maps), D, rtol=1e-7)
    np.testing.assert_allclose(mf.paired_distances(X, Y[:30], **maps), np.diag(D), rtol=1e-12)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("offset", [0, 1000])
def test_ties_of_embedded_points_are_by_index(offset, dtype):
    rng = np.random.default_rng(0)
    X, Y = grid(60, 3, dtype) + dtype(offset), grid(300, 3, dtype, 1) + dtype(offset)
    for rows in (1, 2):
        L, U, V = rng.integers(-2, 3, (3, rows, 3))
        _, indices = mf.kneighbors(X, Y, 20, L=L)
        np.testing.assert_array_equal(indices, nearest(squared_distances(X, Y, L, L), 20))
        _, indices = mf.kneighbors(X, Y, 20, U=U, V=V)
        np.testing.assert_array_equal(indices, nearest(squared_distances(X, Y, U, V), 20))
    # Copies have equal distances, also after rounding by the map.
    Y = np.tile(points(40, 5, dtype), (30, 1))
    _, indices = mf.kneighbors(Y[:40], Y, 30, L=rng.normal(size=(3, 5)))
    np.testing.assert_array_equal(indices, np.arange(40)[:, None] + 40 * np.arange(30))


def test_data_far_from_the_origin_lose_nothing_under_a_map():
    L, X = np.random.default_rng(1).normal(size=(3, 4)), points(50, 4, np.float64)
    X = (X + 1e9) - 1e9  # exact after the shift below
    np.testing.assert_allclose(
        mf.kneighbors(X + 1e9, n_neighbors=3, L=L)[0],
        mf.kneighbors(X, n_neighbors=3, L=L)[0],
        rtol=1e-12,
    )


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])
@pytest.mark.parametrize("mapped", [False, True])
def test_equal_labels_of_classes_of_any_size(metric, mapped):
    """Large classes are searched one by one, and the others at once."""
    rng = np.random.default_rng(0)
    X, queries = rng.normal(size=(700, 6)).round(1), rng.normal(size=(420, 6)).round(1)
    labels = rng.permutation(np.repeat([7, 2, 5, 3], [300, 250, 148, 2]))
    of_queries = rng.permutation(np.repeat([7, 2, 5, 3, 1], [200, 30, 150, 20, 20]))
    exclude = rng.integers(-1, 700, size=420)
    exclude[of_queries == 5] = np.flatnonzero(labels == 5)[0]
    how = {"metric": metric, **({"L": rng.normal(size=(4, 6))} if mapped else {})}
    same = of_queries[:, None] == labels
    for k, out in ((5, exclude), (150, None)):
        allowed = same if out is None else same & (np.arange(700) != out[:, None])
        where = "equal", of_queries, labels
        found = mf.kneighbors(queries, X, k, exclude=out, where=where, **how)
        by_pairs = mf.kneighbors(queries, X, k, where=allowed, **how)
        for one, other in zip(found, by_pairs, strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(
            (found[1] >= 0).sum(axis=1), np.minimum(allowed.sum(axis=1), k)
        )


def test_a_mask_and_labels():
    rng = np.random.default_rng(1)
    X, labels, mask = rng.normal(size=(90, 3)), rng.integers(3, size=90), rng.uniform(size=90) < 0.5
    both = Filter(mask, LabelFilter(labels, labels))
    allowed = mask & (labels[:, None] != labels)
    for search in (partial(mf.kneighbors, X, X), partial(mf.Database(X).kneighbors, X)):
        for one, other in zip(search(5, where=both), search(5, where=allowed), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("make", [points, grid])
def test_per_class(make, dtype):
    X, Y = make(60, 3, dtype), make(200, 3, dtype, 1)
    labels = np.array(["b", "a", "c"])[np.random.default_rng(4).choice(3, 200, p=[0.6, 0.39, 0.01])]
    classes = np.unique(labels)
    exclude = np.random.default_rng(2).integers(-1, 200, 60)
    D = squared_distances(X, Y)
    distances, indices = mf.neighbors.kneighbors_per_class(
        X, Y, labels, 6, exclude=exclude, squared=True
    )
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


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("classes", [1, 4, 50])
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


def test_metric_gradient_beside_a_point_far_away():
    X, W = points(40, 3, np.float64), np.ones((40, 40))
    W[0] = W[:, 0] = 0
    expected = mf.metric_gradient(X, W, L=np.eye(3))
    X[0] = 1e20
    np.testing.assert_allclose(mf.metric_gradient(X, W, L=np.eye(3)), expected, rtol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_metric_gradient_of_weights_and_maps_beyond_single_precision(sparse):
    X, W, L = points(6, 2, np.float32), np.ones((6, 6)), np.eye(2)
    weights = csr_array(W) if sparse else W
    expected = mf.metric_gradient(X, weights, L=L)
    for factor in (1e-100, 1e100):
        found = mf.metric_gradient(X, weights * factor, L=L * factor)
        np.testing.assert_allclose(found / factor / factor, expected, rtol=1e-5)


def test_metric_gradient_of_points_whose_squares_vanish():
    X, W = points(6, 2, np.float64), np.ones((6, 6))
    expected = mf.metric_gradient(X, W, L=np.eye(2))
    found = mf.metric_gradient(X * 1e-200, W, L=np.eye(2) * 1e200)
    np.testing.assert_allclose(found * 1e200, expected, rtol=1e-12)


@pytest.mark.parametrize("maps", [{"L": np.eye(2)}, {"U": np.eye(2), "V": np.eye(2)}])
def test_metric_gradient_refuses_to_overflow(maps):
    W = np.ones((2, 2))
    with pytest.raises(LossOverflowError, match="gradient overflows float64"):
        mf.metric_gradient(np.diag([1e200, 1]), W, **maps)
    X = np.diag([1e25, 1])  # squares overflow float32
    found = mf.metric_gradient(X.astype(np.float32), W, **maps)
    np.testing.assert_allclose(found, mf.metric_gradient(X, W, **maps), atol=1e44)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr"])
def test_metric_gradient_refuses_damaged_weights(form):
    W = csr_array(np.ones((6, 6))).asformat(form)
    (W.row if form == "coo" else W.indices)[0] = 10**8
    with pytest.raises(ValueError, match="weights is a damaged sparse matrix"):
        mf.metric_gradient(np.ones((6, 2)), W, L=np.eye(2))


def test_neighbors_at_the_end_of_the_range():
    X = np.array([[1.7e308], [-1.7e308], [1.6e308]])
    np.testing.assert_array_equal(mf.kneighbors(X, n_neighbors=1)[1].ravel(), [2, 2, 0])


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
