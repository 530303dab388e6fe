"""Losses, samplers and embeddings in learners: presets, all built-in and user-defined ones."""

from inspect import signature

import numpy as np
import pytest
from embedding_cases import X, Y, same
from reference_losses import NAMES
from sklearn.base import clone
from trained import embedding_learner

import metricfast
from metricfast import (
    EmbeddingLearner,
    LogRatioLearner,
    ProxyNCALearner,
    TripletLearner,
    losses,
    save,
)
from metricfast.embeddings import MLP, Asymmetric, Embedding, Linear
from metricfast.samplers import Batch, DenseTriplet, Sampler, Uniform
from metricfast.solvers import Adam
from metricfast.training.problem import is_continuous

LOSSES = [getattr(losses, name)() for name in NAMES]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)


def test_a_preset_is_the_learner_of_its_parts():
    preset = TripletLearner(
        3, 0.1, "hardest", m_per_class=4, max_epochs=2, random_state=1, judge=None
    )
    parts = embedding_learner(
        losses.Triplet(0.1, "hardest"),
        Linear(3, normalize=True),
        max_epochs=2,
        random_state=1,
        sampler=metricfast.samplers.ClassBalanced(4, 128),
    )
    same(preset.fit(X, Y), parts.fit(X, Y))


def parameters_of(kind):
    return {name: p.default for name, p in signature(kind).parameters.items()}


@pytest.mark.parametrize("preset", [LogRatioLearner, TripletLearner, ProxyNCALearner])
def test_presets_have_the_parameters_of_the_learner(preset):
    learner, own = parameters_of(EmbeddingLearner), parameters_of(preset)
    # Parameters that the presets set themselves, or do not use.
    for name in (
        "loss",
        "embedding",
        "sampler",
        "batch_size",
        "proxy_lr_factor",
        "candidate_fraction",
    ):
        del learner[name]
    if preset is ProxyNCALearner:
        del learner["database"]
    if preset is not LogRatioLearner:
        del learner["label_distance"]
    assert learner.items() <= own.items()


@every_loss
@pytest.mark.parametrize("normalize", [False, True])
def test_every_loss_lowers_itself(loss, normalize):
    labels = X[:, 0] if is_continuous(loss) else Y
    learner = embedding_learner(
        clone(loss),
        MLP((8,), 3, normalize=normalize),
        Uniform(1000),
        max_epochs=40,
        learning_rate=0.01,
    )
    model = learner.fit(X, labels)
    assert np.isfinite(model.loss_curve_).all()
    assert model.loss_curve_[-1] < model.loss_curve_[0]


@every_loss
@pytest.mark.filterwarnings("ignore:No batch of the first epoch", "ignore:No set of n_neighbors")
@pytest.mark.parametrize("batch_size", [1, 2, 7])
def test_every_loss_takes_tiny_batches(loss, batch_size):
    labels = X[:, 0] if is_continuous(loss) else Y
    model = embedding_learner(
        clone(loss), Linear(3, normalize=True), Uniform(batch_size), max_epochs=1
    )
    if isinstance(loss, losses.Gerrymander) and batch_size <= loss.n_neighbors:
        with pytest.raises(ValueError, match="n_neighbors must be at most"):
            model.fit(X[::5], labels[::5])
        return
    model.fit(X[::5], labels[::5])
    assert np.isfinite(model.transform(X)).all()


def plain(Z, y):
    return losses.NCA(reduction="mean")(Z, y)


def whole(Z, y, Z_database=None, y_database=None, *, exclude=None):
    return losses.NCA(reduction="mean")(Z, y, Z_database, y_database, exclude=exclude)


class Halves(Sampler):
    """Equals `Uniform(75)`, written with only the documented interface."""

    def prepare(self, y):
        return lambda rng: (Batch(rows, 75) for rows in np.split(rng.permutation(len(y)), 2))


class Map(Embedding):
    """A user's embedding that equals `Linear(2, "pca")`."""

    def initialize(self, X, y=None, random_state=None):
        return Linear(2, "pca").initialize(X, y, random_state)

    def forward(self, parameters, X, *, side="query", n_jobs=None):
        return X @ parameters[0].T, X

    def backward(self, parameters, cache, upstream, *, n_jobs=None):
        return [upstream.T @ cache]

    def decays(self, default):
        return [default]


def fitted(loss=plain, embedding=None, sampler=None, **options):
    options = {"max_epochs": 3, "random_state": 0, "judge": None} | options
    embedding = Linear(2, "pca") if embedding is None else embedding
    return EmbeddingLearner(loss, embedding, sampler, **options).fit(X, Y)


MEAN_NCA = losses.NCA(reduction="mean")


