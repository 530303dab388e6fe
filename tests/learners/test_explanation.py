"""Explanations of votes: sets of neighbours, losses, and what training moves."""

import sys

import numpy as np
import pytest
from reference_inference import brute_force

from metricfast import (
    AsymmetricSimilarity,
    NeighborhoodGerrymandering,
    NeighborhoodGerrymanderingRegressor,
)
from metricfast.losses import Gerrymander
from metricfast.solvers import Adam

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.array(["low", "mid", "top"])[np.digitize(X[:, 0] + 0.5 * RNG.normal(size=60), [-0.5, 0.5])]
BRIEF = {"random_state": 0, "judge": None, "solver": Adam(max_epochs=2)}
LINEAR = NeighborhoodGerrymandering(3, **BRIEF).fit(X[:30], Y[:30])
TWO_SIDED = AsymmetricSimilarity(3, **BRIEF).fit(X[30:50], Y[30:50], X[:30], Y[:30])


@pytest.mark.parametrize("learner", [LINEAR, TWO_SIDED], ids=["one map", "two maps"])
def test_an_explanation_has_the_sets_of_an_enumeration(learner):
    found = learner.explain(X[50:], Y[50:])
    distances, nearest = learner.kneighbors(X[50:])
    np.testing.assert_array_equal(found.nearest, nearest)
    np.testing.assert_allclose(found.distances[:, 0], distances)
    np.testing.assert_array_equal(found.vote, learner.predict(X[50:]))
    order = np.argsort(learner.kneighbors(X[50:], n_neighbors=30)[1], axis=1)
    far = np.take_along_axis(learner.kneighbors(X[50:], n_neighbors=30)[0], order, axis=1)
    codes = np.searchsorted(learner.classes_, Y)
    for i, code in enumerate(codes[50:]):
        delta = np.where(np.arange(3) == code, 0.0, 1.0)
        right, worst = brute_force(far[i] ** 2, codes[:30], delta, 3, "pessimistic")
        np.testing.assert_allclose(found.loss[i], worst - right, atol=1e-9)
    assert found.loss.max() > 0.1


def test_pulls_and_pushes_are_the_gradient_of_the_loss():
    found = LINEAR.explain()
    Z = LINEAR.database_embedding_
    value, weights = Gerrymander(3).weights(Z, Y[:30])
    np.testing.assert_allclose(found.loss.sum(), value)
    moved = np.zeros((30, 30))
    for i in range(30):
        moved[i, found.targeted[i][found.pulls[i]]] = 1
        moved[i, found.augmented[i][found.pushes[i]]] = -1
    np.testing.assert_array_equal(moved, weights.toarray())
    assert (moved != 0).any()
    np.testing.assert_array_equal(found.nearest, LINEAR.kneighbors()[1])
    assert found.database_classes.tolist() == Y[:30].tolist()


def test_without_classes_the_answer_is_explained():
    found = LINEAR.explain(X[50:])
    np.testing.assert_array_equal(found.right, LINEAR.predict(X[50:]))
    same = LINEAR.explain(X[50:], found.right)
    np.testing.assert_array_equal(found.loss, same.loss)


def test_a_table_has_a_row_for_each_point_of_the_sets(monkeypatch):
    found = TWO_SIDED.explain(X[50:], Y[50:], X[:20], Y[:20])
    table = found.table
    assert table["training"].isin(["", "pull", "push"]).all()
    assert list(table.columns) == list(found.columns())
    for query, rows in table.groupby("query"):
        assert rows["distance"].is_monotonic_increasing
        assert set(rows["point"][rows["nearest"]]) == set(found.nearest[query])
        assert set(rows["point"][rows["targeted"]]) == set(found.targeted[query])
        pulled = found.targeted[query][found.pulls[query]]
        assert set(rows["point"][rows["training"] == "pull"]) == set(pulled)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert found.table == found.columns()
    assert repr(found).startswith("query  right -> vote     loss")


def test_a_query_without_a_right_set_moves_nothing():
    y = np.array([*Y[1:30], "one"])
    learner = NeighborhoodGerrymandering(3, **BRIEF)
    with pytest.warns(UserWarning, match="No set of"):
        learner.fit(X[:30], y)
    found = learner.explain()
    assert np.isnan(found.loss[-1])
    assert not np.isnan(found.loss[:-1]).any()
    assert not (found.pulls[-1].any() or found.pushes[-1].any())
    assert np.isnan(found.distances[-1, 1]).all()
    assert "none votes right" in repr(learner.explain(X[29:30], ["one"]))
    assert (found.table["point"] >= 0).all()


def test_explanations_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="y must hold 10 labels, one per point; found 3"):
        LINEAR.explain(X[50:], Y[:3])
    with pytest.raises(ValueError, match="y holds class 'new', of which the database"):
        LINEAR.explain(X[50:], ["new"] * 10)
    with pytest.raises(ValueError, match="X may be left out only where"):
        TWO_SIDED.explain()
    with pytest.raises(ValueError, match="X_database and y_database must be given together"):
        TWO_SIDED.explain(X[50:], Y[50:], X[:20])


def test_votes_for_quantiles_are_explained():
    how = {"n_bins": 3, "regularizer": None, "random_state": 0, "solver": BRIEF["solver"]}
    learner = NeighborhoodGerrymanderingRegressor(3, **how).fit(X[:40], X[:40, 0])
    found = learner.explain()
    np.testing.assert_allclose(found.loss.sum(), learner.objective_)
    assert set(found.database_classes) == set(learner.bins_)
    same = learner.explain(X[40:], X[40:, 0])
    apart = np.abs(X[40:, :1] - learner.bins_)
    assert np.mean(same.right == learner.bins_[apart.argmin(axis=1)]) > 0.8
    np.testing.assert_array_equal(learner.explain(X[40:]).right, same.vote)
    assert len(repr(same).splitlines()[1]) < 35
    with pytest.raises(ValueError, match="y must hold 20 labels"):
        learner.explain(X[40:], X[:3, 0])
    few = np.repeat([0.0, 1.0], [6, 34])
    learner.fit(X[:40], few)
    assert learner.bins_.tolist() == [0, 1]
