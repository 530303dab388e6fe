"""Cases: points on disk, read block by block, compared with only reading the file."""

from __future__ import annotations

__all__ = ["GIGABYTES", "SMALL", "million", "scale", "stored"]

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import metricfast
from benchmarks.bounds import Rates
from benchmarks.case import OURS, Arrays, Case, Entry, Target
from benchmarks.targets import MemoryAtMost, Speedup

CORES = (os.cpu_count() or 1,)
# Ways to read: (bypass the page cache, number of threads).
READINGS = {"reading": (False, 1), "reading past the cache": (True, 2)}
WIDTH, CLASSES = 128, 10
ROW = 4 * WIDTH  # bytes per point
# Number of points of a full run and of a quick run.
GIGABYTES, SMALL = 10_240_000_000 // ROW, 204_800_000 // ROW
QUERIES, K = 1000, 10
BATCH, ROWS = 1000, 16  # NCA
MEMORY = 500  # MiB of working memory
CHECKED = 200_000  # number of points


@cache
def stored(n_points: int, width: int = WIDTH) -> Path:
    """Return a temporary file of float32 points around class means."""
    folder = Path(tempfile.mkdtemp(prefix="metricfast-scale-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "X.npy"
    points = np.lib.format.open_memmap(path, "w+", np.float32, (n_points, width))
    labels = classes(n_points)
    for start in range(0, n_points, 50_000):
        points[start : start + 50_000] = _points(labels[start : start + 50_000], width, start)
        points.flush()
    return path


def _points(labels: np.ndarray, width: int, seed: int) -> np.ndarray:
    """Return points that vary around the means of their classes."""
    means = np.random.default_rng(0).normal(size=(CLASSES, width))
    noise = np.random.default_rng(seed).standard_normal((len(labels), width), np.float32)
    return (noise + means[labels] / 4).astype(np.float32)


def classes(n_points: int) -> np.ndarray:
    """Return the class of each point."""
    return np.random.default_rng(1).integers(0, CLASSES, n_points, np.int8)


def _arrays(n_points: int) -> Arrays:
    queries = np.random.default_rng(2).standard_normal((QUERIES, WIDTH), np.float32)
    return {"path": np.array(str(stored(n_points))), "queries": queries, "y": classes(n_points)}


def _check(arrays: Arrays, digests: dict[str, Arrays]) -> dict[str, str]:
    """Compare the neighbours among the first points with a search in memory."""
    some = np.load(str(arrays["path"]), mmap_mode="r")[:CHECKED]
    expected = metricfast.kneighbors(arrays["queries"], np.array(some), K)[1]
    found = digests.get(OURS, {}).get("indices", np.empty((0, K)))
    for row, nearest in zip(found, expected, strict=False):
        among = row[row < len(some)]
        if not np.array_equal(among, nearest[: len(among)]):
            return {OURS: "finds other neighbours than a search in memory"}
    return {}


def _case(
    name: str, title: str, n_points: int, call: str, share: float | None, products: float = 0,
    exponentials: float = 0, **params: Any,
) -> Case:  # fmt: skip
    """Return a case that must reach a share of the reading rate.

    `products`, `exponentials`: the number of operations per point.
    """
    ours = Entry(
        OURS, OURS, f"metricfast.{call}", {"memory": MEMORY, **params}, threads=CORES, rounds=3
    )
    readings = [
        Entry(
            name, "numpy", "baseline.read_file", {"past_cache": past}, threads=(threads,), rounds=3
        )
        for name, (past, threads) in READINGS.items()
    ]

    def bound(rates: Rates) -> float:
        of_point = (
            2 * products / rates.gemm["float32"] + exponentials / rates.exponentials["float32"]
        )
        return n_points * of_point

    targets: list[Target] = [MemoryAtMost(1000)]
    if share is not None:
        targets.append(Speedup("reading", share))
    return Case(
        f"scale-{name}" + "-small" * (n_points == SMALL),
        f"{title}, {n_points * ROW / 1e9:g} GB of float32 points on disk, d={WIDTH}",
        lambda: _arrays(n_points),
        [ours, *readings],
        bound if products else None,
        targets,
        _check if call == "search_file" else lambda arrays, digests: {},
        warm=call == "search_file",
        when="quick" if n_points == SMALL else "full",
    )


def scale(n_points: int) -> list[Case]:
    """Return the cases for a file of `n_points` points."""
    return [
        _case(
            "search", f"{K} nearest of {QUERIES} queries", n_points, "search_file", 0.8,
            QUERIES * WIDTH / 4, k=K,
        ),
        _case("covariance", "Covariance", n_points, "fit_file", 0.8, learner="Covariance"),
        _case(
            # Products: the map, distances of each point to half of its batch, and the gradients of
            # both.
            "nca", "an epoch of NCA to 16 dimensions", n_points, "fit_file", 0.5,
            2 * WIDTH * ROWS + 1.5 * BATCH * ROWS, BATCH / 2, learner="NCA", labels=True,
            solver="adam", max_epochs=1, n_components=ROWS, init="identity", random_state=0,
        ),
    ]  # fmt: skip


def _errors(arrays: Arrays, digest: Arrays) -> dict[str, float]:
    """Return the 3-NN error of new points, with 50,000 points as the database."""
    points = np.load(str(arrays["path"]), mmap_mode="r")[:50_000]
    truth = np.random.default_rng(3).integers(0, CLASSES, 10_000)
    queries = _points(truth, points.shape[1], 3)
    found = {}
    for name, metric in (("error", digest["components"]), ("Euclidean error", "euclidean")):
        judge = metricfast.KNeighborsClassifier(3, metric=metric)
        found[name] = 1 - judge.fit(points, arrays["y"][: len(points)]).score(queries, truth)
    return found


def million() -> list[Case]:
    """Return the cases of mini-batch training with a million points on disk."""
    n_points, width = 1_000_000, 100
    params = {"solver": "adam", "max_epochs": 10, "random_state": 0}
    return [
        Case(
            f"scale-million-{learner.lower()}",
            f"10 epochs of {learner}, n={n_points} float32 points on disk, d={width}",
            lambda: {"path": np.array(str(stored(n_points, width))), "y": classes(n_points)},
            [
                Entry(
                    OURS, OURS, "metricfast.fit_file",
                    {"memory": MEMORY, "learner": learner, "labels": True, **params},
                    threads=CORES, rounds=1,
                )
            ],
            targets=[MemoryAtMost(4000)],
            score=_errors,
            warm=False,
            when="full",
        )
        for learner in ("NCA", "LMNN")
    ]  # fmt: skip
