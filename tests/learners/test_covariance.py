"""The covariance learner against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA

from metricfast import Covariance

X, Y = load_iris(return_X_y=True)


def test_is_the_inverse_covariance():
    inverse = np.linalg.inv(np.cov(X.T))
    model = Covariance().fit(X)
    np.testing.assert_allclose(model.get_mahalanobis_matrix(), inverse, rtol=1e-9)
    np.testing.assert_allclose(model.components_, np.linalg.cholesky(inverse).T, atol=1e-9)
    np.testing.assert_allclose(np.cov(model.transform(X).T), np.eye(4), atol=1e-9)


def test_is_the_pseudo_inverse_of_a_singular_covariance():
    points = np.c_[X, X[:, 0] - 2 * X[:, 2], np.full(150, 0.1)]
    model = Covariance().fit(points)
    expected = np.linalg.pinv(np.cov(points.T), rcond=1e-12)
    np.testing.assert_allclose(model.get_mahalanobis_matrix(), expected, atol=1e-9)
    assert model.components_.shape == (6, 6)
    assert not model.components_[4:].any()


def test_rank_does_not_depend_on_the_units_of_features():
    units = np.array([1e-9, 1.0, 1e9, 1e3])
    found = Covariance().fit(X * units).components_ * units
    np.testing.assert_allclose(found, Covariance().fit(X).components_, rtol=1e-7)


@pytest.mark.parametrize("k", [1, 3])
def test_components_are_those_of_greatest_variance(k):
    expected = PCA(k, whiten=True).fit(X)
    found = Covariance(n_components=k).fit(X)
    for row, axis in zip(found.transform(X - X.mean(0)).T, expected.transform(X).T, strict=True):
        np.testing.assert_allclose(row, axis * np.sign(row @ axis), atol=1e-9)


def test_components_beyond_the_rank_are_zero():
    points = np.c_[X[:, :2], X[:, :2] * 3, X[:, 1]]
    model = Covariance(n_components=4).fit(points)
    assert model.components_[:2].any(axis=1).all()
    assert not model.components_[2:].any()


def test_one_feature():
    assert Covariance().fit([[1.0], [3.0], [5.0]]).components_ == pytest.approx(0.5)


def test_bad_input():
    with pytest.raises(ValueError, match="2 different points"):
        Covariance().fit(np.full((5, 3), 0.1))
    with pytest.raises(ValueError, match="2 different points"):
        Covariance().fit(X, sample_weight=np.eye(150)[0])
    with pytest.raises(ValueError, match="pass y"):
        Covariance().fit(X, validate=True)
