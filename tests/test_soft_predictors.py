"""Predictors with soft votes under learned maps, and their components."""

from __future__ import annotations

import pickle
import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn
from registry import unequal
from scipy.sparse import csr_matrix
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import metricfast as mf
from metricfast.embeddings import Linear, Periodic
from metricfast.predictors import soft_base
from metricfast.predictors.relevance import shares_of_columns
from metricfast.predictors.soft_training import _FACTORS, plan, sharpness
from metricfast.predictors.soft_votes import SoftVotes
from metricfast.predictors.tables import NormalScores, Table
from metricfast.selection import Judge

RNG = np.random.default_rng(0)
IRIS, SPECIES = X, Y = load_iris(return_X_y=True)
QUICK = {
    "n_components": 4,
    "n_frequencies": 2,
    "n_embedding": 3,
    "max_epochs": 3,
    "n_estimators": 1,
    "random_state": 0,
}
KINDS = [mf.NCAClassifier, mf.NCARegressor]
DRAWN = "repeated points are drawn, and held out, one by one"
every_kind = pytest.mark.parametrize("kind", KINDS)


def encode(table, **params):
    estimator = mf.NCAClassifier(**params)
    return Table(estimator, table), estimator


@pytest.mark.parametrize("package", ["numpy", "pandas", "polars"])
def test_tables_are_encoded(package):
    columns = {
        "a": np.array([1.0, 2.0, np.nan, 5.0]),
        "color": np.array(["red", None, "blue", "red"], dtype=object),
        "b": np.array([4.0, 4.0, 4.0, 4.0]),
        "c": np.array([-1e300, 1e300, -1e300, 1e300]),
    }
    new = {"a": [np.nan, 4.0], "color": ["green", None], "b": [np.nan, 5.0], "c": [1e300, 0.0]}
    params = {}
    if package == "numpy":
        given, queries = (np.array(list(t.values()), dtype=object).T for t in (columns, new))
        params = {"categorical_features": [1]}
    elif package == "pandas":
        pd = pytest.importorskip("pandas")
        given, queries = (pd.DataFrame(t).astype({"color": "category"}) for t in (columns, new))
    else:
        pl = pytest.importorskip("polars")
        given, queries = (
            pl.DataFrame(t, schema_overrides={"color": pl.Categorical}) for t in (columns, new)
        )
        given = given.with_columns(pl.col("a").fill_nan(None))
    table, estimator = encode(given, **params)
    assert table.categorical.tolist() == [False, True, False, False]
    s = np.sqrt(26) / 3  # standard deviation of 1, 2 and 5
    standard = [(1 - 8 / 3) / s, (2 - 8 / 3) / s, 0, (5 - 8 / 3) / s]
    expected = np.column_stack(
        [
            standard,
            np.zeros(4),
            [-1, 1, -1, 1],
            [0, 0, 1, 0],
            [0, 0, 1, 0],
            [1, 0, 0, 1],
            [0, 1, 0, 0],
        ]
    )
    np.testing.assert_allclose(table.encoded(estimator, given), expected, rtol=1e-6)
    found = table.encoded(estimator, queries)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0], [0, 0, 1, 1, 0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(found[1, 3:], [0, 0, 0, 1])
    assert table.n_indicators == 6
    assert table.origin.tolist() == [0, 2, 3, 0, 1, 1, 1]


def test_columns_of_categories_are_said_as_in_gradient_boosting():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2, 3, 4], "b": ["x", "y", "x", "y"], "c": [5.0, 6.0, 7.0, 8.0]})
    for said in ([1], ["b"], [False, True, False]):
        table, estimator = encode(frame, categorical_features=said)
        assert table.categorical.tolist() == [False, True, False]
        assert estimator.feature_names_in_.tolist() == ["a", "b", "c"]
    assert not encode(frame[["a", "c"]], categorical_features=None)[0].categorical.any()
    for said, message in [
        ("from_dtype", "holds text in its column 'b'"),
        (["z"], "categorical_features names 'z'"),
        ([True], "must be a mask of 3 columns"),
        ([3], "or indices from 0 to 2"),
        (1.5, "categorical_features must be"),
        ([0.5], "categorical_features must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            encode(frame, categorical_features=said)
    with pytest.raises(ValueError, match="contains infinity"):
        encode(np.array([[np.inf], [1.0]]))


def test_rare_categories_share_an_indicator():
    names = np.array([f"{i:03d}" for i in np.r_[np.arange(300), np.arange(200, 253)]], object)
    names[:3] = None
    table, estimator = encode(names[:, None], categorical_features=[0])
    found = table.encoded(estimator, np.array([["new"], ["003"], ["200"], [None]], object))
    assert found.shape == (4, 255) and table.origin.tolist() == [0] * 255
    shared, place = np.eye(255)[[-1, 253]]  # the last in order of the frequent ones is None
    np.testing.assert_array_equal(found[[0, 1, 3]], [shared, shared, place])
    assert found[2, :254].sum() == 1
    few, estimator = encode(names[:9, None], categorical_features=[0])
    assert not few.encoded(estimator, np.array([["new"]], object)).any()


@pytest.mark.parametrize(
    ("column", "found"), [(["a", 1], r"\['int', 'str'\]"), ([["a"], 1], r"\['int', 'list'\]")]
)
def test_categories_of_a_column_are_of_one_type(column, found):
    given = np.empty((2, 1), object)
    given[:, 0] = column
    with pytest.raises(TypeError, match=f"of one type in a column; found {found}"):
        encode(given, categorical_features=[0])
    table, estimator = encode(np.array([["a"], ["b"]], object), categorical_features=[0])
    assert table.encoded(estimator, np.array([["a"], [1]], object)).sum() == 1
    given[:, 0] = ["a", ["b"]]
    with pytest.raises(TypeError, match="found unhashable type: 'list'"):
        table.encoded(estimator, given)


def test_normal_scores_are_quantiles_of_ranks():
    numbers = np.array([[-5.0], [0.0], [0.0], [1e6]])
    scores = NormalScores(numbers)
    quantiles = norm.ppf([1 / 8, 1 / 2, 1 / 2, 7 / 8])
    found = scores.of(numbers)
    np.testing.assert_allclose(found[:, 0], quantiles / quantiles.std(), atol=1e-15)
    new = scores.of(np.array([[-9], [-2.5], [1e7], [np.nan]]))[:, 0]
    np.testing.assert_allclose(new, [found[0, 0], found[0, 0] / 2, found[3, 0], 0], rtol=1e-15)
    repeated = NormalScores(np.repeat(numbers, [2, 1, 3, 1], axis=0))
    weighted = NormalScores(numbers, np.array([2.0, 1.0, 3.0, 1.0]))
    np.testing.assert_allclose(repeated.of(numbers), weighted.of(numbers), rtol=1e-15)
    exact = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    many = np.exp(exact)[:, None]
    found = NormalScores(many).of(many)[:, 0]
    np.testing.assert_allclose(found[20:-20], exact[20:-20], atol=0.01)  # between 1,024 grid points


def test_numbers_beside_an_outlier_have_their_own_scores():
    numbers = np.arange(20.0)[:, None]
    table, estimator = encode(numbers)
    expected = table.encoded(estimator, numbers, table.scores(estimator, numbers, None))
    numbers[-1], missing = 1e20, np.array([[np.nan]])
    table, estimator = encode(numbers)
    scores = table.scores(estimator, numbers, None)
    np.testing.assert_array_equal(table.encoded(estimator, numbers, scores), expected)
    assert table.encoded(estimator, missing, scores)[0, 0] == 0


@pytest.mark.parametrize(("kind", "weighted"), [(mf.NCAClassifier, True), (mf.NCARegressor, False)])
def test_held_out_points_choose_normal_scores(kind, weighted):
    rng = np.random.default_rng(0)
    X = np.exp(4 * rng.normal(size=(600, 2)))
    y = np.log(X).sum(axis=1)
    y = y > 0 if kind is mf.NCAClassifier else y
    weight = rng.integers(3, size=600) if weighted else None
    params = {"periodic": False, "max_epochs": 40, "n_estimators": 1, "random_state": 0}
    plain = kind(**params).fit(X, y, weight)
    chosen = kind(**params | {"periodic": "auto", "scale": 0.1}).fit(X, y, weight)
    assert chosen.judgement_.name.endswith("normal scores")
    new = np.exp(4 * rng.normal(size=(600, 2)))
    known = np.log(new).sum(axis=1)
    known = known > 0 if kind is mf.NCAClassifier else known
    assert 1 - chosen.score(new, known) < (1 - plain.score(new, known)) / 2
    copy = pickle.loads(pickle.dumps(chosen))
    np.testing.assert_array_equal(copy.predict(new), chosen.predict(new))
    rows = slice(None) if weight is None else weight > 0
    np.testing.assert_allclose(chosen.transform(X)[rows], chosen._queries(None)[0][0], atol=1e-4)


def test_no_periodic_features_of_thousands_of_columns_are_tried():
    model = mf.NCAClassifier()
    assert len(model._choices(100, 1000, 0)) == 4
    assert list(model._choices(100, 1001, 0)) == ["linear map"]
    assert len(mf.NCAClassifier(periodic=True)._choices(100, 1001, 0)) == 3
    assert list(mf.NCARegressor()._choices(4000, 1001, 0)) == ["linear map", "perceptron"]


def softmax_shares(queries, Z, weight, exclude):
    """Yield the shares of all points in the vote of each query, in float64."""
    for query, left_out in zip(queries.astype(float), exclude, strict=True):
        logits = -np.linalg.norm(query - Z, axis=1) + (0 if weight is None else np.log(weight))
        if left_out >= 0:
            logits[left_out] = -np.inf
        share = np.exp(logits - logits.max())
        yield share / share.sum()


VOTES = {
    "near and far": (42, 1300, 3, 1.0, 0.0),
    "spread out": (42, 1300, 64, 30.0, 0.0),
    "off centre": (100, 700, 16, 10.0, 1e3),
    "tiny": (5, 33, 2, 1e-20, 0.0),
    "two points": (30, 2, 5, 1.0, 0.0),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", VOTES)
def test_soft_votes_are_the_softmax_of_all_points(case, weighted):
    n, m, p, spread, offset = VOTES[case]
    rng = np.random.default_rng(1)
    Z = (spread * rng.normal(size=(m, p)) + offset).astype(np.float32)
    Z[: m // 3] = Z[m // 2 : m // 2 + m // 3]
    queries = (spread * rng.normal(size=(n, p)) + offset).astype(np.float32)
    queries[: min(n, m) // 2] = Z[: min(n, m) // 2]
    queries[-1] *= 1e4
    weight = rng.uniform(0.1, 3, m) if weighted else None
    exclude = np.where(np.arange(n) % 3 == 0, -1, np.arange(n) % m)
    share = np.array(list(softmax_shares(queries, Z, weight, exclude)))
    votes = SoftVotes(Z, weight)
    for outputs in (1, 26):
        values = rng.uniform(-1, 1, size=(m, outputs))
        for precision, error in ((np.float64, 1e-8), (np.float32, 1e-3)):
            given = values.astype(precision)
            one, two = (votes.means(given, queries, exclude, n_jobs) for n_jobs in (1, 2))
            np.testing.assert_array_equal(one, two)
            near = slice(None) if precision is np.float64 else slice(-1)  # logits have its digits
            np.testing.assert_allclose(one[near], (share @ values)[near], atol=error)
    found = np.full((n, m), np.nan)
    for rows, some in votes.shares(queries, exclude):
        found[rows] = some.toarray()
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(found, share, atol=2e-4)
    assert (np.abs(found - share).sum(axis=1) < 1e-3).all()


def test_shares_of_near_points_are_found_by_a_search():
    Z = RNG.normal(size=(3000, 3)) * 300
    votes = SoftVotes(Z)
    sizes = [each.getnnz(axis=1) for _, each in votes.shares(Z[:200])]
    assert np.concatenate(sizes).max() < 1000


def test_a_classifier_predicts_by_the_votes_it_tells():
    order = np.random.RandomState(0).permutation(150)
    X, Y = IRIS[order], SPECIES[order]
    weight = np.where(np.arange(150) < 100, 1 + np.arange(150) % 2, 0)
    model = mf.NCAClassifier(**(QUICK | {"n_estimators": 2})).fit(X, Y, sample_weight=weight)
    again = clone(model).fit(X[:100], Y[:100], sample_weight=weight[:100])
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    votes = model.votes(X)
    assert votes.shape == (150, 150)
    assert votes[:, 100:].nnz == 0
    share = np.asarray(votes @ np.eye(3)[Y])
    prior = np.bincount(Y, weight) / 150
    np.testing.assert_allclose(model.predict_proba(X), (share + prior / 100) / 1.01, atol=1e-6)
    np.testing.assert_array_equal(model.predict(X), share.argmax(axis=1))
    Z = model.transform(X).astype(float)
    logits = [
        np.exp(-np.linalg.norm(part[:, None] - part[:100], axis=2)) * weight[:100]
        for part in (Z[:, :4], Z[:, 4:])
    ]
    expected = np.mean([each / each.sum(axis=1, keepdims=True) for each in logits], axis=0)
    np.testing.assert_allclose(votes[:, :100].toarray(), expected, atol=1e-3)
    distances, indices = model.kneighbors(X[:3], 4)
    brute = np.linalg.norm(Z[:3, None] - Z[:100], axis=2)
    np.testing.assert_allclose(distances, np.sort(brute, axis=1)[:, :4], atol=1e-4)
    assert indices.max() < 100
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(("kind", "n_estimators"), [(mf.NCAClassifier, 1), (mf.NCARegressor, 2)])
def test_relevant_columns_come_first(kind, n_estimators):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(600, 10)), columns=list("abcdefghij"))
    X["c"] = pd.Categorical(rng.choice(["x", "y", "z"], 600))  # relevant
    X["d"] = pd.Categorical(rng.choice(["x", "y", "z"], 600))  # not relevant
    X.loc[::5, "h"] = np.nan  # relevant
    y = X["h"].fillna(1) + (2.0 * (X["c"] == "x") - 1) * X["j"]
    model = kind(scale=0.1, n_components=8, n_estimators=n_estimators, random_state=1)
    with pytest.raises(NotFittedError):
        _ = model.relevance_
    model.fit(X, y > 0.3 if kind is mf.NCAClassifier else y)
    shares = pd.Series(model.relevance_, model.feature_names_in_).sort_values(ascending=False)
    assert set(shares.index[:3]) == set("chj")
    assert shares.iloc[2] > 2 * shares.iloc[3]
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)


def test_relevance_of_linear_maps_is_that_of_their_columns():
    rng = np.random.default_rng(0)
    E = rng.normal(size=(3000, 4)) * [1, 2, 3, 0]
    E[rng.random(3000) < 0.5] *= 2  # most distances are among these, if they alone have a weight
    maps = [rng.normal(size=(5, 4)), rng.normal(size=(2, 4))]
    origin = np.array([2, 0, 0, 1])

    for weight in (None, (np.arange(3000) % 2).astype(float)):
        expected = []
        for L in maps:
            parts = [
                np.cov(E[:, columns] @ L[:, columns].T, rowvar=False, aweights=weight).trace()
                for columns in (origin == 0, origin == 1, origin == 2)
            ]
            expected.append(parts / np.sum(parts))
        found = shares_of_columns(Linear(), [[L] for L in maps], E, origin, weight)
        np.testing.assert_allclose(found, np.mean(expected, axis=0), rtol=0.1)
    still = shares_of_columns(Linear(), [[L] for L in maps], np.ones((5, 4)), origin, None)
    np.testing.assert_allclose(still, 1 / 3)


def test_relevance_of_periodic_maps_is_how_far_whole_points_move():
    rng = np.random.default_rng(0)
    E = np.concatenate([rng.normal(size=(200, 3)), rng.integers(2, size=(200, 3))], axis=1)
    embedding = Periodic(5, n_frequencies=4, n_embedding=3, n_passthrough=3)
    maps = [embedding.initialize(E, random_state=seed) for seed in range(2)]
    origin = np.array([1, 3, 0, 1, 2, 2])  # feature of each column, including indicators
    rows, others = np.random.RandomState(0).choice(200, size=(2, 1024))
    expected = []
    for arrays in maps:
        moved = []
        for j in range(4):
            ends = np.where(origin == j, E[others], E[rows])
            start, end = (embedding.forward(arrays, points)[0] for points in (E[rows], ends))
            moved.append(((end - start) ** 2).sum())
        expected.append(moved / np.sum(moved))
    found = shares_of_columns(embedding, maps, E, origin, None)
    np.testing.assert_allclose(found, np.mean(expected, axis=0), rtol=1e-9)


@every_kind
def test_points_of_fit_do_not_predict_themselves(kind):
    model = kind(**QUICK).fit(X, Y)
    assert model.votes().diagonal().max() == 0
    assert (model.kneighbors(return_distance=False) != np.arange(150)[:, None]).all()
    assert model.predict(None).shape == (150,)


def test_maps_are_learned_and_chosen():
    wine, cultivar = load_wine(return_X_y=True)
    model = mf.NCAClassifier(periodic=False, random_state=0).fit(wine[::2], cultivar[::2])
    assert model.score(wine[1::2], cultivar[1::2]) > 0.95
    logistic = make_pipeline(StandardScaler(), LogisticRegression()).fit(wine[::2], cultivar[::2])
    known = log_loss(cultivar[1::2], logistic.predict_proba(wine[1::2]))
    assert log_loss(cultivar[1::2], model.predict_proba(wine[1::2])) < 3 * known
    assert model.judgement_.names == ["linear map"]
    waves = RNG.uniform(-2, 2, size=(400, 2))
    values = np.sin(9 * waves[:, 0])
    model = mf.NCARegressor(n_components=8, max_epochs=40, random_state=0)
    model.fit(waves[:300], values[:300])
    embeddings = ["linear map", *(f"periodic, scale {s}" for s in (0.03, 0.3, 1))]
    judgement = model.judgement_
    assert judgement.names == [*embeddings, *(f"{e}, normal scores" for e in embeddings)]
    assert isinstance(model.embedding_, mf.embeddings.Periodic)
    assert judgement.costs[0] > judgement.costs.min() == judgement.costs[judgement.chosen]
    assert model.score(waves[300:], values[300:]) > 0.9


def turning_products():
    """Return points and a smooth, non-additive target: the sum of products of adjacent features."""
    X = np.random.default_rng(0).normal(size=(1100, 6))
    return X, (X * np.roll(X, 1, axis=1)).sum(axis=1)


FAST = {"n_components": 8, "batch_size": 32, "max_epochs": 30, "n_estimators": 1, "random_state": 0}


def test_a_perceptron_predicts_smooth_functions():
    X, y = turning_products()
    model = mf.NCARegressor(hidden=(32, 32), **FAST).fit(X[:800], y[:800])
    assert model.judgement_.name == "perceptron"
    assert model.score(X[800:], y[800:]) > 0.8
    threads = clone(model).set_params(n_jobs=2).fit(X[:800], y[:800])
    copy = pickle.loads(pickle.dumps(threads))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    short = clone(model).set_params(hidden=8, time_limit=1e-9, n_estimators="auto").fit(X, y)
    assert [len(costs) for costs in short.validation_costs_] == [1] * 5
    assert np.isfinite(short.oof_prediction_).all()


@pytest.mark.parametrize("noisy", [False, True])
def test_held_out_points_choose_a_perceptron(monkeypatch, noisy):
    monkeypatch.setattr(soft_base, "_ENOUGH", 300)
    monkeypatch.setattr(soft_base, "_HIDDEN", (32, 32))
    X, y = turning_products()
    y = np.random.default_rng(1).normal(size=len(y)) if noisy else y
    model = mf.NCARegressor(periodic=False, **FAST).fit(X[:300], y[:300])
    plain = mf.NCARegressor(periodic=False, hidden=None, **FAST).fit(X[:300], y[:300])
    assert model.judgement_.names == ["linear map", "linear map, normal scores", "perceptron"]
    assert isinstance(model.embedding_, mf.embeddings.MLP) != noisy
    assert model.score(X[300:], y[300:]) >= plain.score(X[300:], y[300:])
    np.testing.assert_allclose(model.transform(X[:300]), model._queries(None)[0][0], atol=1e-4)


def test_several_outputs_and_several_labels():
    names = np.array(list("abc"))[Y]
    both = np.column_stack([names, np.where(X[:, 0] > 5.8, "long", "short")])
    model = mf.NCAClassifier(**QUICK).fit(X, both)
    assert [known.tolist() for known in model.classes_] == [["a", "b", "c"], ["long", "short"]]
    assert [share.shape for share in model.predict_proba(X)] == [(150, 3), (150, 2)]
    assert (model.predict(X) == both).mean() > 0.6
    labels = np.eye(3, dtype=int)[Y] | (X[:, :3] > X[:, :3].mean(axis=0))
    for given, error in (((), TypeError), ("even", ValueError)):
        with pytest.raises(error, match="class_weight must be"):
            mf.NCAClassifier(class_weight=given).fit(IRIS, SPECIES)
    many = mf.NCAClassifier(**QUICK, class_weight="balanced").fit(X, labels)
    assert many.predict(X).shape == labels.shape
    assert 0 <= many.score(X, labels) <= 1
    sparse = mf.NCAClassifier(**QUICK, class_weight="balanced").fit(X, csr_matrix(labels))
    np.testing.assert_array_equal(sparse.predict(X), many.predict(X))
    values = np.column_stack([X[:, 3], 1e6 * X[:, 2], np.full(150, 7.0)])
    regressor = mf.NCARegressor(**QUICK).fit(X[:, :2], values)
    predicted = regressor.predict(X[:, :2])
    np.testing.assert_allclose(predicted[:, 2], 7)
    assert regressor.predict(X[:1, :2]).shape == (1, 3)
    assert predicted[:, 1].max() <= values[:, 1].max()


@every_kind
@pytest.mark.parametrize("bad", [{"n_components": 0}, {"y": np.ones(150)}, {"weight": -Y}])
def test_a_fit_that_fails_leaves_no_model(kind, bad):
    model = kind(**QUICK, scale=0.3).fit(X, Y)
    model.set_params(n_components=bad.get("n_components", 4))
    with pytest.raises(ValueError, match=r"n_components|must hold|constant|sample_weight"):
        model.fit(X, bad.get("y", Y + 5), sample_weight=bad.get("weight"))
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_weights_count_in_the_choice_of_an_embedding():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(1200, 2))
    waves = np.sin(6 * points[:, 0]) > 0
    waves[400:] ^= True  # their weight is tiny
    weight = np.where(np.arange(1200) < 400, 1, 1e-6)
    params = {"scale": 1.0, "n_estimators": 1, "max_epochs": 15, "random_state": 0}
    model = mf.NCAClassifier(**params).fit(points, waves, weight)
    assert isinstance(model.embedding_, Periodic)
    assert model.judgement_.costs[1] < 0.1 < model.judgement_.costs[0]


@every_kind
def test_weights_are_relative_to_one_another(kind):
    weight = np.random.default_rng(0).uniform(0.1, 1, len(X))
    once, more = (kind(**QUICK).fit(X, Y, sample_weight=c * weight) for c in (1.0, 7.0))
    np.testing.assert_allclose(more.transform(X), once.transform(X), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(more.predict(X), once.predict(X), rtol=1e-4)


def test_weights_of_classes_are_weights_of_their_points():
    given = {0: 1.0, 1: 3.0, 2: 0.5}
    by_class = mf.NCAClassifier(**QUICK, class_weight=given).fit(X, Y)
    by_point = mf.NCAClassifier(**QUICK).fit(X, Y, sample_weight=[given[label] for label in Y])
    np.testing.assert_array_equal(by_class.predict_proba(X), by_point.predict_proba(X))
    plain = mf.NCAClassifier(**QUICK).fit(X, Y)
    assert not np.allclose(plain.predict_proba(X), by_class.predict_proba(X))
    with sklearn.config_context(enable_metadata_routing=True):
        model = mf.NCAClassifier(**QUICK).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        routed = make_pipeline(scaler, model)
        routed.fit(X, Y, sample_weight=[given[label] for label in Y])
    assert (routed.predict(X) == by_point.predict(X)).mean() > 0.95


def test_batches_are_bounded():
    X = np.random.default_rng(0).normal(size=(6000, 3))
    model = mf.NCARegressor(**QUICK | {"max_epochs": 2, "scale": 0.3}).fit(X, X[:, 0])
    assert model.judgement_.names[:2] == ["linear map", "periodic, scale 0.3"]
    assert model.score(X, X[:, 0]) > 0.6
    model = mf.NCARegressor()
    for n, anchors, candidates in (
        (300, 150, 75), (2000, 250, 875), (6000, 750, 2625), (50_000, 1020, 4096)
    ):  # fmt: skip
        solver, drawn = plan(model, mf.embeddings.Linear(2), n)
        objective = SimpleNamespace(X=np.empty((n, 1)))
        batches = list(drawn(objective, np.random.RandomState(0), solver.batch_size)())
        assert {len(batch.rows) for batch in batches} <= {
            size + count
            for size in (anchors, anchors + 1)
            for count in range(candidates - 1, candidates + 1)
        }
        own = np.concatenate([batch.rows[: batch.n_anchors] for batch in batches])
        np.testing.assert_array_equal(np.sort(own), np.arange(n))
        assert all(len(np.unique(batch.rows)) == len(batch.rows) for batch in batches)


@every_kind
def test_each_point_is_held_out_by_one_of_five_maps(kind):
    params = {name: value for name, value in QUICK.items() if name != "n_estimators"}
    model = kind(**params, scale=0.3).fit(X, Y)
    assert len(model.parameters_) == 5
    assert model.transform(X).shape == (150, 20)
    assert model.score(X, Y) > 0.5
    few = kind(**params, periodic=False).fit(IRIS[48:53], SPECIES[48:53])
    assert len(few.parameters_) == 5


def test_equal_rows_are_held_out_apart():
    """Otherwise rows of the other class would predict them."""
    rng = np.random.default_rng(0)
    points = np.repeat([[0.0], [1.0]], 400, axis=0)
    share = np.where(points[:, 0] > 0, 0.8, 0.3)
    model = mf.NCAClassifier(n_components=2, max_epochs=20, random_state=0)
    model.fit(points, rng.random(800) < share)
    np.testing.assert_allclose(model.oof_prediction_[:, 1], share, atol=0.1)


@every_kind
def test_out_of_fold_predictions_do_not_see_their_points(kind):
    params = {name: value for name, value in QUICK.items() if name != "n_estimators"}
    rng = np.random.default_rng(0)
    points, noise = rng.normal(size=(300, 3)), rng.integers(2, size=300)
    weight = np.r_[0.0, np.ones(299)]
    model = kind(**params | {"max_epochs": 20}, scale=0.3).fit(points, noise, weight)
    found = model.oof_prediction_
    assert np.isnan(found[0]).all() and np.isfinite(found[1:]).all()
    guess = found.argmax(axis=1) if kind is mf.NCAClassifier else found > 0.5
    assert abs(np.mean(guess[1:] == noise[1:]) - 0.5) < 0.1  # 3 deviations
    signal = kind(**params | {"max_epochs": 20}, scale=0.3).fit(points, points[:, 0] > 0)
    found = signal.oof_prediction_
    guess = found.argmax(axis=1) if kind is mf.NCAClassifier else found > 0.5
    assert np.mean(guess == (points[:, 0] > 0)) > 0.9
    assert not hasattr(kind(**QUICK).fit(X, Y), "oof_prediction_")


@every_kind
def test_a_time_limit_ends_training(kind):
    params = {name: value for name, value in QUICK.items() if name != "n_estimators"}
    model = kind(**params, time_limit=1e-9).fit(X, Y)
    assert [len(costs) for costs in model.validation_costs_] == [1] * 5
    assert np.isfinite(model.predict(X)).all()
    unlimited = kind(**QUICK, scale=0.3).fit(X, Y)
    limited = kind(**QUICK, scale=0.3, time_limit=1e6).fit(X, Y)
    np.testing.assert_array_equal(limited.transform(X), unlimited.transform(X))


def test_held_out_points_choose_how_sharp_votes_are():
    def trained(n, turns):
        costs = abs(np.log2(_FACTORS) - turns)
        task = SimpleNamespace(n_confirming=500)
        return SimpleNamespace(held_out=np.arange(n), task=task, costs_of_factors=lambda: costs)

    assert sharpness([trained(400, 1)]) == 1
    assert sharpness([trained(400, 1), trained(200, -1)]) == 2


def test_columns_of_two_numbers_have_no_periodic_features():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(2, size=200) * 7.0, rng.normal(size=200)])
    y = (X[:, 0] > 0) ^ (X[:, 1] > 0)
    model = mf.NCAClassifier(**QUICK | {"max_epochs": 30}, periodic=True, scale=0.3).fit(X, y)
    assert model.embedding_.n_passthrough == 1
    assert [len(array) for array in model.parameters_[0]] == [1, 3, 3, 4]
    assert model.score(X, y) > 0.9
    only = mf.NCAClassifier(**QUICK, periodic=True).fit(X[:, :1], y)
    assert isinstance(only.embedding_, mf.embeddings.Linear)


