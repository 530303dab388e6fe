"""Merged statistics of blocks equal the statistics of all points."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from working_memory import working_memory

from metricfast import sources
from metricfast._core.scatter_statistics import ScatterStatistics

Floats = NDArray[np.float64]
N, D = 500, 4


def points(offset: float = 1e3, scale: float = 1.0) -> Floats:
    rng = np.random.RandomState(0)
    return scale * (rng.randn(N, D) @ rng.randn(D, D) + offset)


def expected(X: Floats, w: Floats, g: Any) -> tuple[list[float], list[Floats], list[Floats]]:
    """Return weights, means and scatters of groups in long double."""
    weights, means, scatters = [], [], []
    for label in np.unique(g):
        rows, v = X[g == label].astype(np.longdouble), w[g == label]
        mean = v @ rows / v.sum()
        weights.append(v.sum())
        means.append(mean.astype(float))
        scatters.append((((rows - mean) * v[:, None]).T @ (rows - mean)).astype(float))
    return weights, means, scatters


@pytest.mark.parametrize("per_group", [False, True])
@pytest.mark.parametrize(("offset", "scale"), [(1e3, 1.0), (1e7, 1.0), (0, 1e-250), (10, 1e220)])
@pytest.mark.parametrize("how", ["one", "source", "merged", "known"])
def test_sums_of_parts_are_those_of_all(
    how: str, offset: float, scale: float, per_group: bool
) -> None:
    X, rng = points(offset, scale), np.random.RandomState(1)
    # Groups are text and appear late; some points, and one whole part, have zero weight.
    w, g = rng.randint(0, 4, N) / 2.0, np.array(["a", "b", "later"])[np.sort(rng.randint(0, 3, N))]
    w[100:150] = 0
    sums = ScatterStatistics(D, np.unique(g) if how == "known" else None, per_group=per_group)
    if how == "one":
        sums.add(X, w, g)
    elif how == "source":
        with working_memory(16 << 10):
            sums.add(sources.Rows(X), w, g)
    else:
        for rows in np.array_split(rng.permutation(N) if how == "known" else np.arange(N), 10):
            part = ScatterStatistics(D, per_group=per_group).add(X[rows], w[rows], g[rows])
            sums.merge(pickle.loads(pickle.dumps(part)))
    weights, means, scatters = expected(X / scale, w, g)
    assert sums.groups.tolist() == ["a", "b", "later"]
    np.testing.assert_allclose(sums.weights, weights)
    unit = 2.0**sums.exponent / scale
    np.testing.assert_allclose(sums.origin / scale + sums.means * unit, means, rtol=1e-12)
    if per_group:
        np.testing.assert_allclose(sums.scatters * unit**2, scatters, rtol=1e-8 + 1e-15 * offset)
    np.testing.assert_allclose(
        sums.within * unit**2, np.sum(scatters, axis=0), rtol=1e-10 + 1e-15 * offset
    )
    assert sums.n_points == np.count_nonzero(w) and not sums.whole
    np.testing.assert_allclose(sums.counted().weights.sum(), sums.n_points)
