"""AutoLearner: what it tries, what it chooses, and that it says so."""

import re
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine, make_friedman1
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import metricfast as mf
from metricfast.distances.neighbors import kneighbors
from metricfast.selection import Judge
from metricfast.selection._judge import Judge as PrivateJudge
from metricfast.selection._measures import Search

X, y = load_wine(return_X_y=True)
RNG = np.random.default_rng(1)
NOISE = RNG.normal(size=(150, 4)), np.arange(150) % 3


def test_it_is_the_learner_that_it_chose():
    auto = mf.AutoLearner([mf.KISSME_Supervised(), mf.LFDA()], random_state=0).fit(X, y)
    judgement = auto.judgement_
    assert judgement.chosen and judgement.names[:2] == ["given distance", "standardised features"]
    assert judgement.name == type(auto.learner_).__name__
    np.testing.assert_array_equal(auto.components_, auto.learner_.components_)
    np.testing.assert_array_equal(auto.transform(X), auto.learner_.transform(X))
    assert auto.learner_.judge == "auto" and auto.learner_.judgement_.n_held_out == 178
    assert "instead of" in judgement.reason and "178 held-out points" in judgement.reason
    assert {*judgement.names[2:]} | auto.dropped_.keys() == {"KISSME_Supervised", "LFDA"}


def test_learners_get_standardized_features_if_these_are_better():
    """The chosen setting is fitted to all points, standardized."""
    auto = mf.AutoLearner([mf.LFDA()]).fit(X, y)
    assert auto.judgement_.costs[1] < auto.judgement_.costs[0]
    setting = auto.learner_.judgement_.name
    scaler = StandardScaler().fit(X)
    by_hand = mf.LFDA(judge=None).fit(scaler.transform(X), y)
    for index, name in enumerate(auto.learner_.judgement_.names[1:], 1):
        if name == setting:
            by_hand._published = mf.LFDA._settings[index]
    by_hand.fit(scaler.transform(X), y)
    expected = by_hand.pair_distance(scaler.transform(X[:40]).reshape(20, 2, -1))
    np.testing.assert_allclose(auto.pair_distance(X[:40].reshape(20, 2, -1)), expected)


def test_costs_are_those_of_the_judge():
    judge = Judge(measure="nearest", errors=0)
    auto = mf.AutoLearner([mf.LFDA()], judge).fit(X, y)
    costs_of, costs = judge.costs_by()[1], []
    for part in judge.split(X, y):
        Q, D = X[part.queries], X[part.database]
        costs.append(costs_of(Search(Q, D), y[part.queries], y[part.database], None))
    assert auto.judgement_.costs[0] == pytest.approx(np.concatenate(costs).mean(), abs=0.01)
    assert auto.judgement_.measure == "nearest"


def test_the_given_distance_stays_unless_a_learner_is_better():
    with pytest.warns(UserWarning, match="so the given distance stays: give more points"):
        auto = mf.AutoLearner(random_state=0).fit(*NOISE)
    assert auto.judgement_.name == "given distance"
    np.testing.assert_array_equal(auto.components_, np.eye(4))
    assert "No learner was better than the given distance by 2.7 standard" in auto.judgement_.reason
    few = [[0.0, 1.0], [1.0, 2.0]], [0, 1]
    with pytest.warns(UserWarning, match="given distance stays"):
        np.testing.assert_array_equal(mf.AutoLearner().fit(*few).components_, np.eye(2))


def test_standardized_features_are_an_answer():
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    points = np.c_[labels + 0.3 * rng.normal(size=200), 1000 * rng.normal(size=200)]
    auto = mf.AutoLearner([mf.Covariance()]).fit(points, labels)
    assert auto.judgement_.names[auto.judgement_.chosen] in ("standardised features", "Covariance")
    alone = mf.AutoLearner([mf.LMNN()], time_limit=0).fit(points, labels)
    assert alone.judgement_.name == "standardised features"
    assert alone.dropped_ == {"LMNN": "no time left"}
    spread = points.std(axis=0)
    np.testing.assert_allclose(alone.components_, np.diag(spread.min() / spread))
    again = clone(alone.learner_).fit(points)
    np.testing.assert_array_equal(again.components_, alone.components_)


