"""LMNN with a metric for each class: the loss compared with loops, the search, an application."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.datasets import load_digits, load_iris
from sklearn.utils.estimator_checks import check_estimator
from working_memory import working_memory

from metricfast import LMNN, KNeighborsClassifier, losses
from metricfast.neighbors import MultiMetricLMNN
from metricfast.predictors.multi_metric import local_problem
from metricfast.selection import Judge
from metricfast.selection._measures import MEASURES, Search
from metricfast.selection._splits import split_points
from metricfast.training.objective import Objective

RNG = np.random.default_rng(0)
X, Y = load_iris(return_X_y=True)


def loss_in_loops(X, codes, targets, maps, pull):
    def distance(i, j):
        return np.sum((maps[codes[j]] @ (X[i] - X[j])) ** 2)

    total = 0.0
    for i in range(len(X)):
        for t in targets[i]:
            total += pull * distance(i, t)
            for j in np.flatnonzero(codes != codes[i]):
                total += (1 - pull) * max(0, 1 + distance(i, t) - distance(i, j))
    return total


def test_loss_and_gradient():
    points, codes = RNG.normal(size=(30, 4)), RNG.permutation(np.repeat([0, 1, 2], [9, 10, 11]))
    targets = losses.LMNN.find_targets(points, codes, 2)
    maps = RNG.normal(size=(3, 2, 4))
    objective = Objective(local_problem(points, codes, targets, 0.3), [maps])
    value, gradient = objective(maps.ravel())
    assert value == pytest.approx(loss_in_loops(points, codes, targets, maps, 0.3))
    error = check_grad(lambda x: objective(x)[0], lambda x: objective(x)[1], maps.ravel())
    assert error < 1e-4 * np.linalg.norm(gradient)
    with working_memory(30000):  # several blocks of anchors
        np.testing.assert_allclose(objective(maps.ravel())[1], gradient, rtol=1e-12, atol=1e-12)
    same = np.tile(maps[0], (3, 1, 1))
    expected, _ = losses.LMNN(regularization=0.3)(points @ maps[0].T, codes, targets=targets)
    assert objective(same.ravel())[0] == pytest.approx(expected)


@pytest.mark.parametrize("own", [False, True])
def test_neighbours_are_those_of_brute_force(own):
    model = MultiMetricLMNN(2, max_iter=5, judge=None).fit(X[:60:2], Y[:60:2])
    points, codes = X[:60:2], Y[:60:2]  # five points of the second class
    queries = points if own else X[1::2]
    apart = np.einsum("ncd,nqd->nqc", model.maps_[codes], queries - points[:, None])
    distances = np.sqrt((apart**2).sum(axis=2)).T
    if own:
        np.fill_diagonal(distances, np.inf)
    found, index = model.kneighbors(None if own else queries, 12)
    expected = np.argsort(distances, axis=1, kind="stable")[:, :12]
    np.testing.assert_allclose(found, np.take_along_axis(distances, expected, 1), rtol=1e-9)
    np.testing.assert_allclose(np.take_along_axis(distances, index, 1), found, rtol=1e-9)
    assert (model.predict(None) == codes).mean() == model.loo_score_


def test_a_metric_for_each_class_finds_what_matters_to_it():
    """Points of class 1 have a small first feature, points of class 2 a small second one."""
    n, rng = 1200, np.random.default_rng(0)
    codes = rng.integers(2, size=n)
    points = rng.uniform(-1, 1, size=(n, 8))
    points[np.arange(n), codes] *= 0.02
    train, test = slice(0, 300), slice(300, n)
    model = MultiMetricLMNN().fit(points[train], codes[train])
    single = KNeighborsClassifier(3, metric=LMNN()).fit(points[train], codes[train])
    better = model.score(points[test], codes[test])
    assert better > 0.9 and better > single.score(points[test], codes[test]) + 0.02
    judgement = model.judgement_
    assert judgement.chosen == model.n_iter_ > 0 and judgement.n_held_out == 300
    assert judgement.names[:2] == ["map of LMNN", "1 iterations"]
    first, second = (np.abs(L).sum(axis=0) for L in model.maps_)
    assert first.argmax() == 0 and second.argmax() == 1


@pytest.mark.parametrize("measure", sorted(MEASURES.keys() - {"squared_error", "label_distance"}))
def test_each_measure_of_classes_judges(measure):
    """Under one map for all classes, costs are those of embedded points."""
    judge = Judge(measure=measure)
    model = MultiMetricLMNN(judge=judge, max_iter=2).fit(X, Y)
    L, costs = LMNN(n_neighbors=3, judge=judge, random_state=0).fit(X, Y).components_, []
    for part in split_points(X, Y, least=4, unit="points"):
        sides = [X[rows] @ L.T for rows in (part.queries, part.train)]
        found = MEASURES[measure](Search(*sides), Y[part.queries], Y[part.train], None)
        costs.extend(part.weight * found.reshape(len(part.weight), -1)[:, 0])
    assert model.judgement_.measure == measure and len(model.judgement_.costs) == 3
    assert model.judgement_.costs[0] == pytest.approx(np.sum(costs) / 150, rel=1e-4)


def test_where_nothing_helps_it_is_lmnn():
    model = MultiMetricLMNN().fit(X, Y)
    assert model.n_iter_ == 0 and "not better than the map of LMNN" in model.judgement_.reason
    start = LMNN(random_state=0).fit(X, Y).components_
    np.testing.assert_array_equal(model.maps_, np.tile(start, (3, 1, 1)))
    assert not hasattr(model, "partial_fit")
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


@pytest.mark.filterwarnings("ignore:No training was better")
def test_few_points_of_many_features_do_not_collapse():
    """Early stopping of the single map prevents overfitting."""
    digits, labels = load_digits(return_X_y=True)
    model = MultiMetricLMNN(max_iter=15).fit(digits[:80], labels[:80])
    single = KNeighborsClassifier(3, metric="euclidean").fit(digits[:80], labels[:80])
    found, given = (each.score(digits[80:800], labels[80:800]) for each in (model, single))
    assert found > given - 0.02


@pytest.mark.filterwarnings("ignore:No training was better")
def test_checks_of_scikit_learn():
    model = MultiMetricLMNN(1, max_iter=2, judge=None)
    results = check_estimator(model, on_fail=None, on_skip=None)
    failed = {
        each["check_name"]: each["exception"] for each in results if each["status"] == "failed"
    }
    assert failed == {}


@pytest.mark.parametrize(
    ("params", "labels", "message"),
    [
        ({"n_neighbors": 60}, Y, "n_neighbors"),
        ({"regularization": 2}, Y, "regularization must be"),
        ({"max_iter": 0}, Y, "max_iter must be"),
        ({"judge": 0.2}, Y, "judge must be"),
        ({"judge": Judge(unit="classes")}, Y, "unit of the judge must be 'auto' or 'points'"),
        ({"judge": Judge(measure="squared_error")}, Y, "must be one of classes"),
        ({"n_components": 9}, Y, "n_components"),
        ({}, np.zeros(150), "2 classes"),
        ({}, np.c_[Y, Y], "one column"),
        ({}, np.where(np.arange(150) < 3, "few", "many"), "class few needs more"),
        ({"n_neighbors": 40}, np.arange(150) < 40, "smallest class has 40.*n_samples=150"),
    ],
)
def test_bad_input(params, labels, message):
    with pytest.raises(ValueError, match=message):
        MultiMetricLMNN(**params).fit(X, labels)


def test_more_neighbours_than_points():
    with pytest.raises(ValueError, match="n_neighbors must be at most 149"):
        MultiMetricLMNN(max_iter=1, judge=None).fit(X, Y).kneighbors(None, 150)
