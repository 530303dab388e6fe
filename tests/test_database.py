"""A database, prepared or modified, finds the same neighbours as a sort of all distances."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import product
from threading import Event

import numpy as np
import pytest
from thinned import thinned

import metricfast as mf
from metricfast._core.dispatch import get_kernels
from metricfast._core.files import map_tensors, write_tensors


def exact(X, Y):
    """Return sums of squared differences in double, in the order of the features."""
    X, Y = X.astype(np.float64), Y.astype(np.float64)
    D = np.zeros((len(X), len(Y)))
    for a, b in zip(X.T, Y.T, strict=True):
        D += np.subtract.outer(a, b) ** 2
    return D


def nearest(D, k, exclude=None):
    D = D.copy()
    if exclude is not None:
        D[np.flatnonzero(exclude >= 0), exclude[exclude >= 0]] = np.inf
    return np.argsort(D, axis=1, kind="stable")[:, :k]


def normal(rng, n, d):
    return rng.normal(size=(n, d))


def lattice(rng, n, d):
    return rng.integers(0, 3, (n, d)).astype(float)


def repeated(rng, n, d):
    return normal(rng, n // 90 + 1, d)[rng.integers(0, n // 90 + 1, n)]


def equal(rng, n, d):
    return np.ones((n, d))


def outlier(rng, n, d):
    X = normal(rng, n, d)
    X[n // 2] = 1e8
    return X


def sentinels(rng, n, d):
    X = lattice(rng, n, d) + rng.integers(0, 9, (n, 1))
    X[[3, n // 2]] = 1e30
    return X


def heavy_tails(rng, n, d):
    return rng.standard_cauchy((n, d))


def far_from_the_origin(rng, n, d):
    return normal(rng, n, d) + 1e6


def clusters(rng, n, d):
    return 1e-3 * normal(rng, n, d) + 100 * normal(rng, 20, d)[rng.integers(0, 20, n)]


def subnormal(rng, n, d):
    return 1e-310 * normal(rng, n, d)


def nearly_equal(rng, n, d):
    return 1 + 1e-14 * normal(rng, n, d)


KINDS = [
    normal, lattice, repeated, equal, outlier, sentinels, heavy_tails, far_from_the_origin,
    clusters, subnormal, nearly_equal,
]  # fmt: skip

CLUSTERED = {
    "tight": clusters,
    "wide": lambda rng, n, d: normal(rng, n, d) + 12 * normal(rng, 40, d)[rng.integers(0, 40, n)],
    "copies": lambda rng, n, d: clusters(rng, 60, d)[rng.integers(0, 60, n)],
    "offset": lambda rng, n, d: clusters(rng, n, d) + 1e7,
    "sorted": lambda rng, n, d: (
        1e-2 * normal(rng, n, d) + np.repeat(normal(rng, 30, d), n // 30, 0)
    ),
    "outlier": lambda rng, n, d: np.vstack([clusters(rng, n - 1, d), 1e9 * normal(rng, 1, d)]),
    "line": lambda rng, n, d: np.linspace(0, 1, n)[:, None] * normal(rng, 1, d),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("kind", "d"),
    thinned(
        product(KINDS, [1, 3, 5, 12, 33, 500]),
        lambda case: case[1] in (3, 33) or case[0] in (lattice, clusters),
    ),
)
def test_neighbors(kind, d, dtype):
    rng = np.random.default_rng(d)
    X = kind(rng, 3000, d).astype(dtype)
    queries = np.concatenate([X[:40], kind(rng, 30, d).astype(dtype)])
    D = exact(queries, X)
    if kind is subnormal:
        D = exact(queries.astype(float) * 2.0**600, X.astype(float) * 2.0**600)
    exclude = np.r_[np.arange(40), np.full(30, -1)]
    database = mf.Database(X)
    assert database.algorithm_ == "tree" if d <= 5 else database.algorithm_ in ("int8", "float32")
    for count, k in [(1, 1), (3, 10), (70, 7), (70, 250)]:
        _, ids = database.kneighbors(queries[:count], k, exclude=exclude[:count])
        np.testing.assert_array_equal(ids, nearest(D[:count], k, exclude[:count]))
    distances, ids = database.kneighbors(queries, 5)
    np.testing.assert_array_equal(ids, nearest(D, 5))
    np.testing.assert_array_equal(distances, mf.kneighbors(queries, X, 5)[0])


@pytest.mark.parametrize("precision", ["auto", "float32"])
@pytest.mark.parametrize("maps", ["L", "UV"])
def test_maps(maps, precision):
    rng = np.random.default_rng(0)
    X, queries = normal(rng, 4000, 40), normal(rng, 90, 40)
    A, B = normal(rng, 20, 40), normal(rng, 20, 40)
    given = {"L": A} if maps == "L" else {"U": A, "V": B}
    database = mf.Database(X, precision=precision, **given)
    for found, expected in zip(
        database.kneighbors(queries, 6), mf.kneighbors(queries, X, 6, **given), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("d", [2, 20])
def test_queries_from_far_away(d):
    rng = np.random.default_rng(0)
    X = normal(rng, 3000, d)
    queries = normal(rng, 40, d) * np.logspace(0, 250, 40)[:, None]
    with np.errstate(over="ignore"):
        D = exact(queries[:20], X)
    _, ids = mf.Database(X).kneighbors(queries, 4)
    np.testing.assert_array_equal(ids[:20], nearest(D, 4))
    np.testing.assert_array_equal(ids, mf.kneighbors(queries, X, 4)[1])


def test_a_learner_is_no_map():
    learner = mf.Covariance().fit(np.eye(3))
    for search in (mf.Database, mf.pairwise_distances):
        with pytest.raises(TypeError, match=r"L must be a matrix; found Covariance. Give comp"):
            search(np.eye(3), L=learner)


@pytest.mark.parametrize("d", [2, 20])
def test_a_point_from_far_away(d):
    rng = np.random.default_rng(0)
    X, queries = normal(rng, 3000, d), normal(rng, 40, d)
    X[7] = 1e200
    with np.errstate(over="ignore"):
        expected = nearest(exact(queries, X), 4)
    for count in (1, 40):
        _, ids = mf.Database(X).kneighbors(queries[:count], 4)
        np.testing.assert_array_equal(ids, expected[:count])


def test_points_and_maps_are_the_database_s_own():
    rng = np.random.default_rng(0)
    X, L, more = normal(rng, 500, 16), normal(rng, 3, 16), normal(rng, 9, 16)
    seen = X.view()
    seen.flags.writeable = False
    databases = [mf.Database(points, L=L) for points in (X, seen)]
    expected = mf.kneighbors(more, np.concatenate([X, more]), 3, L=L)[1]
    X[:] = L[:] = 0
    for database in databases:
        database.add(more)
        np.testing.assert_array_equal(database.kneighbors(more, 3)[1], expected)
        again = pickle.loads(pickle.dumps(database))
        for array in (again.points_, again.ids_, database.points_, database.ids_):
            assert not array.flags.writeable
        np.testing.assert_array_equal(again.kneighbors(more, 3)[1], expected)


def test_read_only_points_are_not_copied(tmp_path):
    np.save(tmp_path / "X.npy", normal(np.random.default_rng(0), 500, 16))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert np.shares_memory(mf.Database(X).points_, X)


@pytest.mark.parametrize("d", [3, 64])
@pytest.mark.parametrize("maps", ["", "L", "UV"])
def test_files_are_mapped(d, maps, tmp_path):
    rng = np.random.default_rng(0)
    X, queries, path = normal(rng, 3000, d), normal(rng, 9, d), tmp_path / "database"
    given = {name: normal(rng, 2 * d, d) for name in maps}
    database = mf.Database(X, **given)
    database.remove([5, 7])
    database.save(path)
    anew = mf.Database(np.delete(X, [5, 7], axis=0), **given)
    for verify in (True, False):
        loaded = mf.Database.load(path, verify=verify)
        assert not loaded.points_.flags.owndata and loaded.nbytes_ == anew.nbytes_
        for same in (loaded, pickle.loads(pickle.dumps(loaded))):
            for found, expected in zip(
                same.kneighbors(queries, 6), database.kneighbors(queries, 6), strict=True
            ):
                np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(loaded.add(X[:1]), [3000])
    assert maps == "UV" or loaded.kneighbors(X[:1], 2)[1].tolist() == [[0, 3000]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 40, 6000])
@pytest.mark.parametrize("kind", thinned([*KINDS, *CLUSTERED.values()], 6))
def test_every_database_can_be_loaded(kind, n, dtype, tmp_path):
    path = tmp_path / "database"
    for seed, zeros in product(range(3), (0, 0.25)):
        rng = np.random.default_rng(seed)
        X = kind(rng, max(n, 60), 24)[:n].astype(dtype)
        X[rng.uniform(size=n) < zeros] = 0
        database = mf.Database(X)
        for _ in range(2):
            database.save(path)
            loaded = mf.Database.load(path)
            for found, expected in zip(
                loaded.kneighbors(X[:5], 1), database.kneighbors(X[:5], 1), strict=True
            ):
                np.testing.assert_array_equal(found, expected)
            database.add(X[:3])
            database.remove(rng.choice(database.ids_, n // 4, replace=False))


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "database"
    mf.Database(normal(np.random.default_rng(0), 300, 16)).save(path)
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(content), 60):
        damaged = content.copy()
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="database"):
            mf.Database.load(path)
    for size in (0, 4, 100, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match="database"):
            mf.Database.load(path, verify=False)


def rewritten(path, metadata, tensors):
    kept = {name: metadata[name] for name in ("format", "precision", "next")}
    write_tensors(
        path, kept, {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    )


def opened(path):
    metadata, tensors = map_tensors(path, "metricfast.database", "a database", True)
    return metadata, {name: array.copy() for name, array in tensors.items()}


@pytest.mark.parametrize("d", [3, 64])
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("points", lambda v: v[:, :0], r"points must be floats of shape \(m, d\)"),
        ("points", lambda v: v[:0], "points must be floats"),
        ("points", lambda v: v[:, 0], "points must be floats"),
        ("points", lambda v: v.astype(np.int64), "points must be floats"),
        ("points", lambda v: np.where(v == v[9], np.nan, v), "points contains NaN"),
        ("ids", lambda v: v[:-1], r"ids must be int64 of shape \(300,\)"),
        ("ids", lambda v: v.astype(np.int32), "ids must be int64"),
        ("ids", lambda v: v[::-1], "ids must ascend"),
        ("ids", lambda v: v // 2, "ids must ascend"),
        ("ids", lambda v: v - 1, "ids must ascend from 0"),
        ("next", lambda _: "0", "next must be from 300 to"),
        ("next", lambda _: "299", "next must be from 300 to"),
        ("next", lambda _: str(2**70), "next must be from 300 to"),
        ("next", lambda _: "many", "many"),
        ("precision", lambda _: "none", "precision must be"),
    ],
)
def test_files_that_are_no_database_are_refused(d, name, change, message, tmp_path):
    path = tmp_path / "database"
    mf.Database(normal(np.random.default_rng(0), 300, d)).save(path)
    metadata, tensors = opened(path)
    holder = metadata if name in metadata else tensors
    rewritten(path, metadata, tensors)
    assert len(mf.Database.load(path)) == 300
    holder[name] = change(holder[name])
    rewritten(path, metadata, tensors)
    with pytest.raises(ValueError, match=f"{path} is not a readable database: .*{message}"):
        mf.Database.load(path)


@pytest.mark.parametrize("L", [None, np.eye(40, 64)], ids=["points", "map"])
def test_files_with_any_numbers_are_searched_or_refused(L, tmp_path):
    X, path = normal(np.random.default_rng(0), 300, 64), tmp_path / "database"
    mf.Database(X, L=L).save(path)
    metadata, tensors = opened(path)
    refused = set()
    for name, array in tensors.items():
        limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
        fills = [limits.min, limits.max] + [np.nan, np.inf] * (array.dtype.kind == "f")
        spoilt = [np.full_like(array, value) for value in fills]
        for changed in (array[:0], array[:-1], *spoilt, None):
            others = {key: value for key, value in tensors.items() if key != name}
            rewritten(path, metadata, others if changed is None else others | {name: changed})
            for verify in (True, False):
                with suppress(ValueError):
                    refused.add(name)
                    loaded = mf.Database.load(path, verify=verify)
                    refused.discard(name)
                    loaded.kneighbors(X[:3], 2)
                    loaded.kneighbors(X, 2, exclude=np.arange(300))
    # At least the removal of each array is refused, except of L: a database needs no map.
    assert refused >= set(tensors) - {"L"}


def test_a_search_sees_the_points_before_a_change_or_those_after_it(monkeypatch):
    X = normal(np.random.default_rng(0), 500, 16)
    database = mf.Database(X)
    expected = database.kneighbors(X, 3, exclude=np.arange(500))[1]
    with monkeypatch.context() as patch:  # during a search
        patch.setattr(
            "metricfast.distances.database.check_neighbors",
            lambda n_neighbors, *_: database.remove([0, 1]) or n_neighbors,
        )
        found = database.kneighbors(X, 3, exclude=np.arange(500))[1]
    np.testing.assert_array_equal(found, expected)
    assert database.ids_[0] == 2


def test_threads_change_it_in_turn():
    X = normal(np.random.default_rng(0), 200, 16)
    database = mf.Database(X)
    with ThreadPoolExecutor(8) as pool:
        ids = np.concatenate(list(pool.map(lambda i: database.add(X[i : i + 2]), range(0, 200, 2))))
        list(pool.map(lambda i: database.remove([i]), range(100)))
    np.testing.assert_array_equal(database.ids_, np.arange(100, 400))
    np.testing.assert_array_equal(database.points_[ids - 100], X)


@pytest.mark.skipif(not get_kernels().has_int8(), reason="no products of integers")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", CLUSTERED)
def test_clusters_are_searched_by_cells_with_the_same_result(kind, dtype, tmp_path):
    rng = np.random.default_rng(1)
    X = CLUSTERED[kind](rng, 6000, 24).astype(dtype)
    queries = np.concatenate([X[::100], X[:20] + 1e-3, normal(rng, 10, 24)]).astype(dtype)
    exclude = np.r_[np.arange(0, 6000, 100), np.full(30, -1)]
    database, D = mf.Database(X), exact(queries, X)
    assert database.algorithm_ == "cells"
    for count, k in [(1, 1), (5, 10), (90, 7), (90, 300)]:
        found = database.kneighbors(queries[:count], k, exclude=exclude[:count], n_jobs=1)
        np.testing.assert_array_equal(found[1], nearest(D[:count], k, exclude[:count]))
        again = database.kneighbors(queries[:count], k, exclude=exclude[:count], n_jobs=3)
        np.testing.assert_array_equal(again[0], found[0])
        np.testing.assert_array_equal(again[1], found[1])
    if kind == "wide":
        pytest.importorskip("safetensors")
        database.save(tmp_path / "cells")
        loaded = mf.Database.load(tmp_path / "cells")
        assert loaded.algorithm_ == "cells"
        for a, b in zip(loaded.kneighbors(queries), database.kneighbors(queries), strict=True):
            np.testing.assert_array_equal(a, b)
        loaded.add(normal(rng, 1, 24).astype(dtype))
        assert len(loaded) == 6001


@pytest.mark.skipif(not get_kernels().has_int8(), reason="no products of integers")
def test_threads_that_share_cells_find_what_one_finds():
    rng = np.random.default_rng(2)
    X = CLUSTERED["wide"](rng, 12_000, 256).astype(np.float32)
    queries = X[::1200] + normal(rng, 10, 256).astype(np.float32)
    database = mf.Database(X)
    assert database.algorithm_ == "cells"
    alone = database.kneighbors(queries, 20, n_jobs=1)
    for a, b in zip(alone, database.kneighbors(queries, 20, n_jobs=4), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(alone[1][:2], nearest(exact(queries[:2], X), 20))


@pytest.mark.parametrize("n_queries", [1, 7, 300])
@pytest.mark.parametrize("n_classes", [3, 90])
def test_a_prepared_database_finds_the_nearest_of_each_class(n_queries, n_classes) -> None:
    rng = np.random.default_rng(0)
    X, queries = rng.normal(size=(5000, 24)), rng.normal(size=(n_queries, 24))
    X[100:200] = X[:100]
    y, exclude = rng.integers(n_classes, size=5000), rng.integers(-1, 5000, size=n_queries)
    shape = n_queries, n_classes, 70
    distances, rows = np.empty(shape), np.empty(shape, np.int64)
    prepared = mf.Database(X)._held.segments[0].prepared
    get_kernels().kneighbors_per_class(
        queries, prepared, y, n_classes, 70, exclude, True, distances, rows, 2
    )
    expected = mf.neighbors.kneighbors_per_class(queries, X, y, 70, exclude=exclude, squared=True)
    np.testing.assert_array_equal(rows, expected[1])
    np.testing.assert_array_equal(distances, expected[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e18])
def test_few_queries_vote_as_many_do(dtype, scale) -> None:
    rng = np.random.default_rng(0)
    X, queries = (scale * rng.normal(size=(n, 24)).astype(dtype) for n in (3000, 5))
    X, queries = X.astype(dtype), queries.astype(dtype)
    values, weight = rng.random((3000, 3)).astype(dtype), rng.normal(size=3000)
    exclude, out = np.array([-1, 3, 2999, 0, 7]), np.empty((5, 3))
    X[:5] = queries
    prepared = mf.Database(X)._held.segments[0].prepared
    for points in (X, prepared):
        get_kernels().soft_votes(queries, points, values, weight, exclude, out, 1)
        for i in range(5):
            one, row = exclude[i : i + 1], np.empty((1, 3))
            get_kernels().soft_votes(queries[i : i + 1], points, values, weight, one, row, 2)
            np.testing.assert_allclose(row[0], out[i], rtol=2e-4 if dtype is np.float32 else 1e-7)
    X[9, 3] = np.nan
    with pytest.raises(ValueError, match="must be finite"):
        get_kernels().soft_votes(queries[:1], X, values, weight, None, out[:1], 1)


def clusters_on_axes(rng, n, d):
    return 1e-3 * normal(rng, n, d) + 100 * np.eye(d)[rng.integers(0, d, n)]


def positive(rng, n, d):
    """Return points far from the origin, so that a map shifts them."""
    return 3 + rng.uniform(size=(n, d)) + (rng.uniform(size=(n, 1)) < 0.01)


def from_tiny_to_huge(rng, n, d):
    return normal(rng, n, d) * 10.0 ** rng.choice(
        [-160, -3, 0, 3, 120], (n, 1), p=[0.05, 0.3, 0.3, 0.3, 0.05]
    )


class Plain:
    """A reference database: a dictionary of points by id."""

    def __init__(self, X, **maps):
        self.points, self.next, self.maps = dict(enumerate(X)), len(X), maps

    def add(self, X):
        ids = np.arange(self.next, self.next + len(X))
        self.points.update(zip(ids, X, strict=True))
        self.next += len(X)
        return ids

    def remove(self, ids):
        for each in set(ids):
            del self.points[each]

    @property
    def ids(self):
        return np.array(list(self.points))

    def kneighbors(self, queries, k, exclude=None, **options):
        X, ids = np.stack(list(self.points.values())), self.ids
        if exclude is not None:
            options["exclude"] = np.where(np.isin(exclude, ids), np.searchsorted(ids, exclude), -1)
        distances, rows = mf.kneighbors(queries, X, k, **self.maps, **options)
        return distances, np.where(rows < 0, -1, ids[rows])


def changes(rng, draw, d, plain, database, steps, check_each):
    """Add and remove few or many random points, and compare searches."""
    for step in range(steps):
        size = int(rng.choice([1, 2, 30, 400], p=[0.7, 0.2, 0.07, 0.03]))
        if rng.uniform() < 0.5:
            X = draw(rng, size, d)
            np.testing.assert_array_equal(database.add(X), plain.add(X))
        elif size < len(plain.points):
            of = plain.ids
            newest = rng.uniform() < 0.3
            gone = of[-size:] if newest else rng.choice(of, size, replace=bool(rng.integers(2)))
            database.remove(gone)
            plain.remove(gone)
        if step % check_each == 0:
            queries = draw(rng, int(rng.choice([1, 1, 40])), d)
            k = min(int(rng.choice([1, 5, 40])), len(plain.points) - 1)
            m, where = len(plain.points), None
            exclude = rng.integers(-1, plain.next, len(queries)) if rng.uniform() < 0.5 else None
            if rng.uniform() < 0.3:
                shape = (m,) if rng.uniform() < 0.5 else (len(queries), m)
                where = rng.uniform(size=shape) < rng.choice([0.02, 0.5])
            elif rng.uniform() < 0.3:
                where = rng.integers(0, 4, len(queries)), rng.integers(0, 4, m)
                where = ("equal", *where) if rng.uniform() < 0.5 else where
            squared = bool(rng.integers(2))
            how = {"where": where, "exclude": exclude, "squared": squared}
            found, expected = (each.kneighbors(queries, k, **how) for each in (database, plain))
            np.testing.assert_array_equal(found[1], expected[1])
            np.testing.assert_array_equal(found[0], expected[0])
            assert len(database) == m


@pytest.mark.parametrize("draw", [normal, lattice, clusters_on_axes, positive, from_tiny_to_huge])
@pytest.mark.parametrize("d", [3, 24])
@pytest.mark.parametrize("maps", ["", "L", "UV"])
def test_edits_at_random(draw, d, maps):
    rng = np.random.default_rng(0)
    given = {name: normal(rng, 5 if d == 3 else 21, d) for name in maps}
    X = draw(rng, 900, d)
    plain, database = Plain(X, **given), mf.Database(X, **given)
    changes(rng, draw, d, plain, database, 120, 3)
    np.testing.assert_array_equal(database.ids_, plain.ids)
    np.testing.assert_array_equal(database.points_, list(plain.points.values()))
    again = pickle.loads(pickle.dumps(database))
    queries = draw(rng, 9, d)
    for one, other in zip(again.kneighbors(queries, 7), plain.kneighbors(queries, 7), strict=True):
        np.testing.assert_array_equal(one, other)


def search_beside_changes(seconds, d):
    """Points lie on a line in the order of their ids, so results show the time of the search."""
    width = 600
    X = np.repeat(np.arange(width, dtype=float)[:, None], d, axis=1)
    database = mf.Database(X)
    done, first, searched = Event(), [0], []

    def change():
        """Remove the oldest point, then add one at the end, which has the next id."""
        while not done.is_set():
            database.remove([first[0]])
            added = database.add(np.full((1, d), float(first[0] + width)))
            assert added == [first[0] + width]
            first[0] += 1

    def search(n_jobs):
        queries = np.full((3, d), -1.0)
        last = 0
        while not done.is_set():
            started = first[0]
            distances, ids = database.kneighbors(queries, width - 1, n_jobs=n_jobs)
            ended = first[0]
            oldest = ids[0, 0]
            assert (ids == np.arange(oldest, oldest + width - 1)).all()
            assert (distances == np.sqrt(d * (ids + 1.0) ** 2)).all()
            assert max(last, started) <= oldest <= ended + 1
            last = oldest
            searched.append(oldest)
        return last

    with ThreadPoolExecutor(4) as pool:
        tasks = [pool.submit(change), *(pool.submit(search, n) for n in (1, 1, 2))]
        done.wait(seconds)
        done.set()
        for task in tasks:
            task.result()
    assert first[0] > 0 and len(set(searched)) > 1
    return first[0], len(searched)


@pytest.mark.parametrize("d", [4, 24])
def test_searches_beside_changes_see_the_points_before_or_after_each(d):
    search_beside_changes(0.7, d)


def test_the_first_searches_of_many_threads():
    """A structure that the first search needs is built only once."""
    rng = np.random.default_rng(0)
    X = clusters_on_axes(rng, 5000, 24)[rng.integers(0, 300, 5000)]
    for maps in ({}, {"L": normal(rng, 22, 24)}):
        expected = mf.kneighbors(X[:64], X, 30, **maps)
        database = mf.Database(X, precision="float32", **maps)
        with ThreadPoolExecutor(8) as pool:
            for found in pool.map(partial(database.kneighbors, n_neighbors=30), [X[:64]] * 8):
                for one, other in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(one, other)
