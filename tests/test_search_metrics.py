"""Searches by cosine and inner product, against all pairs in the order of the coordinates."""

import pickle

import numpy as np
import pytest

import metricfast as mf
from metricfast.neighbors import radius_neighbors

METRICS = ("cosine", "inner_product")


def sums(queries, points):
    """Return inner products of all rows, summed in the order of the coordinates."""
    total = np.zeros((len(queries), len(points)), queries.dtype)
    for q, x in zip(queries.T, points.T, strict=True):
        total += np.multiply.outer(q, x)
    return total


def moderate(points, dtype):
    """Return rows divided by powers of two, so that squares are ordinary numbers."""
    points = points.astype(dtype)
    return np.ldexp(points, -np.frexp(np.abs(points).max(axis=1, keepdims=True))[1])


def distances_of(metric, queries, points, dtype=np.float64):
    """Return all distances; in float64 they are the ones that a search compares."""
    if metric == "inner_product":
        return 0.0 - sums(queries.astype(dtype), points.astype(dtype))
    queries, points = moderate(queries, dtype), moderate(points, dtype)
    squares = [np.array([sums(r[None], r[None])[0, 0] for r in x]) for x in (queries, points)]
    lengths = np.sqrt(np.multiply.outer(*squares))
    zero = lengths == 0
    found = (lengths - sums(queries, points)) / np.where(zero, 1, lengths)
    found[zero] = (squares[0][:, None] != squares[1])[zero]
    return np.clip(found, 0, 2)


def nearest(keys, k, allowed=None):
    """Return the k smallest keys of each row and their indices, ties by the lower index."""
    if allowed is not None:
        keys = np.where(allowed, keys, np.inf)
    order = np.argsort(keys, axis=1, kind="stable")[:, :k]
    keys = np.take_along_axis(keys, order, axis=1)
    return keys, np.where(np.isinf(keys), -1, order)


