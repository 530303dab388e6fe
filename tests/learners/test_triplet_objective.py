"""The best multiple of a metric for its triplets, against all corners of the objective."""

from __future__ import annotations

import numpy as np
import pytest

from metricfast._core.dispatch import get_kernels


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("penalty", [0, 0.3])
@pytest.mark.parametrize("n_triplets", [1, 7, 5000])
def test_best_multiple_of_a_metric(n_triplets, penalty, weighted):
    rng = np.random.RandomState(0)
    points, triplets = rng.randn(120, 5), rng.randint(120, size=(n_triplets, 3))
    triplets[1::2, :2] = triplets[: n_triplets // 2 * 2 : 2, :2]  # share a pair
    weight = rng.rand(n_triplets) if weighted else None
    found = []
    for L in (1e-3 * np.eye(1, 5), 40 * np.eye(1, 5), rng.randn(3, 5), np.zeros((1, 5))):
        a, b, c = (points @ L.T)[triplets.T]
        changes = ((a - b) ** 2 - (a - c) ** 2).sum(axis=1)
        corners = np.append(-1 / changes[changes < 0], 1.0)
        hinges = np.maximum(1 + corners[:, None] * changes, 0)
        values = np.average(hinges, axis=1, weights=weight) + corners * penalty
        slope = np.average(changes, weights=weight) + penalty
        expected = values.min() if slope < 0 else values[-1]
        value, scale = get_kernels().triplet_objective(points, L, triplets, weight, penalty, 2)
        assert value == pytest.approx(expected, rel=2e-6)
        assert scale > 0 if slope < 0 else scale == 1
        at_scale = np.average(np.maximum(1 + scale * changes, 0), weights=weight) + scale * penalty
        assert value == pytest.approx(at_scale, rel=1e-9)
        found.append(value)
    assert found[-1] == pytest.approx(1 + penalty)


def test_overflow_is_told_and_bad_indices_are_refused():
    points, L = np.array([[0.0], [1e200], [2e200]]), np.ones((1, 1))
    triplets = np.array([[0, 1, 2], [0, 2, 1]])
    objective = get_kernels().triplet_objective
    assert not np.isfinite(objective(points, L, triplets, None, 0.0, 1)[0])
    for index in (-1, 3):
        with pytest.raises(ValueError, match="index outside the points"):
            objective(points, L, np.array([[0, 1, index]]), None, 0.0, 1)


def test_results_do_not_depend_on_threads():
    rng = np.random.RandomState(0)
    points, triplets, L = rng.randn(2000, 9), rng.randint(2000, size=(30000, 3)), rng.randn(4, 9)
    values = {get_kernels().triplet_objective(points, L, triplets, None, 0.0, t) for t in (1, 2, 3)}
    assert len(values) == 1
