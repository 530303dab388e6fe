"""Loss, sampler, scores and metrics of a learner share a label distance that is given once."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from trained import configured

import metricfast
from metricfast import (
    EmbeddingLearner,
    KernelizedMetricLearner,
    LogRatioLearner,
    TripletLearner,
    losses,
)
from metricfast.callbacks import Checkpoint
from metricfast.embeddings import Asymmetric, Linear
from metricfast.metrics import (
    cross_validate_retrieval,
    mean_label_distance_at_k,
    ndcg_at_k,
    retrieval_scorer,
)
from metricfast.samplers import DenseTriplet, Uniform

RNG = np.random.default_rng(0)
N = 60
BINARY = RNG.integers(0, 2, (N, 8))
BINARY[:, 0] |= ~BINARY.any(axis=1)
SETS = [{f"word {i}" for i in np.flatnonzero(row)} for row in BINARY]
MATRIX = np.array([[1 - len(a & b) / len(a | b) for b in SETS] for a in SETS])
X = BINARY @ RNG.normal(size=(8, 5)) + 0.1 * RNG.normal(size=(N, 5))
DEGREES = RNG.uniform(0, 360, N)
ROUND = np.c_[np.cos(np.radians(DEGREES)), np.sin(np.radians(DEGREES)), RNG.normal(size=(N, 2))]


def jaccard(a, b):
    return 1 - len(a & b) / len(a | b)


def turned(a, b):
    away = abs(a - b) % 360
    return min(away, 360 - away)


def memory_map(folder):
    matrix = np.memmap(folder / "distances", np.float64, "w+", shape=MATRIX.shape)
    matrix[:] = MATRIX
    return matrix


# Kinds of labels, and the label distance for each.
KINDS = {
    "sets": (lambda _: SETS, "jaccard"),
    "array of sets": (lambda _: np.array(SETS, object), "jaccard"),
    "rows": (lambda _: BINARY, "jaccard"),
    "function": (lambda _: SETS, jaccard),
    "metric": (lambda _: SETS, ("metric", jaccard)),
    "matrix": (lambda _: MATRIX, "precomputed"),
    "memory map": (memory_map, "precomputed"),
    "lists": (lambda _: MATRIX.tolist(), "precomputed"),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def learner(said, **params):
    how = {"max_epochs": 3, "early_stopping": True, "random_state": 0, "batch_size": 20}
    if "judge" in params:
        del how["early_stopping"]
    how = {**how, "n_components": 2, "n_anchors": 2, **params}
    return LogRatioLearner(label_distance=said, **how)


OF_LABELS = [
    loss.set_params(**({"labels": "dense"} if "labels" in loss.get_params() else {}))
    for loss in (getattr(losses, name)() for name in losses.__all__)
    if hasattr(loss, "label_distance")
]


def same(a, b):
    for one, other in zip(a.parameters_, b.parameters_, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.fixture(scope="module")
def folds_of_the_matrix():
    return folds_of(MATRIX, "precomputed")


@every_kind
def test_any_way_to_give_labels_gives_the_same_learner(kind, tmp_path):
    make, said = KINDS[kind]
    labels = make(tmp_path)
    model = learner(said).fit(X, labels)
    expected = learner("precomputed").fit(X, MATRIX)
    same(model, expected)
    assert model.validation_scores_ == pytest.approx(expected.validation_scores_)
    Z = model.transform(X)
    away = mean_label_distance_at_k(Z, MATRIX, k=10, label_distance="precomputed")
    assert model.score(X, labels) == pytest.approx(-away)
    if said == "precomputed":
        two_sides = model.score(X[:9], MATRIX[:9, 9:], X[9:])
        with pytest.raises(ValueError, match="y_database must be None where label_distance"):
            model.score(X[:9], MATRIX[:9, 9:], X[9:], MATRIX[9:])
    else:
        two_sides = model.score(X[:9], labels[:9], X[9:], labels[9:])
    away = mean_label_distance_at_k(
        Z[:9], MATRIX[:9, 9:], Z[9:], k=10, label_distance="precomputed"
    )
    assert two_sides == pytest.approx(-away)


def folds_of(labels, said, **options):
    model = make_pipeline(StandardScaler(), learner(said, judge=None, max_epochs=1))
    return cross_validate_retrieval(model, X, labels, folds=3, k=4, random_state=0, **options)


@every_kind
def test_folds_slice_labels_of_any_kind(kind, tmp_path, folds_of_the_matrix):
    make, said = KINDS[kind]
    for options in ({}, {"label_distance": said}):
        found = folds_of(make(tmp_path), said, **options)
        for name, score in folds_of_the_matrix.items():
            np.testing.assert_allclose(found[name].values, score.values)
            np.testing.assert_allclose(
                found.untrained[name].values, folds_of_the_matrix.untrained[name].values
            )


def test_it_may_be_said_in_any_place():
    said = ("angular", 360)
    places = [
        {"loss": losses.LogRatio(), "sampler": DenseTriplet(3, 20), "label_distance": said},
        {"loss": losses.LogRatio(label_distance=said), "sampler": DenseTriplet(3, 20)},
        {"loss": losses.LogRatio(), "sampler": DenseTriplet(3, 20, label_distance=said)},
        {"loss": losses.LogRatio(label_distance=turned), "sampler": DenseTriplet(3, 20)},
    ]
    models = [
        EmbeddingLearner(embedding=Linear(2), max_epochs=2, random_state=0, **parts).fit(
            ROUND, DEGREES
        )
        for parts in places
    ]
    away = mean_label_distance_at_k(
        models[0].transform(ROUND), DEGREES, k=10, label_distance=turned
    )
    for model in models:
        same(model, models[0])
        assert model.score(ROUND, DEGREES) == pytest.approx(-away)
        scorer = retrieval_scorer("ndcg_at_k")
        expected = ndcg_at_k(model.transform(ROUND), DEGREES, label_distance=said)
        assert scorer(model, ROUND, DEGREES) == pytest.approx(expected)
        same(clone(model).fit(ROUND, DEGREES), model)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cosine", "euclidean"),
        (("angular", 360), ("angular", 180)),
        (jaccard, "jaccard"),
        (jaccard, cdist),
        (("metric", jaccard), ("metric", cdist)),
        (lambda a, b: 0, lambda a, b: 0),
    ],
)
def test_two_that_contradict_each_other_are_refused(one, other):
    loss, sampler = losses.LogRatio(label_distance=one), DenseTriplet(label_distance=other)
    for parts in ({"label_distance": other}, {"sampler": sampler}):
        with pytest.raises(ValueError, match="label_distance is given twice"):
            EmbeddingLearner(loss, **parts).fit(X, BINARY)


@pytest.mark.parametrize(
    ("one", "other", "labels"),
    [
        ("cosine", "".join("cosine"), np.c_[DEGREES, DEGREES[::-1]]),
        (("angular", 360), ("angular", 360.0), DEGREES),
    ],
)
def test_two_that_are_equal_agree(one, other, labels):
    sampler = DenseTriplet(4, 5, label_distance=other)
    model = EmbeddingLearner(losses.LogRatio(label_distance=one), None, sampler, max_epochs=1)
    assert model.fit(np.c_[DEGREES, DEGREES**2], labels).n_iter_ == 1


def test_metrics_that_contradict_the_learner_are_refused():
    model = learner("jaccard", judge=None)
    for call in (
        lambda: cross_validate_retrieval(model, X, SETS, folds=2, label_distance=jaccard),
        lambda: retrieval_scorer("spearman", label_distance="cosine")(model.fit(X, SETS), X, SETS),
    ):
        with pytest.raises(ValueError, match="label_distance is given twice: the estimator has"):
            call()


@pytest.mark.parametrize("loss", [losses.Triplet(), losses.NCA(), losses.MLKR()], ids=str)
def test_losses_that_compare_no_label_distances(loss):
    labels = DEGREES if isinstance(loss, losses.MLKR) else np.arange(N) % 3
    with pytest.raises(ValueError, match=r"label_distance must be None with .* LogRatio"):
        EmbeddingLearner(loss, label_distance="cosine").fit(X, labels)


def test_the_default_of_a_loss_reaches_sampler_and_score():
    labels = RNG.normal(size=(N, 3)) * [1, 1, 10]
    seen = []

    class Watched(DenseTriplet):
        def prepare(self, y, **how):
            seen.append(self.label_distance(y[:1], y)[0])
            return super().prepare(y, **how)

    for loss, name in ((losses.RankNContrast(), "cityblock"), (losses.LogRatio(), "euclidean")):
        model = EmbeddingLearner(loss, Linear(2), Watched(2, 20), max_epochs=1, random_state=0)
        Z = model.fit(X, labels).transform(X)
        np.testing.assert_allclose(seen.pop(), cdist(labels[:1], labels, name)[0])
        expected = -mean_label_distance_at_k(Z, labels, k=10, label_distance=name)
        assert model.score(X, labels) == pytest.approx(expected)


def test_a_loss_of_ones_own_sees_the_labels():
    seen = []

    def loss(Z, y, *arrays, **how):
        seen.append(y)
        return float((Z**2).sum()), 2 * Z

    loss.labels, loss.label_distance = "continuous", None
    for _ in range(2):
        EmbeddingLearner(loss, max_epochs=1, label_distance="jaccard").fit(X, SETS)
    assert all(any(label is one for one in SETS) for label in np.concatenate(seen))


@every_kind
def test_labels_of_any_kind_in_parts(kind, tmp_path):
    make, said = KINDS[kind]
    model = learner(said, judge=None)
    model.partial_fit(X, make(tmp_path)).partial_fit(X, make(tmp_path))
    alike = BINARY[:1].repeat(9, axis=0) if kind == "rows" else [SETS[0]] * 9
    if said == "precomputed":
        alike = np.zeros((9, 9))
    with pytest.warns(UserWarning, match="All labels of this call are the same"):
        model.partial_fit(X[:9], alike)


@pytest.mark.parametrize("loss", OF_LABELS, ids=str)
def test_every_loss_of_labels(loss):
    sampler = DenseTriplet(3, 20, all_anchors=True)
    models = [
        EmbeddingLearner(
            loss, Linear(2), sampler, max_epochs=2, random_state=0, label_distance=said
        ).fit(X, labels)
        for said, labels in (("jaccard", SETS), ("precomputed", MATRIX))
    ]
    same(*models)


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
@pytest.mark.parametrize("database", ["batch", "all"])
@pytest.mark.filterwarnings("ignore:L-BFGS stopped")
def test_every_way_to_train(solver, database):
    for embedding in (Linear(2), Asymmetric(Linear(2), Linear(2))):
        models = [
            EmbeddingLearner(
                losses.RankNContrast(), embedding, Uniform(20) if solver == "adam" else None,
                solver=solver, database=database,
                max_epochs=2, random_state=0, label_distance=said,
            ).fit(X, labels)
            for said, labels in (("jaccard", SETS), ("precomputed", MATRIX))
        ]  # fmt: skip
        same(*models)


def test_a_kernel_around_a_learner_of_sets():
    wrapper = KernelizedMetricLearner(learner("jaccard", judge=None), n_components=5)
    found = cross_validate_retrieval(wrapper, X, SETS, folds=2, k=3, random_state=0)
    assert list(found) == ["ndcg_at_k", "mean_label_distance_at_k", "spearman"]


def test_searches_take_sets_and_rows_of_a_matrix():
    search = GridSearchCV(learner("jaccard", judge=None, max_epochs=1), {"n_anchors": [1, 2]}, cv=2)
    assert search.fit(X, SETS).best_score_ < 0
    by_row = GridSearchCV(
        learner(lambda a, b: MATRIX[np.ix_(a, b)], judge=None, max_epochs=1),
        {"n_anchors": [1, 2]}, cv=2,
    )  # fmt: skip
    assert by_row.fit(X, np.arange(N)).best_score_ == pytest.approx(search.best_score_)
    with pytest.raises(ValueError, match=r"of shape \(30, 30\); found \(30, 60\)"):
        clone(search).set_params(estimator__label_distance="precomputed", error_score="raise").fit(
            X, MATRIX
        )


def test_checkpoints_tell_labels_apart(tmp_path):
    model = learner("jaccard", judge=None, callbacks=[Checkpoint(tmp_path / "it")]).fit(X, SETS)
    again = [set(sorted(label)[::-1]) for label in SETS]  # noqa: C415
    more = configured(model, max_epochs=4).fit(X, again)
    same(more, learner("jaccard", judge=None, max_epochs=4).fit(X, SETS))
    with pytest.raises(ValueError, match="other data"):
        clone(model).fit(X, SETS[::-1])
    matrix = learner("precomputed", judge=None, callbacks=[Checkpoint(tmp_path / "of")]).fit(
        X, MATRIX
    )
    with pytest.raises(ValueError, match="other data"):
        matrix.fit(X, MATRIX**2)


def test_a_model_file_keeps_what_was_said(tmp_path):
    model = LogRatioLearner(2, max_epochs=1, random_state=0, label_distance=("angular", 360))
    metricfast.save(model.fit(ROUND, DEGREES), tmp_path / "model")
    loaded = metricfast.load(tmp_path / "model")
    assert loaded.label_distance == ("angular", 360)
    np.testing.assert_array_equal(loaded.transform(ROUND), model.transform(ROUND))


@pytest.mark.parametrize(
    ("said", "labels", "message"),
    [
        ("jaccard", SETS[:-1], "y must hold 60 labels, one per point; found 59"),
        ("jaccard", [SETS[0]] * N, "y must not be constant: all labels are at distance 0"),
        ("precomputed", MATRIX[:, :9], r"of shape \(60, 60\); found \(60, 9\)"),
        ("precomputed", -MATRIX, "finite distances, from 0 on"),
        (jaccard, None, "requires y to be passed"),
    ],
)
def test_labels_that_do_not_fit(said, labels, message):
    with pytest.raises(ValueError, match=message):
        learner(said).fit(X, labels)


@pytest.mark.filterwarnings("ignore:The distance that")
def test_validation_is_by_the_label_distance():
    found = [
        learner(said, judge=None).fit(X, make(None), validate=True).validation_
        for make, said in (KINDS["sets"], KINDS["matrix"])
    ]
    np.testing.assert_allclose(found[0].costs, found[1].costs)
    assert found[0].measure == "label_distance" and found[0].n_held_out == 12
    assert 0 < found[0].costs[0] < 1
    of_classes = TripletLearner(2, max_epochs=1, random_state=0).fit(X, BINARY[:, 1], validate=True)
    assert of_classes.validation_.measure == "neighbors"
    with pytest.warns(UserWarning, match="LogRatioLearner learned is worse"):
        learner("jaccard", judge=None, learning_rate=1e-9, n_components=1).fit(
            X, SETS, validate=True
        )
