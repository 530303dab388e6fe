"""Common behaviour of all learners: threads, callbacks, progress and files."""

import pickle
import warnings
from functools import cache, partial
from inspect import signature
from itertools import product

import c_library
import numpy as np
import pytest
import skops.io
from embedding_cases import LEARNERS, Proxies, X, Y
from registry import CLASSES, data_for, learners, make
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils.validation import has_fit_parameter
from thinned import thinned

import metricfast as mf
from metricfast.embeddings import MLP, Asymmetric, Linear
from metricfast.learners.linear import LinearLearner
from metricfast.solvers import SGD, Adam, Subgradient
from metricfast.stopping import HeldOut

PAIRS = np.stack((X[:20], X[130:]), axis=1)
# Solvers in addition to the default one.
MODELS = [make(each) for each in learners()]
MODELS += [
    make(type(model), solver="adam" if model.solver == "lbfgs" else "lbfgs")
    for model in MODELS
    if "solver" in model.get_params()
]
N_MODELS = len(MODELS)  # of learners with their solvers, before those with other parameters
# Which may by default keep the given distance.
LEARNED = [
    *(mf.DMLMJ(reg=0.1), mf.GMML_Supervised(reg=0.1), mf.LFDA(shrinkage=0.1)),
    *(mf.KISSME_Supervised(regularization=0.01), mf.XQDA(regularization=0.01)),
    mf.ITML_Supervised(shrinkage=0.1, random_state=0),
    mf.MMC_Supervised(shrinkage=0.1, max_iter=20, random_state=0),
    mf.RCA_Supervised(n_chunks=30, shrinkage=0.1, random_state=0),
]
MODELS += [
    *LEARNERS,
    make(mf.LogRatioLearner, hidden_layer_sizes=(8,), n_anchors=1),
    make(mf.ProxyNCALearner, hidden_layer_sizes=(8,)),
    make(mf.AsymmetricSimilarity, tied=True),
    make(mf.AsymmetricSimilarity, query=MLP((4,), 3), tied=True),
    make(mf.NeighborhoodGerrymandering, parameterization="M"),
]
# Linear maps, layers, similarities and two-sided votes, in single precision.
SINGLE = (mf.NCA, mf.EmbeddingLearner, mf.OASIS, mf.AsymmetricSimilarity)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
every_model = pytest.mark.parametrize("model", MODELS, ids=str)


def every_model_with(name):
    return pytest.mark.parametrize("model", [m for m in MODELS if name in m.get_params()], ids=str)


def fitted(model, dtype=np.float64, fit_params=None, **params):
    model = clone(model).set_params(**params)
    data = data_for(model, X.astype(dtype), Y)
    for array in data:
        array.flags.writeable = False
    return model.fit(*data, **(fit_params or {}))


