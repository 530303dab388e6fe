"""The nearest-neighbour estimators as replacements of scikit-learn's."""

import inspect
import pickle
import subprocess
import sys
import warnings
from copy import deepcopy
from datetime import date
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy.sparse import csr_array, csr_matrix, random_array
from sklearn import neighbors as theirs
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, BaggingRegressor
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import KFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import metricfast as mf
from metricfast import neighbors as ours

from .in_place_of_sklearn import NAMES

RNG = np.random.default_rng(0)
IRIS, SPECIES = load_iris(return_X_y=True)
IRIS = IRIS + RNG.normal(size=IRIS.shape) * 1e-3  # no distances are equal
X, Y, QUERIES = IRIS[::2], SPECIES[::2], IRIS[1::2]


def test_the_tests_of_scikit_learn_pass():
    """A selection; the other tests repeat these with more metrics and types."""
    command = [sys.executable, "-m", "tests.in_place_of_sklearn", "-q", "-p", "no:warnings"]
    some = "classif or regressor or graph or precomputed or None or dbscan or isomap or validate"
    chosen = ["-p", "no:xdist", "-k", f"({some}) and not sort_graph and not agnosticity"]
    here = Path(__file__).parents[1]
    run = subprocess.run([*command, *chosen], cwd=here, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert int(run.stdout.split(" passed")[0].split()[-1]) > 200


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_scikit_learn_s(name):
    one, other = getattr(ours, name), getattr(theirs, name)
    found, expected = (inspect.signature(f).parameters.values() for f in (one, other))
    known = [(p.name, p.default, p.kind) for p in found]
    assert known[: len(expected)] == [(p.name, p.default, p.kind) for p in expected]
    if isinstance(one, type):
        assert issubclass(one, other)


HANDED = {
    "manhattan": {"metric": "manhattan"},
    "weighted": {"metric_params": {"w": [1.0, 2.0, 0.5, 3.0]}},
    "p": {"p": 3, "algorithm": "ball_tree", "leaf_size": 5},
    "callable": {"metric": lambda u, v: abs(u - v).max()},
    "correlation": {"metric": "correlation"},
}


@pytest.mark.parametrize("params", HANDED.values(), ids=HANDED)
def test_other_metrics_are_searched_by_scikit_learn(params):
    for name in NAMES[:6]:
        radius = {"radius": 3.0} if "Radius" in name else {}
        found, expected = (
            getattr(m, name)(**deepcopy(params), **radius).fit(X, 1.0 * Y) for m in (ours, theirs)
        )
        for call in ("predict", "predict_proba", "transform"):
            if hasattr(found, call):
                one, other = (getattr(m, call)(QUERIES) for m in (found, expected))
                one, other = (getattr(r, "toarray", lambda r=r: r)() for r in (one, other))
                np.testing.assert_allclose(one, other, err_msg=name)
        if hasattr(found, "loo_score_"):
            assert found.loo_score_ == pytest.approx(expected.score(None, Y))
        assert found._fit_method == expected._fit_method


def test_points_are_added_where_scikit_learn_searches():
    frame = pd.DataFrame(X, columns=list("abcd"))
    forms = [
        (lambda rows: frame.iloc[rows], pd.DataFrame(QUERIES, columns=list("abcd"))),
        (lambda rows: csr_array(X[rows]), csr_matrix(QUERIES)),
    ]
    for form, queries in forms:
        parts = ours.KNeighborsClassifier(metric="manhattan").fit(form(slice(9)), list("abc") * 3)
        parts.partial_fit(
            form(slice(9, 75)), np.resize(["d", "a"], 66), sample_weight=np.arange(1, 67)
        )
        assert parts.classes_.tolist() == list("abcd") and parts.n_samples_fit_ == 75
        whole = theirs.KNeighborsClassifier(metric="manhattan").fit(X, Y)
        parts = pickle.loads(pickle.dumps(parts))
        np.testing.assert_array_equal(parts.kneighbors(queries)[1], whole.kneighbors(QUERIES)[1])
    distances = pairwise_distances(X)
    model = ours.NearestNeighbors(metric="precomputed").fit(distances)
    with pytest.raises(ValueError, match="must be square"):
        model.partial_fit(distances)


def test_sample_weight_counts_under_every_metric():
    weight = RNG.uniform(0.5, 2, len(X))
    model = ours.KNeighborsRegressor(3, metric="manhattan").fit(X, Y, sample_weight=weight)
    near = theirs.NearestNeighbors(metric="manhattan").fit(X).kneighbors(QUERIES, 3)[1]
    expected = (weight[near] * Y[near]).sum(axis=1) / weight[near].sum(axis=1)
    np.testing.assert_allclose(model.predict(QUERIES), expected)


def test_what_is_fitted_is_fitted_to():
    expected = theirs.KNeighborsClassifier().fit(X, Y)
    for given in (theirs.KDTree(X), theirs.BallTree(X), ours.NearestNeighbors().fit(X)):
        model = ours.KNeighborsClassifier().fit(given, Y)
        np.testing.assert_array_equal(model.predict(QUERIES), expected.predict(QUERIES))
    searched = theirs.KNeighborsClassifier().fit(ours.NearestNeighbors().fit(X), Y)
    np.testing.assert_array_equal(searched.predict(QUERIES), expected.predict(QUERIES))


def test_wide_sparse_points_stay_sparse():
    points, queries = (random_array((n, 10**6), density=1e-5, rng=n) for n in (300, 20))
    for metric in ("euclidean", "cosine"):
        found = ours.NearestNeighbors(metric=metric).fit(points[:200]).partial_fit(points[200:])
        expected = theirs.NearestNeighbors(metric=metric).fit(points)
        np.testing.assert_array_equal(found.kneighbors(queries)[1], expected.kneighbors(queries)[1])


def test_distances_are_given():
    distances = pairwise_distances(IRIS)
    for name in NAMES[:2]:
        one = cross_val_score(getattr(ours, name)(metric="precomputed"), distances, SPECIES)
        other = cross_val_score(getattr(theirs, name)(), IRIS, SPECIES)
        np.testing.assert_allclose(one, other)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_cosine(dtype):
    points, queries = (RNG.normal(size=(n, 9)).astype(dtype) for n in (300, 40))
    points[[3, 70]] = queries[5] = 0
    points[9] *= 1e30
    found = ours.NearestNeighbors(metric="cosine").fit(points)
    exact = pairwise_distances(queries.astype("f8"), points.astype("f8"), metric="cosine")
    distances, indices = found.kneighbors(queries, 12)
    rows = np.delete(np.arange(40), 5)  # all except two are equally far from zero
    np.testing.assert_array_equal(indices[rows], exact.argsort(axis=1)[rows, :12])
    atol = 1e-7 if dtype == "f4" else 1e-12
    np.testing.assert_allclose(distances[rows], np.sort(exact)[rows, :12], atol=atol)
    np.testing.assert_array_equal(distances[5, :3], [0, 0, 1])
    inside = exact <= 0.5
    inside[5, [3, 70]] = True
    np.testing.assert_array_equal(found.radius_neighbors_graph(queries, 0.5).toarray(), inside)
    reached = found.radius_neighbors(queries[:1], distances[0, 6], sort_results=True)
    np.testing.assert_array_equal(reached[1][0], indices[0, :7])
    np.testing.assert_array_equal(reached[0][0], distances[0, :7])
    own = pairwise_distances(points.astype("f8"), metric="cosine") + np.diag([9] * 300)
    rows = np.delete(np.arange(300), [3, 70])
    np.testing.assert_array_equal(found.kneighbors()[1][rows], own.argsort(axis=1)[rows, :5])


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_inner_product(scale):
    points, queries = (RNG.normal(size=(n, 9)) for n in (300, 40))
    queries *= scale
    products = queries @ points.T
    model = ours.NearestNeighbors(metric="inner_product").fit(points)
    distances, indices = model.kneighbors(queries, 8)
    np.testing.assert_array_equal(indices, (-products).argsort(axis=1)[:, :8])
    np.testing.assert_allclose(-distances, -np.sort(-products)[:, :8], atol=1e-13 * scale)
    own = points @ points.T
    np.fill_diagonal(own, -np.inf)
    np.testing.assert_array_equal(model.kneighbors()[1], (-own).argsort(axis=1)[:, :5])
    np.testing.assert_allclose(model.kneighbors(np.zeros((1, 9)))[0], 0, atol=1e-13)
    added = model.partial_fit(points[:5] / 2).kneighbors(queries, 8)[1]
    products = np.hstack([products, products[:, :5] / 2])
    np.testing.assert_array_equal(added, (-products).argsort(axis=1)[:, :8])
    longer = model.partial_fit(9 * points).kneighbors(queries, 8)[1]
    products = np.hstack([products, 9 * products[:, :300]])
    np.testing.assert_array_equal(longer, (-products).argsort(axis=1)[:, :8])
    within = model.radius_neighbors_graph(queries, -20 * scale).toarray()
    np.testing.assert_array_equal(within, products >= 20 * scale)
    model = ours.KNeighborsRegressor(weights="distance", metric="inner_product")
    model.fit(points, points[:, 0])
    with pytest.raises(ValueError, match="weights='distance' needs distances from 0"):
        model.predict(queries)


@pytest.mark.parametrize("include_self", [True, False, "auto"])
@pytest.mark.parametrize("mode", ["connectivity", "distance"])
@pytest.mark.parametrize("name", [n for n in NAMES if "graph" in n])
def test_graphs_of_points(name, mode, include_self):
    params = {"mode": mode, "include_self": include_self}
    for given in ({}, {"metric": "manhattan"}, {"metric": "cosine"}):
        search = ours.NearestNeighbors(**given).fit(X)
        expected = getattr(theirs, name)(X, 2, **given, **params).toarray()
        for searched in (X, search):
            found = getattr(ours, name)(searched, 2, **given, **params).toarray()
            np.testing.assert_allclose(found, expected, atol=1e-8)
    lfda = mf.LFDA(n_components=2).fit(X, Y)
    expected = getattr(theirs, name)(lfda.transform(X), 1, **params).toarray()
    found = getattr(ours, name)(X, 1, metric=lfda, **params).toarray()
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_graphs_of_other_estimators_are_refused():
    model = ours.NearestNeighbors(metric="manhattan").fit(X)
    with pytest.raises(ValueError, match="metric must be that of the estimator, 'manhattan'"):
        ours.kneighbors_graph(model, 3)
    learner = mf.TripletLearner(max_epochs=1, judge=None, random_state=0).fit(X, Y)
    model = ours.NearestNeighbors(metric=learner).fit(X)
    with pytest.raises(ValueError, match="an estimator that has embedded points only"):
        ours.NearestNeighbors().fit(model)
    with pytest.raises(ValueError, match="include_self must be False"):
        ours.kneighbors_graph(model, 3, metric=learner, include_self=True)
    assert clone(model).set_params(n_neighbors=None, radius=None).fit(X, Y).kneighbors(X, 2)
    with pytest.raises(ValueError, match="n_neighbors must be an integer of at least 1, got None"):
        model.set_params(n_neighbors=None).kneighbors(X)
    with pytest.raises(ValueError, match="n_neighbors must be an integer of at least 1, got None"):
        ours.KNeighborsTransformer(n_neighbors=None).fit(X)


@pytest.mark.parametrize("kind", ["integers", "dates", "bytes", "datetime64", "text", "booleans"])
def test_scores_of_labels_of_every_type(kind):
    X, codes = IRIS[:100:2], SPECIES[:100:2]
    days = [date(2020, 1, 1), date(2021, 1, 1)]
    known = {
        "integers": np.array([3, 2**70], object),
        "dates": np.array(days, object),
        "bytes": np.array([b"a", b"b"]),
        "datetime64": np.array(days, "datetime64[D]"),
        "text": np.array(["a", "b"]),
        "booleans": np.array([False, True]),
    }[kind]
    y, weight = known[codes], np.arange(50.0)
    wrong = np.where(np.arange(50) < 10, known[1 - codes], y)
    for model in (
        mf.KNeighborsClassifier(3),
        mf.neighbors.RadiusNeighborsClassifier(2.0),
        mf.neighbors.MultiMetricLMNN(3, max_iter=1),
        mf.NCAClassifier(2, periodic=False, max_epochs=20, random_state=0),
    ):
        model.fit(X, y)
        assert model.score(X, y) == 1
        assert model.score(X, wrong, weight) == 1 - weight[:10].sum() / weight.sum()
        assert model.score(X, y[:, None].tolist()) == 1
        with pytest.raises(ValueError, match=r"y must have shape \(50,\)"):
            model.score(X, y[:9])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = cross_val_score(mf.KNeighborsClassifier(3), X, y, cv=KFold(3, shuffle=True))
    np.testing.assert_array_equal(scores, 1)


def whole_vectors():
    """Return integer vectors, and which pairs are within cosine radii, in exact arithmetic."""
    points = np.array([*product((-1, 0, 1, 2), repeat=3)], float)
    points = np.random.default_rng(1).permutation(points[(points != 0).any(axis=1)])
    products, squares = points @ points.T, (points**2).sum(axis=1)
    # cos >= c where sign(products) products² >= sign(c) c² squares
    inside = {
        radius: 4 * np.sign(products) * products**2 >= times * np.outer(squares, squares)
        for radius, times in ((0.0, 4), (0.5, 1), (1.0, 0), (1.5, -1), (2.0, -4))
    }
    return points, inside


def test_points_at_the_radius_of_cosines_are_inside():
    eye = np.eye(5)
    search = ours.NearestNeighbors(metric="cosine").fit(eye)
    assert search.radius_neighbors_graph(eye, 1.0).nnz == 25
    points, inside = whole_vectors()
    rows = np.arange(len(points))
    for scale in (2.0**-560, 2.0**560):
        search = ours.NearestNeighbors(metric="cosine").fit(points * scale)
        for radius, expected in inside.items():
            found = search.radius_neighbors_graph(points, radius)
            np.testing.assert_array_equal(found.toarray(), expected)
            own = search.radius_neighbors(radius=radius, sort_results=True)
            for i, (distances, near) in enumerate(zip(*own, strict=True)):
                assert set(near) == set(rows[expected[i]]) - {i}
                np.testing.assert_array_equal(np.lexsort((near, distances)), np.arange(len(near)))
    for radius, expected in inside.items():
        same = {"metric": "cosine", "mode": "connectivity"}
        graph = ours.radius_neighbors_graph(points, radius, include_self=True, **same)
        np.testing.assert_array_equal(graph.toarray(), expected)
        graph = ours.RadiusNeighborsTransformer(radius=radius, **same).fit_transform(points)
        np.testing.assert_array_equal(graph.toarray(), expected)
        model = ours.RadiusNeighborsRegressor(radius, metric="cosine").fit(points, rows)
        np.testing.assert_allclose(model.predict(points), expected @ rows / expected.sum(axis=1))
        model = ours.RadiusNeighborsClassifier(radius, metric="cosine").fit(points, rows % 3)
        shares = expected @ np.eye(3)[rows % 3] / expected.sum(axis=1)[:, None]
        np.testing.assert_allclose(model.predict_proba(points), shares)


def ranked(keys, k, mask):
    """Return the k smallest keys of each row where the mask is true, padded with index -1."""
    keys = np.where(mask, keys, np.inf)
    order = np.argsort(keys, axis=1, kind="stable")[:, :k]
    keys = np.take_along_axis(keys, order, 1)
    return keys, np.where(np.isinf(keys), -1, order)


@pytest.mark.parametrize("share", [1, 0.4, 0.1])
def test_equal_cosines_and_products_are_in_the_order_of_the_index(share):
    points, _ = whole_vectors()
    points = np.concatenate([points[::2] * 4, points])
    products, squares = points @ points.T, (points**2).sum(axis=1)
    lengths = np.sqrt(np.outer(squares, squares))
    mask = np.random.default_rng(0).uniform(size=products.shape) < share
    where = None if share == 1 else mask
    cosine = ours.NearestNeighbors(metric="cosine").fit(points)
    product = ours.NearestNeighbors(metric="inner_product").fit(points[:40])
    product.partial_fit(points[40:])
    for k in (1, 7, 20):
        found = cosine.kneighbors(points, k, where=where)
        expected = ranked((lengths - products) / lengths, k, mask)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
        queries = np.concatenate([points[:-1], 0 * points[:1]])
        found = product.kneighbors(queries, k, where=where)
        for one, other in zip(found, ranked(-queries @ points.T, k, mask), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("scales", [(1e160, 1), (1e-170, 1), (1e-170, 1e-170), (1e300, 1e300)])
def test_products_of_extreme_numbers(scales):
    rng = np.random.default_rng(0)
    points, queries = rng.normal(size=(400, 5)), rng.normal(size=(60, 5))
    products = queries @ points.T
    order = np.argsort(-products, axis=1)[:, :9]
    search = ours.NearestNeighbors(metric="inner_product").fit(points * scales[1])
    distances, indices = search.kneighbors(queries * scales[0], 9)
    np.testing.assert_array_equal(indices, order)
    with np.errstate(over="ignore"):
        expected = np.take_along_axis(products, order, 1) * scales[0] * scales[1]
    np.testing.assert_allclose(distances, -expected, rtol=1e-12)


@pytest.mark.parametrize("metric", ["cosine", "inner_product"])
def test_copies_are_at_the_same_distance(metric):
    for d in (1, 2, 33, 500):
        points = RNG.normal(size=(30, d)) * RNG.lognormal(size=(30, 1))
        search = ours.NearestNeighbors(n_neighbors=90, metric=metric).fit(np.tile(points, (3, 1)))
        distances, indices = search.kneighbors(points)
        for row, near in zip(distances, indices, strict=True):
            np.testing.assert_array_equal(np.lexsort((near, row)), np.arange(90))
            order = np.argsort(near % 30, kind="stable")
            assert (np.ptp(row[order].reshape(30, 3), axis=1) == 0).all()
        if metric == "cosine":
            assert (distances[:, :3] == 0).all() and (distances <= 2).all()


WEIGHTED = {
    "euclidean": {},
    "cosine": {"metric": "cosine"},
    "inner_product": {"metric": "inner_product"},
    "manhattan": {"metric": "manhattan"},
    "kd_tree": {"p": 3, "algorithm": "kd_tree"},
    "precomputed": {"metric": "precomputed"},
    "matrix": {"metric": ("L", np.diag([1.0, 2, 3, 4]))},
    "learner": {"metric": mf.LFDA(n_components=2)},
    "pipeline": {"metric": make_pipeline(StandardScaler(), mf.LFDA(n_components=2))},
}


@pytest.mark.parametrize("params", WEIGHTED.values(), ids=WEIGHTED)
@pytest.mark.parametrize("name", ["KNeighborsClassifier", "KNeighborsRegressor"])
def test_a_point_of_weight_0_is_not_there(name, params):
    weight = np.random.default_rng(0).poisson(1.0, 75).astype(float)
    rows = np.flatnonzero(weight)
    kind, precomputed = getattr(ours, name), params == WEIGHTED["precomputed"]
    metric = pairwise_distances if precomputed else lambda A, B: A
    if name == "KNeighborsClassifier":
        params = {**params, "class_weight": "balanced"}
    model = kind(4, **deepcopy(params)).fit(metric(X, X), Y, sample_weight=weight)
    right = kind(4, **deepcopy(params)).fit(metric(X[rows], X[rows]), Y[rows], weight[rows])
    assert model.n_samples_fit_ == 75
    assert model.n_features_in_ == metric(X, X).shape[1]

    def compare(model, right, rows, points):
        """Compare a model with a fit to only the given rows."""
        queries, of_rows = metric(QUERIES, points), metric(QUERIES, points[rows])
        for given, expected in ((queries, of_rows), (None, None)):
            distances, indices = model.kneighbors(given)
            found = right.kneighbors(expected)
            np.testing.assert_array_equal(indices, rows[found[1]])
            np.testing.assert_allclose(distances, found[0], rtol=1e-12, atol=1e-12)
            np.testing.assert_array_equal(model.kneighbors(given, 2, False), indices[:, :2])
            for call in ("predict", "predict_proba"):
                if hasattr(model, call):
                    one, other = (
                        getattr(m, call)(x) for m, x in ((model, given), (right, expected))
                    )
                    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
            graph = model.kneighbors_graph(given, mode="distance")
            assert graph.shape == (len(indices), len(points))
            np.testing.assert_array_equal(graph.indices.reshape(indices.shape), indices)
        assert model.loo_score_ == pytest.approx(right.loo_score_)

    compare(model, right, rows, X)
    compare(pickle.loads(pickle.dumps(model)), right, rows, X)
    with pytest.raises(ValueError, match=f"n_neighbors must be at most {len(rows)}"):
        model.kneighbors(metric(QUERIES, X), len(rows) + 1)
    if not (params.get("metric") == "manhattan" or "p" in params):  # in trees of scikit-learn
        trusted = mf.io.trusted_types()
        compare(skops.io.loads(skops.io.dumps(model), trusted=trusted), right, rows, X)
    if precomputed:
        return
    added = np.r_[0.0, 2, 0, 1, 1]
    new = 0.98 * X[:7]
    parts = deepcopy(model).partial_fit(new[:5], Y[:5], sample_weight=added)
    parts.partial_fit(new[5:], Y[5:7])
    more = right.partial_fit(new[[1, 3, 4]], Y[[1, 3, 4]], sample_weight=added[added > 0])
    more.partial_fit(new[5:], Y[5:7])
    rows = np.r_[rows, 76, 78, 79, 80, 81]
    compare(parts, more, rows, np.concatenate([X, new]))
    if params.get("metric") == "manhattan" or "p" in params:
        return
    mask = np.arange(82) % 3 == 0
    labels = np.arange(75) % 2, np.arange(82) % 2
    for where, left in ((mask, mask), (labels, labels[0][:, None] != labels[1])):
        near = parts.kneighbors(QUERIES, 5, where=where)[1]
        every = parts.kneighbors(QUERIES, len(rows))[1]
        allowed = np.broadcast_to(left, (75, 82))
        for i in range(75):
            np.testing.assert_array_equal(near[i], every[i][allowed[i, every[i]]][:5])


def test_points_of_weight_0_of_other_forms():
    weight = np.arange(75) % 3 * 1.0
    right = ours.KNeighborsClassifier(3).fit(X[weight > 0], Y[weight > 0], weight[weight > 0])
    expected = right.predict(QUERIES)
    frame = pd.DataFrame(X, columns=list("abcd"))
    for points in (X.tolist(), csr_array(X), frame):
        model = ours.KNeighborsClassifier(3).fit(points, Y, sample_weight=weight)
        queries = QUERIES if points is not frame else pd.DataFrame(QUERIES, columns=list("abcd"))
        np.testing.assert_array_equal(model.predict(queries), expected)
    both = np.c_[Y, Y == 1]
    model = ours.KNeighborsClassifier(3).fit(X, both, sample_weight=weight)
    np.testing.assert_array_equal(model.predict(QUERIES)[:, 0], expected)
    # A class of weight 0 remains in `classes_`, but is never predicted.
    model = ours.KNeighborsClassifier(3, class_weight={0: 0}).fit(X, Y)
    others = ours.KNeighborsClassifier(3).fit(X[Y > 0], Y[Y > 0])
    np.testing.assert_array_equal(model.predict(QUERIES), others.predict(QUERIES))
    assert model.classes_.tolist() == [0, 1, 2] and (model.predict_proba(QUERIES)[:, 0] == 0).all()
    with pytest.raises(ValueError, match="sample_weight must be above 0 where X is a tree"):
        ours.KNeighborsClassifier().fit(theirs.KDTree(X), Y, sample_weight=weight)


@pytest.mark.parametrize("params", [{}, {"metric": "manhattan"}, {"metric": "cosine"}])
def test_meta_estimators_hand_in_weights_and_classes(params):
    scores = {
        "bagging": BaggingClassifier(ours.KNeighborsClassifier(3, **params), random_state=0),
        "boosting": AdaBoostClassifier(ours.KNeighborsClassifier(3, **params), n_estimators=3),
        "radius": BaggingClassifier(
            ours.RadiusNeighborsClassifier(9.0, **params), 3, random_state=0
        ),
        "calibrated": CalibratedClassifierCV(ours.KNeighborsClassifier(3, **params)),
        "one against the rest": OneVsRestClassifier(ours.KNeighborsClassifier(3, **params)),
        "several outputs": MultiOutputClassifier(ours.KNeighborsClassifier(3, **params)),
    }
    for model in scores.values():
        y = Y if not isinstance(model, MultiOutputClassifier) else Y[:, None]
        assert np.isfinite(model.fit(IRIS[::2], y).predict_proba(QUERIES)).all()
    assert cross_val_score(scores["bagging"], IRIS, SPECIES).mean() > 0.9
    means = BaggingRegressor(ours.KNeighborsRegressor(3, **params), random_state=0)
    assert cross_val_score(means, IRIS[:, :3], IRIS[:, 3], cv=KFold(3, shuffle=True)).min() > 0.8
    chain = MultiOutputClassifier(ours.KNeighborsClassifier(3, **params))
    both = np.c_[Y, Y == 1]
    chain.partial_fit(
        X[:40], both[:40], classes=[[0, 1, 2], [0, 1]], sample_weight=np.arange(40) % 2
    )
    chain.partial_fit(X[40:], both[40:])
    assert chain.predict(QUERIES).shape == (75, 2)
