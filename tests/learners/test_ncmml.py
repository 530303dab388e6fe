"""Nearest class mean metric learning."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from metricfast import NCMML
from metricfast.training.objective import Objective
from metricfast.training.samples import Samples

X, Y = load_iris(return_X_y=True)
FEW, LABELS = X[::3], Y[::3]


def negative_log_likelihood(L, points, labels, weight):
    total = 0.0
    means = [
        np.average(points[labels == c], axis=0, weights=weight[labels == c]) for c in set(labels)
    ]
    for x, c, w in zip(points, labels, weight, strict=True):
        scores = [-np.sum((L @ (x - mean)) ** 2) / 2 for mean in means]
        total -= w * (scores[c] - np.log(np.sum(np.exp(scores))))
    return total / weight.sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_value_and_gradient(weighted, rows):
    rng = np.random.RandomState(0)
    weight = rng.uniform(1, 2, len(FEW)) if weighted else None
    data = Samples(np.ascontiguousarray(FEW - 3), LABELS, np.arange(3), weight, 0)
    L = rng.standard_normal((rows, 4)) / 2
    likelihood = Objective(NCMML()._problem(data), [L])
    value, gradient = likelihood(L.ravel())
    expected = negative_log_likelihood(
        L, FEW, LABELS, np.ones(len(FEW)) if weight is None else weight
    )
    assert value == pytest.approx(expected, rel=1e-12)
    numeric = approx_fprime(L.ravel(), lambda x: likelihood(x)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, atol=2e-6)


def test_minimum_is_that_of_a_plain_minimisation():
    rng = np.random.RandomState(0)
    labels = np.where(rng.uniform(size=len(FEW)) < 0.3, rng.randint(3, size=len(FEW)), LABELS)
    ones = np.ones(len(FEW))
    learner = NCMML(tol=1e-10, max_iter=1000, judge=None).fit(FEW, labels)
    plain = minimize(
        lambda x: negative_log_likelihood(x.reshape(4, 4), FEW, labels, ones), np.eye(4).ravel()
    )
    assert learner.objective_ == pytest.approx(plain.fun, rel=1e-5)
    assert learner.objective_ == pytest.approx(
        negative_log_likelihood(learner.components_, FEW, labels, ones), rel=1e-9
    )
    assert learner.objective_ == min(learner.loss_curve_)
    assert learner.n_iter_ == len(learner.loss_curve_)


def test_separable_classes_warn_or_stop():
    with pytest.warns(ConvergenceWarning):
        NCMML(max_iter=3, judge=None).fit(X, Y)
    learner = NCMML(tol=1e-3).fit(X, Y)
    assert np.isfinite(learner.components_).all()
