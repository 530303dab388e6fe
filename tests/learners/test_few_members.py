"""Classes with few points: half of the classes are held out to decide whether to train."""

import warnings

import numpy as np
import pytest

from metricfast import LDML, LMNN, MCML, NCA, NCMML
from metricfast.neighbors import kneighbors
from metricfast.selection import Judge

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
    with pytest.warns(UserWarning, match="Learning was not better than the given distance"):
        model = learner.fit(X[TRAIN], Y[TRAIN])
    scale = model.components_[0, 0]
    np.testing.assert_allclose(model.components_, scale * np.eye(8), atol=1e-12)


@every
def test_a_map_is_learned_that_serves_new_classes(learner):
    X = CENTRES[Y] + NOISE * ([0.1] * 6 + [3.0] * 2)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Learning was not")
        model = learner.fit(X[TRAIN], Y[TRAIN])
    assert share_found(model.transform(X[TEST])) > share_found(X[TEST]) + 0.3


def test_fewer_components_end_at_principal_components():
    X = np.hstack([CENTRES[Y] + 0.4 * NOISE, 0.01 * RNG.normal(size=(240, 4))])
    with pytest.warns(UserWarning, match="Learning was not better than the given distance"):
        L = NCA(n_components=8).fit(X[TRAIN], Y[TRAIN]).components_
    assert np.ptp(np.linalg.norm(L, axis=1)) < 1e-9 * np.linalg.norm(L)
    assert np.linalg.norm(L[:, 8:]) < 0.1 * np.linalg.norm(L)


def test_what_is_held_out_may_be_named():
    X = CENTRES[Y[:200] // 5] + 0.4 * NOISE[:200]
    labels = Y[:200] // 5  # 20 classes of 10 points
    for judge, unit in ((Judge(unit="classes"), "classes"), ("auto", "points")):
        with pytest.warns(UserWarning, match=f"by 2 standard errors on held-out {unit}, so"):
            assert NCA(judge=judge).fit(X, labels).judgement_.unit == unit
    with pytest.warns(UserWarning, match="Nothing could be held out"):  # three classes
        NCA(judge=Judge(unit="classes")).fit(X[:30], labels[:30])
    with pytest.raises(ValueError, match="unit must be"):
        NCA(judge=Judge(unit="rows")).fit(X, labels)
