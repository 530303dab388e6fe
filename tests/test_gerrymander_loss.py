"""The loss of votes: values compared with inference, gradients with finite differences."""

import numpy as np
import pytest
from reference import numeric_gradient

from metricfast import inference, kneighbors, metric_gradient
from metricfast.embeddings import MLP, Asymmetric, Linear
from metricfast.losses import Gerrymander

MATRIX = np.array([[0, 1, 3], [0.5, 0, 2], [1, 0, 0]])


def problem(n=30, d=3, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)).astype(dtype), rng.integers(0, 3, n)


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic", "label", "nearest"])
@pytest.mark.parametrize("matrix", [None, MATRIX], ids=["0/1", "matrix"])
def test_value(ties, matrix):
    Z, y = problem()
    weight = np.random.default_rng(1).random(30)
    loss = Gerrymander(3, matrix, ties)
    value, grad = loss(Z, y, sample_weight=weight)
    targeted, augmented = inference.both(Z, None, y, y, 3, loss_matrix=matrix, ties=ties)
    assert targeted.feasible.all()
    assert value == pytest.approx(weight @ (augmented.values - targeted.values))
    pairs = zip(targeted.indices, augmented.indices, strict=True)
    assert loss.counts_["terms"] == sum(len({*one} ^ {*other}) for one, other in pairs)
    numeric = numeric_gradient(lambda A: loss(A, y, sample_weight=weight)[0], Z)
    np.testing.assert_allclose(grad, numeric, atol=1e-6)
    assert value >= loss.vote_loss_ - 1e-9 or ties != "pessimistic"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_queries_against_a_database(dtype):
    (Z, y), (B, yb) = problem(20, dtype=dtype), problem(40, seed=1, dtype=dtype)
    loss = Gerrymander(5)
    value, (grad, grad_database) = loss(Z, y, B, yb)
    assert grad.dtype == grad_database.dtype == dtype
    Z, B = Z.astype(float), B.astype(float)
    tol = {"atol": 1e-6 if dtype == np.float64 else 1e-4}
    assert value == pytest.approx(loss(Z, y, B, yb)[0], rel=1e-5)
    np.testing.assert_allclose(grad, numeric_gradient(lambda A: loss(A, y, B, yb)[0], Z), **tol)
    np.testing.assert_allclose(
        grad_database, numeric_gradient(lambda A: loss(Z, y, A, yb)[0], B), **tol
    )


@pytest.mark.parametrize(
    "embedding",
    [
        Linear(2, "random"),
        Linear(2, "random", normalize=True),
        MLP((5,), 2, activation="tanh"),
        Asymmetric(Linear(5, "random"), Linear(5, "random")),
        Asymmetric(MLP((4,), 2, activation="tanh"), MLP((6, 3), 2, activation="tanh")),
        Asymmetric(Linear(2, "random"), MLP((4,), 2, activation="tanh", normalize=True)),
    ],
    ids=str,
)
@pytest.mark.parametrize("own", [True, False])
def test_gradients_of_embeddings(embedding, own):
    (X, y), (B, yb) = problem(15), problem(25, seed=1)
    loss, exclude = Gerrymander(3), np.arange(15)
    if own:
        B, yb = X, y
    else:
        exclude = None
    start = embedding.initialize(X, y, np.random.RandomState(0))

    def value(parameters, gradients=False):
        Zq, query = embedding.forward(parameters, X)
        Zd, database = embedding.forward(parameters, B, side="database")
        found, (dq, dd) = loss(Zq, y, Zd, yb, exclude=exclude)
        if not gradients:
            return found
        parts = (
            embedding.backward(parameters, query, dq),
            embedding.backward(parameters, database, dd),
        )
        return [a + b for a, b in zip(*parts, strict=True)]

    for i, found in enumerate(value(start, gradients=True)):
        expected = numeric_gradient(
            lambda array, i=i: value([*start[:i], array, *start[i + 1 :]]), start[i]
        )
        np.testing.assert_allclose(found, expected, atol=2e-6)


def test_gradient_of_a_full_matrix():
    X, y = problem()
    M = np.cov(np.random.default_rng(3).normal(size=(3, 9)))
    loss = Gerrymander(3)

    def value(A):
        return loss(X @ np.linalg.cholesky((A + A.T) / 2), y)[0]

    weights = loss.weights(X @ np.linalg.cholesky(M), y)[1]
    assert weights.shape == (30, 30)
    assert np.abs(weights.sum(axis=1)).max() == 0
    np.testing.assert_allclose(
        metric_gradient(X, weights, M=M), numeric_gradient(value, M), atol=1e-6
    )


def test_infeasible_anchors_are_left_out_and_counted():
    Z, y = [[0.0], [1.0], [2.0], [5.0]], [0, 0, 1, 1]
    loss = Gerrymander(1)
    alone = loss(Z[:3], y[:3], Z, [0, 0, 2, 2])
    assert loss.n_infeasible_ == loss.counts_["skipped"] == 1
    assert loss.vote_loss_ >= 1
    np.testing.assert_array_equal(alone[1][0][2], 0)


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic", "label", "nearest"])
@pytest.mark.parametrize("method", ["exact", "greedy"])
def test_wrong_votes_of_the_nearest_are_counted(ties, method):
    rng = np.random.default_rng(0)
    Z, y = rng.integers(0, 4, (60, 2)).astype(float), rng.integers(0, 3, 60)  # many equal distances
    weight = rng.random(60)
    for k in (1, 2, 4):
        wrong = 0.0
        for i, found in enumerate(kneighbors(Z, n_neighbors=k)[1]):
            votes = np.bincount(y[found], minlength=3)
            winner = next(y[j] for j in found if votes[y[j]] == votes.max())
            wrong += weight[i] * (winner != y[i])
        loss = Gerrymander(k, ties=ties, inference=method)
        loss(Z, y, sample_weight=weight)
        assert loss.vote_errors_ == pytest.approx(wrong)


def test_mean():
    Z, y = problem()
    total, grad = Gerrymander(3)(Z, y)
    mean, mean_grad = Gerrymander(3, reduction="mean")(Z, y)
    assert mean == pytest.approx(total / 30)
    np.testing.assert_allclose(mean_grad, grad / 30)


def test_weights_equal_repeated_queries():
    (Z, y), (B, yb) = problem(10), problem(30, seed=1)
    weight = np.arange(10) % 3
    value, (_, base) = Gerrymander(3)(Z, y, B, yb, sample_weight=weight)
    rows = np.repeat(np.arange(10), weight)
    expected, (_, base_expected) = Gerrymander(3)(Z[rows], y[rows], B, yb)
    assert value == pytest.approx(expected)
    np.testing.assert_allclose(base, base_expected)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 30}, "n_neighbors must be at most 29"),
        ({"ties": "none"}, "ties must be"),
        ({"inference": "slow"}, "inference must be"),
        ({"reduction": "max"}, "reduction must be"),
        ({"loss_matrix": np.zeros((2, 2))}, "indices from 0 to 1"),
    ],
)
def test_bad_parameters(parameters, message):
    Z, y = problem()
    y[0] = 2
    with pytest.raises(ValueError, match=message):
        Gerrymander(**parameters)(Z, y)
