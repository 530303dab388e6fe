"""Cases: two workers with one thread each against one process with two threads, and cost terms."""

from __future__ import annotations

__all__ = ["scale_dask"]

from functools import partial
from typing import Any

import numpy as np

from benchmarks.case import OURS, Arrays, Case, Entry, Target
from benchmarks.targets import Speedup

WORKERS = "2 workers"
POINTS, WIDTH, CLASSES = 20_000, 32, 10
DATABASE, SEARCHED_WIDTH = 60_000, 64
SUMMED, SUMMED_WIDTH = 200_000, 100


def _labelled() -> Arrays:
    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=POINTS)
    return {"X": rng.normal(size=(CLASSES, WIDTH))[y] + rng.normal(size=(POINTS, WIDTH)), "y": y}


def _searched(n_queries: int) -> Arrays:
    rng = np.random.default_rng(0)
    rows = {"queries": n_queries, "database": DATABASE}
    return {name: rng.standard_normal((n, SEARCHED_WIDTH), np.float32) for name, n in rows.items()}


def _summed() -> Arrays:
    rng = np.random.default_rng(0)
    linear = rng.normal(size=(SUMMED_WIDTH, SUMMED_WIDTH))
    return {"X": rng.normal(size=(SUMMED, SUMMED_WIDTH)), "L": linear}


def _same(key: str, arrays: Arrays, digests: dict[str, Arrays]) -> dict[str, str]:
    if OURS in digests and WORKERS in digests:
        one, other = digests[OURS][key], digests[WORKERS][key]
        if not np.allclose(one, other, rtol=1e-5, atol=1e-5 * np.abs(one).max()):
            return {WORKERS: f"finds other {key} than one process"}
    return {}


def scale_dask() -> list[Case]:
    """Return the cases."""
    fits: dict[str, dict[str, Any]] = {
        "NCA": {"max_iter": 5, "init": "identity", "init_scale": None, "judge": None},
        "LMNN": {
            "max_iter": 10,
            "min_iter": 10,
            "init": "identity",
            "judge": None,
            "target_refresh": 0,
        },
    }
    targets: list[Target] = [Speedup(OURS, 0.8, WORKERS)]
    how: dict[str, Any] = {"threads": (2,), "rounds": 3}
    cases = [
        Case(
            f"scale-dask-{learner.lower()}",
            f"{learner}, {params['max_iter']} iterations, n={POINTS}, d={WIDTH}",
            _labelled,
            [
                Entry(OURS, OURS, "metricfast.fit", {"learner": learner, **params}, **how),
                Entry(WORKERS, OURS, "dask.fit", {"learner": learner, **params}, **how),
            ],
            targets=targets,
            check=partial(_same, "components"),
            warm=False,
            when="full",
        )
        for learner, params in fits.items()
    ]
    cases += [
        Case(
            f"scale-dask-search-{n_queries}" + "-lazy" * lazy,
            f"10 nearest of {n_queries} queries in {DATABASE} float32 points, d={SEARCHED_WIDTH}"
            + ", as dask arrays" * lazy,
            partial(_searched, n_queries),
            [
                Entry(OURS, OURS, "metricfast.neighbors", {"k": 10}, threads=(2,)),
                Entry(WORKERS, OURS, "dask.search", {"k": 10, "lazy": lazy}, threads=(2,)),
            ],
            targets=[] if lazy else targets,
            check=partial(_same, "indices"),
            when="full",
        )
        for n_queries, lazy in ((POINTS, False), (POINTS, True), (5 * POINTS, False))
    ]
    cases.append(
        Case(
            "scale-dask-parts",
            f"a round trip of 1, 4 and 16 tasks, and sums of {SUMMED} points, d={SUMMED_WIDTH}",
            _summed,
            [
                *(
                    Entry(f"{n} tasks", OURS, "dask.nothing", {"n_tasks": n}, threads=(2,))
                    for n in (1, 4, 16)
                ),
                Entry("sums", OURS, "dask.sums", threads=(2,)),
            ],
            when="full",
        )
    )
    return cases
