"""Gerrymandering learners: stored data, invalid input and reports."""

import numpy as np
import pytest
import skops.io
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from trained import configured, embedding_learner

from metricfast import (
    AsymmetricSimilarity,
    NeighborhoodGerrymandering,
    NeighborhoodGerrymanderingRegressor,
    save,
)
from metricfast.embeddings import MLP, Linear
from metricfast.io import trusted_types
from metricfast.learners.gerrymandering.voting import majority_vote
from metricfast.losses import NCA, Gerrymander
from metricfast.samplers import Uniform
from metricfast.solvers import Adam

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 5))
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
ASYMMETRIC = AsymmetricSimilarity(random_state=0, solver=Adam(max_epochs=3))
LINEAR = NeighborhoodGerrymandering(judge=None, random_state=0, solver=Adam(max_epochs=3))
REGRESSOR = NeighborhoodGerrymanderingRegressor(random_state=0, solver=Adam(max_epochs=3))


@pytest.mark.parametrize("unit", [1e160, 1e-170])
def test_targets_of_unusual_units_are_refused(unit):
    with pytest.raises(ValueError, match=r"y is spread over about 2\^.*multiply it"):
        clone(REGRESSOR).fit(X, unit * X[:, 0])


def test_normalized_linear_maps_have_no_matrix():
    model = clone(ASYMMETRIC).set_params(
        query=Linear(3, normalize=True), database=Linear(3, normalize=True)
    )
    model.fit(X, Y)
    assert not hasattr(model, "components_query_")
    with pytest.raises(AttributeError, match="maps of this learner are not linear"):
        model.get_mahalanobis_matrix()


def test_a_fitted_model_has_its_own_embeddings():
    model = clone(ASYMMETRIC).set_params(query=Linear(3), database=Linear(3)).fit(X, Y)
    before = model.transform(X)
    model.set_params(query__normalize=True)
    np.testing.assert_array_equal(model.transform(X), before)


def test_weights_of_a_score():
    model = clone(ASYMMETRIC).fit(X, Y)
    weight = np.arange(120.0)
    expected = np.average(model.predict(X) == Y, weights=weight)
    assert model.score(X, Y, sample_weight=weight) == pytest.approx(expected)
    assert model.score(X, Y, X[:60], Y[:60], sample_weight=weight) < 1
    with pytest.raises(ValueError, match="sample_weight must have shape"):
        model.score(X, Y, sample_weight=weight[:-1])


@pytest.mark.parametrize("parameterization", ["L", "M"])
@pytest.mark.parametrize("rate", [0.03, 10.0])
def test_the_kept_map_is_no_worse_than_the_start_and_has_the_objective(parameterization, rate):
    model = configured(LINEAR, parameterization=parameterization, learning_rate=rate, C=2.0)

    def objective():
        M = model.get_mahalanobis_matrix()
        return (M**2).sum() + 2 * Gerrymander()(model.transform(X), Y)[0]

    start = configured(model, learning_rate=1e-12, max_epochs=1).fit(X, Y).objective_
    model.fit(X, Y)
    assert model.objective_ == pytest.approx(objective())
    assert model.objective_ <= start * (1 + 1e-9)
    if rate == 10 and parameterization == "L":
        assert model.objective_ == pytest.approx(start)


