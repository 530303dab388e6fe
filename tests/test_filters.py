"""Searches with `where` equal a sort of the distances to the allowed points."""

import numpy as np
import pytest
from stored import Stored
from working_memory import working_memory

import metricfast as mf
from metricfast.metrics import precision_at_1, retrieval_report


def in_order(X, queries):
    """Return all distances from small to large, and the rows of their points."""
    D = np.zeros((len(queries), len(X)))
    for a, b in zip(queries.T, X.T, strict=True):
        D += np.subtract.outer(a, b) ** 2
    rows = np.argsort(D, axis=1, kind="stable")
    return np.sqrt(np.take_along_axis(D, rows, axis=1)), rows


def expected(ordered, k, allowed):
    """Return the first k distances and rows that are allowed; inf and -1 where there are fewer."""
    distances, indices = np.full((len(allowed), k), np.inf), np.full((len(allowed), k), -1)
    for i, (D, rows, left) in enumerate(zip(*ordered, allowed, strict=False)):
        found = np.flatnonzero(left[rows])[:k]
        distances[i, : len(found)], indices[i, : len(found)] = D[found], rows[found]
    return distances, indices


def compare(found, right):
    np.testing.assert_array_equal(found[1], right[1])
    np.testing.assert_array_equal(found[0], right[0])


