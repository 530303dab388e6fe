"""Sparse compositional metric learning, compared with slow implementations."""

import numpy as np
import pytest
from reference import peak_memory
from reference_tuples import dual_averaging, triplet_objective
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from metricfast import SCML, SCML_Supervised
from metricfast._core.dispatch import get_kernels
from metricfast.constraints import Constraints
from metricfast.learners.tuples.bases import local_discriminants, triplet_directions

X, Y = load_iris(return_X_y=True)
IRIS = Constraints(Y).generate_knntriplets(X, 3, 10)
METRIC_LEARN = [
    [3180.880633310224, -607.3452270823592, 417.73607369264994, 878.2363153279164],
    [-607.3452270823592, 353.0715022453498, 15.071658184834252, 274.2486789807388],
    [417.73607369264994, 15.071658184834252, 583.937806768567, 300.02601727892755],
    [878.2363153279164, 274.2486789807388, 300.02601727892755, 1707.6443569306132],
]
SHORT = {"max_iter": 600, "output_iter": 200, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def problem(n_features, n_basis, dtype=np.float64, seed=0):
    """Triplets of two classes that differ in one direction; other directions are noise."""
    rng = np.random.RandomState(seed)
    points = rng.randn(120, n_features)
    labels = points[:, 0] > 0
    triplets = rng.randint(120, size=(4000, 3))
    a, b, c = labels[triplets].T
    basis = rng.randn(n_basis, n_features)
    return points.astype(dtype), triplets[(a == b) & (a != c)], basis.astype(dtype)


def run_kernel(points, triplets, basis, draws, beta, gamma, period):
    """Return the weights after every period."""
    weights, path = np.zeros(len(basis), points.dtype), []

    def next_draws(n_iter):
        path.append(weights.copy())
        return draws[n_iter : n_iter + period] if n_iter < len(draws) else None

    batch = draws.shape[1]
    get_kernels().scml(points, triplets, basis, (beta, gamma, batch), weights, next_draws)
    return np.array(path[1:])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("beta", [0, 1e-5, 1e-2])
@pytest.mark.parametrize(
    ("n_features", "n_basis", "batch", "n_iter"),
    [(1, 1, 1, 3), (3, 7, 10, 300), (12, 400, 10, 1500), (5, 100, 1, 3000), (33, 50, 25, 200)],
)
def test_every_iteration_is_that_of_the_slow_version(
    n_features, n_basis, batch, n_iter, beta, dtype
):
    points, triplets, basis = problem(n_features, n_basis, dtype)
    draws = np.random.RandomState(1).randint(len(triplets), size=(n_iter, batch))
    expected = dual_averaging(
        points.astype(float), triplets, basis.astype(float), draws, beta, 5e-3
    )
    tol = 1e-10 if dtype is np.float64 else 1e-3
    for period in (1, 77, n_iter):
        found = run_kernel(points, triplets, basis, draws, beta, 5e-3, period)
        seen = np.append(np.arange(period, n_iter, period), n_iter) - 1
        np.testing.assert_allclose(found, expected[seen], rtol=tol, atol=tol * expected.max())
    assert (expected > 0).any()
    if n_basis > 300:  # bases became resting and active again
        started = (expected[1:] > 0) & (expected[:-1] == 0)
        assert started[500:].any() and (expected[-1] == 0).mean() > 0.9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"triplets": np.full((1, 3), 120)}, "index outside the points"),
        ({"triplets": np.full((1, 3), -1)}, "index outside the points"),
        ({"draws": np.full((2, 2), 4000), "period": 2}, "index outside the triplets"),
        ({"basis": np.ones((2, 4))}, "differ in width"),
        ({"gamma": 0.0}, "gamma"),
        ({"beta": -1.0}, "beta"),
    ],
)
def test_kernel_refuses(change, message):
    points, triplets, basis = problem(3, 5)
    given = {"draws": np.zeros((2, 2), np.int64), "triplets": triplets, "basis": basis}
    given |= {"beta": 0.0, "gamma": 1.0, "period": 1} | change
    with pytest.raises(ValueError, match=message):
        run_kernel(points, **given)


