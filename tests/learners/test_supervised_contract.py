"""The contract of the supervised learners that have no choice of solver."""

from __future__ import annotations

import pickle
import warnings
from inspect import signature

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import has_fit_parameter

from metricfast import (
    DMLMJ,
    NCMML,
    BaseMetricLearner,
    KernelizedMetricLearner,
    MahalanobisMixin,
    learners,
)

X, Y = load_iris(return_X_y=True)
WEIGHT = np.linspace(0.5, 2, len(X))
QUICK = {
    "ANMM": {"n_components": 2},
    "MMC_Supervised": {"max_iter": 20},
    "NCMML": {"tol": 1e-3},
    "RCA_Supervised": {"n_chunks": 30},
    "SCML_Supervised": {"n_basis": 60, "max_iter": 500, "output_iter": 100},
}


def make(learner: type[BaseMetricLearner]) -> BaseMetricLearner:
    estimator = learner(**QUICK.get(learner.__name__, {}))
    return estimator.set_params(random_state=0) if hasattr(estimator, "random_state") else estimator


LINEAR = [
    make(learner)
    for learner in (getattr(learners, name) for name in learners.__all__)
    if issubclass(learner, MahalanobisMixin)
    and not isinstance(learner._tuple_size, int)
    and "solver" not in signature(learner).parameters
]
# The others need no labels (Covariance), or chunks in their place (RCA).
OF_CLASSES = [each for each in LINEAR if type(each).__name__ not in ("Covariance", "RCA")]
# The steps of SCML are drawn by chance, and rounding tells which directions it has.
EXACT = [each for each in LINEAR if type(each).__name__ != "SCML_Supervised"]
PARTIAL = [make(getattr(learners, n)) for n in learners.__all__ if n.endswith("_Supervised")]
KERNELIZED = [
    KernelizedMetricLearner(DMLMJ(), n_components=20, random_state=0),
    KernelizedMetricLearner(NCMML(tol=1e-3), kernel="poly", n_components=20, method="kpca"),
]
ANCHORS = "weights are those of anchors: a repeated point is its own nearest neighbour"
DRAWN = "weights count points of the constraints, which are drawn regardless of them"
CHANCES = "weights are chances of points to be drawn"
EXPECTED_FAILURES = {
    (name, "check_sample_weight_equivalence_on_dense_data"): reason
    for name, reason in {
        "ANMM": ANCHORS,
        "DMLMJ": ANCHORS,
        "ITML_Supervised": CHANCES,
        "KernelizedMetricLearner": "weights have no effect on the map of the kernel",
        "LSML_Supervised": CHANCES,
        "MMC_Supervised": CHANCES,
        "RCA_Supervised": DRAWN,
        "SCML_Supervised": ANCHORS,
        "SDML_Supervised": CHANCES,
        "RCA": "labels are called `chunks`",
    }.items()
} | {("RCA", "check_fit_score_takes_y"): "the second argument is called `chunks`"}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
every_estimator = pytest.mark.parametrize("estimator", LINEAR + KERNELIZED, ids=str)
every_linear = pytest.mark.parametrize("estimator", LINEAR, ids=str)
every_weighted = pytest.mark.parametrize(
    "estimator", [e for e in LINEAR + KERNELIZED if has_fit_parameter(e, "sample_weight")], ids=str
)
every_of_classes = pytest.mark.parametrize("estimator", OF_CLASSES, ids=str)


def checks():
    # Some checks have data of one feature, and few points.
    for estimator in [*(type(each)() for each in LINEAR), *KERNELIZED]:
        for checked, check in estimator_checks_generator(estimator, mark="skip"):
            name = check.func.__name__
            # Array API input needs an environment variable; the learners do not claim to take it.
            if name != "check_array_api_input":
                reason = EXPECTED_FAILURES.get((type(estimator).__name__, name))
                marks = pytest.mark.xfail(reason=reason) if reason else ()
                yield pytest.param(checked, check, marks=marks, id=f"{estimator}-{name}")


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@every_estimator
def test_fit_transform_and_distances_agree(estimator):
    model = clone(estimator)
    assert model.fit(X, Y) is model
    assert model.n_features_in_ == 4
    embedded = model.transform(X)
    expected = np.linalg.norm(embedded[:20] - embedded[130:], axis=1)
    pairs = np.stack((X[:20], X[130:]), axis=1)
    np.testing.assert_allclose(model.pair_distance(pairs), expected, rtol=1e-9)
    np.testing.assert_allclose(model.pair_score(pairs), -expected, rtol=1e-9)
    metric = pickle.loads(pickle.dumps(model.get_metric()))
    assert metric(X[0], X[130]) == pytest.approx(expected[0], rel=1e-6)
    assert metric(X[0], X[130], squared=True) == pytest.approx(expected[0] ** 2, rel=1e-6)


@every_estimator
def test_pickle_and_clone(estimator):
    model = clone(estimator).fit(X, Y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(X), model.transform(X))
    fresh = clone(model)
    assert str(fresh.get_params()) == str(model.get_params())
    assert not hasattr(fresh, "components_")
    assert not hasattr(fresh, "learner_")


@every_estimator
def test_output_frames_and_names(estimator):
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = clone(estimator).set_output(transform="pandas").fit(frame, Y)
    embedded = model.transform(frame)
    names = [f"{type(estimator).__name__.lower()}{i}" for i in range(embedded.shape[1])]
    assert list(embedded.columns) == list(model.get_feature_names_out()) == names
    assert list(model.feature_names_in_) == list("abcd")


