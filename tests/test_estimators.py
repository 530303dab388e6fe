"""The contract of every learner: what scikit-learn and its users expect of an estimator."""

from __future__ import annotations

import multiprocessing
import pickle
import warnings
from inspect import signature

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from metricfast import (
    LMNN,
    NCA,
    AsymmetricSimilarity,
    EmbeddingLearner,
    ITML_Supervised,
    learners,
    losses,
)
from metricfast.learners.linear.base import LinearLearner

X, Y = load_iris(return_X_y=True)
WEIGHT = np.linspace(0.5, 2, len(X))
LEARNERS = [getattr(learners, name) for name in learners.__all__]
ESTIMATORS = [
    learner(solver=solver)
    for learner in LEARNERS
    if issubclass(learner, LinearLearner) and "solver" in signature(learner).parameters
    for solver in ("lbfgs", "sgd")
]
_ANCHORS = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "weights are those of anchors: a repeated point is its own nearest target",
)
EXPECTED_FAILURES = dict.fromkeys(
    ("LMNN", "NeighborhoodGerrymandering", "NeighborhoodGerrymanderingRegressor"), _ANCHORS
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    # The child of a fork here calls nothing but the learner.
    "ignore:This process .* is multi-threaded:DeprecationWarning",
)
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
every_classifying_estimator = pytest.mark.parametrize(
    "estimator", [e for e in ESTIMATORS if e._has_classes], ids=str
)


def checks():
    for estimator in ESTIMATORS:
        failures = EXPECTED_FAILURES.get(type(estimator).__name__, {})
        for checked, check in estimator_checks_generator(estimator, mark="skip"):
            name = check.func.__name__
            # Array API input needs an environment variable; the learners do not claim to take it.
            if name != "check_array_api_input":
                marks = pytest.mark.xfail(reason=failures[name]) if name in failures else ()
                yield pytest.param(checked, check, marks=marks, id=f"{estimator}-{name}")


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@every_estimator
def test_fit_returns_self_and_sets_the_attributes(estimator):
    model = clone(estimator)
    assert model.fit(X, Y) is model
    assert model.components_.shape == (4, 4)
    assert model.n_features_in_ == 4
    assert model.preprocessor_ is None
    assert model.n_iter_ == len(model.loss_curve_) > 0
    lowest = min(model.loss_curve_)
    if hasattr(model, "history_") and model.solver == "sgd":
        # The curve sums up batches while the map moves; what is kept is judged once more.
        lowest = pytest.approx(lowest, rel=1e-4)
    assert model.objective_ == lowest
    np.testing.assert_allclose(model.transform(X), X @ model.components_.T)


@every_estimator
def test_clone_has_the_parameters_and_no_state(estimator):
    model = clone(estimator).set_params(n_components=2, init="pca").fit(X, Y)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "components_")


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_copy_from_another_process_can_be_cloned(learner):
    """It has equal strings as parameters, not the same ones."""
    needed = {"EmbeddingLearner": [losses.NCA()], "KernelizedMetricLearner": [LMNN()]}
    made = learner(*needed.get(learner.__name__, []))
    assert repr(clone(pickle.loads(pickle.dumps(made)))) == repr(made)


def test_learners_are_values_of_a_grid_in_parallel():
    steps = Pipeline([("learner", NCA()), ("knn", KNeighborsClassifier())])
    grid = {"learner": [LMNN(max_iter=2), ITML_Supervised(n_constraints=5)]}
    search = GridSearchCV(steps, grid, cv=2, n_jobs=2, error_score="raise").fit(X, Y)
    assert search.best_score_ > 0.8


@pytest.mark.parametrize("learner", [n for n in LEARNERS if "callbacks" in signature(n).parameters])
def test_a_callback_sees_the_learner_as_of_its_iteration(learner):
    seen = []

    def look(state):
        model = state.estimator
        assert model.n_iter_ == state.iteration == len(model.loss_curve_)
        assert model.loss_curve_[-1] == state.objective
        told = [state.components] if hasattr(state, "components") else state.parameters
        own = [model.components_] if hasattr(state, "components") else model.parameters_
        for one, other in zip(own, told, strict=True):
            np.testing.assert_array_equal(one, other)
        seen.append(model.transform(X))
        if learner is AsymmetricSimilarity:
            assert len(model.predict(X)) == len(X)

    needed = [losses.NCA()] if learner is EmbeddingLearner else []
    known = signature(learner).parameters
    quick = {k: v for k, v in {"random_state": 0, "max_epochs": 3}.items() if k in known}
    model = learner(*needed, callbacks=[look], **quick).fit(X, Y)
    assert not np.array_equal(seen[0], seen[1])
    silent = learner(*needed, **quick).fit(X, Y)
    np.testing.assert_array_equal(model.transform(X), silent.transform(X))


@every_estimator
def test_pickle(estimator):
    model = clone(estimator).fit(X, Y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(X), model.transform(X))
    assert copy.get_params() == model.get_params()


@every_estimator
def test_pipeline_and_grid_search(estimator):
    pipeline = make_pipeline(
        StandardScaler(), clone(estimator).set_params(random_state=0), KNeighborsClassifier(3)
    )
    step = type(estimator).__name__.lower()
    search = GridSearchCV(pipeline, {f"{step}__n_components": [1, 3]}, cv=3).fit(X, Y)
    assert search.best_score_ > 0.9
    assert cross_val_score(pipeline, X, Y, cv=3).min() > 0.85


