"""How many threads the kernels use, and who may say so."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import metricfast
from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels

CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def threads_with(**variables):
    code = "import metricfast; print(metricfast.build_info()['threads'])"
    names = ("METRICFAST_NUM_THREADS", "OMP_NUM_THREADS")
    environment = {k: v for k, v in os.environ.items() if k not in names}
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | variables,
        check=True,
        capture_output=True,
        text=True,
    )
    return int(result.stdout)


def test_the_environment_sets_the_default():
    assert threads_with() == CPUS
    assert threads_with(OMP_NUM_THREADS="3") == 3
    assert threads_with(OMP_NUM_THREADS="3", METRICFAST_NUM_THREADS="5") == 5
    assert threads_with(OMP_NUM_THREADS="nonsense") == CPUS


def test_threadpoolctl_limits():
    kernels = get_kernels()
    before = kernels.default_threads()
    known = [entry for entry in threadpool_info() if entry["user_api"] == "metricfast"]
    assert [entry["num_threads"] for entry in known] == [before]
    assert known[0]["version"] == metricfast.__version__
    with threadpool_limits(limits=1):
        assert kernels.default_threads() == 1
        assert kernels.threads_used(8) == 1
    with threadpool_limits(limits=1, user_api="blas"):
        assert kernels.default_threads() == before
    assert kernels.default_threads() == before
    assert kernels.threads_used(8) == 8


def test_n_jobs_by_scikit_learns_rules():
    assert as_threads(None) == get_kernels().default_threads()
    assert as_threads(3) == 3
    assert as_threads(-1) == CPUS
    assert as_threads(-CPUS - 5) == 1
    for bad in (0, 1.5, "2", True):
        with pytest.raises(ValueError, match="n_jobs must be"):
            as_threads(bad)
