"""The embedding learner: results, continuation and end of training."""

import pickle

import numpy as np
import pandas as pd
import pytest
from embedding_cases import NAMED, NCA, Proxies, X, Y, same
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from trained import configured, embedding_learner

import metricfast
from metricfast import EmbeddingLearner, losses
from metricfast.embeddings import MLP, Linear
from metricfast.samplers import DenseTriplet, Uniform
from metricfast.solvers import SGD, Adam

pytestmark = pytest.mark.filterwarnings("ignore:L-BFGS stopped")
every_learner = pytest.mark.parametrize("learner", NAMED.values(), ids=NAMED)


@every_learner
def test_the_loss_falls(learner):
    model = configured(learner, max_epochs=60, learning_rate=0.03).fit(X, Y)
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    assert model.n_iter_ == len(model.loss_curve_)
    assert model.score(X, Y) > 0.85
    assert model.n_components_ == model.transform(X[:1]).shape[1]


def test_candidates_are_a_share_of_the_other_points():
    seen = []

    class Watched(losses.NCA):
        def _run(self, call):
            seen.append((len(call.queries), len(call.references)))
            return super()._run(call)

    learner = embedding_learner(NCA, Linear(2), Uniform(40), database="all", max_epochs=1)
    all_points = clone(learner).fit(X, Y)
    same_points = clone(learner).set_params(candidate_fraction=1.0).fit(X, Y)
    np.testing.assert_allclose(
        same_points.parameters_[0], all_points.parameters_[0], rtol=1e-9, atol=1e-12
    )
    learner.set_params(loss=Watched("log"), candidate_fraction=0.2).fit(X, Y)
    assert seen == [(n, n + -(-(150 - n) // 5)) for n in (38, 38, 37, 37)]


@pytest.mark.parametrize(
    "given", [{"database": "batch"}, {"solver": "lbfgs"}, {"loss": losses.ProxyNCA()}], ids=str
)
def test_candidates_that_nothing_would_be_compared_with_are_refused(given):
    learner = embedding_learner(NCA, database="all", candidate_fraction=0.5).set_params(**given)
    with pytest.raises(ValueError, match="candidate_fraction must be None unless"):
        learner.fit(X, Y)


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


def test_frames_pipelines_and_searches():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = clone(NAMED["perceptron"]).set_output(transform="pandas").fit(frame, Y)
    assert list(model.transform(frame).columns) == [f"embeddinglearner{i}" for i in range(3)]
    pipeline = make_pipeline(clone(NAMED["perceptron"]), KNeighborsClassifier(3))
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
    expected = clone(NAMED["perceptron"]).fit(X, Y)
    names = np.array(["x", "y", "z"])[Y]
    model = clone(NAMED["perceptron"]).set_params(preprocessor=X).fit(np.arange(150), names)
    same(model, expected)
    assert list(model.classes_) == ["x", "y", "z"]
    assert model.score(X, names) == expected.score(X, Y)


def test_the_full_batch_is_the_linear_learner():
    """`EmbeddingLearner` with the loss, embedding and solver of `NCA` gives the same map."""
    points = X - X.mean(axis=0)
    loss = losses.NCA()
    model = embedding_learner(loss, Linear(2), solver="lbfgs", max_epochs=200).fit(points, Y)
    learner = metricfast.NCA(n_components=2, max_iter=200, init_scale=None, judge=None)
    learner.fit(points, Y)
    assert model.loss_curve_[-1] == pytest.approx(learner.objective_, rel=1e-2)
    value = loss(model.transform(points), Y)[0]
    assert model.loss_curve_[-1] == pytest.approx(value, rel=1e-9)


def test_weight_decay_is_a_penalty():
    for kind in (Adam, SGD):
        learners = (
            embedding_learner(NCA, Linear(2), solver=kind(weight_decay=decay)) for decay in (0, 0.3)
        )
        free, decayed = (np.linalg.norm(each.fit(X, Y).parameters_[0]) for each in learners)
        assert decayed < free
    own = embedding_learner(NCA, MLP((4,), 2, weight_decay=0.3), solver="lbfgs")
    own.fit(X, Y)
    penalty = 0.15 * sum(np.sum(weight**2) for weight in own.parameters_[::2])
    assert own.loss_curve_[-1] == pytest.approx(NCA(own.transform(X), Y)[0] + penalty, rel=1e-6)


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
    learner = embedding_learner(Proxies(), Linear(2, normalize=normalize))
    model = learner.fit(X, Y)
    assert model.proxies_.shape == (3, 2)
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    still = configured(learner, proxy_lr_factor=0.0, max_epochs=1).fit(X, Y)
    (L,) = Linear(2).initialize(X - X.mean(axis=0), Y)
    Z = X @ L.T
    if normalize:
        Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    np.testing.assert_allclose(still.proxies_, [Z[c == Y].mean(axis=0) for c in range(3)])


def test_all_anchors_of_the_database_give_the_gradient_of_all_points():
    """A batch of all points, compared with all points, equals the full batch."""
    whole = {"sampler": Uniform(1000), "solver": SGD(momentum=0.0, max_epochs=3)}
    a, b = (
        EmbeddingLearner(NCA, Linear(2), database=database, **whole).fit(X, Y)
        for database in ("batch", "all")
    )
    np.testing.assert_allclose(a.parameters_[0], b.parameters_[0], rtol=1e-10)


def test_warm_start_goes_on():
    learner = clone(NAMED["perceptron"]).set_params(warm_start=True)
    first = learner.fit(X, Y).loss_curve_
    assert learner.fit(X, Y).loss_curve_[0] < first[-1] < first[0]
    learner.embedding = MLP((9,), 3)
    with pytest.raises(ValueError, match="warm_start needs a map of the same shape"):
        learner.fit(X, Y)


def test_partial_fit_goes_on():
    learner = embedding_learner(NCA, MLP((8,), 3))
    for _ in range(15):
        assert learner.partial_fit(X, Y) is learner
    assert learner.n_iter_ == 15
    assert learner.loss_curve_[-1] < learner.loss_curve_[0]
    batches = embedding_learner(Proxies(), Linear(2))
    batches.partial_fit(X[:60], Y[:60], classes=[0, 1, 2]).partial_fit(X, Y)
    assert batches.proxies_.shape == (3, 2)
    with pytest.raises(ValueError, match="y holds class 7, which is none of the classes"):
        batches.partial_fit(X, np.where(Y == 0, 7, Y))
    with pytest.raises(ValueError, match="partial_fit needs a solver with schedule"):
        clone(NAMED["unit length"]).partial_fit(X, Y)
    assert not hasattr(NAMED["lbfgs"], "partial_fit")
    with pytest.raises(AttributeError, match=r"'lbfgs', needs all points. Set solver='adam'"):
        NAMED["lbfgs"].partial_fit(X, Y)


def test_labels_of_several_numbers():
    two = embedding_learner(losses.MLKR(squared=False), Linear(2), solver="lbfgs", max_epochs=9)
    assert two.fit(X, X[:, :2]).loss_curve_[-1] < two.loss_curve_[0]
    with pytest.raises(ValueError, match="y must not be constant"):
        embedding_learner(losses.LogRatio()).fit(X, np.zeros((150, 2)))
    with pytest.raises(TypeError, match=r"callbacks must be functions of a SolverState, .* got 3"):
        embedding_learner(NCA, callbacks=[3]).fit(X, Y)
