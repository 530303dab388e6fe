"""The table of tuples in bad_input.md: a case for each row and each learner on tuples."""

import inspect

import numpy as np
import pandas as pd
import pytest
from bad_input import check, other_layouts, read_table
from registry import make, of_tuples
from sklearn.datasets import load_iris

from metricfast.constraints import Constraints

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
X, Y = load_iris(return_X_y=True)
TABLE = read_table("Tuples")
A, B, C, D = Constraints(Y).positive_negative_pairs(60, random_state=0)
INDEX = {
    2: np.r_[np.c_[A, B], np.c_[C, D]],
    3: Constraints(Y).generate_knntriplets(X, 2, 2)[::5],
    4: np.c_[A, B, C, D],
}
LABELS = np.repeat([1, -1], 60)
PAIRS_ONLY = ("y-", "calibration", "set_threshold")


def fit(learner, tuples=None, y=LABELS, points=X, fit_params=None, **params):
    """Fit to tuples, or to tuples of the points."""
    tuples = points[INDEX[learner._tuple_size]] if tuples is None else tuples
    labels = (y,) if learner._tuple_size == 2 else ()
    return make(learner, **params).fit(tuples, *labels, **(fit_params or {}))


def by_index(learner, preprocessor, shift=0):
    return fit(learner, INDEX[learner._tuple_size] + shift, preprocessor=preprocessor)


def prior(learner, value, points=X):
    """Fit with a prior or initial matrix M, whatever the parameter's name is."""
    names = [name for name in ("prior", "init") if name in inspect.signature(learner).parameters]
    if not names or learner.__name__ == "OASIS":
        pytest.skip("starts from no matrix M")
    return fit(learner, points=points, **{names[0]: value})


def definite(learner, value, points=X):
    """Fit with a matrix M that must not be singular."""
    if learner.__name__ == "MMC":
        pytest.skip("takes singular matrices")
    return prior(learner, value, points)


def finite(model, points=X):
    pairs = points[np.random.RandomState(0).randint(len(points), size=(20, 2))]
    assert np.isfinite(model.pair_score(pairs)).all()


def fail(names):
    raise KeyError("unknown name")


def coinciding(learner, n=None):
    tuples = X[INDEX[learner._tuple_size]]
    tuples[:n] = tuples[:n, :1]
    return tuples


def same_for_every_layout(learner):
    index = INDEX[learner._tuple_size]
    expected = fit(learner).pair_score(X[INDEX[2]])
    for layout in other_layouts(index):
        model = fit(learner, layout, preprocessor=X)
        np.testing.assert_allclose(model.pair_score(X[INDEX[2]]), expected, rtol=1e-9)
    for tuples in (np.asfortranarray(X[index]), np.repeat(X[index], 2, axis=0)[::2]):
        model = fit(learner, tuples)
        np.testing.assert_allclose(model.pair_score(X[INDEX[2]]), expected, rtol=1e-9)


def negative_indices(learner):
    found, expected = by_index(learner, X, -150), by_index(learner, X)
    np.testing.assert_array_equal(found.pair_score(INDEX[2]), expected.pair_score(INDEX[2]))


def calibration(learner):
    if "calibration_params" not in inspect.signature(learner.fit).parameters:
        pytest.skip("no calibration in fit")
    fit(learner, fit_params={"calibration_params": {"strategy": "other"}})


def five(learner):
    return np.ones((3, 5, 4))


