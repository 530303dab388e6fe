"""Clusters, points and learners for the tests with Dask."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import dask
import dask.array as da
import distributed
import numpy as np
import pytest
from sklearn.datasets import load_iris
from trained import embedding_learner

import metricfast as mf
from metricfast import losses
from metricfast.dask import DistributedLearner
from metricfast.embeddings import MLP

# Warnings of distributed itself, when clusters and workers end.
MARKS = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:::distributed"),
    pytest.mark.filterwarnings("ignore:Sending large graph"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
X, Y = load_iris(return_X_y=True)
ORDER = np.random.RandomState(0).permutation(len(X))
X, Y = X[ORDER], Y[ORDER]
# Chunk sizes of an array: uneven, and some of them empty.
CHUNKS = (0, 3, 70, 0, 76, 1)
# Worker processes fork from a server that has imported the slow modules.
METHOD = "forkserver" if os.name == "posix" else "spawn"
with dask.config.set({"distributed.worker.multiprocessing-method": METHOD}):
    distributed.utils.get_mp_context()  # this call sets the server's modules itself
if METHOD == "forkserver":
    multiprocessing.get_context(METHOD).set_forkserver_preload(["metricfast.dask"])


@contextmanager
def cluster(n_workers: int = 1, threads: int = 1, **how: Any) -> Iterator[Any]:
    how = {"n_workers": n_workers, "processes": False, "dashboard_address": ":0", **how}
    # Dask sets thread counts in the environment for its workers, and does not restore them here.
    with (
        mock.patch.dict(os.environ),
        dask.config.set({"distributed.worker.multiprocessing-method": METHOD}),
        distributed.LocalCluster(threads_per_worker=threads, **how) as made,
        distributed.Client(made) as client,
    ):
        client.wait_for_workers(n_workers, timeout=30)
        yield client


def cut(values: Any, chunks: Any = CHUNKS) -> Any:
    values = np.asarray(values)
    return da.from_array(values, chunks=(chunks, *values.shape[1:]))


def learned(learner: Any) -> Any:
    found = getattr(learner, "components_", None)
    return learner.parameters_[0] if found is None else found


SHORT = {"n_components": 2, "max_iter": 3, "judge": None}
LEARNERS = {
    "NCA": mf.NCA(n_components=2, max_iter=3),  # whose folds are on the workers, too
    **{kind.__name__: kind(**SHORT) for kind in (mf.LMNN, mf.MLKR, mf.MCML, mf.LDML, mf.NCMML)},
    "refreshed LMNN": mf.LMNN(**SHORT | {"max_iter": 2}, min_iter=1, target_refresh=1),
    "NCA by batches": mf.NCA(n_components=2, solver=mf.solvers.Adam(max_epochs=1), random_state=0),
    "LMNN by batches": mf.LMNN(
        n_components=2, solver=mf.solvers.Adam(max_epochs=1), random_state=0
    ),
    "embedding": mf.TripletLearner(2, max_epochs=1, batch_size=50, random_state=0, judge=None),
    "proxies": mf.ProxyNCALearner(2, max_epochs=1, random_state=0, judge=None),
    "all points": embedding_learner(losses.NTXent(), MLP((4,), 2), solver="lbfgs", max_epochs=2),
    "votes": mf.NeighborhoodGerrymandering(
        n_components=2, solver=mf.solvers.LBFGS(2, 1e-4), random_state=0, judge=None
    ),
    "votes, M": mf.NeighborhoodGerrymandering(
        parameterization="M", random_state=0, solver=mf.solvers.Adam(batch_size=75, max_epochs=1)
    ),
}


SAME: dict[str, Callable[[], DistributedLearner]] = {
    "sums": lambda: DistributedLearner(mf.RCA()),
    "classes": lambda: DistributedLearner(mf.LFDA(), n_parts=2),
    "anchors": lambda: DistributedLearner(mf.DMLMJ(), n_parts=5),
    "draws": lambda: DistributedLearner(mf.SDML_Supervised(balance_param=1e-3, random_state=0)),
    "all points": lambda: DistributedLearner(
        mf.MCML(n_components=3, max_iter=3, judge=None)
    ),
    "batches": lambda: DistributedLearner(LEARNERS["NCA by batches"]),
    "epochs": lambda: DistributedLearner(
        mf.NCA(n_components=2, solver=mf.solvers.Adam(max_epochs=3), random_state=0),
        sync="epochs", n_parts=4,
    ),
    "epochs of an embedding": lambda: DistributedLearner(
        mf.ProxyNCALearner(
            2, max_epochs=3, batch_size=10, learning_rate=0.01, random_state=0, judge=None
        ),
        sync="epochs", n_parts=4,
    ),
}  # fmt: skip
