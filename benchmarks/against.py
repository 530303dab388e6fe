"""Compare the working tree with another revision: time the same calls, and report ratios."""

from __future__ import annotations

__all__ = ["LIMIT", "NotSlower", "against", "cases", "ratios", "summary"]

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace

from benchmarks import suite
from benchmarks.case import LEVELS, OURS, Case, Level, Outcome, Row, Verdict
from benchmarks.ours import ours

LIMIT = 0.97


@dataclass
class Ratio:
    """Time of a revision divided by the time of the working tree, for the same call.

    `elapsed` is the median over rounds. `processor` compares minimum processor times, which depend
    less on other load of the machine. On one thread, both measure the same, and `processor` is
    used.
    """

    elapsed: float | None = None
    processor: float | None = None
    threads: int = 0

    @property
    def counts(self) -> float | None:
        """Return the ratio that decides."""
        return self.processor if self.threads == 1 and self.processor else self.elapsed

    def __str__(self) -> str:
        if self.elapsed is None:
            return "not measured"
        by_processor = f", by processor time {self.processor:.2f}x" if self.processor else ""
        return f"{self.elapsed:.2f}x{by_processor}"


def _compare(ours: Outcome, theirs: Outcome) -> Ratio:
    if not (ours.seconds and theirs.seconds):
        return Ratio()
    elapsed = statistics.median(a / b for a, b in zip(theirs.samples, ours.samples, strict=True))
    cpu = (theirs.cpu_seconds, ours.cpu_seconds)
    return Ratio(elapsed, cpu[0] / cpu[1] if cpu[0] and cpu[1] else None, ours.threads)


@dataclass
class NotSlower:
    """The other revision takes at least `LIMIT` times as long as the working tree."""

    ours: str
    theirs: str

    def ratio(self, outcomes: dict[str, Outcome]) -> Ratio:
        """Return the ratio of two outcomes."""
        return _compare(outcomes[self.ours], outcomes[self.theirs])

    def judge(self, outcomes: dict[str, Outcome]) -> Verdict:
        """Compare times of the same rounds."""
        ratio = self.ratio(outcomes)
        reached = None if ratio.counts is None else ratio.counts >= LIMIT
        return Verdict(f"{self.ours} ≥ {LIMIT:g}x {self.theirs}: {ratio}", reached)


def against(case: Case, peer: str, threads: int | None = None) -> Case:
    """Return the case of this library's entries, each with the same call of a revision."""
    mine = [entry for entry in case.entries if entry.peer == OURS]
    if threads is not None:
        mine = [replace(entry, threads=(threads,)) for entry in mine]
    pairs = [(e, replace(e, label=f"{e.label} {peer}", peer=peer)) for e in mine]
    return replace(
        case,
        entries=[entry for pair in pairs for entry in pair],
        bound=None,
        targets=[NotSlower(mine.label, other.label) for mine, other in pairs],
    )


def cases(
    peer: str, level: Level, only: list[str] | None = None, threads: int | None = None
) -> list[Case]:
    """Return the cases of a comparison with a revision: all that run this library."""
    found = [*suite.cases("full"), *ours()]
    if only:
        chosen = [case for case in found if any(part in case.name for part in only)]
    else:
        chosen = [case for case in found if LEVELS.index(case.when) <= LEVELS.index(level)]
    return [against(c, peer, threads) for c in chosen if any(e.peer == OURS for e in c.entries)]


def ratios(rows: Iterable[Row]) -> dict[str, Ratio]:
    """Return the ratios of all entries, by case and label."""
    found = {}
    for row in rows:
        outcomes = {outcome.label: outcome for outcome in row.outcomes}
        for target in row.case.targets:
            assert isinstance(target, NotSlower)
            name = row.case.name if target.ours == OURS else f"{row.case.name} {target.ours}"
            found[name] = target.ratio(outcomes)
    return found


def summary(found: dict[str, Ratio]) -> str:
    """Return the smallest ratio, the cases below the limit, and the cases without measurement."""
    measured = sorted((r.counts, name) for name, r in found.items() if r.counts is not None)
    missing = [name for name, ratio in found.items() if ratio.counts is None]
    lines = [f"not measured: {', '.join(missing)}"] if missing else []
    if measured:
        lines.append("smallest ratio: {:.2f}x, {}".format(*measured[0]))
    for counts, name in measured:
        if counts < LIMIT:
            lines.append(f"below {LIMIT:g}x: {name}: {found[name]}")
    return "\n".join(lines)
