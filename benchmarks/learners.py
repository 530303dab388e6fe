"""Cases: fitting NCA and LMNN on synthetic data, and on MNIST."""

from __future__ import annotations

__all__ = ["contestants", "fit", "mnist", "overlapping", "scores"]

import os
from functools import partial

import numpy as np

from benchmarks import data, objectives
from benchmarks.bounds import Rates
from benchmarks.case import OURS, Arrays, Case, Entry, Level, Target
from benchmarks.targets import ErrorAtMost, MemoryAtMost, SecondsAtMost, Speedup

CORES = (os.cpu_count() or 1,)
GIBIBYTE = 2**30 / 1e6


def _ours(learner: str, **params: object) -> Entry:
    return Entry(
        OURS, "metricfast", "metricfast.fit", {"learner": learner, **params}, threads=CORES
    )


def contestants(learner: str, peer: Level, metric_learn: Level) -> list[Entry]:
    """Return the contestants for `learner`, which start from the identity, with their levels."""
    start = {"init": "identity", "random_state": 0}
    if learner == "NCA":
        alike = {**start, "max_iter": 50, "tol": 1e-5}
        peers = [
            Entry(
                "scikit-learn",
                "scikit-learn",
                "sklearn.nca",
                alike,
                probe={"max_iter": 2},
                when=peer,
                rounds=1,
            ),
            Entry(
                "metric-learn",
                "metric-learn",
                "metric_learn.fit",
                {"learner": "NCA", **start},
                probe={"max_iter": 2},
                when=metric_learn,
                rounds=1,
            ),
        ]
        return [_ours("NCA", **alike, as_known=True), *peers]
    alike = {**start, "n_neighbors": 3}
    return [
        _ours("LMNN", **alike, as_known=True),
        Entry("PyLMNN", "PyLMNN", "pylmnn.fit", alike, probe={"max_iter": 3}, when=peer, rounds=3),
        Entry(
            "metric-learn",
            "metric-learn",
            "metric_learn.fit",
            {"learner": "LMNN", **alike},
            probe={"max_iter": 3},
            when=metric_learn,
            rounds=1,
        ),
    ]


def scores(learner: str, arrays: Arrays, digest: Arrays) -> dict[str, float]:
    """Return the final objective, the test error and the number of iterations."""
    linear, x, y = digest["components"], arrays["X"], arrays["y"]
    objective = objectives.nca_objective if learner == "NCA" else objectives.lmnn_objective
    error = objectives.test_error(linear, x, y, arrays["X_test"], arrays["y_test"])
    found = {"objective": objective(linear, x, y), "error": error}
    if "iterations" in digest:
        found["iterations"] = float(digest["iterations"])
    return found


def fit(learner: str, n: int, when: Level, peer: Level, metric_learn: Level) -> Case:
    """Return the case of fitting a learner to n synthetic points.

    The bound counts the work that no exact method avoids. For NCA, these are three n x n x d
    products per evaluation, for the 48 iterations to scikit-learn's optimum. For LMNN, these are
    one search for targets and one for impostors.
    """
    d = 32

    def bound(rates: Rates) -> float:
        products = 3 * 48 if learner == "NCA" else 2
        return products * 2 * n * n * d / rates.gemm["float64"]

    targets: list[Target]
    if learner == "NCA":
        targets = [Speedup("scikit-learn", 12), MemoryAtMost(150)]
    else:
        targets = [Speedup("PyLMNN", 5), Speedup("metric-learn", 30)]
    entries = contestants(learner, peer, metric_learn)
    if learner == "NCA":
        alike = {"max_iterations": 50, "tolerance": 1e-5, "num_basis": 10}
        probe = {"max_iterations": 1}
        entries.append(Entry("mlpack", "mlpack", "mlpack.nca", alike, probe, when="full", rounds=1))
    return Case(
        f"{learner.lower()}-{n}",
        f"{learner} fit, n={n}, d={d}, 10 classes, float64",
        partial(data.synthetic, n),
        entries,
        bound,
        targets,
        score=partial(scores, learner),
        warm=False,
        when=when,
    )


def overlapping(n: int) -> Case:
    """Return the case of LMNN where most points are impostors of most others.

    The bound is one n x n x p product per evaluation, with at least 50 evaluations. The gradient
    needs two more products.
    """
    p = 32
    ours = _ours("LMNN", n_components=p, max_iter=50, random_state=0, as_known=True)
    ours.rounds = 3

    def score(arrays: Arrays, digest: Arrays) -> dict[str, float]:
        split = (arrays[name] for name in ("X", "y", "X_test", "y_test"))
        return {"error": objectives.test_error(digest["components"], *split)}

    return Case(
        f"lmnn-overlapping-{n}",
        f"LMNN fit, n={n}, d=128 to {p}, 300 classes that overlap, float32",
        partial(data.overlapping, n),
        [ours],
        lambda rates: 51 * 2 * n * n * p / rates.gemm["float32"],
        [MemoryAtMost(100)],
        score=score,
        warm=False,
        when="normal",
    )


def mnist(learner: str) -> Case:
    """Return the case of fitting a learner to MNIST in bounded memory."""
    options: dict[str, object] = {"init": "pca", "n_components": 50, "random_state": 0}
    options |= {"solver": "adam"} if learner == "NCA" else {"convergence_tol": 1e-4}
    ours = _ours(learner, **options, as_known=True)
    ours.rounds = 1
    pca = Entry("PCA", "scikit-learn", "sklearn.pca", {"n_components": 50}, threads=CORES, rounds=1)

    def score(arrays: Arrays, digest: Arrays) -> dict[str, float]:
        linear = digest["components"].astype(np.float32)
        split = (arrays[name] for name in ("X", "y", "X_test", "y_test"))
        return {"error": objectives.test_error(linear, *split)}

    return Case(
        f"mnist-{learner.lower()}",
        f"{learner} on MNIST, 60000x784 to 50, float32",
        data.mnist,
        [ours, pca],
        targets=[
            MemoryAtMost(2 * GIBIBYTE),
            SecondsAtMost(15 * 60),
            ErrorAtMost(("PCA",), strictly=True),
        ],
        score=score,
        warm=False,
        when="full",
    )
