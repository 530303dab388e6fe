"""Tuples given as points, or as indices into an array of points."""

import numpy as np
import pytest
from reference import peak_memory
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from metricfast import GMML, ITML, MMC, NCA, SDML
from metricfast._core.checks import ArrayIndexer
from metricfast._core.tuples import TupleSet, index_tuples
from metricfast.exceptions import PreprocessorError

POINTS = np.arange(12.0).reshape(4, 3)


def indexed(tuples, y=None, preprocessor=None, size=2):
    estimator = BaseEstimator()
    found = index_tuples(
        estimator, tuples, y, preprocessor=preprocessor, reset=True, tuple_size=size
    )
    assert estimator.n_features_in_ == found.points.shape[1]
    return found


@pytest.mark.parametrize(
    "points",
    [
        np.random.RandomState(0).randint(3, size=(9000, 5)) * 0.5,
        np.random.RandomState(0).rand(50, 3)[np.random.RandomState(1).randint(50, size=9000)],
        np.array([[0.0, 1], [-0.0, 1], [-1, 2], [-1, 1]]),
        np.ones((3, 1)),
    ],
    ids=["few values", "repeated", "zeros", "equal"],
)
def test_different_points_are_found_in_lexicographic_order(points):
    index = np.arange(len(points) // 2 * 2).reshape(-1, 2)
    tuples = TupleSet(points, index)
    used = points[: index.size]
    np.testing.assert_array_equal(tuples.used_points(), used)
    np.testing.assert_array_equal(tuples.unique_points(), np.unique(used, axis=0))
    assert tuples.used_points() is points or len(points) % 2
    some = TupleSet(points, index[len(index) // 2 :: 2])
    expected = np.unique(points[some.index.ravel()], axis=0)
    np.testing.assert_array_equal(points[some.unique_rows()], expected)


@pytest.mark.parametrize(
    "learner", [GMML(), ITML(max_iter=2), MMC(max_iter=3, shrinkage=0), SDML(1e-3)], ids=str
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_formed_tuples_are_not_copied(learner):
    rng = np.random.RandomState(0)
    pairs = rng.rand(40_000, 2, 64)
    y = np.where(rng.rand(len(pairs)) < 0.5, 1, -1)
    learner.fit(pairs[:200], y[:200])
    assert peak_memory(lambda: learner.fit(pairs, y)) < pairs.nbytes / 2


@pytest.mark.parametrize(
    ("X", "pairs"),
    [
        (POINTS, [[0.0, 1.0], [1.0, 0.0]]),
        (POINTS.astype(int), [[0, 1], [1, 2]]),
        (POINTS.tolist(), [[0, 1], [1, 2]]),
        (np.asfortranarray(POINTS), [[0, 1], [1, 2]]),
        (csr_array(POINTS), [[0, 1], [1, 2]]),
        (np.where(POINTS == 11, np.nan, POINTS), [[0, 1], [1, 2]]),
    ],
)
def test_what_cannot_be_indexed_is_formed_or_refused(X, pairs):
    try:
        found = indexed(pairs, preprocessor=ArrayIndexer(X))
    except (PreprocessorError, ValueError):
        assert isinstance(pairs[0][0], float)
    else:
        np.testing.assert_array_equal(found.points[found.index], POINTS[pairs])
        assert found.points.flags.c_contiguous


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_sparse_points_those_in_tuples_become_dense(dtype):
    sparse = csr_array(np.eye(5, 3, dtype=dtype))
    found = indexed([[-1, 1], [1, 0]], preprocessor=ArrayIndexer(sparse))
    np.testing.assert_array_equal(found.index, [[2, 1], [1, 0]])
    np.testing.assert_array_equal(found.points, sparse.toarray()[[0, 1, 4]])
    assert found.points.dtype == dtype
    with pytest.raises(PreprocessorError, match="IndexError"):
        indexed([[0, 5]], preprocessor=ArrayIndexer(sparse))


def test_another_width_than_in_fit():
    estimator = BaseEstimator()
    estimator.n_features_in_ = 2
    for preprocessor, pairs in ((ArrayIndexer(POINTS), [[0, 1]] * 3), (None, POINTS[[[0, 1]]])):
        with pytest.raises(ValueError, match="X has 3 features"):
            index_tuples(estimator, pairs, preprocessor=preprocessor, reset=False, tuple_size=2)


@pytest.mark.parametrize("largest", [2**63, 2**64 - 1])
def test_large_unsigned_indices_do_not_wrap(largest):
    points = np.random.RandomState(0).normal(size=(4, 2))
    pairs = np.array([[0, 1], [2, 3], [1, 2], [0, largest]], np.uint64)
    with pytest.raises(PreprocessorError, match=f"index {largest} is out of bounds for 4 points"):
        ITML(preprocessor=points).fit(pairs, [1, 1, -1, -1])
    with pytest.raises(PreprocessorError, match=f"index {largest} is out of bounds for 4 points"):
        NCA(preprocessor=points).fit(pairs[2:].ravel(), [0, 0, 1, 1])
    ITML(preprocessor=points).fit(pairs[:3], [1, 1, -1])
