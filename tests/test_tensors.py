"""Tensors of PyTorch on the CPU as points and labels, without a copy."""

from itertools import product

import numpy as np
import pytest
from registry import POINTS, entry_of, make, of_points
from takers import OF_LABELS, OF_POINTS, VALUES, X, Y
from thinned import thinned

import metricfast as mf
from metricfast._core.arguments import as_array, as_numbers, as_real
from metricfast._core.arrays import as_points, as_points_or_source
from metricfast._core.checks import check_points
from metricfast._core.targets import as_label_array, numeric_labels

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
READ = {
    "as_array": lambda t: as_array(t, "X"),
    "as_real": lambda t: as_real(t, "X"),
    "as_points": lambda t: as_points(t, "X"),
    "as_points_or_source": lambda t: as_points_or_source(t, "X"),
    "check_points": lambda t: check_points(
        mf.NCA(), t, preprocessor=None, reset=True, order="C", accept_sources=True
    ),
}


@pytest.mark.parametrize("read", READ.values(), ids=READ)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_are_read_where_they_are(read, dtype):
    tensor = torch.tensor(X, dtype=dtype)
    found = read(tensor)
    assert np.shares_memory(found, tensor.numpy())
    assert found.dtype == tensor.numpy().dtype


def test_labels_are_read_where_they_are():
    labels, numbers = torch.tensor(Y), torch.tensor(VALUES)
    assert np.shares_memory(as_label_array(labels, "y"), labels.numpy())
    assert np.shares_memory(as_numbers(numbers, "y", len(Y)), numbers.numpy())
    assert np.shares_memory(numeric_labels(numbers, "y", len(Y)), numbers.numpy())
    how = {"preprocessor": None, "reset": True}
    assert np.shares_memory(check_points(mf.NCA(), X, labels, **how)[1], labels.numpy())


@pytest.mark.parametrize("learner", of_points())
def test_every_learner_takes_tensors(learner):
    labels = () if entry_of(learner).takes == POINTS else (Y,)
    given = torch.tensor(X), *map(torch.tensor, labels)
    expected, found = make(learner).fit(X, *labels), make(learner).fit(*given)
    pairs = X[[[0, 1], [0, 60]]]
    np.testing.assert_array_equal(found.pair_score(torch.tensor(pairs)), expected.pair_score(pairs))


@pytest.mark.parametrize(
    ("name", "dtype"),
    thinned(
        product(OF_POINTS, [torch.float32, torch.float64, torch.float16]),
        lambda case: case[1] is torch.float64 or case[0] in ("transform", "kneighbors", "loss"),
    ),
)
def test_whatever_takes_points_takes_tensors(name, dtype):
    tensor, call = torch.tensor(X, dtype=dtype), OF_POINTS[name]
    found, expected = (np.asarray(call(points)) for points in (tensor, tensor.numpy().copy()))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(tensor.numpy(), X.astype(tensor.numpy().dtype))


@pytest.mark.parametrize("name", ["transform", "kneighbors", "distances", "loss", "soft"])
def test_points_in_any_layout(name):
    call = OF_POINTS[name]
    np.testing.assert_array_equal(call(torch.tensor(X.T.copy()).T), call(X))


def test_maps_and_weights_may_be_tensors():
    expected = mf.pairwise_distances(X, L=X[:3])
    np.testing.assert_array_equal(mf.pairwise_distances(X, L=torch.tensor(X[:3])), expected)
    fit = mf.NCA(max_iter=3, judge=None).fit
    found, expected = (fit(X, Y, sample_weight=w).objective_ for w in (torch.tensor(Y + 1), Y + 1))
    assert found == expected


@pytest.mark.parametrize("call", OF_LABELS.values(), ids=OF_LABELS)
def test_whatever_takes_labels_takes_tensors(call):
    np.testing.assert_array_equal(call(torch.tensor(Y)), call(Y))