def scores(model, dtype=np.float64):
    return model.pair_score(PAIRS.astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@every_model_with("n_jobs")
def test_threads_do_not_change_a_bit(model, dtype):
    one, two = (scores(fitted(model, dtype, n_jobs=n), dtype) for n in (1, 2))
    assert one.dtype == dtype
    np.testing.assert_array_equal(one, two)


@every_model_with("verbose")
def test_progress_is_shown(model, capsys):
    fitted(model, verbose=True)
    shown = capsys.readouterr()
    assert type(model).__name__ in shown.err
    assert shown.out == ""
    fitted(model, verbose=np.int64(0))
    assert capsys.readouterr().err == ""
    for wrong in (None, "x", -1, 0.5, [1]):
        with pytest.raises(ValueError, match="verbose must be True, False or an integer from 0"):
            fitted(model, verbose=wrong)


@every_model_with("callbacks")
def test_a_callback_sees_the_learner_as_of_its_iteration_and_cannot_disturb_it(model):
    seen, course = [], []

    def look(state):
        own = state.estimator
        assert own.n_iter_ == state.iteration == len(own.loss_curve_)
        assert own.loss_curve_[-1] == state.objective
        linear = hasattr(state, "components")
        told = [state.components] if linear else state.parameters
        kept = [own.components_] if linear else own.parameters_
        for one, other in zip(kept, told, strict=True):
            np.testing.assert_array_equal(one, other)
            other[:] = np.nan
        seen.append(scores(own))
        course.append(state.objective)
        if isinstance(own, mf.AsymmetricSimilarity):
            assert len(own.predict(X)) == len(X)

    expected, found = fitted(model), fitted(model, callbacks=iter([look]))
    np.testing.assert_array_equal(scores(found), scores(expected))
    assert found.loss_curve_ == course
    assert not np.array_equal(seen[0], seen[1])
    stopped = fitted(model, callbacks=[lambda state: state.iteration == 2])
    assert stopped.n_iter_ == 2


@every_model_with("callbacks")
def test_an_interrupted_fit_leaves_the_best_so_far(model):
    states = []

    def press(state):
        states.append(state)
        if state.iteration == 2:
            raise KeyboardInterrupt

    model = clone(model).set_params(callbacks=[press])
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data_for(model, X, Y))
    assert model.n_iter_ == len(model.loss_curve_) == 2
    assert np.isfinite(scores(model)).all()
    if hasattr(model, "predict"):
        assert model.predict(X).shape == (150,)
    if isinstance(model, LinearLearner):
        best = min(states, key=lambda state: state.objective)
        np.testing.assert_array_equal(model.components_, best.components)
    elif isinstance(model, mf.EmbeddingLearner) and not (
        model.early_stopping or model.solver == "lbfgs"
    ):  # the last
        np.testing.assert_array_equal(model.parameters_[0], states[-1].parameters[0])


