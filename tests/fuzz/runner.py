"""Blocks of calls in processes of their own, so that one that dies is a verdict.

Call number c of a seed is call c % BLOCK of what Hypothesis draws for block c // BLOCK, which is
about one target: it can be drawn again without the calls before it being made.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import random
import resource
import shutil
import signal
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis

BLOCK = 20
MEMORY = 6 << 30
_ENDED = {-signal.SIGPROF: ("hang", "of CPU time"), -signal.SIGALRM: ("hang", "asleep")}


class Plan(NamedTuple):
    """Which calls are made: the seed, the module with the targets, a part of their names.

    `seconds` of CPU time are given to each call, a thousand times as many as is usual.
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


def cases_of(targets: dict[str, Any], seed: int, block: int) -> list[Any]:
    """The cases of a block; every target has its turns before any has more."""
    from .cases import cases

    found: list[Any] = []
    turns = [name for name in sorted(targets) for _ in range(targets[name].turns)]
    again, place = divmod(block, len(turns))
    name = random.Random(f"{seed} {again}").sample(turns, len(turns))[place]

    @hypothesis.seed(hash((seed, block)))
    @hypothesis.settings(
        max_examples=BLOCK, database=None, deadline=None, phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @hypothesis.given(cases(targets[name]))
    def draw(case: Any) -> None:
        found.append(case)

    draw()
    return found[:BLOCK]


def make_call(target: Any, case: Any, seconds: float) -> Any:
    """Judge one call, in an empty folder, with a limit on its time."""
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


def prepare_process() -> None:
    """Quiet, in a folder of its own, and with less memory than the machine has."""
    os.environ["MPLBACKEND"] = "Agg"
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(tempfile.mkdtemp(dir=os.environ.get("METRICFAST_FUZZ_FOLDER")))


def work(connection: Connection, plan: Plan) -> None:
    """Make the calls of blocks that are asked for, from some call on, and tell of each."""
    prepare_process()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    targets = plan.targets()
    with contextlib.suppress(EOFError):
        while True:
            block, first, last = connection.recv()
            for i, case in enumerate(cases_of(targets, plan.seed, block)[first:last], first):
                call = block * BLOCK + i
                connection.send((call, case.target, repr(case)))
                connection.send(make_call(targets[case.target], case, plan.seconds))
            connection.send(None)


class Worker:
    """A process that makes calls, and another one when it died."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, self._plan), daemon=True)
        self._process.start()
        theirs.close()

    def run(self, block: int, calls: int = BLOCK) -> Iterator[Finding]:
        """Verdicts on the first calls of a block."""
        first, about = 0, None
        while first < calls:
            try:
                self._connection.send((block, first, calls))
                while (about := self._connection.recv()) is not None:
                    call, target, case = about
                    outcome = self._connection.recv()
                    yield Finding(call, target, outcome.verdict, outcome.why, case)
                return
            except (EOFError, ConnectionError):
                self._process.join()
                if about is None:
                    raise RuntimeError("the process that makes the calls does not start") from None
                code, (call, target, case) = self._process.exitcode or 0, about
                name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                yield Finding(call, target, *_ENDED.get(code, ("crash", name)), case)
                first = call % BLOCK + 1
                self._start()

    def close(self) -> None:
        self._connection.close()
        self._process.join()


def run(plan: Plan, calls: int, jobs: int = 1) -> Iterator[Finding]:
    """Verdicts on all calls, in the order in which they end."""
    blocks = iter(range(-(-calls // BLOCK)))
    lock, arrived = threading.Condition(), []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["METRICFAST_FUZZ_FOLDER"] = folder

        def work_off() -> None:
            try:
                worker = Worker(plan)
                while True:
                    with lock:
                        block = next(blocks, None)
                    if block is None:
                        break
                    for finding in worker.run(block, min(BLOCK, calls - block * BLOCK)):
                        with lock:
                            arrived.append(finding)
                            lock.notify()
                worker.close()
            finally:
                with lock:
                    arrived.append(None)
                    lock.notify()

        threads = [threading.Thread(target=work_off, daemon=True) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        running = jobs
        while running:
            with lock:
                while not arrived:
                    lock.wait()
                found, arrived[:] = list(arrived), []
            running -= found.count(None)
            yield from (f for f in found if f is not None)


def replay(plan: Plan, call: int) -> Finding:
    """Make one call again in this process, where its output is seen and a debugger can look."""
    targets = plan.targets()
    case = cases_of(targets, plan.seed, call // BLOCK)[call % BLOCK]
    print(case, flush=True)
    prepare_process()
    outcome = make_call(targets[case.target], case, plan.seconds)
    return Finding(call, case.target, *outcome, repr(case))
