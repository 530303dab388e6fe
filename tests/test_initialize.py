"""Initial maps and matrices of training, and the map of a given matrix M."""

import numpy as np
import pytest
from minibatch_cases import Counted
from sklearn.datasets import load_digits, load_iris, load_wine, make_spd_matrix
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from metricfast._core.initialize import components_from_metric, initialize_components
from metricfast._core.prior import initialize_metric
from metricfast._core.scatter import repetitions
from metricfast.exceptions import NonPSDError

X, Y = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("init", "n_components", "text"),
    [
        (
            "foo",
            4,
            "`init` must be 'auto', 'pca', 'identity', 'random', 'lda' or a numpy array of shape "
            "(n_components, n_features).",
        ),
        (
            [[1.0]],
            1,
            "`init` must be 'auto', 'pca', 'identity', 'random', 'lda' or a numpy array of shape "
            "(n_components, n_features).",
        ),
        ("lda", 3, "n_components cannot be larger than min(n_features, n_classes - 1)."),
    ],
)
def test_error_text(init, n_components, text):
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole text is compared
        initialize_components(X, Y, init, n_components)
    assert str(raised.value) == text


def test_lda_needs_classes():
    with pytest.raises(ValueError, match="'auto', 'pca', 'identity', 'random' or a numpy array"):
        initialize_components(X, None, "lda", 2)


def test_more_components_than_points():
    text = r"n_components=4 must be between 0 and min\(n_samples, n_features\)=3"
    with pytest.raises(ValueError, match=text):
        initialize_components(X[:3], Y[:3], "pca", 4)
    with pytest.raises(ValueError, match="The number of samples must be more than the number of"):
        initialize_components(X[::50], Y[::50], "lda", 2)


@pytest.mark.parametrize("points", [X, Counted(X)], ids=["array", "source"])
def test_a_class_without_weight_is_no_class(points):
    weight = (Y < 2).astype(float)
    with pytest.raises(ValueError, match="n_components cannot be larger"):
        initialize_components(points, Y, "lda", 2, sample_weight=weight)
    assert initialize_components(points, Y, "lda", 1, sample_weight=weight).shape == (1, 4)


def test_identity_and_random():
    np.testing.assert_array_equal(initialize_components(X, Y, "identity", 3), np.eye(3, 4))
    expected = np.random.RandomState(5).standard_normal((3, 4))
    np.testing.assert_array_equal(initialize_components(X, Y, "random", 3, 5), expected)


