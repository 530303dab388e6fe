"""Tensors of PyTorch on the CPU as points and labels, without a copy."""

from __future__ import annotations

import numpy as np
import pytest
from registry import POINTS, entry_of, make, of_points
from sklearn.datasets import load_iris

import metricfast as mf
from metricfast import losses, metrics
from metricfast._core.arguments import as_array, as_real
from metricfast._core.arrays import as_labels, as_numbers, as_points, as_points_or_source
from metricfast._core.checks import check_points
from metricfast._core.targets import as_label_array

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
X, Y = (array[::2] for array in load_iris(return_X_y=True))
X, VALUES = np.ascontiguousarray(X), X @ [1.0, 0.5, -1, 0.3]
QUICK = {"max_epochs": 2, "n_components": 2, "n_frequencies": 2, "random_state": 0}
READ = {
    "as_array": lambda t: as_array(t, "X"),
    "as_real": lambda t: as_real(t, "X"),
    "as_points": lambda t: as_points(t, "X"),
    "as_points_or_source": lambda t: as_points_or_source(t, "X"),
    "check_points": lambda t: check_points(
        mf.NCA(), t, preprocessor=None, reset=True, order="C", accept_sources=True
    ),
}
OF_POINTS = {
    "fit": lambda t: mf.NCA(max_iter=3).fit(t, Y).components_,
    "closed": lambda t: mf.LFDA().fit(t, Y).components_,
    "transform": lambda t: mf.LFDA().fit(X, Y).transform(t),
    "embedding": lambda t: mf.TripletLearner(max_epochs=1, random_state=0).fit(t, Y).transform(t),
    "neighbours": lambda t: mf.KNeighborsClassifier(3).fit(t, Y).kneighbors(t)[0],
    "learned": lambda t: mf.KNeighborsClassifier(3, metric=mf.LFDA()).fit(t, Y).predict_proba(t),
    "soft": lambda t: mf.NCAClassifier(**QUICK).fit(t, Y).predict_proba(t),
    "search": lambda t: mf.kneighbors(t, t, 3)[0],
    "distances": mf.pairwise_distances,
    "map": lambda t: mf.pairwise_distances(X, L=t[:3]),
    "database": lambda t: mf.Database(t).kneighbors(t, 3)[0],
    "loss": lambda t: losses.NCA()(t, Y)[1],
    "recall": lambda t: metrics.recall_at_k(t, Y),
    "pairs": lambda t: mf.LFDA().fit(X, Y).pair_distance(t[:10].reshape(5, 2, 4)),
    "preprocessor": lambda t: mf.LFDA(preprocessor=t).fit(np.arange(len(Y)), Y).components_,
    "tuples": lambda t: mf.ITML(preprocessor=t).fit([[0, 1], [0, 60]], [1, -1]).components_,
}
OF_LABELS = {
    "fit": lambda y: mf.NCA(max_iter=3).fit(X, y).components_,
    "closed": lambda y: mf.LFDA().fit(X, y).components_,
    "neighbours": lambda y: mf.KNeighborsClassifier(3).fit(X, y).predict(X),
    "soft": lambda y: mf.NCAClassifier(**QUICK).fit(X, y).predict_proba(X),
    "embedding": lambda y: mf.TripletLearner(max_epochs=1, random_state=0).fit(X, y).transform(X),
    "loss": lambda y: losses.NCA()(X, y)[0],
    "recall": lambda y: metrics.recall_at_k(X, y),
    "weights": lambda y: mf.NCA(max_iter=3).fit(X, Y, sample_weight=y + 1).components_,
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
    assert np.shares_memory(as_labels(numbers, "y", len(Y)), numbers.numpy())
    how = {"preprocessor": None, "reset": True}
    assert np.shares_memory(check_points(mf.NCA(), X, labels, **how)[1], labels.numpy())


@pytest.mark.parametrize("learner", of_points())
def test_every_learner_takes_tensors(learner):
    labels = () if entry_of(learner).takes == POINTS else (Y,)
    given = torch.tensor(X), *map(torch.tensor, labels)
    expected, found = make(learner).fit(X, *labels), make(learner).fit(*given)
    pairs = X[[[0, 1], [0, 60]]]
    np.testing.assert_array_equal(found.pair_score(torch.tensor(pairs)), expected.pair_score(pairs))


@pytest.mark.parametrize("call", OF_POINTS.values(), ids=OF_POINTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_points(call, dtype):
    tensor = torch.tensor(X, dtype=dtype)
    found, expected = (np.asarray(call(points)) for points in (tensor, tensor.numpy().copy()))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(tensor.numpy(), X.astype(tensor.numpy().dtype))


@pytest.mark.parametrize("call", OF_POINTS.values(), ids=OF_POINTS)
def test_points_in_any_layout(call):
    np.testing.assert_array_equal(call(torch.tensor(X.T.copy()).T), call(X))


@pytest.mark.parametrize("call", OF_LABELS.values(), ids=OF_LABELS)
def test_labels(call):
    np.testing.assert_array_equal(call(torch.tensor(Y)), call(Y))


BAD = {
    "gradients": (lambda t: t.double().requires_grad_(), r"requires gradients.*\.detach\(\)\."),
    "parameter": (lambda t: torch.nn.Parameter(t.double()), r"\.detach\(\)\."),
    "elsewhere": (lambda t: t.to("meta"), r"on the device meta: .*\.detach\(\)\.cpu\(\)\."),
    "bfloat16": (lambda t: t.bfloat16(), r"torch.bfloat16, .*\.float\(\)\."),
    "sparse": (lambda t: t.to_sparse(), r"torch.sparse_coo: .*\.to_dense\(\)\."),
}


@pytest.mark.parametrize(("make_bad", "text"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("what", ["points", "labels"])
def test_what_cannot_be_read_is_told(make_bad, text, what):
    calls = OF_POINTS if what == "points" else OF_LABELS
    bad = make_bad(torch.tensor(X if what == "points" else Y))
    for name, call in calls.items():
        if name in ("map", "pairs", "weights"):
            continue  # results may not be such tensors
        with pytest.raises(TypeError, match=f"is a tensor .*{text}"):
            call(bad)
