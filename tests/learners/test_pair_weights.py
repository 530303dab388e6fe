"""Weights of the pairs of learners that take them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

from metricfast import GMML, ITML, SDML

X, Y = load_iris(return_X_y=True)
RNG = np.random.RandomState(0)
INDEX = RNG.randint(150, size=(120, 2))
SAME = np.where(Y[INDEX[:, 0]] == Y[INDEX[:, 1]], 1, -1)
WEIGHT = RNG.randint(0, 4, size=120)
REPEATED = np.repeat(np.arange(120), WEIGHT)
RATES = {"max_tpr": 0.9, "max_tnr": 0.9}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
every_learner = pytest.mark.parametrize("learner", [GMML, SDML])


@every_learner
@pytest.mark.parametrize("prior", ["identity", "covariance"])
@pytest.mark.parametrize("strategy", ["accuracy", "f_beta", "max_tpr", "max_tnr"])
def test_whole_weights_are_repetitions(learner, prior, strategy):
    params = {"strategy": strategy, "min_rate": RATES.get(strategy)}
    expected = learner(prior=prior).fit(X[INDEX[REPEATED]], SAME[REPEATED], params)
    for make, pairs in (
        (learner(prior=prior), X[INDEX]),
        (learner(prior=prior, preprocessor=X), INDEX),
    ):
        found = make.fit(pairs, SAME, params, sample_weight=WEIGHT)
        np.testing.assert_allclose(found.components_, expected.components_, rtol=1e-9, atol=1e-12)
        assert found.threshold_ == pytest.approx(expected.threshold_, rel=1e-9)


@every_learner
def test_the_unit_of_fractional_weights_does_not_matter(learner):
    weight = WEIGHT + 0.5
    found, scaled = (learner().fit(X[INDEX], SAME, sample_weight=w) for w in (weight, weight * 0.7))
    np.testing.assert_allclose(found.components_, scaled.components_, rtol=1e-6)
    plain = learner().fit(X[INDEX], SAME)
    assert not np.allclose(found.components_, plain.components_, rtol=1e-3)


@every_learner
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (WEIGHT[1:], "must have shape"),
        (-WEIGHT, "must not be negative"),
        (0 * WEIGHT, "must not be zero throughout"),
    ],
    ids=["short", "negative", "zero"],
)
def test_bad_weights(learner, weight, message):
    with pytest.raises(ValueError, match=f"sample_weight {message}"):
        learner().fit(X[INDEX], SAME, sample_weight=weight)


@pytest.mark.parametrize("strategy", ["accuracy", "f_beta", "max_tpr", "max_tnr"])
def test_threshold_of_weighted_pairs(strategy):
    learner = ITML(max_iter=5).fit(X[INDEX], SAME)
    given = {"strategy": strategy, "min_rate": RATES.get(strategy)}
    learner.calibrate_threshold(X[INDEX[REPEATED]], SAME[REPEATED], **given)
    expected = learner.threshold_
    learner.calibrate_threshold(X[INDEX], SAME, **given, sample_weight=WEIGHT)
    assert learner.threshold_ == expected
    with pytest.raises(ValueError, match="sample_weight must have shape"):
        learner.calibrate_threshold(X[INDEX], SAME, sample_weight=WEIGHT[1:])
