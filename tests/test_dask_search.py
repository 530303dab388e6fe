"""Searches on Dask: same results as in one process, few tasks, and no remaining data."""

from __future__ import annotations

import gc
import os
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
from trained import embedding_learner

import metricfast as mf
from metricfast import losses, metrics

pytest.importorskip("dask")
pytest.importorskip("distributed")

import dask
import distributed
from dask_cases import LEARNERS, MARKS, X, Y, cluster, cut

from metricfast.dask import DistributedLearner, _search, kneighbors, retrieval_report
from metricfast.embeddings import MLP, Asymmetric

pytestmark = MARKS


def test_distances_are_of_the_dtype_that_is_declared(client: Any) -> None:
    for queries, database, dtype in (
        (np.int32, None, np.float64),
        (np.float32, None, np.float32),
        (np.float32, np.float64, np.float64),
    ):
        references = None if database is None else cut((9 * X).astype(database))
        found, _ = kneighbors(cut((9 * X).astype(queries)), references, n_neighbors=2)
        assert found.dtype == found.compute().dtype == dtype


def test_columns_in_another_order_are_refused(client: Any) -> None:
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=2)
    with pytest.raises(ValueError, match="must be in the same order"):
        kneighbors(frame, frame[list("bacd")])
    with pytest.raises(ValueError, match="must be in the same order"):
        retrieval_report(frame, cut(Y), frame[list("bacd")], cut(Y), client=client)


def test_transform_search_and_report_are_those_of_arrays(client: Any) -> None:
    learner = DistributedLearner(LEARNERS["NCA"]).fit(cut(X), cut(Y))
    plain = learner.to_local()
    Z = learner.transform(cut(X))
    assert Z.shape == (150, 2) and Z.chunks[0] == (3, 70, 76, 1) and Z.dtype == np.float64
    embedded = Z.compute()
    np.testing.assert_allclose(embedded, plain.transform(X))
    assert learner.transform(cut(X.astype(np.float32))).dtype == np.float32
    for database in (None, X[:40]):
        given = None if database is None else cut(database, (15, 25))
        found = dask.compute(*learner.kneighbors(cut(X), given, n_neighbors=3))
        # Where products are rounded as in the blocks.
        references = None if given is None else learner.transform(given).compute()
        expected = mf.kneighbors(embedded, references, 3)
        at_once = learner.kneighbors(cut(X), given, n_neighbors=3, compute=True)
        for one, other, same in zip(found, at_once, expected, strict=True):
            np.testing.assert_array_equal(one, same)
            np.testing.assert_array_equal(other, same)
            assert type(other) is np.ndarray
    rng = np.random.RandomState(0)
    for labels in (Y, rng.randn(150)):
        report = learner.retrieval_report(cut(X), cut(labels, 40), k=[1, 5])
        expected = metrics.retrieval_report(embedded, labels, k=[1, 5])
        assert list(report) == list(expected)
        for name, score in expected.items():
            np.testing.assert_allclose(report[name].values, score.values)
            np.testing.assert_allclose(report[name].chance, score.chance)
    expected = metrics.precision_at_1(embedded, Y)
    assert learner.score(cut(X), cut(Y)) == pytest.approx(expected)
    both = cut(X[9:], 50), cut(Y[9:], 50), cut(X[:9], 4), cut(Y[:9], 4)
    report = retrieval_report(*both, metrics="r_precision")
    assert report["r_precision"].mean == metrics.r_precision(X[9:], Y[9:], X[:9], Y[:9])


def test_a_search_is_dealt_out_to_threads() -> None:
    points = np.random.RandomState(0).randn(2000, 8)
    expected = mf.kneighbors(points, n_neighbors=3)
    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        cluster(2) as client,
        distributed.get_task_stream(client) as stream,
    ):
        # By default, Dask avoids busy workers.
        busy = client.map(time.sleep, [0.1] * 10, pure=False, workers=[min(client.nthreads())])
        found = kneighbors(cut(points, 500), n_neighbors=3, compute=True, client=client)
        assert all(each.done() for each in busy)
        with dask.annotate(workers=[max(client.nthreads())]):  # annotations of the caller count
            kneighbors(cut(points, 1000), n_neighbors=3, compute=True, client=client)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    ran = Counter(each["worker"] for each in stream.data if str(each["key"]).startswith("('near"))
    assert sorted(ran.values()) == [2, 4]


def test_maps_are_those_of_the_call(client: Any) -> None:
    L = np.eye(4)
    found = kneighbors(cut(X), n_neighbors=2, L=L)[0]
    L[:] = 0
    np.testing.assert_array_equal(found.compute(), mf.kneighbors(X, n_neighbors=2)[0])


