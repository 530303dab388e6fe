"""Metrics of re-identification and verification, compared with slow definitions."""

import sys
from itertools import product

import numpy as np
import pytest
from sklearn import config_context
from sklearn.metrics import average_precision_score

from metricfast import metrics, sources
from metricfast.metrics import identification_report, retrieval_report, verification_report

RNG = np.random.RandomState(0)
QUERIES, GALLERY = RNG.standard_normal((12, 3)), RNG.standard_normal((25, 3))
WHO, OTHERS = np.arange(12) % 6, RNG.randint(0, 7, 25)
CAMERA, CAMERAS = RNG.randint(0, 3, 12), RNG.randint(0, 3, 25)
JUNK = RNG.rand(25) < 0.2
DISTANCES = np.linalg.norm(QUERIES[:, None] - GALLERY, axis=2)


def references_of(query, groups, junk):
    """Return the references that a query may find, nearest first."""
    out = JUNK if junk else np.zeros(25, bool)
    if groups:
        out = out | ((WHO[query] == OTHERS) & (CAMERA[query] == CAMERAS))
    order = np.argsort(DISTANCES[query], kind="stable")
    return order[~out[order]]


def cmc_of(ranked, own, k):
    """Return the share of draws (one reference per class) with the own class in the first k."""
    places = [np.flatnonzero(ranked == each) for each in np.unique(ranked)]
    mine = int(np.flatnonzero(np.unique(ranked) == own)[0])
    return np.mean([np.sum(np.array(drawn) < drawn[mine]) < k for drawn in product(*places)])


@pytest.mark.parametrize("junk", [None, "mask", "masks"])
@pytest.mark.parametrize("groups", [False, True])
def test_reidentification_is_that_of_all_draws(groups, junk):
    how = {"groups": (CAMERA, CAMERAS)} if groups else {}
    how |= {None: {}, "mask": {"where": ~JUNK}, "masks": {"where": np.tile(~JUNK, (12, 1))}}[junk]
    names = ["cmc_at_k", "recall_at_k", "mean_average_precision"]
    given = QUERIES, WHO, GALLERY, OTHERS
    report = retrieval_report(*given, metrics=names, k=(1, 2, 4), **how)
    for query, own in enumerate(WHO):
        ranked = OTHERS[references_of(query, groups, junk)]
        found = {name: score.values[query] for name, score in report.items()}
        if own not in ranked:
            assert np.isnan(list(found.values())).all()
            continue
        for k in (1, 2, 4):
            assert found[f"cmc_at_{k}"] == pytest.approx(cmc_of(ranked, own, k), abs=1e-12)
            assert found[f"recall_at_{k}"] == (own in ranked[:k])
        precision = average_precision_score(ranked == own, -np.arange(len(ranked)))
        assert found["mean_average_precision"] == pytest.approx(precision)
    n_classes = [
        len(np.unique(OTHERS[references_of(query, groups, junk)]))
        for query in np.flatnonzero(~np.isnan(report["cmc_at_2"].values))
    ]
    assert report["cmc_at_2"].chance == pytest.approx(np.mean(2 / np.array(n_classes)))
    assert report["cmc_at_2"].oracle == 1
    with config_context(working_memory=1):
        on_disk = retrieval_report(
            *given[:2], sources.Rows(GALLERY), OTHERS, metrics=names, k=(1, 2, 4), **how
        )
    for name, score in report.items():
        np.testing.assert_array_equal(on_disk[name].values, score.values)
    single = metrics.cmc_at_k(*given, k=2, **how)
    assert single == pytest.approx(report["cmc_at_2"].mean)


def test_one_shot_of_each_class_is_recall():
    people = np.arange(25)
    names = ["cmc_at_k", "recall_at_k"]
    report = retrieval_report(QUERIES, people[:12], GALLERY, people, metrics=names, k=(1, 5))
    for k in (1, 5):
        np.testing.assert_array_equal(report[f"cmc_at_{k}"].values, report[f"recall_at_{k}"].values)
        assert report[f"cmc_at_{k}"].chance == pytest.approx(report[f"recall_at_{k}"].chance)


def expected_cmc(ranked, own, k):
    """Return the mean over references of the own class, by adding one class after another."""
    found = []
    for place in np.flatnonzero(ranked == own):
        chances = np.eye(1, k)[0]  # of 0, 1, ... classes before it
        for each in set(ranked) - {own}:
            share = np.mean(np.flatnonzero(ranked == each) < place)
            chances = chances * (1 - share) + np.r_[0, chances[:-1]] * share
        found.append(chances.sum())
    return np.mean(found)


@pytest.mark.parametrize("k", [1, 7, 80])
@pytest.mark.parametrize("kind", ["equal", "alone", "large"])
def test_many_classes(kind, k):
    y = {"equal": np.arange(120) % 40, "alone": np.r_[0:100, 0:20], "large": np.r_[0:60, [0] * 60]}
    y, points = y[kind], np.random.default_rng(0).normal(size=(120, 2))
    values = retrieval_report(points, y, metrics="cmc_at_k", k=k)["cmc_at_k"].values
    for row in range(0, 120, 7):
        order = np.argsort(np.linalg.norm(points - points[row], axis=1), kind="stable")[1:]
        if y[row] in y[order]:
            assert values[row] == pytest.approx(expected_cmc(y[order], y[row], k), abs=1e-12)
    assert np.nanmax(values) <= 1


