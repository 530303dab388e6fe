"""LDML: the probability that two points are of one class."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from scipy.special import expit
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from metricfast import LDML, kneighbors

X, Y = load_iris(return_X_y=True)
X = scale(X)


def test_objective_is_that_of_the_map_and_the_bias():
    model = LDML(n_components=2).fit(X, Y)
    expected = reference.ldml(model.transform(X), Y, model.bias_)
    assert model.objective_ == pytest.approx(expected)
    assert model.objective_ == min(model.loss_curve_)


def test_it_is_the_minimum_over_all_metrics():
    """Convex in M and b: the gradient by M is positive semidefinite and vanishes where M does not,
    and that by b is zero: as many pairs are expected to be of one class as are.
    """
    model = LDML(tol=1e-12, max_iter=1000).fit(X, Y)
    M = model.get_mahalanobis_matrix()
    D = reference.squared_distances(model.transform(X), model.transform(X))
    same, probability = Y[:, None] == Y, expit(model.bias_ - D)
    for matrix in (same, probability):
        np.fill_diagonal(matrix, 0)
    assert probability.sum() == pytest.approx(same.sum(), rel=1e-4)
    weights = same - probability
    gradient = 2 * X.T @ (np.diag(weights.sum(1)) - weights) @ X
    size = np.linalg.norm(2 * X.T @ (np.diag(same.sum(1)) - same) @ X)
    assert np.linalg.eigvalsh(gradient).min() > -1e-3 * size
    assert abs(np.trace(gradient @ M)) < 1e-3 * size


def test_the_start_does_not_matter():
    ends = [
        LDML(init=init, random_state=0, tol=1e-12, max_iter=1000).fit(X, Y)
        for init in ("identity", "random")
    ]
    assert ends[0].objective_ == pytest.approx(ends[1].objective_, rel=1e-5)
    assert ends[0].bias_ == pytest.approx(ends[1].bias_, rel=1e-2)


@pytest.mark.parametrize("solver", ["lbfgs", "sgd"])
def test_pairs_are_told_apart(solver):
    model = LDML(n_components=2, solver=solver, learning_rate=0.1, random_state=0).fit(X, Y)
    pairs = np.random.default_rng(0).integers(0, 150, (2000, 2))
    near = model.pair_distance(X[pairs]) ** 2 < model.bias_
    assert np.mean(near == (Y[pairs[:, 0]] == Y[pairs[:, 1]])) > 0.93
    nearest = kneighbors(model.transform(X), n_neighbors=1)[1][:, 0]
    assert np.mean(Y[nearest] != Y) <= 0.05


def test_whole_weights_mean_repetition():
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    settings = {"init": "lda", "n_components": 2, "callbacks": [lambda s: s.iteration == 5]}
    weighted = LDML(**settings).fit(X, Y, sample_weight=weight)
    repeated = LDML(**settings).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
    np.testing.assert_allclose(weighted.components_, repeated.components_, rtol=1e-6, atol=1e-8)
    assert weighted.bias_ == pytest.approx(repeated.bias_)


def test_an_interrupted_fit_leaves_the_bias_that_belongs_to_the_map():
    states = []

    def interrupt(state):
        states.append(state)
        if state.iteration == 4:
            raise KeyboardInterrupt

    model = LDML(n_components=2, callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert reference.ldml(model.transform(X), Y, model.bias_) == pytest.approx(
        min(s.objective for s in states)
    )


def test_where_classes_do_not_show_the_bias_is_their_frequency():
    points = np.random.default_rng(0).normal(size=(300, 2))
    labels = np.arange(300) % 10
    model = LDML().fit(points, labels)
    share = np.mean(labels[:, None] == labels) - 1 / 300
    assert model.bias_ == pytest.approx(np.log(share / (1 - share)), abs=0.2)
