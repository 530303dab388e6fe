"""NCA, MLKR, MCML and LDML, beyond what `test_embedding_losses.py` tests of all losses."""

import numpy as np
import pytest
from reference import squared_distances
from test_embedding_losses import CASES

from metricfast.losses import LDML, MCML, MLKR, NCA

PRECISIONS = [np.float32, np.float64]
RTOL = {np.float32: 2e-4, np.float64: 1e-6}
BIAS = 2.5
LOSSES = {
    name: case for name, case in CASES.items() if isinstance(case[0], (LDML, MCML, MLKR, NCA))
}
every_loss = pytest.mark.parametrize(("loss", "oracle"), LOSSES.values(), ids=LOSSES)


def problem(n=24, p=3, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)), rng.integers(0, classes, n)


MEANS = [NCA(reduction="mean"), NCA("log", "mean"), MLKR("mean"), MCML("mean")]


@pytest.mark.parametrize("loss", [*(case[0] for case in LOSSES.values()), *MEANS], ids=str)
def test_weights_of_points_equal_repetition(loss):
    Z, y = problem()
    weight = np.random.default_rng(1).integers(0, 4, len(Z))
    repeat, expected = np.repeat(np.arange(len(Z)), weight), np.zeros_like(Z)
    repeated, gradients = loss(Z[repeat], y[repeat])
    np.add.at(expected, repeat, gradients)
    for dtype in PRECISIONS:
        value, grad = loss(Z.astype(dtype), y, sample_weight=weight)
        assert value == pytest.approx(repeated, rel=RTOL[dtype]) and grad.dtype == dtype
        np.testing.assert_allclose(grad, expected, atol=RTOL[dtype] * np.abs(expected).max())


@pytest.mark.parametrize("dtype", PRECISIONS)
@every_loss
def test_far_apart_nothing_overflows(loss, oracle, dtype):
    Z, y = np.array([[0.0], [0.1], [300.0], [300.1]], dtype), np.array([0, 1, 0, 1])
    value, grad = loss(Z, y)
    exact = Z.astype(float)
    assert value == pytest.approx(oracle(exact, y, exact, y, True), rel=1e-5)
    assert np.isfinite(grad).all()


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_columns_beyond_the_window_change_nothing(dtype):
    """With tight groups far apart, the engine uses lists of columns."""
    rng = np.random.default_rng(0)
    Z = (rng.normal(size=(40, 50, 2)) * 0.3 + rng.normal(size=(40, 1, 2)) * 1000).reshape(-1, 2)
    y = rng.normal(size=2000)
    y[7] = 1e3  # the target of an outlier must not matter
    value, grad = MLKR()(Z.astype(dtype), y)
    single = Z.astype(dtype).astype(float)
    D = squared_distances(single, single)
    np.fill_diagonal(D, np.inf)
    p = np.exp(D.min(1, keepdims=True) - D)
    p /= p.sum(1, keepdims=True)
    error = p @ y - y
    w = 2 * error[:, None] * p * ((p @ y)[:, None] - y)
    w += w.T
    assert value == pytest.approx(error @ error, rel=RTOL[dtype])
    expected = 2 * (w.sum(1)[:, None] * single - w @ single)
    np.testing.assert_allclose(grad, expected, atol=RTOL[dtype] * np.abs(expected).max())


def test_the_origin_of_targets_does_not_matter():
    Z, y = problem(30)
    value, grad = MLKR()(Z.astype(np.float32), y)
    moved, moved_grad = MLKR()(Z.astype(np.float32), y + 1e9)
    assert moved == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(moved_grad, grad, atol=1e-5)


@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize("of_itself", [True, False])
def test_errors_of_several_targets_add_up(squared, of_itself):
    Z, _ = problem(300)
    y = np.random.default_rng(1).normal(size=(300, 3)) * [1, 100, 0]
    loss = MLKR(squared=squared)

    def evaluated(y):
        if of_itself:
            return loss(Z, y)
        value, gradients = loss(Z[:40], y[:40], Z, y)
        return value, np.concatenate(gradients)

    value, grad = evaluated(y)
    values, grads = zip(*map(evaluated, y.T), strict=True)
    assert value == pytest.approx(sum(values), rel=1e-12)
    np.testing.assert_allclose(grad, sum(grads), atol=1e-12 * np.abs(grad).max())
    with pytest.raises(ValueError, match=r"y_database must have 3 label dimension.* found 2"):
        loss(Z, y, Z, y[:, :2])


@pytest.mark.parametrize("loss", [NCA("log", squared=False), MLKR(squared=False)], ids=str)
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_points_at_the_same_place_have_a_gradient(loss, dtype):
    """The gradient of a distance is undefined at 0."""
    Z, y = problem(30)
    Z[15:] = Z[:15]
    Z[:3] = Z[3]
    value, grad = loss(Z.astype(dtype), y)
    assert np.isfinite(value)
    assert np.isfinite(grad).all()
    assert np.abs(grad).max() < 30


def test_targets_that_overflow_are_refused():
    Z, y = problem(30)
    for dtype, scale in ((np.float32, 1e17), (np.float64, 1e160)):
        with pytest.raises(ValueError, match="targets are too large"):
            MLKR()(Z.astype(dtype), y * scale)
    with pytest.raises(ValueError, match="y contains NaN or infinity"):
        MLKR()(Z, np.full(30, np.nan))


def test_equal_targets_cost_nothing():
    Z, _ = problem(30)
    value, grad = MLKR()(Z, np.full(30, 3.7))
    assert value == 0
    assert not grad.any()


def test_lone_points_are_skipped_where_they_have_no_part():
    Z, y = np.array([[0.0], [1.0], [2.0]]), [0, 0, 1]
    total, grad = MCML()(Z, y)
    assert total == pytest.approx(1 + np.log(np.exp(-1) + np.exp(-4)) + 1 + np.log(2 * np.exp(-1)))
    assert MCML("mean")(Z, y)[0] == pytest.approx(total / 2)
    assert np.isfinite(grad).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_by_the_bias(weighted):
    Z, y = problem(300)
    weight = np.random.default_rng(1).integers(0, 4, 300) if weighted else None
    loss = LDML(BIAS)
    loss(Z, y, sample_weight=weight)
    high, low = (LDML(BIAS + h)(Z, y, sample_weight=weight)[0] for h in (1e-5, -1e-5))
    assert loss.bias_gradient_ == pytest.approx((high - low) / 2e-5, rel=1e-7)


def test_parameters_are_checked():
    Z, y = problem()
    for loss in (MLKR("sum of squares"), MCML("median")):
        with pytest.raises(ValueError, match="reduction must be 'sum' or 'mean'"):
            loss(Z, y)
    with pytest.raises(ValueError, match="bias must be a finite number"):
        LDML(np.nan)(Z, y)