def test_no_loop_over_classes():
    points, events = np.random.default_rng(0).normal(size=(400, 2)), []
    for n_classes in (20, 200):
        events.append(0)
        sys.setprofile(lambda *_: events.append(events.pop() + 1))
        metrics.cmc_at_k(points, np.arange(400) % n_classes, k=5)
        sys.setprofile(None)
    assert events[1] < 2 * events[0]


def test_groups_of_points_that_search_each_other():
    among = retrieval_report(GALLERY, OTHERS, metrics="recall_at_k", k=2, groups=CAMERAS)
    apart = retrieval_report(
        GALLERY, OTHERS, GALLERY, OTHERS, metrics="recall_at_k", k=2, groups=(CAMERAS, CAMERAS)
    )
    np.testing.assert_array_equal(among["recall_at_k"].values, apart["recall_at_k"].values)
    labels = np.char.add(OTHERS.astype(str), np.char.add("/", CAMERAS.astype(str)))
    both = retrieval_report(GALLERY, OTHERS, metrics="recall_at_k", k=2, where=(labels, labels))
    np.testing.assert_array_equal(among["recall_at_k"].values, both["recall_at_k"].values)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"groups": (CAMERA, CAMERAS), "where": (WHO, OTHERS)}, "groups must be an array"),
        ({"groups": (CAMERA, CAMERAS, CAMERAS)}, "groups must be an array, or a tuple"),
        ({"groups": (CAMERA[1:], CAMERAS)}, r"groups\[0\]"),
        ({"groups": (CAMERA, CAMERA)}, r"groups\[1\]"),
    ],
)
def test_groups_that_do_not_fit(how, message):
    with pytest.raises(ValueError, match=message):
        retrieval_report(QUERIES, WHO, GALLERY, OTHERS, metrics="recall_at_k", k=1, **how)


def test_groups_are_for_classes():
    with pytest.raises(ValueError, match=r"^groups is for labels that are classes, and ndcg_at_k"):
        retrieval_report(GALLERY, OTHERS + 0.5, k=2, groups=CAMERAS)


def test_tags_have_no_single_shot():
    with pytest.raises(ValueError, match="labels"):
        metrics.cmc_at_k(QUERIES, np.eye(12, 4, dtype=bool), k=1)


Y = np.where(RNG.rand(200) < 0.4, 1, -1)
PAIRS = np.round(RNG.standard_normal(200) - Y, 1)  # with ties


def rates_at(threshold):
    accepted = threshold >= PAIRS
    return np.mean(accepted[Y == -1]), np.mean(accepted[Y == 1])


def test_verification_is_that_of_the_definition():
    report = verification_report(Y, PAIRS, far=(0.1, 0.01, 0.001))
    similar, dissimilar = PAIRS[Y == 1], PAIRS[Y == -1]
    nearer = similar[:, None] < dissimilar
    ties = similar[:, None] == dissimilar
    assert report["roc_auc"] == pytest.approx(np.mean(nearer + ties / 2))
    curve = [(0.0, 0.0), *(rates_at(t) for t in np.unique(PAIRS))]
    for far in (0.1, 0.01):
        expected = max(tar for rate, tar in curve if rate <= far)
        assert report[f"tar_at_far_{far}"] == expected
        threshold = report[f"threshold_at_far_{far}"]
        assert rates_at(threshold)[1] == expected
        assert not np.isfinite(threshold) or threshold in PAIRS
    for name in ("tar", "threshold"):
        assert np.isnan(report[f"{name}_at_far_0.001"])  # less than one of 120 pairs
    rate = report["equal_error_rate"]
    far, tar = np.array(curve).T
    assert np.interp(rate, far, tar) == pytest.approx(1 - rate, abs=1e-9)
    assert "equal_error_rate" in repr(report)


def test_thresholds_of_folds_are_those_of_the_others():
    folds = np.arange(200) // 20
    report = verification_report(Y, PAIRS, folds=folds)
    for fold, accuracy in enumerate(report.fold_accuracies):
        own = folds == fold
        right = [
            np.mean((PAIRS[~own] <= t) == (Y[~own] == 1)) for t in [-9.0, *np.unique(PAIRS[~own])]
        ]
        threshold = [-9.0, *np.unique(PAIRS[~own])][int(np.argmax(right))]
        assert accuracy == np.mean((PAIRS[own] <= threshold) == (Y[own] == 1))
    assert report["accuracy"] == pytest.approx(report.fold_accuracies.mean())
    error = report.fold_accuracies.std(ddof=1) / np.sqrt(10)
    assert report["accuracy_error"] == pytest.approx(error)
    # An integer splits pairs in order, like the folds of Labeled Faces in the Wild.
    y = np.tile(np.repeat([1, -1], 10), 10)
    numbered = verification_report(y, PAIRS)
    given = verification_report(y, PAIRS, folds=folds)
    np.testing.assert_array_equal(numbered.fold_accuracies, given.fold_accuracies)


