"""The number of threads of the kernels, its settings, and equal results for any number."""

import os
import subprocess

import numpy as np
import pytest
from new_process import run
from threadpoolctl import threadpool_info, threadpool_limits

import metricfast as mf
from metricfast import inference, losses
from metricfast._core.arrays import as_threads
from metricfast._core.dispatch import get_kernels

CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def threads_with(**variables):
    code = "import metricfast; print(metricfast.build_info()['threads'])"
    unset = {"METRICFAST_NUM_THREADS": None, "OMP_NUM_THREADS": None}
    return int(run(code, **unset | variables).stdout)


def test_the_environment_sets_the_default():
    assert threads_with() == CPUS
    assert threads_with(OMP_NUM_THREADS="3") == 3
    assert threads_with(OMP_NUM_THREADS="3", METRICFAST_NUM_THREADS="5") == 5
    assert threads_with(OMP_NUM_THREADS="nonsense") == CPUS
    assert threads_with(METRICFAST_NUM_THREADS="") == CPUS


@pytest.mark.parametrize("value", ["abc", "1e3", "0", "-2"])
def test_a_bad_number_in_the_environment_is_refused(value):
    with pytest.raises(subprocess.CalledProcessError) as found:
        threads_with(METRICFAST_NUM_THREADS=value)
    expected = f"METRICFAST_NUM_THREADS must be a positive integer, got '{value}'"
    assert expected in found.value.stderr


def test_threadpoolctl_limits():
    kernels = get_kernels()
    before = kernels.default_threads()
    known = [entry for entry in threadpool_info() if entry["user_api"] == "metricfast"]
    assert [entry["num_threads"] for entry in known] == [before]
    assert known[0]["version"] == mf.__version__
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


RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(900, 6)), RNG.integers(0, 4, 900)
TARGETS = losses.LMNN.find_targets(X, Y, 3)
LISTS = losses.LMNN.find_impostors(X, Y, TARGETS)
TUPLES, L = RNG.integers(900, size=(20_000, 4)), RNG.normal(size=(4, 6))
# Functions of points and a number of threads.
CALLS = {
    "pairwise_distances": lambda X, n: mf.pairwise_distances(X, n_jobs=n),
    "kneighbors": lambda X, n: mf.kneighbors(X, n_neighbors=9, n_jobs=n),
    "Database": lambda X, n: mf.Database(X).kneighbors(X, n_jobs=n),
    "Database of few coordinates": lambda X, n: mf.Database(X[:, :3]).kneighbors(
        X[:, :3], n_jobs=n
    ),
    "inference": lambda X, n: inference.both(X, None, Y, Y, 7, n_jobs=n),
    "NCA": lambda X, n: losses.NCA()(X, Y, n_jobs=n),
    "NCA of a database": lambda X, n: losses.NCA("log")(X, Y, X[:300], Y[:300], n_jobs=n),
    "LMNN": lambda X, n: losses.LMNN()(X, Y, targets=TARGETS, n_jobs=n),
    "LMNN of lists": lambda X, n: losses.LMNN()(X, Y, targets=TARGETS, impostors=LISTS, n_jobs=n),
    "lsml_loss": lambda X, n: value_and_scatter(
        "lsml_loss", 6, X, TUPLES, np.ones(20_000), np.eye(6), n
    ),
    "sum_of_distances": lambda X, n: value_and_scatter(
        "sum_of_distances", 6, X, TUPLES[:, :2].copy(), np.eye(6), False, n
    ),
    "sum_of_distances, diagonal": lambda X, n: value_and_scatter(
        "sum_of_distances", 1, X, TUPLES[:, :2].copy(), np.ones((1, 6)), True, n
    ),
    "group_scatter": lambda X, n: scatter(np.tile(X, (6, 12)), n),
    "triplet_objective": lambda X, n: get_kernels().triplet_objective(
        X.astype(float), L, TUPLES[:, :3].copy(), None, 0.0, n
    ),
}


def value_and_scatter(name, rows, X, *arguments):
    out = np.empty((rows, X.shape[1]))
    return getattr(get_kernels(), name)(out, X, *arguments), out


def scatter(X, threads):
    found, ones = np.empty((X.shape[1],) * 2), np.ones(len(X))
    zeros = np.zeros(len(X), np.int64)
    get_kernels().group_scatter(found, X, ones, zeros, 0 * X[:1].astype(float), None, threads, None)
    return found


def flat(result):
    return (
        np.concatenate(list(map(flat, result))) if isinstance(result, tuple) else np.ravel(result)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CALLS)
def test_threads_do_not_change_a_bit(name, dtype):
    one, *others = (flat(CALLS[name](X.astype(dtype), n)) for n in (1, 2, 3, 7))
    for other in others:
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("name", CALLS)
def test_more_threads_than_there_can_be(name):
    np.testing.assert_array_equal(flat(CALLS[name](X, 2**31 - 1)), flat(CALLS[name](X, 1)))
