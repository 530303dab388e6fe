"""Units of the data, and their scatter."""

import numpy as np
import pytest

from metricfast._core.scaling import (
    center_and_rescale,
    log2_spread,
    mean_of_points,
    rescale_targets,
    times_power_of_two,
)
from metricfast._core.scatter import scatter_matrix

X = np.random.default_rng(0).standard_normal((20, 3))


@pytest.mark.parametrize(
    ("dtype", "usual", "unusual"),
    [
        (np.float64, [2e-3, 1.0, 500], [1e-308, 1e-150, 1e-4, 1e4, 1e150, 5e307]),
        (np.float32, [2e-3, 1.0, 500], [1e-37, 1e-25, 1e-4, 1e4, 1e25, 1e38]),
    ],
)
def test_unusual_units_are_rescaled_to_about_one(dtype, usual, unusual):
    for size in usual:
        given = (X * size).astype(dtype)
        found, exponent = center_and_rescale(given)
        assert exponent == 0
        np.testing.assert_allclose(found, given - given.mean(axis=0), rtol=1e-4, atol=1e-5 * size)
    for size in unusual:
        given = (X * size).astype(dtype)
        found, exponent = center_and_rescale(given)
        assert found.dtype == dtype
        assert 1 <= found.std(axis=0).max() < 2
        back = np.ldexp(found.astype(np.longdouble), exponent)
        wide = given.astype(np.longdouble)
        np.testing.assert_allclose(
            back, wide - wide.mean(axis=0), rtol=1e-4, atol=float(np.longdouble(1e-5) * size)
        )


def test_the_mean_of_constant_columns_is_exact():
    constant = np.full((50, 2), [0.1, 1e9 + 0.1])
    for weight in (None, np.random.RandomState(0).rand(50)):
        np.testing.assert_array_equal(mean_of_points(constant, weight), constant[0])


@pytest.mark.parametrize("size", [1e-100, 1e-2, 50, 1e100])
def test_rescaled_targets_are_as_many_powers_of_two_smaller_as_is_returned(size):
    y = size * (X[:, 0] + 7)
    targets, exponent = rescale_targets(y)
    assert 1 <= targets.std() < 2
    np.testing.assert_allclose(np.ldexp(targets, exponent), y - y.mean(), atol=1e-13 * size)


def test_log2_spread():
    assert log2_spread(np.zeros((3, 2))) is None
    assert log2_spread(np.array([[8.0, 1e-300], [-8.0, 0]])) == (3, 0)
    whole, rest = log2_spread(np.array([[2.0**900 * 3], [2.0**900 * -3]]))
    assert whole == 901
    assert rest == pytest.approx(np.log2(1.5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_times_power_of_two_reaches_beyond_the_largest_factor(dtype):
    smallest = np.finfo(dtype).smallest_subnormal
    one = int(-np.log2(np.longdouble(smallest)))
    found = times_power_of_two(np.array([smallest, 0], dtype), one)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, [1, 0])
    assert times_power_of_two(np.ones(1, dtype), 5000) == np.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (20, 3), (9000, 4), (700, 600)])
def test_scatter_is_the_sum_of_outer_products(n, d, dtype):
    rng = np.random.RandomState(0)
    points, weights = rng.normal(size=(n, d)).astype(dtype), rng.uniform(0, 2, n)
    group, means, scale = rng.randint(3, size=n), rng.normal(size=(3, d)), rng.uniform(1, 2, d)
    expected = np.zeros((d, d))
    for x, weight, of in zip(points.astype(np.float64), weights, group, strict=True):
        deviation = (x - means[of]) / scale
        expected += weight * np.outer(deviation, deviation)
    found = scatter_matrix(points, weights, group, means, scale=scale)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_array_equal(found, found.T)
