"""Run a case: find the best thread counts, check results, then time interleaved rounds."""

from __future__ import annotations

__all__ = ["run_case"]

import os
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.case import LEVELS, Arrays, Case, Entry, Level, Outcome
from benchmarks.peers import PeerFailedError, PeerMissingError, Worker

# Threads of some BLAS and OpenMP libraries keep spinning for a while after a call, and would slow
# down the next contestant.
SETTLE = 0.25
# From this many seconds on, one trial per call suffices.
LONG = 1.0
Recorded = Callable[[str, str], Outcome | None]


class _Contestant:
    """A running entry, with its worker and its results so far."""

    def __init__(self, entry: Entry, folder: Path, paths: dict[str, str], timeout: float) -> None:
        self.entry = entry
        self.outcome = Outcome(entry.label, "ok")
        self.digest: Arrays | None = None
        self._file = folder / f"{re.sub('[ /]', '-', entry.label)}.npz"
        self._paths = paths
        self._timeout = timeout
        self._worker: Worker | None = None
        self.attempt(self._open)

    @property
    def running(self) -> bool:
        return self._worker is not None

    def attempt(self, step: Callable[[], None]) -> None:
        """Run a step; remove a contestant that fails, and store the reason."""
        try:
            step()
        except PeerMissingError as error:
            self._leave("missing", str(error))
        except PeerFailedError as error:
            self._leave("failed", str(error))

    def _leave(self, status: str, detail: str) -> None:
        self.outcome.status, self.outcome.detail = status, detail
        self.close()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _start(self, threads: int, extra: dict[str, Any]) -> Worker:
        entry = self.entry
        return Worker(entry.peer, entry.call, self._paths, entry.params | extra, threads)

    def _open(self) -> None:
        """Start a worker with the best number of threads for the contestant."""
        cores = os.cpu_count() or 1
        candidates = self.entry.threads or tuple(sorted({1, cores}))
        best = candidates[0]
        if len(candidates) > 1:
            best = min(candidates, key=self._trial)
        self._worker = self._start(best, {})
        self.outcome.threads, self.outcome.versions = best, self._worker.versions

    def _trial(self, threads: int) -> float:
        worker = self._start(threads, self.entry.probe)
        try:
            first = worker.run(self._timeout).seconds
            return first if first > LONG else min(first, worker.run(self._timeout).seconds)
        finally:
            worker.close()

    def run(self, timed: bool = True) -> None:
        assert self._worker is not None
        wanted = self.digest is None
        time.sleep(SETTLE)
        run = self._worker.run(self._timeout, self._file if wanted else None)
        if wanted:
            with np.load(self._file) as saved:
                self.digest = dict(saved)
        if timed:
            outcome = self.outcome
            outcome.samples.append(run.seconds)
            outcome.cpu_seconds = min(run.cpu_seconds, outcome.cpu_seconds or run.cpu_seconds)
            if run.peak_bytes is not None:
                outcome.peak_bytes = max(run.peak_bytes, outcome.peak_bytes or 0)


def run_case(
    case: Case,
    folder: Path,
    rounds: int,
    *,
    level: Level = "normal",
    timeout: float = 300.0,
    recorded: Recorded = lambda case, label: None,
    say: Callable[[str], None] = lambda text: None,
) -> list[Outcome]:
    """Run the contestants of `case` in turn, `rounds` times, and return their outcomes."""
    try:
        arrays = case.arrays()
    except FileNotFoundError as error:
        return [Outcome(entry.label, "missing", str(error)) for entry in case.entries]
    paths = {}
    for name, array in arrays.items():
        paths[name] = str(folder / f"{name}.npy")
        np.save(paths[name], array)
    outcomes: dict[str, Outcome] = {}
    contestants: list[_Contestant] = []
    try:
        for entry in case.entries:
            if LEVELS.index(entry.when) > LEVELS.index(level):
                skipped = Outcome(entry.label, "skipped", f"takes part in {entry.when} runs")
                outcomes[entry.label] = recorded(case.name, entry.label) or skipped
                continue
            say(f"{case.name}: preparing {entry.label}")
            contestants.append(_Contestant(entry, folder, paths, timeout))
            outcomes[entry.label] = contestants[-1].outcome
        if case.warm:
            for contestant in filter(lambda c: c.running, contestants):
                contestant.attempt(lambda c=contestant: c.run(timed=False))  # type: ignore[misc]
            _check(case, arrays, contestants)
        for turn in range(rounds):
            for contestant in (
                contestants[turn % len(contestants) :] + contestants[: turn % len(contestants)]
            ):
                if contestant.running and turn < contestant.entry.rounds:
                    say(f"{case.name}: round {turn + 1}, {contestant.entry.label}")
                    contestant.attempt(contestant.run)
    finally:
        for contestant in contestants:
            contestant.close()
    if not case.warm:
        _check(case, arrays, contestants)
    for contestant in contestants:
        outcome = contestant.outcome
        if outcome.status == "ok":
            outcome.seconds = statistics.median(outcome.samples)
        if outcome.status == "ok" and contestant.digest is not None:
            outcome.metrics = case.score(arrays, contestant.digest)
    return [outcomes[entry.label] for entry in case.entries]


def _check(case: Case, arrays: Arrays, contestants: list[_Contestant]) -> None:
    """Compare the results of the contestants; wrong ones are not timed further."""
    digests = {c.entry.label: c.digest for c in contestants if c.digest}
    for label, complaint in case.check(arrays, digests).items():
        contestant = next(c for c in contestants if c.entry.label == label)
        contestant._leave("failed", complaint)
