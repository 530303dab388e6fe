"""The embedding learner: interrupted training."""

import sys

import numpy as np
import pytest
from embedding_cases import NAMED, NCA, Steep, X, Y, same
from sklearn.base import clone
from trained import configured, embedding_learner

import metricfast
from metricfast import EmbeddingLearner, losses
from metricfast.callbacks import Checkpoint
from metricfast.embeddings import MLP, Linear
from metricfast.samplers import ClassBalanced, Uniform


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
