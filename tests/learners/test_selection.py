"""Choices by held-out points, with few points and many features."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances

from metricfast import (
    ANMM,
    DMLMJ,
    LFDA,
    MMC,
    SCML,
    XQDA,
    Constraints,
    GMML_Supervised,
    ITML_Supervised,
    KISSME_Supervised,
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
        ANMM(),
        LFDA(),
        DMLMJ(),
        GMML_Supervised(),
        KISSME_Supervised(),
        XQDA(),
        RCA_Supervised(n_chunks=60, random_state=0),
        ITML_Supervised(n_constraints=300, random_state=0),
        MMC_Supervised(n_constraints=300, random_state=0),
        SCML_Supervised(max_iter=1000, n_basis=100, random_state=0),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_few_points_of_many_features_do_not_make_neighbours_worse(learner):
    """The error on the training points is 0 for each of them without shrinkage."""
    assert error(learner.fit(X[TRAIN], Y[TRAIN]).components_) < error(np.eye(64)) + 0.02


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n", [20, 200], ids=["in the span", "in the features"])
@pytest.mark.parametrize("n_components", [None, 3])
@pytest.mark.parametrize(
    "learner",
    [
        ANMM(shrinkage=1),
        LFDA(shrinkage=1),
        LFDA(shrinkage=1, embedding_type="orthonormalized"),
        DMLMJ(reg=1),
        ITML_Supervised(n_constraints=10, shrinkage=1, random_state=0),
        MMC_Supervised(n_constraints=10, shrinkage=1, random_state=0),
    ],
    ids=repr,
)
def test_wholly_shrunk_is_the_given_distance(learner, n_components, n):
    """With fewer components, the given distance consists of principal components."""
    model = clone(learner).set_params(n_components=n_components).fit(X[:n], Y[:n])
    expected = X if n_components is None else PCA(n_components).fit(X[:n]).transform(X)
    found, expected = (pairwise_distances(Z[-20:]) for Z in (model.transform(X), expected))
    np.testing.assert_allclose(found / found.max(), expected / expected.max(), rtol=1e-6)


def test_pairs_without_structure_leave_the_given_distance():
    """A share of the given distance remains, because learned directions find no neighbours."""
    constraints = Constraints(Y[TRAIN])
    a, b, c, d = constraints.positive_negative_pairs(300, random_state=0)
    pairs, kind = np.r_[np.c_[a, b], np.c_[c, d]], np.repeat([1, -1], [len(a), len(c)])
    learner = MMC(preprocessor=X[TRAIN])
    assert error(learner.fit(pairs, kind).components_) < error(np.eye(64)) + 0.05
    assert 0 < learner.shrinkage_ < 1
    chance = np.random.RandomState(1).permutation(kind)
    assert learner.fit(pairs, chance).shrinkage_ == 1
    np.testing.assert_allclose(learner.A_, learner.A_[0, 0] * np.eye(64), atol=1e-9)


def test_triplets_of_chance_leave_the_given_distance():
    triplets = Constraints(Y[TRAIN]).generate_knntriplets(X[TRAIN], 2, 3)
    learner = SCML(preprocessor=X[TRAIN], max_iter=1000, n_basis=100, random_state=0)
    assert error(learner.fit(triplets).components_) < error(np.eye(64)) + 0.02
    chance = np.random.RandomState(0).randint(len(TRAIN), size=(300, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert learner.fit(chance).shrinkage_ == 1


def test_each_point_is_held_out_once_with_its_copies():
    points = np.r_[X[:60], X[:20]]
    labels = np.r_[Y[:60], Y[:20]]
    labels[59] = 10  # a class of a single point
    folds = held_out_folds(points, labels)
    learned = np.array([np.isin(np.arange(80), fold.rows) for fold in folds])
    assert ((~learned[:, :59]).sum(axis=0) == 1).all() and learned[:, 59].all()
    assert (learned[:, :20] == learned[:, 60:]).all()
    assert sum(fold.queries[2].sum() for fold in folds) == 79
    for fold in folds:
        assert set(fold.codes) == set(labels)
        np.testing.assert_array_equal(fold.points, points[fold.rows])


@pytest.mark.parametrize(("n_classes", "size"), [(50, 2), (30, 13)])
def test_classes_are_held_out_where_they_have_few_points(n_classes, size):
    """Points of held-out classes search for their class among all points."""
    labels = np.repeat(np.arange(n_classes), size)
    points = np.random.RandomState(0).normal(size=(len(labels), 3)) + labels[:, None]
    points, labels = np.r_[points, [[0, 0, 9]]], np.r_[labels, n_classes]
    halves = held_out_folds(points, labels)
    learned, held = ([set(each) for each in found] for found in (
        [fold.codes for fold in halves], [fold.queries[1] for fold in halves]
    ))  # fmt: skip
    assert learned == held[::-1] and set.union(*held) == set(range(n_classes))
    for fold in halves:
        (database, codes), (queries, wanted, _) = fold.database, fold.queries
        assert sorted(codes) == sorted(labels)
        np.testing.assert_array_equal(database[fold.own], queries)
        np.testing.assert_array_equal(codes[fold.own], wanted)
    order = np.random.RandomState(1).permutation(len(labels))
    again = held_out_folds(points[order], labels.max() - labels[order])
    assert [set(order[f.rows]) for f in again] == [set(f.rows) for f in halves]


@pytest.mark.parametrize(
    "learner",
    [
        *(ANMM(), LFDA(), DMLMJ(), GMML_Supervised(), KISSME_Supervised(), XQDA()),
        *(RCA_Supervised(random_state=0), ITML_Supervised(n_constraints=300, random_state=0)),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_learning_is_for_classes_that_are_held_out(learner):
    """Learning helps if new classes have the same noise, and not if directions are random."""
    rng = np.random.RandomState(0)
    labels, noise = np.repeat(np.arange(100), 3), np.repeat([0.3, 3], 4)
    points = rng.normal(size=(100, 8))[labels]
    given = []
    for scale in (noise, 0.7):
        model = clone(learner).fit(points + scale * rng.normal(size=points.shape), labels)
        M = model.get_mahalanobis_matrix()
        given.append(np.allclose(M, M[0, 0] * np.eye(8), atol=1e-4 * M[0, 0]))
    assert given == [False, True]


def test_number_of_held_out_points_is_limited():
    points = np.random.RandomState(0).normal(size=(6000, 2))
    (fold,) = held_out_folds(points, np.arange(6000) % 3)
    assert len(fold.queries[0]) == 1000 and len(fold.rows) == 4000
    assert not held_out_folds(points[:4], np.arange(4))


def test_a_change_must_be_better_by_two_standard_errors():
    folds = held_out_folds(X[:300], Y[:300])
    worse = np.eye(64)[:2]
    with pytest.warns(UserWarning, match="not better than the given distance .* held-out points"):
        assert select(folds, lambda fold: [np.eye(64), 2 * np.eye(64), worse]) == 0
    assert select(folds, lambda fold: [worse, worse[:1], np.eye(64)]) == 2
    assert select([], lambda fold: [worse]) == 0
