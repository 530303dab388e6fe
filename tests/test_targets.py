"""Labels and weights of samples."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import DataConversionWarning

from metricfast._core.targets import (
    check_classification_target,
    check_partial_target,
    check_sample_weight,
    encode,
)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([3, -1, 3], [-1, 3]),
        ([1.0, 0.0, 1.0], [0.0, 1.0]),
        ([True, False, True], [False, True]),
        (["b", "a", "b"], ["a", "b"]),
        (np.array(["b", "a", "b"], object), ["a", "b"]),
        (pd.Series(["b", "a", "b"], dtype="category"), ["a", "b"]),
    ],
)
def test_labels_are_encoded(y, classes):
    found, codes = check_classification_target(y, 3)
    assert found.tolist() == classes
    assert codes.dtype == np.int64
    np.testing.assert_array_equal(codes, [1, 0, 1])


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.int64, np.uint64, bool, ">i4"], ids=str
)
@pytest.mark.parametrize("n", [3, 400])
def test_integers_are_encoded_as_by_unique(dtype, n):
    rng = np.random.default_rng(0)
    if dtype is bool:
        y = rng.integers(0, 2, n).astype(bool)
    else:
        y = rng.integers(
            np.iinfo(dtype).min,
            np.iinfo(dtype).max,
            n,
            endpoint=True,
            dtype=np.dtype(dtype).newbyteorder("="),
        )
    for labels in (y.astype(dtype), np.r_[y[:2], y[:1].repeat(n)]):
        known, codes = encode(labels, "y")
        expected = np.unique(labels, return_inverse=True)
        assert known.dtype == expected[0].dtype
        np.testing.assert_array_equal(known, expected[0])
        np.testing.assert_array_equal(codes, expected[1])


@pytest.mark.parametrize("step", [1, 3, -1])
def test_codes_are_taken_as_they_are_where_kernels_can_read_them(step):
    y = np.arange(12) % 4
    y.flags.writeable = False
    known, codes = encode(y[::step], "y")
    np.testing.assert_array_equal(known, range(4))
    np.testing.assert_array_equal(codes, y[::step])
    assert codes.flags.c_contiguous
    assert np.shares_memory(codes, y) == (step == 1)


@pytest.mark.parametrize(
    ("y", "text"),
    [
        ([0.5, 1.5], "Unknown label type: continuous. y must hold"),
        ([0, np.nan], "y contains NaN"),
        ([0, np.inf], "y contains NaN or infinity"),
        (np.array([0, "a"], object), "y must hold labels of one type"),
        ([0, "a"], "y must hold labels of one type, numbers or text; found int, str"),
        (np.array([0, 1j], object), "Complex data not supported: y has dtype object"),
        (np.array([None, "a"], object), "y contains None"),
        ([[0, 1], [1, 0]], "y should be a 1d array"),
        (pd.DataFrame(index=range(2)), "y should be a 1d array"),
        ([0, 1, 1], "y must hold 2 labels, one per sample, got 3"),
        ([], "y must hold 2 labels"),
        (["a", "a"], "y must hold at least 2 classes, got 1 class"),
    ],
)
def test_unusable_labels(y, text):
    with pytest.raises(ValueError, match=text):
        check_classification_target(y, 2)


def test_labels_in_a_column_are_taken_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        _, codes = check_classification_target([[1], [0]])
    np.testing.assert_array_equal(codes, [1, 0])


def test_weights_are_returned_in_float64():
    assert check_sample_weight(None, 3) is None
    for weights in ([1, 0, 2], pd.Series([1, 0, 2]), np.array([1, 0, 2], np.float32)):
        checked = check_sample_weight(weights, 3)
        assert checked.dtype == np.float64
        np.testing.assert_array_equal(checked, [1, 0, 2])


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        ([1, 2], r"sample_weight must have shape \(3,\), got \(2,\)"),
        ([[1, 2, 3]], r"sample_weight must have shape \(3,\), got \(1, 3\)"),
        (2.0, r"sample_weight must have shape \(3,\), got \(\)"),
        ([1, -1, 1], "sample_weight must not be negative"),
        ([0, 0, 0], "sample_weight must not be zero"),
        ([1, np.nan, 1], "Input sample_weight contains NaN"),
        ([1, np.inf, 1], "Input sample_weight contains infinity"),
    ],
)
def test_unusable_weights(weights, text):
    with pytest.raises(ValueError, match=text):
        check_sample_weight(weights, 3)


@pytest.mark.parametrize(
    ("y", "classes", "codes"),
    [
        ([5, -1, 0, -8, 5], [0, 5], [1, -1, 0, -1, 1]),
        ([5.0, -1.0, 0.0, 5.0], [0.0, 5.0], [1, -1, 0, 1]),
        (["b", "-1", "b"], ["-1", "b"], [1, 0, 1]),
        ([True, False], [False, True], [1, 0]),
    ],
)
def test_labels_below_zero_are_unknown(y, classes, codes):
    found, encoded = check_partial_target(y)
    assert found.tolist() == classes
    assert encoded.tolist() == codes


@pytest.mark.parametrize("y", [[-1, 1, 1], [-1, -2, -2]])
def test_two_classes_must_be_known(y):
    with pytest.raises(ValueError, match="labels below 0 mean that the class is unknown"):
        check_partial_target(y)
