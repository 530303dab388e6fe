import numpy as np
import pytest
import reference_tuples as reference
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from metricfast import MMC
from metricfast._core.dispatch import get_kernels

X, Y = load_iris(return_X_y=True)
PAIRS, KIND = reference.labelled_pairs(X, Y, 400)
both_modes = pytest.mark.parametrize("diagonal", [False, True])


def value(A, points=X, pairs=PAIRS, kind=KIND):
    """Return the objective of MMC, independent of the scale of A."""
    far, near = reference.mmc(A, points, pairs, kind)
    return np.log(far) - np.log(near) / 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("d", "n"), [(1, 1), (3, 7), (20, 700), (70, 300)])
def test_kernel_against_the_definition(d, n, dtype):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(50, d)).astype(dtype)
    pairs, L = rng.integers(50, size=(n, 2)), rng.normal(size=(d, d))
    scale = rng.random((1, d))
    v = points.astype(float)[pairs[:, 0]] - points.astype(float)[pairs[:, 1]]
    for diagonal, M in ((False, L.T @ L), (True, np.diag(scale[0] ** 2))):
        given = scale if diagonal else L
        lengths = np.sqrt([row @ M @ row for row in v])
        for squared in (False, True):
            kernels, scatter = get_kernels(), np.empty((len(given) if diagonal else d, d))
            kernel = kernels.sum_of_squared_distances if squared else kernels.sum_of_distances
            total = kernel(scatter, points, pairs, given, diagonal, 1)
            weights = [1.0 if squared else 1 / length if length else 0.0 for length in lengths]
            expected = sum(w * np.outer(row, row) for w, row in zip(weights, v, strict=True))
            assert total == pytest.approx((lengths ** (1 + squared)).sum(), rel=1e-9)
            np.testing.assert_allclose(
                scatter[0] if diagonal else scatter,
                np.diag(expected) if diagonal else expected,
                rtol=1e-8,
                atol=1e-9,
            )


@pytest.mark.parametrize(
    "init", ["identity", "covariance", "random", np.diag([1.0, 0, 0, 0])], ids=str
)
def test_reaches_the_maximum(init):
    best = reference.best_mmc(X, PAIRS, KIND)
    for tol in (1e-2, 1e-6):
        model = MMC(shrinkage=0, init=init, random_state=0, tol=tol).fit(X[PAIRS], KIND)
        assert model.converged_
        assert best - tol <= value(model.A_) <= best + 1e-6


def test_first_and_only_steps_go_uphill():
    # metric-learn starts along the gradient of the wrong constraint
    start = value(np.eye(4))
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = MMC(shrinkage=0, max_iter=1, tol=1e-9).fit(X[PAIRS], KIND)
    assert model.n_iter_ == 1
    assert not model.converged_
    assert value(model.A_) > start + 0.01


def test_scale_of_the_full_metric_is_set_by_the_initial_one():
    for init in (np.eye(4), 7 * np.eye(4) + 1):
        bound = reference.mmc(init, X, PAIRS, KIND)[1] / 100
        A = MMC(shrinkage=0, init=init).fit(X[PAIRS], KIND).A_
        assert reference.mmc(A, X, PAIRS, KIND)[1] == pytest.approx(bound, rel=1e-9)


def test_diagonal_metric_is_the_minimum_of_its_objective():
    def objective(w, c):
        far, near = reference.mmc(np.diag(w), X, PAIRS, KIND)
        return near - c * np.log(far)

    for c in (1.0, 3.5):
        model = MMC(shrinkage=0, diagonal=True, diagonal_c=c, tol=1e-9).fit(X[PAIRS], KIND)
        w = np.diag(model.A_)
        np.testing.assert_array_equal(model.A_, np.diag(w))
        assert model.n_iter_ > 1
        least, rng = objective(w, c), np.random.default_rng(0)
        for _ in range(50):
            near = np.maximum(
                0, w * (1 + 1e-2 * rng.normal(size=4)) + 1e-4 * rng.random(4) * w.max()
            )
            assert objective(near, c) > least


