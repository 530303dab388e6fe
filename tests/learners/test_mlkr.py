"""MLKR: what it learns, and from which targets."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from sklearn.datasets import load_diabetes, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from metricfast import MLKR, kneighbors

X, Y = load_diabetes(return_X_y=True)
X = scale(X)


def squared_error(Z, y, k=3):
    return float(np.mean((y[kneighbors(Z, n_neighbors=k)[1]].mean(axis=1) - y) ** 2))


def test_objective_is_that_of_the_map():
    model = MLKR(n_components=2).fit(X, Y)
    assert model.objective_ == pytest.approx(reference.mlkr(model.transform(X), Y))
    assert model.objective_ == min(model.loss_curve_)


def test_it_ends_as_low_as_metric_learn():
    # The objective of metric_learn 0.7.0, MLKR(init="pca", n_components=2).fit(X, Y), computed from
    # its components_.
    model = MLKR(init="pca", n_components=2).fit(X, Y)
    assert model.objective_ < 1047353.7264


def test_neighbours_predict_better():
    points, targets = make_regression(300, 10, n_informative=2, random_state=0)
    points = scale(points)
    model = MLKR(n_components=2, max_iter=200, tol=1e-4).fit(points, targets)
    assert squared_error(model.transform(points), targets) < 0.2 * squared_error(points, targets)


def test_whole_weights_mean_repetition():
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    for init in ("pca", "identity"):
        settings = {"init": init, "n_components": 2, "callbacks": [lambda s: s.iteration == 5]}
        weighted = MLKR(**settings).fit(X, Y, sample_weight=weight)
        repeated = MLKR(**settings).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
        np.testing.assert_allclose(weighted.components_, repeated.components_, rtol=1e-6, atol=1e-8)
        assert weighted.objective_ == pytest.approx(repeated.objective_)


@pytest.mark.parametrize("solver", ["lbfgs", "sgd"])
def test_units_and_origin_of_the_targets_do_not_matter(solver):
    settings = {"solver": solver, "n_components": 2, "random_state": 0, "max_epochs": 2}
    settings["callbacks"] = [lambda s: s.iteration == 5]
    expected = MLKR(**settings).fit(X, Y)
    for exponent in (-300, 20, 300):
        model = MLKR(**settings).fit(X, Y * 2.0**exponent)
        np.testing.assert_array_equal(model.components_, expected.components_)
        assert model.objective_ == expected.objective_ * 4.0**exponent
    moved = MLKR(**settings).fit(X, Y + 1e6)
    np.testing.assert_allclose(moved.components_, expected.components_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("factor", [1e-160, 1e160])
def test_targets_without_squares_are_refused(factor):
    with pytest.raises(ValueError, match="y is spread over about 2"):
        MLKR().fit(X, Y * factor)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (np.full(len(Y), 2.5), "y must not be constant: all of its values are 2.5"),
        (np.where(Y > 100, np.nan, Y), "Input y contains NaN"),
        (np.where(Y > 100, np.inf, Y), "Input y contains infinity"),
        (np.array(["a", "b"])[(Y > 100).astype(int)], "y must hold numbers"),
        (np.stack([Y, Y], axis=1), "y should be a 1d array"),
        (Y[:-1], "inconsistent numbers of samples"),
    ],
    ids=["constant", "nan", "inf", "text", "2d", "short"],
)
def test_bad_targets(targets, message):
    with pytest.raises(ValueError, match=message):
        MLKR().fit(X, targets)


def test_targets_of_any_type():
    settings = {"n_components": 2, "callbacks": [lambda s: s.iteration == 3]}
    expected = MLKR(**settings).fit(X, Y).components_
    for targets in (Y.astype(int), list(Y), Y.astype(object)):
        np.testing.assert_array_equal(MLKR(**settings).fit(X, targets).components_, expected)


def test_there_is_no_lda():
    with pytest.raises(ValueError, match="`init` must be 'auto', 'pca', 'identity', 'random' or"):
        MLKR(init="lda").fit(X, Y)


def test_a_start_without_a_slope_warns():
    with pytest.warns(ConvergenceWarning, match="no slope at the initial map"):
        model = MLKR().fit(X * 1000, Y)
    assert model.n_iter_ == 0


def test_mini_batches_learn():
    points, targets = make_regression(1500, 10, n_informative=2, random_state=0)
    points = scale(points)
    model = MLKR(n_components=2, init="pca", solver="sgd", random_state=0).fit(points, targets)
    start = MLKR(n_components=2, init="pca", callbacks=[bool]).fit(points, targets)
    before = squared_error(points @ start.components_.T, targets)
    assert squared_error(model.transform(points), targets) < 0.5 * before
    assert model.loss_curve_[-1] < model.loss_curve_[0]


def test_validate_compares_squared_errors():
    points, targets = make_regression(300, 10, n_informative=2, random_state=0)
    for values in (targets, np.round(targets)):
        model = MLKR(n_components=2).fit(scale(points), values, validate=True)
        assert model.validation_["measure"] == "3-NN mean squared error"
        assert model.validation_["learned"] < 0.5 * model.validation_["euclidean"]