@pytest.mark.parametrize(
    ("own", "known"),
    [
        ({"loss": plain}, {"loss": MEAN_NCA}),
        ({"loss": whole, "database": "all"}, {"loss": MEAN_NCA}),
        ({"loss": whole, "sampler": DenseTriplet(3, 50, 5)}, {"loss": MEAN_NCA}),
        (
            {
                "embedding": Map(),
                "solver": Adam(max_epochs=3, weight_decay=0.1),
                "max_epochs": None,
            },
            {"embedding": Linear(2, "pca")},
        ),
        (
            {"embedding": Map(), "solver": "lbfgs", "max_epochs": 500},
            {"embedding": Linear(2, "pca")},
        ),
        (
            {"loss": whole, "embedding": Asymmetric(Map(), Map())},
            {"embedding": Asymmetric(Linear(2, "pca"), Linear(2, "pca"))},
        ),
        ({"sampler": Halves()}, {"sampler": Uniform(75)}),
    ],
)
def test_own_parts_are_as_those_of_the_library(own, known):
    one, other = fitted(**own), fitted(**own | known)
    np.testing.assert_allclose(one.transform(X), other.transform(X), atol=1e-6)
    assert clone(one).fit(X, Y).score(X, Y) == one.score(X, Y)


def broken(kind, **methods):
    """An instance of a class whose methods are replaced."""
    return type("Broken", (kind,), methods)()


@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        ({"loss": plain, "database": "all"}, TypeError, "plain cannot be called .* Z_database"),
        ({"loss": plain, "embedding": Asymmetric(Map(), Map())}, TypeError, "with .* Asymmetric"),
        ({"loss": plain, "sampler": DenseTriplet(3)}, TypeError, "not all points are anchors"),
        ({"loss": lambda Z: 1.0}, TypeError, r"cannot be called as loss\(Z, y\)"),
        ({"loss": lambda Z, y: 1.0}, TypeError, r"must return \(value, gradient\); found 1.0"),
        ({"loss": lambda Z, y: (1.0, Z.T)}, ValueError, "must return gradients of the shapes"),
        ({"loss": lambda Z, y: (0.0, Z.__imul__(2))}, ValueError, "array is read-only"),
        ({"loss": lambda Z, y: (0.0, y.__imul__(2))}, ValueError, "array is read-only"),
        ({"loss": lambda Z, y: (np.nan, Z)}, ValueError, "make sure that your own loss"),
        ({"sampler": broken(Sampler)}, NotImplementedError, "Broken must define prepare"),
        ({"sampler": Halves(), "batch_size": 9}, ValueError, "batch_size must be None for Halves"),
        ({"sampler": broken(Sampler, prepare=lambda self, y: [])}, TypeError, "return a function"),
        ({"embedding": broken(Map, decays=lambda self, d: [])}, ValueError, "decays of Broken"),
        (
            {"embedding": broken(Map, initialize=lambda *a: None)},
            TypeError,
            "initialize of Broken must return a list",
        ),
        (
            {"embedding": broken(Map, forward=lambda self, p, X, **k: X)},
            TypeError,
            "forward of Broken must return",
        ),
        (
            {"embedding": broken(Map, backward=lambda self, p, c, u, **k: [u])},
            ValueError,
            "backward of Broken must return",
        ),
    ],
)
def test_parts_that_do_not_work_are_named(parts, error, message):
    with pytest.raises(error, match=message):
        fitted(**parts)


@pytest.mark.parametrize(
    ("batches", "error", "message"),
    [
        ([], ValueError, "gave no batch"),
        ([np.arange(5)], TypeError, r"Batch\(rows, n_anchors\)"),
        ([Batch(np.arange(5.0), 5)], ValueError, "indices of points"),
        ([Batch(np.arange(0), 0)], ValueError, "indices of points"),
        ([Batch(np.array([0, 150]), 2)], ValueError, "from 0 to 149"),
        ([Batch(np.arange(5), 6)], ValueError, "n_anchors must lie from 1 to 5"),
    ],
)
def test_batches_are_checked(batches, error, message):
    sampler = broken(Sampler, prepare=lambda self, y, **options: lambda rng: iter(batches))
    with pytest.raises(error, match=message):
        fitted(sampler=sampler)


def test_a_kind_of_labels_that_there_is_not_is_refused():
    loss = broken(object, __call__=lambda self, Z, y: plain(Z, y), labels="classes")
    with pytest.raises(ValueError, match="labels must be 'class' or 'continuous'; found 'classes'"):
        fitted(loss)


def test_model_files_hold_no_code(tmp_path):
    for own, what in ((fitted(plain), "'loss'"), (fitted(embedding=Map()), "'embedding'")):
        with pytest.raises(TypeError, match=f"parameter {what} cannot be stored"):
            save(own, tmp_path / "own.safetensors")
