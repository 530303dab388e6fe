"""Metrics of drawn pairs, shrunk towards simpler ones."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine

from metricfast import ITML_Supervised, MMC_Supervised

X, Y = load_wine(return_X_y=True)
LEARNERS = [ITML_Supervised(random_state=0), MMC_Supervised(random_state=0)]
pytestmark = [
    pytest.mark.parametrize("learner", LEARNERS, ids=lambda model: type(model).__name__),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def fitted(learner, shrinkage, points=X, labels=Y, **params):
    return clone(learner).set_params(shrinkage=shrinkage, **params).fit(points, labels)


def mean_distance(model):
    return np.mean((model.transform(X) - model.transform(X).mean(axis=0)) ** 2)


def test_a_fraction_leads_towards_the_euclidean_distance(learner):
    learned, half, all_the_way = (fitted(learner, f) for f in (0, 0.5, 1))
    M, between, plain = (m.get_mahalanobis_matrix() for m in (learned, half, all_the_way))
    np.testing.assert_allclose(plain, plain[0, 0] * np.eye(13), atol=1e-12 * plain[0, 0])
    np.testing.assert_allclose(between, (M + plain) / 2, rtol=1e-6, atol=1e-9 * M.max())
    assert mean_distance(all_the_way) == pytest.approx(mean_distance(learned))
    assert (half.shrinkage_, half.shrinkage_target_) == (0.5, "identity")
    if hasattr(half, "A_"):
        np.testing.assert_allclose(half.A_, between, rtol=1e-6)


def test_auto_guards_against_classes_of_several_clusters(learner):
    """No linear map can bring such classes together."""
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [4, 0], [8, 0], [12, 0]])
    points = np.repeat(centres, 40, axis=0) + rng.normal(size=(160, 2))
    labels = np.repeat([0, 1, 0, 1], 40)
    model = fitted(learner, None, points, labels, n_constraints=500)
    bare = fitted(learner, 0, points, labels, n_constraints=500)
    scores = []
    for one in (model, bare):
        D = np.linalg.norm(one.transform(points)[:, None] - one.transform(points), axis=2)
        np.fill_diagonal(D, np.inf)
        scores.append(np.mean(labels[np.argsort(D, axis=1)[:, :3]] == labels[:, None]))
    # Near-ties go to the Euclidean distance.
    assert scores[0] >= scores[1] - 0.01 and scores[0] > 0.85
