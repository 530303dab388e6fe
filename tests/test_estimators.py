"""The estimator contract of scikit-learn, for every learner."""

from __future__ import annotations

import multiprocessing
import pickle
import warnings
from inspect import signature

import numpy as np
import pytest
import sklearn
from registry import REGISTRY, data_for, entry_of, learners, make, of_points
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import has_fit_parameter
from trained import configured

import metricfast as mf
from metricfast.learners.embedding.metric import EmbeddedMetricMixin
from metricfast.learners.linear import LinearLearner

X, Y = load_iris(return_X_y=True)
WEIGHT = np.linspace(0.5, 2, len(X))
PAIRS = np.stack((X[:20], X[130:]), axis=1)


def solves(learner: type) -> bool:
    return issubclass(learner, LinearLearner) and "solver" in signature(learner).parameters


SOLVED = {
    solver: [make(each, quick=False, solver=solver) for each in of_points() if solves(each)]
    for solver in ("lbfgs", "adam")
}
MAPS = [
    make(each) for each in of_points() if issubclass(each, mf.MahalanobisMixin) and not solves(each)
]
KERNEL = mf.KernelizedMetricLearner(mf.DMLMJ(), n_components=20, random_state=0)
KERNELIZED = [
    KERNEL,
    mf.KernelizedMetricLearner(
        mf.NCMML(tol=1e-3), kernel="poly", n_components=20, method="kpca", random_state=0
    ),
]
EMBEDDING = [
    *(make(each) for each in of_points() if issubclass(each, EmbeddedMetricMixin)),
    make(mf.EmbeddingLearner, solver="lbfgs"),
]
BY_SOLVER = SOLVED["lbfgs"] + SOLVED["adam"]
# For checks that do not depend on convergence.
BRIEF = {"max_iter": 10, "max_epochs": 2, "judge": None}
ESTIMATORS = [*(configured(each, **BRIEF) for each in BY_SOLVER), *MAPS, *KERNELIZED]
# For checks that do not depend on the solver.
ONE_EACH = [*(make(type(each)) for each in SOLVED["lbfgs"]), *MAPS, KERNEL]
WEIGHTED = [each for each in ESTIMATORS if has_fit_parameter(each, "sample_weight")]
# The steps of SCML are random, and its bases depend on rounding.
EXACT = [each for each in MAPS if type(each).__name__ != "SCML_Supervised"]

# Checks whose result depends on the learner and its parameters. The remaining checks run for one
# learner of each group with the same `fit`.
OF_SPARSE = "check_sample_weight_equivalence_on_sparse_data"
OF_TRAINING = {
    *("check_sample_weight_equivalence_on_dense_data", OF_SPARSE),
    *("check_fit_idempotent", "check_transformer_general"),
}

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    # Forked child processes here only call the learner.
    "ignore:This process .* is multi-threaded:DeprecationWarning",
)
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
one_each = pytest.mark.parametrize("estimator", ONE_EACH, ids=str)
every_solver = pytest.mark.parametrize("estimator", BY_SOLVER, ids=str)
every_learner = pytest.mark.parametrize("learner", learners(), ids=lambda each: each.__name__)


def test_every_learner_is_in_the_registry():
    assert set(REGISTRY) == set(mf.learners.__all__)


@every_learner
def test_a_learner_that_is_trained_has_all_parameters_of_training(learner):
    """Common tests set these parameters."""
    taken = signature(learner).parameters
    if "solver" in taken:
        names = {"callbacks", "early_stopping", "n_jobs", "preprocessor", "random_state", "verbose"}
        assert names | {"warm_start"} <= taken.keys()


