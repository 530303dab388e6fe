"""Labels and weights of samples."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes

import metricfast as mf
from metricfast import losses
from metricfast._core.targets import (
    as_label_array,
    check_classification_target,
    check_partial_target,
    check_sample_weight,
    codes_among,
    encode,
    encode_together,
    join_labels,
)
from metricfast.metrics import precision_at_1
from metricfast.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier


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
    [  # in addition to bad_input.md
        ([0.5, 1.5], "Unknown label type: continuous. y must hold.*MLKR"),
        ([0, "a"], "y must hold labels of one type, numbers or text; found int, str"),
        (np.array([0, 1j], object), "Complex data not supported: y has dtype object"),
        ([[0, 1], [1, 0]], r"y should be a 1d array.*y\.argmax\(axis=1\)"),
        ([], "y must hold 2 labels"),
    ],
)
def test_unusable_labels(y, text):
    with pytest.raises(ValueError, match=text):
        check_classification_target(y, 2)


@pytest.mark.parametrize(
    "learner", [mf.NCA(max_iter=2, tol=1e9), mf.LFDA(), mf.SDML_Supervised(n_constraints=50)]
)
@pytest.mark.filterwarnings("ignore:No training was better")
def test_numbers_in_place_of_classes_are_warned_of_once(learner):
    X, y = load_diabetes(return_X_y=True)
    with pytest.warns(UserWarning, match=r"y has 214 classes among 442 labels.*MLKR") as found:
        learner.fit(X, y)
    assert len({text for each in found if "MLKR" in (text := str(each.message))}) == 1
    check_classification_target(y.astype(int))  # may be classes of two points
    with pytest.warns(UserWarning, match="100 classes among 150 labels"):
        check_classification_target(np.arange(150) % 100)
    check_classification_target((np.arange(150) % 100).astype(str))


def test_weights_are_returned_in_float64():
    assert check_sample_weight(None, 3) is None
    for weights in ([1, 0, 2], pd.Series([1, 0, 2]), np.array([1, 0, 2], np.float32)):
        checked = check_sample_weight(weights, 3)
        assert checked.dtype == np.float64
        np.testing.assert_array_equal(checked, [1, 0, 2])


@pytest.mark.parametrize(
    ("weights", "text"),
    [  # in addition to bad_input.md
        ([[1, 2, 3]], r"sample_weight must have shape \(3,\); found \(1, 3\)"),
        (2.0, r"sample_weight must have shape \(3,\); found \(\)"),
        ([1, np.inf, 1], "sample_weight contains NaN or infinity"),
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


LARGE = 2**60


@pytest.mark.parametrize(
    ("one", "other", "dtype"),
    [
        (np.array([LARGE, LARGE + 1]), np.array([LARGE + 1, 5], np.uint64), np.int64),
        (np.array([LARGE]), np.array([LARGE + 1, 2**64 - 1], np.uint64), np.uint64),
        (np.array([-LARGE]), np.array([LARGE + 1, 2**64 - 1], np.uint64), object),
        (np.array([LARGE + 1, 3]), np.array([2.0**60, 3.0]), np.int64),
        (np.array([LARGE + 1]), np.array([2.0**70]), object),
        (np.array([LARGE + 1]), np.array([LARGE], np.float32), np.int64),
        (np.array([1, -2], np.int8), np.array([1, 7], np.uint64), np.int64),
        (np.array([1, 2]), np.array([2.0, 3.0]), np.float64),
        (np.array([True, False]), np.array([1.0, 3.0]), np.float64),
        (np.array([LARGE + 1]), np.array([0.5]), np.float64),
    ],
)
def test_labels_of_two_dtypes_are_joined_without_rounding(one, other, dtype):
    joined = join_labels(one, other)
    assert joined.dtype == dtype
    if other.tolist() != [0.5]:
        assert joined.tolist() == [*one.tolist(), *other.tolist()]
        known, codes = encode_together([one, other], "y")
        assert known.tolist() == sorted({*one.tolist(), *other.tolist()})
        assert [known[each].tolist() for each in codes] == [one.tolist(), other.tolist()]
    places = codes_among(other, one, "y")
    expected = [one.tolist().index(x) if x in one.tolist() else -1 for x in other.tolist()]
    assert places.tolist() == expected


@pytest.mark.parametrize("listed", [[LARGE + 1, float(LARGE)], [-1, 2**63 + 1], [LARGE + 1, 2**64]])
def test_integers_of_a_list_are_not_rounded(listed):
    assert as_label_array(listed, "y").tolist() == listed
    assert as_label_array(np.array([1.0, 2.5]).tolist(), "y").dtype == np.float64


POINTS = np.array([[0.0], [1.0], [2.0], [3.0]])
NEAR = np.repeat(np.array([LARGE, 5]), 2)
FAR = np.repeat(np.array([LARGE + 1, 5], np.uint64), 2)


def test_large_classes_of_queries_and_database_stay_apart():
    references = np.array([LARGE + 1, LARGE], np.uint64)
    assert precision_at_1(POINTS[:1], NEAR[:1], POINTS[:2] + 0.1, references) == 0.0
    found, _ = losses.NCA()(POINTS, NEAR, POINTS, FAR)
    assert found == losses.NCA()(POINTS, np.repeat([7, 5], 2), POINTS, np.repeat([8, 5], 2))[0]


def test_large_classes_of_several_calls_stay_apart():
    model = KNeighborsClassifier(n_neighbors=1).fit(POINTS, NEAR)
    model.partial_fit(POINTS + 10, FAR)
    assert model.classes_.tolist() == [5, LARGE, LARGE + 1]
    queries = np.r_[POINTS, POINTS + 10]
    assert model.predict(queries).tolist() == [*NEAR.tolist(), *FAR.tolist()]
    columns = np.c_[FAR, FAR]
    model = KNeighborsClassifier(n_neighbors=1).fit(POINTS, np.c_[NEAR, NEAR])
    model.partial_fit(POINTS + 10, columns)
    assert model.predict(queries)[4:].tolist() == columns.tolist()


@pytest.mark.parametrize(
    "learner",
    [mf.NCA(solver=mf.solvers.Adam(max_epochs=1)), mf.TripletLearner(max_epochs=1)],
    ids=lambda model: type(model).__name__,
)
def test_large_classes_of_partial_fit_stay_apart(learner):
    X = np.random.default_rng(0).normal(size=(40, 3))

    def components(later):
        model = clone(learner).set_params(random_state=0)
        model.partial_fit(X[:20], np.repeat([LARGE, 5], 10))
        return model.partial_fit(X[20:], later).transform(X)

    found = components(np.repeat(np.array([LARGE + 1, 5], np.uint64), 10))
    np.testing.assert_array_equal(found, components(np.repeat([LARGE + 1, 5], 10)))


def test_large_classes_of_sums_and_batches_stay_apart():
    model = mf.RCA()
    for chunks in (NEAR, FAR):
        model.partial_fit(POINTS + chunks[:, None] % 2, chunks)
    other = mf.RCA()
    for chunks in (NEAR, FAR.astype(np.int64)):
        other.partial_fit(POINTS + chunks[:, None] % 2, chunks)
    np.testing.assert_array_equal(model.components_, other.components_)
    source = mf.sources.Batches(lambda: iter([(POINTS, NEAR), (POINTS, FAR)]))
    assert source.labels.tolist() == [*NEAR.tolist(), *FAR.tolist()]


def test_outliers_have_a_class_that_is_not_rounded():
    model = RadiusNeighborsClassifier(0.1, outlier_label=-7).fit(POINTS, FAR)
    with pytest.warns(UserWarning, match="Outlier label -7 is not in training classes"):
        assert model.predict([[0.0], [50.0]]).tolist() == [LARGE + 1, -7]
