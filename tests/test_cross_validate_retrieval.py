"""Folds with disjoint labels, and scores of learners on them."""

import itertools
import pickle

import numpy as np
import pytest
from scipy.sparse import bsr_array, coo_array, csr_array
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from trained import embedding_learner

from metricfast import LFDA, MLKR, KernelizedMetricLearner, LogRatioLearner, metrics
from metricfast.embeddings import Asymmetric, Linear
from metricfast.losses import NCA
from metricfast.metrics import (
    cross_validate_retrieval,
    label_disjoint_folds,
    retrieval_report,
    retrieval_scorer,
)

RNG = np.random.default_rng(0)
LABELS = {
    "classes": RNG.integers(0, 10, 200),
    "words": RNG.choice(list("abcdefg"), 200),
    "numbers": RNG.normal(size=200),
    "ties": np.where(RNG.random(200) < 0.6, 0.5, RNG.integers(0, 9, 200) / 9),
    "vectors": RNG.normal(size=(200, 3)) * [1, 100, 0],
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("random_state", [None, 3])
def test_folds_share_no_label_and_cover_all(kind, random_state):
    y = LABELS[kind]
    folds = label_disjoint_folds(y, 4, random_state=random_state)
    assert len(folds) == 4
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in folds])), range(200))
    for train, test in folds:
        assert len(test) > 0
        np.testing.assert_array_equal(np.union1d(train, test), range(200))
        seen = {tuple(np.atleast_1d(label)) for label in y[train]}
        assert not seen & {tuple(np.atleast_1d(label)) for label in y[test]}


NUMBERS = LogRatioLearner(2, max_epochs=1, random_state=0)


