"""The embedding learner: what it learns, how it goes on, and how it ends."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from embedding_cases import LEARNERS, NCA, Proxies, X, Y, same
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import metricfast
from metricfast import EmbeddingLearner, losses
from metricfast.embeddings import MLP, Asymmetric, Linear
from metricfast.samplers import DenseTriplet, Uniform

pytestmark = pytest.mark.filterwarnings("ignore:L-BFGS stopped")
every_learner = pytest.mark.parametrize("learner", LEARNERS, ids=range(len(LEARNERS)))


@every_learner
def test_the_loss_falls(learner):
    model = clone(learner).set_params(max_epochs=60, learning_rate=0.03).fit(X, Y)
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    assert model.n_iter_ == len(model.loss_curve_)
    assert model.score(X, Y) > 0.85
    assert model.n_components_ == model.transform(X[:1]).shape[1]


@every_learner
def test_any_number_of_threads(learner):
    same(
        clone(learner).set_params(n_jobs=1).fit(X, Y), clone(learner).set_params(n_jobs=2).fit(X, Y)
    )


@every_learner
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_is_kept_and_input_not_modified(learner, dtype):
    points = X.astype(dtype)
    points.flags.writeable = False
    model = clone(learner).fit(points, Y)
    assert {array.dtype for array in [*model.parameters_, model.mean_]} == {np.dtype(dtype)}
    assert model.transform(points).dtype == dtype


@every_learner
def test_distances_are_those_of_embedded_points(learner):
    model = clone(learner).fit(X, Y)
    queries, database = model.transform(X), model.transform(X, "database")
    expected = np.linalg.norm(queries[:20] - database[100:120], axis=1)
    pairs = np.stack([X[:20], X[100:120]], axis=1)
    np.testing.assert_allclose(model.pair_distance(pairs), expected, rtol=1e-7)
    np.testing.assert_allclose(model.pair_score(pairs), -expected, rtol=1e-7)
    metric = pickle.loads(pickle.dumps(model.get_metric()))
    assert metric(X[0], X[100]) == pytest.approx(expected[0])
    assert metric(X[0], X[100], squared=True) == pytest.approx(expected[0] ** 2)
    D = np.linalg.norm(queries[:, None] - database, axis=2)
    np.fill_diagonal(D, np.inf)
    distances, indices = model.kneighbors(X, n_neighbors=3)
    np.testing.assert_allclose(distances, np.sort(D, axis=1)[:, :3], rtol=1e-6, atol=1e-9)
    assert (indices != np.arange(150)[:, None]).all()
    assert model.score(X, Y) == np.mean(Y[indices[:, 0]] == Y)
    assert model.kneighbors(X[:4], X, 1)[1].shape == (4, 1)


@every_learner
def test_pickle_clone_save(learner, tmp_path):
    model = clone(learner).fit(X, Y)
    metricfast.save(model, tmp_path / "model.safetensors")
    for copy in (
        pickle.loads(pickle.dumps(model)),
        metricfast.load(tmp_path / "model.safetensors"),
    ):
        np.testing.assert_array_equal(copy.transform(X), model.transform(X))
        assert str(copy.get_params()) == str(model.get_params())
    same(clone(model).fit(X, Y), model)


def test_frames_pipelines_and_searches():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = clone(LEARNERS[1]).set_output(transform="pandas").fit(frame, Y)
    assert list(model.transform(frame).columns) == [f"embeddinglearner{i}" for i in range(3)]
    pipeline = make_pipeline(clone(LEARNERS[1]), KNeighborsClassifier(3))
    grid = {"embeddinglearner__embedding__n_components": [2, 3]}
    assert GridSearchCV(pipeline, grid, cv=3).fit(X, Y).best_score_ > 0.8


@every_learner
def test_sparse_points(learner):
    points = np.where(np.abs(X) < 0.5, 0, X)
    model = clone(learner).set_params(random_state=1).fit(csr_array(points), Y)
    assert not model.mean_.any()
    np.testing.assert_allclose(model.transform(csr_array(points)), model.transform(points))
    dense = clone(learner).fit(points, Y)
    np.testing.assert_allclose(dense.transform(csr_array(points)), dense.transform(points))


def test_preprocessor_and_labels_of_any_kind():
    expected = clone(LEARNERS[1]).fit(X, Y)
    names = np.array(["x", "y", "z"])[Y]
    model = clone(LEARNERS[1]).set_params(preprocessor=X).fit(np.arange(150), names)
    same(model, expected)
    assert list(model.classes_) == ["x", "y", "z"]
    assert model.score(X, names) == expected.score(X, Y)


def test_the_full_batch_is_the_linear_learner():
    """The same loss, embedding and solver as `NCA`, by another way."""
    points = X - X.mean(axis=0)
    loss = losses.NCA()
    model = EmbeddingLearner(loss, Linear(2), solver="lbfgs", max_epochs=200).fit(points, Y)
    learner = metricfast.NCA(n_components=2, max_iter=200).fit(points, Y)
    assert model.loss_curve_[-1] == pytest.approx(learner.objective_, rel=1e-2)
    value = loss(model.transform(points), Y)[0]
    assert model.loss_curve_[-1] == pytest.approx(value, rel=1e-9)


def test_weight_decay_is_a_penalty():
    kept = [
        np.linalg.norm(
            EmbeddingLearner(NCA, Linear(2), solver=solver, weight_decay=decay, random_state=0)
            .fit(X, Y)
            .parameters_[0]
        )
        for solver in ("lbfgs", "adam", "sgd")
        for decay in (0, 0.3)
    ]
    assert (np.array(kept[1::2]) < np.array(kept[::2])).all()
    loss = EmbeddingLearner(NCA, Linear(2), solver="lbfgs", weight_decay=0.3).fit(X, Y)
    penalty = 0.15 * np.sum(loss.parameters_[0] ** 2)
    assert loss.loss_curve_[-1] == pytest.approx(NCA(loss.transform(X), Y)[0] + penalty, rel=1e-6)


def test_continuous_labels():
    labels = np.c_[X[:, 0], np.round(X[:, 1])]
    model = EmbeddingLearner(
        losses.MLKR(reduction="mean"), Linear(2), DenseTriplet(3, 40, 4), random_state=0,
        max_epochs=10, early_stopping=True,
    ).fit(X, labels[:, 0])  # fmt: skip
    assert not hasattr(model, "classes_")
    found = model.kneighbors(X, n_neighbors=10)[1]
    expected = -np.abs(labels[found, 0] - labels[:, None, 0]).mean()
    assert model.score(X, labels[:, 0]) == pytest.approx(expected)
    two = -np.linalg.norm(labels[found] - labels[:, None], axis=2).mean()
    assert model.score(X, labels) == pytest.approx(two)
    assert model.validation_scores_[-1] <= max(model.validation_scores_) < 0


@pytest.mark.parametrize("normalize", [False, True])
def test_learnable_proxies(normalize):
    learner = EmbeddingLearner(Proxies(), Linear(2, normalize=normalize), random_state=0)
    model = learner.fit(X, Y)
    assert model.proxies_.shape == (3, 2)
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    still = clone(learner).set_params(proxy_rate=0.0, max_epochs=1).fit(X, Y)
    (L,) = Linear(2).initialize(X - X.mean(axis=0), Y)
    Z = X @ L.T
    if normalize:
        Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    np.testing.assert_allclose(still.proxies_, [Z[c == Y].mean(axis=0) for c in range(3)])


def test_all_anchors_of_the_database_give_the_gradient_of_all_points():
    """One batch of all points against all points is the full batch."""
    whole = {"sampler": Uniform(1000), "solver": "sgd", "momentum": 0.0, "max_epochs": 3}
    a, b = (
        EmbeddingLearner(NCA, Linear(2), database=database, **whole).fit(X, Y)
        for database in ("batch", "all")
    )
    np.testing.assert_allclose(a.parameters_[0], b.parameters_[0], rtol=1e-10)


def test_early_stopping_keeps_the_best():
    seen = []
    model = EmbeddingLearner(
        NCA, Linear(2), early_stopping=True, n_iter_no_change=3, max_epochs=500, random_state=0,
        callbacks=[lambda state: seen.append((state.score, state.parameters[0]))],
    ).fit(X, Y)  # fmt: skip
    scores = [score for score, _ in seen]
    assert scores == model.validation_scores_
    best = int(np.argmax(scores))
    assert len(scores) == best + 1 + 3 < 500
    np.testing.assert_array_equal(model.parameters_[0], seen[best][1])


def test_callbacks_stop_and_progress_shows(capsys):
    learner = clone(LEARNERS[0]).set_params(
        callbacks=[lambda state: state.iteration == 2], verbose=True
    )
    assert learner.fit(X, Y).n_iter_ == 2
    assert "EmbeddingLearner" in capsys.readouterr().err


def test_warm_start_goes_on():
    learner = clone(LEARNERS[1]).set_params(warm_start=True)
    first = learner.fit(X, Y).loss_curve_
    assert learner.fit(X, Y).loss_curve_[0] < first[-1] < first[0]
    learner.embedding = MLP((9,), 3)
    with pytest.raises(ValueError, match="warm_start needs an embedding of the same shapes"):
        learner.fit(X, Y)


def test_partial_fit_goes_on():
    learner = EmbeddingLearner(NCA, MLP((8,), 3), random_state=0)
    for _ in range(15):
        assert learner.partial_fit(X, Y) is learner
    assert learner.n_iter_ == 15
    assert learner.loss_curve_[-1] < learner.loss_curve_[0]
    batches = EmbeddingLearner(Proxies(), Linear(2), random_state=0)
    batches.partial_fit(X[:60], Y[:60], classes=[0, 1, 2]).partial_fit(X, Y)
    assert batches.proxies_.shape == (3, 2)
    with pytest.raises(ValueError, match="y holds 7, which is none of the classes"):
        batches.partial_fit(X, np.where(Y == 0, 7, Y))
    with pytest.raises(ValueError, match="partial_fit needs schedule"):
        clone(LEARNERS[2]).partial_fit(X, Y)
    assert not hasattr(LEARNERS[4], "partial_fit")


def test_partial_fit_after_load(tmp_path):
    learner = clone(LEARNERS[1]).fit(X, Y)
    metricfast.save(learner, tmp_path / "model.safetensors")
    loaded = metricfast.load(tmp_path / "model.safetensors").partial_fit(X, Y)
    assert loaded.loss_curve_[-1] < learner.loss_curve_[0]


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"loss": 3}, TypeError, "loss must be one of metricfast.losses"),
        ({"embedding": "mlp"}, TypeError, "embedding must be one of metricfast.embeddings"),
        ({"sampler": 3}, TypeError, "sampler must be one of metricfast.samplers"),
        ({"solver": "newton"}, ValueError, "solver must be"),
        ({"schedule": "linear"}, ValueError, "schedule must be"),
        ({"database": "none"}, ValueError, "database must be"),
        ({"learning_rate": 0}, ValueError, "learning_rate must be"),
        ({"momentum": 1.5}, ValueError, "momentum must be"),
        ({"weight_decay": -1}, ValueError, "weight_decay must be"),
        ({"validation_fraction": 0}, ValueError, "validation_fraction must be"),
        ({"validation_fraction": 1, "early_stopping": True}, ValueError, "fewer than 3 to train"),
        (
            {"validation_fraction": 0.99, "early_stopping": True},
            ValueError,
            "validation_fraction=0.99 of 150 points leaves fewer than 3 .* one of each class",
        ),
        ({"max_epochs": 0}, ValueError, "max_epochs must be"),
        ({"n_iter_no_change": 0}, ValueError, "n_iter_no_change must be"),
        ({"batch_size": 0}, ValueError, "batch_size must be"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be"),
        ({"callbacks": 3}, TypeError, "callbacks must be several"),
        ({"callbacks": [3]}, TypeError, "callbacks must be functions of a SolverState, got 3"),
        ({"loss": Proxies(), "embedding": Asymmetric(Linear(2), Linear(2))}, ValueError, "table"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_bad_parameters(params, error, message):
    with pytest.raises(error, match=message):
        EmbeddingLearner(NCA).set_params(**params).fit(X, Y)


@pytest.mark.parametrize(
    ("loss", "labels", "message"),
    [
        (NCA, X[:, 0], "continuous"),
        (NCA, np.where(Y == 0, np.nan, Y), "NaN"),
        (NCA, np.zeros(150), "at least 2 classes"),
        (losses.MLKR(), np.where(Y == 0, np.nan, Y), "NaN"),
        (losses.MLKR(), np.zeros(150), "y must not be constant"),
        (losses.LogRatio(), np.zeros((150, 2)), "y must not be constant"),
        (losses.MLKR(), X[:, :2], r"one number a point for MLKR, got shape \(150, 2\)"),
        (losses.MLKR(), np.array(["a", "b", "c"])[Y], "y must hold numbers"),
        (NCA, Y[:-1], "inconsistent"),
    ],
    ids=range(9),
)
def test_bad_labels(loss, labels, message):
    with pytest.raises(ValueError, match=message):
        EmbeddingLearner(loss).fit(X, labels)
