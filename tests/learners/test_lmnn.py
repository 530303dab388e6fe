from __future__ import annotations

import warnings

import numpy as np
import pytest
import reference
from sklearn.datasets import load_digits, load_iris, load_wine, make_classification
from sklearn.preprocessing import scale

from metricfast import LMNN, losses
from metricfast.callbacks import Checkpoint
from metricfast.learners.impostors import ImpostorLists
from metricfast.solvers import Adam

IRIS, Y = load_iris(return_X_y=True)
X = IRIS + 1e-3 * np.random.default_rng(0).normal(size=IRIS.shape)  # no ties of distances
WINE, WINE_Y = load_wine(return_X_y=True)


# The objective of the paper, with targets that are fixed at the start.
PAPER = {"judge": None, "target_refresh": 0}


def objective(model, points, labels, k=3, **params) -> float:
    targets = losses.LMNN.find_targets(points, labels, k)
    return reference.lmnn(model.transform(points), labels, targets, **params)


@pytest.mark.parametrize("regularization", [0.0, 0.3, 1.0])
def test_objective_is_that_of_the_definition(regularization):
    points, labels = X[::2], Y[::2]
    model = LMNN(n_neighbors=2, regularization=regularization, **PAPER).fit(points, labels)
    expected = objective(model, points, labels, k=2, regularization=regularization)
    assert model.objective_ == pytest.approx(expected, rel=1e-9)
    assert model.loss_curve_[-1] == pytest.approx(model.objective_)
    np.testing.assert_array_equal(model.labels_, [0, 1, 2])


# The objective at the solution of metric-learn 0.7.0 with its defaults.
@pytest.mark.parametrize(
    ("points", "labels", "peer"),
    [(scale(IRIS), Y, 234.4397), (scale(WINE), WINE_Y, 210.2783)],
    ids=["iris", "wine"],
)
def test_objective_is_not_above_that_of_metric_learn(points, labels, peer):
    assert LMNN(**PAPER).fit(points, labels).objective_ <= peer


def test_lists_change_the_work_and_not_the_result(monkeypatch):
    points, labels = load_digits(return_X_y=True)
    settings = {"n_components": 10, "init": "pca", "judge": None}
    listed = LMNN(**settings).fit(points, labels)
    searches = []
    monkeypatch.setattr(ImpostorLists, "__call__", lambda self, Z: searches.append(Z))
    searched = LMNN(**settings).fit(points, labels)
    assert len(searches) >= searched.n_iter_
    np.testing.assert_allclose(listed.loss_curve_[:20], searched.loss_curve_[:20], rtol=1e-9)


def walk(Z, rng):
    """Yield embeddings that change less and less, and shrink or grow."""
    for i in range(60):
        noise = rng.normal(size=Z.shape) * 0.3 / (1 + i) ** 2
        Z = (Z * rng.uniform(0.8, 1.2) + noise).astype(Z.dtype)
        yield Z


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lists_are_complete_and_reused(dtype):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(400, 3)).astype(dtype) * 4
    labels = rng.integers(0, 3, 400)
    targets = losses.LMNN.find_targets(start, labels, 3)
    lists = ImpostorLists(labels, targets, 1.0, max_candidates=10**6)
    loss = losses.LMNN()
    reused = 0
    for Z in walk(start, rng):
        searches = lists.n_searches
        found = lists(Z)
        reused += found is not None and lists.n_searches == searches
        value, gradient = loss(Z, labels, targets=targets, impostors=found)
        expected, expected_gradient = loss(Z, labels, targets=targets)
        assert value == pytest.approx(expected, rel=1e-6)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-3, atol=1e-3)
    assert reused > 20


def test_lists_that_are_too_long_are_left_out_and_tried_again():
    labels = np.arange(200) % 2
    points = np.random.default_rng(0).normal(size=(200, 2))
    targets = losses.LMNN.find_targets(points, labels, 3)
    lists = ImpostorLists(labels, targets, 1.0, max_candidates=1000)
    assert lists(1e-3 * points) is None
    assert lists.n_searches == 1
    assert lists(1e-3 * points) is None
    assert lists.n_searches == 1
    assert lists(1e3 * points) is not None


def test_wide_data_use_the_diagonal_of_the_scatter():
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(40, 2100)), np.arange(40) % 2
    with pytest.warns(UserWarning, match=r"40 points of 2100 features.*PCA\(n_components=4\)"):
        model = LMNN(n_components=2, init="pca", judge=None).fit(points, labels)
    assert model.objective_ < model.loss_curve_[0]
    assert model.components_.shape == (2, 2100)


def test_mini_batches_come_near_the_optimum():
    points, labels = make_classification(1000, 10, n_informative=6, n_classes=4, random_state=0)
    best = LMNN(**PAPER).fit(points, labels)
    model = LMNN(**PAPER, solver=Adam(batch_size=200), random_state=0).fit(points, labels)
    targets = losses.LMNN.find_targets(points, labels, 3)
    reached = losses.LMNN()(model.transform(points), labels, targets=targets)[0]
    assert best.objective_ <= reached < 1.1 * best.objective_


def test_a_batch_of_all_anchors_is_the_objective():
    values = []
    model = LMNN(
        solver=Adam(batch_size=150, max_epochs=1), callbacks=[lambda s: values.append(s.objective)]
    ).fit(X, Y)
    start = losses.LMNN.find_targets(X, Y, 3)
    scales = 2.0 ** np.arange(-20, 20, 1 / 8)
    expected = min(losses.LMNN()(s * X, Y, targets=start)[0] for s in scales)
    assert values == [pytest.approx(expected)]
    assert model.n_iter_ == 1


