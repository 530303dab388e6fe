"""Rescaling of huge and of tiny data."""

from __future__ import annotations

import numpy as np
import pytest

from metricfast._scaling import power_of_two_scale


@pytest.mark.parametrize(
    ("dtype", "usual", "extreme", "safe"),
    [
        (np.float64, [1e-30, 1.0, 1e50], [1e-308, 1e-150, 1e150, 1e307], 1e60),
        (np.float32, [1e-6, 1.0, 1e6], [1e-36, 1e-25, 1e25, 1e37], 1e7),
    ],
)
def test_scale(dtype, usual, extreme, safe):
    X = np.random.default_rng(0).standard_normal((20, 3))
    for size in usual:
        assert power_of_two_scale((X * size).astype(dtype)) == 1
    for size in extreme:
        given = (X * size).astype(dtype)
        scale = power_of_two_scale(given)
        assert np.frexp(scale)[0] == 0.5
        scaled = given * dtype(scale)
        assert scaled.dtype == dtype
        assert 1 / safe < np.ptp(scaled, axis=0).max() < safe
        np.testing.assert_array_equal(scaled / dtype(scale), given)


def test_scale_where_the_width_overflows():
    X = np.array([[-1.7e308], [1.7e308]])
    assert np.isfinite(np.ptp(X * power_of_two_scale(X)) ** 4)


def test_scale_of_equal_rows():
    assert power_of_two_scale(np.zeros((3, 2))) == 1
    assert power_of_two_scale(np.full((3, 2), 1e-200)) == 1
    assert power_of_two_scale(np.full((3, 2), 1e200)) < 1e-190
