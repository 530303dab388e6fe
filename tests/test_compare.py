"""Comparison of learners: scores, tests, time, errors, files and interruptions."""

from __future__ import annotations

import datetime
import math
import os
import re
import signal
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import registry
from model_files import contents, rewritten
from scipy import stats
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score, get_scorer, make_scorer
from sklearn.model_selection import (
    KFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.neighbors import KNeighborsClassifier as SklearnKNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, normalize
from thinned import thinned

import metricfast as mf
from metricfast import learners, solvers
from metricfast.comparison import candidates
from metricfast.comparison.encoding import TableEncoder, encoder_of
from metricfast.comparison.statistics import adjusted, expected_of_the_best, paired_p_value
from metricfast.comparison.trial import Scoring, grouped_scores, try_learner
from metricfast.distances.neighbors import kneighbors
from metricfast.metrics._selection import look_continuous
from metricfast.selection import Judge
from metricfast.selection._evidence import choose
from metricfast.selection._folds import Path, joined
from metricfast.selection._measures import Search
from metricfast.selection._race import is_behind, may_win
from metricfast.selection._splits import class_halves, split_points

X, y = load_wine(return_X_y=True)


class Interrupted(TransformerMixin, BaseEstimator):
    """A learner that presses Ctrl-C and waits."""

    def fit(self, X, y):
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            time.sleep(0.001)

    def transform(self, X):
        return X


def rows_of(found):
    return {row.learner: row for row in found.rows}


def folds_of(n_splits=5):
    return [(part.train, part.queries) for part in split_points(X, y, n_splits=n_splits)]


def test_scores_are_those_of_cross_validation():
    fixed = {
        "kissme": mf.KISSME_Supervised(regularization=0.1),
        "nca": mf.NCA(judge=None, tol=1e-2),
    }
    found = mf.compare(X, y, learners=fixed, n_neighbors=3, random_state=0, scale=True)
    for name, learner in fixed.items():
        seeded = learner if name == "kissme" else mf.NCA(judge=None, tol=1e-2, random_state=0)
        model = make_pipeline(StandardScaler(), mf.KNeighborsClassifier(3, metric=seeded))
        sizes = [len(test) for _, test in folds_of()]
        expected = np.average(cross_val_score(model, X, y, cv=folds_of()), weights=sizes)
        row = rows_of(found)[name]
        assert row.score == pytest.approx(expected, abs=1e-12)
        assert row.low < row.score < row.high
        assert row.difference == pytest.approx(
            row.score - rows_of(found)["scaled Euclidean"].score, abs=1e-12
        )
    assert found.baseline == "scaled Euclidean"
    assert rows_of(found)["Euclidean"].change == "worse"
    best = found.best_estimator_
    assert found.best_score_ == max(row.score for row in found.rows) >= found.expected_score_
    assert best.score(X, y) > 0.95
    assert list(found.table["score"]) == [row.score for row in found.rows]
    assert found._repr_html_().count("<svg") == sum(not np.isnan(row.score) for row in found.rows)
    assert all(
        row.learner in found._repr_html_() and row.learner in repr(found) for row in found.rows
    )


def test_a_learner_is_trained_once_a_fold_and_judged_there_in_all_settings(monkeypatch):
    """By brute force: every setting on every fold, chosen by the other folds."""
    settings = [np.inf, 1.0, 0.1, 0.01, 0.0]
    costs_of, costs, right = Judge().costs_by()[1], [], []
    for train, test in folds_of():
        scaler = StandardScaler().fit(X[train])
        Q, D = scaler.transform(X[test]), scaler.transform(X[train])
        found = []
        for value in settings:
            if value == np.inf:  # the given distance
                found.append((Q, D))
                continue
            how = {"regularization": value} if value else {"judge": None}
            learner = mf.KISSME_Supervised(**how).fit(D, y[train])
            found.append((learner.transform(Q), learner.transform(D)))
        costs.append([costs_of(Search(q, d), y[test], y[train], None) for q, d in found])
        models = [SklearnKNeighbors(5).fit(d, y[train]).predict(q) for q, d in found]
        right.append([(each == y[test]).mean() for each in models])
    chosen = []
    for i in range(5):
        others = np.concatenate([each for j, each in enumerate(costs) if j != i], axis=1)
        weight = np.ones(others.shape[1])
        chosen.append(choose(others[..., 0], weight, errors=2, guard=others[..., 1]))
    sizes = [len(test) for _, test in folds_of()]
    expected = np.average([right[i][chosen[i]] for i in range(5)], weights=sizes)
    fits, fit = [], mf.KISSME_Supervised.fit
    monkeypatch.setattr(
        mf.KISSME_Supervised, "fit", lambda *args, **how: fits.append(0) or fit(*args, **how)
    )
    result = mf.compare(X, y, learners="KISSME_Supervised", scale=True)
    assert rows_of(result)["KISSME_Supervised"].score == pytest.approx(expected, abs=1e-12)
    assert len(fits) == 6  # five folds, and all points at last


def test_the_best_is_fitted_with_the_setting_that_the_folds_chose():
    labels = np.repeat(np.arange(3), 60)
    rng = np.random.default_rng(0)
    points = np.c_[labels + 0.5 * rng.normal(size=180), 3 * rng.normal(size=(180, 4))]
    for name in ("NCA", "LFDA"):
        found = mf.compare(points, labels, learners=name, random_state=0, scale=False)
        assert found.best_name_ == name
        learner = found.best_estimator_[-1].metric_
        assert learner.judge == found.best_estimator_[-1].metric.judge == "auto"
        judgement = learner.judgement_
        assert judgement.chosen and judgement.n_held_out == 180
        assert judgement.costs[judgement.chosen] < judgement.costs[0]
        if name == "NCA":
            n_chosen = int(judgement.name.rpartition(", ")[2].split()[0])
            assert learner.n_iter_ == max(1, n_chosen)
        clone(found.best_estimator_).fit(points, labels)


def test_settings_of_folds_are_joined():
    start, order = np.arange(6.0), np.array([0.0, np.inf, 1, 2, np.inf])
    settings = [("given distance",), (None, 0), (None, 1), (None, 2), ("pca", 0)]
    first = Path(settings, np.arange(10.0).reshape(5, 2, 1), order, 1.0)
    fewer = [("given distance",), (None, 0), (None, 1)]
    second = Path(fewer, start.reshape(3, 2, 1), order[:3], 1.0)
    both = joined([first, second])
    assert both.settings == settings[:4] and both.equal == 1
    assert both.names[1:3] == ["init, 0 iterations", "init, 1 iterations"]
    expected = [[0, 1, 0, 1], [2, 3, 2, 3], [4, 5, 4, 5], [6, 7, 4, 5]]
    np.testing.assert_array_equal(both.costs[..., 0], expected)
    np.testing.assert_array_equal(both.order, order[:4])


def test_who_may_still_win():
    best, weight = np.r_[np.zeros(4), np.ones(96)], np.ones(100)
    assert not may_win(np.empty(0), best, weight, 1.0)  # four errors: sqrt(4) = 2
    best[4] = 0
    assert may_win(np.empty(0), best, weight, 1.0)
    assert not may_win(np.zeros(5), best, weight, 1.0)  # as good on the points that were wrong
    assert may_win(np.ones(50), best, weight, 1.0)


def test_who_is_behind():
    """By a standard error of the points left: of half of them, as large as on the others."""
    leader, weight = np.tile([0.0, 1.0], 60), np.ones(120)
    assert not is_behind(np.empty(0), leader, weight)
    assert not is_behind(np.zeros(120), leader, weight)  # no fold is left
    assert not is_behind(leader[:60], leader, weight)  # no difference yet
    for lost, gained, behind in [(6, 2, True), (7, 4, False)]:  # -4 / √8 and -3 / √11 errors
        seen = leader[:60].copy()
        seen[1 : 2 * lost : 2], seen[: 2 * gained : 2] = 0, 1
        assert is_behind(seen, leader, weight) is behind
    assert is_behind(seen, leader[:100], weight[:100])  # 40 points left: √(2 / 3) errors
    assert is_behind(seen, leader, np.r_[np.ones(60), np.full(60, 0.6)])


def test_a_race_drops_who_cannot_win_and_says_so():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 60)
    points = np.c_[labels + 0.4 * rng.normal(size=180), 3 * rng.normal(size=(180, 4))]
    given = {"learns": mf.LFDA(), "none": mf.Covariance(), "late": mf.NCA()}
    how = {"learners": given, "scale": False, "random_state": 0, "refit": False}
    race, full = mf.compare(points, labels, race=True, **how), mf.compare(points, labels, **how)
    assert all(row.n_folds == 5 for row in full.rows)
    assert race.best_name_ == full.best_name_
    rows = rows_of(race)
    assert re.fullmatch(r"dropped after fold 2 of 5: 0\.\d+ behind learns", rows["none"].note)
    assert rows["none"].n_folds == 2 and np.isnan(rows["none"].score)
    easy = np.c_[labels * 10.0, rng.normal(size=180)]
    nobody = mf.compare(easy, labels, race=True, **how)
    notes = {row.note for row in nobody.rows if row.learner in given}
    assert notes == {"not tried: at most 0.000 to gain over Euclidean"}
    assert nobody.best_name_ == "Euclidean"