def test_targets_follow_the_map():
    fixed = LMNN(**PAPER).fit(WINE, WINE_Y)
    model = LMNN(judge=None).fit(WINE, WINE_Y)
    np.testing.assert_allclose(model.loss_curve_[:10], fixed.loss_curve_[:10])
    embedded = model.transform(WINE)
    targets = losses.LMNN.find_targets(embedded, WINE_Y, 3)
    assert losses.LMNN()(embedded, WINE_Y, targets=targets)[0] == pytest.approx(model.objective_)
    assert (np.diff(model.loss_curve_) <= 0).all()
    start = losses.LMNN.find_targets(fixed.transform(WINE), WINE_Y, 3)
    assert model.objective_ < losses.LMNN()(fixed.transform(WINE), WINE_Y, targets=start)[0]


def test_targets_of_mini_batches_follow_the_map(tmp_path):
    settings = {"solver": Adam(max_epochs=5), "target_refresh": 2, "random_state": 0}
    points = scale(WINE)
    model = LMNN(**settings, judge=None).fit(points, WINE_Y)
    fixed = LMNN(**settings | PAPER).fit(points, WINE_Y)
    assert model.loss_curve_[:2] == fixed.loss_curve_[:2]
    assert model.loss_curve_[2:] != fixed.loss_curve_[2:]
    # A training that is interrupted between two searches continues with the same targets.
    checkpoint = [Checkpoint(tmp_path / "it")]
    parts = LMNN(**settings, judge=None)

    def interrupt(state):
        if state.iteration == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parts.set_params(callbacks=[*checkpoint, interrupt]).fit(points, WINE_Y)
    parts.set_params(callbacks=checkpoint).fit(points, WINE_Y)
    assert parts.loss_curve_ == model.loss_curve_


@pytest.mark.parametrize("solver", ["lbfgs", Adam(batch_size=150)])
def test_weights_are_those_of_anchors(solver):
    weight = np.random.default_rng(0).uniform(size=150) * (np.arange(150) % 3)
    settings = {"solver": solver, "random_state": 0, **PAPER}
    model = LMNN(**settings).fit(X, Y, sample_weight=weight)
    expected = objective(model, X, Y, weight=weight)
    assert model.objective_ == pytest.approx(expected, rel=1e-9 if solver == "lbfgs" else 0.05)
    doubled = LMNN(**settings).fit(X, Y, sample_weight=np.full(150, 2.0))
    assert doubled.objective_ == pytest.approx(2 * LMNN(**settings).fit(X, Y).objective_, rel=1e-3)


def test_min_iter_is_the_least_number_of_iterations():
    settings = {"convergence_tol": 10.0, "judge": None}
    assert LMNN(min_iter=7, **settings).fit(X, Y).n_iter_ == 7


def test_continuous_labels_are_named_where_classes_are_too_small():
    X = np.random.default_rng(0).normal(size=(40, 2))
    with (
        pytest.warns(UserWarning, match="40 classes among 40 labels"),
        pytest.raises(ValueError, match="y looks continuous: MLKR learns from numbers"),
    ):
        LMNN().fit(X, np.arange(40))
    with pytest.raises(ValueError, match=r"leave the class out\.$"):
        LMNN(n_neighbors=3).fit(X, np.repeat([0, 1], [38, 2]))
    with pytest.raises(ValueError, match=r"leave the class out\.$"):
        LMNN().fit(X, np.arange(40).astype(str))


@pytest.mark.parametrize("solver", ["lbfgs", "adam"])
@pytest.mark.parametrize("judge", [None, "auto"])
@pytest.mark.parametrize(("sizes", "k"), [((20, 20), 3), ((20, 4), 3), ((20, 3), 2), ((20, 2), 1)])
def test_targets_by_default_are_as_many_as_the_smallest_class_has(sizes, k, judge, solver):
    y = np.repeat([0, 1], sizes)
    X = np.random.default_rng(0).normal(size=(len(y), 3)) + y[:, None]
    params = {"judge": judge, "solver": solver, "random_state": 0}
    model, given = LMNN(**params), LMNN(n_neighbors=k, **params).fit(X, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    told = [str(each.message) for each in caught if "n_neighbors" in str(each.message)]
    assert len(told) == (k < 3)
    assert all(f"n_neighbors={k} is used in place of 3" in text for text in told)
    assert model.n_neighbors is None
    np.testing.assert_array_equal(model.components_, given.components_)


@pytest.mark.parametrize(
    ("sizes", "k", "early_stopping", "text"),
    [
        ((10, 4), 4, False, r"smallest class has 4.*Lower n_neighbors, or leave the class out\.$"),
        ((9, 1), 1, False, r"smallest class has 1.*Give more points of it, or leave the class out"),
        ((28, 12), 11, True, r"n_samples=36.* leave out what .* holds out: 4 of the 40 points"),
    ],
)
def test_small_classes_are_named_with_what_helps(sizes, k, early_stopping, text):
    y = np.repeat([0, 1], sizes)
    points = np.random.default_rng(0).normal(size=(len(y), 3))
    for solver in ("lbfgs", "adam"):
        model = LMNN(n_neighbors=k, early_stopping=early_stopping, solver=solver, random_state=0)
        with pytest.raises(ValueError, match=text):
            model.fit(points, y)
