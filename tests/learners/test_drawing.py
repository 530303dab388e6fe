"""Pairs that learners draw from class labels, and weights of drawn and of given pairs."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris

from metricfast import GMML, SDML, ITML_Supervised, LSML_Supervised, MMC_Supervised, SDML_Supervised
from metricfast.learners.tuples.drawing import draw_index_pairs

X, Y = load_iris(return_X_y=True)
WEIGHT = np.random.default_rng(0).uniform(0.1, 3, len(X))
LEARNERS = [
    ITML_Supervised(gamma=0.1),
    LSML_Supervised(),
    MMC_Supervised(max_iter=20),
    SDML_Supervised(balance_param=1e-4, judge=None),
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


RNG = np.random.RandomState(0)
INDEX = RNG.randint(150, size=(120, 2))
SAME = np.where(Y[INDEX[:, 0]] == Y[INDEX[:, 1]], 1, -1)
COUNTS = RNG.randint(0, 4, size=120)
REPEATED = np.repeat(np.arange(120), COUNTS)
RATES = {"max_tpr": 0.9, "max_tnr": 0.9}
every_learner_of_pairs = pytest.mark.parametrize("learner", [GMML, SDML])


@every_learner_of_pairs
@pytest.mark.parametrize("prior", ["identity", "covariance"])
@pytest.mark.parametrize("strategy", ["accuracy", "f_beta", "max_tpr", "max_tnr"])
def test_whole_weights_are_repetitions(learner, prior, strategy):
    params = {"strategy": strategy, "min_rate": RATES.get(strategy)}
    expected = learner(prior=prior).fit(X[INDEX[REPEATED]], SAME[REPEATED], params)
    for make, pairs in (
        (learner(prior=prior), X[INDEX]),
        (learner(prior=prior, preprocessor=X), INDEX),
    ):
        found = make.fit(pairs, SAME, params, sample_weight=COUNTS)
        np.testing.assert_allclose(found.components_, expected.components_, rtol=1e-9, atol=1e-12)
        assert found.threshold_ == pytest.approx(expected.threshold_, rel=1e-9)


@every_learner_of_pairs
def test_the_unit_of_fractional_weights_does_not_matter(learner):
    weight = COUNTS + 0.5
    found, scaled = (learner().fit(X[INDEX], SAME, sample_weight=w) for w in (weight, weight * 0.7))
    np.testing.assert_allclose(found.components_, scaled.components_, rtol=1e-6)
    plain = learner().fit(X[INDEX], SAME)
    assert not np.allclose(found.components_, plain.components_, rtol=1e-3)


@every_learner_of_pairs
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (COUNTS[1:], "must have shape"),
        (-COUNTS, "must not be negative"),
        (0 * COUNTS, "must not be zero throughout"),
    ],
    ids=["short", "negative", "zero"],
)
def test_bad_weights(learner, weight, message):
    with pytest.raises(ValueError, match=f"sample_weight {message}"):
        learner().fit(X[INDEX], SAME, sample_weight=weight)


def drawn(n_classes, n_members, n_features=2):
    labels = np.repeat(np.arange(n_classes), n_members)
    rows = draw_index_pairs(labels, None, None, np.random.RandomState(0), n_features)
    return len(rows[0]), len(rows[2])


@pytest.mark.parametrize("n_classes", [2, 10, 40])
def test_up_to_forty_classes_as_in_metric_learn(n_classes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert drawn(n_classes, 50) == (20 * n_classes**2,) * 2


@pytest.mark.parametrize(
    ("n_classes", "n_members", "n_features", "expected"),
    [(41, 60, 2, 32_000), (100, 400, 2, 40_000), (60, 60, 35_000, 35_000), (3000, 20, 9, 60_000)],
)
def test_more_classes_draw_at_most_a_pair_for_each_point_or_feature(
    n_classes, n_members, n_features, expected
):
    text = f"draws {expected:,} pairs of either kind, not .* = {20 * n_classes**2:,}, for y holds"
    with pytest.warns(UserWarning, match=text):
        assert drawn(n_classes, n_members, n_features) == (expected, expected)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "learner",
    [
        ITML_Supervised(max_iter=2, random_state=0),
        LSML_Supervised(random_state=0),
        MMC_Supervised(max_iter=2, random_state=0),
        SDML_Supervised(random_state=0),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_thousands_of_classes(learner):
    y = np.repeat(np.arange(5000), 3)
    X = np.random.default_rng(0).normal(size=(len(y), 4)) + y[:, None] % 7
    assert learner.fit(X, y).transform(X[:5]).shape == (5, 4)
