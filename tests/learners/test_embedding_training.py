"""The embedding learner: interrupted training, its state between epochs, and what it refuses."""

import sys

import numpy as np
import pytest
from embedding_cases import NAMED, NCA, Steep, X, Y, same
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from trained import configured, embedding_learner

import metricfast
from metricfast import EmbeddingLearner, LogRatioLearner, ProxyNCALearner, losses
from metricfast.callbacks import Checkpoint
from metricfast.embeddings import MLP, Asymmetric, Linear
from metricfast.inference import targeted
from metricfast.metrics import precision_at_1
from metricfast.samplers import ClassBalanced, DenseTriplet, Uniform


@pytest.mark.parametrize("seed", [None, 3])
def test_a_longer_training_goes_on_from_a_shorter(tmp_path, seed):
    path = tmp_path / "training"
    learner = embedding_learner(
        NCA,
        MLP((8,), 2),
        ClassBalanced(4, 20),
        solver="sgd",
        random_state=seed,
        callbacks=[Checkpoint(path)],
    )
    learner.set_params(max_epochs=2).fit(X, Y)
    learner.set_params(max_epochs=5).fit(X, Y)
    assert learner.n_iter_ == 5
    if seed is not None:
        same(configured(learner, checkpoint=tmp_path / "other").fit(X, Y), learner)


@pytest.mark.parametrize(
    "change",
    [
        {"learning_rate": 0.1},
        {"loss": losses.NCA(reduction="mean")},
        {"embedding": MLP((9,), 2)},
        {"random_state": 1},
        {"sampler": Uniform()},
    ],
    ids=str,
)
def test_a_checkpoint_of_another_training_is_refused(tmp_path, change):
    learner = embedding_learner(
        NCA, MLP((8,), 2), max_epochs=1, callbacks=[Checkpoint(tmp_path / "training")]
    ).fit(X, Y)
    with pytest.raises(ValueError, match="is of a training with other parameters or other data"):
        clone(learner).set_params(**change).fit(X, Y)
    with pytest.raises(ValueError, match="is of a training with other parameters or other data"):
        clone(learner).fit(X + 1, Y)


def enclosing(power):
    return lambda a, b: np.abs(a[:, None] - b) ** power


def loss_function(sign):
    def loss(Z, y, *, n_jobs=None):
        return sign * float((Z**2).sum()), 2 * sign * Z

    loss.labels = "class"
    return loss


class Shaped:
    labels = "class"

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, Z, y, *, n_jobs=None):
        return self.factor * float((Z**2).sum()), 2 * self.factor * Z


@pytest.mark.parametrize(
    ("loss", "other"),
    [
        (
            losses.LogRatio(label_distance=lambda a, b: np.abs(a[:, None] - b)),
            losses.LogRatio(label_distance=lambda a, b: 2 * np.abs(a[:, None] - b) ** 0.5),
        ),
        (
            losses.LogRatio(label_distance=enclosing(1)),
            losses.LogRatio(label_distance=enclosing(2)),
        ),
        (loss_function(1.0), loss_function(2.0)),
        (Shaped(1.0), Shaped(2.0)),
    ],
    ids=["code", "enclosed", "function", "object"],
)
def test_a_checkpoint_tells_functions_apart(tmp_path, loss, other):
    learner = embedding_learner(
        loss, MLP((4,), 2), Uniform(), max_epochs=1, callbacks=[Checkpoint(tmp_path / "it")]
    )
    labels = X[:, 0] if isinstance(loss, losses.LogRatio) else Y
    learner.fit(X, labels)
    same(clone(learner).fit(X, labels), learner)
    with pytest.raises(ValueError, match="is of a training with other parameters or other data"):
        clone(learner).set_params(loss=other).fit(X, labels)


def test_a_checkpoint_that_cannot_be_written_is_refused_before_training(tmp_path, monkeypatch):
    epochs = []
    learner = embedding_learner(NCA, Linear(2), max_epochs=1, callbacks=[epochs.append])
    learner.set_params(callbacks=[Checkpoint(tmp_path / "none" / "training")])
    with pytest.raises(FileNotFoundError, match=r"checkpoint .* no folder .*none"):
        learner.fit(X, Y)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    learner.set_params(callbacks=[Checkpoint(tmp_path / "training")])
    with pytest.raises(ImportError, match="pip install safetensors, or leave the checkpoint out"):
        learner.fit(X, Y)
    assert not epochs


