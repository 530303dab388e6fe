"""Learners by neighbourhood gerrymandering."""

from itertools import combinations

import numpy as np
import pytest
from reference import numeric_gradient
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import scale
from trained import configured

from metricfast import (
    AsymmetricSimilarity,
    NeighborhoodGerrymandering,
    NeighborhoodGerrymanderingRegressor,
)
from metricfast.learners.gerrymandering import metric
from metricfast.learners.gerrymandering.regularizers import REGULARIZERS, penalty
from metricfast.learners.gerrymandering.voting import majority_vote
from metricfast.losses import Gerrymander
from metricfast.solvers import Adam
from metricfast.training import objective
from metricfast.training.history import History
from metricfast.training.solvers import Subgradient
from metricfast.training.steps import Steps, minimize_minibatch

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
QUICK = NeighborhoodGerrymandering(judge=None, random_state=0, solver=Adam(max_epochs=8))


@pytest.mark.parametrize("name", [*REGULARIZERS, None])
@pytest.mark.parametrize("count", [1, 2])
def test_regularizers(name, count):
    maps = [np.random.default_rng(i).normal(size=(3, 4)) for i in range(count)]
    value, gradients = penalty(name, maps)
    for i, gradient in enumerate(gradients):
        expected = numeric_gradient(
            lambda A, i=i: penalty(name, [*maps[:i], A, *maps[i + 1 :]])[0], maps[i]
        )
        np.testing.assert_allclose(gradient, expected, atol=1e-5)
    both = np.hstack([maps[0], -maps[-1]]) if count == 2 else maps[0]
    norm = np.linalg.norm(both.T @ both)
    if name == "trace":
        assert value == pytest.approx(np.trace(both.T @ both))
    if name in ("frobenius", "frobenius2"):
        assert value == pytest.approx(norm ** (2 if name == "frobenius2" else 1))


@pytest.mark.parametrize("name", REGULARIZERS)
def test_regularizers_do_not_depend_on_threads(name):
    maps = [np.random.default_rng(i).normal(size=(150, 200)) for i in range(2)]
    value, gradients = penalty(name, maps, 1)
    again, others = penalty(name, maps, 2)
    assert value == again
    np.testing.assert_array_equal(gradients, others)


def test_votes():
    winners, shares = majority_vote(
        np.array([[0, 1, 2, 3], [2, 1, 0, 3]]), np.array([0, 1, 1, 0]), 3
    )
    np.testing.assert_array_equal(winners, [0, 1])
    np.testing.assert_allclose(shares, [[0.5, 0.5, 0]] * 2)
    np.testing.assert_array_equal(shares.argmax(axis=1), winners)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"parameterization": "M"},
        {"solver": "lbfgs"},
        {"solver": "subgradient"},
        {"solver": "subgradient", "parameterization": "M", "regularizer": "trace"},
        {"regularizer": None, "n_components": 2},
        {"regularizer": "notes"},
        {"ties": "nearest"},
        {"inference": "greedy"},
        {"loss_matrix": [[0, 1, 2], [1, 0, 1], [5, 1, 0]]},
        {"early_stopping": True},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_training_lowers_the_objective(parameters):
    model = clone(QUICK).set_params(**parameters).fit(X, Y)
    history = model.history_
    assert {len(values) for values in history.values()} == {model.n_iter_}
    assert min(history["surrogate"]) < history["surrogate"][0]
    assert history["infeasible"] == [0] * model.n_iter_
    if parameters.get("ties", "pessimistic") == "pessimistic" and "inference" not in parameters:
        n = 135 if "early_stopping" in parameters else 150
        assert (
            np.array(history["error"]) <= history["vote_loss"]
        ).all() or "loss_matrix" in parameters
        costs = np.array(history["vote_loss"]) * n
        assert (costs <= np.array(history["surrogate"]) + 1e-6).all()
    if parameters.get("parameterization") == "M":
        assert np.linalg.eigvalsh(model.get_mahalanobis_matrix()).min() > -1e-9


@pytest.mark.parametrize("regularizer", [n for n in (None, *REGULARIZERS) if n != "factors"])
def test_the_penalty_of_a_matrix_is_that_of_its_map(regularizer):
    model = configured(QUICK, max_epochs=1, learning_rate=1e-12, regularizer=regularizer)
    history = model.set_params(parameterization="M").fit(X, Y).history_
    expected = penalty(regularizer, [model.components_])[0]
    assert history["objective"][0] - history["surrogate"][0] == pytest.approx(expected)


