"""What learners accept as points and tuples, and what they say about the rest."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array, csc_matrix, csr_array
from sklearn.base import BaseEstimator

from metricfast._core.checks import check_points, check_tuples
from metricfast._core.preprocessors import check_preprocessor
from metricfast.exceptions import NonPSDError, PreprocessorError

POINTS = np.arange(12.0).reshape(4, 3)


class NCA(BaseEstimator):
    """Only the name matters, for error messages."""


class ITML(BaseEstimator):
    """The same, for tuples."""


def points(X, y="no_validation", preprocessor=None, estimator=None, **params):
    estimator = NCA() if estimator is None else estimator
    params = {"reset": True} | params
    return check_points(estimator, X, y, preprocessor=check_preprocessor(preprocessor), **params)


def tuples(X, y="no_validation", preprocessor=None, estimator=None, tuple_size=2, **params):
    estimator = ITML() if estimator is None else estimator
    params = {"reset": True} | params
    return check_tuples(
        estimator,
        X,
        y,
        preprocessor=check_preprocessor(preprocessor),
        tuple_size=tuple_size,
        **params,
    )


def lookup_error(indices):
    raise KeyError("no such file")


@pytest.mark.parametrize(
    ("call", "text"),
    [  # beside those of metric_learn_errors.json
        (
            lambda: points(5),
            "2D array of formed points expected by NCA. Found 0D array instead:\n"
            "input=5. Reshape your data.\n",
        ),
        (
            lambda: tuples([[0, 1], [2, 1]], preprocessor=lambda indices: indices),
            "3D array of formed tuples expected by ITML after the preprocessor has been applied. "
            "Found 2D array instead:\n"
            "input=[[0 1]\n [2 1]]. Reshape your data and/or use a preprocessor.\n",
        ),
        (
            lambda: tuples(np.zeros((0, 2, 2))),
            "Found array with 0 sample(s) (shape=(0, 2, 2)) while a minimum of 1 is required by "
            "ITML.",
        ),
        (
            lambda: tuples(np.zeros((2, 2, 2)), ["1", "-1"]),
            "When training on pairs, the labels (y) should contain only values in [-1, 1]. Found "
            "an incorrect value.",
        ),
        (
            lambda: points(POINTS[:1], ensure_min_samples=2),
            "Found array with 1 sample(s) (shape=(1, 3)) while a minimum of 2 is required by NCA.",
        ),
        (
            lambda: points(POINTS[:, :0]),
            "Found array with 0 feature(s) (shape=(4, 0)) while a minimum of 1 is required by NCA.",
        ),
    ],
)
def test_error_text(call, text):
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole text is compared
        call()
    assert str(raised.value) == text


@pytest.mark.parametrize("check", [points, lambda X: tuples(X[None, :2])], ids=["points", "tuples"])
@pytest.mark.parametrize(
    ("X", "error", "text"),
    [
        (POINTS + 1j, ValueError, "Complex data not supported: X has dtype complex128"),
        (POINTS.astype("M8[s]"), ValueError, "X must hold numbers only"),
        (np.full((4, 3), "a"), ValueError, "X must hold numbers only: could not convert string"),
        (np.full((4, 3), "a", object), ValueError, "X must hold numbers only: could not convert"),
        (np.full((4, 3), {}, object), TypeError, "X must hold numbers only: .* argument must be"),
        (np.full((4, 3), np.nan), ValueError, "Input X contains NaN"),
        (np.full((4, 3), -np.inf), ValueError, "Input X contains infinity"),
    ],
)
def test_unusable_values_raise_an_error_naming_the_argument(check, X, error, text):
    with pytest.raises(error, match=text):
        check(X)


def test_ragged_input_raises_an_error_naming_the_argument():
    with pytest.raises(ValueError, match="X must be a rectangular array"):
        points([[1, 2], [3]])


@pytest.mark.parametrize(
    "given", ["f4", ">f4", "f8", ">f8", "f2", "g", "i4", ">i8", "u1", "?", "O"]
)
def test_dtype(given):
    X, expected = POINTS.astype(given), "f4" if given.endswith("f4") else "f8"
    for checked in points(X), tuples(X[None, :2])[0], points(csr_array(POINTS), accept_sparse=True):
        assert checked.dtype.isnative
    assert points(X).dtype == tuples(X[None, :2]).dtype == np.dtype(expected)
    np.testing.assert_array_equal(points(X), X.astype(expected))


def test_input_is_used_as_it_is_where_possible_and_never_modified():
    X = POINTS.copy()
    X.flags.writeable = False
    assert points(X, order="C") is X
    for layout in (np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], X[::-1][::-1]):
        checked = points(layout, order="C")
        assert checked.flags.c_contiguous
        np.testing.assert_array_equal(checked, POINTS)
    np.testing.assert_array_equal(X, POINTS)


def test_sparse_points_become_arrays_or_are_kept_sparse():
    for form in (csr_array, csc_matrix, coo_array):
        np.testing.assert_array_equal(points(form(POINTS), order="C"), POINTS)
    wide = csr_array((10, 10**12))
    with pytest.raises(MemoryError, match=r"X, a sparse matrix of shape \(10, 10+\), does"):
        points(wide)
    kept = points(csr_array(POINTS), accept_sparse=("csr", "csc"))
    np.testing.assert_array_equal(kept.toarray(), POINTS)
    with pytest.raises(ValueError, match="Complex data not supported"):
        points(csr_array(POINTS * 1j), accept_sparse=True)


def test_width_and_names_of_features_are_kept_and_compared():
    estimator = NCA()
    points(pd.DataFrame(POINTS, columns=list("abc")), estimator=estimator)
    assert estimator.n_features_in_ == 3
    assert list(estimator.feature_names_in_) == list("abc")
    text = "X has 2 features, but NCA is expecting 3 features as input."
    with pytest.raises(ValueError, match=text):
        tuples(POINTS[None, :2, :2], estimator=estimator, reset=False)
    with pytest.raises(ValueError, match="feature names should match"):
        points(pd.DataFrame(POINTS, columns=list("acb")), estimator=estimator, reset=False)
    tuples(POINTS[None, :2], estimator=estimator, reset=False)  # and warns of no missing names


def test_width_of_tuples_is_that_of_their_points_also_after_a_second_fit():
    estimator = ITML()
    tuples(np.zeros((5, 2, 3)), estimator=estimator)
    assert estimator.n_features_in_ == 3
    tuples(np.zeros((5, 2, 4)), estimator=estimator)
    assert estimator.n_features_in_ == 4


def test_tuples_of_another_size_do_not_change_the_estimator():
    estimator = ITML()
    with pytest.raises(ValueError, match="Tuples of 2"):
        tuples(np.zeros((5, 3, 3)), estimator=estimator)
    assert not hasattr(estimator, "n_features_in_")


@pytest.mark.parametrize(
    "preprocessor",
    [POINTS, POINTS.tolist(), pd.DataFrame(POINTS), lambda i: POINTS[i], lambda i: list(POINTS[i])],
    ids=["array", "list", "frame", "callable", "callable-list"],
)
def test_preprocessor_forms_points_and_tuples(preprocessor):
    np.testing.assert_array_equal(points([2, 0], preprocessor=preprocessor), POINTS[[2, 0]])
    pairs = [[2, 0], [-1, 1]]
    np.testing.assert_array_equal(tuples(pairs, preprocessor=preprocessor), POINTS[pairs])


def test_formed_input_bypasses_the_preprocessor():
    np.testing.assert_array_equal(points(POINTS, preprocessor=lookup_error), POINTS)
    np.testing.assert_array_equal(
        tuples(POINTS[None, :2], preprocessor=lookup_error), POINTS[None, :2]
    )


def test_callable_gets_the_indicators_of_a_column_at_a_time():
    seen = []

    def load(names):
        seen.append(list(names))
        return np.array([[len(name)] for name in names])

    formed = tuples([["a.png", "bb.png"], ["c.png", "dd.png"]], preprocessor=load)
    assert seen == [["a.png", "c.png"], ["bb.png", "dd.png"]]
    np.testing.assert_array_equal(formed, [[[5], [6]], [[5], [6]]])


@pytest.mark.parametrize(
    ("preprocessor", "indicators", "text"),
    [
        (POINTS, [0, 9], "IndexError('index 9 is out of bounds for axis 0 with size 4')"),
        (
            POINTS,
            [0.0, 1.0],
            "IndexError('arrays used as indices must be of integer (or boolean) type')",
        ),
        (lookup_error, [0, 1], "KeyError('no such file')"),
    ],
)
@pytest.mark.parametrize(
    "check", [points, lambda X, **p: tuples([X], **p)], ids=["points", "tuples"]
)
def test_error_of_a_preprocessor(check, preprocessor, indicators, text):
    with pytest.raises(PreprocessorError) as raised:
        check(indicators, preprocessor=preprocessor)
    assert str(raised.value) == f"An error occurred when trying to use the preprocessor: {text}"
    assert raised.value.__cause__ is raised.value.original_error


@pytest.mark.parametrize("preprocessor", ["points.csv", b"points.csv", 3.5])
def test_text_and_numbers_are_no_preprocessors(preprocessor):
    with pytest.raises(ValueError, match="Invalid type for the preprocessor"):
        check_preprocessor(preprocessor)


@pytest.mark.parametrize("error", [PreprocessorError(KeyError("a")), NonPSDError()])
def test_errors_survive_pickling(error):
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
