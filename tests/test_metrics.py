"""Retrieval metrics, compared with slow definitions, scikit-learn and SciPy."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from reference_ranking import by_definition, of_hits, of_label_distances
from scipy.spatial.distance import cdist

import metricfast as mf
from metricfast import losses, metrics
from metricfast._labels import distance as label_blocks
from metricfast.distances.filters import as_filter, known_rows
from metricfast.metrics import retrieval_report
from metricfast.metrics._classes import CLASS_METRICS, ClassMetric
from metricfast.metrics._continuous import CONTINUOUS_METRICS
from metricfast.metrics._selection import METRICS

K = 3
NAMES = [*CLASS_METRICS, *CONTINUOUS_METRICS]


def points(n: int, d: int = 2, *, levels: int = 4, seed: int = 0):
    """Return points on a small grid, with many equal distances."""
    return np.random.default_rng(seed).integers(0, levels, (n, d)).astype(float)


def grid_labels(name: str, n: int, seed: int):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 5, n) if name in CLASS_METRICS else rng.normal(size=n)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("exclusion", ["none", "some", "own"])
def test_values_are_those_of_the_definition(name, exclusion):
    queries, labels = points(30), grid_labels(name, 30, 1)
    database, database_labels = points(25, seed=2), grid_labels(name, 25, 3)
    exclude = np.full(30, -1)
    if exclusion == "some":
        exclude[::2] = np.random.default_rng(4).integers(0, 25, 15)
    if exclusion == "own":
        database, database_labels, exclude = queries, labels, np.arange(30)
        report = retrieval_report(queries, labels, metrics=name, k=K)
    else:
        report = retrieval_report(
            queries, labels, database, database_labels, metrics=name, k=K, exclude=exclude
        )
    expected = by_definition(name, queries, labels, database, database_labels, exclude, K)
    np.testing.assert_allclose(report[name].values, expected, rtol=1e-12)


@pytest.mark.parametrize("name", CLASS_METRICS)
@pytest.mark.parametrize("relevant", [1, 2, 4, 7])
def test_chance_of_classes_is_the_mean_over_all_orders(name, relevant):
    """Every order of the references corresponds to a choice of ranks for the hits."""
    n = 7
    values = [
        of_hits(name, [i in places for i in range(n)], relevant, K)
        for places in itertools.combinations(range(n), relevant)
    ]
    database = np.arange(n + 1.0)[:, None]
    labels = np.arange(n) < relevant
    report = retrieval_report([[0.0]], [True], database[1:], labels, metrics=name, k=K)
    assert report[name].chance == pytest.approx(np.mean(values), rel=1e-12)
    assert report[name].oracle == pytest.approx(max(values), rel=1e-12)


def test_best_order_of_a_metric_that_no_order_brings_to_one():
    precision = ClassMetric(lambda hits, R, k: hits[:, :k].mean(axis=1), lambda R, n, k: R / n, "k")
    chance, oracle = precision.baselines(np.array([3, 12, 3]), np.array([30, 30, 60]), 10)
    np.testing.assert_array_equal(chance, [0.1, 0.4, 0.05])
    np.testing.assert_array_equal(oracle, [0.3, 1, 0.3])


def test_a_metric_of_hits_alone_needs_no_function_of_ranks(monkeypatch):
    metrics = ["mean_average_precision", "precision_at_1"]
    queries, labels = points(40, 3), np.arange(40) % 4
    arguments, how = (queries, labels, queries, labels), {"exclude": np.arange(40)}
    counted = retrieval_report(*arguments, metrics=metrics, **how)
    of_hits = replace(CLASS_METRICS["mean_average_precision"], of_ranks=None)
    monkeypatch.setitem(METRICS, "mean_average_precision", of_hits)
    sorted_ranks = retrieval_report(*arguments, metrics=metrics, **how)
    for name in metrics:
        np.testing.assert_allclose(sorted_ranks[name].values, counted[name].values, rtol=1e-12)


@pytest.mark.parametrize("name", CONTINUOUS_METRICS)
def test_chance_and_oracle_of_continuous_labels_are_those_of_all_orders(name):
    labels = np.array([0.0, 0.2, 0.9, 3.0, 1.1])
    places = np.arange(1.0, 6.0)
    report = retrieval_report([[0.0]], [0.0], places[:, None], labels, metrics=name, k=K)
    values = [
        of_label_distances(name, list(order), list(places), K)
        for order in itertools.permutations(labels)
    ]
    best = min(values) if name == "mean_label_distance_at_k" else max(values)
    assert report[name].chance == pytest.approx(np.mean(values), rel=1e-12, abs=1e-12)
    assert report[name].oracle == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_blocks_change_nothing_and_bound_memory(name, monkeypatch):
    queries, labels = points(40, 3), grid_labels(name, 40, 5)
    exclude = np.where(np.arange(40) % 3, np.arange(40), -1)
    arguments = (queries, labels, queries, labels)
    whole = retrieval_report(*arguments, metrics=name, k=K, exclude=exclude)[name]
    rows = []
    search = mf.Database.kneighbors

    def watched(self, queries, *rest, **options):
        rows.append(len(queries))
        return search(self, queries, *rest, **options)

    monkeypatch.setattr(label_blocks, "_MEMORY", 7 * 40 * label_blocks._ENTRY)
    monkeypatch.setattr(mf.Database, "kneighbors", watched)
    parts = retrieval_report(*arguments, metrics=name, k=K, exclude=exclude)[name]
    np.testing.assert_array_equal(parts.values, whole.values)
    assert (parts.chance, parts.oracle) == (whole.chance, whole.oracle)
    metric = (CLASS_METRICS | CONTINUOUS_METRICS)[name]
    if name in CLASS_METRICS and name != "precision_at_1":
        assert not rows  # ranks are counted
        return
    assert sum(rows) == 40
    if metric.depth == "all":
        assert max(rows) == 7


def test_maps_are_those_of_the_neighbours():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 4)), rng.integers(0, 3, 50)
    U, V = rng.normal(size=(2, 2, 4))
    mapped = retrieval_report(X, y, L=U)["map_at_r"]
    np.testing.assert_allclose(mapped.values, retrieval_report(X @ U.T, y)["map_at_r"].values)
    own = np.arange(50)
    asymmetric = retrieval_report(X @ U.T, y, X @ V.T, y, exclude=own)["map_at_r"]
    np.testing.assert_allclose(
        retrieval_report(X, y, U=U, V=V)["map_at_r"].values, asymmetric.values
    )


def test_lone_queries_are_left_out_and_counted():
    X = np.arange(5.0)[:, None]
    report = retrieval_report(X, ["a", "a", "b", "c", "c"], k=2)
    for score in report.values():
        np.testing.assert_array_equal(np.isnan(score.values), [0, 0, 1, 0, 0])
        assert score.n_undefined == 1
        assert score.mean == score.values[[0, 1, 3, 4]].mean()
        assert 0 < score.chance < 1
        assert score.oracle == 1
    # a class that the database does not have
    strange = retrieval_report([[0.1], [1.1]], ["z", "a"], X, list("aabcc"), k=2)
    assert strange["map_at_r"].n_undefined == 1
    # label distances that do not determine an order
    report = retrieval_report(X[:3], [[0.0], [1.0], [1.0]], [[0.0], [1.0]], [[0.0], [2.0]], k=1)
    assert report["spearman"].n_undefined == 2


def test_one_point_for_all_embeddings_has_no_rank_correlation():
    assert metrics.spearman(np.zeros((6, 2)), np.arange(6.0)) == 0


def test_default_metrics_fit_the_labels():
    X = points(12)
    for labels in (np.arange(12) % 3, np.array(list("abc") * 4), (np.arange(12) % 2).astype(bool)):
        assert list(retrieval_report(X, labels)) == list(CLASS_METRICS)
    for labels in (np.linspace(0, 1, 12), points(12, 2, seed=8)):
        assert list(retrieval_report(X, labels)) == list(CONTINUOUS_METRICS)


# Forms of label distances: functions of two labels, of two arrays, or of two vectors.
FORMS = {
    "two": lambda a, b: np.abs(a - b).sum(),
    "product": lambda a, b: 100 - a @ b,
    "scipy": lambda a, b: cdist(a, b, "cityblock"),
    "columns": lambda a, b: np.abs(a[:, None] - b).sum(axis=2),
    "vectors": lambda a, b: np.abs(np.subtract.outer(a, b)),
}


@pytest.mark.parametrize("width", [0, 1, 3, 12])
@pytest.mark.parametrize("form", FORMS)
def test_functions_of_labels_in_any_form(form, width):
    X = points(12)
    labels = points(12, width, seed=9) if width else points(12, 1, seed=9)[:, 0]
    if form == "vectors" and width > 1:
        pytest.skip("of labels of one number")
    column = labels.reshape(12, -1)
    distances = 100 - column @ column.T if form == "product" else cdist(column, column, "cityblock")
    metric = FORMS[form]
    found = metrics.mean_label_distance_at_k(X, labels, k=11, label_distance=metric)
    away = distances[~np.eye(12, dtype=bool)]
    assert found == pytest.approx(away.mean())
    if form in ("two", "product") or (form == "vectors" and width):
        return
    expected, gradient = losses.LogRatio(label_distance="cityblock")(X, labels)
    value, found = losses.LogRatio(label_distance=metric)(X, labels)
    assert value == pytest.approx(expected)
    np.testing.assert_allclose(found, gradient, atol=1e-12)


def test_input_is_not_changed():
    X, y, out = points(12), np.arange(12.0), np.arange(12)
    for array in (X, y, out):
        array.flags.writeable = False
    retrieval_report(X, y, X, y, exclude=out, metrics=NAMES[-3:])
    retrieval_report(X, out % 2, X, out % 2, exclude=out, metrics=NAMES[:6])


POINTS = np.arange(4.0)[:, None]
CLASSES = np.array([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((POINTS, CLASSES), {"metrics": "recall"}, "metrics must be among precision_at_1"),
        *(
            ((POINTS, CLASSES), {"metrics": m}, "metrics must be among")
            for m in ([], 1, [[1]], np.array(2))
        ),
        (
            (POINTS, np.ma.array(CLASSES, mask=CLASSES == 0)),
            {"metrics": "ndcg_at_k", "k": 2},
            "labels has 2 masked values",
        ),
        ((POINTS, CLASSES), {"k": 4}, "k must be at most 3, the references that `where`"),
        ((POINTS, CLASSES), {"k": 0}, "k must be a positive integer"),
        ((POINTS, CLASSES), {"k": True}, "k must be a positive integer"),
        ((POINTS, CLASSES), {"k": (1, 0)}, "k must be a positive integer, or several; found 0"),
        ((POINTS, CLASSES), {"k": ()}, "or several; found none"),
        ((POINTS, CLASSES), {"k": (1, 4)}, "k must be at most 3"),
        ((POINTS, CLASSES), {"k": 1, "confidence": 95}, "confidence must lie between"),
        ((POINTS, CLASSES), {"k": 1, "confidence": {}}, "confidence must lie between"),
        ((POINTS, CLASSES), {"k": np.array(2)}, "k must be a positive integer"),
        ((POINTS, CLASSES[:3]), {"k": 1}, "labels must hold 4 labels, one per point"),
        ((POINTS, CLASSES, POINTS), {"k": 1}, "must be given together"),
        (
            (POINTS, CLASSES, POINTS, CLASSES[:2]),
            {"k": 1},
            "database_labels must hold 4 labels, one per point",
        ),
        ((POINTS, CLASSES, [[1.0, 2.0]], [0]), {"k": 1}, "database must have 1 columns"),
        ((POINTS[:1], CLASSES[:1]), {"k": 1}, "holds only itself"),
        ((POINTS, np.arange(4)), {"k": 1}, "that `where` and `exclude` leave"),
        ((POINTS, [0.5, np.nan, 1, 2]), {"k": 1, "metrics": "ndcg_at_k"}, "labels contains NaN"),
        ((POINTS, np.ones((4, 2))), {"k": 1}, "spearman is not defined"),
        ((POINTS, np.ones((4, 2)), POINTS, np.ones(4)), {"k": 1}, "as many columns"),
        ((POINTS, [["a"]] * 4), {"k": 1, "metrics": "spearman"}, "labels must hold numbers"),
        (
            (POINTS, np.arange(4.0)),
            {"k": 1, "metrics": "spearman", "label_distance": lambda a, b: np.nan},
            "label_distance must give finite distances",
        ),
        (([[np.nan]], [0]), {"k": 1}, "queries contains NaN"),
        (
            (np.float32([[3e38], [-3e38], [0]]), [0.5, 1, 2]),
            {"k": 1, "metrics": "spearman"},
            "X, or queries and database, are so far apart",
        ),
    ],
)
def test_errors_say_what_is_wrong(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        retrieval_report(*arguments, **options)


@pytest.mark.parametrize("name", NAMES)
def test_values_without_baselines(name):
    rng = np.random.default_rng(0)
    queries, labels = rng.normal(size=(30, 2)), rng.integers(0, 3, 30)
    found, expected = (
        retrieval_report(queries, labels, metrics=name, k=K, baselines=baselines)[name]
        for baselines in (False, True)
    )
    np.testing.assert_array_equal(found.values, expected.values)
    assert np.isnan([found.chance, found.oracle]).all()
    assert np.isfinite([expected.chance, expected.oracle]).all()


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])
@pytest.mark.parametrize("kind", ["normal", "whole numbers", "zeros", "unbalanced"])
def test_counted_ranks_are_those_of_the_whole_order(kind, metric):
    rng = np.random.default_rng(11)
    X, Q = rng.normal(size=(150, 6)), rng.normal(size=(40, 6))
    y, of_queries = rng.integers(0, 9, 150), rng.integers(0, 10, 40)  # no reference has class 9
    if kind == "whole numbers":
        X, Q = np.round(X), np.round(Q)
    elif kind == "zeros":
        X[::9] = Q[::9] = 0
    elif kind == "unbalanced":
        y[rng.random(150) < 0.8] = 0
        X *= rng.lognormal(sigma=2, size=(150, 1))
    mask = rng.random((40, 150)) < 0.5
    cameras = rng.integers(0, 3, 40), rng.integers(0, 3, 150)
    for dtype in (np.float32, np.float64):
        X, Q = X.astype(dtype), Q.astype(dtype)
        for where in (None, mask, cameras, mask[0]):
            report = retrieval_report(
                Q, of_queries, X, y, metric=metric, where=where, exclude=np.arange(40), k=10,
                metrics=list(CLASS_METRICS),
            )  # fmt: skip
            order = mf.kneighbors(
                Q, X, 150, metric=metric,
                where=~np.eye(40, 150, dtype=bool) & as_filter(
                    where, (40, 150), known_rows(150)
                ).allows(np.arange(40)[:, None], np.arange(150)),
            )[1]  # fmt: skip
            hits = [y[row[row >= 0]] == c for row, c in zip(order, of_queries, strict=True)]
            hits = [list(row) for row in hits if row.any()]
            for name, score in report.items():
                expected = [of_hits(name, row, sum(row), 10) for row in hits]
                np.testing.assert_allclose(score.values[~np.isnan(score.values)], expected)
