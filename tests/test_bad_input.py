"""The table of learners in bad_input.md: a case for each row, run for each learner."""

from __future__ import annotations

from inspect import signature
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bad_input import changed, check, other_layouts, read_table
from registry import CLASSES, entry_of, learners
from scipy.sparse import csr_array
from sklearn.datasets import load_iris
from thinned import thinned
from trained import configured

import metricfast as mf
from metricfast.learners.linear import LinearLearner
from metricfast.solvers import LBFGS, Adam
from metricfast.stopping import HeldOut

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
X, Y = load_iris(return_X_y=True)
TABLE = read_table("Learners")
OF_LABELS = [
    learner
    for learner in learners(CLASSES)
    if issubclass(learner, mf.MetricTransformer) and not entry_of(learner).needs
]
OF_LABELS.remove(mf.AsymmetricSimilarity)
SUPERVISED = [*OF_LABELS, mf.MLKR]
LEARNERS = [learner for learner in SUPERVISED if issubclass(learner, LinearLearner)]
OTHERS = [
    learner
    for learner in OF_LABELS
    if learner not in LEARNERS and issubclass(learner, mf.MahalanobisMixin)
]
# One learner each: iterative on classes, iterative on numbers, closed-form, and on drawn tuples.
REPRESENTATIVES = [mf.NCA, mf.MLKR, mf.LFDA, mf.ITML_Supervised]
# Rows that hold for all learners of a Mahalanobis distance from points and labels.
EVERYWHERE = [
    *("fit-1d", "fit-3d", "fit-no-rows", "fit-one-row", "fit-no-columns", "fit-nan", "fit-inf"),
    *("fit-complex", "fit-object-text", "fit-object-numbers", "fit-y-length", "fit-weight-nan"),
    *("fit-weight-length", "fit-weight-negative", "fit-weight-zero", "fit-n_components-zero"),
    *("fit-n_components-large", "fit-float32", "fit-integers", "fit-layout", "fit-byte-order"),
    *("fit-frame", "fit-duplicates", "fit-tiny", "fit-huge", "fit-preprocessor-type"),
    *("fit-preprocessor-index", "transform-unfitted", "transform-width", "transform-nan"),
    *("transform-layout", "pair_distance-2d", "pair_distance-triplets", "fit-huge-constant"),
]
# Rows that do not hold for MLKR, because its labels are not classes.
OF_CLASSES = {"fit-y-continuous", "fit-y-strings", "fit-one-class"}
# Rows that do not hold for AutoLearner, because it takes tuples, too, and has no `n_components`.
NOT_OF_AUTO = {"fit-3d", "fit-n_components-zero", "fit-n_components-large"}
SHORT = {"max_iter": 10, "output_iter": 10, "judge": None, "random_state": 0}


def fit(learner: type, points=X, labels=Y, sample_weight=None, **params):
    weight = {} if sample_weight is None else {"sample_weight": sample_weight}
    known = signature(learner).parameters
    short = {name: value for name, value in SHORT.items() if name in known}
    return configured(learner(), **short | params).fit(points, labels, **weight)


def where_first_class(value: float) -> np.ndarray:
    return np.where(Y == 0, value, 1.0)