def test_same_weights_as_metric_learn_0_7():
    # SCML(max_iter=300, output_iter=100, random_state=3)._fit(X[triplets[:500]], basis, 6), where
    # the basis is RandomState(0).randn(6, 4), gave this Mahalanobis matrix. Ours is a multiple.
    basis = np.random.RandomState(0).randn(6, 4)
    model = SCML(basis=basis, shrinkage=0, max_iter=300, output_iter=100, random_state=3)
    M = model.fit(X[IRIS[:500]]).get_mahalanobis_matrix()
    np.testing.assert_allclose(M / M[0, 0], np.divide(METRIC_LEARN, METRIC_LEARN[0][0]), rtol=1e-8)


def test_a_metric_that_is_zero_is_no_result():
    rng = np.random.RandomState(0)
    a, b, c = rng.randn(3, 50, 4)
    both = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, b], 1)])
    model = SCML(max_iter=300, output_iter=1, gamma=10, random_state=0).fit(both)
    assert 1.0 in model.loss_curve_  # weights were all zero
    assert model.components_.any() and model.objective_ > 1


def test_the_result_is_the_best_of_the_evaluations():
    model = SCML_Supervised(beta=1e-3, shrinkage=0, **SHORT | {"max_iter": 400}).fit(X, Y)
    first, last = model.loss_curve_
    assert model.objective_ == first < last
    assert model.n_iter_ == 400
    rng = np.random.RandomState(0)
    basis = local_discriminants(X, Y, None, rng)
    assert model.weights_.shape == (len(basis),)
    expected = triplet_objective(X, IRIS, basis, model.weights_, 1e-3)
    assert model.objective_ == pytest.approx(expected, rel=1e-9)
    M = basis.T @ (model.weights_[:, None] * basis)
    np.testing.assert_allclose(model.get_mahalanobis_matrix(), M, atol=1e-9 * np.abs(M).max())


def test_weights_of_points_are_those_of_their_triplets():
    weight = np.random.RandomState(0).randint(3, size=len(X)).astype(float)
    model = SCML_Supervised(shrinkage=0, **SHORT).fit(X, Y, sample_weight=weight)
    basis = local_discriminants(X, Y, None, np.random.RandomState(0))
    kept = IRIS[weight[IRIS[:, 0]] > 0]
    expected = triplet_objective(X, kept, basis, model.weights_, 1e-5, weight[kept[:, 0]])
    assert model.objective_ == pytest.approx(expected, rel=1e-9)
    same = SCML_Supervised(shrinkage=0, **SHORT).fit(X, Y, sample_weight=5 * weight)
    np.testing.assert_allclose(same.components_, model.components_)


def test_weighted_draws_follow_the_weights():
    from metricfast.learners.tuples.scml import _draws

    drawn = _draws(np.random.RandomState(0), 3, (10000, 2), np.array([1.0, 0.0, 3.0]))
    share = np.bincount(drawn.ravel(), minlength=3) / drawn.size
    np.testing.assert_allclose(share, [0.25, 0, 0.75], atol=0.02)


def test_an_array_of_bases_works():
    for model, data in ((SCML(), (X[IRIS],)), (SCML_Supervised(), (X, Y))):
        model.set_params(basis=np.eye(4), max_iter=2000, random_state=0).fit(*data)
        M = model.get_mahalanobis_matrix()
        np.testing.assert_array_equal(M, np.diag(np.diag(M)))
        assert (np.diag(M) > 0).any()


def test_gamma_is_used_by_the_supervised_version():
    models = [SCML_Supervised(gamma=gamma, **SHORT).fit(X, Y) for gamma in (5e-3, 5e-2)]
    assert models[0].get_params()["gamma"] == 5e-3
    assert not np.allclose(models[0].weights_, models[1].weights_)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_triplet_directions_are_eigenvectors(dtype):
    triplets = SCML()._prepare_tuples(X[IRIS[:4]].astype(dtype))
    basis = triplet_directions(triplets, 11, np.random.RandomState(0))
    assert basis.shape == (11, 4)
    a, b, c = X[IRIS[:4]].astype(dtype).astype(float).transpose(1, 0, 2)
    S = (a - b).T @ (a - b) - (a - c).T @ (a - c)
    for direction in basis:  # every draw contains all four triplets
        np.testing.assert_allclose(
            S @ direction, (direction @ S @ direction) * direction, atol=1e-10
        )