@pytest.mark.filterwarnings("ignore:L-BFGS stopped")
@pytest.mark.parametrize(
    "estimator",
    [
        NUMBERS,
        make_pipeline(StandardScaler(), NUMBERS),
        GridSearchCV(NUMBERS, {"max_epochs": [1]}, cv=2),
        MLKR(max_iter=2, random_state=0),
        KernelizedMetricLearner(MLKR(max_iter=2, random_state=0), random_state=0),
        PLSRegression(2),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_estimator_knows_that_whole_numbers_are_no_classes(estimator):
    X = RNG.normal(size=(60, 3))
    y = (10 * X[:, 0]).round() + np.tile([0.0, 1.0], 30)
    found = cross_validate_retrieval(estimator, X, y, folds=2, k=3)
    assert set(found) == {"ndcg_at_k", "mean_label_distance_at_k", "spearman"}
    expected = cross_validate_retrieval(estimator, X, y, folds=2, k=3, continuous=True)
    np.testing.assert_array_equal(found["ndcg_at_k"].values, expected["ndcg_at_k"].values)
    as_classes = cross_validate_retrieval(PCA(2), X, y, folds=2, k=3)
    assert "map_at_r" in as_classes


def test_blocks_of_numbers_are_contiguous_and_of_one_size():
    y = LABELS["numbers"]
    tests = [test for _, test in label_disjoint_folds(y, 4)]
    assert [len(test) for test in tests] == [50] * 4
    for lower, upper in itertools.pairwise(tests):
        assert y[lower].max() < y[upper].min()


@pytest.mark.parametrize("heavy", [0, 1, 2])
def test_a_label_larger_than_a_block_leaves_one_to_each_fold(heavy):
    y = np.repeat([0.1, 0.2, 0.3], [50 if i == heavy else 1 for i in range(3)])
    folds = label_disjoint_folds(y, 3)
    assert sorted(len(test) for _, test in folds) == [1, 1, 50]


def test_folds_repeat_with_a_seed():
    for y in (LABELS["classes"], LABELS["vectors"]):
        first, second = (label_disjoint_folds(y, 3, random_state=1) for _ in range(2))
        for (_, a), (_, b) in zip(first, second, strict=True):
            np.testing.assert_array_equal(a, b)


def test_more_folds_than_labels_are_refused():
    with pytest.raises(ValueError, match="continuous must be None, True or False"):
        label_disjoint_folds([1, 2, 3], 2, continuous="yes")
    with pytest.raises(ValueError, match="y must hold one class per point, or numbers"):
        label_disjoint_folds(["a", "b", "c"], 2, continuous=True)
    with pytest.raises(ValueError, match="n_splits must be from 2 to 3"):
        label_disjoint_folds([0, 1, 2, 0], 4)
    with pytest.raises(ValueError, match="n_splits must be from 2 to 3"):
        label_disjoint_folds([0, 1, 2, 0], 1)


@pytest.mark.parametrize("kind", ["classes", "numbers", "vectors"])
def test_each_fold_is_fitted_on_the_others_and_searched_in_itself(kind):
    X, y = RNG.normal(size=(200, 5)), LABELS[kind]
    folds = label_disjoint_folds(y, 4, random_state=0)
    found = cross_validate_retrieval(PCA(2), X, y, folds=4, random_state=0, k=4)
    for i, (train, test) in enumerate(folds):
        Z = PCA(2).fit(X[train]).transform(X[test])
        for name, score in retrieval_report(Z, y[test], k=4).items():
            assert found[name].values[i] == pytest.approx(score.mean, rel=1e-12)
        for name, score in retrieval_report(X[test], y[test], k=4).items():
            assert found.untrained[name].values[i] == pytest.approx(score.mean, rel=1e-12)
    name = next(iter(found))
    assert found[name].mean == pytest.approx(found[name].values.mean())
    assert found[name].interval[0] < found[name].mean < found[name].interval[1]


def test_folds_may_be_given():
    X, y = load_iris(return_X_y=True)
    folds = KFold(3, shuffle=True, random_state=0).split(X)
    found = cross_validate_retrieval(LFDA(n_components=2), X, y, folds=folds, metrics="map_at_r")
    assert len(found["map_at_r"].values) == 3
    for wrong in (-1, 2.5, "x", None):
        with pytest.raises(ValueError, match="folds must be an integer of at least 2"):
            cross_validate_retrieval(PCA(1), X, y, folds=wrong)
    with pytest.raises(ValueError, match="folds must hold at least one"):
        cross_validate_retrieval(LFDA(), X, y, folds=[])
    for wrong in ([[1], [2]], [(0, 1)], [([0], [150])], [([0.5], [1])], [1]):
        with pytest.raises(ValueError, match=r"folds must hold pairs \(train, test\) of indices"):
            cross_validate_retrieval(LFDA(), X, y, folds=wrong)
    with pytest.raises(TypeError, match="estimator must have `fit` and `transform`"):
        cross_validate_retrieval((), X, y)


def test_a_learner_is_not_changed_and_sees_no_test_label():
    X, y = load_digits(return_X_y=True)
    seen = []

    class Watching(FunctionTransformer):
        def fit(self, X, y=None):
            seen.append(set(y))
            return super().fit(X)

    learner = Watching()
    found = cross_validate_retrieval(learner, X[:400], y[:400], metrics="r_precision")
    assert not hasattr(learner, "n_features_in_")
    assert [len(classes) for classes in seen] == [8] * 5
    np.testing.assert_allclose(
        found["r_precision"].values, found.untrained["r_precision"].values, rtol=1e-12
    )


DOZEN = np.arange(12) % 4


@pytest.mark.parametrize(
    ("X", "y", "folds", "error", "text"),
    [
        (len, DOZEN, 2, TypeError, "X must be a table of points"),
        (np.ones((3, 2)), DOZEN, 2, ValueError, "X and y must be as long as each other; found 3"),
        (np.ones((12, 2)), DOZEN, len, ValueError, "n_splits must be an integer"),
        (np.ones((12, 2)), np.full((12, 1), "a"), 2, ValueError, "y must hold one class per point"),
        (np.ones((12, 2)), ["a", *DOZEN[1:]], 2, ValueError, "y must hold classes"),
    ],
)
def test_wrong_arguments_are_named(X, y, folds, error, text):
    with pytest.raises(error, match=text):
        cross_validate_retrieval(PCA(1), X, y, folds=label_disjoint_folds(y, folds))


def test_sparse_points_in_any_form():
    X = load_iris().data
    found = [
        cross_validate_retrieval(
            TruncatedSVD(2, random_state=0), form(X), X[:, 0], folds=2, metrics="spearman"
        )["spearman"].mean
        for form in (csr_array, coo_array, bsr_array)
    ]
    assert found[0] == found[1] == found[2]
    damaged = csr_array(X)
    damaged.indptr[75] = 10**6
    with pytest.raises(ValueError, match="X is a damaged sparse matrix"):
        cross_validate_retrieval(TruncatedSVD(2), damaged, X[:, 0])


def test_sparse_points_have_no_untrained_scores():
    X, y = csr_array(RNG.random((60, 20))), np.arange(60) % 6
    found = cross_validate_retrieval(TruncatedSVD(3), X, y, folds=3, metrics="map_at_r")
    assert found.untrained == {}
    assert 0 < found["map_at_r"].mean < 1


def test_a_scorer_serves_model_selection():
    X, y = load_iris(return_X_y=True)
    scorer = pickle.loads(pickle.dumps(retrieval_scorer("recall_at_k", k=2)))
    found = cross_val_score(LFDA(n_components=2), X, y, scoring=scorer)
    assert (found > 0.8).all()
    fitted = PCA(2).fit(X)
    lower = retrieval_scorer("mean_label_distance_at_k", k=3)(fitted, X, y)
    assert lower == -metrics.mean_label_distance_at_k(fitted.transform(X), y, k=3)
    with pytest.raises(ValueError, match="metrics must be among"):
        retrieval_scorer("accuracy")


def test_both_sides_of_an_asymmetric_embedding_are_asked_for():
    X, y = load_iris(return_X_y=True)
    sides = Asymmetric(Linear(2), Linear(2))
    learner = embedding_learner(NCA(reduction="mean"), sides, max_epochs=3)
    fitted = learner.fit(X, y)
    U, V = fitted.transform(X), fitted.transform(X, side="database")
    assert not np.allclose(U, V)
    own = np.arange(len(X))
    expected = retrieval_report(U, y, V, y, exclude=own)["map_at_r"].mean
    assert retrieval_scorer("map_at_r")(fitted, X, y) == expected
    found = cross_validate_retrieval(learner, X, y, folds=[(own, own)], metrics="map_at_r")
    assert found["map_at_r"].mean == expected


@pytest.mark.parametrize("nested", [False, True])
def test_a_pipeline_before_an_asymmetric_embedding_changes_no_score(nested):
    X, y = load_iris(return_X_y=True)
    sides = Asymmetric(Linear(2, "random"), Linear(2, "random"))
    learner = embedding_learner(NCA(reduction="mean"), sides, max_epochs=1)
    scaled = StandardScaler().fit_transform(X)
    own = np.arange(len(X))
    pipeline = make_pipeline(StandardScaler(), learner)
    if nested:
        pipeline = GridSearchCV(
            Pipeline([("all", pipeline)]), {"all": [pipeline]}, scoring=retrieval_scorer("map_at_r")
        )
    expected = cross_validate_retrieval(learner, scaled, y, folds=[(own, own)])
    found = cross_validate_retrieval(pipeline, X, y, folds=[(own, own)])
    assert {name: score.mean for name, score in found.items()} == pytest.approx(
        {name: score.mean for name, score in expected.items()}
    )
    fitted = pipeline.fit(X, y)
    score = retrieval_scorer("map_at_r")(fitted, X, y)
    assert score == pytest.approx(expected["map_at_r"].mean)
    assert score != pytest.approx(metrics.map_at_r(fitted.transform(X), y))


def test_whole_numbers_are_cut_into_blocks_for_metrics_of_continuous_labels():
    y = RNG.permutation(60)
    X = y[:, None] + RNG.normal(size=(60, 2))
    seen = []

    class Watching(FunctionTransformer):
        def fit(self, X, y=None):
            seen.append(np.setdiff1d(np.arange(60), y))
            return super().fit(X)

    def held_out(**how):
        seen.clear()
        cross_validate_retrieval(Watching(), X, y, folds=3, k=3, **how)
        return [(labels[0], labels[-1]) for labels in seen]

    blocks = [(0, 19), (20, 39), (40, 59)]
    assert held_out(metrics=["spearman", "ndcg_at_k"]) == blocks
    assert held_out(continuous=True) == blocks
    assert held_out(metrics="spearman", continuous=False) != blocks


def test_a_fold_of_one_class_is_warned_of():
    X, y = RNG.normal(size=(30, 2)), np.arange(30) % 3
    with pytest.warns(UserWarning, match="one class alone"):
        cross_validate_retrieval(LFDA(), X, y, folds=3, metrics="precision_at_1")


@pytest.mark.filterwarnings("ignore:a test fold holds one class")
def test_folds_that_leave_one_class_to_train_on_are_named():
    X, y = load_iris(return_X_y=True)
    text = "^folds leave a single class to train on: give more folds, or points of at least 4"
    with pytest.raises(ValueError, match=text):
        cross_validate_retrieval(LFDA(), X, y, folds=2)
    assert cross_validate_retrieval(LFDA(), X, y, folds=3)
    assert cross_validate_retrieval(LFDA(), X, np.arange(len(y)) % 4, folds=2)
    assert cross_validate_retrieval(PCA(1), X, y, folds=2)  # PCA needs no classes
    with pytest.raises(ValueError, match="folds must be from 2 to 3, the number of different"):
        cross_validate_retrieval(LFDA(), X, y, folds=4)
