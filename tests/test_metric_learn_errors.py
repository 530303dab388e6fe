"""Errors equal those of metric-learn 0.7: types and exact messages."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

import metricfast as mf
from metricfast.exceptions import NonPSDError, PreprocessorError

# Errors of metric-learn 0.7.0 with scikit-learn 1.4.2, and the calls that raise them.
TABLE = json.loads(Path(__file__).with_name("metric_learn_errors.json").read_text())
ERRORS = {
    error.__name__: error
    for error in (
        *(ValueError, np.linalg.LinAlgError),
        *(NonPSDError, NotFittedError, PreprocessorError),
    )
}
X, Y = load_iris(return_X_y=True)


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
