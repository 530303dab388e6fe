"""The embedding learner between epochs: where proxies begin, what callbacks see, what goes on."""

from __future__ import annotations

import numpy as np
import pytest
from embedding_cases import NCA, X, Y
from sklearn.exceptions import ConvergenceWarning

from metricfast import EmbeddingLearner, ProxyNCALearner, losses
from metricfast.embeddings import MLP, Linear
from metricfast.samplers import Uniform


def test_the_proxy_of_a_class_without_points_learns_once_there_are_some():
    def begun():
        learner = ProxyNCALearner(2, random_state=0, learning_rate=0.01)
        return learner.partial_fit(X[:100], Y[:100], classes=[0, 1, 2])

    learner = begun()
    assert np.linalg.norm(learner.proxies_[2]) > 0.1
    np.testing.assert_array_equal(begun().proxies_, learner.proxies_)
    for _ in range(100):
        learner.partial_fit(X, Y)
    proxies = learner.proxies_ / np.linalg.norm(learner.proxies_, axis=1, keepdims=True)
    nearest = np.argmax(learner.transform(X) @ proxies.T, axis=1)
    assert (nearest[Y == 2] == 2).mean() > 0.8


def test_proxies_of_points_that_cancel_have_a_direction():
    points, labels = np.array([[1.0, 0], [-1, 0], [0, 1], [0, 2]]), [0, 0, 1, 1]
    embedding = Linear(init="identity", normalize=True)
    learner = EmbeddingLearner(losses.ProxyNCA(), embedding, max_epochs=1, random_state=0)
    points -= points.mean(axis=0)
    points[:2, 1] = 0
    learner.partial_fit(points, labels)
    assert (np.linalg.norm(learner.proxies_, axis=1) > 0.1).all()


@pytest.mark.parametrize(
    ("begun", "change", "what"),
    [
        ({}, {"solver": "sgd"}, "solver"),
        ({"solver": "sgd"}, {"solver": "adam"}, "solver"),
        ({}, {"loss": losses.ProxyNCA()}, "loss"),
        ({"loss": losses.ProxyNCA()}, {"loss": losses.Triplet()}, "loss"),
        ({}, {"loss": losses.LogRatio()}, "loss"),
        ({}, {"embedding": MLP((9,), 2)}, "embedding"),
        ({}, {"embedding__normalize": True}, "embedding"),
    ],
    ids=str,
)
def test_partial_fit_refuses_what_it_cannot_go_on_with(begun, change, what):
    learner = EmbeddingLearner(NCA, MLP((4,), 2), random_state=0).set_params(**begun)
    learner.partial_fit(X, Y).set_params(**change)
    with pytest.raises(ValueError, match=f"partial_fit goes on with the {what} .* call fit"):
        learner.partial_fit(X, Y)
    assert learner.n_iter_ == 1


def test_partial_fit_goes_on_with_another_rate_and_loss_of_the_same_kind():
    learner = EmbeddingLearner(NCA, MLP((4,), 2), random_state=0).partial_fit(X, Y)
    learner.set_params(learning_rate=0.1, loss=losses.Triplet(), weight_decay=0.1)
    assert learner.partial_fit(X, Y).n_iter_ == 2


def test_partial_fit_takes_new_classes_where_the_loss_has_no_table_of_them():
    numbers, names = np.array([1, 2, 0])[Y], np.array(["b", "c", "aa"])[Y]
    learner = EmbeddingLearner(NCA, MLP((4,), 2), random_state=0)
    learner.partial_fit(X[:100], names[:100]).partial_fit(X, names)
    assert learner.classes_.tolist() == ["aa", "b", "c"]
    codes = EmbeddingLearner(NCA, MLP((4,), 2), random_state=0)
    codes.partial_fit(X[:100], numbers[:100]).partial_fit(X, numbers)
    np.testing.assert_allclose(learner.transform(X), codes.transform(X), rtol=1e-12)
    with pytest.raises(ValueError, match=r"y holds no text, .* compared with hold text"):
        learner.partial_fit(X, Y)


def test_partial_fit_refuses_labels_of_another_width():
    learner = EmbeddingLearner(losses.LogRatio(), Linear(2), random_state=0)
    learner.partial_fit(X, X[:, :2])
    with pytest.raises(
        ValueError, match=r"y has labels of shape \(\), and .* had \(2,\): call fit"
    ):
        learner.partial_fit(X, X[:, 0])


@pytest.mark.parametrize("width", [1, 2])
def test_partial_fit_of_equal_labels_learns_nothing(width):
    labels = X[:, 0] if width == 1 else X[:, :2]
    learner = EmbeddingLearner(losses.LogRatio(), Linear(2), random_state=0)
    learner.partial_fit(X, labels)
    before = learner.parameters_[0].copy()
    for chunk in (slice(1), [0, 0, 0]):
        with pytest.warns(UserWarning, match="All labels of this call are the same"):
            learner.partial_fit(X[chunk], labels[chunk])
    np.testing.assert_array_equal(learner.parameters_[0], before)
    assert learner.n_iter_ == 1


@pytest.mark.parametrize("max_epochs", [1, 5])
@pytest.mark.parametrize("batch_size", [20, 1000])
def test_a_loss_that_rises_without_end_is_told_of(batch_size, max_epochs):
    learner = EmbeddingLearner(
        losses.Contrastive(), Linear(2), learning_rate=1e6, batch_size=batch_size,
        max_epochs=max_epochs + (batch_size > 150), random_state=0,
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning, match="The loss has risen from .* Lower learning_rate"):
        learner.fit(X, Y)


class Uneven:
    """Next to nothing in batches of the first class alone."""

    labels = "class"

    def __call__(self, Z, y, *, n_jobs=None):
        return 1e-9 + float((y > 0).mean()), np.full_like(Z, 1e-9)


def test_batches_that_differ_are_no_rise():
    for seed in range(40):
        EmbeddingLearner(Uneven(), Linear(2), Uniform(2), max_epochs=1, random_state=seed).fit(X, Y)


def test_a_resumed_training_knows_where_the_loss_began(tmp_path):
    learner = EmbeddingLearner(
        losses.Contrastive(), Linear(2), learning_rate=1e6, batch_size=20, random_state=0,
        checkpoint=tmp_path / "training",
    )  # fmt: skip
    for max_epochs in (1, 2):
        with pytest.warns(ConvergenceWarning, match="The loss has risen from"):
            learner.set_params(max_epochs=max_epochs).fit(X, Y)
