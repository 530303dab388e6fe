"""Metrics of scored pairs and of graded relevance, by formulas in loops."""

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array
from scipy.stats import pearsonr, spearmanr

from metricfast.metrics import pair_report, relevance_report, retrieval_report

RNG = np.random.default_rng(0)
QUERIES, DATABASE = RNG.normal(size=(25, 3)), RNG.normal(size=(40, 3))
# Some queries have no relevant point, some more than are found.
RELEVANCE = RNG.integers(1, 4, (25, 40)) * (
    RNG.random((25, 40)) < RNG.choice([0, 0.03, 0.3], 25)[:, None]
)


def best_accuracy(y, similarities):
    """The best accuracy of a cut between two pairs, in the order of similarities."""
    order = np.argsort(-similarities)
    hits = [np.sum(y[order[:i]] == 1) + np.sum(y[order[i:]] == 0) for i in range(1, len(order))]
    return max(hits) / len(y)


def average_precision(y, similarities):
    order = np.argsort(-similarities)
    return np.mean([np.mean(y[order[: i + 1]]) for i, row in enumerate(order) if y[row]])


def of_query(found, grades, k):
    """Metrics of one query, from the grades of the points found and of all points."""
    n_relevant = sum(grade > 0 for grade in grades)
    hits = [grade > 0 for grade in found[:k]]
    gain = sum(grade / np.log2(i + 2) for i, grade in enumerate(found[:k]))
    best = sum(grade / np.log2(i + 2) for i, grade in enumerate(sorted(grades)[::-1][:k]))
    precisions = [sum(hits[: i + 1]) / (i + 1) for i in range(k) if hits[i]]
    return {
        "hit_at": float(any(hits)),
        "recall_at": sum(hits) / n_relevant,
        "mrr_at": next((1 / (i + 1) for i in range(k) if hits[i]), 0.0),
        "map_at": sum(precisions) / min(n_relevant, k),
        "ndcg_at": gain / best,
    }