def test_batches_of_an_epoch_share_a_costly_penalty(monkeypatch):
    """Every epoch evaluates it for the first of its six batches and for the fifth."""
    dtypes = []

    def counted(name, maps, *n_jobs):
        dtypes.append(maps[0].dtype)
        return penalty(name, maps, *n_jobs)

    monkeypatch.setattr(metric, "penalty", counted)
    model = clone(QUICK).set_params(solver=Adam(max_epochs=3, batch_size=25))
    alone = model.fit(X.astype(np.float32), Y).objective_
    assert dtypes[:18] == [np.float64] * 18
    dtypes.clear()
    monkeypatch.setattr(objective, "_COSTLY", 1)
    shared = model.fit(X.astype(np.float32), Y).objective_
    assert dtypes[:7] == [np.float32] * 6 + [np.float64]
    assert shared == pytest.approx(alone, rel=0.05)


@pytest.mark.parametrize("power_t", [0.5, 1])
def test_plain_steps(power_t):
    """Minimise (x - 2)^2 + (x + 1)^2, with one sample per batch."""
    centres, seen = np.array([2.0, -1.0]), []
    monitor = History(np.array([3.0]), lambda epoch, value, x: seen.append((value, x.copy())))
    minimize_minibatch(
        lambda x, rows: (((x - centres[rows]) ** 2).sum(), 2 * (x - centres[rows])),
        lambda: [np.array([0]), np.array([1])], monitor,
        max_epochs=2, steps=Steps(Subgradient(power_t=power_t).step, 1, lambda epoch, step: 0.1),
    )  # fmt: skip
    x, expected = 3.0, []
    rate = 0.1 * 3 / 2  # a tenth of x0, divided by the first gradient
    for t, centre in enumerate([2, -1, 2, -1], 1):
        expected.append((x - centre) ** 2)
        x -= rate / t**power_t * 2 * (x - centre)
    assert [value for value, _ in seen] == pytest.approx(np.add.reduceat(expected, [0, 2]))
    assert seen[-1][1] == pytest.approx(x)


@pytest.mark.parametrize("name", ["notes", "factors2"])
def test_regularizers_that_are_one_for_a_matrix(name):
    model = clone(QUICK).set_params(parameterization="M").fit(X, Y)
    alike = clone(model).set_params(regularizer=name).fit(X, Y)
    np.testing.assert_array_equal(alike.components_, model.components_)
    two_rows = clone(model).set_params(init=np.eye(2, 4), warm_start=True).fit(X, Y)
    assert two_rows.fit(X, Y).components_.shape == (4, 4)


def test_learns_what_counts():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    points = np.c_[y + 0.25 * rng.normal(size=400), 3 * rng.normal(size=(400, 5))]
    model = NeighborhoodGerrymandering(5, random_state=0, solver=Adam(learning_rate=0.1))
    M = model.fit(points[:200], y[:200]).get_mahalanobis_matrix()
    assert M[0, 0] > 10 * np.diag(M)[1:].max()


@pytest.mark.parametrize("parameterization", ["L", "M"])
def test_the_points_of_fit_vote(parameterization):
    model = clone(QUICK).set_params(parameterization=parameterization, n_neighbors=4)
    model.fit(X[::2], NAMES[::2])
    voters = KNeighborsClassifier(4).fit(model.transform(X[::2]), NAMES[::2])
    shares = model.predict_proba(X[1::2])
    np.testing.assert_allclose(shares, voters.predict_proba(model.transform(X[1::2])), atol=1e-8)
    np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(X[1::2]))
    assert model.score(X[1::2], NAMES[1::2]) == (model.predict(X[1::2]) == NAMES[1::2]).mean() > 0.9
    left_out = majority_vote(model.kneighbors()[1], model.database_labels_, 3)[0]
    kept = model.set_params(warm_start=True, solver=Adam(max_epochs=1, learning_rate=1e-12))
    kept.fit(X[::2], NAMES[::2])
    assert (left_out != Y[::2]).mean() == pytest.approx(kept.history_["error"][0])


