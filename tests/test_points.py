"""Operations on points of any kind."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from metricfast import sources
from metricfast._core.points import (
    apply_map,
    dense,
    map_gradient,
    spread_of_features,
    stacked,
    values_of,
)

X = np.random.RandomState(0).randn(30, 4) * (np.arange(30) % 3 > 0)[:, None]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_points_are_mapped_as_dense_ones(dtype: type) -> None:
    rng, points = np.random.RandomState(1), X.astype(dtype)
    L, upstream = rng.randn(2, 4), rng.randn(30, 2)
    for kind in (points, csr_array(points)):
        Z = apply_map(kind, L)
        assert Z.dtype == dtype
        np.testing.assert_allclose(Z, X @ L.T, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(map_gradient(upstream, kind), upstream.T @ X, atol=1e-4)


def test_kinds_of_points() -> None:
    sparse = csr_array(X)
    for kind in (X, sparse):
        np.testing.assert_array_equal(dense(kind), X)
        np.testing.assert_array_equal(dense(stacked((X, kind))), np.vstack((X, X)))
        assert np.square(values_of(kind)).sum() == pytest.approx(np.square(X).sum())
    spreads = [spread_of_features(kind) for kind in (X, sparse, sources.Rows(X))]
    for spread in spreads:
        np.testing.assert_allclose(spread / spread[0], X.std(axis=0) / X[:, 0].std())


def test_rows_of_a_source_are_indexed_as_those_of_an_array() -> None:
    source = sources.Rows(X)
    np.testing.assert_array_equal(source[[-1, 3, -30]], X[[-1, 3, -30]])
    np.testing.assert_array_equal(source[-2], X[-2])
    assert source[[]].shape == (0, 4)
    with pytest.raises(IndexError, match="whole numbers; found float64"):
        source[np.array([0.0, 1.0])]
    with pytest.raises(IndexError, match="rows must be from 0 to 29"):
        source[[-31]]