def test_who_cannot_win_is_dropped():
    auto = mf.AutoLearner(
        [mf.LFDA(), mf.Covariance(), mf.NCA(n_components=99)], random_state=0
    ).fit(X, y)
    assert re.fullmatch(
        r"dropped after fold [12] of 3: 0\.\d+ behind LFDA", auto.dropped_["Covariance"]
    )
    far = np.c_[np.repeat([0, 10, 20], 30), RNG.normal(size=90)]
    with pytest.warns(UserWarning, match="given distance stays"):
        easy = mf.AutoLearner([mf.LFDA()]).fit(far, np.repeat([0, 1, 2], 30))
    assert easy.dropped_ == {"LFDA": "not tried: at most 0.000 to gain over given distance"}


def test_a_learner_that_fails_is_named():
    with pytest.warns(UserWarning, match="given distance stays"):
        auto = mf.AutoLearner([mf.LFDA(n_components=99)]).fit(*NOISE)
    assert auto.dropped_["LFDA"].startswith("ValueError: Invalid n_components")


def _tuples(size, n=300):
    """Points of two features of four that matter, and tuples in the order of these."""
    rng = np.random.default_rng(0)
    tuples = rng.normal(size=(n, size, 4)) * [1, 1, 5, 5]
    seen = tuples[..., :2]
    if size == 2:
        near = np.linalg.norm(seen[:, 0] - seen[:, 1], axis=1)
        return tuples, np.where(near < np.median(near), 1, -1)
    ends = [0, 2] if size == 3 else [2, 3]
    near = np.linalg.norm(seen[:, 0] - seen[:, 1], axis=1)
    far = np.linalg.norm(seen[:, ends[0]] - seen[:, ends[1]], axis=1)
    turned = [0, 2, 1] if size == 3 else [2, 3, 0, 1]
    return np.where((near < far)[:, None, None], tuples, tuples[:, turned]), None


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.filterwarnings("ignore")
def test_tuples_are_judged_by_their_order(size):
    tuples, labels = _tuples(size)
    auto = mf.AutoLearner(random_state=0).fit(tuples, labels)
    judgement = auto.judgement_
    assert judgement.measure == "order" and judgement.unit == "tuples" and judgement.chosen
    assert judgement.n_held_out == 300 and judgement.costs[judgement.chosen] < 0.25
    fresh = np.random.default_rng(1).normal(size=(100, 2, 4)) * [1, 1, 5, 5]
    true = np.linalg.norm(fresh[:, 0, :2] - fresh[:, 1, :2], axis=1)
    assert np.corrcoef(true, auto.pair_distance(fresh))[0, 1] > 0.7
    np.testing.assert_allclose(auto.pair_distance(fresh), auto.learner_.pair_distance(fresh))
    points, index = tuples.reshape(-1, 4), np.arange(300 * size).reshape(300, size)
    same = mf.AutoLearner(preprocessor=points, random_state=0).fit(index, labels)
    np.testing.assert_allclose(same.components_, auto.components_)
    if size == 2:
        assert np.mean(auto.predict_pairs(tuples) == labels) > 0.8
        np.testing.assert_array_equal(same.learner_.predict(index), same.predict_pairs(index))


def test_the_given_distance_stays_for_tuples_in_no_order():
    tuples = np.random.default_rng(0).normal(size=(80, 2, 3))
    for labels in (np.arange(80) % 2 * 2 - 1, np.r_[-1, np.ones(79, int)]):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            auto = mf.AutoLearner(random_state=0).fit(tuples, labels)
        assert "so the given distance stays: give more tuples" in str(caught[-1].message)
        np.testing.assert_array_equal(auto.components_, np.eye(3))


def test_tuples_that_cannot_be_used():
    tuples, labels = _tuples(2)
    for wrong, how, message in [
        ((tuples, None), {}, "AdapterLearner learns from scores"),
        ((tuples, labels / 2), {}, "AdapterLearner learns from scores"),
        ((tuples[:, [0] * 5], labels), {}, "pairs, triplets or quadruplets; found shape"),
        ((tuples, labels), {"groups": labels}, "groups is for points"),
        ((tuples, labels), {"validate": True}, "validate is for points"),
    ]:
        with pytest.raises(ValueError, match=message):
            mf.AutoLearner().fit(*wrong, **how)
    with pytest.raises(ValueError, match="judge must have measure='auto'"):
        mf.AutoLearner(judge=Judge("nearest")).fit(tuples, labels)


