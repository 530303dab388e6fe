"""Relevant components analysis against its definition."""

import numpy as np
import pytest
from scipy.linalg import eigh, sqrtm
from sklearn.covariance import OAS
from sklearn.datasets import load_iris

from metricfast import RCA, KernelizedMetricLearner, RCA_Supervised

X, Y = load_iris(return_X_y=True)
CHUNKS = np.arange(150) // 5
CHUNKS[::7] = -1


def covariance_within(points, chunks):
    deviations = [
        points[chunks == j] - points[chunks == j].mean(axis=0) for j in set(chunks[chunks >= 0])
    ]
    return sum(d.T @ d for d in deviations) / (chunks >= 0).sum()


def test_is_the_inverse_root_of_the_covariance_within_chunks():
    expected = np.linalg.inv(sqrtm(covariance_within(X, CHUNKS)).real)
    model = RCA().fit(X, CHUNKS)
    np.testing.assert_allclose(model.components_, expected, rtol=1e-9)
    assert model.shrinkage_ == 0
    # The result of metric-learn 0.7.0.
    np.testing.assert_allclose(
        model.components_[0], [3.26517866, -0.73618753, -1.6680281, 0.10956427]
    )


def test_components_have_the_largest_ratio_of_variances():
    model = RCA(n_components=2).fit(X, CHUNKS)
    within, total = covariance_within(X, CHUNKS), np.cov(X[CHUNKS >= 0].T)
    vectors = eigh(total, within)[1][:, ::-1][:, :2]
    np.testing.assert_allclose(model.get_mahalanobis_matrix(), vectors @ vectors.T, rtol=1e-8)
    # The result of metric-learn 0.7.0.
    np.testing.assert_allclose(
        model.get_mahalanobis_matrix()[0], [2.09236354, 2.58661094, -5.10063358, -1.30186998]
    )


def test_names_of_chunks_do_not_matter():
    expected = RCA().fit(X, CHUNKS).components_
    renamed = np.where(CHUNKS < 0, -3, 1000 - 7 * CHUNKS)
    np.testing.assert_allclose(RCA().fit(X, renamed).components_, expected)
    np.testing.assert_allclose(RCA().fit(X, CHUNKS.astype(float)).components_, expected)


def test_singular_covariance_is_shrunk_with_a_warning():
    few = np.full(150, -1)
    few[[0, 1, 60, 61]] = [0, 0, 1, 1]
    with pytest.warns(UserWarning, match="not invertible"):
        model = RCA().fit(X, few)
    assert 0 < model.shrinkage_ <= 1
    assert np.linalg.matrix_rank(model.components_) == 4
    ignoring = RCA(shrinkage=0.0).fit(X, few)
    assert np.linalg.matrix_rank(ignoring.components_) == 2
    expected = np.linalg.pinv(covariance_within(X, few))
    np.testing.assert_allclose(ignoring.get_mahalanobis_matrix(), expected, rtol=1e-7, atol=1e-7)


def test_automatic_shrinkage_is_that_of_scikit_learn():
    pairs = np.arange(150) // 2
    model = RCA(shrinkage="auto").fit(X, pairs)
    # Differences of pairs are independent samples with mean zero.
    oas = OAS(assume_centered=True).fit((X[::2] - X[1::2]) / np.sqrt(2))
    assert model.shrinkage_ == pytest.approx(oas.shrinkage_)
    expected = np.linalg.inv(oas.covariance_ / 2)
    np.testing.assert_allclose(model.get_mahalanobis_matrix(), expected, rtol=1e-9)


def test_full_shrinkage_is_euclidean():
    M = RCA(shrinkage=1).fit(X, CHUNKS).get_mahalanobis_matrix()
    np.testing.assert_allclose(M, np.eye(4) * M[0, 0], atol=1e-12)


def test_too_many_chunks():
    with pytest.warns(UserWarning, match="fill only 75 chunks"):
        RCA_Supervised(random_state=0).fit(X, Y)


@pytest.mark.parametrize("points", [X, X + 1e8])
def test_points_of_weight_zero_are_in_no_chunk(points):
    weights = np.repeat([1.0, 0.0, 2.0], 50)
    model = RCA_Supervised(n_chunks=40, random_state=0).fit(points, Y, sample_weight=weights)
    kept = weights > 0
    expected = RCA_Supervised(n_chunks=40, random_state=0).fit(
        points[kept], Y[kept], sample_weight=weights[kept]
    )
    np.testing.assert_array_equal(model.components_, expected.components_)


@pytest.mark.parametrize(
    ("model", "chunks", "message"),
    [
        (RCA(), np.full(150, -1), "two different points"),
        (RCA(), np.arange(150), "two different points"),
        (RCA(), Y + 0.5, "whole numbers"),
        (RCA(), np.array(list("abc"))[Y], "whole numbers"),
    ],
)
def test_bad_input(model, chunks, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, chunks)


def test_chunks_of_equal_points():
    with pytest.raises(ValueError, match="two different points"):
        RCA().fit(np.repeat(X[:10] / 3, 3, axis=0), np.repeat(np.arange(10), 3))
    copies, classes = np.repeat([[0.0, 0.0], [1.0, 2.0]], 8, axis=0), np.arange(16) % 2
    with pytest.raises(ValueError, match=r"two different points\. .* random_state"):
        RCA_Supervised(n_chunks=1, random_state=3).fit(copies, classes)
    RCA_Supervised(n_chunks=1, random_state=2).fit(copies, classes)


def test_chunks_that_cannot_be_had():
    with pytest.raises(ValueError, match=r"Not enough possible chunks of 1000 .* Lower chunk_size"):
        RCA_Supervised(chunk_size=1000).fit(X, Y)
    with pytest.raises(ValueError, match="chunks: Expected array-like"):
        RCA().fit(X, None)


def small_chunks(spread):
    """Pairs of points. Chunks differ in the first feature, points of a chunk by `spread`."""
    rng = np.random.default_rng(0)
    centers = 3 * rng.normal(size=(200, 1)) * np.eye(1, len(spread))
    points = np.repeat(centers, 2, axis=0) + rng.normal(size=(400, len(spread))) * spread
    order = rng.permutation(400)
    return points[order], np.repeat(np.arange(200), 2)[order]


def test_validation_holds_whole_chunks_out():
    points, chunks = small_chunks([0.1, 0.1, 30])
    unused = np.where(chunks < 10, -1, chunks)
    found = RCA().fit(points, unused, validate=True).validation_
    assert (found.measure, found.unit, found.n_held_out) == ("order", "groups", 76)
    assert found.costs[1] < 0.1 and 0.3 < found.costs[0] < 0.5
    indexed = RCA(preprocessor=points).fit(np.arange(400), unused.astype(object), validate=True)
    np.testing.assert_array_equal(indexed.validation_.costs, found.costs)
    kernelized = KernelizedMetricLearner(RCA(), "linear", n_components=3, random_state=0)
    linear = kernelized.fit(points, unused, validate=True).validation_
    np.testing.assert_allclose(linear.costs, found.costs, atol=0.02)


def test_validation_warns_and_needs_two_chunks():
    points, chunks = small_chunks([1] + 20 * [0.01])
    with pytest.warns(UserWarning, match="RCA learned is worse .* on 80 held-out groups"):
        RCA().fit(points, chunks, validate=True)
    with pytest.raises(ValueError, match="groups must hold at least 2 groups"):
        RCA(shrinkage="auto").fit(X[:7], [0, 0, 0, 0, 0, -1, -1], validate=True)
