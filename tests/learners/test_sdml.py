"""Sparse distance metric learning: optimality conditions."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from working_memory import working_memory

from metricfast import SDML, SDML_Supervised
from metricfast.learners.tuples import graphical_lasso as _graphical_lasso
from metricfast.learners.tuples.graphical_lasso import ScatterOfSpan, graphical_lasso

X, Y = load_iris(return_X_y=True)
INDEX = np.random.RandomState(0).randint(150, size=(60, 2))
LABELS = np.where(Y[INDEX[:, 0]] == Y[INDEX[:, 1]], 1, -1)


def problem(points, index, labels, prior, balance):
    matrix = np.linalg.inv(prior)
    for (i, j), label in zip(index, labels, strict=True):
        matrix = matrix + balance * label * np.outer(points[i] - points[j], points[i] - points[j])
    return matrix


def assert_optimal(M, matrix, sparsity, tol):
    """Check that zero is a subgradient of the objective."""
    slope = matrix - np.linalg.inv(M)
    np.testing.assert_allclose(np.diag(slope), 0, atol=tol)
    off = ~np.eye(len(M), dtype=bool)
    zero = off & (np.abs(M) < 1e-12)
    np.testing.assert_allclose((slope + sparsity * np.sign(M))[off & ~zero], 0, atol=tol)
    assert (np.abs(slope[zero]) <= sparsity + tol).all()


@pytest.mark.parametrize("sparsity", [0, 0.01, 0.1, 10])
@pytest.mark.parametrize("prior", ["identity", "covariance", "given"])
def test_is_the_minimum(sparsity, prior):
    M0 = {
        "identity": np.eye(4),
        "covariance": np.linalg.inv(np.cov(np.unique(X[np.unique(INDEX)], axis=0).T)),
        "given": np.diag([1.0, 2.0, 3.0, 4.0]),
    }[prior]
    model = SDML(2e-4, sparsity, M0 if prior == "given" else prior, preprocessor=X)
    M = model.fit(INDEX, LABELS).get_mahalanobis_matrix()
    matrix = problem(X, INDEX, LABELS, M0, model.balance_param_)
    assert_optimal(M, matrix, sparsity, 1e-5 * np.abs(matrix).max())
    if sparsity == 10:
        np.testing.assert_allclose(M, np.diag(1 / np.diag(matrix)), rtol=1e-6)


@pytest.mark.parametrize("prior", ["identity", "covariance", "random"])
@pytest.mark.parametrize("points", [X, scale(X), X * 100], ids=["iris", "scaled", "hundredfold"])
def test_defaults_give_a_definite_matrix_where_there_is_no_minimum(prior, points):
    model = SDML_Supervised(prior=prior, judge=None, random_state=0)
    with pytest.warns(ConvergenceWarning, match="balance_param=0.5 was reduced to"):
        model.fit(points, Y)
    assert 0 < model.balance_param_ < 0.5
    assert np.linalg.eigvalsh(model.get_mahalanobis_matrix())[0] > 0
    # With the reduced value, there is no warning, and the result is the same.
    again = clone(model).set_params(balance_param=model.balance_param_ * 0.999999)
    M = model.get_mahalanobis_matrix()
    np.testing.assert_allclose(
        again.fit(points, Y).get_mahalanobis_matrix(), M, atol=1e-3 * np.abs(M).max()
    )


def test_similar_pairs_alone_need_no_reduction():
    similar = LABELS == 1
    model = SDML(preprocessor=X).fit(INDEX[similar], LABELS[similar])
    assert model.balance_param_ == 0.5


def test_lasso_converges_for_badly_conditioned_matrices():
    for seed in range(12):
        rng = np.random.RandomState(seed)
        d = rng.randint(2, 16)
        axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
        matrix = (axes * np.logspace(-seed % 4, 0, d)) @ axes.T * 10.0 ** (seed - 6)
        for sparsity in np.array([1e-6, 1e-4, 1e-2, 0.1]) * np.diag(matrix).mean():
            M = graphical_lasso(matrix, sparsity).array()
            assert np.linalg.eigvalsh(M)[0] > 0
            assert_optimal(M, matrix, sparsity, 1e-5 * np.diag(matrix).mean())


def test_lasso_that_runs_out_of_iterations_warns_and_is_definite(monkeypatch):
    monkeypatch.setattr(_graphical_lasso, "MAX_ITER", 2)
    with pytest.warns(ConvergenceWarning, match="did not converge in 2 iterations"):
        model = SDML(2e-4, preprocessor=X).fit(INDEX, LABELS)
    assert np.linalg.eigvalsh(model.get_mahalanobis_matrix())[0] > 0


@pytest.mark.parametrize("scale", [1e154, 1e160, 1e300])
@pytest.mark.parametrize("prior", ["identity", "covariance"])
def test_points_whose_squares_overflow(scale, prior):
    with pytest.raises(ValueError, match="squared distances overflow: scale its features"):
        SDML(prior=prior).fit(X[INDEX] * scale, LABELS)
    with pytest.raises(ValueError, match="squared distances overflow: scale its features"):
        SDML_Supervised(prior=prior).fit(X * scale, Y)


def test_products_without_an_inverse():
    far = np.array([[1e20, 1e20], [0.5, -0.3], [0.1, 0.7], [-0.4, 0.2]])
    with pytest.raises(ValueError, match="balance_param makes of the points has no inverse"):
        SDML(balance_param=1.0).fit(np.stack([far[:3], far[1:]], axis=1), [1, 1, 1])


def test_products_that_overflow():
    for given in ({"prior": np.eye(4) * 1e10}, {"balance_param": 1e20}):
        with pytest.raises(ValueError, match="squared distances overflow: scale its features"):
            SDML(**given).fit(X[INDEX] * 1e150, np.ones(len(INDEX)))


def test_features_that_are_not_connected_are_solved_for_apart():
    S = np.cov(np.random.RandomState(0).randn(9, 20)) + np.eye(9)
    S[:4, 4:] = S[4:, :4] = 0.05
    S[8, :8] = S[:8, 8] = -0.05
    together = graphical_lasso(S, 0.0499).array()
    seen = []
    apart = graphical_lasso(S, 0.0501, lambda *found: seen.append(found[2].array().shape)).array()
    np.testing.assert_allclose(apart, together, atol=2e-3)
    assert not apart[:4, 4:].any() and not apart[8, :8].any()
    gradient = S - np.linalg.inv(apart)
    off = apart != 0
    np.fill_diagonal(off, False)
    np.testing.assert_allclose(gradient[off], -0.0501 * np.sign(apart[off]), atol=1e-5)
    assert np.abs(gradient[~off & ~np.eye(9, dtype=bool)]).max() < 0.0501 + 1e-5
    assert set(seen) == {(9, 9)}


@pytest.mark.parametrize("sparsity", [0.02, 0.05, 0.2])
def test_entries_are_those_of_the_whole_matrix(sparsity):
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(90, 6)) * rng.exponential(size=(90, 1)) ** 4)[0]
    inner = np.diag(np.linspace(-0.6, 4, 6))
    S = np.eye(90) + basis @ inner @ basis.T
    with working_memory(1 << 15):  # several blocks
        found = graphical_lasso(ScatterOfSpan(basis, inner), sparsity)
    expected = graphical_lasso(S, sparsity).array()
    assert 1 < len(found.blocks[0][0]) < 45
    np.testing.assert_allclose(found.array(), expected, atol=1e-9)
    L = found.components(None)
    np.testing.assert_allclose(L.array().T @ L.array(), expected, atol=1e-9)
    leading = found.components(20)
    values = np.linalg.eigvalsh(expected)
    np.testing.assert_allclose(np.square(leading).sum(axis=1), values[::-1][:20])
    np.testing.assert_allclose(leading @ expected, values[::-1][:20, None] * leading, atol=1e-9)


def test_many_features_that_depend_on_each_other_are_warned_of(monkeypatch):
    monkeypatch.setattr("metricfast.learners.tuples.graphical_lasso.MANY_FEATURES", 3)
    S = np.full((5, 5), 0.5) + np.eye(5)
    with pytest.warns(UserWarning, match="5 features depend on each other at sparsity_param=0.1"):
        graphical_lasso(S, 0.1)