@every_estimator
def test_preprocessor_forms_the_points(estimator):
    index = np.arange(len(X))[::-1]
    expected = clone(estimator).fit(X[index], Y[index]).transform(X)
    model = clone(estimator).set_params(preprocessor=X).fit(index, Y[index])
    np.testing.assert_array_equal(model.transform(np.arange(len(X))), expected)
    assert model.pair_distance(np.array([[0, 1]])).shape == (1,)


@every_estimator
def test_float32_is_kept(estimator):
    narrow, labels = X.astype(np.float32), Y.copy()
    for array in (narrow, labels):
        array.flags.writeable = False
    found = clone(estimator).fit(narrow, labels).transform(narrow)
    assert found.dtype == np.float32
    assert clone(estimator).fit(X, Y).transform(X).dtype == np.float64


@pytest.mark.parametrize("estimator", EXACT, ids=str)
def test_float32_finds_the_same_metric(estimator):
    M = clone(estimator).fit(X, Y).get_mahalanobis_matrix()
    narrow = clone(estimator).fit(X.astype(np.float32), Y)
    assert narrow.components_.dtype == np.float32
    size = np.abs(M).max()
    np.testing.assert_allclose(narrow.get_mahalanobis_matrix(), M, atol=0.03 * size)


@pytest.mark.parametrize("estimator", OF_CLASSES + KERNELIZED, ids=str)
def test_labels_of_any_kind(estimator):
    expected = clone(estimator).fit(X, Y).transform(X)
    shift = 7 if estimator._partial_labels else -7
    for labels in (np.array(["x", "y", "z"])[Y], Y + shift, np.array([0.0, 2.0, 5.0])[Y], list(Y)):
        np.testing.assert_array_equal(clone(estimator).fit(X, labels).transform(X), expected)


@pytest.mark.parametrize("estimator", PARTIAL, ids=str)
@pytest.mark.filterwarnings("ignore:The distance that:UserWarning")
def test_points_of_unknown_class_play_no_part(estimator):
    def scores(points, labels, **params):
        model = clone(estimator).fit(points, labels, **params)
        found = model.pair_score(np.stack((X[:20], X[130:]), axis=1))
        return model, found / np.abs(found).max()

    weighted = {"sample_weight": WEIGHT} if has_fit_parameter(estimator, "sample_weight") else {}
    known, expected = scores(X, Y, validate=True)
    _, expected_weighted = scores(X, Y, **weighted)
    points, labels = np.r_[X, X[:40] * 3], np.r_[Y, np.repeat([-1, -7], 20)]
    for kind in (int, float):
        model, found = scores(points, labels.astype(kind), validate=True)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
        assert model.validation_ == known.validation_
    weighted = {name: np.r_[weight, np.full(40, 9.0)] for name, weight in weighted.items()}
    _, found = scores(points, labels, **weighted)
    np.testing.assert_allclose(found, expected_weighted, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="labels below 0 mean that the class is unknown"):
        clone(estimator).fit(X, np.where(Y == 0, -1, 1))


@every_weighted
def test_weights_count(estimator):
    plain = clone(estimator).fit(X, Y).transform(X)
    weighted = clone(estimator).fit(X, Y, sample_weight=WEIGHT).transform(X)
    assert weighted.shape != plain.shape or not np.allclose(weighted, plain)
    equal = clone(estimator).fit(X, Y, sample_weight=np.full(150, 2.5)).transform(X)
    np.testing.assert_allclose(equal, plain, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    "estimator", [each for each in LINEAR if has_fit_parameter(each, "sample_weight")], ids=str
)
def test_metadata_routing(estimator):
    weighted = clone(estimator).fit(X, Y, sample_weight=WEIGHT)
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(estimator).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(model, KNeighborsClassifier()).fit(X, Y, sample_weight=WEIGHT)
    np.testing.assert_array_equal(pipeline[0].components_, weighted.components_)


@every_estimator
def test_grid_search(estimator):
    step = type(estimator).__name__.lower()
    pipeline = make_pipeline(clone(estimator), KNeighborsClassifier(3))
    search = GridSearchCV(pipeline, {f"{step}__n_components": [2, 3]}, cv=3).fit(X, Y)
    assert search.best_score_ > 0.9


@every_of_classes
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, np.zeros(150)), "class"),
        ((X, Y, np.ones(149)), "sample_weight"),
        ((X, Y, -WEIGHT), "sample_weight"),
        ((X, X[:, 0]), "continuous"),
        ((np.full((150, 4), np.nan), Y), "NaN"),
        ((X[:, 0], Y), "2D array of formed points expected"),
    ],
    ids=["one class", "short weights", "negative weights", "continuous y", "NaN", "1D"],
)
def test_bad_data(estimator, arguments, message):
    points, labels, *weight = arguments
    params = {"sample_weight": weight[0]} if weight else {}
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(points, labels, **params)


@every_of_classes
@pytest.mark.filterwarnings("ignore:The distance that:UserWarning")
def test_validation(estimator):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = clone(estimator).fit(X, Y, validate=True).validation_
    warned = any("serves worse" in str(w.message) for w in caught)
    assert found["n_held_out"] == 30
    assert warned == (found["learned"] > found["euclidean"])


@every_linear
def test_threads_do_not_change_the_result(estimator):
    if "n_jobs" in estimator.get_params():
        one, two = (clone(estimator).set_params(n_jobs=n).fit(X, Y).components_ for n in (1, 2))
        np.testing.assert_array_equal(one, two)
