"""Choices by held-out points, with few points and many features."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances

import metricfast as mf

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
        mf.ANMM(),
        mf.LFDA(),
        mf.DMLMJ(),
        mf.GMML_Supervised(),
        mf.KISSME_Supervised(),
        mf.XQDA(),
        mf.RCA_Supervised(n_chunks=60, random_state=0),
        mf.ITML_Supervised(n_constraints=300, random_state=0),
        mf.MMC_Supervised(n_constraints=300, random_state=0),
        mf.SCML_Supervised(max_iter=1000, n_basis=100, random_state=0),
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
        mf.ANMM(shrinkage=1),
        mf.LFDA(shrinkage=1),
        mf.LFDA(shrinkage=1, embedding_type="orthonormalized"),
        mf.DMLMJ(reg=1),
        mf.ITML_Supervised(n_constraints=10, shrinkage=1, random_state=0),
        mf.MMC_Supervised(n_constraints=10, shrinkage=1, random_state=0),
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
    constraints = mf.Constraints(Y[TRAIN])
    a, b, c, d = constraints.positive_negative_pairs(300, random_state=0)
    pairs, kind = np.r_[np.c_[a, b], np.c_[c, d]], np.repeat([1, -1], [len(a), len(c)])
    learner = mf.MMC(preprocessor=X[TRAIN])
    assert error(learner.fit(pairs, kind).components_) < error(np.eye(64)) + 0.05
    assert 0 < learner.shrinkage_ < 1
    chance = np.random.RandomState(1).permutation(kind)
    assert learner.fit(pairs, chance).shrinkage_ == 1
    np.testing.assert_allclose(learner.A_, learner.A_[0, 0] * np.eye(64), atol=1e-9)


def test_triplets_of_chance_leave_the_given_distance():
    triplets = mf.Constraints(Y[TRAIN]).generate_knntriplets(X[TRAIN], 2, 3)
    learner = mf.SCML(preprocessor=X[TRAIN], max_iter=1000, n_basis=100, random_state=0)
    assert error(learner.fit(triplets).components_) < error(np.eye(64)) + 0.02
    chance = np.random.RandomState(0).randint(len(TRAIN), size=(300, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert learner.fit(chance).shrinkage_ == 1


@pytest.mark.parametrize(
    "learner",
    [
        *(
            mf.ANMM(),
            mf.LFDA(),
            mf.DMLMJ(),
            mf.GMML_Supervised(),
            mf.KISSME_Supervised(),
            mf.XQDA(),
        ),
        *(mf.RCA_Supervised(random_state=0), mf.ITML_Supervised(n_constraints=300, random_state=0)),
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


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_tuples_of_which_a_half_cannot_be_fitted_leave_the_given_distance():
    pairs = np.random.RandomState(0).normal(size=(4, 2, 3))
    with pytest.warns(UserWarning, match=r"No part of the data could be learned from \("):
        model = mf.MMC(max_iter=5).fit(pairs, [1, -1, -1, -1])
    assert model.shrinkage_ == 1 and model.judgement_.n_held_out == 0
    assert mf.MMC(max_iter=5, judge=None).fit(pairs, [1, -1, -1, -1]).shrinkage_ == 0


WINE, KINDS = load_wine(return_X_y=True)
SHRUNK = [mf.ITML_Supervised(random_state=0), mf.MMC_Supervised(random_state=0)]
every_shrunk = pytest.mark.parametrize("learner", SHRUNK, ids=lambda model: type(model).__name__)
unfinished = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def shrunk(learner, shrinkage, points=WINE, labels=KINDS, **params):
    return clone(learner).set_params(shrinkage=shrinkage, **params).fit(points, labels)


def mean_distance(model):
    return np.mean((model.transform(WINE) - model.transform(WINE).mean(axis=0)) ** 2)


@unfinished
@every_shrunk
def test_a_fraction_leads_towards_the_euclidean_distance(learner):
    learned, half, all_the_way = (shrunk(learner, f) for f in (0, 0.5, 1))
    M, between, plain = (m.get_mahalanobis_matrix() for m in (learned, half, all_the_way))
    np.testing.assert_allclose(plain, plain[0, 0] * np.eye(13), atol=1e-12 * plain[0, 0])
    np.testing.assert_allclose(between, (M + plain) / 2, rtol=1e-6, atol=1e-9 * M.max())
    assert mean_distance(all_the_way) == pytest.approx(mean_distance(learned))
    assert (half.shrinkage_, half.shrinkage_target_) == (0.5, "identity")
    if hasattr(half, "A_"):
        np.testing.assert_allclose(half.A_, between, rtol=1e-6)


@unfinished
@every_shrunk
def test_auto_guards_against_classes_of_several_clusters(learner):
    """No linear map can bring such classes together."""
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [4, 0], [8, 0], [12, 0]])
    points = np.repeat(centres, 40, axis=0) + rng.normal(size=(160, 2))
    labels = np.repeat([0, 1, 0, 1], 40)
    model = shrunk(learner, None, points, labels, n_constraints=500)
    bare = shrunk(learner, 0, points, labels, n_constraints=500)
    scores = []
    for one in (model, bare):
        D = np.linalg.norm(one.transform(points)[:, None] - one.transform(points), axis=2)
        np.fill_diagonal(D, np.inf)
        scores.append(np.mean(labels[np.argsort(D, axis=1)[:, :3]] == labels[:, None]))
    # Near-ties go to the Euclidean distance.
    assert scores[0] >= scores[1] - 0.01 and scores[0] > 0.85