@pytest.mark.parametrize("measure", ["verification", "retrieval", "nearest"])
def test_the_judge_says_what_it_is_for(measure):
    judge = Judge(measure=measure)
    found = mf.compare(X, y, learners=["LFDA", "cosine", "NCAClassifier"], judge=judge, scale=True)
    assert found.task.startswith(f"1 - cost by {measure}: 178 points")
    rows = rows_of(found)
    assert "without a distance" in rows["NCAClassifier"].note and "one answer" not in rows
    costs_of, costs = judge.costs_by()[1], {"scaled Euclidean": [], "cosine": []}
    for train, test in folds_of():
        scaler = StandardScaler().fit(X[train])
        Q, D = scaler.transform(X[test]), scaler.transform(X[train])
        for name, each in costs.items():
            q, d = (normalize(Z) if name == "cosine" else Z for Z in (Q, D))
            each.append(costs_of(Search(q, d), y[test], y[train], None))
    for name, each in costs.items():
        assert rows[name].score == pytest.approx(1 - np.concatenate(each).mean(), abs=1e-6)


def test_whole_groups_are_held_out():
    """Points of a group are alike, so its label is known if one of its points trains."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 5)
    labels = (np.arange(40) % 2)[groups]
    points = rng.normal(size=(40, 4))[groups] + 0.01 * rng.normal(size=(200, 4))
    how = {"learners": "LFDA", "refit": False, "scale": False, "n_neighbors": 1}
    alone, apart = (
        mf.compare(points, labels, **how),
        mf.compare(points, labels, groups=groups, **how),
    )
    assert rows_of(alone)["Euclidean"].score == 1 and rows_of(apart)["Euclidean"].score < 0.8
    assert "5 folds of groups" in apart.task
    with pytest.raises(ValueError, match="needs the group of each point"):
        mf.compare(points, labels, judge=Judge(unit="groups"), **how)


@pytest.mark.parametrize("scoring", [None, "balanced_accuracy"])
def test_held_out_points_choose_the_units_of_the_learners(scoring):
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    points = np.c_[labels + 0.3 * rng.normal(size=200), rng.normal(size=200)]
    how = {"learners": ["KISSME_Supervised", "cosine"], "refit": False, "scoring": scoring}
    for spread, better in [(100, True), (0.1, False)]:
        found, expected = (
            rows_of(mf.compare(points * [1, spread], labels, scale=scale, **how))
            for scale in ("auto", better)
        )
        for name in how["learners"]:
            assert found[name].score == expected[name].score


def test_copies_of_a_point_are_in_one_fold():
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(60, 3)), np.arange(60) % 2
    twice, both = np.repeat(points, 2, axis=0), np.repeat(labels, 2)
    how = {"learners": "cosine", "n_neighbors": 1, "scale": False, "refit": False}
    once, found = mf.compare(points, labels, **how), mf.compare(twice, both, **how)
    assert [row.score for row in once.rows] == [row.score for row in found.rows]
    assert rows_of(found)["Euclidean"].score < 0.8


def test_distances_that_learn_nothing_are_compared_by_name():
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    found = mf.compare(X, y, learners=list(candidates.DISTANCES), cv=folds, scale=True)
    for name in candidates.DISTANCES:
        model = make_pipeline(StandardScaler(), SklearnKNeighbors(5, metric=name))
        right = cross_val_predict(model, X, y, cv=folds) == y
        assert rows_of(found)[name].score == pytest.approx(right.mean(), abs=1e-12)
    few, huge = (candidates.suited(n, 13, True) for n in (150, 20000))
    assert few.keys() - huge.keys() == {*candidates.DISTANCES}


def test_continuous_labels_are_scored_by_the_r2_of_all_held_out_points():
    points, labels = load_iris(return_X_y=True)[0][:, :3], load_iris().data[:, 3]
    folds = KFold(5, shuffle=True, random_state=0)
    found = mf.compare(points, labels, learners=LinearRegression(), cv=folds)
    assert "continuous" in found.task
    predicted = np.empty(150)
    for train, test in folds.split(points):
        predicted[test] = LinearRegression().fit(points[train], labels[train]).predict(points[test])
    r2 = 1 - ((predicted - labels) ** 2).sum() / ((labels - labels.mean()) ** 2).sum()
    assert rows_of(found)["LinearRegression"].score == pytest.approx(r2, abs=1e-12)
    both = mf.compare(points, np.c_[labels, labels], learners="MLKR", random_state=0, refit=False)
    one = mf.compare(points, labels, learners="Covariance", random_state=0, refit=False)
    assert rows_of(both)["Euclidean"].score == pytest.approx(rows_of(one)["Euclidean"].score)


def test_a_scorer_gives_the_mean_of_folds():
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    by_scorer = mf.compare(
        X, y, learners="LFDA", cv=cv, scoring="balanced_accuracy", random_state=0
    )
    assert by_scorer.task.startswith("balanced_accuracy")
    expected = cross_val_score(by_scorer.best_estimator_, X, y, cv=cv, scoring="balanced_accuracy")
    row = rows_of(by_scorer)[by_scorer.best_name_]
    assert row.score == pytest.approx(expected.mean(), abs=1e-12)
    by_points = mf.compare(X, y, learners="LFDA", cv=cv, random_state=0)  # each held out twice
    assert abs(rows_of(by_points)["LFDA"].score - row.score) < 0.05


def test_shares_of_groups_vary_as_the_score_does():
    rng = np.random.default_rng(0)
    n = 400
    labels = rng.integers(3, size=n)
    points = rng.normal(size=(n, 2)) + labels[:, None]
    fitted = SklearnKNeighbors(5).fit(points[::2], labels[::2])
    for name in ("accuracy", "balanced_accuracy", "roc_auc_ovr", "neg_log_loss"):
        scorer = get_scorer(name)
        found = grouped_scores(scorer, fitted, points[1::2], labels[1::2])
        assert len(found) == 10
        assert found.mean() == pytest.approx(scorer(fitted, points[1::2], labels[1::2]))
    right = fitted.predict(points[1::2]) == labels[1::2]
    of_accuracy = grouped_scores(get_scorer("accuracy"), fitted, points[1::2], labels[1::2])
    of_rows = right.std(ddof=1) / np.sqrt(len(right))
    assert 0.5 < of_accuracy.std(ddof=1) / np.sqrt(10) / of_rows < 2
    one = SklearnKNeighbors(5).fit(points[::2], labels[::2] == 0)
    few = np.r_[np.flatnonzero(labels == 0)[:1], np.flatnonzero(labels == 1)[:9]]
    once = grouped_scores(get_scorer("roc_auc"), one, points[few], labels[few] == 0)
    assert once.shape == (1,)  # not defined without the group of the only point of its class


def test_a_scorer_finds_a_gain_that_folds_are_too_few_for():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=600)
    points = np.c_[2 * labels + rng.normal(size=600), rng.normal(size=(600, 60))]
    found = mf.compare(
        points, labels, learners="LFDA", scoring="roc_auc", random_state=0, refit=False
    )
    row = rows_of(found)["LFDA"]
    assert row.difference > 0.03 and row.p_value < 0.01 and row.change == "better"
    assert "expect" not in found.verdict()  # not repeated if it equals the score
    assert rows_of(found)["one answer"].score == 0.5


@pytest.mark.parametrize(
    ("scoring", "least", "most"),
    thinned(
        [
            (None, 0, 1),
            ("neg_log_loss", -np.inf, 0),
            (get_scorer("roc_auc_ovr"), 0, 1),
            ("f1_macro", 0, 1),
            ("balanced_accuracy", 0, 1),
        ],
        2,
    ),
)
def test_intervals_end_where_scores_do(scoring, least, most):
    X, y = load_wine(return_X_y=True)
    cv = RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0)
    options = {} if scoring is None else {"scoring": scoring}
    result = mf.compare(X, y, learners=["LFDA", "cityblock"], cv=cv, refit=False, **options)
    for row in result.rows:
        assert least <= row.low <= row.score <= row.high <= most, row


def test_bounds_of_scores():
    def bounds(scorer, variances=None):
        return Scoring(5, variances, scorer, None, None).bounds

    everything = (-math.inf, math.inf)
    assert bounds(None) == bounds(get_scorer("precision_macro")) == (0, 1)
    assert bounds(None, np.ones(1)) == bounds(get_scorer("r2")) == (-math.inf, 1)
    assert bounds(get_scorer("matthews_corrcoef")) == (-1, 1)
    assert bounds(get_scorer("neg_mean_squared_error")) == (-math.inf, 0)
    assert bounds(get_scorer("positive_likelihood_ratio")) == everything
    assert bounds(make_scorer(accuracy_score, normalize=False)) == everything
    assert bounds(make_scorer(lambda y, found: 7.0)) == everything
    assert bounds(lambda model, X, y: 7.0) == everything


def test_the_row_of_one_answer():
    row = rows_of(mf.compare(X, y, learners="LFDA", random_state=0, refit=False))["one answer"]
    assert row.score == pytest.approx(np.bincount(y).max() / len(y))
    assert np.isnan(row.p_value)
    points = np.random.default_rng(0).normal(size=(60, 2))
    found = mf.compare(points, points[:, 0], learners="Covariance", random_state=0, refit=False)
    assert -0.1 < rows_of(found)["one answer"].score <= 0


def test_paired_tests():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 40))
    assert paired_p_value(a, b) == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert paired_p_value(a, b, 0.25) > paired_p_value(a, b)
    hits = np.arange(100) >= 6
    assert paired_p_value(np.ones(100), hits * 1.0) == pytest.approx(2 / 2**6)
    assert paired_p_value(hits * 1.0, hits * 1.0) == 1
    np.testing.assert_allclose(adjusted([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
    same = (rng.random((200, 30)) < 0.8).astype(float)  # thirty equally good learners
    assert same.mean(0).max() > 0.84
    assert expected_of_the_best(same, 0) == pytest.approx(0.8, abs=0.03)
    clear = np.c_[same[:, 0] + 1, same[:, 1:]]  # every draw chooses the first
    assert expected_of_the_best(clear, 0) == pytest.approx(clear[:, 0].mean())


def test_a_learner_that_would_take_too_long_is_stopped_and_the_next_one_tried():
    endless = mf.NCA(solver=solvers.Adam(max_epochs=10**7), judge=None)
    found = mf.compare(X, y, learners=[endless, mf.LFDA()], time_limit=2, random_state=0)
    rows = rows_of(found)
    assert "s in fold 1 of 5: all would take more" in rows["NCA"].note
    assert np.isnan(rows["NCA"].score) and found.rows[-1].learner == "NCA"
    assert rows["LFDA"].n_folds == 5 and endless.callbacks is None
    none = mf.compare(X, y, learners="LFDA", time_limit=0, random_state=0)
    assert rows_of(none)["LFDA"].note == "no time left"
    assert none.best_name_ == "scaled Euclidean"


@pytest.mark.parametrize("limit", [None, 1000])
def test_ctrl_c_leaves_what_was_done(limit):
    given = [mf.LFDA(), Interrupted(), mf.NCA()]
    found = mf.compare(X, y, learners=given, random_state=0, time_limit=limit)
    assert found.interrupted_ and found.best_estimator_ is None
    assert set(rows_of(found)) == {"Euclidean", "scaled Euclidean", "one answer", "LFDA"}
    assert repr(found).endswith("interrupted")


def test_learners_that_cannot_say_why():
    found = mf.compare(
        X, y, learners={"many": mf.LFDA(n_components=99), "LFDA": mf.LFDA()}, random_state=0
    )
    assert "n_components" in rows_of(found)["many"].note
    assert rows_of(found)["LFDA"].score > 0.9


def test_predictors_are_judged_by_what_they_predict():
    model = mf.NCAClassifier(max_epochs=2, random_state=0)
    metrics = mf.MultiMetricLMNN(max_iter=5)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    found = mf.compare(X, y, learners=[model, metrics], cv=folds, random_state=0, scale=True)
    predicted = cross_val_predict(make_pipeline(StandardScaler(), model), X, y, cv=folds)
    assert rows_of(found)["NCAClassifier"].score == pytest.approx((predicted == y).mean())
    assert rows_of(found)["MultiMetricLMNN"].score > 0.9


def test_a_checkpoint_goes_on(tmp_path, monkeypatch):
    path = tmp_path / "trials.safetensors"
    first = mf.compare(X, y, learners=["LFDA"], checkpoint=path, refit=False)
    monkeypatch.setattr(mf.LFDA, "fit", None)  # all trials are recorded already
    again = mf.compare(
        X, y, learners=["LFDA", "Covariance"], checkpoint=path, n_jobs=1, refit=False
    )
    assert rows_of(again)["LFDA"].score == rows_of(first)["LFDA"].score
    assert "Covariance" in rows_of(again)
    with pytest.raises(ValueError, match="other data"):
        mf.compare(X + 1, y, learners=["LFDA"], checkpoint=path)


WRONG = [None, "text", -1.0, 10**400, math.inf, math.nan, [], {}]


def test_a_checkpoint_of_workers_is_read_with_any_number_of_threads(tmp_path):
    X, y = load_iris(return_X_y=True)
    tried = []

    def on_workers(scoring, predictor, X, y, folds):
        tried.extend(folds)
        return [try_learner(scoring, predictor, X, y, fold) for fold in folds]

    how = {"learners": ["Covariance"], "checkpoint": tmp_path / "trials", "refit": False, "cv": 2}
    first = mf.compare(X, y, **how, n_jobs=1, _try_folds=on_workers)
    assert len(tried) == 8  # of three baselines and the learner
    assert repr(mf.compare(X, y, **how, n_jobs=2, _try_folds=on_workers)) == repr(first)
    assert repr(mf.compare(X, y, **how)) == repr(first)
    assert len(tried) == 8


def test_a_checkpoint_of_wrong_content_is_refused(tmp_path):
    path = tmp_path / "trials.safetensors"
    how = {"learners": ["Covariance"], "checkpoint": path, "refit": False, "cv": 2}
    mf.compare(X, y, **how)
    metadata, state, arrays = contents(path.read_bytes())
    key = next(iter(arrays))
    states = [state | {name: wrong} for name in state for wrong in WRONG]
    states += [state | {"numbers": state["numbers"] | {key: wrong}} for wrong in WRONG]
    states += [{}, [], None, state | {"numbers": {}}]
    changed = [(each, arrays) for each in states]
    for wrong in (
        arrays[key][1:],
        arrays[key][:, None],
        arrays[key] * np.nan,
        np.zeros((10**6, 0)),
    ):
        changed.append((state, arrays | {key: wrong}))
    for each, values in changed:
        rewritten(path, metadata, each, values)
        with pytest.raises(ValueError, match=path.name):
            mf.compare(X, y, **how)


def test_tables_with_preprocessing():
    table = pd.DataFrame({"kind": np.array(["a", "b", "c"])[y], "noise": X[:, 0].round()})
    found = mf.compare(
        table,
        y.astype(str),
        learners="LFDA",
        preprocessing=OneHotEncoder(sparse_output=False, handle_unknown="ignore"),
        random_state=0,
    )
    assert rows_of(found)["LFDA"].score > 0.95
    assert (found.best_estimator_.predict(table) == y.astype(str)).mean() > 0.95


def test_frames_are_encoded_by_default():
    rng = np.random.default_rng(0)
    values = X[:, 0].copy()
    values[::7] = np.nan
    table = pd.DataFrame(
        {
            "text": np.array(["a", "b", "c"])[y],
            "kind": pd.Categorical(rng.integers(3, size=len(y))),
            "value": values,
        }
    )
    found = mf.compare(table, y, learners=["LFDA", "NCAClassifier"], cv=3, random_state=0)
    assert rows_of(found)["LFDA"].score > 0.95
    assert (found.best_estimator_.predict(table) == y).mean() > 0.95
    named = mf.compare(table.assign(y=y), "y", learners=["LFDA"], cv=3, random_state=0)
    assert rows_of(named)["LFDA"].score == rows_of(found)["LFDA"].score
    with pytest.raises(ValueError, match="be the name of a column of X"):
        mf.compare(table, "z")
    with pytest.raises(ValueError, match="'free' that hardly repeats"):
        mf.compare(table.assign(free=[f"row {i}" for i in range(len(y))]), y)


def test_sparse_points_are_compared_as_arrays(tmp_path):
    table = pd.DataFrame({"kind": np.array(["a", "b", "c"])[y], "other": X[:, 0].round()})
    found = [
        mf.compare(
            table, y, learners=["LFDA", mf.NCAClassifier(max_epochs=5)], cv=3, random_state=0,
            preprocessing=OneHotEncoder(sparse_output=sparse, handle_unknown="ignore"),
        )
        for sparse in (True, False)
    ]  # fmt: skip
    points = OneHotEncoder().fit_transform(table)
    file = tmp_path / "found"
    for preprocessing in (None, TruncatedSVD(3)):
        folds = StratifiedKFold(3, shuffle=True, random_state=0)
        how = {"learners": "LFDA", "random_state": 0, "checkpoint": file, "cv": folds}
        given = mf.compare(points, y, preprocessing=preprocessing, **how)
        assert rows_of(given)["LFDA"].score > 0.9
        with pytest.raises(ValueError, match="is of a training with other"):
            mf.compare(2 * points, y, preprocessing=preprocessing, **how)
        file.unlink()
    assert rows_of(found[0])["NCAClassifier"].score > 0.9
    for one, other in zip(*(each.rows for each in found), strict=True):
        assert (one.learner, one.score) == (other.learner, other.score)


@pytest.mark.parametrize("kind", ["dates", "zoned", "durations", "polars", "arrow"])
def test_dates_of_a_frame_are_numbers(kind):
    rng = np.random.default_rng(0)
    days = rng.integers(1000, size=120)
    frame = pd.DataFrame({"noise": rng.normal(size=120), "y": days > 500})
    frame.insert(0, "when", pd.Timestamp("2020-01-01") + pd.to_timedelta(days, "D"))
    frame.loc[3, "when"] = pd.NaT
    if kind == "zoned":
        frame["when"] = frame["when"].dt.tz_localize("Europe/Paris")
    elif kind == "durations":
        frame["when"] = frame["when"] - pd.Timestamp("2020-01-01")
    encoder = encoder_of(frame.drop(columns="y"))
    encoded = encoder.fit_transform(frame.drop(columns="y"))
    known = np.arange(120) != 3
    assert np.corrcoef(encoded[known, 0], days[known])[0, 1] > 0.9999
    if kind in ("polars", "arrow"):
        pl = pytest.importorskip("polars")
        frame = pl.from_pandas(frame)
        frame = frame.to_arrow() if kind == "arrow" else frame
    found = mf.compare(frame, "y", learners=["LFDA"], random_state=0)
    assert rows_of(found)["LFDA"].score > 0.9
    points = frame.drop(columns="y") if hasattr(frame, "iloc") else frame.drop(["y"])
    assert len(found.best_estimator_.predict(points)) == 120


def test_times_of_day_are_no_dates():
    values = np.array([datetime.time(1), datetime.time(2)], object)
    with pytest.raises(ValueError, match="times in its column 'at' that are no dates"):
        TableEncoder((), [0]).fit(pd.DataFrame({"at": values}))
    with pytest.raises(ValueError, match="must have a column of dates at place 1"):
        TableEncoder((), [1]).fit(pd.DataFrame({"at": values}))


def test_callbacks_see_rows_and_end_the_comparison(capsys):
    seen = []
    found = mf.compare(
        X, y, callbacks=[lambda row: seen.append(row.learner) or row.learner == "LFDA"],
        random_state=0, verbose=True,
    )  # fmt: skip
    before = ["Euclidean", "scaled Euclidean", "one answer", *candidates.DISTANCES]
    assert seen == [*before, "LFDA"]
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[0] for line in lines] == seen
    assert lines[0].endswith("leads") and not lines[2].endswith("leads")
    assert not found.interrupted_


@pytest.mark.parametrize("last", ["Euclidean", "scaled Euclidean", "one answer"])
def test_a_callback_ends_the_comparison_after_any_baseline(last):
    found = mf.compare(X, y, callbacks=[lambda row: row.learner == last], random_state=0)
    assert set(rows_of(found)) == {"Euclidean", "scaled Euclidean", "one answer"}


@pytest.mark.parametrize(
    ("labels", "learner"),
    [(y, mf.LFDA()), (y.astype(str), mf.LFDA()), (X[:, 0], LinearRegression())],
)
def test_labels_may_be_a_frame_of_one_column(labels, learner):
    how = {"learners": {"it": learner}, "cv": 2, "random_state": 0}
    with pytest.warns(DataConversionWarning, match="^A column-vector y was passed"):
        found = mf.compare(X, pd.DataFrame({"kind": labels}), **how)
    expected = mf.compare(X, labels, **how)
    assert [row.score for row in found.rows] == [row.score for row in expected.rows]


def test_classes_may_be_of_dtype_object():
    found, same = (
        mf.compare(X, labels, learners="LFDA", random_state=0, refit=False)
        for labels in (y, y.astype(object))
    )
    assert rows_of(found)["LFDA"].score == rows_of(same)["LFDA"].score


# These learn from tuples or chunks, need parameters, or have no or two maps. OASIS has no distance.
LEFT_OUT = {
    *(
        "AdapterLearner",
        "AsymmetricSimilarity",
        "AutoLearner",
        "EmbeddingLearner",
        "GMML",
        "ITML",
        "KISSME",
        "KernelizedMetricLearner",
    ),
    *("LSML", "MMC", "MultiMetricLMNN", "OASIS", "OASIS_Supervised", "RCA", "SCML", "SDML"),
}


def test_every_learner_of_labelled_points_is_a_candidate_or_left_out_knowingly():
    known = {*candidates.CLASSES, *candidates.CONTINUOUS, *LEFT_OUT}
    assert known == {*learners.__all__, *candidates.PREDICTORS}
    takes = {registry.CLASSES, registry.VALUES, registry.POINTS}
    chosen = {*candidates.CLASSES, *candidates.CONTINUOUS} - set(candidates.PREDICTORS)
    assert {registry.REGISTRY[name].takes for name in chosen} == takes
    few, many, huge = (candidates.suited(n, 9, False) for n in (150, 1800, 20000))
    assert "MCML" in few.keys() - many.keys() and "ProxyNCALearner" in many.keys() - few.keys()
    assert huge["NCA"].solver == "adam" and many["NCA"].solver == "lbfgs"
    assert list(huge)[-1] == "NCAClassifier" != list(many)[-1]
    wide = candidates.suited(150, 200, False)
    assert few.keys() - wide.keys() == {"ITML_Supervised", "SCML_Supervised"}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"learners": "LMNNN"}, ValueError, "learners must be names among"),
        ({"learners": "nca"}, ValueError, "Did you mean 'NCA'?"),
        ({"learners": mf.LMNN}, TypeError, r"did you mean LMNN\(\)"),
        ({"learners": 3}, TypeError, "learners must be"),
        ({"judge": None}, ValueError, "judge must be 'auto' or"),
        ({"judge": Judge(measure="squared_error")}, ValueError, "measure of the judge must be"),
        (
            {"judge": Judge(measure="vote"), "scoring": "accuracy"},
            ValueError,
            "leave one out",
        ),
        ({"race": "yes"}, ValueError, "race must be True"),
        ({"groups": [1, 2]}, ValueError, "groups"),
        ({"learners": []}, ValueError, "learners must have one"),
        ({"learners": [mf.LFDA(), mf.LFDA(), mf.LFDA()]}, ValueError, "learners has LFDA"),
        ({"learners": {"Euclidean": mf.LFDA()}}, ValueError, "must not be called"),
        ({"learners": "EmbeddingLearner"}, ValueError, "EmbeddingLearner has no defaults"),
        ({"y": np.zeros(178)}, ValueError, "two classes"),
        ({"y": np.zeros(178), "task": "numbers"}, ValueError, "y must vary"),
        ({"y": y[:-1]}, ValueError, "inconsistent numbers of samples"),
        ({"X": X * np.nan}, ValueError, "X"),
        ({"cv": 1}, ValueError, "cv must be an integer of at least 2"),
        ({"cv": []}, ValueError, "cv must hold"),
        ({"cv": "5"}, ValueError, "cv must be an integer"),
        ({"cv": [1, None]}, ValueError, "cv must hold pairs"),
        ({"y": 3}, ValueError, "y must hold a label"),
        ({"learners": np.array(2)}, TypeError, "learners must be"),
        ({"time_limit": -1}, ValueError, "time_limit"),
        ({"scale": "yes"}, ValueError, "scale must be"),
        ({"scoring": "none"}, ValueError, "scoring"),
        ({"scoring": 1.5}, TypeError, "scoring must be the name"),
        ({"checkpoint": 3}, TypeError, "checkpoint must be a path"),
        ({"preprocessing": 3}, TypeError, "preprocessing must be a transformer"),
        ({"preprocessing": "passthrough"}, TypeError, "preprocessing must be"),
        ({"X": 3, "preprocessing": StandardScaler()}, TypeError, "X must be points"),
        ({"callbacks": 3}, TypeError, "callbacks"),
        ({"n_neighbors": 177}, ValueError, "n_neighbors"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else None,
)  # fmt: skip
def test_bad_arguments_are_named(changes, error, message):
    with pytest.raises(error, match=message):
        mf.compare(**{"X": X, "y": y, "learners": "LFDA", **changes})


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["a", "b", "b", "b", "b"], {}, "cv=5 folds need more points than 5, two of each of two"),
        ([0.1, 0.2, 0.4, 0.5], {}, "cv=5 folds need more points than 4"),
        (["a", "b"] * 3, {"cv": 2}, "n_neighbors=5 must be at most 3, the number of points"),
    ],
)
def test_too_few_points_are_named_before_anything_is_tried(labels, options, message):
    points = np.random.default_rng(0).normal(size=(len(labels), 2))
    with pytest.raises(ValueError, match=message):
        mf.compare(points, labels, learners="Covariance", **options)


def test_values_of_numpy_are_plain_in_notes():
    class Picky(Interrupted):
        def fit(self, X, y):
            raise ValueError("no class [np.str_('no'), np.int64(3)]")

    found = mf.compare(X, y, learners={"picky": Picky()}, random_state=0)
    assert rows_of(found)["picky"].note == "ValueError: no class ['no', 3]"


def test_integers_that_repeat_are_classes():
    labels = np.repeat([1, 2, 3], 2)
    assert not look_continuous(labels)
    assert look_continuous(labels[1:])
    assert look_continuous(labels + 0.5)


@pytest.mark.parametrize(
    ("learners", "options", "task"),
    [
        (["LFDA", "Covariance"], {}, "15 classes"),
        (make_pipeline(StandardScaler(), mf.LFDA()), {}, "15 classes"),
        ("MLKR", {}, "continuous labels"),
        (LinearRegression(), {}, "continuous labels"),
        ("Covariance", {}, "15 classes"),
        (["LFDA", "MLKR"], {}, "15 classes"),
        ("Covariance", {"task": "numbers"}, "continuous labels"),
    ],
)
def test_the_learners_decide_what_labels_are(learners, options, task):
    labels = np.tile(np.arange(15), 4)
    points = np.random.default_rng(0).normal(size=(60, 2)) + labels[:, None]
    found = mf.compare(
        points,
        labels,
        learners=learners,
        cv=2,
        n_neighbors=1,
        refit=False,
        random_state=0,
        **options,
    )
    assert task in found.task


def test_comparisons_in_threads_leave_the_filters_of_warnings():
    before = list(warnings.filters)
    labels = np.tile([0, 1], 20)
    points = np.random.default_rng(0).normal(size=(40, 2))

    def run(seed):
        return mf.compare(points, labels, learners=["LFDA"], cv=3, refit=False, random_state=seed)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(run, range(4)))
    assert list(warnings.filters) == before


def test_many_small_classes_are_judged_as_new_ones():
    """Two noise features hide the classes; a map learned on some classes helps for others."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(60), 3)
    points = rng.normal(size=(60, 8))[labels] + rng.normal(size=(180, 8)) * ([0.1] * 6 + [3] * 2)
    halves = class_halves(labels)
    found = mf.compare(
        points,
        labels,
        learners=["LFDA", mf.NCAClassifier(max_epochs=1)],
        scale=False,
        random_state=0,
    )
    scores = {row.learner: row.score for row in found.rows}
    assert scores["LFDA"] > scores["Euclidean"] + 0.3 and scores["NCAClassifier"] == 0
    right = np.zeros(len(labels))
    for train, test in halves:
        Z = mf.LFDA().fit(points[train], labels[train]).transform(points)
        right[test] = labels[kneighbors(Z, n_neighbors=1)[1][test, 0]] == labels[test]
    assert scores["LFDA"] == pytest.approx(right.mean())
    assert "nearest of all others" in str(found) and "2 folds of classes" in str(found)
    assert found.best_estimator_.predict(points[:3]).tolist() == [0, 0, 0]
    dealt = mf.compare(
        points, labels, learners=["LFDA"], cv=KFold(3), n_neighbors=1, random_state=0
    )
    assert "3 folds" in str(dealt)