def checks():
    seen = set()
    # Some checks use data with one feature or few points.
    brief = {mf.SCML_Supervised: {"max_iter": 500, "output_iter": 100}}
    maps = [type(each)(**brief.get(type(each), {})) for each in MAPS]
    maps.append(mf.MMC_Supervised(diagonal=True))
    quick = [make(type(each), solver=each.solver) for each in BY_SOLVER]
    for estimator in [*quick, *maps, *KERNELIZED, *EMBEDDING, make(mf.OASIS_Supervised)]:
        fails = entry_of(estimator).fails
        for checked, check in estimator_checks_generator(estimator, mark="skip"):
            name = check.func.__name__
            # Array API input needs an environment variable, and the learners do not support it.
            repeated = type(estimator) in seen and name not in OF_TRAINING
            if name == "check_array_api_input" or repeated:
                continue
            marks = [pytest.mark.xfail(reason=fails[name])] if name in fails else []
            shared = estimator.fit.__qualname__ in seen and name not in OF_TRAINING
            # What is known to fail finds no fault; of sparse points these maps make an array.
            if shared or name in fails or (name == OF_SPARSE and estimator in maps[1:]):
                marks.append(pytest.mark.exhaustive)
            yield pytest.param(checked, check, marks=marks, id=f"{estimator}-{name}")
        seen |= {type(estimator), estimator.fit.__qualname__}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@every_estimator
def test_fit_transform_and_distances_agree(estimator):
    model = clone(estimator)
    assert model.fit(X, Y) is model
    assert model.n_features_in_ == 4
    assert model.preprocessor_ is None
    embedded = model.transform(X)
    expected = np.linalg.norm(embedded[:20] - embedded[130:], axis=1)
    np.testing.assert_allclose(model.pair_distance(PAIRS), expected, rtol=1e-9)
    np.testing.assert_allclose(model.pair_score(PAIRS), -expected, rtol=1e-9)
    metric = pickle.loads(pickle.dumps(model.get_metric()))
    assert metric(X[0], X[130]) == pytest.approx(expected[0], rel=1e-6)
    assert metric(X[0], X[130], squared=True) == pytest.approx(expected[0] ** 2, rel=1e-6)


@every_solver
def test_the_curve_tells_the_objective(estimator):
    model = clone(estimator)
    if isinstance(model, mf.NeighborhoodGerrymandering):  # its map changes much in few epochs
        model.set_params(judge=None)
    model.fit(X, Y)
    assert model.n_iter_ == len(model.loss_curve_) > 0
    lowest = min(model.loss_curve_)
    if hasattr(model, "history_") and model.solver != "lbfgs":
        # The curve sums over batches while the map changes; the final map is evaluated again.
        lowest = pytest.approx(lowest, rel=1e-4)
    assert model.objective_ == lowest
    np.testing.assert_allclose(model.transform(X), X @ model.components_.T)


@every_learner
def test_a_copy_from_another_process_can_be_cloned(learner):
    """Its string parameters are equal to the originals, but not identical."""
    made = make(learner)
    assert repr(clone(pickle.loads(pickle.dumps(made)))) == repr(made)


def test_learners_are_values_of_a_grid_in_parallel():
    steps = Pipeline([("learner", mf.NCA()), ("knn", KNeighborsClassifier())])
    grid = {"learner": [mf.LMNN(max_iter=2), mf.ITML_Supervised(n_constraints=5)]}
    search = GridSearchCV(steps, grid, cv=2, n_jobs=2, error_score="raise").fit(X, Y)
    assert search.best_score_ > 0.8


@one_each
def test_preprocessor_forms_the_points(estimator):
    index = np.arange(len(X))[::-1]
    expected = clone(estimator).fit(X[index], Y[index]).transform(X)
    model = clone(estimator).set_params(preprocessor=X).fit(index, Y[index])
    np.testing.assert_array_equal(model.transform(np.arange(len(X))), expected)
    assert model.pair_distance(np.array([[0, 1]])).shape == (1,)


@pytest.mark.parametrize("estimator", EXACT, ids=str)
def test_float32_finds_the_same_metric(estimator):
    M = clone(estimator).fit(X, Y).get_mahalanobis_matrix()
    narrow = clone(estimator).fit(X.astype(np.float32), Y)
    assert narrow.components_.dtype == np.float32
    np.testing.assert_allclose(narrow.get_mahalanobis_matrix(), M, atol=0.03 * np.abs(M).max())


