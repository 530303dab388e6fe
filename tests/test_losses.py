"""Losses compared with triple loops and finite differences."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from reference import lmnn, numeric_gradient, squared_distances

from metricfast.losses import LMNN, NCA

PRECISIONS = [np.float32, np.float64]
RTOL = {np.float32: 2e-4, np.float64: 1e-6}


def problem(n=24, p=3, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)), rng.integers(0, classes, n)


def test_nca_lone_anchors():
    Z, y = np.array([[0.0], [1.0], [2.0]]), [0, 0, 1]
    value_sum, _ = NCA("sum")(Z, y)
    value_log, grad = NCA("log")(Z, y)
    e = np.exp
    p0, p1 = e(-1) / (e(-1) + e(-4)), 0.5
    assert value_sum == pytest.approx(-(p0 + p1))
    assert value_log == pytest.approx(-np.log(p0) - np.log(p1))
    mean, _ = NCA("log", reduction="mean")(Z, y)
    assert mean == pytest.approx(value_log / 2)
    assert np.isfinite(grad).all()


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("listed", [False, True])
def test_lmnn(dtype, k, weighted, listed):
    Z, y = problem(24, seed=k)
    weight = np.random.default_rng(1).random(24) if weighted else None
    loss = LMNN(n_neighbors=k, regularization=0.3, margin=0.7)
    targets = LMNN.find_targets(Z, y, k)
    same = [[j for j in np.flatnonzero(y == y[i]) if j != i] for i in range(24)]
    D = squared_distances(Z, Z)
    for i in range(24):
        np.testing.assert_array_equal(targets[i], sorted(same[i], key=lambda j: D[i, j])[:k])
    Z = Z.astype(dtype)
    lists = LMNN.find_impostors(Z, y, targets, slack=0.1, margin=0.7) if listed else None
    value, grad = loss(Z, y, targets=targets, impostors=lists, sample_weight=weight)
    assert grad.dtype == dtype

    def smooth(A):
        return lmnn(A, y, targets, 0.3, 0.7, weight)

    assert value == pytest.approx(smooth(Z), rel=RTOL[dtype])
    expected = numeric_gradient(smooth, Z.astype(float), 1e-7)
    np.testing.assert_allclose(grad, expected, rtol=100 * RTOL[dtype], atol=1e-3)


@pytest.mark.parametrize("apart", [0.5, 100.0], ids=["impostors", "none"])
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_lmnn_divides_by_the_terms_above_zero(dtype, apart):
    Z, y = problem()
    Z = (Z + apart * y[:, None]).astype(dtype)
    targets = LMNN.find_targets(Z, y, 2)
    D = squared_distances(Z, Z)
    hinges = [
        1 + D[i, t] - D[i, j]
        for i in range(24)
        for t in targets[i]
        for j in np.flatnonzero(y != y[i])
    ]
    terms = 24 * 2 + (np.array(hinges) > 0).sum()
    assert (terms > 48) == (apart < 1)
    total, of_sum = LMNN(2)(Z, y, targets=targets)
    loss = LMNN(2, reduction="mean_nonzero")
    value, grad = loss(Z, y, targets=targets)
    assert loss.counts_["terms"] == terms
    assert value == pytest.approx(total / terms, rel=1e-6)
    np.testing.assert_allclose(grad, of_sum / terms, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("margin", [1e-3, 1e3], ids=["few", "many"])
def test_lmnn_of_whole_rows_is_that_of_lists(margin):
    Z, y = problem(2500, 6, 40)
    Z = Z.astype(np.float32)
    targets = LMNN.find_targets(Z, y, 3)
    loss = LMNN(margin=margin)
    lists = LMNN.find_impostors(Z, y, targets, margin=margin)
    value, grad = loss(Z, y, targets=targets)
    active = loss.counts_["terms"]
    expected, expected_grad = loss(Z, y, targets=targets, impostors=lists)
    assert active == pytest.approx(loss.counts_["terms"], rel=1e-3)
    assert value == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(grad, expected_grad, atol=1e-4 * np.abs(expected_grad).max())


def test_many_impostors_take_no_more_memory_than_few():
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("peak memory is read as Linux has it")
    Z, y = problem(4000, 6, 40)
    targets = LMNN.find_targets(Z, y, 3)

    def peak(margin: float) -> int:
        status.with_name("clear_refs").write_text("5")
        LMNN(margin=margin)(Z, y, targets=targets)
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) >> 10

    assert peak(1e3) < peak(1e-3) + 100


def test_off_centre_float32_gradients_keep_their_digits():
    Z, y = problem(60)
    _, exact = NCA()(Z, y)
    shifted = (Z + 1000).astype(np.float32)
    _, grad = NCA()(shifted, y)
    _, rounded = NCA()(shifted.astype(np.float64), y)
    np.testing.assert_allclose(grad, rounded, rtol=1e-3, atol=1e-5)
    assert abs(exact).max() > 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda Z, y: LMNN()(Z, y, targets=np.full((24, 1), 24)), "targets must hold indices"),
        (lambda Z, y: LMNN()(Z, y, exclude=np.full(24, 99)), "exclude must hold indices"),
        (lambda Z, y: LMNN.find_targets(Z, np.arange(24), 1), "has 1 member"),
        (lambda Z, y: LMNN.find_targets(Z, np.arange(24).astype(str), 1), "Class 0 of y has 1"),
        (LMNN(margin=np.nan), "margin must be a finite number"),
        (LMNN(regularization=-3), "regularization must be from 0 to 1"),
        (
            lambda Z, y: LMNN()(
                Z,
                y,
                targets=np.zeros((24, 1), int),
                impostors=(np.zeros(25, int), np.empty(0, int)),
            ),
            "must contain its targets",
        ),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(*problem())


@pytest.mark.parametrize("form", ["sum", "log"])
def test_nca_gradients_of_anchors_that_are_nearly_right(form):
    # p rounds to 1, so weights must not be computed as 1 - p.
    anchor, far = np.zeros((1, 1), np.float32), 3.9
    database = np.append(np.linspace(0.3, 0.8, 32), far)[:, None]
    labels = np.array([0] * 32 + [1])
    _, (grad, grad_database) = NCA(form)(anchor, [0], database.astype(np.float32), labels)
    _, (exact, exact_database) = NCA(form)(anchor.astype(float), [0], database, labels)
    kernel = np.exp(-(database.ravel() ** 2))
    p = kernel[:32].sum() / kernel.sum()
    factor = 1.0 if form == "sum" else 1 / p
    rest = kernel[32] / kernel.sum()  # 1 - p
    closed = 2 * factor * kernel[:32] / kernel.sum() * rest * database[:32, 0]
    np.testing.assert_allclose(exact_database[:32, 0], closed, rtol=1e-9)
    np.testing.assert_allclose(grad_database, exact_database, rtol=1e-4)
    np.testing.assert_allclose(grad, exact, rtol=1e-3)


def test_lmnn_mean_weighs_anchors():
    Z, y = problem()
    targets = LMNN.find_targets(Z, y, 2)
    weight = np.arange(24.0)
    total, _ = LMNN()(Z, y, targets=targets, sample_weight=weight)
    mean, _ = LMNN(reduction="mean")(Z, y, targets=targets, sample_weight=weight)
    assert mean == pytest.approx(total / weight.sum())


def test_targets_where_only_some_anchors_leave_a_point_out():
    loss = LMNN(n_neighbors=2, regularization=1.0)
    value, _ = loss([[0.0], [5.0]], [0, 0], [[0.0], [1.0], [9.0]], [0, 0, 1], exclude=[0, -1])
    assert value == 1 + 25 + 16


def test_weights_and_exclusion_of_another_point():
    Z, y = problem(6)
    leave_out = np.array([1, 0, 2, 3, 4, 5])
    weighted, _ = NCA()(Z, y, exclude=leave_out, sample_weight=np.ones(6))
    D = squared_distances(Z, Z)
    expected = 0.0
    for i in range(6):
        others = [j for j in range(6) if j != leave_out[i]]
        kernel = {j: np.exp(-D[i, j]) for j in others}
        expected -= sum(kernel[j] for j in others if y[j] == y[i]) / sum(kernel.values())
    plain, _ = NCA()(Z, y, exclude=leave_out)
    assert plain == pytest.approx(expected)
    assert weighted == pytest.approx(expected)
