"""Queries and database of different points, with different features."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.model_selection import KFold, cross_val_score
from trained import embedding_learner

import metricfast
from metricfast import (
    AsymmetricSimilarity,
    EmbeddingLearner,
    FixedDatabase,
    LogRatioLearner,
    losses,
)
from metricfast.embeddings import MLP, Asymmetric, Linear
from metricfast.learners.embedding import base
from metricfast.samplers import ClassBalanced, DenseTriplet, Sampler, Uniform
from metricfast.solvers import Adam
from metricfast.stopping import HeldOut
from metricfast.training.samples import center

RNG = np.random.default_rng(0)
N, M = 90, 120
Y, Y_DATABASE = RNG.integers(4, size=N), RNG.integers(4, size=M)
MEANS = 2 * RNG.normal(size=(4, 6))
# Both sides have the same classes, but different features.
SHOWN = RNG.normal(size=(6, 7))
X = MEANS[Y] + RNG.normal(size=(N, 6))
DATABASE = (MEANS[Y_DATABASE] + RNG.normal(size=(M, 6))) @ SHOWN
TARGETS, TARGETS_DATABASE = MEANS[Y][:, :2] + X[:, :2], DATABASE[:, :2]
BOTH = Asymmetric(Linear(3), Linear(3))
DEEP = Asymmetric(MLP((16,), 4, normalize=True), Linear(4, normalize=True))
EVERY_LOSS = [
    loss
    for name in losses.__all__
    if name != "Compiled"
    and isinstance(loss := getattr(losses, name), type)
    and getattr(loss, "labels", None) in ("class", "continuous")
    and not getattr(loss, "learnable_database", False)
    and getattr(loss, "has_anchors", True)
]


def labels_of(loss):
    return (Y, Y_DATABASE) if loss.labels == "class" else (TARGETS, TARGETS_DATABASE)


@pytest.mark.parametrize("database", ["batch", "all"])
@pytest.mark.parametrize("loss", EVERY_LOSS, ids=lambda loss: loss.__name__)
def test_every_loss_that_compares_anchors_with_a_database_learns_from_two_kinds(loss, database):
    y, y_database = labels_of(loss)
    if loss.labels != "class" and loss.__name__ in ("MLKR",):
        y, y_database = y[:, 0], y_database[:, 0]
    learner = embedding_learner(loss(), BOTH, max_epochs=3, database=database)
    learner.fit(X, y, DATABASE, y_database)
    assert np.isfinite(learner.loss_curve_).all()
    assert learner.transform(X, "query").shape == (N, 3)
    assert learner.transform(DATABASE, "database").shape == (M, 3)
    assert np.isfinite(learner.score(X, y, DATABASE, y_database))


@pytest.mark.filterwarnings("ignore:No batch of the first epoch")
def test_right_points_of_the_right_side_meet_their_labels(monkeypatch):
    """A user's loss receives embedded points that contain their labels."""
    seen = []

    def loss(Z, y, Z_database, y_database, exclude=None):
        assert exclude is None
        np.testing.assert_array_equal(np.rint(Z[:, 0]), y)
        np.testing.assert_array_equal(np.rint(Z_database[:, 0]), y_database)
        seen.append((len(Z), len(Z_database)))
        return 0.0, (np.zeros_like(Z), np.zeros_like(Z_database))

    loss.labels = "continuous"
    y, y_database = np.arange(20.0), np.arange(31.0)
    queries = np.column_stack([y, RNG.normal(size=20)])
    database = np.column_stack([RNG.normal(size=(31, 2)), y_database])
    read = Asymmetric(Linear(1, [[1.0, 0.0]]), Linear(1, [[0.0, 0.0, 1.0]]))

    zeros = np.zeros(2), np.zeros(3)
    monkeypatch.setattr(base, "center", lambda samples, means, **how: center(samples, zeros, **how))
    for sampler in (Uniform(6), DenseTriplet(3, batch_size=10, n_anchors=2)):
        for how in ("batch", "all"):
            learner = embedding_learner(loss, read, sampler, max_epochs=2, database=how)
            learner.fit(queries, y, database, y_database)
    assert {m for _, m in seen} == {5, 8, 31}
    embedding_learner(loss, read, solver="lbfgs", max_epochs=1).fit(
        queries, y, database, y_database
    )
    assert seen[-1] == (20, 31)