def make(kind, n, d, seed=0):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, d))
    if kind == "off centre":
        points += 30
    elif kind == "lengths":
        points *= rng.lognormal(sigma=2, size=(n, 1))
    elif kind == "clusters":
        points = 0.01 * points + rng.normal(size=(9, d))[rng.integers(9, size=n)]
    elif kind == "whole numbers":
        points = np.round(points)
        points[rng.integers(n, size=n // 3)] *= 4
    elif kind == "one-hot":
        points = np.eye(d)[rng.integers(d, size=n)]
    elif kind == "copies":
        points = points[rng.integers(n // 8, size=n)]
    elif kind == "zeros":
        points[rng.integers(n, size=n // 4)] = 0
    return points


KINDS = (
    "normal", "off centre", "lengths", "clusters", "whole numbers", "one-hot", "copies", "zeros",
)  # fmt: skip


@pytest.mark.parametrize("dtypes", [("f4", "f4"), ("f8", "f8"), ("f4", "f8"), ("f8", "f4")])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", METRICS)
def test_neighbours_are_those_of_all_pairs(metric, kind, dtypes):
    for d in (1, 24):
        points, queries = (
            make(kind, n, d, seed).astype(dtype)
            for (n, seed), dtype in zip(((900, 1), (120, 2)), dtypes, strict=True)
        )
        keys = distances_of(metric, queries, points)
        precise = distances_of(metric, queries, points, np.longdouble)
        eps = np.finfo(np.float32 if dtypes == ("f4", "f4") else np.float64).eps
        database = mf.Database(points, metric=metric)
        for k in (1, 6, 130):
            expected, order = nearest(keys, k)
            for found in (
                database.kneighbors(queries, k),
                mf.kneighbors(queries, points, k, metric=metric),
                [np.concatenate(each) for each in zip(
                    *(database.kneighbors(queries[i : i + 3], k) for i in range(0, 120, 3)),
                    strict=True,
                )],
            ):  # fmt: skip
                np.testing.assert_array_equal(found[1], order)
                np.testing.assert_array_equal(found[0], expected.astype(found[0].dtype))
                exact = np.take_along_axis(precise, order, axis=1)
                scale = max(1, np.abs(precise).max())
                np.testing.assert_allclose(found[0], exact.astype("f8"), atol=4 * d * eps * scale)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", METRICS)
def test_points_within_a_radius_are_those_of_all_pairs(metric, kind):
    points, queries = make(kind, 500, 24, 1), make(kind, 60, 24, 2)
    keys = distances_of(metric, queries, points)
    database = mf.Database(points, metric=metric)
    for radius in (*np.quantile(keys, [0.0, 0.01, 0.5, 1.0]), np.inf):
        expected = [np.flatnonzero(row <= radius) for row in keys]
        for search in (
            lambda r, **how: database.radius_neighbors(queries, r, **how),
            lambda r, **how: radius_neighbors(queries, points, r, metric=metric, **how),
        ):
            distances, indices, starts = search(float(radius))
            np.testing.assert_array_equal(indices, np.concatenate(expected))
            np.testing.assert_array_equal(np.diff(starts), [len(row) for row in expected])
            np.testing.assert_array_equal(distances, keys[keys <= radius])
            distances, indices, _ = search(float(radius), sort_results=True)
            ordered = [row[np.lexsort((row, keys[i, row]))] for i, row in enumerate(expected)]
            np.testing.assert_array_equal(indices, np.concatenate(ordered))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_short_point_in_the_direction_of_the_query_is_found(dtype):
    # Its product is 1.01 times that of the best long point, so a search that underestimates short
    # points by a few percent skips it.
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(6000, 24))
    directions[:1500, :12] = 0
    directions[1500:, 12:] = 0
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    lengths = np.where(np.arange(6000) < 1500, 2.0, 1.0)
    short = np.arange(2000, 6000, 101)
    queries = directions[short]
    across = np.where(np.arange(24) < 12, 0, rng.normal(size=queries.shape))
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    cosines = 0.99 * lengths[short, None] / 2
    rivals = 2 * (cosines * queries + np.sqrt(1 - cosines**2) * across)
    points = np.concatenate([lengths[:, None] * directions, rivals]).astype(dtype)
    database = mf.Database(points, metric="inner_product")
    for query, row in zip(queries.astype(dtype), short, strict=True):
        assert database.kneighbors(query[None], 1)[1][0, 0] == row
        _, found, _ = database.radius_neighbors(query[None], float(-0.995 * lengths[row]))
        assert found.tolist() == [row]


@pytest.mark.parametrize("kind", ["normal", "off centre", "clusters"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_inner_products_of_long_and_short_points(kind, dtype, tmp_path):
    pytest.importorskip("safetensors")
    rng = np.random.default_rng(0)
    points, queries = make(kind, 9000, 24, 1), make(kind, 40, 24, 2).astype(dtype)
    lengths = rng.choice([0.5, 1, 2, 100], p=[0.9, 0.08, 0.015, 0.005], size=(9000, 1))
    points = (points * lengths).astype(dtype)
    points[5000:5100] = points[:100]
    keys = distances_of("inner_product", queries, points)
    database = mf.Database(points, metric="inner_product")
    database.save(tmp_path / "points.safetensors")
    for each in (database, mf.Database.load(tmp_path / "points.safetensors")):
        for k in (1, 10, 200):
            for one, other in zip(each.kneighbors(queries, k), nearest(keys, k), strict=True):
                np.testing.assert_array_equal(one, other.astype(one.dtype))
            single = each.kneighbors(queries[:1], k)
            np.testing.assert_array_equal(single[1], nearest(keys[:1], k)[1])
        for radius in np.quantile(keys, [0.001, 0.02]):
            _, ids, starts = each.radius_neighbors(queries, float(radius))
            rows = np.repeat(np.arange(40), np.diff(starts))
            np.testing.assert_array_equal((rows, ids), np.nonzero(keys <= radius))


@pytest.mark.parametrize("metric", METRICS)
def test_filters_and_exclusions(metric):
    rng = np.random.default_rng(3)
    points, queries = make("zeros", 600, 22, 1), make("zeros", 80, 22, 2)
    keys = distances_of(metric, queries, points)
    mask, pairs = rng.uniform(size=600) < 0.1, rng.uniform(size=(80, 600)) < 0.2
    labels = rng.integers(4, size=80), rng.integers(4, size=600)
    same = labels[0][:, None] == labels[1]
    exclude = rng.integers(-1, 600, size=80)
    out = np.arange(600) != exclude[:, None]
    for where, allowed in (
        (None, out), (mask, mask & out), (pairs, pairs & out), (labels, ~same & out),
        (("equal", *labels), same & out), (np.flatnonzero(mask), mask & out),
    ):  # fmt: skip
        database = mf.Database(points, metric=metric)
        how = {"where": where, "exclude": exclude}
        for found in (
            database.kneighbors(queries, 70, **how),
            mf.kneighbors(queries, points, 70, metric=metric, **how),
        ):
            for one, other in zip(found, nearest(keys, 70, allowed), strict=True):
                np.testing.assert_array_equal(one, other)
        radius = float(np.median(keys))
        _, ids, starts = database.radius_neighbors(queries, radius, **how)
        rows = np.repeat(np.arange(80), np.diff(starts))
        np.testing.assert_array_equal((rows, ids), np.nonzero((keys <= radius) & allowed))


@pytest.mark.parametrize("metric", METRICS)
def test_a_database_that_changes(metric, tmp_path):
    points, queries = make("lengths", 900, 21, 1), make("normal", 50, 21, 2)
    keys = distances_of(metric, queries, points)
    database = mf.Database(points[:600], metric=metric)
    database.add(points[600:])
    shown = np.arange(900) % 7 != 0
    database.remove(np.flatnonzero(~shown))
    expected = nearest(keys, 9, shown)
    path = tmp_path / "points.safetensors"
    pytest.importorskip("safetensors")
    database.save(path)
    for each in (database, mf.Database.load(path), pickle.loads(pickle.dumps(database))):
        for one, other in zip(each.kneighbors(queries, 9), expected, strict=True):
            np.testing.assert_array_equal(one, other)
        radius = float(np.quantile(keys, 0.1))
        _, ids, starts = each.radius_neighbors(queries, radius, sort_results=True)
        for i in range(50):
            near = np.flatnonzero((keys[i] <= radius) & shown)
            near = near[np.lexsort((near, keys[i, near]))]
            np.testing.assert_array_equal(ids[starts[i] : starts[i + 1]], near)
    assert metric in repr(database)


@pytest.mark.parametrize("metric", METRICS)
def test_points_on_disk(metric, tmp_path):
    points, queries = make("off centre", 900, 6, 1), make("normal", 50, 6, 2)
    L = np.random.default_rng(4).normal(size=(3, 6))
    stored = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", points.dtype, points.shape)
    stored[...] = points
    radius = -1.0 if metric == "inner_product" else 0.3
    for scale in (1, 2.0**300):
        stored[...] = points * scale
        stored.flush()
        disk = np.load(tmp_path / "x.npy", mmap_mode="r")
        for maps in ({}, {"L": L}):
            how = {"metric": metric, **maps}
            for one, other in zip(
                mf.kneighbors(queries, disk, 8, **how),
                mf.kneighbors(queries, points * scale, 8, **how),
                strict=True,
            ):
                np.testing.assert_array_equal(one, other)
            for one, other in zip(
                radius_neighbors(queries, disk, radius, **how),
                radius_neighbors(queries, points * scale, radius, **how),
                strict=True,
            ):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("metric", METRICS)
def test_maps_embed_points_without_a_shift(metric):
    rng = np.random.default_rng(5)
    points, queries = make("off centre", 300, 7, 1), make("normal", 40, 7, 2)
    U, V = rng.normal(size=(2, 4, 7))
    for maps, sides in (({"L": U}, (U, U)), ({"U": U, "V": V}, (U, V))):
        keys = distances_of(metric, queries @ sides[0].T, points @ sides[1].T)
        for distances, indices in (
            mf.kneighbors(queries, points, 5, metric=metric, **maps),
            mf.Database(points, metric=metric, **maps).kneighbors(queries, 5),
            mf.kneighbors(queries, points, 5, metric=metric, where=np.ones(300, bool), **maps),
        ):
            np.testing.assert_array_equal(indices, nearest(keys, 5)[1])
            np.testing.assert_allclose(distances, nearest(keys, 5)[0], rtol=1e-12, atol=1e-12)


def test_a_bilinear_similarity():
    rng = np.random.default_rng(6)
    points, queries, M = (
        rng.normal(size=(300, 7)),
        rng.normal(size=(40, 7)),
        rng.normal(size=(7, 7)),
    )
    expected = nearest(-queries @ M @ points.T, 5)
    distances, indices = mf.kneighbors(queries, points, 5, metric="inner_product", M=M)
    np.testing.assert_array_equal(indices, expected[1])
    np.testing.assert_allclose(distances, expected[0], rtol=1e-12)
    with pytest.raises(ValueError, match=r"M must have shape \(7, 7\); found \(3, 7\)"):
        mf.kneighbors(queries, points, 5, metric="inner_product", M=M[:3])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("scales", [(1e-200, 1e200), (1e-30, 1e-30), (1e30, 1e-38), (3e38, 3e-3)])
def test_numbers_of_any_size(metric, scales):
    points, queries = make("normal", 400, 23, 1), make("normal", 30, 23, 2)
    dtype = np.float64 if min(scales) < 1e-40 else np.float32
    points, queries = (
        (x / 8 * s).astype(dtype) for x, s in zip((points, queries), scales, strict=True)
    )
    keys = distances_of(metric, queries, points)
    _, indices = mf.Database(points, metric=metric).kneighbors(queries, 6)
    np.testing.assert_array_equal(indices, nearest(keys, 6)[1])


def test_errors():
    with pytest.raises(ValueError, match="metric must be 'euclidean', 'cosine' or 'inner_product'"):
        mf.kneighbors([[0.0]], metric="manhattan")
    with pytest.raises(ValueError, match="metric must be 'euclidean'"):
        mf.Database([[0.0]], metric=None)
    with pytest.raises(ValueError, match="metric must be 'euclidean'"):
        radius_neighbors([[0.0]], metric="l2")
    for metric in METRICS:
        with pytest.raises(ValueError, match='squared=True needs metric="euclidean"'):
            mf.kneighbors([[0.0], [1.0]], n_neighbors=1, metric=metric, squared=True)
        with pytest.raises(ValueError, match='squared=True needs metric="euclidean"'):
            mf.Database([[0.0]], metric=metric).kneighbors([[1.0]], 1, squared=True)
    with pytest.raises(ValueError, match="radius must be a number from 0"):
        mf.Database([[0.0]], metric="cosine").radius_neighbors([[1.0]], -1)
    with pytest.raises(ValueError, match="radius must be a finite number, got nan"):
        mf.Database([[0.0]], metric="inner_product").radius_neighbors([[1.0]], np.nan)
