"""Queries and a database in pipelines, searches and cross-validation."""

import re

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from metricfast import (
    NCA,
    AdapterLearner,
    AsymmetricSimilarity,
    EmbeddingLearner,
    FixedDatabase,
    KNeighborsClassifier,
    losses,
)
from metricfast.solvers import Adam

RNG = np.random.default_rng(0)
UNITS = np.array([1e2, 1, 1e-2, 10])
MEANS = 2.5 * RNG.normal(size=(3, 4))
Y, Y_DATABASE = np.repeat([0, 1, 2], 30), np.repeat([0, 1, 2], 30)
X = (MEANS[Y] + 0.7 * RNG.normal(size=(90, 4))) * UNITS
DATABASE = (MEANS[Y_DATABASE] + 0.7 * RNG.normal(size=(90, 4))) * UNITS
LEARNER = AsymmetricSimilarity(random_state=0, solver=Adam(max_epochs=4))
STEPS = make_pipeline(StandardScaler(), PCA(3), LEARNER)
BOTH = {"X_database": DATABASE, "y_database": Y_DATABASE}


@pytest.fixture(params=[False, True], ids=["unrouted", "routed"])
def routed(request):
    with sklearn.config_context(enable_metadata_routing=request.param):
        yield request.param


def test_steps_are_applied_to_both_sides(routed):
    model = FixedDatabase(STEPS, DATABASE, Y_DATABASE).fit(X, Y)
    before = make_pipeline(StandardScaler(), PCA(3)).fit(X)
    queries, database = before.transform(X), before.transform(DATABASE)
    learner = clone(LEARNER).fit(queries, Y, database, Y_DATABASE)
    assert model.score(X, Y) == learner.score(queries, Y) > 0.9
    np.testing.assert_array_equal(model.predict(X), learner.predict(queries))
    np.testing.assert_array_equal(model.predict_proba(X), learner.predict_proba(queries))
    np.testing.assert_array_equal(model.kneighbors(X, 2), learner.kneighbors(queries, None, 2))
    for side, points in (("query", queries), ("database", database)):
        given = X if side == "query" else DATABASE
        np.testing.assert_array_equal(model.transform(given, side), learner.transform(points, side))
    with pytest.raises(ValueError, match="side must be"):
        model.transform(X)
    assert model.n_features_in_ == 4
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])


def test_searches_and_folds_split_queries_alone(routed):
    model = FixedDatabase(STEPS, DATABASE, Y_DATABASE)
    assert is_classifier(model)
    folds = KFold(3, shuffle=True, random_state=0)
    expected, shares = [], np.empty((90, 3))
    for train, test in folds.split(X):
        fitted = clone(model).fit(X[train], Y[train])
        assert len(fitted.learner_.database_embedding_) == 90
        expected.append(fitted.score(X[test], Y[test]))
        shares[test] = fitted.predict_proba(X[test])
    np.testing.assert_array_equal(cross_val_score(model, X, Y, cv=folds), expected)
    found = cross_val_predict(model, X, Y, cv=folds, method="predict_proba")
    np.testing.assert_array_equal(found, shares)
    names = {"estimator__pca__n_components": [2, 3], "estimator__asymmetricsimilarity__C": [1, 3]}
    search = GridSearchCV(model, names, cv=folds).fit(X, Y)
    assert search.best_score_ >= np.mean(expected)
    assert search.score(X, Y) == search.best_estimator_.score(X, Y) > 0.9
    alone = GridSearchCV(FixedDatabase(LEARNER, **BOTH), {"estimator__C": [1]}, cv=folds)
    assert len(alone.fit(X, Y).best_estimator_.learner_.database_labels_) == 90


def test_frames_weights_and_cached_steps(tmp_path):
    frame, weight = pd.DataFrame(X, columns=list("abcd")), np.linspace(1, 2, 90)
    steps = clone(STEPS).set_params(memory=str(tmp_path))
    model = FixedDatabase(steps, pd.DataFrame(DATABASE, columns=list("abcd")), Y_DATABASE)
    model.fit(frame, Y, sample_weight=weight)
    plain = FixedDatabase(STEPS, **BOTH).fit(X, Y, sample_weight=weight)
    np.testing.assert_array_equal(model.predict_proba(frame), plain.predict_proba(X))
    assert model.score(frame, Y, sample_weight=weight) == plain.score(X, Y, sample_weight=weight)
    lone = FixedDatabase(Pipeline([("learner", LEARNER)]), **BOTH).fit(X, Y)
    np.testing.assert_array_equal(lone.predict(X), clone(LEARNER).fit(X, Y, **BOTH).predict(X))


def test_pipelines_in_pipelines():
    nested = make_pipeline(StandardScaler(), make_pipeline(PCA(3), LEARNER))
    found, flat = (FixedDatabase(each, **BOTH).fit(X, Y) for each in (nested, STEPS))
    np.testing.assert_array_equal(found.predict_proba(X), flat.predict_proba(X))
    assert found.n_features_in_ == 4


@pytest.mark.parametrize("steps", [[], [StandardScaler()]])
def test_a_learner_that_does_not_predict(steps):
    learner = EmbeddingLearner(losses.NCA(), max_epochs=3, random_state=0)
    model = FixedDatabase(make_pipeline(*steps, learner), **BOTH)
    assert not hasattr(model, "predict")
    assert not hasattr(model, "predict_proba")
    nearest = KNeighborsClassifier(3, metric=model).fit(X, Y)
    distances, indices = model.fit(X, Y).kneighbors(X, 3)
    for found, expected in zip(nearest.kneighbors(X), (distances, indices), strict=True):
        np.testing.assert_allclose(found, expected)
    votes = np.sort(Y_DATABASE[indices])
    sure = votes[:, 0] == votes[:, 2]
    np.testing.assert_array_equal(nearest.predict(X)[sure], votes[sure, 0])


def test_output_in_frames():
    model = FixedDatabase(make_pipeline(StandardScaler(), EmbeddingLearner(losses.NCA())), **BOTH)
    found = model.set_output(transform="pandas").fit(X, Y).transform(X)
    assert found.columns.tolist() == model.learner_.get_feature_names_out().tolist()
    plain = clone(model).set_output(transform="default").fit(X, Y).transform(X)
    np.testing.assert_array_equal(found.to_numpy(), plain)


def test_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        learner = clone(LEARNER).set_fit_request(X_database=True, y_database=True)
        steps = [("scale", StandardScaler()), ("learner", learner)]
        model = Pipeline(steps, transform_input=["X_database"]).fit(X, Y, **BOTH)
        fixed = FixedDatabase(make_pipeline(StandardScaler(), LEARNER), **BOTH).fit(X, Y)
        np.testing.assert_array_equal(model.predict(X), fixed.predict(X))


def test_bad_input():
    for estimator in (NCA(), make_pipeline(StandardScaler(), NCA()), 3):
        with pytest.raises(TypeError):
            FixedDatabase(estimator, **BOTH).fit(X, Y)
    for learner in (NCA(), AdapterLearner()):
        with pytest.raises(TypeError, match=rf"y_database.* got {re.escape(repr(learner))}"):
            FixedDatabase(learner, **BOTH).fit(X, Y)
    with pytest.raises(ValueError, match="y_database must hold 90 labels"):
        FixedDatabase(LEARNER, DATABASE, Y_DATABASE[1:]).fit(X, Y)
    with pytest.raises(NotFittedError):
        FixedDatabase(LEARNER, **BOTH).predict(X)
