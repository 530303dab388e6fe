"""Choices by held-out points, where points are few and features many."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from metricfast import (
    DMLMJ,
    LFDA,
    ITML_Supervised,
    MMC_Supervised,
    RCA_Supervised,
    SCML_Supervised,
)
from metricfast.learners.base.selection import held_out_folds, select

X, Y = load_digits(return_X_y=True)
TRAIN = np.random.RandomState(0).permutation(len(X))[:130]
TEST = np.setdiff1d(np.arange(len(X)), TRAIN)


def error(L):
    Z, Q = X[TRAIN] @ L.T, X[TEST] @ L.T
    near = (np.square(Z).sum(axis=1) - 2 * Q @ Z.T).argmin(axis=1)
    return np.mean(Y[TRAIN][near] != Y[TEST])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "learner",
    [
        LFDA(),
        DMLMJ(),
        RCA_Supervised(n_chunks=60, random_state=0),
        ITML_Supervised(n_constraints=300, random_state=0),
        MMC_Supervised(n_constraints=300, random_state=0),
        SCML_Supervised(max_iter=1000, n_basis=100, random_state=0),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_few_points_of_many_features_do_not_make_neighbours_worse(learner):
    """The error on the training points is 0 for each of them without shrinkage."""
    # The map of LFDA is not Euclidean even if it is shrunk wholly.
    excess = 0.05 if isinstance(learner, LFDA) else 0.02
    assert error(learner.fit(X[TRAIN], Y[TRAIN]).components_) < error(np.eye(64)) + excess


def test_each_point_is_held_out_once_with_its_copies():
    points = np.r_[X[:60], X[:20]]
    labels = np.r_[Y[:60], Y[:20]]
    labels[59] = 10  # a class of a single point
    folds = held_out_folds(points, labels)
    held = np.sum([~fold.train for fold in folds], axis=0)
    assert (held[:59] == 1).all() and held[59] == 0
    assert all((fold.train[:20] == fold.train[60:]).all() for fold in folds)
    assert sum(fold.weights.sum() for fold in folds) == 79
    assert all(set(labels[fold.train]) == set(labels) for fold in folds)


def test_number_of_held_out_points_is_limited():
    points = np.random.RandomState(0).normal(size=(6000, 2))
    folds = held_out_folds(points, np.arange(6000) % 3)
    assert [len(fold.weights) for fold in folds] == [1000]
    assert not held_out_folds(points[:4], np.arange(4))


def test_near_ties_go_to_the_first_candidate():
    folds = held_out_folds(X[:300], Y[:300])
    L = np.random.RandomState(0).normal(size=(2, 64))
    assert select(folds, lambda i: [np.eye(64), 2 * np.eye(64), L]) == 0
    assert select(folds, lambda i: [L, np.eye(64), 2 * np.eye(64)]) == 1
    assert select([], lambda i: [L]) == 0