def test_one_dissimilar_pair_may_be_accepted_at_its_own_rate():
    for n in range(2, 200):
        y = np.r_[np.ones(2), -np.ones(n)]
        report = verification_report(y, np.r_[0, n, np.arange(1, n + 1)], far=1 / n, folds=2)
        assert report[f"tar_at_far_{1 / n:g}"] == 0.5, n
        assert report[f"threshold_at_far_{1 / n:g}"] == 1, n


@pytest.mark.parametrize("seed", range(10))
def test_accuracy_does_not_depend_on_the_unit_of_distances(seed):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(60) < 0.2, 1, -1)
    distances = rng.exponential(size=60)
    found, *others = (
        verification_report(y, unit * distances, folds=5).fold_accuracies
        for unit in (1, 2.0**-20, 2.0**20)
    )
    for each in others:
        np.testing.assert_array_equal(each, found)


@pytest.mark.parametrize(
    ("y", "how", "message"),
    [
        (np.ones(200), {}, "y_true must hold 1 or -1"),
        (Y[1:], {}, "y_true must hold 1 or -1 for each of 200 pairs"),
        (Y, {"far": [0]}, "far must be a number above 0 to 1"),
        (Y, {"far": "0.1"}, "far must be a number above 0 to 1, got '0.1'"),
        (Y, {"folds": 1}, "folds must be an integer from 2 to"),
        (Y, {"folds": 199}, "folds must be an integer from 2 to"),
        (Y, {"folds": np.zeros(200)}, "folds must hold at least 2 folds"),
        (Y, {"folds": np.arange(9)}, "folds must hold 200 folds, one per pair, got 9"),
    ],
)
def test_verification_refuses(y, how, message):
    with pytest.raises(ValueError, match=message):
        verification_report(y, PAIRS, **how)


RATES = (1.0, 0.5, 0.3, 0.1, 0.02)


def identified(queries, labels, database, database_labels, rate):
    """Try every threshold, query by query; return the rate of misses and the threshold, or NaN."""
    tried = [-np.inf, *np.unique(np.linalg.norm(queries[:, None] - database, axis=2).min(axis=1))]
    best = np.nan, np.nan
    for threshold in tried:
        misses, false, known = 0, 0, 0
        for query, label in zip(queries, labels, strict=True):
            distances = np.linalg.norm(query - database, axis=1)
            nearest = int(np.argmin(distances))  # the first of those that are equally near
            returned = database_labels[nearest] if distances[nearest] <= threshold else None
            if label in database_labels:
                known, misses = known + 1, misses + (returned != label)
            else:
                false += returned is not None
        unknown = len(labels) - known
        if false / unknown <= rate and 1 / unknown <= rate:
            best = misses / known, threshold
    return best


@pytest.mark.parametrize("seed", range(12))
def test_identification_is_that_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(5, 60), rng.integers(1, 12)
    width = 1 if seed % 3 else 2
    points = rng.integers(0, 12, (n + m, width)).astype(float)  # with ties
    queries, database = points[:n], points[n:]
    names = np.array(["Ann", "Ben", "Eva", "Jon", "Kim"])
    database_labels = names[rng.integers(0, 3, m)]
    labels = names[rng.integers(0, 5, n)]
    labels[:2] = database_labels[0], "Kim"
    report = identification_report(queries, labels, database, database_labels, fpir=RATES)
    for rate in RATES:
        found = report[f"fnir_at_fpir_{rate:g}"], report[f"threshold_at_fpir_{rate:g}"]
        expected = identified(queries, labels, database, database_labels, rate)
        np.testing.assert_array_equal(found, expected)
    assert report["rank_1"] == pytest.approx(1 - report["fnir_at_fpir_1"])


def test_identification_under_a_map():
    rng = np.random.default_rng(0)
    queries, database = rng.normal(size=(40, 4)), rng.normal(size=(9, 4))
    labels, known, L = np.arange(40) % 6, np.arange(9) % 3, rng.normal(size=(2, 4))
    given = identification_report(queries, labels, database, known, L=L, fpir=0.2)
    embedded = identification_report(queries @ L.T, labels, database @ L.T, known, fpir=[0.2])
    assert given == pytest.approx(embedded)
    assert list(given) == ["rank_1", "fnir_at_fpir_0.2", "threshold_at_fpir_0.2"]


@pytest.mark.parametrize(
    ("labels", "how", "message"),
    [
        (np.zeros(12, int), {}, "labels must have some classes .* found only classes of"),
        (np.full(12, 9), {}, "labels must have some classes .* found no classes of"),
        (np.arange(11), {}, "labels"),
        (np.arange(12), {"fpir": 0}, "fpir must be a number above 0 to 1, got 0"),
        (np.arange(12), {"fpir": "0.1"}, "fpir must be a number above 0 to 1, got '0.1'"),
    ],
)
def test_identification_refuses(labels, how, message):
    points = np.arange(24.0).reshape(12, 2)
    with pytest.raises(ValueError, match=message):
        identification_report(points, labels, points[:3], [0, 1, 2], **how)
