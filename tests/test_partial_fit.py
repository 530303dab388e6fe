"""`partial_fit` on parts of the points: in memory or not, and compared with a reservoir."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from minibatch_cases import LEARNERS, LIMIT, SGD, WIDTH, Counted, N, X, Y, error, labels_of
from scipy.sparse import csr_array
from sklearn.base import clone

import metricfast as mf
from metricfast import losses
from metricfast.embeddings import MLP
from metricfast.learners.linear.reservoir import Reservoir

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("learner", [LEARNERS[i] for i in (0, 1, 7, 11)], ids=str)
def test_partial_fit_goes_over_the_chunks_of_a_part(learner: Any) -> None:
    learner = clone(learner)
    if hasattr(learner, "early_stopping"):
        learner.set_params(early_stopping=False)
    halves, labels = np.array_split(X, 2), np.array_split(Y, 2)
    with mf.config_context(memory_limit=LIMIT // 2):
        for _ in range(2):
            for half, y in zip(halves, labels, strict=True):
                learner.partial_fit(Counted(half), y)
    assert error(learner) < 1


def test_a_reservoir_holds_every_point_with_the_same_chance() -> None:
    points, held = np.arange(40.0)[:, None], np.zeros(40)
    for seed in range(400):
        reservoir = Reservoir(10, seed)
        for part in np.split(points, [3, 13, 30]):
            joined = reservoir.join(part, part[:, 0], None)[0]
            np.testing.assert_array_equal(joined[: len(part)], part)
            reservoir.settle()
        assert len(np.unique(reservoir.points)) == 10
        held[reservoir.points[:, 0].astype(int)] += 1
    # 4 standard deviations of a binomial distribution.
    assert np.abs(held - 100).max() < 4 * np.sqrt(400 * 0.25 * 0.75)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("learner", [LEARNERS[i] for i in (0, 1, 2, 3, 4, 5, 7, 9)], ids=str)
def test_later_calls_are_compared_with_a_reservoir(learner: Any, sparse: bool) -> None:
    """Without it, parts of one class each have nothing to tell classes apart by."""
    y = labels_of(learner)
    order = np.argsort(y, kind="stable")
    parts = [np.arange(0, N, 7), *np.array_split(order, 12)]

    def fitted(**params: Any) -> Any:
        model = clone(learner).set_params(**params)
        for part in parts:
            some = np.concatenate([part, order[:4], order[-4:]])  # two classes at least
            points = csr_array(X[some]) if sparse else X[some]
            model.partial_fit(points, y[some])
        return model

    found, again = fitted(reservoir=300), fitted(reservoir=300)
    np.testing.assert_array_equal(found.components_, again.components_)
    assert error(found) < error(fitted(reservoir=0)) + 0.05
    if hasattr(found, "database_embedding_"):
        # But for some of the eight, which are in every part.
        assert 292 <= len(found.database_embedding_) - len(parts[-1]) - 8 <= 300
        assert np.isfinite(found.predict(X[:50])).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_no_point_of_a_reservoir_is_compared_with_itself(sparse: bool) -> None:
    points = np.unique(np.random.RandomState(0).randint(0, 9, (400, 5)), axis=0).astype(float)
    labels, reservoir = np.arange(len(points)) % 3, Reservoir(100, 0)
    for rows in 3 * np.array_split(np.arange(len(points)), 5):
        part = csr_array(points[rows]) if sparse else points[rows]
        joined, y, _ = reservoir.join(part, labels[rows], None)
        joined = joined.toarray() if sparse else joined
        assert len(np.unique(joined, axis=0)) == len(joined) > len(rows) or reservoir.points is None
        np.testing.assert_array_equal(y, labels[(joined[:, None] == points).all(2).argmax(1)])
        reservoir.settle()
    kept = reservoir.points.toarray() if sparse else reservoir.points
    assert len(np.unique(kept, axis=0)) == len(kept) == 100
    # Of another label a point is another.
    assert len(reservoir.join(part, labels[rows] + 9, None)[1]) == len(rows) + 100


def test_what_looks_for_neighbours_keeps_points_unless_told_otherwise() -> None:
    for learner, kept in ((LEARNERS[0], 0), (LEARNERS[1], 4096), (LEARNERS[7], 4096)):
        found, half = clone(learner), N // 2
        for rows in (slice(half), slice(half, N)):
            found.partial_fit(X[rows], Y[rows])
        points = found._kept.points if kept else np.empty((0, WIDTH))
        assert len(points) == kept and (found._kept is None) == (kept == 0)
        with mf.config_context(memory_limit=3 * LIMIT):  # an eighth of it holds fewer
            found = clone(learner).partial_fit(X[:half], Y[:half])
            assert not kept or len(found._kept.points) == 3 * N // 8
            found.partial_fit(Counted(X), Y)  # neither kept nor compared with others
            assert not kept or len(found._kept.points) == 3 * N // 8
        assert clone(learner).fit(X, Y)._kept is None
        assert clone(learner).set_params(reservoir=0).partial_fit(X, Y)._kept is None


def test_ten_parts_of_letters_teach_what_all_do(real_data: Any) -> None:
    """Without points of the parts before, targets are three of sixty points."""
    data = real_data("letter")
    X, y, test = data["X"].astype(np.float32), data["y"], data["split"] == 1
    learner = mf.LMNN(solver="sgd", max_epochs=10, random_state=0)
    parts = clone(learner)
    for _ in range(10):
        for rows in np.array_split(np.flatnonzero(~test), 10):
            parts.partial_fit(X[rows], y[rows])
    for k in (1, 3):
        of_parts, of_all = (
            mf.KNeighborsClassifier(k, metric=each).fit(X[~test], y[~test]).score(X[test], y[test])
            for each in (parts, learner.fit(X[~test], y[~test]))
        )
        assert of_parts > of_all - 0.005


@pytest.mark.parametrize("reservoir", [0, 2000, None])
@pytest.mark.parametrize("learner", [LEARNERS[i] for i in (0, 1)], ids=str)
def test_ten_parts_teach_what_all_points_do(learner: Any, reservoir: int | None) -> None:
    """Batches, which are a tenth of the points, do not shrink with the parts."""
    y, parts = labels_of(learner), clone(learner).set_params(reservoir=reservoir)
    for _ in range(learner.max_epochs):
        for rows in np.array_split(np.arange(N), 10):
            parts.partial_fit(X[rows], y[rows])
    assert error(parts) < error(clone(learner).fit(X, y)) + 0.05


def test_a_reservoir_of_labels_or_points_that_do_not_go_together_is_refused() -> None:
    learner = mf.NCA(**SGD, reservoir=5)
    with mf.config_context(memory_limit=LIMIT):
        learner.fit(Counted(X), Y).partial_fit(X[:50], Y[:50])
    kept = learner._kept.points
    assert kept.shape == (5, WIDTH) and (kept[:, None] == X).all(axis=2).any(axis=1).all()
    with pytest.raises(ValueError, match="y holds text"):
        learner.partial_fit(X[:50], Y[:50].astype(str))
    with mf.config_context(memory_limit=LIMIT), pytest.raises(ValueError, match="reservoir must"):
        learner.partial_fit(Counted(X), Y)
    with pytest.raises(ValueError, match="reservoir must be"):
        learner.set_params(reservoir=-1).partial_fit(X, Y)


def read_only(model: Any) -> Any:
    """Return a copy of which no array can be written to, as from a memory map of joblib."""
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(pickled, buffers=[bytes(buffer.raw()) for buffer in buffers])


ALSO = [
    mf.EmbeddingLearner(losses.NCA(), MLP((6,), 4), solver="sgd", max_epochs=2, random_state=0),
    mf.AsymmetricSimilarity(max_epochs=2, solver="subgradient", random_state=0),
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