CASES = {
    "tuples-2d": lambda learner: fit(learner, INDEX[learner._tuple_size]),
    "tuples-1d": lambda learner: fit(learner, INDEX[2][:, 0], preprocessor=X),
    "tuples-size": lambda learner: fit(learner, five(learner), np.ones(3)),
    "tuples-ragged": lambda learner: fit(learner, [[[1.0], [2.0, 3.0]]], [1]),
    "tuples-none": lambda learner: fit(learner, X[INDEX[learner._tuple_size]][:0], LABELS[:0]),
    "tuples-no-features": lambda learner: fit(learner, points=X[:, :0]),
    "tuples-nan": lambda learner: fit(learner, points=np.where(np.isclose(X, X[0, 0]), np.nan, X)),
    "tuples-inf": lambda learner: fit(learner, points=np.where(np.isclose(X, X[0, 0]), np.inf, X)),
    "tuples-text": lambda learner: fit(learner, points=np.full((150, 4), "text")),
    "tuples-complex": lambda learner: fit(learner, points=X + 0j),
    "tuples-integers": lambda learner: finite(fit(learner, points=(10 * X).astype(int))),
    "tuples-layout": same_for_every_layout,
    "index-range": lambda learner: by_index(learner, X, 150),
    "index-float": lambda learner: by_index(learner, X, 0.5),
    "index-negative": negative_indices,
    "index-nan": lambda learner: by_index(learner, np.full_like(X, np.nan)),
    "preprocessor-fails": lambda learner: by_index(learner, fail),
    "preprocessor-shape": lambda learner: by_index(learner, lambda index: np.ones(3)),
    "y-missing": lambda learner: fit(learner, y=None),
    "y-length": lambda learner: fit(learner, y=LABELS[1:]),
    "y-values": lambda learner: fit(learner, y=np.maximum(LABELS, 0)),
    "y-text": lambda learner: fit(learner, y=LABELS.astype(str)),
    "y-nan": lambda learner: fit(learner, y=np.where(LABELS > 0, np.nan, -1)),
    "y-2d": lambda learner: fit(learner, y=np.c_[LABELS, LABELS]),
    "y-no-column": lambda learner: fit(learner, y=pd.DataFrame(index=range(len(LABELS)))),
    "collapsed-some": lambda learner: finite(fit(learner, coinciding(learner, 3))),
    "constant-column": lambda learner: finite(fit(learner, points=X * [1, 0, 1, 1])),
    "duplicate-columns": lambda learner: finite(fit(learner, points=X[:, [0, 1, 1, 3]])),
    "one-feature": lambda learner: finite(fit(learner, points=X[:, :1]), X[:, :1]),
    "huge": lambda learner: finite(fit(learner, points=X * 1e150), X * 1e150),
    "tiny": lambda learner: finite(fit(learner, points=X * 1e-150), X * 1e-150),
    "prior-name": lambda learner: prior(learner, "other"),
    "prior-shape": lambda learner: prior(learner, np.eye(3)),
    "prior-asymmetric": lambda learner: prior(learner, np.tri(4)),
    "prior-indefinite": lambda learner: prior(learner, np.diag([1.0, 1, 1, -1])),
    "prior-singular": lambda learner: definite(learner, np.diag([1.0, 1, 1, 0])),
    "prior-covariance": lambda learner: definite(learner, "covariance", X * [1, 1, 1, 0]),
    "mmc-singular": lambda learner: finite(prior(learner, np.diag([1.0, 1, 1, 0]))),
    "bounds-three": lambda learner: fit(learner, fit_params={"bounds": [1, 2, 3]}),
    "bounds-text": lambda learner: fit(learner, fit_params={"bounds": ["a", "b"]}),
    "bounds-negative": lambda learner: fit(learner, fit_params={"bounds": [-1, 2]}),
    "bounds-order": lambda learner: finite(fit(learner, fit_params={"bounds": [3, 2]})),
    "weights-length": lambda learner: fit(learner, fit_params={"weights": np.ones(59)}),
    "weights-negative": lambda learner: fit(learner, fit_params={"weights": -np.ones(60)}),
    "calibration": calibration,
    "predict-unfitted": lambda learner: learner().predict(X[INDEX[learner._tuple_size]]),
    "predict-size": lambda learner: fit(learner).predict(five(learner)),
    "predict-width": lambda learner: fit(learner).predict(X[INDEX[learner._tuple_size]][..., :3]),
    "set_threshold": lambda learner: fit(learner).set_threshold("text"),
} | {
    f"{name}-{kind}": lambda learner, sign=sign: finite(fit(learner, y=sign * np.ones(120)))
    for name in ("itml", "sdml", "mmc", "gmml")
    for kind, sign in (("positive", 1), ("negative", -1))
}
for name in ("mmc", "gmml", "scml"):
    CASES[f"{name}-collapsed"] = lambda learner: fit(learner, coinciding(learner))


@pytest.mark.parametrize("learner", of_tuples(), ids=lambda learner: learner.__name__)
@pytest.mark.parametrize("name", TABLE)
def test_row(name, learner):
    row = TABLE[name]
    of_pairs = name.startswith(PAIRS_ONLY)
    if row.learner in (None, learner.__name__) and (learner._tuple_size == 2 or not of_pairs):
        check(row, lambda: CASES[name](learner))


def test_every_row_has_a_case_and_every_case_a_row():
    assert set(TABLE) == set(CASES)