@pytest.mark.parametrize("solver", ["sgd", "lbfgs"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_objective_of_asymmetric_maps_is_that_of_what_is_kept(solver):
    model = configured(ASYMMETRIC, solver=solver, max_iter=3, learning_rate=1.0)
    queries, database = X[:60], X[60:]
    model.fit(queries, Y[:60], database, Y[60:])
    W = model.get_mahalanobis_matrix()
    value = Gerrymander()(
        model.transform(queries, "query"), Y[:60], model.transform(database, "database"), Y[60:]
    )[0]
    assert model.objective_ == pytest.approx((W**2).sum() + value)


def test_the_objective_of_a_start_that_nothing_lowers_is_told():
    """All points are equal, and the square of the map is zero in float64."""
    model = clone(LINEAR).set_params(solver="lbfgs", parameterization="L", init=1e-200 * np.eye(3))
    model.fit(np.zeros((12, 3)), np.arange(12) % 2)
    assert model.n_iter_ == 1
    assert np.isfinite(model.objective_)


def test_early_stopping_may_keep_the_start():
    model = configured(LINEAR, early_stopping=True, fraction=0.5)
    start = configured(model, learning_rate=1e-12, max_epochs=1).fit(X, Y)
    model = configured(model, learning_rate=1e4).fit(X, Y)
    assert min(model.history_["validation_error"]) > start.history_["validation_error"][0]
    np.testing.assert_allclose(model.components_, start.components_, atol=1e-9)


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic", "label", "nearest"])
@pytest.mark.parametrize("costs", [None, [[0, 1, 0], [3, 0, 1], [1, 0.5, 0]]])
@pytest.mark.parametrize("weight", [None, np.arange(120.0)])
def test_error_is_that_of_leaving_one_out(ties, costs, weight):
    model = configured(
        LINEAR, n_neighbors=4, ties=ties, loss_matrix=costs, max_epochs=1, learning_rate=1e-12
    )
    model.fit(X, Y, sample_weight=weight)
    Z, wrong = model.transform(X), []
    for i in range(120):
        votes = [Y[j] for j in np.argsort(((Z - Z[i]) ** 2).sum(axis=1)) if j != i][:4]
        wrong.append(max(votes, key=votes.count) != Y[i])  # the first class with most votes
    assert model.history_["error"][0] == pytest.approx(np.average(wrong, weights=weight))


def test_error_of_queries_with_a_database():
    model = configured(ASYMMETRIC, max_epochs=1, learning_rate=1e-12, n_neighbors=4)
    model.fit(X[:60], Y[:60], X[60:], Y[60:])
    assert model.history_["error"][0] == pytest.approx(1 - model.score(X[:60], Y[:60]))
    assert model.history_["vote_loss"][0] > model.history_["error"][0]


@pytest.mark.parametrize("parameters", [{}, {"tied": True}, {"query": MLP((4,), 5)}])
def test_neighbours_of_the_points_of_fit_leave_these_out(parameters):
    model = configured(ASYMMETRIC, max_epochs=1, learning_rate=1e-12, n_neighbors=4)
    model.set_params(**parameters).fit(X, Y)
    apart = np.linalg.norm(model.transform(X)[:, None] - model.transform(X, "database"), axis=2)
    np.fill_diagonal(apart, np.inf)
    distances, indices = model.kneighbors()
    np.testing.assert_allclose(distances, np.sort(apart, axis=1)[:, :4])
    np.testing.assert_array_equal(indices, np.argsort(apart, axis=1)[:, :4])
    wrong = majority_vote(indices, Y, 3)[0] != Y
    assert model.history_["error"][0] == pytest.approx(wrong.mean())
    assert model.kneighbors(n_neighbors=119)[0].shape == (120, 119)
    kept = skops.io.loads(skops.io.dumps(model), trusted=trusted_types())
    np.testing.assert_array_equal(kept.kneighbors()[1], indices)


def test_the_regressor_warns_once_and_speaks_of_quantiles():
    with pytest.warns(DataConversionWarning) as caught:
        clone(REGRESSOR).fit(X, X[:, :1])
    assert len(caught) == 1
    targets = np.r_[np.zeros(117), 1, 2, 3]
    with pytest.warns(UserWarning, match="lower n_neighbors, or lower n_bins"):
        clone(REGRESSOR).set_params(n_neighbors=7).fit(X, targets)


def test_infeasible_queries_of_batches_are_counted_and_warned_of():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 20, 120)
    sampler = Uniform()
    learner = embedding_learner(Gerrymander(3), Linear(), sampler, batch_size=20, max_epochs=2)
    with pytest.warns(UserWarning, match=r"neighbours in a batch is right for .*% of the queries"):
        learner.fit(X, labels)
    assert 0.3 < learner.infeasible_share_ < 1
    learner = configured(learner, batch_size=60).fit(X, Y)
    assert learner.infeasible_share_ == 0
    learner = clone(learner).set_params(loss=NCA()).fit(X, Y)
    assert not hasattr(learner, "infeasible_share_")


def test_neighbours_that_a_batch_does_not_have():
    learner = embedding_learner(Gerrymander(7), Linear(), Uniform(), batch_size=6)
    with pytest.raises(ValueError, match=r"at most 5 where a batch has 6 points.*raise batch_size"):
        learner.fit(X, Y)
    learner.set_params(database="all", max_epochs=1).fit(X, Y)


@pytest.mark.parametrize("learner", [LINEAR, ASYMMETRIC, REGRESSOR])
def test_rows_of_an_init_are_of_one_length(learner):
    with pytest.raises(ValueError, match="`init` is not a linear map"):
        clone(learner).set_params(init=[[1.0], [1.0, 2.0]]).fit(X, Y)


def test_a_linear_map_beside_a_perceptron_keeps_its_regularizer():
    model = clone(ASYMMETRIC).set_params(query=MLP((4,), 5, weight_decay=0.5), C=0.25)
    model.fit(X[:60], Y[:60], X[60:], Y[60:])
    *perceptron, V = model.parameters_
    loss = Gerrymander()(
        model.transform(X[:60], "query"), Y[:60], model.transform(X[60:], "database"), Y[60:]
    )[0]
    decays = model.embedding_.query.decays(0.0)
    shrinking = sum(d / 2 * (A**2).sum() for d, A in zip(decays, perceptron, strict=True))
    expected = 0.25 * loss + shrinking + ((V.T @ V) ** 2).sum()
    assert model.objective_ == pytest.approx(expected)


@pytest.mark.parametrize(
    ("points", "labels", "k", "message"),
    [
        (X[:50, :3], Y[:50], 60, "n_neighbors must be at most 49"),
        ([[0.0], [1.0]], [0, 1], 1, "no set of n_neighbors=1"),
        (X * np.nan, Y, 3, "NaN"),
    ],
)
@pytest.mark.parametrize("learner", [LINEAR, ASYMMETRIC])
def test_a_refused_fit_leaves_the_model_or_none(learner, points, labels, k, message, tmp_path):
    model = clone(learner).fit(X, Y)
    before = model.transform(X)
    with pytest.raises(ValueError, match="C must be"):
        model.set_params(C=-1).fit(points, labels)
    np.testing.assert_array_equal(model.transform(X), before)
    for refused in (model, clone(learner)):
        with pytest.raises(ValueError, match=message):
            refused.set_params(C=1, n_neighbors=k).fit(points, labels)
        with pytest.raises(NotFittedError):
            refused.transform(points)
        with pytest.raises(NotFittedError):
            save(refused, tmp_path / "model")


SHARES = {"frobenius2": 4, "frobenius": 2, "notes": 3, "factors2": 2, "factors": 2, "trace": 2}


@pytest.mark.parametrize(("name", "share"), SHARES.items())
def test_the_penalty_of_a_tied_map_is_a_share_of_that_of_two_alike(name, share):
    penalties = []
    for tied in (True, False):
        model = configured(
            ASYMMETRIC, tied=tied, regularizer=name, max_epochs=1, learning_rate=1e-12
        )
        history = model.fit(X, Y).history_
        penalties.append(history["objective"][0] - history["surrogate"][0])
    assert share * penalties[0] == pytest.approx(penalties[1])
