"""Scores and their intervals, and the report that holds them."""

import pickle
from inspect import signature

import numpy as np
import pytest
from scipy.stats import ttest_1samp
from sklearn.preprocessing import FunctionTransformer

from metricfast import metrics
from metricfast.metrics import Score, retrieval_report
from metricfast.metrics._selection import METRICS


def points(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 2))


def test_interval_is_students():
    values = np.array([0.2, 0.5, np.nan, 0.9, 0.4])
    score = Score(values, 0.1, 1.0, confidence=0.9)
    expected = ttest_1samp(values[[0, 1, 3, 4]], 0).confidence_interval(0.9)
    np.testing.assert_allclose(score.interval, expected)
    assert Score(np.array([0.3]), 0.1, 1.0).interval == (-np.inf, np.inf)


@pytest.mark.parametrize("name", METRICS)
def test_intervals_stay_in_the_range_of_the_metric(name):
    """Half of the queries find the best order, half the worst."""
    labels = np.repeat([0.0, 1.0, 2.0, 9.0], 2)
    X = labels[:, None] + (labels[:, None] > 1) * np.tile([[0.0], [4.0]], (4, 1))
    score = retrieval_report(X, labels, metrics=name, k=1, confidence=0.9999)[name]
    low, high = score.interval
    least, most = {"spearman": (-1, 1), "mean_label_distance_at_k": (0, np.inf)}.get(name, (0, 1))
    assert least <= low < score.mean < high <= most
    folds = metrics.cross_validate_retrieval(
        FunctionTransformer(), X, labels, folds=[(np.arange(8),) * 2, (np.arange(6),) * 2], k=1,
        metrics=name, confidence=0.9999,
    )  # fmt: skip
    assert least <= folds[name].interval[0] <= folds[name].interval[1] <= most


def test_interval_of_shares_is_wilsons():
    score = retrieval_report(points(12), np.arange(12) % 2, metrics="recall_at_k", k=9)
    assert score["recall_at_k"].mean == 1
    np.testing.assert_allclose(score["recall_at_k"].interval, (12 / (12 + 1.959964**2), 1))


@pytest.mark.parametrize("continuous", [False, True])
def test_several_k_at_once(continuous):
    X = points(30)
    labels = X[:, 0] + points(30, seed=3)[:, 0] if continuous else np.arange(30) % 4
    found = retrieval_report(X, labels, k=(1, 5, 10))
    n_at_k = sum(name.endswith("_at_k") for name in retrieval_report(X, labels))
    assert len(found) == len(retrieval_report(X, labels)) + 2 * n_at_k
    for k in (1, 5, 10):
        for name, score in retrieval_report(X, labels, k=k).items():
            other = found[name.replace("at_k", f"at_{k}")]
            np.testing.assert_array_equal(other.values, score.values)
            assert (other.chance, other.oracle) == (score.chance, score.oracle)


def test_points_searched_among_themselves_without_exclusion_are_warned_of():
    X, y = points(12), np.arange(12) % 3
    with pytest.warns(UserWarning, match=r"holds the queries themselves.*give exclude"):
        metrics.precision_at_1(X, y, X.copy(), y)
    with pytest.warns(UserWarning, match="holds the queries themselves"):
        metrics.precision_at_1(X[5:], y[5:], X, y)
    metrics.precision_at_1(X, y, X, y, exclude=np.arange(12))
    metrics.precision_at_1(X[:6], y[:6], X[5:], y[5:])  # one of six queries is in the database


def test_report_is_a_table_and_shows_progress(capsys):
    report = retrieval_report(points(12), np.arange(12) % 3, k=(1, 2), verbose=True)
    assert "retrieval" in capsys.readouterr().err
    assert [line.split()[0] for line in repr(report).splitlines()[1:]] == list(report)
    assert str(report) == repr(report)
    assert repr(report["recall_at_1"]).startswith(f"Score(mean={report['recall_at_1'].mean:.4f}")
    frame = report.to_frame()
    assert list(frame.index) == list(report)
    assert frame.loc["recall_at_2", "mean"] == report["recall_at_2"].mean
    assert tuple(frame.loc["map_at_r", ["low", "high"]]) == report["map_at_r"].interval


def test_a_single_metric_takes_what_the_report_takes():
    of_report = dict(signature(retrieval_report).parameters)
    del of_report["metrics"], of_report["baselines"]
    defaults = [(name, each.default) for name, each in of_report.items()]
    for name in METRICS:
        function = getattr(metrics, name)
        assert [(n, p.default) for n, p in signature(function).parameters.items()] == defaults
        assert pickle.loads(pickle.dumps(function)) is function
    with pytest.raises(TypeError, match="depth"):
        metrics.precision_at_1(points(4), [0, 0, 1, 1], depth=2)


def test_a_single_metric_takes_one_k():
    with pytest.raises(ValueError, match="k must be one integer for a single metric"):
        metrics.recall_at_k(points(4), [0, 0, 1, 1], k=(1, 2))
