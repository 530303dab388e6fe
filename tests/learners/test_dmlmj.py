"""Distance metric learning through maximisation of the Jeffrey divergence."""

import numpy as np
import pytest
from scipy.linalg import eig
from sklearn.datasets import load_iris

from metricfast import DMLMJ

X, Y = load_iris(return_X_y=True)


def covariances(points, labels, k, weight):
    sums, totals = np.zeros((2, points.shape[1], points.shape[1])), np.zeros(2)
    for i, point in enumerate(points):
        order = sorted(range(len(points)), key=lambda j: (np.sum((points[j] - point) ** 2), j))
        same = [j for j in order if labels[j] == labels[i] and j != i][:k]
        other = [j for j in order if labels[j] != labels[i]][:k]
        for side, near in enumerate((same, other)):
            for j in near:
                difference = point - points[j]
                sums[side] += weight[i] * np.outer(difference, difference) / len(near)
            totals[side] += weight[i] * bool(near)
    return sums / totals[:, None, None]


def shrunk(P, N, reg):
    target = reg * np.trace(P + N) / 2 / len(P) * np.eye(len(P))
    return (1 - reg) * P + target, (1 - reg) * N + target


@pytest.mark.parametrize("reg", [0, 1e-3, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [1, 4])
def test_map_solves_the_eigenproblem_of_the_difference_spaces(reg, weighted, k):
    rows = np.r_[0:40, 50:85, 100:103, 149]
    points, labels = X[rows], np.r_[Y[rows[:-1]], 3]  # a small class, and one of a single point
    weight = np.random.RandomState(0).uniform(1, 3, len(rows)) if weighted else np.ones(len(rows))
    P, N = shrunk(*covariances(points, labels, k, weight), reg)
    learner = DMLMJ(n_neighbors=k, reg=reg)
    learner.fit(points, labels, sample_weight=weight if weighted else None)
    L, values = learner.components_, learner.eigenvalues_
    np.testing.assert_allclose(L @ P @ L.T, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(L @ N @ L.T, np.diag(values), atol=1e-8)
    expected = eig(N, P)[0].real
    np.testing.assert_allclose(values, expected[np.argsort(-(expected + 1 / expected))], rtol=1e-7)


def test_directions_in_which_classes_are_nearer_count_as_well():
    """Classes are two lines along x: neighbours of one class differ along x, others hardly."""
    x = np.arange(20.0)
    points = np.c_[np.r_[x, x], np.repeat([0.0, 0.4], 20)]
    points += np.random.RandomState(0).normal(scale=0.01, size=points.shape)
    learner = DMLMJ(n_neighbors=1, reg=1e-3).fit(points, np.repeat([0, 1], 20))
    assert learner.eigenvalues_[0] < 0.001
    assert learner.eigenvalues_[1] > 100
    assert abs(learner.components_[0, 0]) > 10 * abs(learner.components_[0, 1])


def test_degenerate_data():
    wide = np.c_[np.random.RandomState(0).standard_normal((20, 50)), np.full(20, 3.0)]
    labels = np.arange(20) % 2
    with pytest.raises(ValueError, match="not full rank: "):
        DMLMJ(reg=0).fit(wide, labels)
    with pytest.raises(ValueError, match="no point differs from its nearest neighbours"):
        DMLMJ(n_neighbors=1).fit(np.zeros((4, 2)), [0, 1, 1, 0])


def test_neighbours_may_be_equal_or_missing():
    equal = DMLMJ().fit(np.repeat(X[[0, 60, 120]], 5, axis=0), np.repeat([0, 1, 2], 5))
    alone = DMLMJ().fit(X[::10], np.arange(15))
    assert np.isfinite(equal.components_).all()
    assert np.isfinite(alone.components_).all()


def test_a_constant_feature_is_a_last_row_of_zeros():
    plain, padded = (DMLMJ(reg=0.1).fit(P, Y) for P in (X, np.insert(X, 1, 3.0, axis=1)))
    expected = np.insert(np.r_[plain.components_, np.zeros((1, 4))], 1, 0, axis=1)
    np.testing.assert_allclose(padded.components_, expected, atol=1e-12)
    np.testing.assert_allclose(padded.eigenvalues_, np.r_[plain.eigenvalues_, 1])


def test_every_setting_is_tried_where_features_have_unlike_units():
    rng, y = np.random.RandomState(0), np.arange(300) % 5
    points = (rng.randn(5, 6)[y] + rng.randn(300, 6)) * [1, 1, 1, 4, 4, 4]
    judgement = DMLMJ().fit(points, y).judgement_
    assert judgement.names[1:] == ["standardised features", "reg=0.6", "reg=0.1", "reg=0.001"]
    assert len(np.unique(judgement.costs[1:])) == 4
