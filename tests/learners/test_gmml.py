"""Geometric mean metric learning."""

from itertools import combinations

import numpy as np
import pytest
from scipy.linalg import fractional_matrix_power, inv, sqrtm
from sklearn.datasets import load_iris

from metricfast import GMML, GMML_Supervised

X, Y = load_iris(return_X_y=True)
FEW, LABELS = X[::5], Y[::5]
INDEX = np.array(list(combinations(range(len(FEW)), 2)))
SAME = np.where(LABELS[INDEX[:, 0]] == LABELS[INDEX[:, 1]], 1, -1)


def scatter(points, pairs):
    total = np.zeros((points.shape[1],) * 2)
    for i, j in pairs:
        total += np.outer(points[i] - points[j], points[i] - points[j])
    return total / np.trace(total)


def reference(points, index, y, t, reg, prior):
    S = scatter(points, index[y == 1]) + reg * inv(prior) / np.trace(inv(prior))
    D = scatter(points, index[y == -1]) + reg * prior / np.trace(prior)
    root = sqrtm(inv(S))
    between = inv(root) @ D @ inv(root)
    return root @ fractional_matrix_power(between, t) @ root


@pytest.mark.parametrize("t", [0, 0.3, 0.5, 1])
@pytest.mark.parametrize("reg", [0, 0.01, 2])
@pytest.mark.parametrize("prior", ["identity", "covariance", "given"])
def test_metric_is_that_of_matrix_functions(t, reg, prior):
    given = np.diag([1.0, 2, 3, 4]) + 0.5
    matrix = {"identity": np.eye(4), "covariance": inv(np.cov(np.unique(FEW, axis=0).T))}
    prior = given if prior == "given" else prior
    expected = reference(FEW, INDEX, SAME, t, reg, given if prior is given else matrix[str(prior)])
    learner = GMML(t, reg, prior, preprocessor=FEW).fit(INDEX, SAME)
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), expected, rtol=1e-7, atol=1e-9)
    formed = GMML(t, reg, prior).fit(FEW[INDEX], SAME)
    np.testing.assert_allclose(formed.get_mahalanobis_matrix(), expected, rtol=1e-7, atol=1e-9)
    supervised = GMML_Supervised(t, reg, prior).fit(FEW, LABELS)
    np.testing.assert_allclose(supervised.get_mahalanobis_matrix(), expected, rtol=1e-7, atol=1e-9)


def test_no_unit_exceeds_the_range_of_float32():
    points = np.ldexp(X, -130).astype(np.float32)
    found = GMML_Supervised(t=0).fit(points, Y).components_
    np.testing.assert_allclose(found, GMML_Supervised(t=0).fit(X, Y).components_, rtol=1e-3)


def test_more_features_than_points_and_constant_ones():
    wide = np.c_[np.random.RandomState(0).standard_normal((20, 50)), np.full(20, 3.0)]
    labels = np.arange(20) % 2
    learner = GMML_Supervised().fit(wide, labels)
    assert np.isfinite(learner.components_).all()
    assert np.linalg.eigvalsh(learner.get_mahalanobis_matrix())[0] > 0
    with pytest.raises(ValueError, match="not full rank: "):
        GMML_Supervised(reg=0).fit(wide, labels)


def test_pairs_of_equal_points():
    M = GMML().fit(FEW[INDEX], SAME).get_mahalanobis_matrix()
    more = np.r_[INDEX, [[0, 0], [9, 9]]]
    learner = GMML().fit(FEW[more], np.r_[SAME, 1, -1])
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), M, rtol=1e-9)
    with pytest.raises(ValueError, match="there is no similar pair of different points"):
        GMML().fit(FEW[[[0, 0], [0, 20]]], [1, -1])
    with pytest.raises(ValueError, match="there is no dissimilar pair of different points"):
        GMML().fit(FEW[INDEX[:3]], [1, 1, 1])
