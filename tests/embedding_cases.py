"""Embedding learners to test, and losses that are easy to check."""

import numpy as np
from sklearn.datasets import load_iris
from trained import embedding_learner

from metricfast import EmbeddingLearner, losses
from metricfast.embeddings import MLP, Asymmetric, Linear, Periodic
from metricfast.solvers import Adam, AdamW

X, Y = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
NCA = losses.NCA("log", reduction="mean")
NAMED = {
    "small batches": embedding_learner(NCA, max_epochs=4, batch_size=40),
    "perceptron": embedding_learner(NCA, MLP((8,), 3), solver="sgd", max_epochs=4),
    "unit length": embedding_learner(
        NCA, MLP((8,), 3, normalize=True), solver=Adam(schedule="cosine", max_epochs=4)
    ),
    "two sides": embedding_learner(NCA, Asymmetric(Linear(3), MLP((8,), 3)), max_epochs=4),
    "lbfgs": embedding_learner(NCA, Linear(2), solver="lbfgs", max_epochs=4),
    "whole database": embedding_learner(NCA, Linear(2), database="all", max_epochs=2),
    "periodic": embedding_learner(
        NCA,
        Periodic(3, 4, n_passthrough=1),
        solver=AdamW(weight_decay=0.1, max_epochs=4),
        database="all",
        candidate_fraction=0.3,
    ),
    "early stopping": EmbeddingLearner(
        NCA, Linear(2), early_stopping=True, random_state=0, max_epochs=4
    ),
}
LEARNERS = list(NAMED.values())


class Proxies:
    """Squared distance to the proxy of the class, minus a tenth of those to other proxies."""

    labels = "class"
    learnable_database = True

    def __call__(self, Z, y, Z_database, y_database, *, exclude=None, n_jobs=None):
        weight = np.where(y[:, None] == y_database, 1.0, -0.02) / len(Z)
        away = Z[:, None] - Z_database
        value = float((weight * (away**2).sum(axis=2)).sum())
        slope = 2 * weight[:, :, None] * away
        return value, (slope.sum(axis=1).astype(Z.dtype), -slope.sum(axis=0).astype(Z.dtype))


class Steep:
    """A loss that diverges: the mean square of Z becomes infinite if steps are too large."""

    labels = "class"

    def __call__(self, Z, y, *, n_jobs=None):
        with np.errstate(over="ignore"):
            return float((Z**2).sum()), 2 * Z


def same(a, b):
    for one, two in zip(a.parameters_, b.parameters_, strict=True):
        np.testing.assert_array_equal(one, two)
    assert a.loss_curve_ == b.loss_curve_
