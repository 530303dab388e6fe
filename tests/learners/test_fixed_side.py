"""A side without parameters is held fixed."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

from metricfast import AsymmetricSimilarity, EmbeddingLearner, losses
from metricfast.embeddings import Asymmetric, Embedding, Linear

X, Y = load_iris(return_X_y=True)


class AsIs(Embedding):
    """z = x."""

    def initialize(self, X, y=None, random_state=None):
        return []

    def forward(self, parameters, X, *, side="query", n_jobs=None):
        return X, None

    def backward(self, parameters, cache, upstream, *, n_jobs=None):
        return []

    def decays(self, default):
        return []


@pytest.mark.parametrize("side", ["query", "database"])
def test_the_other_side_is_learned(side):
    model = AsymmetricSimilarity(**{side: AsIs()}, random_state=0).fit(X, Y)
    assert len(model.parameters_) == 1
    np.testing.assert_allclose(model.transform(X, side=side), X - X.mean(axis=0))
    assert model.score(X, Y) > 0.9


def test_a_database_stays_under_any_loss():
    both = Asymmetric(Linear(), AsIs())
    learner = EmbeddingLearner(losses.NCA(reduction="mean"), both, max_epochs=5, random_state=0)
    model = learner.fit(X[::2], Y[::2], X[1::2], Y[1::2])
    database = X[1::2] - X[1::2].mean(axis=0)
    np.testing.assert_allclose(model.transform(X[1::2], side="database"), database)
    assert model.score(X[::2], Y[::2], X[1::2], Y[1::2]) > 0.9
