"""Embedding learners of a loss and a sampler that suit each other; every loss in a learner."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pytest
from embedding_cases import DIGIT, DIGITS, X, Y, same
from reference_losses import NAMES
from sklearn.base import clone

import metricfast
from metricfast import EmbeddingLearner, LogRatioLearner, ProxyNCALearner, TripletLearner, losses
from metricfast.embeddings import MLP, Asymmetric, Linear
from metricfast.samplers import DenseTriplet, Uniform
from metricfast.training.objective import is_continuous, is_learnable

LOSSES = [getattr(losses, name)() for name in NAMES]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)


def test_a_preset_is_the_learner_of_its_parts():
    preset = TripletLearner(3, 0.1, "hardest", m_per_class=4, max_epochs=2, random_state=1)
    parts = EmbeddingLearner(
        losses.Triplet(0.1, "hardest"), Linear(3, normalize=True), max_epochs=2, random_state=1,
        sampler=metricfast.samplers.ClassBalanced(4, 128),
    )  # fmt: skip
    same(preset.fit(X, Y), parts.fit(X, Y))


def parameters_of(kind):
    return {name: p.default for name, p in signature(kind).parameters.items()}


@pytest.mark.parametrize("preset", [LogRatioLearner, TripletLearner, ProxyNCALearner])
def test_presets_have_the_parameters_of_the_learner(preset):
    learner, own = parameters_of(EmbeddingLearner), parameters_of(preset)
    # What the parts decide, or does not matter to them.
    for name in ("loss", "embedding", "sampler", "batch_size", "proxy_rate"):
        del learner[name]
    if preset is ProxyNCALearner:
        del learner["database"]
    if preset is not LogRatioLearner:
        del learner["label_distance"]
    assert learner.items() <= own.items()


def test_presets_train_as_the_learner_does(tmp_path):
    seen = []
    preset = TripletLearner(
        2, hidden_layer_sizes=(4,), max_epochs=3, early_stopping=True, validation_fraction=0.3,
        checkpoint=tmp_path / "training", callbacks=[lambda s: seen.append(s.iteration)],
        random_state=0,
    ).fit(X, Y)  # fmt: skip
    assert seen == [1, 2, 3] == list(range(1, 1 + len(preset.validation_scores_)))
    assert preset.set_params(max_epochs=5).fit(X, Y).n_iter_ == 5
    assert seen == [1, 2, 3, 4, 5]
    preset = TripletLearner(2, max_epochs=2, warm_start=True, random_state=0).fit(X, Y)
    first = preset.parameters_[0]
    assert preset.fit(X, Y).loss_curve_[0] != clone(preset).fit(X, Y).loss_curve_[0]
    assert not np.array_equal(preset.parameters_[0], first)


def test_log_ratio_orders_by_labels():
    labels = np.c_[X[:, 2], X[:, 0] * X[:, 1]]
    learner = LogRatioLearner(2, hidden_layer_sizes=(32,), learning_rate=0.01, random_state=0)
    before = clone(learner).set_params(max_epochs=1, learning_rate=1e-9).fit(X, labels)
    after = learner.fit(X, labels)
    assert after.score(X, labels) > 0.7 * before.score(X, labels)


@pytest.mark.parametrize("preset", [TripletLearner, ProxyNCALearner])
def test_proxies_and_triplets_classify_digits(preset):
    learner = preset(8, hidden_layer_sizes=(64,), learning_rate=0.005, random_state=0)
    learner.set_params(max_epochs=30).fit(DIGITS[:400], DIGIT[:400])
    assert learner.score(DIGITS[400:], DIGIT[400:], DIGITS[:400], DIGIT[:400]) > 0.85


@every_loss
@pytest.mark.parametrize("normalize", [False, True])
def test_every_loss_lowers_itself(loss, normalize):
    labels = X[:, 0] if is_continuous(loss) else Y
    learner = EmbeddingLearner(
        clone(loss), MLP((8,), 3, normalize=normalize), Uniform(1000), max_epochs=40,
        learning_rate=0.01, random_state=0,
    )  # fmt: skip
    model = learner.fit(X, labels)
    assert np.isfinite(model.loss_curve_).all()
    assert model.loss_curve_[-1] < model.loss_curve_[0]


@every_loss
@pytest.mark.filterwarnings("ignore:No batch of the first epoch", "ignore:No set of n_neighbors")
@pytest.mark.parametrize("batch_size", [1, 2, 7])
def test_every_loss_takes_tiny_batches(loss, batch_size):
    labels = X[:, 0] if is_continuous(loss) else Y
    model = EmbeddingLearner(
        clone(loss), Linear(3, normalize=True), Uniform(batch_size), max_epochs=1, random_state=0
    )
    if isinstance(loss, losses.Gerrymander) and batch_size <= loss.n_neighbors:
        with pytest.raises(ValueError, match="n_neighbors must be at most"):
            model.fit(X[::5], labels[::5])
        return
    model.fit(X[::5], labels[::5])
    assert np.isfinite(model.transform(X)).all()


ONE_SIDED = {"LDML", "CoSENT", "NTXent"}


@pytest.mark.parametrize(
    "loss",
    [e for e in LOSSES if type(e).__name__ not in ONE_SIDED and not is_learnable(e)],
    ids=lambda loss: type(loss).__name__,
)
def test_every_loss_takes_two_sides_and_some_anchors(loss):
    continuous = is_continuous(loss)
    labels = X[:, 0] if continuous else Y
    sampler = DenseTriplet(3, 30, 5) if continuous else None
    for embedding in (Linear(2), Asymmetric(Linear(2), MLP((6,), 2))):
        model = EmbeddingLearner(clone(loss), embedding, sampler, max_epochs=2, random_state=0).fit(
            X, labels
        )
        assert np.isfinite(model.transform(X)).all()
