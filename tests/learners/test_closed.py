"""Common behaviour of learners with a closed-form solution, and of SDML on classes."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from metricfast import LFDA, RCA, Covariance, GMML_Supervised, RCA_Supervised
from metricfast._core.scatter import whitening

X, Y = load_iris(return_X_y=True)


@pytest.mark.parametrize("estimator", [Covariance(), LFDA(), RCA()], ids=str)
def test_whole_weights_are_repetitions(estimator):
    weights = np.random.RandomState(0).randint(0, 4, len(X)) * (Y < 2)
    repeated = np.repeat(np.arange(len(X)), weights)
    expected = clone(estimator).fit(X[repeated], Y[repeated]).get_mahalanobis_matrix()
    found = clone(estimator).fit(X, Y, sample_weight=weights).get_mahalanobis_matrix()
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_whitening_is_a_root_of_the_pseudo_inverse(precision):
    rng = np.random.RandomState(0)
    factor = rng.normal(size=(6, 3))
    singular = np.zeros((8, 8))
    singular[:6, :6] = factor @ factor.T
    W = whitening(singular, np.dtype(precision))
    assert W.shape == (3, 8)
    np.testing.assert_allclose(W.T @ W, np.linalg.pinv(singular), atol=1e-10)
    units = 10.0 ** np.arange(-3, 5)
    definite = np.cov(rng.normal(size=(8, 50))) * units * units[:, None]
    W = whitening(definite, np.dtype(precision))
    np.testing.assert_allclose(W @ definite @ W.T, np.eye(8), atol=1e-9)


# The data of metric-learn's gallery: noise features have the largest variance. With these
# parameters, the accuracy of metric-learn's LFDA is .94, of its RCA_Supervised .98.
@pytest.mark.filterwarnings("ignore::UserWarning")  # fewer chunks than asked for
@pytest.mark.parametrize(
    ("learner", "least"),
    [(RCA_Supervised(random_state=0), 0.97), (LFDA(), 0.96), (LFDA(k=2, n_components=2), 0.92)],
    ids=["RCA_Supervised", "LFDA", "LFDA-2"],
)
def test_default_shrinkage_suits_features_of_any_scale(learner, least):
    found = []
    for seed in range(10):
        points, labels = make_classification(
            100, 5, n_informative=3, n_redundant=0, n_classes=3, class_sep=4.0,
            scale=[1, 1, 20, 20, 20], random_state=seed,
        )  # fmt: skip
        model = make_pipeline(learner, KNeighborsClassifier(3))
        found.append(cross_val_score(model, points, labels).mean())
    assert np.mean(found) > least


def test_is_the_inverse_covariance():
    inverse = np.linalg.inv(np.cov(X.T))
    model = Covariance().fit(X)
    np.testing.assert_allclose(model.get_mahalanobis_matrix(), inverse, rtol=1e-9)
    np.testing.assert_allclose(model.components_, np.linalg.cholesky(inverse).T, atol=1e-9)
    np.testing.assert_allclose(np.cov(model.transform(X).T), np.eye(4), atol=1e-9)


def test_is_the_pseudo_inverse_of_a_singular_covariance():
    points = np.c_[X, X[:, 0] - 2 * X[:, 2], np.full(150, 0.1)]
    model = Covariance().fit(points)
    expected = np.linalg.pinv(np.cov(points.T), rcond=1e-12)
    np.testing.assert_allclose(model.get_mahalanobis_matrix(), expected, atol=1e-9)
    assert model.components_.shape == (6, 6)
    assert not model.components_[4:].any()


def test_rank_does_not_depend_on_the_units_of_features():
    units = np.array([1e-9, 1.0, 1e9, 1e3])
    found = Covariance().fit(X * units).components_ * units
    np.testing.assert_allclose(found, Covariance().fit(X).components_, rtol=1e-7)


@pytest.mark.parametrize("k", [1, 3])
def test_components_are_those_of_greatest_variance(k):
    expected = PCA(k, whiten=True).fit(X)
    found = Covariance(n_components=k).fit(X)
    for row, axis in zip(found.transform(X - X.mean(0)).T, expected.transform(X).T, strict=True):
        np.testing.assert_allclose(row, axis * np.sign(row @ axis), atol=1e-9)


def test_components_beyond_the_rank_are_zero():
    points = np.c_[X[:, :2], X[:, :2] * 3, X[:, 1]]
    model = Covariance(n_components=4).fit(points)
    assert model.components_[:2].any(axis=1).all()
    assert not model.components_[2:].any()


def test_covariance_of_one_feature():
    assert Covariance().fit([[1.0], [3.0], [5.0]]).components_ == pytest.approx(0.5)


def test_bad_input_of_covariance():
    with pytest.raises(ValueError, match="2 different points"):
        Covariance().fit(np.full((5, 3), 0.1))
    with pytest.raises(ValueError, match="2 different points"):
        Covariance().fit(X, sample_weight=np.eye(150)[0])
    with pytest.raises(ValueError, match="pass y"):
        Covariance().fit(X, validate=True)


@pytest.mark.parametrize("learner", [Covariance(), LFDA(), GMML_Supervised()])
def test_partial_fit_begins_anew_after_a_fit_that_failed(learner):
    learner.partial_fit(X[:, :3], Y)
    with pytest.raises(ValueError, match="NaN"):
        learner.fit(np.full((3, 2), np.nan), [0, 1, 1])
    learner.partial_fit(X[::2], Y[::2]).partial_fit(X[1::2], Y[1::2])
    assert learner.components_.shape[1] == learner.n_features_in_ == 4
