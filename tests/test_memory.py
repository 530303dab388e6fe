"""A call that runs out of memory raises MemoryError, in whichever thread the allocation fails.

This file is also a program that runs in a separate process, with a growing memory limit: it prints
how each call ended. Calls use single kernels, because NumPy and OpenBLAS abort the process at some
failed allocations. In `tests/cpp/test_memory.cpp`, every allocation fails once, for the kernels of
all learners.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import eye_array
from thinned import thinned

import metricfast as mf

resource = pytest.importorskip("resource", reason="the system has no limits of memory")

MEGABYTE = 1 << 20
STEPS = 40
X = np.random.default_rng(0).normal(size=(3000, 60))
Y = np.arange(len(X)) % 10
MLP = mf.embeddings.MLP([200, 100])
WEIGHTS = MLP.initialize(X, Y, np.random.RandomState(0))
CALLS: dict[str, Callable[[np.ndarray, np.ndarray], object]] = {
    "kneighbors": lambda X, y: mf.kneighbors(X, n_neighbors=50, n_jobs=4),
    "inference": lambda X, y: mf.inference.both(X, None, y, y, 50, n_jobs=4),
    "NCA": lambda X, y: mf.losses.NCA()(X, y, n_jobs=4),
    "LMNN": lambda X, y: mf.losses.LMNN()(X, y, n_jobs=4),
    "gerrymandering": lambda X, y: mf.losses.Gerrymander()(X, y, n_jobs=4),
    "pairwise_distances": lambda X, y: mf.pairwise_distances(X, n_jobs=4),
    "metric_gradient": lambda X, y: mf.metric_gradient(X, eye_array(len(X)), L=X[:20], n_jobs=4),
    "MLP": lambda X, y: MLP.forward(WEIGHTS, X, n_jobs=4),
}


def main(name: str) -> None:
    CALLS[name](X[:60], Y[:60])  # import everything before
    status = Path("/proc/self/status").read_text().splitlines()
    used = next(int(line.split()[1]) for line in status if line.startswith("VmSize")) * 1024
    enough = 0
    for step in range(STEPS):
        limit = used + (1 + 3 * step) * MEGABYTE
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        try:
            CALLS[name](X, Y)
        except MemoryError:
            print("MemoryError", flush=True)
        else:
            print("done", flush=True)
            enough += 1
            if enough == 3:
                break


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "name",
    thinned(CALLS, ("kneighbors", "LMNN", "inference", "metric_gradient", "MLP").__contains__),
)
def test_memory_that_ends_in_any_thread_is_a_memory_error(name):
    found = subprocess.run(
        [sys.executable, __file__, name], check=False, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    assert "MemoryError" in found.stdout


if __name__ == "__main__":
    main(sys.argv[1])