def test_regressor():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(600, 6))
    targets = points[:, 0] + 0.1 * rng.normal(size=600)
    model = NeighborhoodGerrymanderingRegressor(random_state=0, solver=Adam(max_epochs=20))
    model.fit(points[:400], targets[:400])
    start = configured(model, max_epochs=1, learning_rate=1e-9)
    before = start.fit(points[:400], targets[:400]).score(points[400:], targets[400:])
    after = model.score(points[400:], targets[400:])
    assert 1 - after < (1 - before) / 2
    assert model.predict(points[400:]).shape == (200,)
    assert len(model.bins_) == 5


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic"])
@pytest.mark.parametrize("seed", range(3))
def test_loss_of_the_regressor_is_that_of_all_sets(seed, ties):
    """Costs between quantiles; inference enumerates all sets."""
    rng = np.random.default_rng(seed)
    points, targets = rng.normal(size=(13, 2)), rng.exponential(size=13)
    solver = Adam(batch_size=13, max_epochs=1, learning_rate=1e-12)
    model = NeighborhoodGerrymanderingRegressor(
        2, n_bins=3, ties=ties, regularizer=None, random_state=0, solver=solver
    ).fit(points, targets)
    codes = np.searchsorted(np.quantile(targets, [1 / 3, 2 / 3]), targets)
    means = np.array([targets[codes == code].mean() for code in range(3)])
    np.testing.assert_allclose(model.bins_, means)
    Z, expected = model.transform(points), 0.0
    for i in range(13):
        right = augmented = -np.inf
        for chosen in combinations([j for j in range(13) if j != i], 2):
            voted = means[codes[list(chosen)]]  # two votes: one winner, or a tie
            worst = max if ties == "pessimistic" else min
            cost = worst(abs(means[codes[i]] - voted)) / targets.std()
            near = -((Z[i] - Z[list(chosen)]) ** 2).sum()
            augmented = max(augmented, near + cost)
            right = max(right, near if cost == 0 else -np.inf)
        expected += augmented - right
    assert model.history_["surrogate"][0] == pytest.approx(expected)


def test_regressor_of_targets_that_repeat():
    wine, classes = load_wine(return_X_y=True)
    model = NeighborhoodGerrymanderingRegressor(
        n_bins=10, random_state=0, solver=Adam(max_epochs=2)
    )
    assert len(model.fit(wine, classes).bins_) == 3
    binary = np.r_[np.zeros(170), np.ones(8)]
    assert len(model.fit(wine, binary).bins_) == 2
    with pytest.raises(ValueError, match="n_bins"):
        clone(model).set_params(n_bins=1).fit(wine, classes)


def test_regressor_of_targets_that_have_no_score():
    X, y = np.eye(9), np.arange(9.0)
    model = NeighborhoodGerrymanderingRegressor(1, random_state=0, solver=Adam(max_epochs=1)).fit(
        X, y
    )
    for targets, text in ((y * 1e200, "y is so large"), ([*"abcdefghi"], "y must hold numbers")):
        with pytest.raises(ValueError, match=text):
            model.score(X, targets)
    with pytest.raises(ValueError, match="y must hold at least 2 numbers"):
        model.score(X[:1], y[:1])


@pytest.mark.parametrize("learner", [NeighborhoodGerrymandering, AsymmetricSimilarity])
def test_a_penalty_that_leaves_nothing_to_learn_is_warned_of(learner):
    points, labels = load_wine(return_X_y=True)
    points = scale(points)
    learner = configured(learner(random_state=0), max_epochs=2)
    learner.fit(points, labels)
    with pytest.warns(ConvergenceWarning, match="At the initial map the regularizer is .* raise C"):
        learner.fit(0.05 * points, labels)


def test_the_start_of_the_best_epoch_may_be_kept():
    points, labels = load_wine(return_X_y=True)
    points = scale(points)
    seen = []
    model = NeighborhoodGerrymandering(
        C=30, random_state=0, judge=None, solver=Adam(learning_rate=1),
        callbacks=[lambda s: seen.append(s.components)],
    ).fit(points, labels)  # fmt: skip

    def objective(L):
        return np.linalg.norm(L.T @ L) ** 2 + 30 * Gerrymander(3)(points @ L.T, labels)[0]

    assert model.objective_ == pytest.approx(objective(model.components_))
    assert model.objective_ == pytest.approx(min(map(objective, seen)))


@pytest.mark.parametrize("params", [{"C": 1e300}, {"loss_matrix": 1e200 * (1 - np.eye(3))}])
def test_an_overflow_names_what_it_may_come_from(params):
    points, labels = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match="lower learning_rate, C or the costs of loss_matrix"):
        NeighborhoodGerrymandering(**params).fit(scale(points), labels)