@every_estimator
def test_set_output_and_names(estimator):
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = clone(estimator).set_params(n_components=2).set_output(transform="pandas")
    embedded = model.fit(frame, Y).transform(frame)
    names = [f"{type(estimator).__name__.lower()}{i}" for i in range(2)]
    assert list(embedded.columns) == names
    assert list(model.get_feature_names_out()) == names
    assert list(model.feature_names_in_) == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[list("bacd")])


@every_estimator
def test_metadata_routing(estimator):
    weighted = clone(estimator).set_params(random_state=0).fit(X, Y, sample_weight=WEIGHT)
    plain = clone(estimator).set_params(random_state=0).fit(X, Y)
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(estimator).set_params(random_state=0).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(model, KNeighborsClassifier()).fit(X, Y, sample_weight=WEIGHT)
    np.testing.assert_array_equal(pipeline[0].components_, weighted.components_)
    assert not np.array_equal(plain.components_, weighted.components_)


@every_estimator
def test_preprocessor_forms_the_points(estimator):
    index = np.arange(len(X))[::-1]
    expected = clone(estimator).set_params(random_state=0).fit(X[index], Y[index])
    model = clone(estimator).set_params(random_state=0, preprocessor=X).fit(index, Y[index])
    np.testing.assert_array_equal(model.components_, expected.components_)
    assert model.pair_distance(np.array([[0, 1]])).shape == (1,)


@every_estimator
def test_nothing_given_is_modified(estimator):
    start = np.eye(4)[:2]
    given = [X, Y, WEIGHT, start]
    copies = [array.copy() for array in given]
    for array in given:
        array.flags.writeable = False
    try:
        model = clone(estimator).set_params(init=start)
        model.fit(X, Y, sample_weight=WEIGHT).transform(X)
    finally:
        for array in given:
            array.flags.writeable = True
    for array, copy in zip(given, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert model.init is start


@every_classifying_estimator
def test_labels_of_any_kind(estimator):
    model = clone(estimator).set_params(random_state=0)
    expected = model.fit(X, Y).components_
    for labels in (np.array(["x", "y", "z"])[Y], Y - 7, np.array([0.0, 2.0, 5.0])[Y], list(Y)):
        np.testing.assert_array_equal(clone(model).fit(X, labels).components_, expected)


@every_estimator
def test_repeated_rows_and_constant_columns(estimator):
    points = np.c_[np.repeat(X, 2, axis=0), np.full(300, 7.0)]
    model = clone(estimator).fit(points, np.repeat(Y, 2))
    assert np.isfinite(model.components_).all()
    assert model.objective_ < model.loss_curve_[0]


@every_estimator
@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"solver": "newton"}, ValueError, "solver must be"),
        ({"max_iter": 0}, ValueError, "max_iter must be"),
        ({"max_iter": 2.5}, ValueError, "max_iter must be"),
        ({"max_epochs": 0}, ValueError, "max_epochs must be"),
        ({"batch_size": 0}, ValueError, "batch_size must be"),
        ({"learning_rate": 0}, ValueError, "learning_rate must be a number above 0"),
        ({"learning_rate": np.inf}, ValueError, "learning_rate must be"),
        ({"n_jobs": 2**40}, ValueError, "n_jobs must be at most"),
        ({"callbacks": 3}, TypeError, "callbacks must be several functions"),
        ({"init": np.ones(4)}, ValueError, "`init` is not a linear map: Expected 2D"),
        ({"learning_rate": np.nan}, ValueError, "learning_rate must be"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be"),
        ({"callbacks": ["print"]}, TypeError, "callbacks must be"),
        ({"n_components": 5}, ValueError, "n_components"),
        ({"init": "zero"}, ValueError, "init"),
    ],
    ids=str,
)
def test_bad_parameters(estimator, params, error, message):
    with pytest.raises(error, match=message):
        clone(estimator).set_params(**params).fit(X, Y)


@every_classifying_estimator
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, np.zeros(150)), "class"),
        ((X, Y, np.ones(149)), "sample_weight"),
        ((X, Y, -WEIGHT), "sample_weight"),
        ((X, Y, np.zeros(150)), "sample_weight"),
        ((X, Y, np.full(150, 1e160)), "largest sample_weight"),
        ((X, X[:, 0]), "continuous"),
    ],
    ids=[
        "one class",
        "short weights",
        "negative weights",
        "zero weights",
        "huge weights",
        "continuous y",
    ],
)
def test_bad_data(estimator, arguments, message):
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(*arguments)


def fit_and_compare(estimator, expected) -> None:
    found = clone(estimator).fit(X, Y).components_
    raise SystemExit(0 if np.array_equal(found, expected) else 1)


@every_estimator
def test_a_forked_child_works_after_use_in_the_parent(estimator):
    estimator = clone(estimator).set_params(random_state=0, n_jobs=2, max_epochs=2)
    expected = clone(estimator).fit(X, Y).components_
    child = multiprocessing.get_context("fork").Process(
        target=fit_and_compare, args=(estimator, expected)
    )
    child.start()
    child.join(60)
    if child.is_alive():
        child.kill()
    assert child.exitcode == 0


@every_estimator
def test_convergence_is_reported(estimator):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clone(estimator).set_params(max_iter=2, max_epochs=2).fit(X, Y)
    warned = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    assert warned == (estimator.solver == "lbfgs")
