"""Weights that are equal are as none, for every learner that takes weights."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from metricfast import NCA, learners
from metricfast.constraints import Constraints

X, Y = load_iris(return_X_y=True)
X = StandardScaler().fit_transform(X)
PAIRS = X[np.arange(150)[::-1][:, None] // [1, 2]]
QUICK = {"max_iter": 20, "max_epochs": 3, "n_chunks": 30, "n_basis": 60, "output_iter": 10}
REQUIRED = {"KernelizedMetricLearner": {"learner": NCA(max_iter=20)}}


WEIGHTED = [
    n for n in learners.__all__ if "sample_weight" in signature(getattr(learners, n).fit).parameters
]


def make(name):
    estimator = getattr(learners, name)(**REQUIRED.get(name, {}))
    known = estimator.get_params()
    quick = {key: value for key, value in (QUICK | {"random_state": 0}).items() if key in known}
    return estimator.set_params(**quick)


def data(estimator):
    if estimator._tuple_size == 3:
        return (X[Constraints(Y).generate_knntriplets(X, 2, 2)],)
    if estimator._tuple_size == 2:
        left, right = np.random.RandomState(0).randint(150, size=(2, 200))
        return X[np.c_[left, right]], np.where(Y[left] == Y[right], 1, -1)
    return X, Y


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_equal_weights_are_as_none(name):
    given = data(make(name))
    expected = make(name).fit(*given).pair_score(PAIRS)
    found = make(name).fit(*given, sample_weight=np.ones(len(given[0]))).pair_score(PAIRS)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
