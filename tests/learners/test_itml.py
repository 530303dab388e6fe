import numpy as np
import pytest
from reference_tuples import itml
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from metricfast import ITML, ITML_Supervised, paired_distances
from metricfast._core.dispatch import get_kernels
from metricfast.constraints import Constraints, wrap_pairs

X, Y = load_iris(return_X_y=True)
INDEX = np.array([[i, (37 * i + 11) % 150] for i in range(0, 150, 2)])
LABELS = np.where(Y[INDEX[:, 0]] == Y[INDEX[:, 1]], 1, -1)
BOUNDS = (0.8, 3.5)


def problem(d, m=45, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(30, d)).astype(dtype)
    index = rng.integers(30, size=(m, 2))
    A = rng.normal(size=(d, d))
    return points, index, A @ A.T + np.eye(d)


def run(points, index, n_similar, M, bounds, gamma, sweeps, check=lambda M: None):
    M, duals, moved = M.copy(), np.zeros(len(index)), []

    def after_sweep(change, norm, held):
        assert norm == pytest.approx(np.linalg.norm(duals), rel=1e-12)
        check(M)
        moved.append(change)
        return len(moved) < sweeps

    get_kernels().itml(points, index, n_similar, M, duals, *bounds, gamma, after_sweep)
    return M, duals, moved


def differences(points, index):
    return points[index[:, 0]].astype(np.float64) - points[index[:, 1]].astype(np.float64)


@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 16, 23, 40])
@pytest.mark.parametrize("gamma", [0.1, 1, np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sweeps_are_those_of_the_oracle(d, gamma, dtype):
    points, index, M = problem(d, dtype=dtype)
    bounds = np.array([0.6, 1.7]) * d**2
    similar = np.arange(45) < 19
    sweeps = 5 if gamma < np.inf or d > 2 else 1  # contradictory pairs without slack diverge
    expected = itml(differences(points, index), similar, M, bounds, gamma, sweeps)
    found = run(points, index, 19, M, bounds, gamma, sweeps)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10 * np.abs(b).max())
    np.testing.assert_array_equal(found[0], found[0].T)
    assert np.linalg.eigvalsh(found[0])[0] > 0
    assert found[1].min() >= 0


# Results of metric-learn 0.7 with bounds=np.square(BOUNDS), which it compares with squared
# distances: ITML(gamma=gamma).fit(X[INDEX], LABELS,
# bounds=...).get_mahalanobis_matrix()[triu_indices(4)].
PEER = {
    1.0: [
        *(0.4068952362629857, -0.1795831396038064, -0.3291300736525736, -0.259153159597026),
        *(1.8541283924607184, -0.7099820383764863, -1.1016935113060178, 1.367663214260296),
        *(1.157385105024603, 2.848023487741361),
    ],
    0.1: [
        *(0.6912494081084332, -0.12064842320577525, -0.19757032605270228, -0.07726244909868744),
        *(1.081592436191738, -0.15617258843678608, -0.08134256385076112, 1.1920854091572555),
        *(0.2598811155103421, 1.260870700226178),
    ],
}


@pytest.mark.parametrize(("gamma", "sweeps"), [(1.0, 50), (0.1, 8)])
def test_agrees_with_metric_learn_where_bounds_mean_the_same(gamma, sweeps):
    model = ITML(gamma=gamma).fit(X[INDEX], LABELS, bounds=BOUNDS)
    M = model.get_mahalanobis_matrix()
    np.testing.assert_allclose(M[np.triu_indices(4)], PEER[gamma], rtol=1e-9)
    assert model.n_iter_ == sweeps  # metric-learn counts from 0


def test_bounds_are_distances():
    """Learned distances, not their squares, satisfy the bounds if that is possible."""
    pairs = np.array([[[0.0, 0.0], [3.0, 0.0]], [[0.0, 0.0], [0.0, 0.5]]])
    model = ITML(gamma=np.inf).fit(pairs, [1, -1], bounds=(2.0, 4.0))
    np.testing.assert_allclose(model.pair_distance(pairs), [2, 4], rtol=1e-12)


def test_default_bounds_are_percentiles_of_distances_of_different_points():
    points = np.random.default_rng(0).normal(size=(12, 3))
    index = np.array([[i, (i + s) % 12] for s in (1, 5) for i in range(12)])
    pairs = points[index]
    distances = [np.linalg.norm(a - b) for i, a in enumerate(points) for b in points[:i]]
    y = np.where(np.arange(24) < 12, 1, -1)
    model = ITML(gamma=0.1).fit(pairs, y)
    np.testing.assert_allclose(model.bounds_, np.percentile(distances, (5, 95)))
    prior = np.diag([4.0, 1.0, 9.0])
    scaled = [np.linalg.norm((a - b) * [2, 1, 3]) for i, a in enumerate(points) for b in points[:i]]
    model = ITML(gamma=0.1, prior=prior).fit(pairs, y)
    np.testing.assert_allclose(model.bounds_, np.percentile(scaled, (5, 95)))


def test_default_bounds_of_many_points_are_close_to_the_percentiles():
    points = np.random.default_rng(0).normal(size=(1500, 3))
    model = ITML(gamma=1e-3, preprocessor=points)
    model.fit(np.arange(1500).reshape(-1, 2), np.tile([1, -1], 375))
    left, right = np.triu_indices(1500, 1)
    distances = paired_distances(points[left], points[right])
    shares = [np.mean(distances < bound) for bound in model.bounds_]
    np.testing.assert_allclose(shares, [0.05, 0.95], atol=2e-3)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_given_bounds_are_copied(dtype):
    bounds = np.array([0, 3], dtype=dtype)
    model = ITML(gamma=0.1, max_iter=5, tol=1).fit(X[INDEX], LABELS, bounds=bounds)
    np.testing.assert_array_equal(bounds, [0, 3])
    np.testing.assert_allclose(model.bounds_, [3e-5, 3])
    assert model.bounds_.dtype == np.float64


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([1.0], "`bounds` should be an array-like of two elements."),
        ([0, 0], "nor both zero"),
        ([np.nan, 1], "contains NaN"),
        ([1, np.inf], "contains infinity"),
        ([1e-200, 1], "too far from the scale"),
        ([1, 1e200], "too far from the scale"),
    ],
)
def test_bad_bounds(bounds, message):
    with pytest.raises(ValueError, match=message):
        ITML().fit(X[INDEX], LABELS, bounds=bounds)


