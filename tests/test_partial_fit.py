"""`partial_fit` on parts of the points, in memory or on disk."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from minibatch_cases import LEARNERS, LIMIT, Counted, N, X, Y, error, labels_of, some
from registry import CLASSES, learners, make
from sklearn.base import clone
from trained import configured
from working_memory import working_memory

import metricfast as mf
from metricfast import losses
from metricfast.embeddings import MLP
from metricfast.learners.linear import LinearLearner

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@some("NCA", "LMNN", "gerrymandering", "proxies")
def test_partial_fit_goes_over_the_chunks_of_a_part(learner: Any) -> None:
    learner = clone(learner)
    if hasattr(learner, "early_stopping"):
        learner.set_params(judge=None)
    halves, labels = np.array_split(X, 2), np.array_split(Y, 2)
    with working_memory(LIMIT // 2):
        for _ in range(2):
            for half, y in zip(halves, labels, strict=True):
                learner.partial_fit(Counted(half), y)
    assert error(learner) < 1


@some("NCA", "LMNN")
def test_ten_parts_teach_what_all_points_do(learner: Any) -> None:
    y, parts = labels_of(learner), configured(learner, batch_size=600)
    for _ in range(learner.solver.max_epochs):
        for rows in np.array_split(np.arange(N), 10):
            parts.partial_fit(X[rows], y[rows])
    assert error(parts) < error(clone(learner).fit(X, y)) + 0.05


def read_only(model: Any) -> Any:
    """Return a copy with read-only arrays, as from a memory map of joblib."""
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(pickled, buffers=[bytes(buffer.raw()) for buffer in buffers])


ALSO = [
    mf.EmbeddingLearner(losses.NCA(), MLP((6,), 4), solver="sgd", max_epochs=2, random_state=0),
    mf.AsymmetricSimilarity(solver=mf.solvers.Subgradient(max_epochs=2), random_state=0),
    mf.Covariance(),
    mf.GMML_Supervised(),
    mf.LFDA(),
    mf.KNeighborsClassifier(),
]


@pytest.mark.filterwarnings("ignore:partial_fit begins anew")
@pytest.mark.parametrize("begin", ["fit", "partial_fit"])
@pytest.mark.parametrize("learner", [*LEARNERS, *ALSO], ids=str)
def test_a_learner_whose_arrays_are_read_only_goes_on(learner: Any, begin: str) -> None:
    rows = slice(0, 300)
    y = labels_of(learner) if hasattr(learner, "_has_classes") else Y
    model = getattr(clone(learner), begin)(X[rows], y[rows])
    frozen = read_only(model)
    points = X[300:600], y[300:600]
    model.partial_fit(*points)
    for one, other in zip(values(model), values(frozen.partial_fit(*points)), strict=True):
        np.testing.assert_array_equal(one, other)


def values(model: Any) -> list[Any]:
    if hasattr(model, "parameters_"):
        return list(model.parameters_)
    return [model.components_ if hasattr(model, "components_") else model.kneighbors(X[:9])[1]]


NAMES, VIEWS = Y.astype(str), np.arange(len(Y)) % 2
BY_BATCHES = (LinearLearner, mf.AsymmetricSimilarity)
OF_CLASSES = [
    model
    for kind in learners(CLASSES)
    for model in (kind(solver="adam") if issubclass(kind, BY_BATCHES) else make(kind),)
    if hasattr(model, "partial_fit")
]


@pytest.mark.filterwarnings("ignore:Only generated")
@pytest.mark.parametrize("learner", [*OF_CLASSES, mf.KNeighborsClassifier()], ids=str)
@pytest.mark.parametrize("calls", [(Y, NAMES), (NAMES, Y), (Y, NAMES.astype(object))])
def test_labels_of_another_kind_are_refused(learner: Any, calls: Any) -> None:
    learner = clone(learner).partial_fit(X[:200], calls[0][:200])
    with pytest.raises(
        ValueError, match=r"^y holds (no )?text, and the labels that it is compared"
    ):
        learner.partial_fit(X[:200], calls[1][:200])


@pytest.mark.parametrize("learner", [mf.XQDA(), mf.KISSME_Supervised()], ids=str)
@pytest.mark.parametrize(
    ("first", "then", "text"),
    [
        (VIEWS, VIEWS.astype(str), "^views holds text, and the labels that it is compared with"),
        (VIEWS, None, "^views must be given in all calls of partial_fit, or in none: the first"),
        (None, VIEWS, "^views must be given in all calls of partial_fit, or in none: the first"),
    ],
)
def test_views_are_those_of_the_first_call(learner: Any, first: Any, then: Any, text: str) -> None:
    learner = clone(learner).partial_fit(X, Y, views=first)
    with pytest.raises(ValueError, match=text):
        learner.partial_fit(X, Y, views=then)
    learner.partial_fit(X, Y, views=first)  # earlier calls stay
