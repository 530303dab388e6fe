"""Weights of points, for learners that draw pairs of them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

from metricfast import ITML_Supervised, LSML_Supervised, MMC_Supervised, SDML_Supervised

X, Y = load_iris(return_X_y=True)
WEIGHT = np.random.default_rng(0).uniform(0.1, 3, len(X))
LEARNERS = [
    ITML_Supervised(gamma=0.1),
    LSML_Supervised(),
    MMC_Supervised(max_iter=20),
    SDML_Supervised(balance_param=1e-4),
]

every_learner = pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: type(each).__name__)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def components(learner, *data, **params):
    return learner.set_params(n_constraints=60, random_state=0).fit(*data, **params).components_


@every_learner
def test_points_of_weight_zero_have_no_effect(learner):
    noise = np.random.default_rng(1).normal(size=(40, 4))
    rows = np.random.default_rng(2).permutation(190)
    data = np.r_[X, noise][rows], np.r_[Y, np.arange(40) % 4][rows]
    found = components(learner, *data, sample_weight=np.r_[WEIGHT, np.zeros(40)][rows])
    kept = rows[rows < 150]
    expected = components(learner, X[kept], Y[kept], sample_weight=WEIGHT[kept])
    np.testing.assert_array_equal(found, expected)


@every_learner
def test_weights_count_relatively(learner):
    found = components(learner, X, Y, sample_weight=WEIGHT)
    np.testing.assert_array_equal(found, components(learner, X, Y, sample_weight=4 * WEIGHT))
    assert not np.array_equal(found, components(learner, X, Y, sample_weight=WEIGHT**2))
    assert not np.array_equal(found, components(learner, X, Y))