def averages(relevance, orders, k):
    """The metrics of orders of the database, a row for each query."""
    rows = [
        of_query(grades[order], grades, k)
        for order, grades in zip(orders, relevance, strict=True)
        if grades.any()
    ]
    return {f"{name}_{k}": np.mean([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("relevance", [RELEVANCE, RELEVANCE > 0], ids=["grades", "ones"])
def test_searches_are_scored_by_the_formulas(relevance):
    distances = np.linalg.norm(QUERIES[:, None] - DATABASE, axis=2)
    report = relevance_report(QUERIES, csr_array(relevance), DATABASE, k=(1, 5, 40))
    expected = {}
    for k in (1, 5, 40):
        expected |= averages(relevance, np.argsort(distances, axis=1), k)
    assert {name: score.mean for name, score in report.items()} == pytest.approx(expected)
    assert {score.n_undefined for score in report.values()} == {(~relevance.any(axis=1)).sum()}


def test_chance_and_oracle():
    report = relevance_report(QUERIES, RELEVANCE, DATABASE, k=(5,))
    orders = np.array([RNG.permuted(np.tile(np.arange(40), (25, 1)), axis=1) for _ in range(400)])
    drawn = [averages(RELEVANCE, each, 5) for each in orders]
    best = averages(RELEVANCE, np.argsort(-RELEVANCE, axis=1), 5)
    for name, score in report.items():
        values = np.array([each[name] for each in drawn])
        error = values.std() / np.sqrt(len(values))
        assert score.chance == pytest.approx(values.mean(), abs=4 * error), name
        assert score.oracle == pytest.approx(best[name]), name


@pytest.mark.parametrize("n", range(2, 40))
def test_correlations_are_at_most_one(n):
    report = pair_report(np.arange(n), np.arange(n) / 3)
    assert max(report["spearman"], report["pearson"]) <= 1
    assert min(pair_report(np.arange(n), -np.arange(n) / 3).values()) >= -1


def test_entries_may_be_given_twice_and_zero():
    once = csr_array(([2.0, 1.0], ([0, 1], [3, 4])), shape=(25, 40))
    twice = coo_array(([1.0, 1.0, 1.0, 0.0], ([0, 0, 1, 1], [3, 3, 4, 5])), shape=(25, 40))
    reports = [relevance_report(QUERIES, each, DATABASE) for each in (once, twice)]
    for name, score in reports[0].items():
        np.testing.assert_array_equal(score.values, reports[1][name].values)


def test_hits_are_those_of_tags():
    tags = csr_array(RELEVANCE > 0)
    found = relevance_report(QUERIES, tags, DATABASE, k=3)["hit_at_k"]
    expected = retrieval_report(
        QUERIES, tags, DATABASE, csr_array(np.eye(40, dtype=bool)), metrics="recall_at_k", k=3
    )["recall_at_k"]
    assert found.mean == expected.mean
    assert found.chance == expected.chance
    assert found.interval == expected.interval


@pytest.mark.parametrize("n", [2, 9, 300])
def test_pairs_are_scored_by_the_formulas(n):
    y = np.r_[0, 1, RNG.integers(0, 2, n - 2)]
    similarities = y + 1.5 * RNG.normal(size=n)
    report = pair_report(y, similarities)
    # A cut is between two pairs; here all pairs and none may be above it, too.
    whole = max(y.mean(), 1 - y.mean())
    assert report["accuracy"] == max(best_accuracy(y, similarities), whole)
    assert np.mean((similarities >= report["threshold"]) == y) == report["accuracy"]
    assert report["average_precision"] == pytest.approx(average_precision(y, similarities))
    for given in (np.where(y, 1, -1), np.where(y, 4.5, 2.0)):
        assert pair_report(given, similarities) == pytest.approx(report)


def test_correlations_are_those_of_scipy():
    y = RNG.integers(0, 6, 100)
    similarities = np.round(y + RNG.normal(size=100), 1)
    report = pair_report(y, similarities)
    assert list(report) == ["spearman", "pearson"]
    assert report["spearman"] == pytest.approx(spearmanr(y, similarities)[0])
    assert report["pearson"] == pytest.approx(pearsonr(y, similarities)[0])
    assert pair_report(y, 1e300 * similarities) == pytest.approx(report)
    assert np.isnan(list(pair_report(y, np.ones(100)).values())).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 1], [0.1, 0.2]), "y_true must hold different scores: all are 1"),
        (([1], [0.1]), "at least 2 pairs; found 1"),
        (([1, 0, 1], [0.1, 0.2]), r"y_true must have shape \(2,\)"),
        (([1, np.nan], [0.1, 0.2]), "y_true contains NaN"),
        (([1, 0], [np.inf, 0.2]), "similarities contains"),
    ],
)
def test_pairs_that_cannot_be_scored(arguments, message):
    with pytest.raises(ValueError, match=message):
        pair_report(*arguments)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"relevance": RELEVANCE[:, :5]}, r"relevance must have shape \(25, 40\)"),
        ({"relevance": -RELEVANCE}, "finite numbers, 0 or greater"),
        ({"relevance": RELEVANCE * np.nan}, "relevance"),
        ({"relevance": 0 * RELEVANCE}, "no query has a relevant point"),
        ({"relevance": None}, "relevance"),
        ({"k": 41}, "k must be at most 40"),
        ({"k": 0}, "k must be a positive integer"),
        ({"confidence": 1}, "confidence must lie between 0 and 1"),
        ({"database": DATABASE[:, :2]}, "database"),
    ],
)
def test_searches_that_cannot_be_scored(changed, message):
    given = {"queries": QUERIES, "relevance": RELEVANCE, "database": DATABASE} | changed
    with pytest.raises((ValueError, TypeError), match=message):
        relevance_report(**given)
