"""Queries, a database or both on disk give the same results as in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from minibatch_cases import LIMIT, WIDTH, Array, Counted, N, X, Y, parameters
from working_memory import working_memory

import metricfast as mf
from metricfast.embeddings import MLP
from metricfast.training.chunks import POOL, Chunked
from metricfast.training.paired_chunks import batches_of_both

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.usefixtures("no_thread_survives"),
]

# Queries are noisy, and shifted relative to the database. A third of them are for tests.
QUERIES = (X + np.random.RandomState(5).randn(N, WIDTH) / 10 + 0.5).astype(np.float32)
Q, D, TEST = (np.arange(N) % 3 == part for part in range(3))
SIDES = {
    "both": (Counted, Counted),
    "queries": (Counted, np.array),
    "database": (np.array, Counted),
}


def learner(**params: Any) -> mf.AsymmetricSimilarity:
    return mf.AsymmetricSimilarity(**params, random_state=0, solver=mf.solvers.Adam(max_epochs=4))


def fit(model: Any, queries: Any, database: Any, **params: Any) -> Any:
    return model.fit(queries, Y[Q], database, Y[D], **params)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("which", SIDES)
def test_either_side_may_be_beyond_memory(which: str, tied: bool) -> None:
    inside = fit(learner(tied=tied), QUERIES[Q], X[D])
    sides = [make(A) for make, A in zip(SIDES[which], (QUERIES[Q], X[D]), strict=True)]
    limit = 20 * N  # bytes: less than twice a side
    with working_memory(limit):
        found = [fit(learner(tied=tied), *sides) for _ in range(2)]
    np.testing.assert_array_equal(parameters(found[0]), parameters(found[1]))
    for side in sides:
        assert not isinstance(side, Counted) or side.largest * WIDTH * 4 <= limit // 8
    whole = fit(learner(tied=tied), *sides)
    np.testing.assert_array_equal(parameters(whole), parameters(inside))
    for name in ("mean_", "mean_query_"):
        np.testing.assert_allclose(getattr(found[0], name), getattr(inside, name), atol=1e-6)
    assert found[0].database_embedding_.shape == inside.database_embedding_.shape
    assert found[0].score(QUERIES[TEST], Y[TEST]) > inside.score(QUERIES[TEST], Y[TEST]) - 0.06


@pytest.mark.parametrize("tied", [False, True])
def test_queries_beyond_memory_are_their_own_database(tied: bool) -> None:
    params: dict[str, Any] = {"n_components": 4, "tied": tied}
    inside = learner(**params).fit(X[~TEST], Y[~TEST])
    source = Counted(X[~TEST])
    with working_memory(LIMIT):
        found = learner(**params).fit(source, Y[~TEST])
        again = learner(**params).fit(Counted(X[~TEST]), Y[~TEST])
    np.testing.assert_array_equal(parameters(found), parameters(again))
    assert source.largest * WIDTH * 4 <= LIMIT // 8
    assert found.score(X[TEST], Y[TEST]) > inside.score(X[TEST], Y[TEST]) - 0.03
    for embedded in (found.database_embedding_, found.query_embedding_):
        assert embedded.shape == (len(source), 4)


@pytest.mark.filterwarnings("ignore:No set of n_neighbors")  # a chunk has few points
def test_other_maps_weights_dtypes_and_held_out_queries() -> None:
    weight = (np.arange(N)[Q] % 2).astype(float)
    model = learner(query=MLP((6,), 4), database=MLP((6,), 4), early_stopping=True)
    with working_memory(LIMIT // 3):
        database = Counted(X[D].astype(np.float64))
        found = fit(model, Counted(QUERIES[Q]), database, sample_weight=weight)
        part = learner(n_components=4).partial_fit(Counted(QUERIES[Q]), Y[Q], database, Y[D])
    assert found.mean_.dtype == part.mean_.dtype == np.float64
    assert len(found.validation_scores_) == found.n_iter_
    assert np.isfinite(found.validation_scores_).all()
    assert part.score(QUERIES[TEST], Y[TEST]) > 0.6


def test_a_class_without_queries_is_where_the_database_has_it() -> None:
    some = Q & (Y > 0)
    inside = learner().fit(QUERIES[some], Y[some], X[D], Y[D])
    with working_memory(LIMIT // 3):
        found = learner().fit(Counted(QUERIES[some]), Y[some], Counted(X[D]), Y[D])
    np.testing.assert_allclose(found.mean_query_, inside.mean_query_, atol=1e-6)


@pytest.mark.parametrize("n_queries", [40, N])
def test_an_epoch_has_each_query_once_and_meets_the_whole_database(n_queries: int) -> None:
    with working_memory(LIMIT):
        database = Chunked(Counted(X))
        queries = Chunked(Counted(X[:n_queries])) if n_queries == N else X[:n_queries]
    batches = list(batches_of_both(queries, database, np.random.RandomState(0), 100)())
    anchors = np.concatenate([batch.rows[: batch.n_anchors] for batch in batches])
    np.testing.assert_array_equal(np.sort(anchors), np.arange(n_queries))
    voters = np.concatenate([batch.rows[batch.n_anchors :] for batch in batches])
    np.testing.assert_array_equal(np.unique(voters), np.arange(N))
    assert max(batch.n_anchors for batch in batches) <= 100
    assert max(len(batch.rows) - batch.n_anchors for batch in batches) <= min(POOL, N // 8)


def test_what_fails_while_reading_either_side_ends_the_readers() -> None:
    bad = X[D].copy()
    bad[-3, 0] = np.nan
    gone = Counted(QUERIES[Q])
    gone.fail_after = 3.5 * len(gone)
    with working_memory(LIMIT // 3):
        with pytest.raises(ValueError, match="X_database contains NaN or infinity"):
            fit(learner(), Counted(QUERIES[Q]), Counted(bad))
        with pytest.raises(OSError, match="the disk is gone"):
            fit(learner(), gone, Counted(X[D]))


@pytest.mark.data
@pytest.mark.parametrize("own", [False, True])
def test_the_error_is_that_of_points_in_memory(own: bool, real_data: Any) -> None:
    data = real_data("letter")
    points, y, test = data["X"].astype(np.float32), data["y"], data["split"] == 1
    points = (points - points.mean(axis=0)) / points.std(axis=0)
    noise = np.random.RandomState(0).randn(*points.shape).astype(np.float32) / 10
    queries, even = points if own else points + noise, np.arange(len(y)) % 2 == 0
    sides: list[Array] = [queries[~test], y[~test]]
    if not own:
        sides = [queries[~test & even], y[~test & even], points[~test & ~even], y[~test & ~even]]
    sources = [Counted(A) if A.ndim == 2 else A for A in sides]
    scores = np.zeros(2)
    for seed in range(2):
        model = mf.AsymmetricSimilarity(
            n_components=8, random_state=seed, solver=mf.solvers.Adam(max_epochs=12)
        )
        scores[0] += model.fit(*sides).score(queries[test], y[test]) / 2
        with working_memory(int(1.9 * sides[0].nbytes)):
            model.fit(*sources)
        scores[1] += model.score(queries[test], y[test]) / 2
    assert scores[1] > scores[0] - 0.005