@both_modes
def test_units_and_order_do_not_matter(diagonal):
    A = MMC(shrinkage=0, diagonal=diagonal, tol=1e-8).fit(X[PAIRS], KIND).A_
    order = np.random.default_rng(0).permutation(len(PAIRS))
    shuffled = (
        MMC(shrinkage=0, diagonal=diagonal, tol=1e-8).fit(X[PAIRS[order][:, ::-1]], KIND[order]).A_
    )
    np.testing.assert_allclose(shuffled, A, rtol=1e-2, atol=1e-3 * A.max())
    for exponent in (-900, 7, 900):
        scaled = (
            MMC(shrinkage=0, diagonal=diagonal, tol=1e-8).fit(np.ldexp(X, exponent)[PAIRS], KIND).A_
        )
        size = 1 if not diagonal else np.trace(scaled) / np.trace(A)
        np.testing.assert_allclose(scaled, A * size, rtol=1e-2, atol=1e-3 * A.max())


def test_units_do_not_matter_to_the_share_of_the_given_distance():
    chosen = [MMC().fit(np.ldexp(X, exponent)[PAIRS], KIND) for exponent in (0, -400, 400)]
    assert len({each.shrinkage_ for each in chosen}) == 1 and chosen[0].shrinkage_ > 0


@both_modes
def test_a_huge_constant_column(diagonal):
    A = MMC(shrinkage=0, diagonal=diagonal).fit(X[PAIRS], KIND).A_
    wider = MMC(shrinkage=0, diagonal=diagonal).fit(np.c_[X, np.full(150, 1e200)][PAIRS], KIND).A_
    np.testing.assert_allclose(wider[:4, :4], A, rtol=0.1, atol=0.01 * A.max())
    assert not wider[4].any()


@both_modes
def test_features_of_any_scale(diagonal):
    scale = np.array([1e-4, 1.0, 30.0, 1e4])
    A = MMC(shrinkage=0, diagonal=diagonal, tol=1e-6).fit((X * scale)[PAIRS], KIND).A_
    plain = MMC(shrinkage=0, diagonal=diagonal, tol=1e-6).fit(X[PAIRS], KIND).A_
    assert value(A, X * scale) == pytest.approx(value(plain), abs=2e-6)


@both_modes
def test_similar_points_that_do_not_differ(diagonal):
    points = np.c_[X, Y, np.full(150, 5.0)]  # the last features are the class and a constant
    with np.errstate(all="raise"):
        model = MMC(shrinkage=0, diagonal=diagonal).fit(points[PAIRS], KIND)
    assert np.isfinite(model.components_).all()
    assert model.A_[4, 4] > 100 * np.diag(model.A_)[:4].max()
    assert np.linalg.eigvalsh(model.A_)[0] > -1e-9 * np.trace(model.A_)
    same = np.array([[0, 0], [3, 3], [0, 60], [1, 70], [2, 140]])
    model = MMC(shrinkage=0, diagonal=diagonal).fit(X[same], [1, 1, -1, -1, -1])
    assert np.isfinite(model.components_).all()
    assert model.components_.any()


@pytest.mark.parametrize(
    ("params", "arguments", "message"),
    [
        ({}, (X[[[0, 1], [5, 5]]], [1, -1]), "dissimilar pair coincide"),
        (
            {"init": np.diag([0.0, 1])},
            (X[PAIRS][:, :, :2] * [1, 0], KIND),
            "`init` must not be zero",
        ),
    ],
)
def test_bad_input(params, arguments, message):
    with pytest.raises(ValueError, match=message):
        MMC(**params).fit(*arguments)


def test_an_interrupted_fit_leaves_the_best_metric(monkeypatch):
    calls = []
    kernel = get_kernels().sum_of_distances

    def interrupting(*arguments):
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return kernel(*arguments)

    monkeypatch.setattr(get_kernels(), "sum_of_distances", interrupting)
    model = MMC(shrinkage=0, tol=1e-9)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[PAIRS], KIND)
    assert not model.converged_
    assert value(model.A_) > value(np.eye(4))
    np.testing.assert_allclose(model.get_mahalanobis_matrix(), model.A_, atol=1e-9)


def test_booleans_of_other_kinds():
    expected = MMC(shrinkage=0, diagonal=True).fit(X[PAIRS], KIND).components_
    for diagonal in (np.True_, 1):
        found = MMC(shrinkage=0, diagonal=diagonal).fit(X[PAIRS], KIND).components_
        np.testing.assert_array_equal(found, expected)