@pytest.mark.filterwarnings("ignore")
def test_vectors_and_tags():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(240, 6)) * [1, 1, 1, 4, 4, 4]
    auto = mf.AutoLearner(random_state=0).fit(points, points[:, :2])
    assert auto.judgement_.measure == "squared_error" and auto.judgement_.chosen
    np.testing.assert_allclose(
        pdist(auto.transform(points[:20])), pdist(auto.learner_.transform(points[:20])), rtol=1e-6
    )
    tags = points[:, :3] > 0.5
    known = tags.any(axis=1)
    found = [
        mf.AutoLearner(random_state=0).fit(points[known], labels[known])
        for labels in (tags, tags.astype(int), csr_array(tags))
    ]
    for auto in found:
        assert auto.judgement_.measure == "neighbors" and auto.judgement_.chosen
        np.testing.assert_array_equal(auto.components_, found[0].components_)


@pytest.mark.filterwarnings("ignore")
def test_labels_with_a_distance_of_their_own():
    """Names, functions and matrices of the same label distance give the same map."""
    rng = np.random.default_rng(0)
    hours = rng.uniform(0, 24, size=200)
    turns = np.c_[np.cos(hours * np.pi / 12), np.sin(hours * np.pi / 12)]
    points = np.c_[turns, 2 * rng.normal(size=(200, 3))] @ rng.normal(size=(5, 5))
    gaps = np.abs(hours[:, None] - hours)
    gaps = np.minimum(gaps, 24 - gaps)
    named = ("angular", 24)
    found = [
        mf.AutoLearner(label_distance=named, random_state=0).fit(points, hours),
        mf.AutoLearner([mf.LogRatioLearner(label_distance=named)], random_state=0).fit(
            points, hours
        ),
        mf.AutoLearner(label_distance="precomputed", random_state=0).fit(points, gaps),
    ]
    for auto in found:
        judgement = auto.judgement_
        assert judgement.measure == "label_distance" and judgement.name == "LogRatioLearner"
        np.testing.assert_allclose(judgement.costs, found[0].judgement_.costs, rtol=1e-5)
    costs = []
    for part in PrivateJudge().split(points, np.zeros(200, int)):
        near = kneighbors(points[part.queries], points[part.database], 5)[1]
        costs.append(gaps[part.queries[:, None], part.database[near]].mean(axis=1))
    assert found[0].judgement_.costs[0] == pytest.approx(np.concatenate(costs).mean(), rel=1e-5)
    validated = mf.AutoLearner(label_distance="precomputed", random_state=0)
    validated.fit(points, gaps, validate=True)
    assert validated.validation_.costs[1] < validated.validation_.costs[0]
    with pytest.raises(ValueError, match="learners must have a parameter label_distance"):
        mf.AutoLearner([mf.MLKR()], label_distance=named).fit(points, hours)


def test_learners_are_tried_on_a_sample_of_many_points(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=6000)
    points = rng.normal(size=(6000, 8)) * [1, 1, *[2] * 6]
    points[:, 0] += 4 * labels
    points = points @ rng.normal(size=(8, 8))
    auto = mf.AutoLearner([mf.LFDA()]).fit(points, labels)
    assert auto.judgement_.n_held_out <= 5000 and auto.judgement_.name == "LFDA"
    np.save(tmp_path / "points.npy", points)
    stored = np.load(tmp_path / "points.npy", mmap_mode="r")
    same = mf.AutoLearner([mf.LFDA()]).fit(stored, labels)
    np.testing.assert_allclose(same.components_, auto.components_)


def test_numbers():
    points, labels = make_friedman1(300, noise=1, random_state=0)
    auto = mf.AutoLearner(random_state=0).fit(points, labels)
    assert isinstance(auto.learner_, mf.MLKR) and auto.judgement_.measure == "squared_error"
    spread = np.var(labels)
    assert spread / 8 < auto.judgement_.costs[auto.judgement_.chosen] < auto.judgement_.costs[0]
    model = mf.KNeighborsRegressor(5, metric=mf.AutoLearner(random_state=0))
    plain = mf.KNeighborsRegressor(5)
    assert cross_val_score(model, points, labels).mean() > 0.05 + np.mean(
        cross_val_score(plain, points, labels)
    )


def test_what_labels_are():
    _, labels = load_diabetes(return_X_y=True)  # integers, which repeat
    points = np.random.default_rng(0).normal(size=(442, 2)) + labels[:, None] / 10
    for params, measure in [
        ({}, "neighbors"),
        ({"learners": [mf.MLKR(max_iter=3)]}, "squared_error"),
        ({"learners": [mf.LFDA()]}, "neighbors"),
    ]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            auto = mf.AutoLearner(time_limit=0.1, **params).fit(points, labels)
        assert auto.judgement_.measure == measure


