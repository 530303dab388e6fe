"""Estimators in skops files: loading restores everything, and builds only trusted types."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from registry import SCORED, TUPLES, data_for, entry_of, index_tuples, learners, make
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from trained import embedding_learner

import metricfast as mf
from metricfast import losses
from metricfast.solvers import Adam

skops_io = pytest.importorskip("skops.io")
X, Y = load_iris(return_X_y=True)
NAMED = np.array(["a", "b", "c"])[Y]
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(kind=pd.Categorical(NAMED))
FRAME.loc[::9, "a"] = np.nan
QUICK = {"n_components": 2, "n_estimators": 2, "max_epochs": 2, "random_state": 0}
ANMM = mf.ANMM(2)
TWO_SIDED = mf.AsymmetricSimilarity(n_neighbors=3, random_state=0, solver=Adam(max_epochs=2))
DEEP = embedding_learner(losses.NCA(), mf.embeddings.MLP((5,), 2), max_epochs=2)
OTHERS = {
    "table": (mf.NCAClassifier(**QUICK), FRAME, NAMED),
    "several outputs": (mf.NCAClassifier(**QUICK), FRAME, np.stack([NAMED, NAMED], axis=1)),
    "periodic": (mf.NCARegressor(periodic=True, scale=0.1, **QUICK), X[:, :3], X[:, 3]),
    "learned": (mf.KNeighborsClassifier(metric=mf.LFDA(2)), X, NAMED),
    "cosine": (mf.KNeighborsRegressor(metric="cosine"), X, X[:, 0]),
    "radius": (mf.neighbors.RadiusNeighborsClassifier(40.0, metric=mf.LFDA(2)), X, NAMED),
    "matrix": (mf.neighbors.KNeighborsTransformer(metric=("L", np.eye(2, 4))), X, None),
    "pipeline": (
        make_pipeline(StandardScaler(), mf.LFDA(2), mf.KNeighborsClassifier(3)), X, NAMED
    ),
    "graph": (mf.neighbors.KNeighborsTransformer(metric=mf.LFDA(2)), X, Y),
    "one map a class": (mf.MultiMetricLMNN(max_iter=5), X, Y),
    "fixed database": (mf.FixedDatabase(TWO_SIDED, X[::2], Y[::2]), X, Y),
    "kernel": (mf.KernelizedMetricLearner(ANMM, method="kpca", n_components=9), X, NAMED),
    "deep": (DEEP, X, np.array(["2020-01-01", "2021-02-03", "1960-01-01"], "M8[D]")[Y]),
}  # fmt: skip
LABELS = [
    np.array(["x", "yy", "žz"])[Y].astype("U40"), np.array([b"x", b"yy", b"z"])[Y],
    np.array([1, 2, 3], "m8[s]")[Y], Y.astype(object), Y.astype(float).astype(object),
    Y.astype(bool).astype(object), Y.astype(str).astype(object), Y.astype(">i2"),
]  # fmt: skip


def copied(model):
    return skops_io.loads(skops_io.dumps(model), trusted=mf.io.trusted_types())


def assert_same(found, expected) -> None:
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            assert_same(*pair)
    elif hasattr(expected, "toarray"):
        assert_same(found.toarray(), expected.toarray())
    else:
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OTHERS)
def test_predictors_and_pipelines_come_back(name):
    model, points, labels = OTHERS[name]
    loaded = copied(model.fit(points, labels))
    assert repr(loaded) == repr(model)
    methods = ("predict", "predict_proba") if hasattr(model, "predict") else ("transform",)
    for method in [method for method in methods if hasattr(model, method)]:
        assert_same(getattr(loaded, method)(points), getattr(model, method)(points))
    if hasattr(model, "kneighbors"):
        assert_same(loaded.kneighbors(points), model.kneighbors(points))


@pytest.mark.parametrize("labels", LABELS, ids=lambda labels: labels.dtype.str)
def test_labels_of_every_type_come_back(labels):
    model = mf.KNeighborsClassifier(metric=mf.LFDA(2)).fit(X, labels)
    loaded = copied(model)
    assert_same(loaded.classes_, model.classes_)
    assert list(map(type, loaded.classes_)) == list(map(type, model.classes_))
    assert_same(loaded.predict(X), model.predict(X))


def test_trusted_types_touch_no_files(tmp_path):
    trusted = mf.io.trusted_types()
    assert all(name.startswith("metricfast.") for name in trusted)
    assert not any(word in name for name in trusted for word in ("callbacks", "sources", "dask"))
    model = mf.LFDA().fit(X, Y)
    model.callbacks = [mf.callbacks.Checkpoint(tmp_path / "trap")]
    with pytest.raises(skops_io.exceptions.UntrustedTypesFoundException, match="Checkpoint"):
        copied(model)
    assert not list(tmp_path.iterdir())


ROWS, PAIRS = np.arange(len(X)), np.stack([X[:3], X[70:73]], axis=1)


@pytest.mark.parametrize("kind", learners(), ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("ignore")
def test_learners_with_an_array_as_preprocessor_come_back(kind):
    takes = entry_of(kind).takes
    given = data_for(make(kind), X, Y)
    if takes in TUPLES:
        given = index_tuples(TUPLES[takes], Y)
    elif takes == SCORED:
        given = np.stack([ROWS, ROWS[::-1]], axis=1), X[:, 0]
    else:
        given = ROWS, *given[1:]
    model = make(kind, preprocessor=X).fit(*given)
    pairs = [[0, 70], [1, 71]]
    assert_same(copied(model).pair_score(pairs), model.pair_score(pairs))


@pytest.mark.parametrize(
    "kind",
    [kind for kind in learners() if hasattr(make(kind), "partial_fit")],
    ids=lambda kind: kind.__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_learners_come_back_after_partial_fit(kind):
    model = make(kind).partial_fit(*data_for(make(kind), X, Y))
    assert_same(copied(model).pair_score(PAIRS), model.pair_score(PAIRS))


def test_maps_of_more_features_than_points_come_back():
    wide = np.random.default_rng(0).normal(size=(60, 80))
    model = mf.GMML_Supervised(random_state=0).fit(wide, np.arange(60) % 3)
    assert_same(copied(model).components_, model.components_)


@pytest.mark.filterwarnings("ignore")
def test_the_best_estimator_of_a_comparison_comes_back():
    model = mf.compare(X, Y, learners=["LFDA"], cv=2, random_state=0).best_estimator_
    assert_same(copied(model).predict(X), model.predict(X))


@pytest.mark.parametrize(
    "model",
    [
        mf.LDML(solver="adam"),
        mf.NeighborhoodGerrymandering(parameterization="M"),
        mf.AsymmetricSimilarity(),
        embedding_learner(mf.losses.NCA()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_training_goes_on_from_a_file(model):
    model = model.set_params(random_state=0).partial_fit(X, Y)
    again = copied(model)
    np.testing.assert_array_equal(
        again.partial_fit(X, Y).transform(X), model.partial_fit(X, Y).transform(X)
    )
