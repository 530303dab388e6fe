"""Values of an estimator's `metric`: learners, fitted or not, pipelines, and matrices."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn import neighbors as theirs
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import metricfast as mf
from metricfast import neighbors as ours
from metricfast.embeddings import Asymmetric, Linear
from metricfast.metrics._report import report_of

RNG = np.random.default_rng(0)
IRIS, SPECIES = load_iris(return_X_y=True)
IRIS = IRIS + RNG.normal(size=IRIS.shape) * 1e-3  # no distances are equal
X, Y, QUERIES = IRIS[::2], SPECIES[::2], IRIS[1::2]
LFDA = mf.LFDA(n_components=2)
L = RNG.normal(size=(2, 4))
METRICS = {
    "learner": LFDA,
    "fitted": clone(LFDA).fit(IRIS, SPECIES),
    "frozen": FrozenEstimator(clone(LFDA).fit(IRIS, SPECIES)),
    "pipeline": make_pipeline(StandardScaler(), clone(LFDA)),
    "frozen in a pipeline": make_pipeline(
        StandardScaler(), FrozenEstimator(clone(LFDA).fit(IRIS, SPECIES))
    ),
    "perceptron": mf.TripletLearner(
        hidden_layer_sizes=(5,), max_epochs=2, random_state=0, judge=None
    ),
    "kernel": mf.KernelizedMetricLearner(mf.DMLMJ(), n_components=9, random_state=0),
    "transformer": PCA(2, whiten=True),
    "search": GridSearchCV(
        mf.EmbeddingLearner(mf.losses.NCA(), max_epochs=2, random_state=0, judge=None),
        {"learning_rate": [0.01]},
        cv=2,
    ),
    "matrix": L,
    "list": L.tolist(),
    "pair": (L, L),
}


def mapped(name, points):
    """Return points whose Euclidean distances equal the distances of a metric fitted to X and Y."""
    if name in ("matrix", "list", "pair"):
        return points @ L.T
    metric = METRICS[name]
    return (metric if name == "fitted" else clone(metric).fit(X, Y)).transform(points)


@pytest.mark.parametrize("name", METRICS)
def test_metrics(name):
    before = pickle.dumps(METRICS[name])
    model = ours.KNeighborsClassifier(4, weights="distance", metric=METRICS[name]).fit(X, Y)
    assert pickle.dumps(METRICS[name]) == before
    database, Z = (mapped(name, points) for points in (X, QUERIES))
    expected = theirs.KNeighborsClassifier(4, weights="distance").fit(database, Y)
    distances, indices = model.kneighbors(QUERIES)
    np.testing.assert_allclose(distances, expected.kneighbors(Z)[0], rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(indices, expected.kneighbors(Z)[1])
    np.testing.assert_array_equal(model.predict(QUERIES), expected.predict(Z))
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.kneighbors()[1], model.kneighbors()[1])


def test_maps_are_those_of_the_functions():
    U, V = RNG.normal(size=(2, 3, 4))
    for metric, maps in [((U, V), {"U": U, "V": V}), (L, {"L": L})]:
        model = ours.NearestNeighbors(n_neighbors=3, metric=metric).fit(X)
        both = model.kneighbors(QUERIES), mf.kneighbors(QUERIES, X, 3, **maps)
        for found, expected in zip(*both, strict=True):
            np.testing.assert_array_equal(found, expected)
        _, own = mf.kneighbors(X, X, 3, exclude=np.arange(len(X)), **maps)
        np.testing.assert_array_equal(model.kneighbors()[1], own)
    single = ours.NearestNeighbors(metric=clone(LFDA)).fit(X.astype("f4"), Y)
    expected = mf.kneighbors(QUERIES.astype("f4"), X.astype("f4"), L=single.metric_.components_)
    assert single.kneighbors(QUERIES.astype("f4"))[0].dtype == np.float32
    np.testing.assert_array_equal(single.kneighbors(QUERIES.astype("f4"))[1], expected[1])


def test_a_fitted_learner_is_used_and_its_clones_learn_anew():
    fitted = mf.LFDA(n_components=2).fit(IRIS, SPECIES)
    model = ours.KNeighborsClassifier(metric=fitted).fit(X, Y)
    assert model.metric_ is fitted
    again = clone(model).fit(X, Y)
    assert not np.allclose(again.metric_.components_, fitted.components_)
    frozen = clone(ours.KNeighborsClassifier(metric=FrozenEstimator(fitted))).fit(X, Y)
    np.testing.assert_array_equal(frozen.metric_.components_, fitted.components_)
    with pytest.raises(ValueError, match="NaN"):
        fitted.fit(np.full_like(IRIS, np.nan), SPECIES)
    assert ours.KNeighborsClassifier(metric=fitted).fit(X, Y).metric_ is not fitted  # a copy


SIDES = {
    "votes": mf.AsymmetricSimilarity(random_state=0, solver=mf.solvers.Adam(max_epochs=2)),
    "embeddings": mf.EmbeddingLearner(
        mf.losses.NCA(), Asymmetric(Linear(2), Linear(2)), max_epochs=2, random_state=0, judge=None
    ),
}


@pytest.mark.parametrize("name", SIDES)
def test_learners_of_two_maps(name):
    for metric in (SIDES[name], clone(SIDES[name]).fit(IRIS, SPECIES)):
        learner = metric if metric is not SIDES[name] else clone(metric).fit(X, Y)
        model = ours.KNeighborsClassifier(3, metric=metric).fit(X, Y)
        database = learner.transform(X, side="database")
        expected = mf.kneighbors(learner.transform(QUERIES, side="query"), database, 3)
        np.testing.assert_array_equal(model.kneighbors(QUERIES)[1], expected[1])
        own = mf.kneighbors(learner.transform(X, side="query"), database, 3, exclude=range(75))
        np.testing.assert_array_equal(model.kneighbors()[1], own[1])
        piped = make_pipeline(
            StandardScaler(with_mean=False, with_std=False), FrozenEstimator(learner)
        )
        found = ours.KNeighborsClassifier(3, metric=piped).fit(X, Y).kneighbors(QUERIES)[1]
        np.testing.assert_array_equal(found, expected[1])
        model.partial_fit(QUERIES, np.resize(Y, len(QUERIES)))
        both = np.concatenate([X, QUERIES])
        exclude = np.arange(len(both))
        sides = (learner.transform(both, side=side) for side in ("query", "database"))
        np.testing.assert_array_equal(
            model.kneighbors()[1], mf.kneighbors(*sides, 3, exclude=exclude)[1]
        )


def test_named_matrices():
    M = L.T @ L
    by_L, by_named, by_M = (
        ours.NearestNeighbors(metric=metric).fit(X).kneighbors(QUERIES)
        for metric in (L, ("L", L), ("M", M))
    )
    for one, other in zip(by_L, by_named, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(by_M[0], by_L[0], rtol=1e-6)
    np.testing.assert_array_equal(by_M[1], by_L[1])
    definite = clone(ours.NearestNeighbors(metric=("M", M + np.eye(4)))).fit(X)
    np.testing.assert_allclose(definite.metric_.T @ definite.metric_, M + np.eye(4), rtol=1e-12)
    symmetric = L[:, :2] + L[:, :2].T
    distances, _ = ours.NearestNeighbors(metric=("L", symmetric)).fit(X[:, :2]).kneighbors()
    expected = theirs.NearestNeighbors().fit(X[:, :2] @ symmetric).kneighbors()[0]
    np.testing.assert_allclose(distances, expected, rtol=1e-9)


def test_a_fixed_database_is_searched():
    labels = np.array(["x", "y", "z"])
    fixed = mf.FixedDatabase(clone(SIDES["votes"]), QUERIES[:70], labels[SPECIES[1::2][:70]])
    expected = clone(fixed).fit(X, labels[Y])
    model = ours.KNeighborsClassifier(3, metric=fixed).fit(X, labels[Y])
    assert model.n_samples_fit_ == 70
    np.testing.assert_array_equal(model.kneighbors(X)[1], expected.kneighbors(X, 3)[1])
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    with pytest.raises(ValueError, match="X may be left out only where"):
        model.predict(None)
    with pytest.raises(ValueError, match="sample_weight must be None where the X_database"):
        model.fit(X, labels[Y], sample_weight=np.ones(len(X)))
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_frames_columns_and_sparse_points():
    frame = pd.DataFrame(IRIS.astype("f4"), columns=list("abcd"))
    for metric in ("euclidean", LFDA):
        model = ours.KNeighborsClassifier(metric=metric).fit(frame, pd.Series(SPECIES))
        assert model.feature_names_in_.tolist() == list("abcd")
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[list("bacd")])
    with pytest.warns(DataConversionWarning):
        column = ours.KNeighborsClassifier().fit(IRIS, SPECIES[:, None])
    assert column.predict(IRIS[:3]).shape == (3,)
    nca = mf.NCA(tol=1e-2)
    dense = ours.NearestNeighbors(metric=nca).fit(IRIS, SPECIES)
    sparse = ours.NearestNeighbors(metric=nca).fit(csr_array(IRIS), SPECIES)
    np.testing.assert_array_equal(dense.kneighbors(csr_array(IRIS))[1], dense.kneighbors(IRIS)[1])
    L = sparse.metric_.components_
    np.testing.assert_allclose(
        sparse.kneighbors(IRIS)[0], mf.kneighbors(IRIS, IRIS, L=L)[0], atol=1e-6
    )


def test_parameters_of_the_learner_are_searched():
    search = GridSearchCV(
        ours.KNeighborsClassifier(metric=mf.LFDA()),
        {"metric__n_components": [1, 2], "n_neighbors": [3, 5]},
        cv=3,
    ).fit(IRIS, SPECIES)
    assert search.best_estimator_.metric_.n_components in (1, 2)
    assert search.best_score_ > 0.9


WRONG = [
    ({"metric": "cosinus"}, ValueError, "Metric 'cosinus' not valid"),
    ({"metric": L, "metric_params": {"p": 2}}, ValueError, "metric_params are of metrics that"),
    ({"metric": mf.LFDA(), "algorithm": "tree"}, ValueError, "algorithm must be"),
    ({"metric": None}, ValueError, "metric must be a learner, .* metric is None"),
    ({"metric": np.ones(4)}, ValueError, "metric must be a learner"),
    ({"metric": np.eye(3)}, ValueError, "metric must have 4 columns; found 3"),
    ({"metric": L * np.nan}, ValueError, "metric contains NaN or infinity"),
    ({"metric": (L,)}, ValueError, "got a tuple of 1"),
    ({"metric": np.eye(4)}, ValueError, r'metric=\("L", L\) .* or metric=\("M", M\)'),
    ({"metric": ("L", L[:, :3])}, ValueError, r"metric\[1\] must have 4 columns; found 3"),
    ({"metric": ("M", L)}, ValueError, r"square symmetric M; found shape \(2, 4\)"),
    ({"metric": ("M", np.triu(np.ones((4, 4))))}, ValueError, r"\(4, 4\), not symmetric"),
    ({"metric": ("M", -np.eye(4))}, ValueError, "positive semidefinite M"),
    ({"metric": (L, L[:1])}, ValueError, r"metric\[1\] must hold 2 rows, as metric\[0\]; found 1"),
    ({"metric": (L, L[:, :2])}, ValueError, r"metric\[1\] must have 4 columns; found 2"),
    ({"metric": (L, "V")}, ValueError, r"metric\[1\] is 'V'"),
    ({"metric": mf.LMNN}, TypeError, r"give LMNN\(\)"),
    ({"metric": mf.OASIS()}, TypeError, "metric must be a learner that can transform points"),
    ({"metric": mf.ITML()}, ValueError, "learns from tuples"),
    ({"metric": mf.MLKR(tol=1e-2)}, ValueError, "y"),
    ({"metric": FrozenEstimator(mf.LMNN())}, NotFittedError, "not fitted"),
]  # fmt: skip


@pytest.mark.parametrize(("params", "error", "message"), WRONG)
def test_wrong_metrics(params, error, message):
    y = np.array(list("abc"))[SPECIES]
    with pytest.raises(error, match=message):
        ours.KNeighborsClassifier(**params).fit(IRIS, y)


def test_after_a_fit_that_fails():
    model = ours.KNeighborsClassifier().fit(IRIS, SPECIES)
    before = model.predict(IRIS)
    with pytest.raises(ValueError, match="n_neighbors"):
        model.set_params(n_neighbors=0).fit(IRIS[:, :2], SPECIES)
    np.testing.assert_array_equal(model.set_params(n_neighbors=5).predict(IRIS), before)
    with pytest.raises(ValueError, match="metric"):
        model.set_params(metric=np.eye(3)).fit(IRIS[:, :2], SPECIES)
    with pytest.raises(NotFittedError):
        model.predict(IRIS)


@pytest.mark.parametrize("learner", [LFDA, mf.LSML_Supervised(random_state=0, judge=None)])
def test_the_function_of_a_linear_learner_is_a_metric(learner):
    fitted = clone(learner).fit(IRIS, SPECIES)
    found, expected = (
        clone(ours.KNeighborsClassifier(metric=metric)).fit(IRIS, SPECIES)
        for metric in (fitted.get_metric(), fitted.components_)
    )
    np.testing.assert_array_equal(found.metric_, fitted.components_)
    for one, other in zip(found.kneighbors(IRIS), expected.kneighbors(IRIS), strict=True):
        np.testing.assert_array_equal(one, other)
    by_scikit_learn = theirs.KNeighborsClassifier(metric=fitted.get_metric()).fit(IRIS, SPECIES)
    np.testing.assert_array_equal(found.predict(IRIS), by_scikit_learn.predict(IRIS))


def test_functions_of_other_learners_are_refused_with_the_remedy():
    kernelized = mf.KernelizedMetricLearner(LFDA, random_state=0).fit(IRIS, SPECIES)
    with pytest.raises(ValueError, match=r"metric must .* give the learner itself"):
        ours.KNeighborsClassifier(metric=kernelized.get_metric()).fit(IRIS, SPECIES)


def test_a_transform_of_a_subclass_stands_for_the_learner():
    class Plain(mf.LFDA):
        pass

    class Bent(mf.LFDA):
        def transform(self, X):
            return np.sqrt(np.abs(super().transform(X)))

    class BentEmbedding(mf.EmbeddingLearner):
        def transform(self, X):
            return np.abs(super().transform(X, "query"))

    plain, bent = (kind(n_components=2).fit(IRIS, SPECIES) for kind in (Plain, Bent))
    sides = Asymmetric(Linear(2), Linear(2))
    brief = {"max_epochs": 2, "judge": None, "random_state": 0}
    embedded = BentEmbedding(mf.losses.NCA(), sides, **brief).fit(IRIS, SPECIES)
    scaled = make_pipeline(StandardScaler(), Bent(n_components=2)).fit(IRIS, SPECIES)
    kernelized = mf.KernelizedMetricLearner(Bent(n_components=2), random_state=0)
    for learner in (bent, embedded, scaled, kernelized.fit(IRIS, SPECIES)):
        found = mf.KNeighborsClassifier(3, metric=learner).fit(IRIS, SPECIES)
        Z = learner.transform(IRIS)
        expected = mf.KNeighborsClassifier(3).fit(Z, SPECIES)
        np.testing.assert_array_equal(found.kneighbors(IRIS)[0], expected.kneighbors(Z)[0])
    report = mf.metrics.retrieval_report(embedded.transform(IRIS), SPECIES, metrics="r_precision")
    found = report_of(embedded, IRIS, SPECIES, metrics="r_precision")
    assert found["r_precision"].mean == report["r_precision"].mean
    with pytest.raises(TypeError, match="a fitted learner of one linear map"):
        ours.to_faiss(bent)
    model = mf.KNeighborsClassifier(metric=plain).fit(IRIS, SPECIES)
    np.testing.assert_array_equal(model._database.points_, IRIS)  # searched with the map
    for learner in (plain, bent):
        with pytest.raises(TypeError, match="a learner of metricfast that embeds points by a map"):
            mf.io.to_onnx(learner)
