from __future__ import annotations

import numpy as np
import pytest
import reference
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import scale

from metricfast import NCA

X, Y = load_iris(return_X_y=True)


def error(model, train, train_labels, test, test_labels) -> float:
    knn = KNeighborsClassifier(3).fit(model.transform(train), train_labels)
    return 1 - knn.score(model.transform(test), test_labels)


def test_objective_is_that_of_the_definition():
    model = NCA(n_components=2, max_iter=1000).fit(X, Y)
    assert model.objective_ == pytest.approx(reference.nca(model.transform(X), Y), rel=1e-9)
    assert model.loss_curve_[-1] == model.objective_
    assert len(model.loss_curve_) == model.n_iter_


@pytest.mark.parametrize("load", [load_iris, load_wine])
@pytest.mark.parametrize("init", ["identity", "pca", "lda"])
def test_final_objective_is_that_of_scikit_learn(load, init):
    points, labels = load(return_X_y=True)
    points = scale(points)
    settings = {"init": init, "n_components": 2, "max_iter": 1000}
    model = NCA(**settings).fit(points, labels)
    peer = NeighborhoodComponentsAnalysis(**settings).fit(points, labels)
    expected = reference.nca(peer.transform(points), labels)
    assert model.objective_ == pytest.approx(expected, rel=1e-3)


def test_starts_where_scikit_learn_starts():
    start = np.random.default_rng(0).normal(size=(2, 4))
    curve = []
    NCA(init=start, callbacks=[lambda s: curve.append(s.objective)], max_iter=1000).fit(X, Y)
    peer_curve = []
    NeighborhoodComponentsAnalysis(
        init=start,
        max_iter=1000,
        callback=lambda L, _: peer_curve.append(reference.nca(X @ L.reshape(2, 4).T, Y)),
    ).fit(X, Y)
    np.testing.assert_allclose(curve[:3], peer_curve[:3], rtol=1e-6)


def test_whole_weights_mean_repetition():
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 4, len(X))
    for init in ("pca", "lda", "identity"):
        settings = {"init": init, "n_components": 2, "callbacks": [lambda s: s.iteration == 5]}
        weighted = NCA(**settings).fit(X, Y, sample_weight=weight)
        repeated = NCA(**settings).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
        np.testing.assert_allclose(weighted.components_, repeated.components_, rtol=1e-6, atol=1e-8)
        assert weighted.objective_ == pytest.approx(repeated.objective_)


def test_weights_reach_the_mini_batches():
    weight = np.where(Y == 0, 0.0, 1.0)
    settings = {"solver": "sgd", "n_components": 2, "random_state": 0, "max_epochs": 2}
    weighted = NCA(**settings).fit(X, Y, sample_weight=weight)
    assert abs(weighted.objective_) <= 100
    assert abs(NCA(**settings).fit(X, Y).objective_) > 100


def test_mini_batches_learn():
    train, test, labels, test_labels = train_test_split(
        *load_digits(return_X_y=True), test_size=0.4, random_state=0
    )
    settings = {"init": "pca", "n_components": 8, "random_state": 0}
    before = NCA(**settings, callbacks=[lambda s: s.iteration == 1], max_iter=1000)
    after = NCA(**settings, solver="sgd", batch_size=200)
    before.fit(train, labels)
    after.fit(train, labels)
    untrained = error(before, train, labels, test, test_labels)
    assert error(after, train, labels, test, test_labels) < 0.8 * untrained
    assert after.loss_curve_[-1] < after.loss_curve_[0]


def test_mini_batches_work_at_any_scale_of_the_data():
    settings = {"solver": "sgd", "init": "pca", "n_components": 2, "random_state": 0}
    expected = NCA(**settings).fit(X, Y)
    for factor in (2.0**-12, 2.0**12):
        model = NCA(**settings).fit(factor * X, Y)
        np.testing.assert_allclose(factor * model.components_, expected.components_, rtol=1e-9)


def test_a_lone_point_attracts_nobody():
    model = NCA(max_iter=1000).fit(X[:101], Y[:101])
    assert -100 <= model.objective_ < -95