@pytest.mark.parametrize("embedding", [BOTH, DEEP], ids=["linear", "deep"])
def test_retrieval_from_the_other_side_is_learned(embedding):
    learner = embedding_learner(
        losses.NCA(reduction="mean"), embedding, learning_rate=0.02, max_epochs=30
    ).fit(X[:60], Y[:60], DATABASE[:80], Y_DATABASE[:80])
    found = learner.kneighbors(X[60:], DATABASE[80:], 1)[1][:, 0]
    right = np.mean(Y_DATABASE[80:][found] == Y[60:])
    assert right == learner.score(X[60:], Y[60:], DATABASE[80:], Y_DATABASE[80:])
    assert right > 0.7
    distance = learner.get_metric()
    nearest = DATABASE[80:][found[0]]
    expected = learner.kneighbors(X[60:61], DATABASE[80:], 1)[0][0, 0]
    assert distance(X[60], nearest) == pytest.approx(expected)


def test_one_embedding_of_both_sides_has_one_mean():
    learner = embedding_learner(losses.NCA(), Linear(2), max_epochs=2)
    learner.fit(X, Y, X[::-1] + 1, Y[::-1])
    np.testing.assert_array_equal(learner.mean_, learner.mean_query_)
    np.testing.assert_allclose(learner.mean_, (X[::-1] + 1).mean(axis=0))
    np.testing.assert_array_equal(learner.transform(X), learner.transform(X, "database"))


def test_epochs_by_partial_fit_go_on_with_the_means_of_the_first():
    learner = embedding_learner(losses.SupCon(), DEEP)
    learner.partial_fit(X, Y, X_database=DATABASE, y_database=Y_DATABASE)
    mean, before = learner.mean_.copy(), [a.copy() for a in learner.parameters_]
    learner.partial_fit(X[:50], Y[:50], X_database=DATABASE[:60], y_database=Y_DATABASE[:60])
    np.testing.assert_array_equal(learner.mean_, mean)
    assert all((a != b).any() for a, b in zip(before, learner.parameters_, strict=True))
    with pytest.raises(ValueError, match="kind of database"):
        learner.partial_fit(X, Y)