@pytest.mark.parametrize("unit", ["classes", "groups"])
def test_classes_and_groups_are_held_out(unit):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 6)
    points = rng.normal(size=(40, 6))[labels] + rng.normal(size=(240, 6)) * ([0.2] * 4 + [4] * 2)
    how = {"groups": np.tile(np.arange(6), 40)} if unit == "groups" else {}
    auto = mf.AutoLearner([mf.LFDA()], Judge(unit=unit)).fit(points, labels, **how)
    assert auto.judgement_.unit == unit and auto.judgement_.chosen
    assert f" 240 points of held-out {unit}" in auto.judgement_.reason
    with pytest.raises(ValueError, match="groups"):
        mf.AutoLearner(judge=Judge(unit="groups")).fit(points, labels)


def test_views_are_searched_across():
    rng = np.random.default_rng(0)
    labels, views = np.repeat(np.arange(60), 2), np.tile([0, 1], 60)
    points = rng.normal(size=(60, 6))[labels] + np.outer(views, [0, 0, 0, 0, 5, 5])
    points += 0.2 * rng.normal(size=points.shape)
    auto = mf.AutoLearner([mf.KISSME_Supervised()]).fit(points, labels, views=views)
    own = mf.KISSME_Supervised().fit(points, labels, views=views)
    assert auto.judgement_.costs[0] == pytest.approx(own.judgement_.costs[0], abs=0.05)
    assert auto.judgement_.chosen


def test_points_without_weight_do_not_count():
    weight = np.r_[np.ones(178), np.zeros(50)]
    more = np.r_[X, RNG.normal(size=(50, 13))], np.r_[y, RNG.integers(3, size=50)]
    auto = mf.AutoLearner([mf.LFDA()]).fit(*more, sample_weight=weight)
    np.testing.assert_allclose(auto.components_, mf.AutoLearner([mf.LFDA()]).fit(X, y).components_)


def test_more_features_than_points():
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    points = rng.normal(size=(60, 300))
    points[:, :3] += 4 * np.eye(3)[labels]
    auto = mf.AutoLearner([mf.LFDA()], Judge(errors=0)).fit(points, labels)
    assert auto.transform(points).shape[0] == 60 and auto.judgement_.chosen


def test_it_stands_in_for_a_learner(tmp_path):
    model = mf.KNeighborsClassifier(metric=mf.AutoLearner([mf.LFDA()])).fit(X, y)
    assert model.score(X, y) > 0.95
    search = GridSearchCV(
        make_pipeline(mf.AutoLearner([mf.LFDA()]), mf.KNeighborsClassifier()),
        {"autolearner__judge": ["auto", Judge(measure="vote")]},
    ).fit(X, y)
    assert search.best_score_ > 0.9
    auto = mf.AutoLearner([mf.LFDA()], Judge(errors=1)).fit(X, y)
    mf.save(auto, tmp_path / "auto.safetensors")
    loaded = mf.load(tmp_path / "auto.safetensors")
    np.testing.assert_array_equal(loaded.transform(X), auto.transform(X))
    assert isinstance(loaded.judge, PrivateJudge) and isinstance(loaded.learners[0], mf.LFDA)
    validated = mf.AutoLearner([mf.LFDA()]).fit(X, y, validate=True)
    assert validated.validation_.costs[1] < validated.validation_.costs[0]


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"learners": "nca"}, TypeError, r"learners must be .* Did you mean \[NCA\(\)\]\?"),
        ({"learners": []}, TypeError, "learners must be"),
        ({"learners": [mf.LFDA]}, TypeError, r"did you mean LFDA\(\)"),
        (
            {"learners": [mf.KernelizedMetricLearner(mf.LFDA())]},
            TypeError,
            "learners of a linear map",
        ),
        ({"learners": [mf.AdapterLearner()]}, TypeError, "learners of a linear map"),
        ({"learners": [mf.LFDA(), mf.ITML()]}, TypeError, "all of points or all of tuples"),
        ({"judge": None}, ValueError, "judge must be 'auto' or a Judge"),
        ({"judge": Judge("squared_error")}, ValueError, "measure of the judge must be"),
        ({"time_limit": -1}, ValueError, "time_limit"),
    ],
)
def test_wrong_parameters(params, error, message):
    with pytest.raises(error, match=message):
        mf.AutoLearner(**params).fit(X, y)
