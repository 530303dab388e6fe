"""What the learners of neighbourhood gerrymandering keep, refuse and report."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from metricfast import (
    AsymmetricSimilarity,
    NeighborhoodGerrymandering,
    NeighborhoodGerrymanderingRegressor,
)
from metricfast.embeddings import Linear

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 5))
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
ASYMMETRIC = AsymmetricSimilarity(max_epochs=3, random_state=0)
LINEAR = NeighborhoodGerrymandering(max_epochs=3, random_state=0)
REGRESSOR = NeighborhoodGerrymanderingRegressor(max_epochs=3, random_state=0)


def test_a_refused_refit_of_the_regressor_leaves_the_model_or_none():
    model = clone(REGRESSOR).fit(X, X[:, 0])
    before = model.predict(X)
    with pytest.raises(ValueError, match="C must be"):
        model.set_params(C=-1).fit(X[:50, :3], X[:50, 0])
    np.testing.assert_array_equal(model.predict(X), before)
    with pytest.raises(ValueError, match="n_neighbors must be at most 49"):
        model.set_params(C=1, n_neighbors=60).fit(X[:50, :3], X[:50, 0])
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(NotFittedError):
        model.transform(X)


def test_an_interrupted_regressor_predicts():
    def interrupt(state):
        raise KeyboardInterrupt

    model = clone(REGRESSOR).set_params(callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, X[:, 0])
    assert model.predict(X).shape == (120,)


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


def test_a_warm_start_begins_at_the_learned_distance():
    model = clone(ASYMMETRIC).set_params(warm_start=True, max_epochs=10).fit(X, Y)
    pairs = np.stack([X[:9], X[9:18]], axis=1)
    before = model.pair_distance(pairs)
    model.set_params(learning_rate=1e-9, max_epochs=1).fit(X, Y, X[:60] + 0.5, Y[:60])
    np.testing.assert_allclose(model.pair_distance(pairs), before, rtol=1e-6)


def test_weights_of_a_score():
    model = clone(ASYMMETRIC).fit(X, Y)
    weight = np.arange(120.0)
    expected = np.average(model.predict(X) == Y, weights=weight)
    assert model.score(X, Y, sample_weight=weight) == pytest.approx(expected)
    assert model.score(X, Y, X[:60], Y[:60], sample_weight=weight) < 1
    with pytest.raises(ValueError, match="sample_weight must have shape"):
        model.score(X, Y, sample_weight=weight[:-1])