def like_the_library_of_c(model, path, dtype):
    """The C library gives the same results for a file as the learner."""
    found, points = c_library.Model(path), np.ascontiguousarray(X, dtype)
    close = {"rtol": 1e-4, "atol": 1e-5} if dtype == np.float32 else {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(found.pair_score(PAIRS.astype(dtype)), scores(model, dtype), **close)
    if not hasattr(model, "transform"):
        with pytest.raises(c_library.CError, match="a bilinear similarity is no distance"):
            c_library.Database(found, points)
        return
    layers = hasattr(model, "embedding_")
    for side, name in enumerate(("query", "database")):
        Z = model.transform(points, side=name) if layers else model.transform(points)
        (np.testing.assert_array_equal if layers else partial(np.testing.assert_allclose, **close))(
            found.transform(points, side), Z
        )
    queries, database = points + dtype(0.25), c_library.Database(found, points)
    expected = mf.NearestNeighbors(n_neighbors=4, metric=model).fit(points).kneighbors(queries)
    for one, two in zip(database.kneighbors(queries, 4), expected, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("model", "dtype"),
    thinned(
        product(MODELS, [np.float64, np.float32]),
        lambda case: case[1] is np.float64 or isinstance(case[0], SINGLE),
    ),
    ids=str,
)
def test_files_and_pickles_keep_what_was_learned(model, dtype, path):
    model = fitted(model, dtype)
    for copy in (
        skops.io.loads(skops.io.dumps(model), trusted=mf.io.trusted_types()),
        pickle.loads(pickle.dumps(model)),
    ):
        assert str(copy.get_params()) == str(model.get_params())
        assert {name for name in vars(copy) if name.endswith("_")} == {
            name for name in vars(model) if name.endswith("_")
        }
        np.testing.assert_array_equal(scores(copy, dtype), scores(model, dtype))
        assert scores(copy, dtype).dtype == dtype
        for name in ("predict", "predict_proba"):
            if hasattr(model, name):
                given = data_for(model, X.astype(dtype), Y)[0]
                found, expected = (getattr(each, name)(given) for each in (copy, model))
                np.testing.assert_array_equal(found, expected)
    if not isinstance(model, mf.KernelizedMetricLearner):
        mf.save(model, path)
        loaded = mf.load(path)
        assert str(loaded.get_params()) == str(model.get_params())
        np.testing.assert_array_equal(scores(loaded, dtype), scores(model, dtype))
        like_the_library_of_c(model, path, dtype)
    fresh = clone(model)
    assert str(fresh.get_params()) == str(model.get_params())
    assert not any(name.endswith("_") for name in vars(fresh))


@pytest.mark.parametrize(
    "model",
    thinned(
        [model for model in MODELS if "validate" in signature(model.fit).parameters],
        lambda model: model is next(m for m in MODELS if type(m) is type(model)),
    ),
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.* that .* learned is worse:UserWarning")
def test_validation_changes_nothing_and_warns_of_what_is_worse(model):
    data = (X, Y) if isinstance(model, mf.Covariance) else data_for(model, X, Y)
    weight = {"sample_weight": np.linspace(0.5, 2, len(data[0]))}
    for weights in ({}, weight) if has_fit_parameter(model, "sample_weight") else ({},):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = clone(model).fit(*data, **weights, validate=True)
        result = found.validation_
        assert 0.15 * len(data[0]) < result.n_held_out < 0.6 * len(data[0])
        worse = result.costs[1] > result.costs[0]
        assert worse == any("is worse" in str(warning.message) for warning in caught)
        np.testing.assert_array_equal(scores(found), scores(clone(model).fit(*data, **weights)))


# Numbers that are exact in all units and places, and of which no distances are equal.
POINTS = load_iris().data + np.random.default_rng(0).uniform(-0.01, 0.01, X.shape)
POINTS = np.round(POINTS * 2**20) / 2**20
TURN = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
CLOSED = {
    *("Covariance", "DMLMJ", "ITML_Supervised", "KISSME", "KISSME_Supervised", "LFDA"),
    *("MMC_Supervised", "RCA_Supervised", "XQDA"),
}
TRAINED = {"LDML", "LMNN", "MCML", "MLKR", "NCA", "NCMML"}
DRAWN = {"ITML_Supervised", "MMC_Supervised", "RCA_Supervised"}
VOTES = {"NeighborhoodGerrymandering", "NeighborhoodGerrymanderingRegressor"}
STEADY = CLOSED | TRAINED | {"GMML", "GMML_Supervised", "RCA"}
OTHERS = {"ANMM", "SCML", "SCML_Supervised"}
EVERYWHERE = {each.__name__ for each in learners()} - {
    "AdapterLearner",
    "OASIS",
    "OASIS_Supervised",
}
CHOOSING = mf.NCA(max_iter=20)
UNITS = {"tiny units": 2.0**-600, "huge units": 2.0**600}
# Their distances are in the unit of the points; those of others are numbers without one.
LENGTHS = {"GMML", "GMML_Supervised", "ITML", "ITML_Supervised", "MMC_Supervised"}
# What is done to points, and learners whose scores of pairs do not depend on it.
LAWS = {
    "tiny units": (lambda P: P * UNITS["tiny units"], STEADY | VOTES | {"ITML"}),
    "huge units": (lambda P: P * UNITS["huge units"], STEADY | VOTES | {"ITML"}),
    "another origin": (lambda P: P + 2.0**30, EVERYWHERE),
    "a rotation": (lambda P: P @ TURN, STEADY | OTHERS | {"ITML", "LSML", "LSML_Supervised"}),
    "a huge constant": (
        lambda P: np.concatenate([P, np.full((*P.shape[:-1], 1), 2.0**400)], axis=-1),
        CLOSED | OTHERS | {"ITML"},
    ),
    "another order": (lambda P: P, STEADY - DRAWN | {"ANMM", "LSML", "SDML"}),
}


@cache
def scores_under(model, law=None):
    """Return scores of pairs of changed points."""
    change = LAWS[law][0] if law else lambda P: P
    data = data_for(model, change(POINTS), Y)
    n = len(data[0])
    order = np.random.default_rng(1).permutation(n) if law == "another order" else np.arange(n)
    pairs = change(np.stack((POINTS[:20], POINTS[130:]), axis=1))
    found = clone(model).fit(*(part[order] for part in data)).pair_score(pairs)
    return found / UNITS.get(law, 1.0) if type(model).__name__ in LENGTHS else found


@pytest.mark.parametrize(
    ("law", "model"),
    [
        pytest.param(law, model, id=f"{law}-{model}")
        for law, (_, names) in LAWS.items()
        for model in MODELS[:N_MODELS] + (LEARNED if law != "a huge constant" else [])
        if type(model).__name__ in names
        # Turned points and those in another order make other mini-batches.
        and (
            law not in ("a rotation", "another order")
            or getattr(model, "solver", "lbfgs") == "lbfgs"
        )
    ],
)
def test_a_metric_does_not_depend_on(law, model):
    if law == "a huge constant" and getattr(model, "_tuned", None):
        # Other values are relative to the mean variance of all features.
        model = clone(model).set_params(**{model._tuned: 0})
    found, expected = scores_under(model, law), scores_under(model)
    if law == "a huge constant":  # one more feature to regularise
        found = found * (expected.sum() / found.sum())
    near = 1e-7 if law == "another origin" else 1e-9
    np.testing.assert_allclose(found, expected, atol=near * np.abs(expected).max())


@pytest.mark.parametrize("law", ["tiny units", "huge units", "another origin", "another order"])
def test_a_choice_of_training_does_not_depend_on(law):
    np.testing.assert_allclose(scores_under(CHOOSING, law), scores_under(CHOOSING), atol=1e-9)


@pytest.mark.parametrize("name", ["init", "prior"])
@pytest.mark.parametrize("learner", learners())
def test_a_start_that_is_given_is_kept_as_it_is(learner, name):
    if name in signature(learner).parameters:
        start = np.diag([1.0, 2, 3, 4])
        start.flags.writeable = False
        assert getattr(fitted(make(learner), **{name: start}), name) is start


# Invalid values for every learner with the parameter, which the error must name.
BAD = {
    "n_jobs": [0],
    "max_iter": [0, 2.5],
    "max_epochs": [0],
    "batch_size": [0],
    "tol": [-1],
    "learning_rate": [-1],
    "early_stopping": ["never"],
    "n_components": [0],
    "n_neighbors": [-1],
    "solver": ["newton"],
    "callbacks": [3],
    "init": ["zero"],
    "prior": ["zero"],
}
# Invalid values for some learners, and for their supervised variants.
OWN = {
    "ANMM": {"n_friends": [0], "n_enemies": [2.5]},
    "AsymmetricSimilarity": {"regularizer": ["l2"]},
    "DMLMJ": {"reg": [1.5]},
    "EmbeddingLearner": {"database": ["none"]},
    "GMML": {"t": [-0.1, "half"], "reg": [-1, np.nan]},
    "ITML": {"gamma": [0, -1.0, np.nan], "shrinkage": [-0.1, 1.5, "much", "auto", True]},
    "KISSME": {"regularization": [-1]},
    "KernelizedMetricLearner": {
        "method": ["pca"],
        "kernel": ["precomputed", "round"],
        "kernel_params": [3j],
        "gamma": [-1, "auto"],
    },
    "LFDA": {"k": [0], "shrinkage": [-0.1]},
    "MMC": {"max_proj": [0], "diagonal_c": [0], "diagonal": ["yes", [True]], "shrinkage": [1.5]},
    "NeighborhoodGerrymandering": {
        "parameterization": ["W"],
        "ties": ["any"],
        "inference": ["any"],
        "C": [0],
        "regularizer": ["l1"],
    },
    "OASIS": {"C": [0, np.inf], "init": ["covariance", np.eye(3)], "projection": ["none"]},
    "RCA": {"shrinkage": [2, "much"], "n_chunks": [0], "chunk_size": [1]},
    "SCML": {"beta": [-1], "gamma": [0], "basis": [[[1.0]]]},
    "SDML": {"balance_param": [-1], "sparsity_param": [np.inf]},
    "XQDA": {"regularization": ["much"]},
}
# What is wrong in a parameter that is an object, or beside another one.
WITHIN = [
    *((each, {"early_stopping": HeldOut(fraction=0)}, "fraction must be") for each in learners()),
    *((each, {"early_stopping": HeldOut(patience=0)}, "patience must be") for each in learners()),
    (mf.AsymmetricSimilarity, {"solver": Subgradient(power_t=-1)}, "power_t must be"),
    (mf.EmbeddingLearner, {"solver": SGD(schedule="linear")}, "schedule must be"),
    (mf.EmbeddingLearner, {"solver": SGD(momentum=1.5)}, "momentum must be"),
    (mf.EmbeddingLearner, {"solver": SGD(weight_decay=-1)}, "weight_decay must be"),
    (mf.EmbeddingLearner, {"early_stopping": HeldOut(1)}, "fewer than 3 to train"),
    (
        mf.EmbeddingLearner,
        {"early_stopping": HeldOut(0.99)},
        "fraction=0.99 of 150 points leaves fewer than 3 .* one of each class",
    ),
    (
        mf.EmbeddingLearner,
        {"loss": Proxies(), "embedding": Asymmetric(Linear(2), Linear(2))},
        "embedding must be of one kind of points for Proxies",
    ),
    (mf.MMC, {"init": np.zeros((4, 4))}, "`init` must not be zero"),
]


def wrong_parameters():
    for each in learners():
        own = OWN.get(each.__name__.removesuffix("_Supervised"), {})
        for name, values in (*BAD.items(), *own.items()):
            if name in signature(each).parameters:
                for value in values:
                    text = rf"^(Invalid |The |Parameter )?\W?{name}\b.* (must|should)\b"
                    yield each, {name: value}, text
    for each, params, text in WITHIN:
        if params.keys() <= signature(each).parameters.keys():
            yield each, params, text


@pytest.mark.parametrize(("learner", "params", "message"), list(wrong_parameters()))
def test_parameters_that_are_wrong(learner, params, message):
    with pytest.raises(TypeError if "callbacks" in params else ValueError, match=message):
        fitted(make(learner), **params)


MIXED, KIND = (array[np.random.RandomState(0).permutation(len(X))][:100] for array in (X, Y))
OTHER_NAMES = [np.array(["c", "a", "b"])[KIND], 2 - KIND]
VARIANTS = [{}, {"early_stopping": True}, {"solver": Adam(batch_size=30)}, {"batch_size": 30}]
VARIANTS += [{"basis": "triplet_diffs"}]
NAMELESS = [
    make(each, **variant)
    for each in learners(CLASSES)
    for variant in VARIANTS
    if variant.keys() <= signature(each).parameters.keys()
    and ("solver" not in variant or issubclass(each, LinearLearner))
]
NAMELESS += [mf.NCAClassifier(max_epochs=2, random_state=0, batch_size=30), mf.MultiMetricLMNN()]


@pytest.mark.parametrize("model", NAMELESS, ids=str)
def test_names_of_classes_do_not_matter(model):
    def result(labels):
        fitted = clone(model).fit(MIXED, labels)
        if hasattr(fitted, "pair_score"):
            return fitted.pair_score(PAIRS)
        columns = np.argsort([KIND[np.flatnonzero(labels == c)[0]] for c in fitted.classes_])
        return fitted.predict_proba(X)[:, columns]

    expected = result(KIND)
    for labels in OTHER_NAMES:
        found = result(labels)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize(
    "learner", [each for each in learners(CLASSES) if hasattr(make(each), "partial_fit")]
)
def test_names_of_classes_do_not_matter_to_partial_fit(learner):
    def result(labels):
        model = make(learner)
        if learner is mf.RCA_Supervised:
            model.set_params(n_chunks=10)
        model.partial_fit(MIXED[:60], labels[:60])
        return model.partial_fit(MIXED[60:], labels[60:]).pair_score(PAIRS)

    expected = result(KIND)
    for labels in OTHER_NAMES:
        found = result(labels)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