def test_local_discriminants_separate_the_classes():
    basis = local_discriminants(X, Y, 9, np.random.RandomState(0))
    assert basis.shape == (9, 4)
    np.testing.assert_allclose(np.linalg.norm(basis, axis=1), 1)
    projected = X @ basis.T
    within = np.mean([projected[label == Y].var(axis=0) for label in range(3)], axis=0)
    # the first of each region is its best direction
    assert (projected.var(axis=0) / within)[::2].min() > 5
    assert local_discriminants(X, Y, None, np.random.RandomState(0)).shape == (80, 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_local_discriminants_are_the_same_wherever_the_points_are(dtype):
    points = np.round(X * 64).astype(dtype) / 64  # exact after any shift
    expected = local_discriminants(points, Y, None, np.random.RandomState(0))
    for offset in (2**10, -(2**17)) if dtype == np.float32 else (1e3, -1e8, 2.0**40):
        found = local_discriminants(points + dtype(offset), Y, None, np.random.RandomState(0))
        np.testing.assert_array_equal(found, expected)


def test_the_seed_is_that_of_the_draws():
    one, other = (SCML_Supervised(**SHORT | {"random_state": s}).fit(X, Y) for s in (0, 1))
    assert not np.array_equal(one.weights_, other.weights_)


def test_contradictions_are_told():
    rng = np.random.RandomState(0)
    a, b, c = rng.randn(3, 50, 4)
    both = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, b], 1)])
    with pytest.warns(ConvergenceWarning, match=r"The objective is .* without any it is 1"):
        SCML(**SHORT).fit(both)


def test_memory_does_not_grow_with_triplets_times_bases():
    rng = np.random.RandomState(0)
    points, index = rng.randn(500, 16), rng.randint(500, size=(40000, 3))
    model = SCML(preprocessor=points, max_iter=500, n_basis=1280, random_state=0)
    # A matrix of triplets times bases would take 410e6 bytes.
    assert peak_memory(lambda: model.fit(index)) < 20e6


def test_bad_data():
    with pytest.raises(ValueError, match="Not enough samples to generate 900 LDA bases"):
        SCML_Supervised(n_basis=900).fit(X, Y)
    with pytest.raises(ValueError, match="give no bases"):
        SCML().fit(np.ones((9, 3, 2)))
    with (
        pytest.warns(UserWarning, match="not sufficient to generate"),
        pytest.raises(ValueError, match="There are no triplets"),
    ):
        SCML_Supervised(max_iter=500).fit([[0.0], [1.0]], [0, 1])
    with pytest.warns(UserWarning, match="less than the number of classes"):
        SCML_Supervised(n_basis=2, **SHORT).fit(X, Y)


@pytest.mark.parametrize("basis", ["lda", "triplet_diffs"])
@pytest.mark.parametrize("exponent", [-500, 500])
def test_unusual_units_do_not_matter(basis, exponent):
    far = SCML_Supervised(basis=basis, **SHORT).fit(np.ldexp(X, exponent), Y)
    near = SCML_Supervised(basis=basis, **SHORT).fit(np.ldexp(X, exponent // 10), Y)
    np.testing.assert_allclose(
        np.ldexp(far.components_, exponent), np.ldexp(near.components_, exponent // 10), rtol=1e-9
    )
    with pytest.raises(ValueError, match="X is so small that the weights of its bases overflow"):
        SCML_Supervised(basis=basis, **SHORT).fit(np.ldexp(X, -600), Y)


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


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_euclidean_distance_takes_the_place_of_a_metric_of_zeros():
    points = np.random.default_rng(0).normal(size=(12, 40))
    model = SCML_Supervised(2, 3, max_iter=20, output_iter=20, random_state=0)
    model.fit(points, np.arange(12) % 2)
    assert model.shrinkage_ == 1 and not model.weights_.any()
    np.testing.assert_allclose(model.get_mahalanobis_matrix(), np.eye(40), atol=1e-12)
