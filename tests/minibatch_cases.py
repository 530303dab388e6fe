"""Points, sources and learners of the tests on mini-batches."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import make_blobs
from stored import Stored
from trained import embedding_learner

import metricfast as mf
from metricfast import losses
from metricfast.embeddings import MLP
from metricfast.training.objective import neighbor_error

Array = NDArray[Any]
N, WIDTH = 4000, 8
# A chunk, an eighth of this, has a ninth of the points.
LIMIT = N * WIDTH * 4


class Counted(Stored):
    """Check that one thread reads at a time; fail after a number of reads."""

    def __init__(self, X: Array) -> None:
        super().__init__(X)
        self.fail_after = np.inf
        self._reading = threading.Lock()

    def read(self, start: int, stop: int) -> Array:
        assert self._reading.acquire(blocking=False), "two threads read at a time"
        try:
            if self.rows_read + stop - start > self.fail_after:
                raise OSError("the disk is gone")
            return super().read(start, stop)
        finally:
            self._reading.release()


def blobs(dtype: Any = np.float32) -> tuple[Array, Array]:
    X, y = make_blobs(N, WIDTH, centers=12, cluster_std=1.0, center_box=(-4, 4), random_state=0)
    X[:, ::2] *= np.random.RandomState(1).randn(N, WIDTH // 2) * 3  # useless features
    return (X / 4).astype(dtype), y


X, Y = blobs()
SGD = {"solver": mf.solvers.Adam(max_epochs=4), "random_state": 0}
SHORT = {"solver": mf.solvers.Adam(max_epochs=2), "random_state": 0}
FOUR = {"n_components": 4, "random_state": 0}
NAMED = {
    **{name: getattr(mf, name)(**SGD) for name in ("NCA", "LMNN", "MCML", "LDML", "NCMML", "MLKR")},
    "LMNN with new targets": mf.LMNN(**SHORT, target_refresh=1),
    "gerrymandering": mf.NeighborhoodGerrymandering(judge=None, **SHORT),
    "gerrymandering of M": mf.NeighborhoodGerrymandering(parameterization="M", judge=None, **SHORT),
    "gerrymandering of numbers": mf.NeighborhoodGerrymanderingRegressor(**SHORT),
    "perceptron": embedding_learner(losses.NCA(), MLP((6,), 4), max_epochs=4),
    "proxies": mf.ProxyNCALearner(**FOUR, max_epochs=4, judge=None),
    "triplets": mf.TripletLearner(**FOUR, max_epochs=4, judge=None),
    "log ratios": mf.LogRatioLearner(**FOUR, max_epochs=1),
}
LEARNERS = list(NAMED.values())


def some(*names: str) -> pytest.MarkDecorator:
    """Run a test for the learners of these names."""
    return pytest.mark.parametrize("learner", [NAMED[name] for name in names], ids=names)


def parameters(learner: Any) -> Array:
    found = learner.parameters_ if hasattr(learner, "parameters_") else [learner.components_]
    return np.concatenate([array.ravel() for array in found])


def labels_of(learner: Any) -> Array:
    return Y if learner._has_classes else X[:, 1] + X[:, 3] ** 2


def error(learner: Any) -> float:
    """Return the nearest-neighbour error of every fifth point, relative to the Euclidean error."""
    test, y = np.arange(N) % 5 == 0, labels_of(learner)
    errors = [
        neighbor_error(Z[~test], y[~test], Z[test], y[test], not learner._has_classes)
        for Z in (np.ascontiguousarray(learner.transform(X)), X)
    ]
    return errors[0] / errors[1]
