"""Checks of points and tuples, in addition to bad_input.md."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import metricfast as mf
from metricfast.exceptions import NonPSDError, PreprocessorError

POINTS = np.random.default_rng(0).normal(size=(6, 3))
PAIRS, SAME = np.array([[0, 1], [2, 3], [4, 5], [5, 0]]), [1, 1, -1, -1]


def fail(indices):
    raise KeyError("no such file")


def test_a_function_gets_the_indicators_of_a_column_at_a_time():
    seen = []

    def load(names):
        seen.append(list(names))
        return POINTS[[int(name[0]) for name in names]]

    names = np.array([[f"{i}.png" for i in pair] for pair in PAIRS])
    found = mf.GMML(preprocessor=load).fit(names, SAME)
    assert seen[:2] == [[*names[:, 0]], [*names[:, 1]]]
    expected = mf.GMML().fit(POINTS[PAIRS], SAME)
    np.testing.assert_array_equal(found.components_, expected.components_)


def test_formed_input_bypasses_the_preprocessor():
    found = mf.Covariance(preprocessor=fail).fit(POINTS)
    pairs = POINTS[PAIRS]
    np.testing.assert_array_equal(
        found.pair_distance(pairs), mf.Covariance().fit(POINTS).pair_distance(pairs)
    )
    with pytest.raises(PreprocessorError, match="KeyError") as raised:
        found.pair_distance(PAIRS)
    assert raised.value.__cause__ is raised.value.original_error


def test_sparse_points_that_do_not_fit_into_memory_are_refused():
    with pytest.raises(MemoryError, match=r"X, a sparse matrix of shape \(10, 10+\), does"):
        mf.Covariance().fit(csr_array((10, 10**12)))


def test_arrays_are_used_as_they_are():
    points = np.arange(12.0).reshape(4, 3)
    points.flags.writeable = False
    assert mf.Covariance()._prepare_inputs(points) is points


def test_tuples_of_points_that_have_names_need_none():
    found = mf.Covariance().fit(pd.DataFrame(POINTS, columns=list("abc")))
    assert found.pair_distance(POINTS[PAIRS]).shape == (4,)  # without a warning about missing names
    with pytest.raises(ValueError, match="X has 2 features, but Covariance is expecting 3"):
        found.pair_distance(POINTS[PAIRS][:, :, :2])


def test_labels_of_pairs_are_checked_for_learners_of_ones_own():
    learner = mf.GMML()
    with pytest.raises(ValueError, match="should contain only values in"):
        learner._prepare_inputs(POINTS[PAIRS], [1, 0, 1, -1], type_of_inputs="tuples")
    with pytest.raises(ValueError, match="Tuples of 2 element"):
        learner._prepare_inputs(np.zeros((5, 3, 3)), SAME[:1] * 5, type_of_inputs="tuples")
    assert not hasattr(learner, "n_features_in_")
    for width in (3, 4):
        learner._prepare_inputs(np.zeros((4, 2, width)), SAME, type_of_inputs="tuples")
        assert learner.n_features_in_ == width


@pytest.mark.parametrize("path", ["points.csv", b"points.csv"])
def test_a_path_is_no_preprocessor(path):
    with pytest.raises(ValueError, match="Invalid type for the preprocessor"):
        mf.Covariance(preprocessor=path).fit([0, 1])


@pytest.mark.parametrize("error", [PreprocessorError(KeyError("a")), NonPSDError()])
def test_errors_survive_pickling(error):
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