def test_a_stop_by_a_callback_is_in_the_checkpoint(tmp_path):
    learner = embedding_learner(
        losses.Triplet(),
        Linear(4),
        max_epochs=6,
        callbacks=[Checkpoint(tmp_path / "it"), lambda state: state.iteration == 2],
    )
    first = clone(learner).fit(X, Y)
    again = clone(learner).fit(X, Y)
    assert (first.n_iter_, again.n_iter_) == (2, 2)
    same(first, again)
    assert configured(learner, max_epochs=4).fit(X, Y).n_iter_ == 2
    more = learner.set_params(max_epochs=7).fit(X, Y)
    whole = configured(learner, callbacks=None, checkpoint=None).fit(X, Y)
    assert more.n_iter_ == 7
    same(more, whole)


def test_a_checkpoint_of_more_epochs_is_refused(tmp_path):
    learner = embedding_learner(
        NCA, MLP((4,), 2), max_epochs=3, callbacks=[Checkpoint(tmp_path / "training")]
    )
    learner.fit(X, Y)
    with pytest.raises(ValueError, match="holds 3 epochs, more than max_epochs=2"):
        learner.set_params(max_epochs=2).fit(X, Y)


def test_a_warm_start_is_not_replaced_by_a_checkpoint(tmp_path):
    learner = embedding_learner(
        NCA, MLP((4,), 2), max_epochs=2, warm_start=True, callbacks=[Checkpoint(tmp_path / "one")]
    ).fit(X, Y)
    with pytest.raises(ValueError, match="exists already, and warm_start asks to start"):
        learner.fit(X, Y)
    first = learner.parameters_[0]
    learner.set_params(callbacks=[Checkpoint(tmp_path / "two")]).fit(X, Y)
    assert not np.array_equal(learner.parameters_[0], first)


def test_a_damaged_checkpoint_is_refused(tmp_path):
    path = tmp_path / "training"
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match="is not a readable safetensors file"):
        configured(NAMED["small batches"], checkpoint=path).fit(X, Y)
    metricfast.save(clone(NAMED["small batches"]).fit(X, Y), path)
    with pytest.raises(ValueError, match="not a training of metricfast"):
        configured(NAMED["small batches"], checkpoint=path).fit(X, Y)


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_points_that_are_too_large(solver):
    learner = embedding_learner(Steep(), MLP((8,), 3), solver=solver)
    with pytest.raises(ValueError, match="The loss is not finite in the first epoch: rescale X"):
        learner.fit(np.float32(X * 1e37), Y)


@pytest.mark.parametrize("params", [{"database": "all"}, {"solver": "lbfgs"}])
def test_too_many_neighbours_are_named_with_what_is_held_out(params):
    points, classes = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    text = "n_neighbors must be at most 35.*leave out what .* holds out: 4 of the 40 points"
    model = EmbeddingLearner(losses.Gerrymander(36), early_stopping=True, **params)
    with pytest.raises(ValueError, match=text):
        model.fit(points, classes)


def test_the_proxy_of_a_class_without_points_learns_once_there_are_some():
    def begun():
        learner = ProxyNCALearner(2, random_state=0, learning_rate=0.01, judge=None)
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
    learner = embedding_learner(losses.ProxyNCA(), embedding, max_epochs=1)
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
    learner = embedding_learner(NCA, MLP((4,), 2)).set_params(**begun)
    learner.partial_fit(X, Y).set_params(**change)
    with pytest.raises(ValueError, match=f"partial_fit goes on with the {what} .* call fit"):
        learner.partial_fit(X, Y)
    assert learner.n_iter_ == 1


def test_partial_fit_goes_on_with_another_rate_and_loss_of_the_same_kind():
    learner = embedding_learner(NCA, MLP((4,), 2)).partial_fit(X, Y)
    learner.set_params(learning_rate=0.1, loss=losses.Triplet())
    assert learner.partial_fit(X, Y).n_iter_ == 2


def test_partial_fit_takes_new_classes_where_the_loss_has_no_table_of_them():
    numbers, names = np.array([1, 2, 0])[Y], np.array(["b", "c", "aa"])[Y]
    learner = embedding_learner(NCA, MLP((4,), 2))
    learner.partial_fit(X[:100], names[:100]).partial_fit(X, names)
    assert learner.classes_.tolist() == ["aa", "b", "c"]
    codes = embedding_learner(NCA, MLP((4,), 2))
    codes.partial_fit(X[:100], numbers[:100]).partial_fit(X, numbers)
    np.testing.assert_allclose(learner.transform(X), codes.transform(X), rtol=1e-12)
    with pytest.raises(ValueError, match=r"y holds no text, .* compared with hold text"):
        learner.partial_fit(X, Y)