@pytest.mark.parametrize(
    ("points", "labels", "n_components", "chosen"),
    [
        (X, Y, 2, "lda"),
        (X, Y, 3, "pca"),
        (X, None, 2, "pca"),
        (X, Y, 4, "identity"),
        (X[:3], Y[:3], 3, "identity"),
        (X[::50], Y[::50], 2, "pca"),
        (X, np.where(Y == 2, 1, Y), 1, "lda"),
        (X, np.zeros_like(Y), 1, "pca"),
    ],
)
def test_automatic_choice(points, labels, n_components, chosen):
    np.testing.assert_array_equal(
        initialize_components(points, labels, "auto", n_components),
        initialize_components(points, labels, chosen, n_components),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
def test_pca_is_that_of_scikit_learn_up_to_sign(load, dtype):
    points = load().data.astype(dtype)
    found = initialize_components(points, None, "pca", 3)
    expected = PCA(3).fit(points.astype(np.float64)).components_
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-6)
    assert (np.take_along_axis(found, np.abs(found).argmax(1)[:, None], 1) > 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
def test_lda_is_that_of_scikit_learn_up_to_sign_and_scale(load, dtype):
    points, labels = load(return_X_y=True)
    n_components = labels.max()
    found = initialize_components(points.astype(dtype), labels, "lda", n_components)
    expected = LinearDiscriminantAnalysis().fit(points, labels).scalings_.T[:n_components]
    scale = np.linalg.norm(found) / np.linalg.norm(expected)
    assert 0.9 < scale < 1.1
    np.testing.assert_allclose(np.abs(found), np.abs(expected) * scale, rtol=1e-3, atol=1e-5)


def test_lda_with_fewer_points_than_features():
    points = RNG.standard_normal((20, 50))
    labels = np.arange(20) % 3
    found = initialize_components(points, labels, "lda", 2)
    expected = LinearDiscriminantAnalysis().fit(points, labels).scalings_.T
    np.testing.assert_allclose(np.abs(found), np.abs(expected), rtol=0.2, atol=1e-6)


def test_lda_has_unit_deviation_within_classes():
    Z = X @ initialize_components(X, Y, "lda", 2).T
    Z -= np.stack([Z[c == Y].mean(axis=0) for c in range(3)])[Y]
    np.testing.assert_allclose(Z.T @ Z / len(Z), np.eye(2), atol=1e-9)


@pytest.mark.parametrize("init", ["auto", "pca", "lda"])
@pytest.mark.parametrize(("n_samples", "n_features"), [(40, 4), (15, 30)])
def test_whole_weights_are_repetitions(init, n_samples, n_features):
    points = RNG.standard_normal((n_samples, n_features)) * np.arange(1, n_features + 1)
    labels = np.arange(n_samples) % 3
    weights = RNG.integers(0, 4, n_samples)
    np.testing.assert_allclose(
        initialize_components(points, labels, init, 2, sample_weight=weights.astype(float)),
        initialize_components(np.repeat(points, weights, 0), np.repeat(labels, weights), init, 2),
        atol=1e-9,
    )


def test_whole_weights_are_repetitions_where_they_decide_the_choice():
    points = RNG.standard_normal((3, 4))
    repeated = np.repeat(points, 2, axis=0)
    weighted = initialize_components(points, None, "auto", 3, sample_weight=np.full(3, 2.0))
    expected = initialize_components(repeated, None, "auto", 3)
    np.testing.assert_allclose(weighted[:2], expected[:2], atol=1e-9)
    assert not np.array_equal(weighted, np.eye(3, 4))


@pytest.mark.parametrize("init", ["auto", "pca", "lda"])
def test_unit_of_weights_does_not_matter(init):
    weights = RNG.random(len(X))
    weights[:5] = 0
    found = initialize_components(X, Y, init, 2, sample_weight=weights)
    same = initialize_components(X, Y, init, 2, sample_weight=weights / weights.sum())
    np.testing.assert_allclose(found, same, rtol=1e-9)
    assert repetitions(weights, len(X)).sum() == pytest.approx(len(X) - 5)


@pytest.mark.parametrize(
    ("points", "labels"),
    [
        (np.repeat(X[[0, 60, 120]], 5, axis=0), np.repeat([0, 1, 2], 5)),
        (np.concatenate([X[:20]] * 3), np.repeat([0, 1, 2], 20)),
    ],
    ids=["no deviation within classes", "equal means"],
)
def test_lda_falls_back_on_pca_where_it_is_not_defined(points, labels):
    found = initialize_components(points, labels, "lda", 2)
    np.testing.assert_allclose(found @ found.T, np.eye(2), atol=1e-9)


def test_lda_rows_beyond_the_rank_are_zero():
    labels = np.arange(90) % 3
    points = RNG.standard_normal((90, 4)) * 0.1
    for c in range(3):
        points[labels == c] -= points[labels == c].mean(axis=0)
    points[:, 0] += labels
    found = initialize_components(points, labels, "lda", 2)
    assert np.abs(found[0]).max() > 1
    np.testing.assert_array_equal(found[1], 0)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9])
@pytest.mark.parametrize("init", ["pca", "lda"])
def test_constant_columns_get_no_weight(init, constant):
    points = np.column_stack([X, np.full(len(X), constant)])
    found = initialize_components(points, Y, init, 2)
    assert np.abs(found[:, 4]).max() < 1e-6 * np.abs(found).max()
    np.testing.assert_allclose(found[:, :4], initialize_components(X, Y, init, 2), rtol=1e-5)


