"""Scatter matrices of groups against their definition."""

from __future__ import annotations

import numpy as np
import pytest

from metricfast._core.dispatch import get_kernels
from metricfast._core.scatter import scatter_matrix


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (20, 3), (9000, 4), (700, 600)])
def test_is_the_sum_of_outer_products(n, d, dtype):
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


def test_does_not_depend_on_threads():
    rng = np.random.RandomState(0)
    points, found = rng.normal(size=(5000, 80)), np.empty((2, 80, 80))
    for threads in (1, 2):
        get_kernels().group_scatter(
            points, np.ones(5000), np.zeros(5000, np.int64), np.zeros((1, 80)), np.ones(80),
            found[threads - 1], threads,
        )  # fmt: skip
    np.testing.assert_array_equal(*found)


def test_groups_must_have_means():
    with pytest.raises(ValueError, match="a group has no mean"):
        scatter_matrix(np.ones((2, 2)), np.ones(2), np.array([0, 1]), np.zeros((1, 2)))
