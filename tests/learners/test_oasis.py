"""Online learning of a bilinear similarity, compared with a slow implementation."""

import pickle

import numpy as np
import pytest
from reference_tuples import passive_aggressive
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from metricfast import OASIS, OASIS_Supervised
from metricfast.constraints import Constraints
from metricfast.selection._splits import split_points

X, Y = load_iris(return_X_y=True)
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)
IRIS = Constraints(Y).generate_knntriplets(X, 3, 10)
RNG = np.random.RandomState(0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_features", [1, 3, 17, 64])
@pytest.mark.parametrize("C", [1e-3, 0.1, 10.0])
def test_one_pass_is_that_of_the_slow_version(n_features, C, dtype):
    points = RNG.randn(40, n_features).astype(dtype)
    points[RNG.rand(*points.shape) < 0.4] = 0
    triplets = RNG.randint(40, size=(200, 3))
    start = RNG.randn(n_features, n_features)
    W, losses = passive_aggressive(points.astype(float), triplets, start.astype(dtype), C)
    model = OASIS(max_iter=1, C=C, init=start, shuffle=False, preprocessor=points).fit(triplets)
    tol = 1e-10 if dtype is np.float64 else 1e-4
    np.testing.assert_allclose(model.bilinear_, W, rtol=tol, atol=tol * np.abs(W).max())
    assert model.bilinear_.dtype == dtype
    np.testing.assert_allclose(model.loss_curve_, [np.mean(losses)], rtol=tol)
    assert not np.array_equal(W, start)


@pytest.mark.parametrize("C", [1e-3, 0.1, 10.0])
def test_weights_multiply_the_longest_step(C):
    weight = RNG.randint(3, size=len(IRIS)).astype(float)
    start = np.eye(4)
    W, losses = passive_aggressive(UNIT, IRIS, start, C * weight)
    model = OASIS(max_iter=1, C=C, shuffle=False, preprocessor=UNIT)
    model.fit(IRIS, sample_weight=weight)
    np.testing.assert_allclose(model.bilinear_, W, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(model.loss_curve_, [np.average(losses, weights=weight)])
    kept = OASIS(max_iter=1, C=C, shuffle=False, preprocessor=UNIT)
    kept.fit(IRIS[weight > 0], sample_weight=weight[weight > 0])
    np.testing.assert_array_equal(model.bilinear_, kept.bilinear_)
    parts = OASIS(C=C, shuffle=False, preprocessor=UNIT)
    for part in (slice(0, 900), slice(900, None)):
        parts.partial_fit(IRIS[part], sample_weight=weight[part])
    np.testing.assert_array_equal(model.bilinear_, parts.bilinear_)


@pytest.mark.filterwarnings("ignore:The class 3 has 1 elements")
def test_weights_of_points_are_those_of_their_triplets():
    weight = RNG.uniform(size=len(X)) * (np.arange(len(X)) % 5 > 0)
    found = OASIS_Supervised(random_state=0).fit(X, Y, sample_weight=weight)
    expected = OASIS(preprocessor=X, random_state=0)
    expected.fit(IRIS, sample_weight=weight[IRIS[:, 0]])
    np.testing.assert_array_equal(found.bilinear_, expected.bilinear_)
    assert not np.array_equal(found.bilinear_, OASIS_Supervised(random_state=0).fit(X, Y).bilinear_)
    alone = np.eye(3)[Y, 0] * np.eye(len(X))[0]
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(150,\); found \(149,\)"):
        OASIS_Supervised().fit(X, Y, sample_weight=weight[1:])
    with pytest.raises(ValueError, match="no class has two points and weight"):
        OASIS_Supervised().fit(X, np.r_[3, Y[1:]], sample_weight=alone)
    with pytest.raises(ValueError, match="sample_weight must not be negative"):
        OASIS().partial_fit(UNIT[IRIS], sample_weight=-np.ones(len(IRIS)))


def test_validation_is_against_the_inner_product():
    labels = np.arange(400) % 2
    points = RNG.randn(400, 6) * [1, 1, 9, 9, 9, 9]
    points[:, 0] += 4 * labels - 2
    model = OASIS_Supervised(random_state=0).fit(points, labels, validate=True)
    found = model.validation_
    part = split_points(points, labels, n_splits=5)[0]
    train, test = part.train, part.queries
    trained = OASIS_Supervised(random_state=0).fit(points[train], labels[train])
    for cost, W in zip(found.costs, (np.eye(6), trained.bilinear_), strict=True):
        nearest = np.argsort(-points[test] @ W @ points[train].T, axis=1)[:, :5]
        wrong = labels[train][nearest] != labels[test, None]
        half = wrong[:, :3] @ [4, 2, 1] / 7  # of the nearest in a random half of the others
        assert cost == pytest.approx(((half + wrong.mean(axis=1)) / 2).mean(), abs=1e-6)
    assert found.n_held_out == 80 and found.costs[1] < found.costs[0] - 0.1
    index = Constraints(labels).generate_knntriplets(labels[:, None] + 0.0, 2, 2)
    of_triplets = OASIS(preprocessor=points, random_state=0)
    found = of_triplets.fit(index, sample_weight=np.ones(len(index)), validate=True).validation_
    assert found.measure == "order" and found.costs[1] < found.costs[0]


def test_a_worse_similarity_warns():
    wrong = IRIS[:, [0, 2, 1]]
    model = OASIS(preprocessor=UNIT, random_state=0)
    with pytest.warns(UserWarning, match="The similarity that OASIS learned is worse than the"):
        model.fit(np.r_[IRIS, wrong[:1500]], validate=True)


def test_parts_learn_what_the_whole_does():
    whole = OASIS(max_iter=1, shuffle=False).fit(UNIT[IRIS])
    parts = OASIS(shuffle=False)
    for part in (slice(0, 700), slice(700, 701), slice(701, None)):
        assert parts.partial_fit(UNIT[IRIS[part]]) is parts
    np.testing.assert_array_equal(parts.bilinear_, whole.bilinear_)
    assert parts.n_iter_ == 3


def test_fit_forgets_and_partial_fit_does_not():
    model = OASIS(max_iter=1, shuffle=False)
    first = model.fit(UNIT[IRIS]).bilinear_.copy()
    np.testing.assert_array_equal(model.fit(UNIT[IRIS]).bilinear_, first)
    assert not np.array_equal(model.partial_fit(UNIT[IRIS]).bilinear_, first)
    with pytest.raises(ValueError, match="X has 2 features, but OASIS is expecting 4 features"):
        model.partial_fit(np.ones((1, 3, 2)))


def test_several_passes_are_partial_fits():
    passes = OASIS(max_iter=3, shuffle=False).fit(UNIT[IRIS])
    parts = OASIS(shuffle=False)
    for _ in range(3):
        parts.partial_fit(UNIT[IRIS])
    np.testing.assert_array_equal(parts.bilinear_, passes.bilinear_)
    np.testing.assert_array_equal(parts.loss_curve_, passes.loss_curve_)


def test_training_ends_when_no_triplet_has_a_loss():
    triplet = [[[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]]]
    model = OASIS(max_iter=50).fit(triplet)  # S(a, b) - S(a, c) = 2 from the start
    assert model.n_iter_ == 1
    np.testing.assert_array_equal(model.bilinear_, np.eye(2))


def test_similarities_and_decisions():
    model = OASIS(random_state=0, preprocessor=UNIT).fit(IRIS)
    W = model.get_bilinear_matrix()
    assert not np.allclose(W, W.T)
    pairs = RNG.randint(150, size=(9000, 2))
    expected = np.einsum("ij,jk,ik->i", UNIT[pairs[:, 0]], W, UNIT[pairs[:, 1]])
    np.testing.assert_allclose(model.pair_score(pairs), expected)
    np.testing.assert_allclose(model.pair_score(UNIT[pairs]), expected)
    np.testing.assert_allclose(
        model.pair_score(UNIT[pairs].astype(np.float32)), expected, rtol=1e-4
    )
    with pytest.raises(ValueError, match="scores of pairs in float64 overflow"):
        model.pair_score(UNIT[pairs] * 1e200)
    similarity = model.get_metric()
    assert similarity(UNIT[3], UNIT[90]) == pytest.approx(UNIT[3] @ W @ UNIT[90])
    assert pickle.loads(pickle.dumps(similarity))(UNIT[3], UNIT[90]) == similarity(
        UNIT[3], UNIT[90]
    )
    a, b, c = UNIT[IRIS].transpose(1, 0, 2)
    decision = np.einsum("ij,jk,ik->i", a, W, b - c)
    np.testing.assert_allclose(model.decision_function(IRIS), decision, atol=1e-12)
    np.testing.assert_array_equal(model.predict(IRIS), np.where(decision > 0, 1, -1))
    assert model.score(IRIS) == pytest.approx((decision > 0).mean())
    W[:] = 0
    assert model.bilinear_.any() and similarity(UNIT[3], UNIT[90]) != 0


def test_training_finds_a_similarity_that_is_not_symmetric():
    points, hidden = RNG.randn(200, 6), RNG.randn(6, 6)
    triplets = RNG.randint(200, size=(6000, 3))
    a, b, c = points[triplets].transpose(1, 0, 2)
    wrong = np.einsum("ij,jk,ik->i", a, hidden, b - c) < 0
    triplets[wrong] = triplets[wrong][:, [0, 2, 1]]
    model = OASIS(preprocessor=points, random_state=0).fit(triplets[:5000])
    assert model.score(triplets[5000:]) > 0.95
    assert OASIS(C=1e-12, preprocessor=points).fit(triplets[:5000]).score(triplets[5000:]) < 0.7
    assert model.loss_curve_[-1] < model.loss_curve_[0]


def test_there_is_no_distance():
    model = OASIS().fit(UNIT[IRIS])
    assert not hasattr(model, "pair_distance")
    assert not hasattr(model, "transform")
    with pytest.raises(
        AttributeError, match=r"OASIS learns a bilinear similarity.* use pair_score"
    ):
        model.pair_distance(UNIT[IRIS[:, :2]])


@pytest.mark.parametrize("projection", ["symmetric", "psd"])
def test_projections(projection):
    model = OASIS(max_iter=1, shuffle=False, C=1.0, projection=projection).fit(UNIT[IRIS])
    W, _ = passive_aggressive(UNIT, IRIS, np.eye(4), 1.0)
    values, vectors = np.linalg.eigh((W + W.T) / 2)
    assert values[0] < 0
    if projection == "psd":
        values = np.maximum(values, 0)
    np.testing.assert_array_equal(model.bilinear_, model.bilinear_.T)
    np.testing.assert_allclose(model.bilinear_, (vectors * values) @ vectors.T, atol=1e-9)


def test_the_seed_is_that_of_the_order():
    one, other = (OASIS(random_state=seed).fit(UNIT[IRIS]) for seed in (0, 1))
    assert not np.array_equal(one.bilinear_, other.bilinear_)


def test_supervised_learns_from_the_triplets_of_neighbours():
    model = OASIS_Supervised(max_iter=2, random_state=0).fit(UNIT, Y)
    index = Constraints(Y).generate_knntriplets(UNIT, 3, 10)
    expected = OASIS(max_iter=2, random_state=0).fit(UNIT[index])
    np.testing.assert_array_equal(model.bilinear_, expected.bilinear_)
    named = clone(model).fit(UNIT, np.array(["x", "y", "z"])[Y])
    np.testing.assert_array_equal(named.bilinear_, expected.bilinear_)


def test_points_that_do_not_differ_change_nothing():
    triplets = np.ones((5, 3, 2))
    np.testing.assert_array_equal(OASIS().fit(triplets).bilinear_, np.eye(2))
    np.testing.assert_array_equal(OASIS(init="zeros").fit(0 * triplets).bilinear_, np.zeros((2, 2)))


def test_precisions_meet_in_the_wider_one():
    single = UNIT[IRIS].astype(np.float32)
    model = OASIS().partial_fit(single)
    assert model.bilinear_.dtype == np.float32
    assert model.partial_fit(UNIT[IRIS]).bilinear_.dtype == np.float64
    assert model.partial_fit(single).bilinear_.dtype == np.float64


def test_bad_data():
    with pytest.raises(NotFittedError):
        OASIS().get_metric()
    with pytest.raises(ValueError, match="similarities overflow"):
        OASIS().fit(X[IRIS] * 1e200)
    with (
        pytest.warns(UserWarning, match="not sufficient to generate"),
        pytest.raises(ValueError, match="There are no triplets"),
    ):
        OASIS_Supervised().fit([[0.0], [1.0]], [0, 1])


def test_a_threshold_makes_the_similarity_a_classifier_of_pairs():
    centred = X - X.mean(axis=0)
    oasis = OASIS_Supervised(random_state=0).fit(centred, Y)
    pairs, labels = centred[[[0, 1], [100, 120], [0, 100], [2, 120]]], [1, 1, -1, -1]
    assert oasis.calibrate_threshold(pairs, labels).predict_pairs(pairs).tolist() == labels
