"""Asymmetric similarity."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_iris
from trained import configured

import metricfast
from metricfast import AsymmetricSimilarity, EmbeddingLearner
from metricfast._core.wide_map import WideMap
from metricfast.embeddings import MLP, Asymmetric, Linear
from metricfast.learners.gerrymandering.regularizers import penalty
from metricfast.losses import Gerrymander, SupCon
from metricfast.solvers import Adam, Subgradient
from metricfast.training.adapters import in_wide_span
from metricfast.training.objective import EmbeddedLoss
from metricfast.training.samples import Samples

X, Y = load_iris(return_X_y=True)
QUICK = AsymmetricSimilarity(random_state=0, solver=Adam(max_epochs=6))


def seen_by_another_sensor(n=500, d=4, seed=0):
    """Queries are a fixed linear distortion of points like those of the database."""
    rng = np.random.default_rng(seed)
    means = 1.5 * rng.normal(size=(4, d))
    y, y_database = rng.integers(0, 4, n), rng.integers(0, 4, n)
    database = means[y_database] + 0.7 * rng.normal(size=(n, d))
    queries = means[y] + 0.7 * rng.normal(size=(n, d))
    return queries @ (np.eye(d) + 0.6 * rng.normal(size=(d, d))), y, database, y_database


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"tied": True},
        {"n_components": 2},
        {"n_components": 8, "init": "random"},
        {"query": MLP((8,), 3), "n_components": 3},
        {"query": MLP((8,), 3), "database": MLP((5,), 3, normalize=False, weight_decay=1e-3)},
        {"regularizer": "notes"},
        {"regularizer": "factors"},
        {"query": MLP((8,), 3), "tied": True},
        {"solver": "lbfgs"},
        {"solver": Subgradient(learning_rate=0.1)},
        {"early_stopping": True},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_training_lowers_the_objective(parameters):
    model = clone(QUICK).set_params(**parameters).fit(X, Y)
    history = model.history_
    assert min(history["objective"]) < history["objective"][0]
    assert model.score(X, Y) > 0.8
    pairs = np.stack([X[:10], X[60:70]], axis=1)
    queries, database = model.transform(X[:10]), model.transform(X[60:70], side="database")
    expected = np.linalg.norm(queries - database, axis=1)
    np.testing.assert_allclose(model.pair_distance(pairs), expected)
    np.testing.assert_allclose(model.pair_score(pairs), -expected)
    distances, indices = model.kneighbors(X[:10])
    given = model.kneighbors(X[:10], X, n_neighbors=3)
    np.testing.assert_array_equal(indices, given[1])
    np.testing.assert_allclose(
        distances[:, 0],
        np.linalg.norm(queries - model.transform(X, side="database")[indices[:, 0]], axis=1),
    )
    labels, shares = model.predict(X[:10]), model.predict_proba(X[:10])
    assert shares.shape == (10, 3)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_array_equal(shares.argmax(axis=1), labels)
    assert (np.sort(Y[indices], axis=1)[:, 1] == labels)[distances[:, 0] > 0].mean() > 0.7


@pytest.mark.parametrize("sparse_database", [False, True])
def test_sparse_points(sparse_database):
    """Sparse points are not centred, so the other side is not centred either."""
    centred = X - X.mean(axis=0)
    dense = clone(QUICK).fit(centred, Y, centred, Y)
    database = csr_array(centred) if sparse_database else centred
    model = clone(QUICK).fit(csr_array(centred), Y, database, Y)
    assert not model.mean_.any()
    np.testing.assert_allclose(model.components_query_, dense.components_query_, atol=1e-6)
    np.testing.assert_array_equal(model.predict(csr_array(centred)), model.predict(centred))
    assert model.score(csr_array(centred), Y, csr_array(centred), Y) > 0.9
    assert model.transform(csr_array(centred), side="database").shape == (150, 4)


def test_weights_are_those_of_queries():
    twice = np.r_[X, X[Y == 0]], np.r_[Y, Y[Y == 0]]
    # The first step of Adam is the sign of the gradient, even of a rounding error.
    solver = Subgradient(batch_size=1000, max_epochs=1)
    how = {"regularizer": None, "init": np.eye(4), "solver": solver}
    weighted = clone(QUICK).set_params(**how)
    weighted.fit(X, Y, X, Y, sample_weight=np.where(Y == 0, 2.0, 1.0))
    repeated = clone(QUICK).set_params(**how).fit(*twice, X, Y)
    assert weighted.loss_curve_ == pytest.approx(repeated.loss_curve_)
    scale = np.abs(weighted.components_query_).max()
    np.testing.assert_allclose(
        weighted.components_query_, repeated.components_query_, atol=0.01 * scale
    )
    with pytest.raises(ValueError, match="sample_weight must not be negative"):
        clone(QUICK).fit(X, Y, sample_weight=Y - 1.0)


def test_each_side_has_its_own_mean():
    queries, y, database, y_database = seen_by_another_sensor()
    model = clone(QUICK).set_params(C=0.1).fit(queries, y, database, y_database)
    shifted = clone(model).fit(queries + 10, y, database, y_database)
    assert shifted.score(queries + 10, y) == model.score(queries, y)
    np.testing.assert_allclose(shifted.mean_query_, model.mean_query_ + 10)
    # Queries that are repeated, or missing, in one class do not change the maps.
    often = np.r_[np.arange(500), np.repeat(np.flatnonzero(y == 0), 3)]
    repeated = clone(model).fit(queries[often], y[often], database, y_database)
    np.testing.assert_allclose(repeated.mean_query_, model.mean_query_)
    weight = np.where(y == 0, 4.0, 1.0)
    weighted = clone(model).fit(queries, y, database, y_database, sample_weight=weight)
    np.testing.assert_allclose(weighted.mean_query_, model.mean_query_)
    alike = clone(model).fit(
        database[y_database > 0], y_database[y_database > 0], database, y_database
    )
    np.testing.assert_allclose(alike.mean_query_, alike.mean_)
    tied = clone(model).set_params(tied=True).fit(queries, y, database, y_database)
    np.testing.assert_array_equal(tied.mean_query_, tied.mean_)


@pytest.mark.parametrize("tied", [False, True])
def test_functions_of_two_maps_agree_with_the_learner(tied):
    queries, y, database, y_database = seen_by_another_sensor()
    model = clone(QUICK).set_params(tied=tied).fit(queries + 5, y, database, y_database)
    maps = {"U": model.components_query_, "V": model.components_database_}
    centred = queries + 5 - model.mean_query_, database - model.mean_
    distances, indices = model.kneighbors(queries + 5)
    found = metricfast.kneighbors(*centred, 3, **maps)
    np.testing.assert_allclose(found[0], distances)
    np.testing.assert_array_equal(found[1], indices)
    sides = model.transform(queries + 5, "query"), model.transform(database, "database")
    np.testing.assert_allclose(
        metricfast.pairwise_distances(*centred, **maps), metricfast.pairwise_distances(*sides)
    )
    pairs = np.stack([queries + 5, database], axis=1)
    expected = metricfast.paired_distances(*centred, **maps)
    np.testing.assert_allclose(model.pair_distance(pairs), expected)
    assert model.get_metric()(*pairs[0]) == pytest.approx(expected[0])


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("regularizer", ["frobenius2", "trace", "factors"])
def test_weights_of_perceptrons_are_traded_against_the_loss(regularizer, tied):
    data, sizes = seen_by_another_sensor(120), []
    for C in (0.15, 30):
        model = clone(QUICK).set_params(query=MLP((8,), 3), C=C, tied=tied, regularizer=regularizer)
        model = configured(model, database=None if tied else MLP((5,), 3), max_epochs=20).fit(*data)
        weights, biases = model.parameters_[::2], model.parameters_[1::2]
        sides = model.transform(data[0], "query"), model.transform(data[2], "database")
        loss = Gerrymander()(sides[0], data[1], sides[1], data[3])[0]
        size = sum(penalty(regularizer, [weight])[0] for weight in weights)
        assert len(weights) == len(biases) == (2 if tied else 4)
        assert model.objective_ == pytest.approx(C * loss + size)
        sizes.append(size)
    assert sizes[0] < 0.9 * sizes[1]


@pytest.mark.parametrize("activation", ["relu", "identity"])
def test_a_perceptron_starts_at_the_scale_of_the_votes_with_layers_of_one_norm(activation):
    model = configured(QUICK, query=MLP((8, 6), 3, activation), tied=True, max_epochs=1)
    model = configured(model, learning_rate=1e-12).fit(X, Y)
    assert (model.kneighbors()[0] ** 2).sum(axis=1).mean() == pytest.approx(1)
    weights = model.parameters_[::2]
    norms = [np.linalg.norm(weight) for weight in weights]
    assert norms == pytest.approx(norms[:1] * 3)
    drawn = model.embedding_.initialize(X - model.mean_, random_state=0)
    for weight, first in zip(weights, drawn[::2], strict=True):
        np.testing.assert_allclose(weight / weight[0, 0], first / first[0, 0])


def test_one_perceptron_of_both_sides():
    data = seen_by_another_sensor()
    model = clone(QUICK).set_params(query=MLP((8,), 3), tied=True).fit(*data)
    np.testing.assert_array_equal(model.transform(data[0]), model.transform(data[0], "database"))
    assert model.pair_distance(np.stack([data[0][:1]] * 2, axis=1)) == [0]
    given = clone(QUICK).set_params(database=MLP((8,), 3), tied=True).fit(*data)
    np.testing.assert_array_equal(given.predict(data[0]), model.predict(data[0]))


def test_matrix_of_stacked_points():
    model = clone(QUICK).fit(X, Y)
    U, V = model.components_query_, model.components_database_
    W = model.get_mahalanobis_matrix()
    assert W.shape == (8, 8)
    a, b = X[3] - model.mean_, X[90] - model.mean_
    stacked = np.r_[a, b]
    assert stacked @ W @ stacked == pytest.approx(((U @ a - V @ b) ** 2).sum())
    assert model.get_metric()(X[3], X[90], squared=True) == pytest.approx(stacked @ W @ stacked)
    assert not np.allclose(U, V)
    tied = clone(QUICK).set_params(tied=True).fit(X, Y)
    np.testing.assert_array_equal(tied.components_query_, tied.components_database_)
    with pytest.raises(AttributeError):
        clone(QUICK).set_params(query=MLP((4,), 4)).fit(X, Y).get_mahalanobis_matrix()


def test_asymmetry_pays_where_queries_differ_from_the_database():
    queries, y, database, y_database = seen_by_another_sensor()
    rows, others = slice(0, 250), slice(250, 500)
    scores = {}
    for tied in (True, False):
        model = AsymmetricSimilarity(
            5, tied=tied, random_state=0, solver=Adam(max_epochs=30, learning_rate=0.1)
        )
        model.fit(queries[rows], y[rows], database, y_database)
        scores[tied] = model.score(queries[others], y[others])
        assert model.history_["infeasible"] == [0] * model.n_iter_
    assert scores[False] > scores[True] + 0.05


def test_more_rows_than_features_are_learned():
    """Rows of zeros, as with "identity", would have no gradient."""
    data, share = seen_by_another_sensor(), {}
    for init in ("auto", "identity"):
        model = AsymmetricSimilarity(
            n_components=8, init=init, random_state=0, solver=Adam(learning_rate=0.1)
        )
        W = model.fit(*data).get_mahalanobis_matrix()
        values = np.linalg.svd(W, compute_uv=False)
        share[init] = values[4] / values[0]
    assert share["auto"] > 5e-3  # 1e-4 at the start
    assert share["identity"] < 1e-9


def test_another_database():
    model = clone(QUICK).fit(X[::2], Y[::2])
    given = model.predict(X[1::2], X[::2], Y[::2])
    np.testing.assert_array_equal(given, model.predict(X[1::2]))
    assert model.score(X[1::2], Y[1::2], X[:140], Y[:140]) > 0.9


def test_an_embedding_of_two_sides_is_none_of_one():
    with pytest.raises(TypeError, match="query must be an embedding of one kind of points"):
        AsymmetricSimilarity(query=Asymmetric(Linear(), Linear()), tied=True).fit(X, Y)


@pytest.mark.parametrize("parameters", [{}, {"tied": True}, {"solver": "lbfgs"}], ids=str)
@pytest.mark.parametrize("n_database", [0, 9])
@pytest.mark.filterwarnings("ignore:The line search failed twice")  # near its minimum
def test_wide_points_are_trained_on_in_their_span(parameters, n_database):
    rng = np.random.default_rng(0)
    y = np.arange(24) % 3
    wide = rng.normal(size=(3, 1000))[y] + 0.5 * rng.normal(size=(24, 1000))
    database = (wide[:n_database] + 0.1, y[:n_database]) if n_database else ()
    model = AsymmetricSimilarity(random_state=0, **parameters).fit(wide, y, *database)
    assert all(isinstance(each, WideMap) for each in model._parameters)
    assert model.score(wide, y) == 1
    U, V = model.components_query_, model.components_database_
    assert U.shape == V.shape == (1000, 1000)
    np.testing.assert_array_equal(model.parameters_[-1], V)
    queries = (wide - model._mean("query")) @ U.T
    np.testing.assert_allclose(model.transform(wide, "query"), queries, atol=1e-9)
    points = ((database[0] if n_database else wide) - model.mean_) @ V.T
    np.testing.assert_allclose(model.database_embedding_, points, atol=1e-9)


def test_coordinates_in_the_span_have_the_same_objective():
    """Maps of coordinates stand for maps of all features."""
    rng = np.random.default_rng(0)
    wide, y = rng.normal(size=(12, 1000)), np.arange(12) % 3
    plain = Samples(wide - wide.mean(axis=0), y, np.arange(3))
    embedding = Asymmetric(Linear(), Linear())
    inside = in_wide_span(embedding, plain)
    assert inside.X.shape == (12, 13) and not inside.X[:, -1].any()
    maps = [np.eye(13) + np.pad(0.1 * rng.normal(size=(12, 12)), (0, 1)) for _ in "UV"]
    outer = [inside.outer_map(A).array() for A in maps]
    learner = AsymmetricSimilarity(random_state=0, regularizer=None)
    learner.classes_, learner.embedding_ = np.arange(3), embedding
    values = [
        EmbeddedLoss(learner._problem(samples))(arrays)[0]
        for samples, arrays in ((inside, maps), (plain, outer))
    ]
    assert values[0] > 0
    np.testing.assert_allclose(*values)


def test_partial_fit_needs_no_span():
    rng = np.random.default_rng(0)
    wide, y = rng.normal(size=(20, 1000)), np.arange(20) % 4
    for learner in (EmbeddingLearner(SupCon(), random_state=0), clone(QUICK)):
        learner.partial_fit(wide, y).partial_fit(wide[::-1], y[::-1])
        assert all(isinstance(each, np.ndarray) for each in learner._parameters)
