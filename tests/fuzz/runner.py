"""Run blocks of calls in separate processes, so that a crash becomes a verdict.

Call number c of a seed is call c % BLOCK of the calls that Hypothesis draws for block c // BLOCK. A
block has one target, so a call can be repeated without the earlier ones.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import resource
import shutil
import signal
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import hypothesis

BLOCK = 20
MEMORY = 6 << 30
# Slow imports: the fork server does them once for all processes.
_LOADED = ["hypothesis", "metricfast.learners", "metricfast.plotting"]
_HANG = {-signal.SIGPROF: "it used up its CPU time", -signal.SIGALRM: "it slept"}


class Plan(NamedTuple):
    """The calls of a run: the seed, the module with the targets, and a part of their names.

    `seconds` is the limit of CPU time per call, a thousand times the usual time.
    """

    seed: int = 0
    table: str = "targets"
    only: str = ""
    seconds: float = 20.0

    def targets(self) -> dict[str, Any]:
        targets = importlib.import_module(f"{__package__}.{self.table}").TARGETS
        return {name: target for name, target in targets.items() if self.only in name}


class Finding(NamedTuple):
    """A verdict on a call."""

    call: int
    target: str
    verdict: str
    why: str
    case: str


class _Enough(Exception):  # noqa: N818
    """Stops drawing once a block has all its cases."""


def cases_of(targets: dict[str, Any], seed: int, block: int, calls: int = BLOCK) -> list[Any]:
    """Return the first cases of a block. Targets take turns."""
    from .cases import cases

    found: list[Any] = []
    turns = [name for name in sorted(targets) for _ in range(targets[name].turns)]
    again, place = divmod(block, len(turns))
    name = random.Random(f"{seed} {again}").sample(turns, len(turns))[place]

    @hypothesis.seed(hash((seed, block)))
    @hypothesis.settings(
        max_examples=BLOCK,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(cases(targets[name]))
    def draw(case: Any) -> None:
        if len(found) == calls:
            raise _Enough
        found.append(case)

    with contextlib.suppress(_Enough):
        draw()
    return found


def make_call(target: Any, case: Any, seconds: float) -> Any:
    """Run one call in an empty folder, with a time limit, and return its verdict."""
    from .verdicts import OURS, Outcome, judge

    try:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, 10 * seconds)
        return judge(target, case)
    except Exception:
        return Outcome(OURS, traceback.format_exc())
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for path in Path().iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def prepare_process(folder: str) -> None:
    """Silence output, change to a separate folder, and limit the memory."""
    os.environ["MPLBACKEND"] = "Agg"
    warnings.simplefilter("ignore")
    for limit, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(ValueError, OSError):  # the platform has no such limit
            resource.setrlimit(limit, (most, resource.getrlimit(limit)[1]))
    os.chdir(tempfile.mkdtemp(dir=folder))


def work(connection: Connection, plan: Plan, folder: str) -> None:
    """Run the calls of requested blocks, from a given call on, and send each verdict."""
    prepare_process(folder)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    targets = plan.targets()
    with contextlib.suppress(EOFError):
        while True:
            block, first, last = connection.recv()
            for i, case in enumerate(cases_of(targets, plan.seed, block, last)[first:], first):
                connection.send((block * BLOCK + i, case.target, repr(case)))
                connection.send(make_call(targets[case.target], case, plan.seconds))
            connection.send(None)


class Worker:
    """A process that runs calls; it is replaced after a crash."""

    def __init__(self, plan: Plan, folder: str) -> None:
        self._arguments = plan, folder
        self._start()

    def _start(self) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload(_LOADED)
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, *self._arguments), daemon=True)
        self._process.start()
        theirs.close()

    def run(self, block: int, calls: int = BLOCK) -> Iterator[Finding]:
        """Return the verdicts of the first calls of a block."""
        first, about = 0, None
        while first < calls:
            try:
                self._connection.send((block, first, calls))
                while (about := self._connection.recv()) is not None:
                    call, target, case = about
                    yield Finding(call, target, *self._connection.recv(), case)
                return
            except (EOFError, ConnectionError):
                self._process.join()
                if about is None:
                    raise RuntimeError("the process that makes the calls does not start") from None
                call, target, case = about
                yield Finding(call, target, *_death(self._process.exitcode or 0), case)
                first = call % BLOCK + 1
                self._start()

    def close(self) -> None:
        self._connection.close()
        self._process.join()


def _death(code: int) -> tuple[str, str]:
    if code in _HANG:
        return "hang", _HANG[code]
    return "crash", signal.Signals(-code).name if code < 0 else f"exit code {code}"


def run(plan: Plan, calls: int, jobs: int = 1) -> Iterator[Finding]:
    """Yield the verdicts of all calls, in order."""
    idle: SimpleQueue[Worker] = SimpleQueue()

    def run_block(block: int) -> list[Finding]:
        worker = idle.get()
        try:
            return list(worker.run(block, min(BLOCK, calls - block * BLOCK)))
        finally:
            idle.put(worker)

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as threads:
        for _ in range(jobs):
            idle.put(Worker(plan, folder))
        for findings in threads.map(run_block, range(-(-calls // BLOCK))):
            yield from findings
        for _ in range(jobs):
            idle.get().close()


def replay(plan: Plan, call: int) -> Finding:
    """Repeat one call in this process, for visible output and debuggers."""
    targets = plan.targets()
    case = cases_of(targets, plan.seed, call // BLOCK, call % BLOCK + 1)[-1]
    print(case, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        prepare_process(folder)
        outcome = make_call(targets[case.target], case, plan.seconds)
    return Finding(call, case.target, *outcome, repr(case))
