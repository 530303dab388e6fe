"""Failures on a cluster: lost workers and clients, wrong clients, bad input."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from trained import embedding_learner

import metricfast as mf

pytest.importorskip("dask")
pytest.importorskip("distributed")

from dask_cases import LEARNERS, MARKS, SAME, X, Y, cluster, cut

from metricfast.dask import DistributedLearner, _workers, kneighbors

pytestmark = MARKS


def test_no_worker_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_workers, "_PATIENCE", 1.0)
    monkeypatch.setattr(_workers, "_LOOK", 0.2)
    with cluster(1) as lonely:
        learner = SAME["all points"]().set_params(
            client=lonely, learner__callbacks=[lambda state: lonely.cluster.scale(0)]
        )
        with pytest.raises(RuntimeError, match="no worker for"):
            learner.fit(cut(X), cut(Y))
        with pytest.raises(RuntimeError, match="no worker for"):
            kneighbors(cut(X), compute=True, client=lonely)
    with pytest.raises(RuntimeError, match="client is closed"):
        SAME["all points"]().set_params(client=lonely).fit(cut(X), cut(Y))


def test_workers_go_before_results_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_workers, "_PATIENCE", 1.0)
    monkeypatch.setattr(_workers, "_LOOK", 0.2)
    found: list[Any] = []

    def search() -> None:
        try:
            found.append(kneighbors(cut(X), compute=True, client=lonely))
        except RuntimeError as error:
            found.append(str(error))

    with cluster(1) as lonely:
        fetch = lonely._gather_remote

        async def late(*args: Any) -> Any:
            lonely.cluster.scale(0)
            while lonely.cluster.scheduler.workers:
                await asyncio.sleep(0.01)
            return await fetch(*args)

        monkeypatch.setattr(lonely, "_gather_remote", late)
        thread = threading.Thread(target=search, daemon=True)
        thread.start()
        thread.join(30)
    assert "no worker for" in found[0]


def test_two_fits_at_once(client: Any) -> None:
    makes = [SAME["all points"], SAME["batches"], SAME["epochs"]] * 2
    found: list[Any] = [None] * len(makes)

    def fit(i: int) -> None:
        found[i] = makes[i]().set_params(client=client).fit(cut(X), cut(Y)).learner_.components_

    threads = [threading.Thread(target=fit, args=(i,)) for i in range(len(makes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for i, make in enumerate(makes):
        alone = make().set_params(client=client).fit(cut(X), cut(Y)).learner_.components_
        np.testing.assert_array_equal(found[i], alone)


def told_threads(item: int, threads: int) -> int:
    return _workers.threads_here(threads)


def test_tasks_take_no_more_threads_than_their_worker_has() -> None:
    with cluster(2, 4) as client:
        workers = _workers.Workers(client)
        for n_items, threads in ((1, 4), (2, 4), (4, 2), (8, 1), (30, 1)):
            assert workers.run(told_threads, range(n_items)) == [threads] * n_items


def test_a_client_of_another_cluster(client: Any) -> None:
    with cluster(1) as other:
        # Unique values: the first cluster would reuse results with the same key.
        elsewhere = other.persist(cut(X + 0.5))
        with pytest.raises(RuntimeError, match="not on the cluster of this client"):
            DistributedLearner(mf.NCA(), client).fit(elsewhere, cut(Y))


def fit(*data: Any, learner: Any = LEARNERS["NCA by batches"], **how: Any) -> object:
    """Fit to the given parts, or by default to valid ones."""
    return DistributedLearner(learner, **how).fit(*(data or (cut(X), cut(Y))))


BY_EPOCHS = DistributedLearner(LEARNERS["NCA by batches"], sync="epochs")
SAVED = clone(LEARNERS["NCA by batches"]).set_params(callbacks=[mf.callbacks.Checkpoint("x")])
OWN_LOSS = embedding_learner(lambda Z, y: (0.0, 0 * Z))
FEW_A_PART = "shard of 2 to 2 points, of which there are 75.*set n_parts to fewer"


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: fit(client=7), TypeError, "client must be"),
        (lambda: fit(learner=mf.ITML()), TypeError, "iterat"),
        (lambda: fit(cut(X)), ValueError, "NCA needs y"),
        (lambda: fit(X, cut(Y)), TypeError, "X must be a dask array"),
        (lambda: fit(cut(X), Y), TypeError, "y must be a dask array"),
        (lambda: fit(cut(X), cut(Y[:9], 9)), ValueError, "partitions"),
        (lambda: fit(sync="all"), ValueError, "sync"),
        (lambda: fit(n_parts=0), ValueError, "n_part"),
        (lambda: fit(learner=mf.NCA(), sync="epochs"), ValueError, "solver='adam'"),
        (
            lambda: fit(learner=mf.LMNN(solver="adam"), sync="epochs", n_parts=200),
            ValueError,
            FEW_A_PART,
        ),
        (lambda: BY_EPOCHS.fit(cut(X), cut(Y), validate=True), TypeError, "validate"),
        (lambda: fit(learner=SAVED, sync="epochs"), ValueError, "Checkpoint"),
        (lambda: fit(cut(X, 50), cut(Y[:140], (50, 50, 40))), ValueError, "partition 2 has 50 and"),
        (lambda: fit(learner=OWN_LOSS), ValueError, "sync='epochs'"),
        (lambda: clone(BY_EPOCHS).transform(cut(X)), ValueError, "not fitted"),
        (lambda: kneighbors(cut(Y)), ValueError, "queries must have two dimensions"),
        (lambda: kneighbors(cut(X), token=1), TypeError, "'token'"),
        (lambda: kneighbors(X), TypeError, "queries must be a dask array"),
        (lambda: kneighbors(cut(X), compute=1), ValueError, "compute must be"),
        (lambda: kneighbors(cut(X), n_neighbors="a"), ValueError, "n_neighbors must be"),
        (lambda: kneighbors(cut(X[:0], 5), cut(X), compute=True), ValueError, "queries is empty"),
        (lambda: kneighbors(cut(X), client=1), ValueError, "client is for compute=True"),
        (lambda: kneighbors(cut(X), compute=True, client=1), TypeError, "client must be"),
        (lambda: kneighbors(cut(X), n_neighbors=150, compute=True), ValueError, "n_neighbors"),
    ],
)
def test_bad_input(
    make: Callable[[], object], error: type[Exception], text: str, client: Any
) -> None:
    with pytest.raises(error, match=text):
        make()


def test_clones_and_copies(client: Any) -> None:
    learner = DistributedLearner(LEARNERS["NCA"], client, n_parts=3)
    assert clone(learner).client is client and clone(learner).n_parts == 3
    assert learner.client_ is client
    copied = pickle.loads(pickle.dumps(learner.fit(cut(X), cut(Y))))
    assert copied.client is None
    np.testing.assert_array_equal(copied.learner_.components_, learner.learner_.components_)


@pytest.fixture(scope="module")
def mortal() -> Iterator[Any]:
    """A client with two worker processes that restart when they die."""
    with cluster(2, processes=True) as found:
        yield found


def pids_of(mortal: Any) -> dict[str, int]:
    """Return the process ids of the workers by address."""
    found: dict[str, Any] = {}
    while not found:  # killed workers are restarting
        mortal.wait_for_workers(2, timeout=60)
        found = mortal.run(os.getpid, on_error="ignore")
    return found


class Killer:
    """A callback that kills some workers, once."""

    def __init__(self, mark: Path, *pids: int) -> None:
        self.mark, self.pids = mark, pids

    def __call__(self, state: Any) -> None:
        if not self.mark.exists():
            self.mark.touch()
            for pid in self.pids:
                os.kill(pid, signal.SIGKILL)


CLIENT = """
import os, sys, distributed, dask.array as da, metricfast as mf
from metricfast.dask import DistributedLearner
from sklearn.datasets import load_iris
X, y = load_iris(return_X_y=True)
learner = mf.NCA(n_components=2, solver=mf.solvers.Adam(max_epochs=4), random_state=0)
kill = lambda state: state.iteration > 2 and os.kill(os.getpid(), 9)
learner.set_params(callbacks=[mf.callbacks.Checkpoint(sys.argv[2]), kill])
with distributed.Client(sys.argv[1]) as client:
    DistributedLearner(learner).fit(da.from_array(X, chunks=50), da.from_array(y, chunks=50))