def test_early_stopping_holds_queries_out_and_a_warm_start_goes_on():
    rule = HeldOut(0.2, patience=3)
    learner = EmbeddingLearner(losses.NCA(), BOTH, early_stopping=rule, random_state=0)
    learner.fit(X, Y, DATABASE, Y_DATABASE)
    assert len(learner.validation_scores_) == learner.n_iter_
    parameters = [a.copy() for a in learner.parameters_]
    learner.set_params(warm_start=True, judge=None, max_epochs=1, learning_rate=1e-9)
    learner.fit(X, Y, DATABASE, Y_DATABASE)
    for a, b in zip(parameters, learner.parameters_, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_distances_of_labels_may_be_precomputed_between_the_sides():
    table = np.abs(TARGETS[:, None] - TARGETS_DATABASE[None]).sum(axis=2)
    how = {"embedding": BOTH, "sampler": DenseTriplet(4, 20), "max_epochs": 2, "random_state": 0}
    learner = EmbeddingLearner(losses.LogRatio(), label_distance="precomputed", **how)
    learner.fit(X, table, DATABASE)
    named = EmbeddingLearner(losses.LogRatio(), label_distance="cityblock", **how)
    named.fit(X, TARGETS, DATABASE, TARGETS_DATABASE)
    for a, b in zip(learner.parameters_, named.parameters_, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
    assert learner.score(X, table, DATABASE) == pytest.approx(
        named.score(X, TARGETS, DATABASE, TARGETS_DATABASE)
    )
    with pytest.raises(ValueError, match="y_database must be None"):
        learner.fit(X, table, DATABASE, TARGETS_DATABASE)


def test_sparse_queries_and_dense_database():
    learner = embedding_learner(losses.NCA(), BOTH, max_epochs=2)
    learner.fit(csr_array(X), Y, DATABASE, Y_DATABASE)
    assert not learner.mean_query_.any() and learner.mean_.any()
    assert learner.kneighbors(csr_array(X), DATABASE)[0].shape == (N, 5)


@pytest.mark.parametrize("ties", ["keep", "drop"])
def test_dense_triplets_have_the_nearest_labels_of_the_database(ties):
    y, y_database = RNG.integers(9, size=(30, 2)), RNG.integers(9, size=(50, 2))
    epoch = DenseTriplet(4, 12, ties=ties).prepare(y, y_database=y_database)
    anchors = []
    for batch in epoch(np.random.RandomState(0)):
        assert batch.n_anchors == 1 and len(batch.rows) == 12
        anchor, others = batch.rows[0], batch.rows[1:]
        assert len(set(others)) == 11
        away = np.linalg.norm(y_database - y[anchor], axis=1)
        least = np.sort(away[away > 0] if ties == "drop" else away)[:4]
        np.testing.assert_allclose(np.sort(away[others[:4]]), least)
        anchors.append(anchor)
    assert sorted(anchors) == list(range(30))


def test_batches_of_classes_have_their_classes_in_the_database():
    epoch = ClassBalanced(4, 24).prepare(Y, y_database=Y_DATABASE)
    anchors = []
    for batch in epoch(np.random.RandomState(0)):
        queries, others = np.split(batch.rows, [batch.n_anchors])
        assert len(set(others)) == len(others) >= len(queries)
        for c in np.unique(Y[queries]):
            assert np.count_nonzero(Y_DATABASE[others] == c) >= 4
        anchors += queries.tolist()
    assert sorted(anchors) == list(range(N))
    # Pairs: each query has one partner, and it is there.
    epoch = ClassBalanced(8, 32).prepare(np.arange(60), y_database=np.arange(60)[::-1])
    for batch in epoch(np.random.RandomState(0)):
        queries, others = np.split(batch.rows, [batch.n_anchors])
        assert set(59 - queries) <= set(others)


def test_samplers_refuse_what_has_no_meaning_with_a_database():
    with pytest.raises(ValueError, match="all_anchors must be False"):
        DenseTriplet(all_anchors=True).prepare(TARGETS, y_database=TARGETS_DATABASE)
    with pytest.raises(ValueError, match="batch_size must be at least"):
        DenseTriplet(5, 5).prepare(TARGETS, y_database=TARGETS_DATABASE)

    class Alone(Sampler):
        def prepare(self, y):
            return Uniform().prepare(y)

    with pytest.raises(ValueError, match="Alone, whose prepare takes no y_database"):
        embedding_learner(losses.NCA(), BOTH, Alone()).fit(X, Y, DATABASE, Y_DATABASE)


def test_what_does_not_go_together_is_refused():
    nca = embedding_learner(losses.NCA(), BOTH)
    for arguments, message in [
        ((X, Y, DATABASE), "must be given together"),
        ((X, Y, None, Y_DATABASE), "must be given together"),
        ((X, Y, DATABASE, Y_DATABASE[1:]), "y_database must hold 120 labels.*found 119"),
        ((X, Y, DATABASE, Y_DATABASE.astype(str)), "y_database"),
        ((X, Y, DATABASE * np.nan, Y_DATABASE), "X_database: .*NaN"),
    ]:
        with pytest.raises(ValueError, match=message):
            nca.fit(*arguments)
    one = embedding_learner(losses.NCA(), Linear(2))
    with pytest.raises(ValueError, match=r"X_database: X has 7 features.*Asymmetric"):
        one.fit(X, Y, DATABASE, Y_DATABASE)
    for loss, message in [
        (losses.ProxyNCA(), "whose database is a table of proxies"),
        (losses.CoSENT(), "compares all points of a batch"),
    ]:
        with pytest.raises(ValueError, match=message):
            embedding_learner(loss, Linear(2)).fit(X, Y, X, Y)
    with pytest.raises(ValueError, match="candidate_fraction must be None with X_database"):
        nca.set_params(database="all", candidate_fraction=0.5).fit(X, Y, DATABASE, Y_DATABASE)


def test_points_are_asked_about_on_their_side():
    learner = embedding_learner(losses.NCA(), BOTH, max_epochs=1)
    names = [f"word{i}" for i in range(7)]
    learner.fit(X, Y, pd.DataFrame(DATABASE, columns=names), Y_DATABASE)
    assert learner.feature_names_database_in_.tolist() == names
    with pytest.raises(ValueError, match="side must be"):
        learner.transform(X)
    assert learner.transform(pd.DataFrame(DATABASE, columns=names), "database").shape == (M, 3)
    with pytest.raises(ValueError, match=r"expecting 7 .* used as points of the database side"):
        learner.fit(X, Y, DATABASE, Y_DATABASE).transform(X, "database")
    learner.fit(X, Y, pd.DataFrame(DATABASE, columns=names), Y_DATABASE)
    with pytest.raises(ValueError, match="feature names"):
        learner.transform(pd.DataFrame(DATABASE, columns=names[::-1]), "database")
    with pytest.raises(ValueError, match="X_database must be given"):
        learner.kneighbors(X)
    with pytest.raises(ValueError, match="points of one kind"):
        learner.pair_distance([(X[0], X[1])])
    with pytest.raises(ValueError, match="v must hold 7 values"):
        learner.get_metric()(X[0], X[1])
    with pytest.raises(ValueError, match="validate must be False"):
        learner.fit(X, Y, DATABASE, Y_DATABASE, validate=True)


@pytest.mark.parametrize("embedding", [BOTH, DEEP], ids=["linear", "deep"])
def test_files_keep_both_sides(embedding, tmp_path):
    pytest.importorskip("safetensors")
    learner = embedding_learner(losses.NCA(), embedding, max_epochs=2)
    learner.fit(X, Y, DATABASE, Y_DATABASE)
    path = tmp_path / "both.safetensors"
    metricfast.save(learner, path)
    loaded = metricfast.load(path)
    for points, side in ((X, "query"), (DATABASE, "database")):
        np.testing.assert_array_equal(
            loaded.transform(points, side), learner.transform(points, side)
        )
    with pytest.raises(ValueError, match="expecting 7"):
        loaded.transform(X, "database")

    from tests.c_library import LIBRARY, Database, Model

    model = Model(path)
    assert (model.n_features, model.n_components) == (6, learner.n_components_)
    assert LIBRARY.metricfast_model_n_database_features(model.handle) == 7
    np.testing.assert_array_equal(model.transform(X), learner.transform(X, "query"))
    np.testing.assert_array_equal(
        model.transform(DATABASE, 1), learner.transform(DATABASE, "database")
    )
    found = Database(model, DATABASE).kneighbors(X, 3)[1]
    np.testing.assert_array_equal(found, learner.kneighbors(X, DATABASE, 3)[1])


def test_onnx_exports_either_side():
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    learner = embedding_learner(losses.NCA(), DEEP, max_epochs=2)
    learner.fit(X, Y, DATABASE, Y_DATABASE)
    for points, side in ((X, "query"), (DATABASE, "database")):
        model = metricfast.io.to_onnx(learner, side=side, dtype=np.float64)
        session = runtime.InferenceSession(model.SerializeToString())
        found = session.run(None, {"X": points})[0]
        np.testing.assert_allclose(found, learner.transform(points, side), atol=1e-9)


def test_cross_validation_leaves_the_database_whole():
    learner = embedding_learner(losses.NCA(), BOTH, max_epochs=5)
    fixed = FixedDatabase(learner, DATABASE, Y_DATABASE)
    folds = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(fixed, X, Y, cv=folds)
    train, test = next(folds.split(X))
    own = learner.fit(X[train], Y[train], DATABASE, Y_DATABASE)
    assert scores[0] == own.score(X[test], Y[test], DATABASE, Y_DATABASE)
    fixed.fit(X[train], Y[train])
    np.testing.assert_array_equal(
        fixed.kneighbors(X[test], 4)[1], own.kneighbors(X[test], DATABASE, 4)[1]
    )
    ordered = FixedDatabase(
        LogRatioLearner(max_epochs=2, random_state=0), X[:40], TARGETS[:40]
    ).fit(X[40:], TARGETS[40:])
    assert ordered.score(X[40:], TARGETS[40:]) < 0


def test_votes_of_a_database_with_other_features():
    how = {"n_components": 3, "solver": Adam(max_epochs=10), "random_state": 0}
    learner = AsymmetricSimilarity(**how).fit(X[:60], Y[:60], DATABASE, Y_DATABASE)
    assert learner.score(X[60:], Y[60:]) > 0.75
    assert learner.components_query_.shape == (3, 6)
    assert learner.components_database_.shape == (3, 7)
    assert learner.get_mahalanobis_matrix().shape == (13, 13)
    distances, rows = learner.kneighbors(X[60:], n_neighbors=2)
    U, V = learner.components_query_, learner.components_database_
    queries = (X[60:] - learner.mean_query_) @ U.T
    points = (DATABASE - learner.mean_) @ V.T
    brute = np.linalg.norm(queries[:, None] - points[None], axis=2)
    np.testing.assert_allclose(distances, np.sort(brute, axis=1)[:, :2])
    np.testing.assert_array_equal(rows, np.argsort(brute, axis=1)[:, :2])
    np.testing.assert_array_equal(
        learner.predict(X[60:], DATABASE, Y_DATABASE), learner.predict(X[60:])
    )
    learner.partial_fit(X[:60], Y[:60], DATABASE, Y_DATABASE)
    assert learner.score(X[60:], Y[60:]) > 0.75
    with pytest.raises(ValueError, match="same number of components"):
        AsymmetricSimilarity().fit(X, Y, DATABASE, Y_DATABASE)
    with pytest.raises(ValueError, match="n_components must be at most 13"):
        AsymmetricSimilarity(n_components=14).fit(X, Y, DATABASE, Y_DATABASE)
    with pytest.raises(ValueError, match="X_database: X has 7 features"):
        AsymmetricSimilarity(tied=True).fit(X, Y, DATABASE, Y_DATABASE)


def inverse_root(M):
    values, vectors = np.linalg.eigh(M)
    return vectors / np.sqrt(values) @ vectors.T


def test_linear_maps_of_two_kinds_start_where_class_means_are_correlated():
    centred = X - X.mean(axis=0), DATABASE - DATABASE.mean(axis=0)
    found = Asymmetric(Linear(2), Linear(2)).initialize(centred[0], Y, 0, centred[1], Y_DATABASE)
    sizes = [np.bincount(y) for y in (Y, Y_DATABASE)]
    share = np.sqrt(sizes[0] * sizes[1])
    roots, means = [], []
    for P, y in zip(centred, (Y, Y_DATABASE), strict=True):
        C = P.T @ P / len(P)
        roots.append(inverse_root(C + np.trace(C) / len(C) * np.eye(len(C))))
        mean = np.stack([P[y == c].mean(axis=0) for c in range(4)])
        means.append(mean - np.average(mean, axis=0, weights=share))
    left, s, right = np.linalg.svd(roots[0] @ means[0].T * share @ means[1] @ roots[1])
    turned = np.ones(2)
    for L, rows, root in zip(found, (left.T, right), roots, strict=True):
        expected = np.sqrt(s[:2])[:, None] * rows[:2] @ root
        expected *= np.sqrt(2) / np.linalg.norm(expected)
        signs = np.sign(np.sum(L * expected, axis=1))
        np.testing.assert_allclose(signs[:, None] * L, expected, atol=1e-9)
        turned *= signs
    np.testing.assert_array_equal(turned, np.ones(2))


def test_two_maps_start_alike_where_a_side_has_further_classes():
    embedding, centred = Asymmetric(Linear(2), Linear(2)), X - X.mean(axis=0)
    some = Y_DATABASE > 0
    U, _ = embedding.initialize(centred, Y, 0, DATABASE[some], Y_DATABASE[some])
    V, _ = embedding.initialize(centred, Y + 1, 0, DATABASE[some], Y_DATABASE[some] + 1)
    np.testing.assert_array_equal(U, V)
    W, _ = embedding.initialize(centred, (Y + 3) % 4, 0, DATABASE[some], Y_DATABASE[some] - 1)
    np.testing.assert_allclose(np.abs(U @ W.T), np.abs(U @ U.T), atol=1e-9)
    none, _ = embedding.initialize(centred, Y, 0, DATABASE, Y_DATABASE + 4)
    assert np.linalg.norm(none, axis=1) == pytest.approx(0.01)


def test_two_maps_of_wide_sparse_points_start_where_class_means_are_correlated():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 8)
    words = csr_array(rng.poisson(0.02 + (rng.random((5, 1500)) < 0.05)[y]).astype(float))
    points = rng.normal(size=(5, 6))[y] + 0.1 * rng.normal(size=(40, 6))
    embedding = Asymmetric(Linear(4), Linear(4))
    U, V = embedding.initialize(words, y, 0, points - points.mean(axis=0), y)
    Z, W = words @ U.T, (points - points.mean(axis=0)) @ V.T
    similar = (Z - Z.mean(axis=0)) @ (W - W.mean(axis=0)).T
    assert (y[similar.argmax(axis=1)] == y).mean() > 0.9
