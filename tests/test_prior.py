"""Matrices that learners of M start from."""

from __future__ import annotations

import numpy as np
import pytest

from metricfast._core.initialize import components_from_metric
from metricfast._core.prior import initialize_metric

X = np.random.RandomState(0).randn(30, 4) @ np.diag([1, 2, 3, 4])


def test_kinds():
    np.testing.assert_array_equal(initialize_metric(X, "identity"), np.eye(4))
    np.testing.assert_allclose(
        initialize_metric(X, "covariance"), np.linalg.inv(np.cov(X.T)), rtol=1e-10
    )
    M = initialize_metric(X, "random", 3)
    np.testing.assert_array_equal(M, initialize_metric(X, "random", 3))
    assert np.linalg.eigvalsh(M).min() > 0
    assert initialize_metric(X[:, :1], "covariance").shape == (1, 1)


def test_arrays_are_copied():
    given = np.diag([1, 2, 3, 0])
    M = initialize_metric(X, given)
    assert M.dtype == np.float64
    np.testing.assert_array_equal(M, given)
    assert not np.shares_memory(M, given)
    rounded = np.eye(4) + 1e3
    rounded[0, 1] += 5e-3  # symmetric but for rounding
    M = initialize_metric(X, rounded)
    np.testing.assert_array_equal(M, M.T)


def test_singular_covariance():
    flat = np.c_[X, X[:, 0]]
    with pytest.warns(UserWarning, match="The covariance matrix is not invertible"):
        M = initialize_metric(flat, "covariance")
    np.testing.assert_allclose(M, np.linalg.pinv(np.cov(flat.T), hermitian=True), atol=1e-10)
    with pytest.raises(np.linalg.LinAlgError, match="Try another `prior`, or an algorithm that"):
        initialize_metric(flat, "covariance", strictly_positive=True)
    with pytest.raises(ValueError, match="at least 2 different points"):
        initialize_metric(X[:1], "covariance")
    with pytest.raises(ValueError, match="squares do not overflow"):
        initialize_metric(X * 1e200, "covariance")


@pytest.mark.parametrize(
    ("prior", "error", "text"),
    [
        (3, ValueError, "`init` must be 'identity'"),
        (np.full((4, 4), np.nan), ValueError, "init contains NaN"),
    ],
)
def test_wrong_matrices(prior, error, text):
    with pytest.raises(error, match=text):
        initialize_metric(X, prior, name="init")


def test_strictly_positive():
    with pytest.raises(np.linalg.LinAlgError, match="This one is not definite"):
        initialize_metric(X, np.diag([1.0, 1, 1, 0]), strictly_positive=True)
    initialize_metric(X, np.diag([1.0, 1, 1, 1e-6]), strictly_positive=True)


def test_leading_components():
    A = np.random.RandomState(1).randn(5, 5)
    M = A @ A.T
    full = components_from_metric(M, n_components=5)
    np.testing.assert_allclose(full.T @ full, M, rtol=1e-10, atol=1e-12)
    leading = components_from_metric(M, n_components=2)
    np.testing.assert_array_equal(leading, full[:2])
    assert (np.diff((full**2).sum(axis=1)) <= 0).all()
    with pytest.raises(ValueError, match=r"Invalid n_components, must be in \[1, 5\]"):
        components_from_metric(M, n_components=6)
