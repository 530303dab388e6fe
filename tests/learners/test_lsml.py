import numpy as np
import pytest
import reference_tuples as reference
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from metricfast import LSML, Constraints, LSML_Supervised
from metricfast._core.dispatch import get_kernels

X, Y = load_iris(return_X_y=True)
Q = reference.quadruplets(X, Y, 800)
IDENTITY = np.eye(4)


def matrix(rng, d):
    root = rng.normal(size=(d, d))
    return root @ root.T + 0.1 * np.eye(d)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("d", "n"), [(1, 1), (3, 7), (20, 700), (70, 300)])
def test_kernel_against_finite_differences(d, n, dtype):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(50, d)).astype(dtype)
    q, weights = rng.integers(50, size=(n, 4)), rng.random(n)
    root = np.linalg.cholesky(matrix(rng, d)).T.copy()
    change = rng.normal(size=(d, d))
    change += change.T

    def loss(M):
        L = np.linalg.cholesky(M).T.copy()
        scatter = np.empty((d, d))
        return get_kernels().lsml_loss(scatter, points, q, weights, L, 1), scatter

    M = root.T @ root
    value, scatter = loss(M)
    constant = np.trace(M) - np.linalg.slogdet(M)[1]
    expected = (reference.lsml(M, points.astype(float), q, weights) - constant) * weights.sum()
    assert value == pytest.approx(expected, rel=1e-9)
    h = 1e-6
    slope = (loss(M + h * change)[0] - loss(M - h * change)[0]) / (2 * h)
    assert np.sum(scatter * change) == pytest.approx(slope, rel=1e-4, abs=1e-7)


def test_kernel_refuses_what_does_not_fit():
    out = np.empty_like(IDENTITY)
    with pytest.raises(ValueError, match="outside"):
        get_kernels().lsml_loss(out, X, np.full((1, 4), 150), np.ones(1), IDENTITY, 1)
    with pytest.raises(ValueError, match="differ in width"):
        get_kernels().lsml_loss(out, X, Q, np.ones(len(Q)), np.eye(3), 1)


@pytest.mark.parametrize("weights", [None, np.arange(1.0, len(Q) + 1)])
@pytest.mark.parametrize("prior", ["identity", "covariance", 3 * IDENTITY + 1], ids=str)
def test_is_within_the_bound_of_the_minimum(prior, weights):
    if isinstance(prior, np.ndarray):
        M0 = prior
    else:
        points = np.unique(X[Q].reshape(-1, 4), axis=0)
        M0 = IDENTITY if prior == "identity" else np.linalg.inv(np.cov(points.T))
    rough, exact = (LSML(prior=prior, tol=tol).fit(X[Q], weights) for tol in (1e-2, 1e-7))
    M = exact.get_mahalanobis_matrix()
    least = reference.lsml(M, X, Q, weights, M0)
    left = reference.lsml(rough.get_mahalanobis_matrix(), X, Q, weights, M0) - least
    assert 0 <= left < 1e-4 / 2 * 1.1
    rng = np.random.default_rng(0)
    for _ in range(20):
        root = IDENTITY + 1e-3 * rng.normal(size=(4, 4))
        assert reference.lsml(root.T @ M @ root, X, Q, weights, M0) > least


def test_without_violations_the_prior_stays():
    q = np.array([[0, 1, 0, 100]])
    for prior in ("covariance", 3 * IDENTITY + 1):
        model = LSML(prior=prior).fit(X[np.repeat(q, 4, axis=0) + np.arange(4)[:, None]])
        if not isinstance(prior, str):
            np.testing.assert_allclose(model.get_mahalanobis_matrix(), prior, rtol=1e-6)
        assert model.n_iter_ == 1


def test_features_of_any_scale():
    scale = np.array([1e-3, 1.0, 30.0, 1e3])
    M = LSML(prior="covariance").fit(X[Q]).get_mahalanobis_matrix()
    scaled = LSML(prior="covariance").fit((X * scale)[Q]).get_mahalanobis_matrix()
    np.testing.assert_allclose(scaled * np.outer(scale, scale), M, rtol=1e-2, atol=1e-2)
    model = LSML().fit((X * scale)[Q])  # the scale of the identity fits no feature
    assert np.isfinite(model.components_).all()


def test_weights_are_kept_as_given():
    weights = np.arange(1.0, len(Q) + 1)
    given = weights.copy()
    model = LSML().fit(X[Q], weights)
    np.testing.assert_array_equal(weights, given)
    np.testing.assert_allclose(model.w_, weights / weights.sum())
    from_list = LSML().fit(X[Q], weights.tolist())
    np.testing.assert_array_equal(from_list.components_, model.components_)
    equal = LSML().fit(X[Q])
    np.testing.assert_allclose(equal.w_, 1 / len(Q))
    supervised = LSML_Supervised(n_constraints=30, weights=weights[:30].tolist(), random_state=0)
    np.testing.assert_allclose(supervised.fit(X, Y).w_, weights[:30] / weights[:30].sum())


@pytest.mark.parametrize(
    ("params", "arguments", "message"),
    [
        ({}, (X[Q], np.zeros(len(Q))), "weights must not be zero"),
        ({}, (X[Q] * 1e200,), "squared distances under the prior overflow"),
    ],
)
def test_bad_input(params, arguments, message):
    with pytest.raises(ValueError, match=message):
        LSML(**params).fit(*arguments)


@pytest.mark.filterwarnings("ignore:Only generated")
def test_supervised_needs_pairs():
    with pytest.raises(ValueError, match="class of at least 2 points"):
        LSML_Supervised().fit(X[:5], np.arange(5))


def test_small_units_do_not_leave_the_prior_alone():
    small = X / 1000
    model = LSML_Supervised(tol=1e-6, random_state=0, judge=None).fit(small, Y)
    M = model.get_mahalanobis_matrix()
    assert np.abs(M - np.eye(4)).max() > 0.05
    assert np.abs(LSML().fit(small[Q]).get_mahalanobis_matrix() - np.eye(4)).max() < 1e-4
    tiny = LSML_Supervised(tol=1e-6, random_state=0, judge=None).fit(small / 1000, Y)
    np.testing.assert_allclose(tiny.get_mahalanobis_matrix(), M, rtol=1e-4, atol=1e-5)
    large = LSML_Supervised(tol=1e-6, random_state=0, judge=None).fit(X * 10, Y)
    pairs = Constraints(Y).positive_negative_pairs(len(large.w_), same_length=True, random_state=0)
    plain = LSML(tol=1e-6).fit(10 * X[np.column_stack(pairs)])
    np.testing.assert_allclose(
        large.get_mahalanobis_matrix(), plain.get_mahalanobis_matrix(), rtol=1e-4, atol=1e-5
    )
    same = LSML_Supervised(random_state=0).fit(
        np.repeat(X[[0, 60, 120]], 30, axis=0), np.repeat([0, 1, 2], 30)
    )
    assert np.isfinite(same.components_).all()


def test_the_iteration_limit_is_reported():
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        assert LSML(max_iter=1).fit(X[Q]).n_iter_ == 1


def test_an_interrupted_fit_leaves_the_best_map(monkeypatch):
    calls = []
    kernel = get_kernels().lsml_loss

    def interrupting(*arguments):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return kernel(*arguments)

    monkeypatch.setattr(get_kernels(), "lsml_loss", interrupting)
    model = LSML(tol=1e-9)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[Q])
    M = model.get_mahalanobis_matrix()
    assert reference.lsml(M, X, Q) < reference.lsml(IDENTITY, X, Q)
