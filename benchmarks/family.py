"""Cases: other learners that metric-learn has too, compared with metric-learn."""

from __future__ import annotations

__all__ = ["family"]

import os
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks import data, objectives
from benchmarks.case import OURS, Arrays, Case, Entry, Level, Target
from benchmarks.targets import ErrorAtMost, MemoryAtMost, SecondsAtMost, Speedup

CORES = (os.cpu_count() or 1,)
PEER = "metric-learn"
POINTS = 0.5


def _case(
    name: str,
    title: str,
    arrays: Any,
    call: str,
    params: dict[str, Any],
    targets: list[Target],
    score: Any,
    peer: Level,
    rounds: int = 3,
) -> Case:
    """Return a case that compares this library with metric-learn, with the same parameters."""
    entries = [
        Entry(OURS, OURS, f"metricfast.{call}", params, threads=CORES),
        Entry(PEER, PEER, f"metric_learn.{call}", params, when=peer, rounds=rounds),
    ]
    return Case(name, title, arrays, entries, None, targets, score=score, warm=False, when="normal")


def _error(arrays: Arrays, digest: Arrays) -> dict[str, float]:
    split = (arrays[name] for name in ("X", "y", "X_test", "y_test"))
    return {"error": objectives.test_error(digest["components"], *split)}


def _tuple_error(arrays: Arrays, digest: Arrays) -> dict[str, float]:
    held_out = arrays["index_test"], arrays.get("y_test")
    return {"error": objectives.tuple_error(digest["components"], arrays["X"], *held_out)}


def _labelled(
    learner: str,
    title: str,
    arrays: Any,
    factor: float,
    *more: Target,
    peer: Level = "normal",
    rounds: int = 3,
    target: str = "y",
    **params: Any,
) -> Case:
    targets: list[Target] = [Speedup(PEER, factor), ErrorAtMost((PEER,), POINTS), *more]
    name = f"{learner.lower().replace('_', '-')}-{title.split(',', maxsplit=1)[0].replace('=', '')}"
    params = {"learner": learner, "target": target, **params}
    return _case(name, f"{learner}, {title}", arrays, "fit", params, targets, _error, peer, rounds)


def _given(
    learner: str, kind: str, n: int, *targets: Target, peer: Level = "normal", rounds: int = 3
) -> Case:
    name = f"{learner.lower()}-{n:.0e}".replace("e+0", "e")
    title = f"{learner}, {n} {kind}, d=32"
    arrays = partial(data.tuples, kind, n)
    judged = [*targets, ErrorAtMost((PEER,), POINTS)]
    call = "fit_tuples"
    return _case(
        name, title, arrays, call, {"learner": learner}, judged, _tuple_error, peer, rounds
    )


def family() -> list[Case]:
    """Return the cases of learners on labels, of learners on given tuples, and of distances."""
    seeded = {"random_state": 0}
    at = {n: partial(data.synthetic, n) for n in (2000, 5000, 10000)}
    return [
        _labelled("ITML_Supervised", "n=5000, d=32", at[5000], 60, rounds=1, **seeded),
        _labelled("ITML_Supervised", "digits, d=64", data.digits, 25, rounds=1, **seeded),
        _mlkr(at[2000]),
        _labelled("SCML_Supervised", "n=5000, d=32", at[5000], 20, MemoryAtMost(200), **seeded),
        _labelled("SCML_Supervised", "n=10000, d=32", at[10000], 20, MemoryAtMost(200), **seeded),
        _labelled("MMC_Supervised", "digits, d=64", data.digits, 20, **seeded),
        _labelled("LSML_Supervised", "digits, d=64", data.digits, 10, **seeded),
        _labelled("LFDA", "n=10000, d=32", at[10000], 5, rounds=100),
        _labelled("RCA", "n=10000, d=32", data.chunks, 5, target="chunks", rounds=100),
        _given("ITML", "pairs", 10_000, Speedup(PEER, 50), rounds=1),
        _given("ITML", "pairs", 100_000, SecondsAtMost(10), peer="full", rounds=1),
        _scml(),
        _given("SCML", "triplets", 100_000, MemoryAtMost(500), peer="full", rounds=1),
        _given("LSML", "quadruplets", 100_000, Speedup(PEER, 10)),
        _given("MMC", "pairs", 100_000, Speedup(PEER, 10)),
        _pair_distance(),
    ]


def _shortened(case: Case, iterations: int, objective: Any) -> Case:
    """Add an entry of ours with fewer iterations: the time until the peer's objective."""
    short = f"{iterations} iterations"
    judge = case.score

    def score(arrays: Arrays, digest: Arrays) -> dict[str, float]:
        return {"objective": objective(arrays, digest["components"]), **judge(arrays, digest)}

    case.score = score
    params = {**case.entries[0].params, "max_iter": iterations}
    case.entries.insert(1, replace(case.entries[0], label=short, params=params))
    case.targets = [
        replace(target, ours=short) if isinstance(target, Speedup) else target
        for target in case.targets
    ]
    return case


def _mlkr(arrays: Any) -> Case:
    """Return the case of 1000 iterations, and one with just enough for the peer's objective."""
    case = _labelled("MLKR", "n=2000, d=32", arrays, 50, MemoryAtMost(50), peer="full", rounds=1)
    case.entries[0].params = {**case.entries[0].params, "as_known": True}

    def objective(arrays: Arrays, components: np.ndarray) -> float:
        return objectives.mlkr_objective(components, arrays["X"], arrays["y"])

    return _shortened(case, 350, objective)


def _scml() -> Case:
    """Return the case of 10000 triplets, also with just enough iterations for the peer's hinge."""
    case = _given("SCML", "triplets", 10_000, Speedup(PEER, 20))

    def hinge(arrays: Arrays, components: np.ndarray) -> float:
        return objectives.triplet_hinge(components, arrays["X"], arrays["index"])

    return _shortened(case, 500, hinge)


def _pair_distance() -> Case:
    def check(arrays: Arrays, digests: dict[str, Arrays]) -> dict[str, str]:
        wrong = {}
        for label, digest in digests.items():
            rows = arrays["index"][digest["rows"]]
            apart = (arrays["X"][rows[:, 0]] - arrays["X"][rows[:, 1]]) @ arrays["L"].T
            if not np.allclose(digest["distances"], np.linalg.norm(apart, axis=1), rtol=1e-8):
                wrong[label] = "wrong distances"
        return wrong

    case = _case(
        "pair-distance",
        "pair_distance, 1000000 pairs of indices, d=128 to 64, float64",
        data.indexed_pairs,
        "pair_distance",
        {},
        [Speedup(PEER, 5)],
        lambda arrays, digest: {},
        peer="normal",
        rounds=100,
    )
    case.check, case.warm = check, True
    return case
