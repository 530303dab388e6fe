"""Singular values if LAPACK's gesdd fails to converge; roots and inverses of covariances."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
from sklearn.datasets import load_iris

import metricfast
from metricfast import RCA
from metricfast._core import scatter
from metricfast._core.scatter import discriminant_components, principal_components, svd

X, Y = load_iris(return_X_y=True)


@pytest.fixture
def failing(monkeypatch):
    """Replace gesdd by a function that never converges."""
    drivers, plain = [], scipy.linalg.svd

    def decompose(*arguments, lapack_driver="gesdd", **options):
        drivers.append(lapack_driver)
        if lapack_driver == "gesdd":
            raise np.linalg.LinAlgError("SVD did not converge")
        return plain(*arguments, lapack_driver=lapack_driver, **options)

    monkeypatch.setattr(scipy.linalg, "svd", decompose)
    return drivers


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gesvd_decomposes_what_gesdd_does_not(failing, dtype):
    matrix = X[:6].astype(dtype)
    left, sizes, right = svd(matrix)
    assert failing == ["gesdd", "gesvd"]
    assert (left.shape, sizes.shape, right.shape) == ((6, 4), (4,), (4, 4))
    assert left.dtype == dtype
    np.testing.assert_allclose((left * sizes) @ right, matrix, rtol=1e-5)


def test_callers_get_through(failing):
    wide = np.random.default_rng(0).normal(size=(6, 9))
    axes = principal_components(wide, np.ones(6), 6)
    np.testing.assert_allclose(axes @ axes.T, np.eye(6), atol=1e-12)
    assert discriminant_components(X, Y, np.ones(150), 2).shape == (2, 4)
    assert failing == ["gesdd", "gesvd"] * 2


@pytest.mark.parametrize("constant", [False, True])
def test_whitening_takes_an_eigendecomposition_only_of_constant_directions(constant, monkeypatch):
    calls = []
    monkeypatch.setattr(scatter, "eigh", lambda S: (calls.append(S), scipy.linalg.eigh(S))[1])
    S = np.cov(X.T)
    S[3] = S[:, 3] = S[0] * constant + S[3] * (not constant)
    S[3, 3] = S[0, 0] if constant else S[3, 3]
    W = scatter.whiten_within(S)
    np.testing.assert_allclose(W.T @ W, np.linalg.pinv(S, rcond=1e-9), rtol=1e-8, atol=1e-10)
    assert (len(calls), len(W)) == (constant, 4 - constant)


def test_the_root_of_a_covariance_takes_none(failing):
    """With features in very different units, and with repeated features."""
    for points in (X * [1e-3, 1, 1e3, 1e5], X[:, [0, 1, 2, 3, 0]]):
        model = RCA(shrinkage=0).fit(points, np.arange(150) // 5)
        M, L = model.get_mahalanobis_matrix(), model.components_
        deviations = points - points.reshape(30, 5, -1).mean(axis=1).repeat(5, axis=0)
        within = deviations.T @ deviations / 150
        scale = np.sqrt(np.outer(np.diag(M), np.diag(M)))
        np.testing.assert_allclose((M @ within @ M - M) / scale, 0, atol=1e-9)
        np.testing.assert_allclose(L, L.T, atol=1e-9 * np.abs(L).max())
    assert failing == []


def test_no_other_function_is_called():
    pattern = r"linalg\.svd\(|from (numpy|scipy)\.linalg import .*\bsvd\b"
    files = Path(metricfast.__file__).parent.rglob("*.py")
    assert [p.name for p in files if re.search(pattern, p.read_text())] == ["scatter.py"]