CASES = {
    "fit-1d": lambda learner: fit(learner, X[0], Y[:4]),
    "fit-3d": lambda learner: fit(learner, X[:, :, None]),
    "fit-no-rows": lambda learner: fit(learner, X[:0], Y[:0]),
    "fit-one-row": lambda learner: fit(learner, X[:1], Y[:1]),
    "fit-no-columns": lambda learner: fit(learner, X[:, :0]),
    "fit-nan": lambda learner: fit(learner, changed(np.nan, X)),
    "fit-inf": lambda learner: fit(learner, changed(-np.inf, X)),
    "fit-complex": lambda learner: fit(learner, X + 0j),
    "fit-object-text": lambda learner: fit(learner, changed("text", X.astype(object))),
    "fit-sparse": lambda learner: fit(learner, csr_array(X)),
    "fit-y-missing": lambda learner: fit(learner, X, None),
    "fit-y-length": lambda learner: fit(learner, X, Y[:-1]),
    "fit-y-nan": lambda learner: fit(learner, X, where_first_class(np.nan)),
    "fit-y-continuous": lambda learner: fit(learner, X, X[:, 0] + 0.05),
    "fit-y-2d": lambda learner: fit(learner, X, np.stack([Y, Y], axis=1)),
    "fit-one-class": lambda learner: fit(learner, X, np.ones_like(Y)),
    "fit-y-constant": lambda learner: fit(learner, X, np.full(150, 2.5)),
    "fit-y-text": lambda learner: fit(learner, X, np.array(["a", "b", "c"])[Y]),
    "fit-y-units": lambda learner: fit(learner, X, Y * 1e160),
    "fit-weight-length": lambda learner: fit(learner, sample_weight=np.ones(149)),
    "fit-weight-negative": lambda learner: fit(learner, sample_weight=where_first_class(-1)),
    "fit-weight-nan": lambda learner: fit(learner, sample_weight=where_first_class(np.nan)),
    "fit-weight-zero": lambda learner: fit(learner, sample_weight=0 * Y),
    "fit-weight-units": lambda learner: fit(learner, sample_weight=np.full(150, 1e200)),
    "fit-k-class": lambda learner: fit(learner, X[:103], Y[:103], n_neighbors=3),
    "fit-k-large": lambda learner: fit(learner, n_neighbors=150),
    "fit-k-zero": lambda learner: fit(learner, n_neighbors=0),
    "fit-n_components-zero": lambda learner: fit(learner, n_components=0),
    "fit-n_components-large": lambda learner: fit(learner, n_components=5),
    "fit-init-name": lambda learner: fit(learner, init="other"),
    "fit-init-width": lambda learner: fit(learner, init=np.eye(3)),
    "fit-init-rows": lambda learner: fit(learner, init=np.eye(4)[:2], n_components=3),
    "fit-init-tall": lambda learner: fit(learner, init=np.eye(5)[:, :4]),
    "fit-init-nan": lambda learner: fit(learner, init=np.full((2, 4), np.nan)),
    "fit-init-1d": lambda learner: fit(learner, init=np.ones(4)),
    "fit-init-complex": lambda learner: fit(learner, init=1j * np.eye(4)),
    "fit-init-text": lambda learner: fit(learner, init=np.full((2, 4), "text")),
    "fit-solver-name": lambda learner: fit(learner, solver="other"),
    "fit-max_iter": lambda learner: fit(learner, solver=LBFGS(max_iter=-1)),
    "fit-batch_size": lambda learner: fit(learner, solver=Adam(batch_size=0)),
    "fit-learning_rate": lambda learner: fit(learner, solver=Adam(learning_rate=0)),
    "fit-learning_rate-inf": lambda learner: fit(learner, solver=Adam(learning_rate=np.inf)),
    "fit-max_epochs": lambda learner: fit(learner, solver=Adam(max_epochs=0)),
    "fit-n_jobs": lambda learner: fit(learner, n_jobs=0),
    "fit-n_jobs-large": lambda learner: fit(learner, n_jobs=2**40),
    "fit-callbacks-type": lambda learner: fit(learner, callbacks=bool),
    "fit-callbacks": lambda learner: fit(learner, callbacks=["text"]),
    "fit-fraction": lambda learner: fit(learner, early_stopping=HeldOut(fraction=0)),
    "fit-early-few": lambda learner: fit(learner, early_stopping=HeldOut(fraction=0.995)),
    "fit-checkpoint-type": lambda learner: fit(learner, checkpoint=3),
    "fit-checkpoint-folder": lambda learner: fit(learner, checkpoint="missing/training"),
    "fit-checkpoint-warm": lambda learner: [
        fit(learner, checkpoint="training", judge=None, warm_start=True) for _ in range(2)
    ],
    "fit-checkpoint-other": lambda learner: [
        fit(learner, X * scale, checkpoint="training", judge=None) for scale in (1, 1.1)
    ],
    "fit-warm-components": lambda learner: (
        fit(learner, n_components=2).set_params(warm_start=True, n_components=3).fit(X, Y)
    ),
    "partial_fit-lbfgs": lambda learner: learner(solver="lbfgs").partial_fit(X, Y),
    "partial_fit-early": lambda learner: learner(solver="adam", early_stopping=True).partial_fit(
        X, Y
    ),
    "fit-regularization": lambda learner: fit(learner, regularization=1.5),
    "fit-preprocessor-type": lambda learner: fit(learner, preprocessor=3.5),
    "fit-preprocessor-index": lambda learner: fit(learner, np.arange(150) + 1, preprocessor=X),
    "fit-convergence_tol": lambda learner: fit(learner, convergence_tol=np.inf),
    "fit-tol": lambda learner: fit(learner, tol="text"),
    "fit-tol-negative": lambda learner: fit(learner, tol=-1),
    "fit-subnormal": lambda learner: fit(learner, X * 1e-310),
    "fit-lone-member": lambda learner: assert_finite(fit(learner, X[:101], Y[:101])),
    "transform-unfitted": lambda learner: learner().transform(X),
    "transform-width": lambda learner: fit(learner).transform(X[:, :3]),
    "transform-nan": lambda learner: fit(learner).transform(changed(np.nan, X)),
    "pair_distance-2d": lambda learner: fit(learner).pair_distance(X),
    "pair_distance-triplets": lambda learner: fit(learner).pair_distance(X[:6].reshape(2, 3, 4)),
    "get_metric-2d": lambda learner: fit(learner).get_metric()(X[:2], X[:2]),
}


def case(function):
    """Add a case with more than one line of code; `fit_y_strings` is the row `fit-y-strings`."""
    CASES[function.__name__.replace("_", "-").replace("pair-dist", "pair_dist")] = function
    return function


def assert_finite(model, points=X) -> None:
    assert np.isfinite(model.components_).all()
    assert np.isfinite(model.transform(points)).all()


