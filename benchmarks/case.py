"""A row of the benchmark: data, contestants, a lower bound and targets."""

from __future__ import annotations

__all__ = ["LEVELS", "OURS", "Case", "Entry", "Level", "Outcome", "Row", "Target", "Verdict"]

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from benchmarks.bounds import Rates

OURS = "metricfast"
Level = Literal["quick", "normal", "full"]
LEVELS: tuple[Level, ...] = ("quick", "normal", "full")
Arrays = dict[str, np.ndarray]


@dataclass
class Entry:
    """One contestant of a case.

    `label` is the name in the table, `peer` the package. `probe` holds parameters that shorten a
    long fit during the search for the best thread count. Below the level `when`, the entry does not
    run, and the table shows its recorded result. `rounds` is the maximum number of repetitions.
    """

    label: str
    peer: str
    call: str
    params: dict[str, Any] = field(default_factory=dict)
    probe: dict[str, Any] = field(default_factory=dict)
    threads: tuple[int, ...] = ()
    when: Level = "quick"
    rounds: int = 100


@dataclass
class Outcome:
    """The outcome of one contestant: `status` is ok, missing, failed, skipped or recorded.

    `seconds` is the median of `samples`. `cpu_seconds` is the minimum processor time of a run,
    summed over threads, which depends less on other processes. `peak_bytes` excludes the input.
    """

    label: str
    status: str
    detail: str = ""
    threads: int = 0
    seconds: float | None = None
    samples: list[float] = field(default_factory=list)
    cpu_seconds: float | None = None
    peak_bytes: int | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Return whether there is a result to compare with."""
        return self.status in ("ok", "recorded")


@dataclass
class Verdict:
    """A target and its result. `reached` is None if the target was not measured."""

    text: str
    reached: bool | None


class Target(Protocol):
    """A target of a case."""

    def judge(self, outcomes: dict[str, Outcome]) -> Verdict:
        """Compare the outcomes, by label."""


@dataclass
class Case:
    """A row of the benchmark.

    `check` compares the digests of all contestants with the correct results, and returns errors by
    label. `score` computes the numbers that are printed next to the time from a digest. With
    `warm`, every contestant runs once and is checked before the timed runs; long fits are checked
    after their runs.
    """

    name: str
    title: str
    arrays: Callable[[], Arrays]
    entries: list[Entry]
    bound: Callable[[Rates], float] | None = None
    targets: list[Target] = field(default_factory=list)
    check: Callable[[Arrays, dict[str, Arrays]], dict[str, str]] = lambda arrays, digests: {}
    score: Callable[[Arrays, Arrays], dict[str, float]] = lambda arrays, digest: {}
    warm: bool = True
    when: Level = "quick"


@dataclass
class Row:
    """A finished case. `busy_cores` is the number of cores that other processes used before it."""

    case: Case
    outcomes: list[Outcome]
    verdicts: list[Verdict]
    bound: float | None
    busy_cores: float | None
