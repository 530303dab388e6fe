"""AutoLearner: what it tries, what it chooses, and that it says so."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine, make_friedman1
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import metricfast as mf
from metricfast import (
    LFDA,
    LMNN,
    MLKR,
    NCA,
    AutoLearner,
    Covariance,
    KernelizedMetricLearner,
    KISSME_Supervised,
    KNeighborsClassifier,
    KNeighborsRegressor,
)
from metricfast.selection import Judge
from metricfast.selection._judge import Judge as PrivateJudge

X, y = load_wine(return_X_y=True)
RNG = np.random.default_rng(1)
NOISE = RNG.normal(size=(150, 4)), np.arange(150) % 3


def test_it_is_the_learner_that_it_chose():
    auto = AutoLearner([KISSME_Supervised(), LFDA()], random_state=0).fit(X, y)
    judgement = auto.judgement_
    assert judgement.chosen and judgement.names[:2] == ["given distance", "standardised features"]
    assert judgement.name.startswith(type(auto.learner_).__name__)
    np.testing.assert_array_equal(auto.components_, auto.learner_.components_)
    np.testing.assert_array_equal(auto.transform(X), auto.learner_.transform(X))
    assert auto.learner_.judge == "auto" and auto.learner_.judgement_.n_held_out == 178
    assert "instead of" in judgement.reason and "178 held-out points" in judgement.reason
    tried = {name.partition(",")[0] for name in judgement.names[2:]}
    assert tried | auto.dropped_.keys() == {"KISSME_Supervised", "LFDA"}


def test_learners_get_standardized_features_if_these_are_better():
    """The chosen setting is fitted to all points, standardized."""
    auto = AutoLearner([LFDA()]).fit(X, y)
    assert auto.judgement_.costs[1] < auto.judgement_.costs[0]
    setting = auto.learner_.judgement_.name
    scaler = StandardScaler().fit(X)
    by_hand = LFDA(judge=None).fit(scaler.transform(X), y)
    for index, name in enumerate(auto.learner_.judgement_.names[1:], 1):
        if name == setting:
            by_hand._published = LFDA._settings[index]
    by_hand.fit(scaler.transform(X), y)
    expected = by_hand.pair_distance(scaler.transform(X[:40]).reshape(20, 2, -1))
    np.testing.assert_allclose(auto.pair_distance(X[:40].reshape(20, 2, -1)), expected)


def test_costs_are_those_of_the_judge():
    judge = Judge(measure="nearest", errors=0)
    auto = AutoLearner([LFDA()], judge).fit(X, y)
    costs_of, costs = judge.costs_by()[1], []
    for part in judge.split(X, y):
        Q, D = X[part.queries], X[part.database]
        costs.append(costs_of(Q, y[part.queries], D, y[part.database], None))
    assert auto.judgement_.costs[0] == pytest.approx(np.concatenate(costs).mean(), abs=0.01)
    assert auto.judgement_.measure == "nearest"


def test_the_given_distance_stays_unless_a_learner_is_better():
    with pytest.warns(UserWarning, match="so the given distance stays: give more points"):
        auto = AutoLearner(random_state=0).fit(*NOISE)
    assert auto.judgement_.name == "given distance"
    np.testing.assert_array_equal(auto.components_, np.eye(4))
    assert "No learner was better than the given distance by 2.7 standard" in auto.judgement_.reason
    few = [[0.0, 1.0], [1.0, 2.0]], [0, 1]
    with pytest.warns(UserWarning, match="given distance stays"):
        np.testing.assert_array_equal(AutoLearner().fit(*few).components_, np.eye(2))


def test_standardized_features_are_an_answer():
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    points = np.c_[labels + 0.3 * rng.normal(size=200), 1000 * rng.normal(size=200)]
    auto = AutoLearner([Covariance()]).fit(points, labels)
    assert auto.judgement_.names[auto.judgement_.chosen] in ("standardised features", "Covariance")
    alone = AutoLearner([LMNN()], time_limit=0).fit(points, labels)
    assert alone.judgement_.name == "standardised features"
    assert alone.dropped_ == {"LMNN": "no time left"}
    np.testing.assert_allclose(alone.components_, np.diag(1 / points.std(axis=0)))
    again = clone(alone.learner_).fit(points)
    np.testing.assert_array_equal(again.components_, alone.components_)


def test_who_cannot_win_is_dropped():
    auto = AutoLearner([LFDA(), Covariance(), NCA(n_components=99)], random_state=0).fit(X, y)
    assert auto.dropped_["Covariance"].endswith("not expected to be better than LFDA")
    far = np.c_[np.repeat([0, 10, 20], 30), RNG.normal(size=90)]
    with pytest.warns(UserWarning, match="given distance stays"):
        easy = AutoLearner([LFDA()]).fit(far, np.repeat([0, 1, 2], 30))
    assert easy.dropped_ == {"LFDA": "not expected to be better than given distance"}


def test_a_learner_that_fails_is_named():
    with pytest.warns(UserWarning, match="given distance stays"):
        auto = AutoLearner([LFDA(n_components=99)]).fit(*NOISE)
    assert auto.dropped_["LFDA"].startswith("ValueError: Invalid n_components")


def test_numbers():
    points, labels = make_friedman1(300, noise=1, random_state=0)
    auto = AutoLearner(random_state=0).fit(points, labels)
    assert isinstance(auto.learner_, MLKR) and auto.judgement_.measure == "squared_error"
    spread = np.var(labels)
    assert spread / 8 < auto.judgement_.costs[auto.judgement_.chosen] < auto.judgement_.costs[0]
    model = KNeighborsRegressor(5, metric=AutoLearner(random_state=0))
    plain = KNeighborsRegressor(5)
    assert cross_val_score(model, points, labels).mean() > 0.05 + np.mean(
        cross_val_score(plain, points, labels)
    )


def test_what_labels_are():
    _, labels = load_diabetes(return_X_y=True)  # integers, which repeat
    points = np.random.default_rng(0).normal(size=(442, 2)) + labels[:, None] / 10
    for params, measure in [
        ({}, "neighbors"),
        ({"task": "numbers"}, "squared_error"),
        ({"learners": [MLKR(max_iter=3)]}, "squared_error"),
        ({"learners": [LFDA()]}, "neighbors"),
    ]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            auto = AutoLearner(time_limit=0.1, **params).fit(points, labels)
        assert auto.judgement_.measure == measure


@pytest.mark.parametrize("unit", ["classes", "groups"])
def test_classes_and_groups_are_held_out(unit):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 6)
    points = rng.normal(size=(40, 6))[labels] + rng.normal(size=(240, 6)) * ([0.2] * 4 + [4] * 2)
    how = {"groups": np.tile(np.arange(6), 40)} if unit == "groups" else {}
    auto = AutoLearner([LFDA()], Judge(unit=unit)).fit(points, labels, **how)
    assert auto.judgement_.unit == unit and auto.judgement_.chosen
    with pytest.raises(ValueError, match="groups"):
        AutoLearner(judge=Judge(unit="groups")).fit(points, labels)


def test_views_are_searched_across():
    rng = np.random.default_rng(0)
    labels, views = np.repeat(np.arange(60), 2), np.tile([0, 1], 60)
    points = rng.normal(size=(60, 6))[labels] + np.outer(views, [0, 0, 0, 0, 5, 5])
    points += 0.2 * rng.normal(size=points.shape)
    auto = AutoLearner([KISSME_Supervised()]).fit(points, labels, views=views)
    own = KISSME_Supervised().fit(points, labels, views=views)
    assert auto.judgement_.costs[0] == pytest.approx(own.judgement_.costs[0], abs=0.05)
    assert auto.judgement_.chosen


def test_points_without_weight_do_not_count():
    weight = np.r_[np.ones(178), np.zeros(50)]
    more = np.r_[X, RNG.normal(size=(50, 13))], np.r_[y, RNG.integers(3, size=50)]
    auto = AutoLearner([LFDA()]).fit(*more, sample_weight=weight)
    np.testing.assert_allclose(auto.components_, AutoLearner([LFDA()]).fit(X, y).components_)


def test_more_features_than_points():
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    points = rng.normal(size=(60, 300))
    points[:, :3] += 4 * np.eye(3)[labels]
    auto = AutoLearner([LFDA()], Judge(errors=0)).fit(points, labels)
    assert auto.transform(points).shape[0] == 60 and auto.judgement_.chosen


def test_it_stands_in_for_a_learner(tmp_path):
    model = KNeighborsClassifier(metric=AutoLearner([LFDA()])).fit(X, y)
    assert model.score(X, y) > 0.95
    search = GridSearchCV(
        make_pipeline(AutoLearner([LFDA()]), KNeighborsClassifier()),
        {"autolearner__judge": ["auto", Judge(measure="vote")]},
    ).fit(X, y)
    assert search.best_score_ > 0.9
    auto = AutoLearner([LFDA()], Judge(errors=1)).fit(X, y)
    mf.save(auto, tmp_path / "auto.safetensors")
    loaded = mf.load(tmp_path / "auto.safetensors")
    np.testing.assert_array_equal(loaded.transform(X), auto.transform(X))
    assert isinstance(loaded.judge, PrivateJudge) and isinstance(loaded.learners[0], LFDA)
    validated = AutoLearner([LFDA()]).fit(X, y, validate=True)
    assert validated.validation_.costs[1] < validated.validation_.costs[0]


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"learners": "NCA"}, TypeError, "learners must be"),
        ({"learners": []}, TypeError, "learners must be"),
        ({"learners": [LFDA]}, TypeError, "learners of a linear map"),
        ({"learners": [KernelizedMetricLearner(LFDA())]}, TypeError, "learners of a linear map"),
        ({"learners": [mf.ITML()]}, TypeError, "from points"),
        ({"judge": None}, ValueError, "judge must be 'auto' or a Judge"),
        ({"judge": Judge("squared_error")}, ValueError, "measure of the judge must be"),
        ({"time_limit": -1}, ValueError, "time_limit"),
        ({"task": "x"}, ValueError, "task"),
    ],
)
def test_wrong_parameters(params, error, message):
    with pytest.raises(error, match=message):
        AutoLearner(**params).fit(X, y)