def test_data_of_several_blocks(monkeypatch):
    expected = [initialize_components(X, Y, init, 2) for init in ("pca", "lda")]
    monkeypatch.setattr("metricfast._core.scatter._BLOCK_SIZE", 28)
    for init, components in zip(("pca", "lda"), expected, strict=True):
        np.testing.assert_allclose(initialize_components(X, Y, init, 2), components, rtol=1e-9)


def test_verbose(capsys):
    initialize_components(X, Y, "pca", 2, verbose=True)
    initialize_components(X, Y, "lda", 2, verbose=True)
    printed = capsys.readouterr().err
    assert "Finding principal components... \ndone in" in printed
    assert "Finding most discriminative components... \ndone in" in printed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_map_of_a_definite_matrix_is_its_cholesky_factor(dtype):
    M = make_spd_matrix(5, random_state=0).astype(dtype)
    L = components_from_metric(M)
    assert L.dtype == dtype
    np.testing.assert_array_equal(L, np.triu(L))
    np.testing.assert_allclose(L.T @ L, M, atol=10 * np.finfo(dtype).eps)


def test_map_of_a_diagonal_matrix_is_its_root():
    np.testing.assert_array_equal(components_from_metric([[4, 0], [0, 0]]), [[2, 0], [0, 0]])


@pytest.mark.parametrize("size", [1e-150, 1.0, 1e150])
def test_map_of_a_singular_matrix(size):
    half = RNG.standard_normal((3, 5))
    M = half.T @ half * size
    L = components_from_metric(M)
    np.testing.assert_allclose(L.T @ L, M, atol=1e-13 * np.abs(M).max())


@pytest.mark.parametrize(
    ("M", "error", "text"),
    [
        ([[1.0, 2.0], [0.0, 1.0]], ValueError, "The input metric should be symmetric."),
        ([[1e-9, 2e-9], [0.0, 1e-9]], ValueError, "The input metric should be symmetric."),
        (np.eye(2, 3), ValueError, "The input metric should be symmetric."),
        (np.diag([1.0, -1.0]), NonPSDError, "Matrix is not positive semidefinite"),
        ([[1.0, 2.0], [2.0, 1.0]], NonPSDError, "Matrix is not positive semidefinite"),
        ([[np.nan, 2.0], [2.0, 1.0]], ValueError, "Input metric contains NaN"),
    ],
)
def test_unusable_matrix(M, error, text):
    with pytest.raises(error, match=text):
        components_from_metric(M)


def test_eigenvalues_within_rounding_count_as_zero():
    L = components_from_metric([[1.0, 1.0 + 2e-16], [1.0 + 2e-16, 1.0]])
    np.testing.assert_allclose(L.T @ L, [[1.0, 1.0], [1.0, 1.0]])


POINTS = np.random.RandomState(0).randn(30, 4) @ np.diag([1, 2, 3, 4])


def test_matrices_are_copied():
    given = np.diag([1, 2, 3, 0])
    M = initialize_metric(POINTS, given)
    assert M.dtype == np.float64
    np.testing.assert_array_equal(M, given)
    assert not np.shares_memory(M, given)
    rounded = np.eye(4) + 1e3
    rounded[0, 1] += 5e-3  # symmetric up to rounding
    M = initialize_metric(POINTS, rounded)
    np.testing.assert_array_equal(M, M.T)


def test_singular_covariance():
    flat = np.c_[POINTS, POINTS[:, 0]]
    with pytest.warns(UserWarning, match="The covariance matrix is not invertible"):
        M = initialize_metric(flat, "covariance")
    np.testing.assert_allclose(M, np.linalg.pinv(np.cov(flat.T), hermitian=True), atol=1e-10)
    with pytest.raises(np.linalg.LinAlgError, match="Try another `prior`, or an algorithm that"):
        initialize_metric(flat, "covariance", strictly_positive=True)
    with pytest.raises(ValueError, match="at least 2 different points"):
        initialize_metric(POINTS[:1], "covariance")
    with pytest.raises(ValueError, match="squares for prior='covariance' overflow"):
        initialize_metric(POINTS * 1e200, "covariance")