@pytest.mark.parametrize("database", [None, X[::-1][:60]])
def test_filters_are_those_of_arrays(client: Any, database: Any) -> None:
    m = len(X if database is None else database)
    names = np.array(["a", "b", "c"])
    of_queries, cameras = names[np.arange(150) % 3], names[np.arange(m) % 3]
    both = None if database is None else cut(database, 25)
    masks = np.random.default_rng(0).uniform(size=(150, m)) < 0.5
    labels = of_queries, cameras
    for where in (np.arange(m) % 2 == 0, [2, 7, 11], labels, ("equal", *labels), masks):
        expected = mf.kneighbors(X, database, 4, where=where)
        given = where
        if isinstance(where, tuple):
            given = (*where[:-2], cut(where[-2], 40), where[-1].tolist())
        for compute in (True, False):
            found = kneighbors(cut(X), both, 4, where=given, compute=compute)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(np.asarray(one), other)
        sides = (Y, None, None) if database is None else (Y, database, Y[::-1][:60])
        report = retrieval_report(
            cut(X), *(None if side is None else cut(side, 25) for side in sides),
            metrics="r_precision", where=given,
        )  # fmt: skip
        np.testing.assert_array_equal(
            report["r_precision"].values,
            metrics.retrieval_report(X, *sides, metrics="r_precision", where=where)[
                "r_precision"
            ].values,
        )
    how = {"metrics": "cmc_at_k", "k": 2}
    for groups in (labels, cameras) if database is None else (labels,):
        found = retrieval_report(
            cut(X), *(None if side is None else cut(side, 25) for side in sides), **how,
            groups=groups,
        )  # fmt: skip
        expected = metrics.retrieval_report(X, *sides, **how, groups=groups)
        np.testing.assert_array_equal(found["cmc_at_k"].values, expected["cmc_at_k"].values)
    for where, message in (
        ((of_queries[1:], cameras), r"where\[0\] must hold one label per query: expected 150"),
        ((of_queries, cameras[1:]), r"where\[1\]"),
        (("equal", of_queries[1:], cameras), r"where\[1\] must hold one label per query"),
        (masks[1:], "where must hold one mask per query: expected 150, found 149"),
        (np.ones(m + 1, bool), "where must hold one boolean per database point"),
        ((of_queries,), "where must be a tuple"),
    ):
        with pytest.raises(ValueError, match=message):
            kneighbors(cut(X), both, 4, where=where, compute=True)


def test_two_maps(client: Any) -> None:
    asymmetric = embedding_learner(
        losses.NTXent(), Asymmetric(MLP((), 2), MLP((), 2)), max_epochs=1
    )
    learner = DistributedLearner(asymmetric, n_parts=3).fit(cut(X), cut(Y))
    found = learner.kneighbors(cut(X), cut(X, 60), n_neighbors=2)[1].compute()
    np.testing.assert_array_equal(found, learner.to_local().kneighbors(X, X, n_neighbors=2)[1])
    with pytest.raises(ValueError, match="two maps"):
        learner.kneighbors(cut(X))


@pytest.fixture(scope="module", params=["processes", "threads"])
def workers(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A client with two workers, which are processes or threads."""
    with cluster(2, processes=request.param == "processes") as found:
        yield found


@pytest.mark.parametrize("compute", [True, False])
def test_a_search_makes_a_database_ready_once_and_lets_it_go(compute: bool, workers: Any) -> None:
    def count() -> None:
        made: list[Any] = []

        class Counted(mf.Database):
            def _begin(self, *args: Any) -> None:
                made.append(weakref.ref(self))
                super()._begin(*args)

        _search.Database, _search.made = Counted, made  # type: ignore[misc, attr-defined]

    def made_and_held() -> tuple[int, int]:
        gc.collect()
        made = _search.made  # type: ignore[attr-defined]
        return len(made), sum(each() is not None for each in made)

    def search(points: Any) -> Any:
        found = kneighbors(cut(points, 10), cut(database, 20), 3, L=L, compute=compute)
        return found if compute else dask.compute(*found)

    L, database = np.random.RandomState(0).randn(2, 4), X[::-1].copy()
    expected = mf.kneighbors(X, database, 3, L=L)
    with mock.patch.multiple(_search, create=True, Database=None, made=None):
        processes = len({*workers.run(os.getpid).values()})
        workers.run(count)
        for _ in range(3):
            for one, other in zip(search(X), expected, strict=True):
                np.testing.assert_allclose(one, other)
        with pytest.raises(ValueError, match="NaN"):
            search(np.where(np.arange(len(X))[:, None] == 70, np.nan, X))
        time.sleep(0.5)  # until the scheduler has released the last tasks
        for made, held in workers.run(made_and_held).values():
            assert 1 <= made <= 4 * 2 / processes
            assert held == 0
