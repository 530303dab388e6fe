"""Counts may be NumPy integers of any size, with the same results as Python integers."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from registry import VALUES, data_for, entry_of, learners, make
from sklearn.base import clone
from thinned import thinned

import metricfast as mf
from metricfast import constraints, embeddings, losses, metrics, neighbors, samplers

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*chunks:UserWarning"
)
DTYPES = [np.int8, np.uint64]
dtypes = pytest.mark.parametrize("dtype", thinned(DTYPES), ids=lambda dtype: dtype.__name__)
RNG = np.random.default_rng(0)
N = 120
Y = np.arange(N) % 3
X = RNG.normal(size=(N, 6)) + np.eye(6)[Y]
# Counts whose default is None, or too large for a quick fit.
CHOSEN = {
    "n_components": 3, "n_basis": 60, "batch_size": 100, "n_constraints": 100, "n_chunks": 20,
    "max_iter": 20, "max_epochs": 2, "output_iter": 10, "n_parts": 3, "k": 3,
    "n_estimators": 2, "n_frequencies": 4, "n_embedding": 4, "min_iter": 2, "max_proj": 100,
    "n_neighbors": 3,
}  # fmt: skip
FORMER = {"num_constraints", "num_chunks"}


def counts_of(learner: type) -> dict[str, int]:
    """Return the parameters that are counts, with a value for each."""
    found = {}
    for name, parameter in inspect.signature(learner).parameters.items():
        whole = type(parameter.default) is int
        if name not in FORMER and (name in CHOSEN or whole) and name != "verbose":
            found[name] = CHOSEN.get(name, parameter.default)
    if learner in (mf.LMNN,):
        del found["k"]
    return found


def taken(value: Any, dtype: type) -> Any:
    return dtype(min(value, np.iinfo(dtype).max))


def fitted_state(model: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and isinstance(value, (np.ndarray, int, float, list))
    }


@pytest.mark.filterwarnings("ignore:No learner was better")
@pytest.mark.parametrize("learner", learners(), ids=lambda learner: learner.__name__)
@dtypes
def test_learners(learner, dtype):
    counts = {name: int(taken(value, dtype)) for name, value in counts_of(learner).items()}
    data = data_for(learner, X, X[:, 0] if entry_of(learner).takes == VALUES else Y)
    expected = make(learner, **counts).fit(*data)
    given = {name: dtype(value) for name, value in counts.items()}
    model = make(learner, **given).fit(*data)
    state = fitted_state(model)
    for name, value in fitted_state(expected).items():
        np.testing.assert_equal(state[name], value, err_msg=name)
    for name, value in given.items():
        assert getattr(model, name) is value
    clone(model)


PREDICTORS = {
    neighbors.KNeighborsClassifier: {"n_neighbors": 100},
    neighbors.KNeighborsRegressor: {"n_neighbors": 100},
    neighbors.NearestNeighbors: {"n_neighbors": 100},
    neighbors.KNeighborsTransformer: {"n_neighbors": 100},
    neighbors.MultiMetricLMNN: {"n_neighbors": 3, "n_components": 2, "max_iter": 3},
    mf.NCAClassifier: {
        "n_components": 2, "n_frequencies": 2, "n_embedding": 2, "n_estimators": 2,
        "batch_size": 100, "max_epochs": 2,
    },
}  # fmt: skip


@pytest.mark.parametrize("predictor", PREDICTORS, ids=lambda predictor: predictor.__name__)
@dtypes
def test_predictors(predictor, dtype):
    def found(kind: Any) -> list[Any]:
        model = predictor(**{name: kind(n) for name, n in PREDICTORS[predictor].items()})
        if "random_state" in model.get_params():
            model.set_params(random_state=0)
        clone(model.fit(X, Y))
        names = ("predict", "predict_proba", "transform", "kneighbors")
        return [getattr(model, name)(X) for name in names if hasattr(model, name)]

    np.testing.assert_equal([*map(dense, found(dtype))], [*map(dense, found(int))])


def dense(value: Any) -> Any:
    return value.toarray() if hasattr(value, "toarray") else value


def batches_of(sampler: Any) -> list[Any]:
    epoch = sampler.prepare(Y, random_state=0)
    return [batch.rows for batch in epoch(np.random.RandomState(0))]


LMNN_TARGETS = losses.LMNN.find_targets(X, Y, 3)
FUNCTIONS = {
    "kneighbors": lambda n: mf.kneighbors(X, n_neighbors=n(100)),
    "kneighbors_per_class": lambda n: mf.neighbors.kneighbors_per_class(X, X, Y, n(30)),
    "Database": lambda n: neighbors.Database(X).kneighbors(X, n(100)),
    "recall_at_k": lambda n: metrics.recall_at_k(X, Y, k=n(100)),
    "ndcg_at_k": lambda n: metrics.ndcg_at_k(X, X[:, 0], k=n(100)),
    "several k": lambda n: str(metrics.retrieval_report(X, Y, k=[n(1), n(100)], baselines=False)),
    "folds": lambda n: metrics.cross_validate_retrieval(
        mf.Covariance(), X, np.arange(N) % 6, folds=n(3), metrics="map_at_r", random_state=0
    )["map_at_r"].values,
    "LMNN": lambda n: losses.LMNN(n_neighbors=n(30))(X, Y),
    "find_targets": lambda n: losses.LMNN.find_targets(X, Y, n(30)),
    "find_impostors": lambda n: losses.LMNN.find_impostors(
        X, Y, LMNN_TARGETS, max_candidates=n(100)
    ),
    "Gerrymander": lambda n: losses.Gerrymander(n_neighbors=n(30))(X, Y),
    "RecallAtK": lambda n: losses.RecallAtK(k=(n(1), n(100)))(X, Y),
    "inference": lambda n: mf.inference.targeted(X, X, Y, Y, n_neighbors=n(100)).values,
    "class_neighbors": lambda n: [
        *map(tuple, constraints.class_neighbors(X, Y, n(100), n(100)))
    ],
    "pairs": lambda n: constraints.Constraints(Y).positive_negative_pairs(n(100), random_state=0),
    "knntriplets": lambda n: constraints.Constraints(Y).generate_knntriplets(X, n(3), n(5)),
    "chunks": lambda n: constraints.Constraints(Y).chunks(n(5), n(8), random_state=0),
    "ClassBalanced": lambda n: batches_of(samplers.ClassBalanced(n(8), n(100))),
    "Uniform": lambda n: batches_of(samplers.Uniform(n(100))),
    "DenseTriplet": lambda n: batches_of(samplers.DenseTriplet(n(5), n(100), n(3))),
    "MLP": lambda n: embeddings.MLP((n(100),), n(100)).initialize(X, None, generator()),
    "Linear": lambda n: embeddings.Linear(n(3), init="random").initialize(X, None, generator()),
    "Periodic": lambda n: embeddings.Periodic(n(100), n(100), n(100)).initialize(
        X, None, generator()
    ),
    "compare": lambda n: mf.compare(
        X, Y, learners=["Covariance"], cv=n(3), n_neighbors=n(20), random_state=0
    ).rows[0].score,
}  # fmt: skip


def generator() -> np.random.RandomState:
    return np.random.RandomState(0)


@pytest.mark.parametrize("name", FUNCTIONS)
@dtypes
def test_functions(name, dtype):
    function = FUNCTIONS[name]
    np.testing.assert_equal(function(dtype), function(int))