def assert_same_fit(learner, points, like=X) -> None:
    np.testing.assert_array_equal(fit(learner, points).components_, fit(learner, like).components_)


@case
def fit_object_numbers(learner):
    assert_same_fit(learner, X.astype(object))


@case
def fit_float32(learner):
    model = fit(learner, X.astype(np.float32))
    assert model.components_.dtype == np.float32
    assert model.transform(X.astype(np.float32)).dtype == np.float32


@case
def fit_integers(learner):
    kinds = [X.astype(kind) for kind in (np.int32, np.uint8, np.float16)]
    for points in (*kinds, np.median(X, axis=0) < X):
        assert fit(learner, points).components_.dtype == np.float64
        assert_same_fit(learner, points, like=points.astype(np.float64))


@case
def fit_layout(learner):
    for points in other_layouts(X):
        assert_same_fit(learner, points)


@case
def fit_byte_order(learner):
    for dtype in (X.dtype.newbyteorder(), np.longdouble):
        assert_same_fit(learner, X.astype(dtype))


@case
def fit_frame(learner):
    model = fit(learner, pd.DataFrame(X, columns=list("abcd")))
    assert list(model.feature_names_in_) == list("abcd")


@case
def fit_y_strings(learner):
    names = np.array(["a", "b", "c"])[Y]
    for labels in (names, names.astype(object), list(names)):
        found = fit(learner, X, labels).components_
        np.testing.assert_array_equal(found, fit(learner).components_)


@case
def fit_constant_columns(learner):
    points = X.copy()
    points[:, 1:3] = 0, 5
    assert_finite(fit(learner, points), points)


@case
def fit_constant(learner):
    points = np.full_like(X, 0.1)
    assert_finite(fit(learner, points), points)


@case
def fit_duplicates(learner):
    assert_finite(fit(learner, np.repeat(X, 2, axis=0), np.repeat(Y, 2)))


@case
def fit_duplicate_columns(learner):
    points = X[:, [0, 1, 1, 3]]
    assert_finite(fit(learner, points), points)


def assert_scale_is_undone(learner, scale: float) -> None:
    model = fit(learner, X * scale)
    assert_finite(model, X * scale)
    error = np.mean(Y[mf.kneighbors(model.transform(X * scale), n_neighbors=1)[1][:, 0]] != Y)
    assert error < 0.1  # Euclidean: 0.04, chance: 0.67


@case
def fit_tiny(learner):
    assert_scale_is_undone(learner, 1e-150)


@case
def fit_huge(learner):
    assert_scale_is_undone(learner, 1e150)


@case
def fit_huge_constant(learner):
    points, like = X.copy(), X.copy()
    points[:, 1], like[:, 1] = 1e200, 0
    assert_same_fit(learner, points, like=like)


@case
def fit_init_units(learner):
    for size in (1e-200, 1e200):
        with pytest.warns(UserWarning, match="`init` spreads the points"):
            model = fit(learner, init=np.full((2, 4), size), judge=None)
        assert model.objective_ < model.loss_curve_[0]


@case
def transform_sparse(learner):
    model = fit(learner)
    np.testing.assert_allclose(model.transform(csr_array(X)), model.transform(X), rtol=1e-9)


@case
def transform_layout(learner):
    model = fit(learner)
    for points in other_layouts(X):
        np.testing.assert_allclose(model.transform(points), model.transform(X), rtol=1e-9)


@case
def save_callable(learner):
    model = fit(learner, np.arange(150), preprocessor=lambda indices: X[indices])
    mf.save(model, "model.safetensors")


@case
def load_damaged(learner):
    path = Path("model.safetensors")
    mf.save(fit(learner), path)
    path.write_bytes(path.read_bytes()[:-1])
    mf.load(path)


# Learners handle unusual numbers themselves; the checks that refuse input are shared.
OWN = {
    *("fit-tiny", "fit-huge", "fit-huge-constant", "fit-duplicates", "fit-duplicate-columns"),
    *("fit-constant", "fit-constant-columns", "fit-subnormal", "fit-init-units"),
}


def cases():
    for name, row in TABLE.items():
        for learner in [*LEARNERS, *(OTHERS if name in EVERYWHERE else [])]:
            of_others = name in OF_CLASSES and not learner._has_classes
            of_others |= name in NOT_OF_AUTO and learner is mf.AutoLearner
            if row.learner in (None, learner.__name__) and not of_others:
                yield name, learner


def is_often_tried(case) -> bool:
    name, learner = case
    return name in OWN or TABLE[name].learner or learner in REPRESENTATIVES


@pytest.mark.filterwarnings("ignore:.*chunks:UserWarning", "ignore:No learner was better")
@pytest.mark.parametrize(("name", "learner"), thinned(cases(), is_often_tried))
def test_row(name, learner, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(TABLE[name], lambda: CASES[name](learner))


def test_every_row_has_a_case_and_every_case_a_row():
    assert set(TABLE) == set(CASES)