@pytest.mark.parametrize("exponent", [-600, -3, 5, 600])
def test_units_change_nothing(exponent):
    factor = 2.0**exponent
    model = ITML(gamma=0.1).fit(X[INDEX], LABELS)
    scaled = ITML(gamma=0.1).fit(X[INDEX] * factor, LABELS)
    np.testing.assert_array_equal(scaled.components_, model.components_)
    np.testing.assert_array_equal(scaled.bounds_, model.bounds_ * factor)
    given = ITML(gamma=0.1).fit(X[INDEX] * factor, LABELS, bounds=scaled.bounds_)
    np.testing.assert_array_equal(given.components_, model.components_)


def test_pairs_of_coinciding_points_are_passed_over():
    rows = np.arange(10)
    more = np.concatenate([INDEX, np.c_[rows, rows]])
    labels = np.concatenate([LABELS, np.tile([1, -1], 5)])
    expected = ITML(gamma=0.1).fit(X[INDEX], LABELS, bounds=BOUNDS)
    model = ITML(gamma=0.1).fit(X[more], labels, bounds=BOUNDS)
    np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore:M is singular", "ignore:No convergence")
def test_duals_that_vanish_beside_the_prior():
    X = np.array([[1e200], [3e200], [-2e200]])
    model = ITML(gamma=2.0, prior=np.array([[1e200]])).fit(X[[[0, 1], [0, 2], [1, 2]]], [1, -1, -1])
    assert np.isfinite(model.components_).all()


def test_only_coinciding_points():
    pairs = np.ones((4, 2, 3))
    with pytest.raises(ValueError, match="All pairs hold the same point"):
        ITML().fit(pairs, [1, 1, -1, -1])


@pytest.mark.parametrize("bounds", [(1e-6, 1.0), (1.0, 1e6), (0.0, 5.0), (1e-12, 1e12)])
def test_contradictions_without_slack_are_reported(bounds):
    index = np.concatenate([INDEX, INDEX])
    labels = np.concatenate([LABELS, -LABELS])
    with pytest.warns(ConvergenceWarning, match="contradict"):
        model = ITML(gamma=np.inf, max_iter=50).fit(X[index], labels, bounds=bounds)
    assert np.isfinite(model.components_).all()
    assert np.abs(model.components_).max() > 0


@pytest.mark.parametrize("bounds", [(1e-6, 1.0), (1e-5, 5.0), (1.0, 1e6), (1e-3, 1e3)])
def test_metric_stays_definite_with_slack(bounds):
    """Also if pairs contradict each other, and bounds are far from the distances."""
    index = np.concatenate([INDEX[LABELS == 1], INDEX, INDEX[LABELS == -1]])
    squares = np.square(bounds)

    def is_definite(M):
        assert np.linalg.eigvalsh(M)[0] > 0

    duals = run(X, index, 75, np.eye(4), squares, 1.0, 200, is_definite)[1]
    assert np.isfinite(duals).all()


def test_convergence_warning_says_what_to_change():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = ITML(max_iter=3).fit(X[INDEX], LABELS)
    assert model.n_iter_ == 3


def test_satisfied_pairs_change_nothing():
    model = ITML().fit(X[INDEX], LABELS, bounds=(100.0, 1e-3))
    assert model.n_iter_ == 1
    np.testing.assert_array_equal(model.components_, np.eye(4))


def test_constant_columns_keep_the_prior():
    pairs = np.concatenate([X[INDEX], np.full((75, 2, 1), 3.0)], axis=2)
    M = ITML(gamma=0.1).fit(pairs, LABELS).get_mahalanobis_matrix()
    np.testing.assert_array_equal(M[4], [0, 0, 0, 0, 1])


def test_order_of_labels_and_kind_of_indicators():
    """Similar pairs are processed first, for any order of the input."""
    model = ITML(gamma=0.1).fit(X[INDEX], LABELS)
    order = np.argsort(LABELS, kind="stable")
    given = ITML(gamma=0.1, preprocessor=X).fit(INDEX[order], LABELS[order])
    np.testing.assert_array_equal(given.components_, model.components_)
    np.testing.assert_array_equal(given.bounds_, model.bounds_)
    assert given.threshold_ == model.threshold_


def test_supervised_is_itml_on_the_drawn_pairs():
    drawn = Constraints(Y).positive_negative_pairs(180, random_state=0)
    expected = ITML(gamma=0.1).fit(*wrap_pairs(X, drawn))
    model = ITML_Supervised(gamma=0.1, random_state=0, shrinkage=0).fit(X, Y)
    np.testing.assert_array_equal(model.components_, expected.components_)
    np.testing.assert_array_equal(model.bounds_, expected.bounds_)
    assert model.n_iter_ == expected.n_iter_