def test_without_a_judge_all_points_are_trained_on():
    model = mf.NCAClassifier(**QUICK, judge=None).fit(X, Y)
    assert isinstance(model.embedding_, Linear) and not hasattr(model, "judgement_")
    assert [len(costs) for costs in model.validation_costs_] == [3]
    fixed = {"periodic": True, "scale": 0.1, "judge": None}
    few = mf.NCAClassifier(**QUICK, **fixed).fit([[0.0], [0.1], [1.0], [1.1]], list("aabb"))
    assert few.predict([[0.1], [0.9]]).tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"periodic": "yes"}, "periodic must be 'auto', True or False"),
        ({"scale": 0}, "scale must be"),
        ({"candidate_fraction": 1.5}, "candidate_fraction must"),
        ({"solver": "lbfgs"}, "solver must be"),
        ({"n_estimators": 0}, "n_estimators must be"),
        ({"judge": 0.99}, "judge must be"),
        ({"judge": Judge(unit="classes")}, "unit of the judge must be 'auto' or 'points'"),
        ({"judge": Judge(unit="groups")}, "unit of the judge must be 'auto' or 'points'"),
        ({"learning_rate": -1}, "learning_rate must be"),
        ({"time_limit": 0}, "time_limit must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
@every_kind
def test_wrong_parameters(kind, params, message):
    with pytest.raises((ValueError, TypeError), match=message):
        kind(**QUICK | params).fit(X[:40], Y[:40] + np.arange(40) % 2)


@pytest.mark.parametrize("hidden", [0, (8, 0), (), "big", 1.5])
def test_wrong_hidden_layers(hidden):
    with pytest.raises((ValueError, TypeError), match="hidden must be"):
        mf.NCARegressor(**QUICK, hidden=hidden).fit(X, Y)


@every_kind
def test_wrong_calls(kind):
    with pytest.raises(ValueError, match=r"at least 2 classes|y must not be constant"):
        kind().fit(X, np.ones(150))
    dates = np.full(IRIS.shape, np.datetime64("2020-01-01"))
    for given, message in [
        (IRIS.astype(complex), "X has dtype complex"),
        (IRIS[:, :0], "0 feature.*: give X more features"),
        (IRIS[:, 0], "2D array X"),
        (dates, "X holds dates"),
        ([["a", 1.0]] * 150, "X must hold numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            kind().fit(given, SPECIES)
    with pytest.raises(ValueError, match="sample_weight must have shape"):
        kind().fit(X, Y, sample_weight=[1.0])


@every_kind
def test_tables_without_rows_are_refused(kind):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd")).assign(home=pd.Categorical(Y))
    for given in (X, frame, frame[["home"]]):
        with pytest.raises(ValueError, match=r"0 sample\(s\).* by NCA.*: give X more samples"):
            kind().fit(given[:0], Y[:0])
        model = kind(**QUICK).fit(given, Y)
        with pytest.raises(ValueError, match=r"0 sample\(s\).* by NCA.*: give X more samples"):
            model.predict(given[:0])


def test_what_a_column_held_in_fit_is_said():
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    frame = pd.DataFrame(X, columns=list("abcd")).assign(home=pd.Categorical(Y % 2))
    model = mf.NCAClassifier(**QUICK).fit(frame, Y)
    columns = {
        "text": ["rent"] * 150,
        "categories": pd.Categorical(["rent"] * 150),
        "dates": pd.date_range("2020", periods=150),
    }
    for kind, column in columns.items():
        found = frame.assign(b=column)
        for given in (found, pl.from_pandas(found)):
            said = f"X holds {kind} in its column 'b' .*, which held numbers in fit. Give numbers"
            with pytest.raises(ValueError, match=said):
                model.predict(given)
    mixed = frame.to_numpy(dtype=object)
    model = mf.NCAClassifier(**QUICK, categorical_features=[4]).fit(mixed, Y)
    mixed[7, 1] = "rent"
    with pytest.raises(ValueError, match=r"its column 1 holds text .*: it held numbers in fit"):
        model.predict(mixed)
    with pytest.raises(ValueError, match=r"column 1 holds text .*: name it in categorical_feat"):
        mf.NCAClassifier(categorical_features=[4]).fit(mixed, Y)
    named = frame.assign(b=columns["categories"])
    with pytest.raises(ValueError, match="to hold numbers: name it in categorical_features"):
        mf.NCAClassifier(categorical_features=["home"]).fit(named, Y)
    with pytest.raises(ValueError, match="X has 4 features, but NCAClassifier is expecting 5"):
        model.predict(mixed[:, :4])


def test_infinite_numbers_are_found_in_their_column():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd")).assign(home=pd.Categorical(Y % 2))
    model = mf.NCARegressor(**QUICK).fit(frame, Y)
    frame.loc[[3, 5], "c"] = np.inf
    numbers = frame[list("abcd")].to_numpy()
    for call in (model.predict, lambda given: mf.NCARegressor().fit(given, Y)):
        with pytest.raises(ValueError, match=r"infinity: its column 'c' .* has 2 of them"):
            call(frame)
    for given in (numbers, numbers.tolist(), csr_matrix(numbers)):
        with pytest.raises(ValueError, match=r"infinity: its column 2 .* has 2 of them"):
            mf.NCARegressor().fit(given, Y)
    with pytest.raises(ValueError, match=r"infinity: its column 3 .* has 2 of them"):
        mf.NCARegressor(categorical_features=[0]).fit(numbers[:, [0, 0, 1, 2]], Y)


@every_kind
def test_too_few_points_to_learn_from_are_warned_of_once(kind):
    for n in (3, 4):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = kind(random_state=0, max_epochs=3).fit(X[49 : 49 + n], Y[49 : 49 + n])
        said = [str(each.message) for each in caught]
        assert len(said) == (n == 3)
        assert all(
            "points give no gradient" in each and "give more points" in each for each in said
        )
        assert np.isfinite(model.predict(X)).all()
    with pytest.warns(ConvergenceWarning, match="no gradient.* columns that vary"):
        kind(**QUICK).fit(np.ones((20, 2)), np.arange(20) % 2)


def test_a_class_without_weight_has_probability_0():
    weight = np.where(Y == 2, 0.0, 1.0)
    by_point = mf.NCAClassifier(**QUICK, scale=0.3).fit(X, Y, sample_weight=weight)
    by_class = mf.NCAClassifier(**QUICK, scale=0.3, class_weight={2: 0}).fit(X, Y)
    for model in (by_point, by_class):
        assert model.classes_.tolist() == [0, 1, 2]
        shares = model.predict_proba(X)
        assert (shares[:, 2] == 0).all()
        assert (shares[:, :2] > 0).all()
        assert np.isfinite(model.validation_costs_).all()
    tiny = np.where(Y == 2, 5e-324, 1e19)  # its share of the total weight underflows
    model = mf.NCAClassifier(**QUICK, scale=0.3).fit(X, Y, sample_weight=tiny)
    assert (model.predict_proba(X) > 0).all()
    assert np.isfinite(model.validation_costs_).all()
    with pytest.raises(ValueError, match=r"2 classes of a weight above 0 .* got 1 class"):
        mf.NCAClassifier(class_weight={1: 0, 2: 0}).fit(X, Y)


def checks():
    for kind in KINDS:
        fails = unequal(DRAWN)
        quick = kind(
            n_components=8, n_frequencies=4, n_embedding=4, scale=0.3, max_epochs=30, n_estimators=1
        )
        for estimator, check in estimator_checks_generator(quick, mark="skip"):
            name = check.func.__name__
            # Array API input needs an environment variable, and is not claimed to be taken.
            if name != "check_array_api_input":
                marks = [pytest.mark.xfail(reason=fails[name])] if name in fails else []
                if kind is mf.NCARegressor and not re.search("regress|weight|fit_idem", name):
                    marks.append(pytest.mark.exhaustive)  # both share `fit`
                yield pytest.param(estimator, check, marks=marks, id=f"{kind.__name__}-{name}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_columns_that_told_nothing_tell_nothing():
    points, y = load_iris(return_X_y=True)
    model = mf.NCAClassifier(n_components=4, max_epochs=3, periodic=False, random_state=0)

    def beside(first, second):
        return np.c_[points, np.full(150, first), np.full(150, second)]

    model.fit(beside(np.nan, 1.0), y)
    expected = model.predict_proba(beside(np.nan, 1.0))
    for columns in [(5.0, 1.0), (0.0, 7.0), (1e300, np.nan)]:
        np.testing.assert_array_equal(model.predict_proba(beside(*columns)), expected)


@every_kind
def test_sparse_tables_are_those_in_arrays(kind):
    X = np.where(IRIS > 1.5, IRIS, 0)
    weight = np.arange(len(X)) % 3
    for sample_weight in (None, weight):
        dense, sparse = (
            kind(**QUICK).fit(points, Y, sample_weight=sample_weight)
            for points in (X, csr_matrix(X))
        )
        np.testing.assert_array_equal(sparse.predict(csr_matrix(X)), dense.predict(X))
        np.testing.assert_array_equal(sparse.transform(csr_matrix(X)), dense.transform(X))


@pytest.mark.parametrize("far", [1e6, -1e8, 1e30, -np.finfo(float).max])
@pytest.mark.parametrize(("kind", "scale"), [(mf.NCAClassifier, 0.3), (mf.NCARegressor, 200.0)])
def test_an_outlier_does_not_touch_other_rows(kind, scale, far):
    params = QUICK | {"periodic": True, "scale": scale, "judge": None}
    queries = X.copy()
    queries[3, 1] = far
    model = kind(**params).fit(X, Y)
    found = model.predict(queries)
    assert np.isfinite(found[3])
    np.testing.assert_allclose(np.delete(found, 3), np.delete(model.predict(X), 3), atol=1e-12)
    weight = np.where(np.arange(len(X)) == 3, 1e-15, 1)
    for sample_weight in (None, weight if scale <= 1 else None):
        model = kind(**params).fit(queries, Y, sample_weight=sample_weight)
        assert np.isfinite(model.predict(queries)).all()
        assert np.isfinite(model.transform(queries)).all()


@pytest.mark.parametrize(
    ("class_weight", "text"),
    [
        ({"yes": -1}, "^class_weight must not be negative"),
        ({"yes": "a"}, "^class_weight=.* could not convert"),
        ({"yes": np.nan}, "^class_weight contains NaN"),
        ({"yes": 0, "no": 0}, "^class_weight must not be zero throughout"),
        ({"yes": 1e300}, "^the largest class_weight must be from"),
        ({"maybe": 1}, "^class_weight="),
    ],
)
def test_wrong_weights_of_classes_are_named(class_weight, text):
    y = np.where(Y == 0, "yes", "no")
    with pytest.raises(ValueError, match=text):
        mf.NCAClassifier(class_weight=class_weight).fit(X, y)


def test_weights_of_classes_and_points_leave_some():
    weight = (Y == 0).astype(float)
    model = mf.NCAClassifier(class_weight={0: 0, 1: 1, 2: 1})
    with pytest.raises(ValueError, match="sample_weight times class_weight must not be zero"):
        model.fit(X, Y, sample_weight=weight)