def points(kind, n, d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    if kind == "clusters":
        X = 1e-2 * X + rng.normal(size=(25, d))[rng.integers(0, 25, n)]
    if kind == "copies":
        X = X[rng.integers(0, 40, n)]
    return X, np.concatenate([X[:60], X[60:90] + 1e-3])


@pytest.mark.parametrize("precision", ["auto", "float32"])
@pytest.mark.parametrize("d", [3, 24])
@pytest.mark.parametrize("kind", ["diffuse", "clusters", "copies"])
def test_masks_ids_and_labels(kind, d, precision):
    X, queries = points(kind, 5000, d)
    rng = np.random.default_rng(1)
    labels, own = rng.integers(0, 3, 5000), rng.integers(0, 4, 90)
    if kind == "clusters":  # exclude the nearest points of each query
        labels = np.argmin(((X[:, None] - X[None, :12]) ** 2).sum(-1), axis=1)
        own = np.r_[labels[:60], labels[60:90]]
    database = mf.Database(X, precision=precision)
    exclude = np.r_[np.arange(60), np.full(30, -1)]
    equal = own[:, None] == labels
    pairs = rng.uniform(size=(90, 5000)) < np.r_[0, np.geomspace(0.0002, 1, 89)][:, None]
    cases = [((own, labels), ~equal), (("equal", own, labels), equal), (pairs, pairs)]
    for share in (0.0, 0.0004, 0.02, 0.5):
        mask = rng.uniform(size=5000) < share
        cases.append((mask, np.broadcast_to(mask, (90, 5000))))
    cases.append((np.flatnonzero(mask)[::-7], np.isin(np.arange(5000), np.flatnonzero(mask)[::-7])))
    ordered = in_order(X, queries)
    for where, left in cases:
        allowed = np.array(np.broadcast_to(left, (90, 5000)))
        for count, k in [(1, 3), (90, 120)]:
            some = where
            if isinstance(where, tuple):
                some = (*where[:-2], own[:count], labels)
            elif np.ndim(where) == 2:
                some = where[:count]
            right = expected(ordered, k, allowed[:count])
            for _ in range(3):  # repeated masks get a prepared database
                compare(database.kneighbors(queries[:count], k, where=some), right)
            compare(mf.kneighbors(queries[:count], X, k, where=some), right)
        others = allowed.copy()
        others[np.arange(60), np.arange(60)] = False
        some = {"exclude": exclude, "where": where}
        right = expected(ordered, 7, others)
        compare(database.kneighbors(queries, 7, **some), right)
        compare(mf.kneighbors(queries, X, 7, **some), right)


@pytest.mark.parametrize("d", [3, 24])
@pytest.mark.parametrize("kind", ["diffuse", "clusters", "copies"])
def test_many_labels_of_few_points(kind, d):
    """If few points have a query's label, a search computes their distances."""
    X, _ = points(kind, 2000, d)
    rng = np.random.default_rng(1)
    for n_labels in (30, 500):
        labels = rng.integers(0, n_labels, 2000)
        queries, own = X[:300], np.r_[labels[:290], np.full(10, -1)]
        exclude, allowed = np.arange(300), own[:, None] == labels
        allowed[exclude, exclude] = False
        right = expected(in_order(X, queries), 6, allowed)
        how = {"exclude": exclude, "where": ("equal", own, labels)}
        compare(mf.Database(X).kneighbors(queries, 6, **how), right)
        compare(mf.kneighbors(queries, X, 6, **how), right)


def test_points_without_a_place_in_memory_and_text_labels():
    X, queries = points("diffuse", 3000, 8)
    labels = np.array(["left", "right", "front"])[np.arange(3000) % 3]
    own = np.array(["left", "back"])[np.arange(90) % 2]
    mask = np.arange(3000) % 5 > 0

    L = np.random.default_rng(2).normal(size=(5, 8))
    pairs = np.random.default_rng(3).uniform(size=(90, 3000)) < 0.3
    for where in ((own, labels), ("equal", own, labels), mask, np.flatnonzero(mask), pairs):
        for maps in ({}, {"L": L}):
            right = mf.Database(X, **maps).kneighbors(queries, 6, where=where)
            with working_memory(100_000):
                compare(mf.kneighbors(queries, Stored(X), 6, where=where, **maps), right)
            compare(mf.kneighbors(queries, X, 6, where=where, **maps), right)
    ordered, equal = in_order(X, queries), own[:, None] == labels
    compare(mf.kneighbors(queries, X, 6, where=(own, labels)), expected(ordered, 6, ~equal))
    found = mf.kneighbors(queries, X, 6, where=("equal", own, labels))
    compare(found, expected(ordered, 6, equal))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (np.ones(3, bool), r"one boolean per database point: expected shape \(4,\), found \(3,\)"),
        (np.ones((4, 1), bool), r"found \(4, 1\)"),
        ([0.5], "where must be a boolean mask of the database, ids, or a tuple"),
        ([[0, 1]], "where must be a boolean mask"),
        ([np.zeros(1, int), np.zeros(4, int)], r"or a tuple .*; found a list of 2 sequences"),
        ([["a"], ["a", "b", "a", "b"]], r"or a tuple .*; found a list of 2 sequences"),
        ([0, 4], "where must hold ids of the database; found 4"),
        ([-1], "where must hold ids of the database; found -1"),
        (
            np.ones((2, 4), bool),
            r"found \(2, 4\)\. With a mask for each query, the shape is \(1, 4\)",
        ),
        (([0], [0, 0, 0, 0], [1]), "a tuple of 3"),
        (("unequal", [0], [0, 0, 0, 0]), "a tuple of 3"),
        (("equal", [0]), r"where\[0\] should be a 1d array"),
        (("equal", [0], [0, 0, 0]), r"where\[2\] must hold 4 labels, one per point; found 3"),
        (([0], [0, 0, 0]), r"where\[1\] must hold 4 labels, one per point; found 3"),
        (([0, 0], [0, 0, 0, 0]), r"where\[0\] must hold 1 labels, one per point; found 2"),
        (([np.nan], [0.0, 0, 0, 0]), r"where\[0\] contains NaN"),
        ((["a"], [0, 0, 0, 0]), r"where\[1\]"),
        ([0, 1, 1, 0], "give booleans for a mask"),
    ],
)
def test_what_is_no_filter_is_refused(where, message):
    X = np.arange(4.0)[:, None]
    for search in (mf.Database(X).kneighbors, lambda q, k, **how: mf.kneighbors(q, X, k, **how)):
        with pytest.raises(ValueError, match=message):
            search([[0.0]], 1, where=where)


