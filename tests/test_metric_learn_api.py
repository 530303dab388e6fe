"""Compatibility with code for metric-learn 0.7: names, signatures, types and texts of errors."""

from __future__ import annotations

import inspect
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import registry
from registry import data_for
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

import metricfast as mf
from metricfast.constraints import Constraints
from metricfast.exceptions import NonPSDError, PreprocessorError

X, Y = load_iris(return_X_y=True)
# Constructors and `fit`, in the order of positional arguments.
SIGNATURES = {
    "Covariance": ("preprocessor=None", "X, y=None"),
    "ITML": (
        "gamma=1.0, max_iter=1000, tol=0.001, prior='identity', verbose=False, preprocessor=None, "
        "random_state=None, convergence_threshold='deprecated'",
        "pairs, y, bounds=None, calibration_params=None",
    ),
    "ITML_Supervised": (
        "gamma=1.0, max_iter=1000, tol=0.001, n_constraints=None, prior='identity', verbose=False, "
        "preprocessor=None, random_state=None, num_constraints='deprecated', "
        "convergence_threshold='deprecated'",
        "X, y, bounds=None",
    ),
    "LFDA": ("n_components=None, k=None, embedding_type='weighted', preprocessor=None", "X, y"),
    "LMNN": (  # None: 3, or fewer where a class is small
        "init='auto', n_neighbors=None, min_iter=50, max_iter=1000, learn_rate=1e-07, "
        "regularization=0.5, convergence_tol=0.001, verbose=False, preprocessor=None, "
        "n_components=None, random_state=None, k='deprecated'",
        "X, y",
    ),
    "LSML": (
        "tol=0.001, max_iter=1000, prior='identity', verbose=False, preprocessor=None, "
        "random_state=None",
        "quadruplets, weights=None",
    ),
    "LSML_Supervised": (
        "tol=0.001, max_iter=1000, prior='identity', n_constraints=None, weights=None, "
        "verbose=False, preprocessor=None, random_state=None, num_constraints='deprecated'",
        "X, y",
    ),
    "MLKR": (
        "n_components=None, init='auto', tol=None, max_iter=1000, verbose=False, "
        "preprocessor=None, random_state=None",
        "X, y",
    ),
    "MMC": (
        "max_iter=100, max_proj=10000, tol=0.001, init='identity', diagonal=False, "
        "diagonal_c=1.0, verbose=False, preprocessor=None, random_state=None, "
        "convergence_threshold='deprecated'",
        "pairs, y, calibration_params=None",
    ),
    "MMC_Supervised": (
        "max_iter=100, max_proj=10000, tol=1e-06, n_constraints=None, init='identity', "
        "diagonal=False, diagonal_c=1.0, verbose=False, preprocessor=None, random_state=None, "
        "num_constraints='deprecated', convergence_threshold='deprecated'",
        "X, y",
    ),
    "NCA": (
        "init='auto', n_components=None, max_iter=100, tol=None, verbose=False, "
        "preprocessor=None, random_state=None",
        "X, y",
    ),
    "RCA": ("n_components=None, preprocessor=None", "X, chunks"),
    "RCA_Supervised": (
        "n_components=None, n_chunks=100, chunk_size=2, preprocessor=None, random_state=None, "
        "num_chunks='deprecated'",
        "X, y",
    ),
    "SCML": (
        "beta=1e-05, basis='triplet_diffs', n_basis=None, gamma=0.005, max_iter=10000, "
        "output_iter=500, batch_size=10, verbose=False, preprocessor=None, random_state=None",
        "triplets",
    ),
    "SCML_Supervised": (
        "k_genuine=3, k_impostor=10, beta=1e-05, basis='lda', n_basis=None, gamma=0.005, "
        "max_iter=10000, output_iter=500, batch_size=10, verbose=False, preprocessor=None, "
        "random_state=None",
        "X, y",
    ),
    "SDML": (
        "balance_param=0.5, sparsity_param=0.01, prior='identity', verbose=False, "
        "preprocessor=None, random_state=None",
        "pairs, y, calibration_params=None",
    ),
    "SDML_Supervised": (
        "balance_param=0.5, sparsity_param=0.01, prior='identity', n_constraints=None, "
        "verbose=False, preprocessor=None, random_state=None, num_constraints='deprecated'",
        "X, y",
    ),
}
METHODS = {
    "transform": "X",
    "pair_distance": "pairs",
    "pair_score": "pairs",
    "score_pairs": "pairs",
    "get_metric": "",
    "get_mahalanobis_matrix": "",
}
PAIR_METHODS = {
    "decision_function": "pairs",
    "predict": "pairs",
    "score": "pairs, y",
    "set_threshold": "threshold",
    "calibrate_threshold": "pairs_valid, y_valid, strategy='accuracy', min_rate=None, beta=1.0",
}
CONSTRAINT_METHODS = {
    "__init__": "partial_labels",
    "positive_negative_pairs": (
        "n_constraints, same_length=False, random_state=None, num_constraints='deprecated'"
    ),
    "generate_knntriplets": "X, k_genuine, k_impostor",
    "chunks": "n_chunks=100, chunk_size=2, random_state=None, num_chunks='deprecated'",
}
PAIR_LEARNERS = ["ITML", "MMC", "SDML"]
ATTRIBUTES = {
    "LMNN": ["n_iter_", "labels_"],
    "ITML": ["n_iter_", "bounds_", "threshold_"],
    "ITML_Supervised": ["n_iter_", "bounds_"],
    "SDML": ["threshold_"],
    "MMC": ["n_iter_", "A_", "converged_", "threshold_"],
    "MMC_Supervised": ["n_iter_", "A_", "converged_"],
    "LSML": ["n_iter_", "w_"],
    "LSML_Supervised": ["n_iter_", "w_"],
} | {name: ["n_iter_"] for name in ("NCA", "MLKR", "SCML", "SCML_Supervised")}
LABELS = ("y", "chunks")
TOL = {"convergence_threshold": "tol"}
N_CONSTRAINTS = {"num_constraints": "n_constraints"}
RENAMED = {
    "ITML": TOL,
    "MMC": TOL,
    "ITML_Supervised": TOL | N_CONSTRAINTS,
    "MMC_Supervised": TOL | N_CONSTRAINTS,
    "LSML_Supervised": N_CONSTRAINTS,
    "SDML_Supervised": N_CONSTRAINTS,
    "RCA_Supervised": {"num_chunks": "n_chunks"},
    "LMNN": {"k": "n_neighbors"},
}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
every_learner = pytest.mark.parametrize("name", SIGNATURES)