def test_partial_fit_refuses_labels_of_another_width():
    learner = embedding_learner(losses.LogRatio(), Linear(2))
    learner.partial_fit(X, X[:, :2])
    with pytest.raises(
        ValueError, match=r"y has labels of shape \(\), and .* had \(2,\): call fit"
    ):
        learner.partial_fit(X, X[:, 0])


@pytest.mark.parametrize("width", [1, 2])
def test_partial_fit_of_equal_labels_learns_nothing(width):
    labels = X[:, 0] if width == 1 else X[:, :2]
    learner = embedding_learner(losses.LogRatio(), Linear(2))
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
    learner = embedding_learner(
        losses.Contrastive(),
        Linear(2, normalize=False),
        learning_rate=1e6,
        batch_size=batch_size,
        max_epochs=max_epochs + (batch_size > 150),
    )
    with pytest.warns(ConvergenceWarning, match="The loss has risen from .* Lower learning_rate"):
        learner.fit(X, Y)


class Uneven:
    """A loss that is tiny for batches with only the first class."""

    labels = "class"

    def __call__(self, Z, y, *, n_jobs=None):
        return 1e-9 + float((y > 0).mean()), np.full_like(Z, 1e-9)


def test_batches_that_differ_are_no_rise():
    for seed in range(40):
        embedding_learner(Uneven(), Linear(2), Uniform(2), max_epochs=1, random_state=seed).fit(
            X, Y
        )


def test_a_resumed_training_knows_where_the_loss_began(tmp_path):
    learner = embedding_learner(
        losses.Contrastive(),
        Linear(2, normalize=False),
        learning_rate=1e6,
        batch_size=20,
        callbacks=[Checkpoint(tmp_path / "training")],
    )
    for max_epochs in (1, 2):
        with pytest.warns(ConvergenceWarning, match="The loss has risen from"):
            learner.set_params(max_epochs=max_epochs).fit(X, Y)


def fitted(embedding, **params):
    params = {"max_epochs": 1, "judge": None, "random_state": 0} | params
    return EmbeddingLearner(NCA, embedding, **params).fit(X, Y)


@pytest.mark.parametrize("embedding", [Linear(2), MLP((4,), 2), Linear(2, normalize=True)])
def test_points_whose_embedding_overflows_are_refused(embedding):
    model = fitted(embedding)
    model.parameters_ = [100 * array for array in model.parameters_]
    largest = np.sign(model.parameters_[0][:1]) * 1.7e308
    for method in (model.transform, lambda points: model.kneighbors(points, X)):
        with pytest.raises(
            ValueError, match="X is so large that embedded points in float64 overflow"
        ):
            method(largest)
    single = embedding_learner(NCA, embedding, max_epochs=1).fit(np.float32(X), Y)
    single.parameters_ = [100 * array for array in single.parameters_]
    with pytest.raises(ValueError, match="embedded points in float32 overflow"):
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
    # If points or the map are longer, normalised directions change less, in proportion.
    found = embedding.backward(L, embedding.forward(L, X * 2.0**600)[1], upstream)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    longer = [L[0] * 2.0**600]
    found = embedding.backward(longer, embedding.forward(longer, X)[1], upstream)[0]
    np.testing.assert_allclose(found * 2.0**600, expected, rtol=1e-9)


def test_numbers_that_are_none():
    labels = np.array([None, *X[1:, 0]], object)
    with pytest.raises(ValueError, match="y contains None"):
        LogRatioLearner(2).fit(X, labels)


def test_widths_of_hidden_layers_may_be_an_array():
    def parameters(sizes):
        learner = ProxyNCALearner(
            2, hidden_layer_sizes=sizes, max_epochs=1, random_state=0, judge=None
        )
        return learner.fit(X, Y).parameters_

    for sizes in ((), (5,), (5, 4)):
        found = parameters(np.array(sizes, int))
        for one, other in zip(parameters(sizes), found, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("labels", [Y, X[:, 0]], ids=["class", "continuous"])
def test_the_score_of_one_point(labels):
    loss = NCA if labels is Y else losses.LogRatio()
    model = embedding_learner(loss, Linear(2), max_epochs=1).fit(X, labels)
    with pytest.raises(ValueError, match="X must hold at least 2 points"):
        model.score(X[:1], labels[:1])
    assert np.isfinite(model.score(X[:1], labels[:1], X[1:], labels[1:]))


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
    learner = embedding_learner(
        losses.CoSENT(), Linear(2, normalize=True), sampler, max_epochs=5, learning_rate=0.01
    ).fit(X, X[:, 0])
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