"""


def test_processes_are_killed(client: Any, mortal: Any, tmp_path: Path) -> None:
    for name in ("all points", "epochs"):
        expected = SAME[name]().set_params(client=client).fit(cut(X), cut(Y)).learner_
        killer = Killer(tmp_path / name, *pids_of(mortal).values())
        learner = SAME[name]().set_params(client=mortal, learner__callbacks=[killer])
        found = learner.fit(cut(X), cut(Y)).learner_
        assert killer.mark.exists()
        assert (found.components_ == expected.components_).all()
    checkpoint = str(tmp_path / "training")
    address = mortal.scheduler.address
    killed = subprocess.run(
        [sys.executable, "-c", CLIENT, address, checkpoint],
        check=False, capture_output=True, timeout=60,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    nca = mf.NCA(n_components=2, solver=mf.solvers.Adam(max_epochs=4), random_state=0)
    points = cut(load_iris().data, 50), cut(load_iris().target, 50)
    whole = DistributedLearner(nca, mortal).fit(*points).learner_
    seen: list[int] = []
    note = lambda state: seen.append(state.iteration)  # noqa: E731
    nca.set_params(callbacks=[mf.callbacks.Checkpoint(checkpoint), note])
    resumed = DistributedLearner(nca, mortal).fit(*points).learner_
    assert len(seen) <= 2
    assert (resumed.components_ == whole.components_).all()


@pytest.mark.skipif(os.name != "posix", reason="processes cannot be stopped")
@pytest.mark.parametrize("when", ["before", "before anything is sent", "meanwhile"])
def test_a_worker_freezes(monkeypatch: pytest.MonkeyPatch, when: str, mortal: Any) -> None:
    import dask.array as da

    def slowly(block: Any) -> Any:
        import time

        time.sleep(1.5)
        return block

    monkeypatch.setattr(_workers, "_LOOK", 0.3)
    monkeypatch.setattr(_workers, "_SILENCE", 8.0)
    points = da.from_array(X, chunks=(10, -1)).map_blocks(slowly, dtype=X.dtype)
    calls: dict[str, Callable[[Any], object]] = {
        "before": lambda client: DistributedLearner(mf.NCA(max_iter=3), client).fit(cut(X), cut(Y)),
        "before anything is sent": lambda client: _workers.Workers(client).run(
            lambda item, sent, threads: item, range(3), _workers.Shared(X)
        ),
        "meanwhile": lambda client: kneighbors(points, compute=True, client=client),
    }
    # As long as tasks finish, missing heartbeats are not an error.
    assert kneighbors(points[:120], compute=True, client=mortal)[0].shape == (120, 5)
    pids = pids_of(mortal)
    frozen = sorted(pids)[0]
    stop = threading.Timer(1, os.kill, (pids[frozen], signal.SIGSTOP))
    stop.start()
    try:
        if when != "meanwhile":
            stop.join()
        with pytest.raises(RuntimeError, match=f"the worker {frozen}, .* no sign"):
            calls[when](mortal)
    finally:
        stop.join()
        os.kill(pids[frozen], signal.SIGCONT)
    assert kneighbors(cut(X), compute=True, client=mortal)[0].shape == (150, 5)