def data_of(name: str) -> tuple[np.ndarray, ...]:
    """Return the training data of the learner."""
    return data_for(getattr(mf, name), X, Y)


def make(name: str, **params):
    return registry.make(getattr(mf, name), **params)


@cache
def fitted(name: str):
    return make(name).fit(*data_of(name))


def parameters(text: str) -> list[inspect.Parameter]:
    return list(inspect.signature(eval(f"lambda {text}: None")).parameters.values())


def assert_takes(function, expected: str, *, more_by_name_only: bool = True) -> None:
    """Check that the function has these parameters first, and others are optional.

    Labels are optional in the signature alone: without them, `fit` raises an error.
    """
    found = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    wanted = parameters(expected)
    pairs = list(zip(map(plain, found), wanted, strict=False))
    optional = [w.replace(default=None) if f.default is None and w.name in LABELS else w
                for f, w in pairs]  # fmt: skip
    assert [str(f) for f, _ in pairs] == [str(w) for w in optional]
    assert len(pairs) == len(wanted)
    for parameter in found[len(wanted) :]:
        assert parameter.default is not parameter.empty
        assert parameter.kind is parameter.KEYWORD_ONLY or not more_by_name_only


def plain(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(annotation=inspect.Parameter.empty)


@every_learner
def test_signatures(name):
    learner = getattr(mf, name)
    constructor, fit = SIGNATURES[name]
    assert_takes(learner.__init__, constructor)
    # scikit-learn also passes `sample_weight` by position.
    assert_takes(learner.fit, fit, more_by_name_only=False)
    for method, expected in METHODS.items():
        assert_takes(getattr(learner, method), expected)
    if name in PAIR_LEARNERS:
        for method, expected in PAIR_METHODS.items():
            assert_takes(getattr(learner, method), expected)


every_former_name = pytest.mark.parametrize(
    ("name", "old"), [(name, old) for name, olds in RENAMED.items() for old in olds]
)


@every_former_name
def test_constructors_give_renamed_parameters_their_new_names(name, old):
    make, new = getattr(mf, name), RENAMED[name][old]
    with pytest.warns(FutureWarning, match=f'"{old}" parameter has been renamed to "{new}"'):
        model = make(**{old: 2})
    assert model.get_params() == make(**{new: 2}).get_params()
    assert clone(model).set_params(**{new: 5}).get_params() == make(**{new: 5}).get_params()


@pytest.mark.parametrize("method", CONSTRAINT_METHODS)
def test_signatures_of_constraints(method):
    assert_takes(getattr(Constraints, method), CONSTRAINT_METHODS[method])
    assert mf.Constraints is Constraints


@every_learner
def test_fitted_attributes(name):
    model = fitted(name)
    assert model.components_.shape == (4, 4) or name in ("SCML", "SCML_Supervised")
    assert model.preprocessor_ is None
    assert model.n_features_in_ == 4
    for attribute in ATTRIBUTES.get(name, []):
        assert attribute in vars(model)


@every_learner
def test_arguments_by_position(name):
    defaults = [p.default for p in parameters(SIGNATURES[name][0])]
    params = getattr(mf, name)(*defaults).get_params()
    assert params == getattr(mf, name)().get_params()
    assert dict(zip((p.name for p in parameters(SIGNATURES[name][0])), defaults, strict=True)) == {
        key: value for key, value in params.items() if f"{key}=" in SIGNATURES[name][0]
    }


@every_learner
def test_score_pairs_still_gives_distances(name):
    model, pairs = fitted(name), X[[[0, 1], [50, 0], [120, 3]]]
    np.testing.assert_allclose(
        model.get_mahalanobis_matrix(), model.components_.T @ model.components_
    )
    with pytest.warns(FutureWarning, match="^score_pairs is deprecated"):
        np.testing.assert_allclose(model.score_pairs(pairs), model.pair_distance(pairs))


# Errors of metric-learn 0.7.0 with scikit-learn 1.4.2, and the calls that raise them.
TABLE = json.loads(Path(__file__).with_name("metric_learn_errors.json").read_text())
ERRORS = {
    error.__name__: error
    for error in (
        *(ValueError, np.linalg.LinAlgError),
        *(NonPSDError, NotFittedError, PreprocessorError),
    )
}


def fail(indices):
    raise IndexError("no such image")


NAMES = {name: getattr(mf, name) for name in mf.learners.__all__} | {
    "Constraints": mf.Constraints,
    "LABELS": [1, 1, -1, -1],
    "PAIRS": X[[[0, 1], [50, 52], [0, 60], [100, 3]]],
    "QUADRUPLETS": X[[[0, 1, 0, 60], [51, 52, 51, 0], [3, 4, 2, 120]]],
    "TRIPLETS": X[[[0, 1, 60], [51, 52, 0], [101, 103, 2], [1, 2, 100]]],
    "X": X,
    "Y": Y,
    "fail": fail,
    "np": np,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        pytest.param(call, ERRORS[row["error"]], row["text"], id=call)
        for row in TABLE
        for call in row["calls"]
    ],
)
def test_error(call, error, text):
    with pytest.raises(error) as raised:
        eval(call, NAMES)
    assert type(raised.value) is error
    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("call", "text", "remedy"),
    [
        (
            "LMNN(n_neighbors=60).fit(X, Y)",
            "not enough class labels for specified k (smallest class has 50)",
            ".*ower",
        ),
        (
            "RCA_Supervised(n_chunks=10, chunk_size=60).fit(X, Y)",
            "Not enough possible chunks of 60 elements in each class to form expected 10 chunks - "
            "maximum number of chunks is 0",
            ".*ower",
        ),
        (
            "ITML().fit(PAIRS, LABELS).calibrate_threshold(PAIRS, [0, 1, 0, 1])",
            "When training on pairs, the labels (y) should contain only values in [-1, 1]. Found "
            "an incorrect value",
            "Give 1 for similar and -1 for dissimilar pairs",
        ),
    ],
)
def test_errors_that_say_more_begin_alike(call, text, remedy):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}[.:] {remedy}"):
        eval(call, NAMES)


def test_kinds_of_errors():
    assert issubclass(NonPSDError, np.linalg.LinAlgError)
    assert str(NonPSDError()) == "Matrix is not positive semidefinite (PSD)."
    assert isinstance(PreprocessorError(KeyError(3)).original_error, KeyError)
