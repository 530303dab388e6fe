"""Classes with few points: half of the classes are held out to decide whether to train."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from metricfast import LDML, LMNN, MCML, NCA, NCMML
from metricfast.neighbors import kneighbors
from metricfast.stopping import CrossValidated

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(120, 8))
Y = np.repeat(np.arange(120), 2)
NOISE = RNG.normal(size=(240, 8))
TRAIN, TEST = Y < 60, Y >= 60
LEARNERS = [NCA(), MCML(), LDML(), NCMML(), LMNN(n_neighbors=1)]
every = pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: type(each).__name__)


def share_found(points):
    nearest = kneighbors(points, n_neighbors=1)[1][:, 0]
    return np.mean(Y[TEST][nearest] == Y[TEST])


@every
def test_the_given_distance_stays_where_noise_is_the_same_in_all_features(learner):
    X = CENTRES[Y] + 0.4 * NOISE
    with pytest.warns(UserWarning, match="No training was better than none"):
        model = learner.fit(X[TRAIN], Y[TRAIN])
    scale = model.components_[0, 0]
    np.testing.assert_allclose(model.components_, scale * np.eye(8), atol=1e-12)


@every
def test_a_map_is_learned_that_serves_new_classes(learner):
    X = CENTRES[Y] + NOISE * ([0.1] * 6 + [3.0] * 2)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "No training")
        model = learner.fit(X[TRAIN], Y[TRAIN])
    assert share_found(model.transform(X[TEST])) > share_found(X[TEST]) + 0.3


def test_fewer_components_end_at_principal_components():
    X = np.hstack([CENTRES[Y] + 0.4 * NOISE, 0.01 * RNG.normal(size=(240, 4))])
    with pytest.warns(UserWarning, match="No training was better than none"):
        L = NCA(n_components=8).fit(X[TRAIN], Y[TRAIN]).components_
    assert np.ptp(np.linalg.norm(L, axis=1)) < 1e-9 * np.linalg.norm(L)
    assert np.linalg.norm(L[:, 8:]) < 0.1 * np.linalg.norm(L)


def test_what_is_held_out_may_be_named():
    X = CENTRES[Y[:200] // 5] + 0.4 * NOISE[:200]
    labels = Y[:200] // 5  # 20 classes of 10 points
    with pytest.warns(UserWarning, match="No training was better than none"):
        NCA(early_stopping=CrossValidated(unit="classes")).fit(X, labels)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "No training")
        NCA().fit(X, labels)
        NCA(early_stopping=CrossValidated(unit="points")).fit(X, labels)
    with pytest.raises(ValueError, match=r"unit='classes'\) needs four classes"):
        NCA(early_stopping=CrossValidated(unit="classes")).fit(X[:30], labels[:30])
    with pytest.raises(ValueError, match="unit must be"):
        NCA(early_stopping=CrossValidated(unit="rows")).fit(X, labels)
