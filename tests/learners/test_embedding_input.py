"""The embedding learner: labels, points and parameters that cannot be used, and some that can."""

from __future__ import annotations

import re

import numpy as np
import pytest
from embedding_cases import NCA, X, Y

from metricfast import EmbeddingLearner, LogRatioLearner, ProxyNCALearner, TripletLearner, losses
from metricfast.embeddings import MLP, Asymmetric, Linear
from metricfast.inference import targeted
from metricfast.metrics import precision_at_1
from metricfast.samplers import DenseTriplet

CONTINUOUS = "Unknown label type: continuous. {} must hold class labels"


def fitted(embedding, **params):
    return EmbeddingLearner(NCA, embedding, max_epochs=1, random_state=0, **params).fit(X, Y)


@pytest.mark.parametrize("embedding", [Linear(2), MLP((4,), 2), Linear(2, normalize=True)])
def test_points_whose_embedding_overflows_are_refused(embedding):
    model = fitted(embedding)
    model.parameters_ = [100 * array for array in model.parameters_]
    largest = np.sign(model.parameters_[0][:1]) * 1.7e308
    for method in (model.transform, lambda points: model.kneighbors(points, X)):
        with pytest.raises(ValueError, match="X is so large that embedded points overflow float64"):
            method(largest)
    single = EmbeddingLearner(NCA, embedding, max_epochs=1, random_state=0).fit(np.float32(X), Y)
    single.parameters_ = [100 * array for array in single.parameters_]
    with pytest.raises(ValueError, match="embedded points overflow float32"):
        single.transform(np.sign(single.parameters_[0][:1]) * np.float32(3e38))


@pytest.mark.parametrize("embedding", [Linear(2, normalize=True), MLP((4,), 2, "tanh", True)])
@pytest.mark.parametrize("power", [150, 200, 300])
def test_directions_of_huge_points_are_kept(embedding, power):
    model = fitted(embedding)
    model.mean_ = np.zeros(4)
    Z = model.transform(X * 10.0**power)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1)
    if isinstance(embedding, Linear):
        np.testing.assert_allclose(Z, model.transform(X), rtol=1e-9)


def test_the_gradient_of_a_huge_point_is_that_of_its_direction():
    embedding, upstream = Linear(2, normalize=True), np.ones((len(X), 2))
    L = embedding.initialize(X)
    expected = embedding.backward(L, embedding.forward(L, X)[1], upstream)[0]
    # Where points are longer, or the map, directions turn as much less with it.
    found = embedding.backward(L, embedding.forward(L, X * 2.0**600)[1], upstream)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    longer = [L[0] * 2.0**600]
    found = embedding.backward(longer, embedding.forward(longer, X)[1], upstream)[0]
    np.testing.assert_allclose(found * 2.0**600, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (X[:, 0], CONTINUOUS.format("y")),
        (X[:, 0].astype(object), CONTINUOUS.format("y")),
        (np.array([None, *Y[1:]], object), "y contains None"),
        (np.array([None, *Y[1:].astype(str)], object), "y contains None"),
    ],
    ids=["float", "object", "none", "none-words"],
)
def test_labels_that_are_no_classes(labels, message):
    learner = TripletLearner(2, max_epochs=1, random_state=0)
    with pytest.raises(ValueError, match=message):
        learner.fit(X, labels)
    learner.fit(X, Y)
    with pytest.raises(ValueError, match=message):
        learner.score(X, labels)
    with pytest.raises(ValueError, match=re.sub(r"\by\b", "y_database", message)):
        learner.score(X, Y, X, labels)
    if labels.dtype == object:
        with pytest.raises(ValueError, match=message):
            losses.Triplet()(X, labels)


def test_whole_numbers_and_words_are_classes_in_any_dtype():
    for labels in (Y.astype(float), Y.astype(float).astype(object), Y.astype(str).astype(object)):
        model = TripletLearner(2, max_epochs=1, random_state=0).fit(X, labels)
        assert model.score(X, labels) > 0.5
        losses.Triplet()(X, labels)


def test_numbers_that_are_none():
    labels = np.array([None, *X[1:, 0]], object)
    with pytest.raises(ValueError, match="y contains None"):
        LogRatioLearner(2).fit(X, labels)


def test_a_class_of_losses_is_no_loss():
    with pytest.raises(TypeError, match=r"loss must be an object, not a class: give Triplet\(\)"):
        EmbeddingLearner(losses.Triplet).fit(X, Y)


def test_widths_of_hidden_layers_may_be_an_array():
    def parameters(sizes):
        learner = ProxyNCALearner(2, hidden_layer_sizes=sizes, max_epochs=1, random_state=0)
        return learner.fit(X, Y).parameters_

    for sizes in ((), (5,), (5, 4)):
        found = parameters(np.array(sizes, int))
        for one, other in zip(parameters(sizes), found, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("labels", [Y, X[:, 0]], ids=["class", "continuous"])
def test_the_score_of_one_point(labels):
    loss = NCA if labels is Y else losses.LogRatio()
    model = EmbeddingLearner(loss, Linear(2), max_epochs=1, random_state=0).fit(X, labels)
    with pytest.raises(ValueError, match="X must hold at least 2 points"):
        model.score(X[:1], labels[:1])
    assert np.isfinite(model.score(X[:1], labels[:1], X[1:], labels[1:]))


@pytest.mark.parametrize("embedding", [Linear(2), MLP((4,), 2), Asymmetric(Linear(2), Linear(2))])
def test_a_side_that_there_is_none_of(embedding):
    with pytest.raises(ValueError, match="side must be 'query' or 'database', got 'db'"):
        fitted(embedding).transform(X, side="db")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"embedding": Asymmetric(Linear(2), Linear(2))}, "embedding must .* RankNContrast"),
        ({"database": "all"}, "database must be 'batch' for CoSENT"),
        ({"sampler": DenseTriplet()}, r"sampler must .* DenseTriplet\(all_anchors=True\)"),
    ],
    ids=["embedding", "database", "sampler"],
)
def test_what_a_loss_of_pairs_has_no_use_for(parts, message):
    learner = EmbeddingLearner(losses.CoSENT(), **parts)
    with pytest.raises(ValueError, match=message):
        learner.fit(X, X[:, 0])


def test_dense_batches_of_pairs():
    sampler = DenseTriplet(3, 40, 10, all_anchors=True)
    learner = EmbeddingLearner(
        losses.CoSENT(), Linear(2, normalize=True), sampler, max_epochs=5, learning_rate=0.01,
        random_state=0,
    ).fit(X, X[:, 0])  # fmt: skip
    assert learner.loss_curve_[4] < learner.loss_curve_[0]


def test_text_is_not_compared_with_numbers():
    model = fitted(Linear(2))
    text = Y.astype(str)
    assert model.score(X[::2], text[::2], X[1::2], text[1::2]) > 0.9
    for y, database in ((Y, text), (text, Y), (Y, text.astype(object)), (text.astype(object), Y)):
        with pytest.raises(ValueError, match=r"y_database holds .*text, and the labels"):
            model.score(X, y, X, database)
        with pytest.raises(ValueError, match=r"y_database holds .*text, and the labels"):
            losses.Triplet()(X, y, X, database)
        with pytest.raises(ValueError, match=r"database_labels holds .*text, and the labels"):
            precision_at_1(X, y, X, database)
        with pytest.raises(ValueError, match=r"database_labels holds .*text, and the labels"):
            targeted(X, X, y, database, 3)