@pytest.mark.parametrize("kind", ["classes", "continuous", "tags"])
def test_retrieval_judges_each_query_by_what_it_may_find(kind):
    rng = np.random.default_rng(0)
    X, queries = rng.normal(size=(60, 3)), rng.normal(size=(25, 3))
    y, own = rng.integers(0, 3, 60), rng.integers(0, 3, 25)
    if kind == "tags":
        y, own = (rng.uniform(size=(n, 4)) < [0.5, 0.2, 0.2, 0.2] for n in (60, 25))
        own[:, 0] = True
    if kind == "continuous":
        y, own = y + rng.uniform(size=60), own + rng.uniform(size=25)
    cameras, camera = rng.integers(0, 4, 60), rng.integers(0, 5, 25)
    mask, exclude = rng.uniform(size=60) < 0.5, rng.integers(-1, 60, 25)
    pairs = rng.uniform(size=(25, 60)) < 0.5
    for where, allowed in (
        ((camera, cameras), camera[:, None] != cameras),
        (("equal", camera % 4, cameras), camera[:, None] % 4 == cameras),
        (pairs, pairs),
        (mask, np.broadcast_to(mask, (25, 60))),
        (np.flatnonzero(mask), np.broadcast_to(mask, (25, 60))),
    ):
        report = retrieval_report(queries, own, X, y, k=3, where=where, exclude=exclude)
        for i in range(25):
            left = allowed[i] & (np.arange(60) != exclude[i])
            alone = retrieval_report(queries[[i]], own[[i]], X[left], y[left], k=3)
            for name, score in report.items():
                np.testing.assert_allclose(score.values[i], alone[name].values[0])
        assert set(report) == set(alone)


def test_a_person_is_searched_in_other_cameras():
    X, y, cameras = [[0.0], [0.1], [0.3], [0.6]], [0, 0, 1, 0], [1, 1, 2, 2]
    assert precision_at_1(X, y) == pytest.approx(2 / 3)
    report = retrieval_report(X, y, metrics="precision_at_1", where=(cameras, cameras))
    assert report["precision_at_1"].n_undefined == 1  # the only point of its class
    np.testing.assert_array_equal(report["precision_at_1"].values, [0, 0, np.nan, 1])
    np.testing.assert_allclose(report["precision_at_1"].chance, (1 / 2 + 1 / 2 + 1) / 3)
    with pytest.raises(ValueError, match="where must leave a reference to some query"):
        retrieval_report(X, y, where=([1] * 4, [1] * 4))
    with pytest.raises(ValueError, match="k must be at most 2"):
        retrieval_report(X, y, k=3, where=(cameras, cameras))


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])
def test_estimators_take_filters(metric):
    X = np.random.default_rng(0).normal(size=(50, 6))
    knn = mf.NearestNeighbors(metric=metric).fit(X)
    of_all = knn.kneighbors(n_neighbors=49, return_distance=False)
    mask = np.arange(50) % 7 == 0
    masks = np.tile(mask, (50, 1))
    labels = "equal", np.ones(50, int), mask.astype(int)
    distances, indices = knn.kneighbors(n_neighbors=8, where=mask)
    for where in (masks, labels):
        compare(knn.kneighbors(n_neighbors=8, where=where), (distances, indices))
    for row, all_indices in zip(indices, of_all, strict=True):
        left = all_indices[mask[all_indices]]
        np.testing.assert_array_equal(row, np.r_[left, [-1] * (8 - len(left))])
    assert np.isinf(distances[indices < 0]).all() and np.isfinite(distances[indices >= 0]).all()
    with pytest.raises(ValueError, match="where must be None with this metric"):
        mf.NearestNeighbors(metric="manhattan").fit(X).kneighbors(where=mask)