@pytest.mark.parametrize("learner", [n for n in learners() if n.__name__.endswith("_Supervised")])
@pytest.mark.filterwarnings("ignore:The distance that:UserWarning")
def test_points_of_unknown_class_play_no_part(learner):
    def scores(points, labels, **params):
        model = make(learner).fit(points, labels, **params)
        found = model.pair_score(PAIRS)
        return model, found / np.abs(found).max()

    weighted = {"sample_weight": WEIGHT} if has_fit_parameter(learner, "sample_weight") else {}
    known, expected = scores(X, Y, validate=True)
    _, expected_weighted = scores(X, Y, **weighted)
    points, labels = np.r_[X, X[:40] * 3], np.r_[Y, np.repeat([-1, -7], 20)]
    for kind in (int, float):
        model, found = scores(points, labels.astype(kind), validate=True)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(model.validation_.costs, known.validation_.costs)
    weighted = {name: np.r_[weight, np.full(40, 9.0)] for name, weight in weighted.items()}
    _, found = scores(points, labels, **weighted)
    np.testing.assert_allclose(found, expected_weighted, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="at least 2 classes besides labels below 0"):
        make(learner).fit(X, np.where(Y == 0, -1, 1))


@pytest.mark.parametrize("estimator", WEIGHTED, ids=str)
def test_weights_count(estimator):
    points, labels, weight = X[::2], Y[::2], WEIGHT[::2]
    plain = clone(estimator).fit(points, labels).transform(points)
    weighted = clone(estimator).fit(points, labels, sample_weight=weight).transform(points)
    assert weighted.shape != plain.shape or not np.allclose(weighted, plain)
    if estimator not in KERNELIZED:
        with sklearn.config_context(enable_metadata_routing=True):
            model = clone(estimator).set_fit_request(sample_weight=True)
            pipeline = make_pipeline(model, KNeighborsClassifier())
            pipeline.fit(points, labels, sample_weight=weight)
        np.testing.assert_array_equal(pipeline[0].transform(points), weighted)


@pytest.mark.parametrize(
    "learner", [each for each in learners() if "sample_weight" in signature(each.fit).parameters]
)
def test_equal_weights_are_as_none(learner):
    given = data_for(learner, StandardScaler().fit_transform(X), Y)
    expected = make(learner).fit(*given).pair_score(PAIRS)
    equal = make(learner).fit(*given, sample_weight=np.ones(len(given[0]))).pair_score(PAIRS)
    np.testing.assert_allclose(equal, expected, rtol=1e-9, atol=1e-12)


def fit_and_compare(estimator, expected) -> None:
    found = clone(estimator).fit(X, Y).components_
    raise SystemExit(0 if np.array_equal(found, expected) else 1)


@pytest.mark.parametrize("learner", [mf.LMNN, mf.NCA, mf.NeighborhoodGerrymandering])
def test_a_forked_child_works_after_use_in_the_parent(learner):
    """The kernels of distances, of losses of all pairs and of inference use one pool of threads."""
    estimator = make(learner, n_jobs=2)
    expected = clone(estimator).fit(X, Y).components_
    child = multiprocessing.get_context("fork").Process(
        target=fit_and_compare, args=(estimator, expected)
    )
    child.start()
    child.join(60)
    if child.is_alive():
        child.kill()
    assert child.exitcode == 0


@every_solver
def test_convergence_is_reported(estimator):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        configured(estimator, max_iter=2, max_epochs=2, judge=None).fit(X, Y)
    warned = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    assert warned == (estimator.solver == "lbfgs")


@every_learner
@pytest.mark.filterwarnings("ignore")
def test_nothing_is_left_of_a_fit_before_one_that_fails(learner):
    model = make(learner)
    points, *labels = data_for(learner, StandardScaler().fit_transform(X), Y)
    model.fit(points, *labels)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full_like(points[..., :3], np.nan), *labels)
    left = {name for name in vars(model) if name.endswith("_")}
    assert left <= {"preprocessor_", "n_features_in_"}
    with pytest.raises(NotFittedError):
        model.pair_score(PAIRS)
