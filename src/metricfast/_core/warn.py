"""Warnings of this package, and suppression of warnings from others."""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from types import FrameType
from weakref import WeakKeyDictionary

from joblib import Parallel  # type: ignore[import-untyped]

# Seconds that a user should know of before.
LONG = 60.0
# Seconds of one thread for a unit of work, from profiles: estimates for `warn_if_long`.
SECONDS = {
    "pair": 2e-9,  # two points that a training compares,
    "coordinate": 1.25e-10,  # and each of their coordinates
    "entry and point": 4e-10,  # entries of a map that a training changes
    "entry and step": 6e-9,
    "step": 4e-4,
    "decomposition": 1e-9,  # of a matrix, times its width cubed, with a few products
    "local pair": 4e-9,  # two points of one class, for local scatters,
    "local coordinate": 1e-10,
    "counted reference": 6e-9,  # a reference of a query whose ranks are counted
    "sorted reference": 2e-7,
    "triplet": 1e-6,  # of OASIS,
    "triplet and entry": 1e-10,  # and each entry of its matrix
    "multiplication": 4e-11,  # of SCML
}
# Packages whose code runs between the line of the user and the code that warns.
_INNER = {"metricfast", "sklearn", "joblib", "contextlib"}
# Packages that run the workers of joblib.
_WORKERS = {"concurrent", "multiprocessing", "threading"}
# The warnings of each run of joblib, and those of this process as a worker.
_GIVEN: WeakKeyDictionary[Parallel, set[str]] = WeakKeyDictionary()
_GIVEN_BY_WORKER: set[str] = set()
_FILTERS = RLock()
_ADVISES: ContextVar[bool] = ContextVar("advises", default=True)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user that led here, unless `without_advice` is active.

    That is the innermost line outside this package, scikit-learn and joblib, so that a pipeline or
    a grid search of the user changes nothing. The fits of one search give a warning once, with any
    numbers. Workers of joblib do not know the line of the user, and give it once per process, at
    the line of the learner.
    """
    if not _ADVISES.get():
        return
    level, frame, ours, given = 1, sys._getframe(), 1, None
    while frame.f_back and (package := _package(frame)) in _INNER:
        ours = level if package == "metricfast" else ours
        if package == "joblib" and isinstance(run := frame.f_locals.get("self"), Parallel):
            given = _GIVEN.setdefault(run, set())
        level, frame, inner = level + 1, frame.f_back, package
    if level > 1 and inner == "joblib" and _package(frame) in _WORKERS:
        level, given = ours, _GIVEN_BY_WORKER
    if given is not None:
        kind = re.sub(r"[-+.\d]*\d", "#", message)
        if kind in given:
            return
        given.add(kind)
    warnings.warn(message, category, stacklevel=level)


def warn_if_long(
    seconds: float, work: str, faster: str, n_threads: int = 1, memory: str = ""
) -> None:
    """Warn before work that may take more than a minute, or gigabytes of memory.

    `seconds`: of one thread.
    `work`: the subject of the sentence.
    `faster`: what to do instead.
    `memory`: its size, if it is large.
    """
    seconds /= n_threads
    if seconds > LONG or memory:
        needs = f" and {memory} of memory" if memory else ""
        warn_user(
            f"{work} may take {math.ceil(seconds / 60):,} minute(s) on {n_threads} thread(s)"
            f"{needs}. Faster: {faster}."
        )


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).split(".")[0]


@contextmanager
def without_advice() -> Iterator[None]:
    """Suppress this package's warnings in the current thread; the block may run for any time.

    Python's warning filters apply to the whole process, so changing them would suppress the
    warnings of other threads.
    """
    token = _ADVISES.set(False)
    try:
        yield
    finally:
        _ADVISES.reset(token)


@contextmanager
def ignored(category: type[Warning] = Warning) -> Iterator[None]:
    """Ignore warnings of other packages; the block must be short.

    Python's warning filters apply to the whole process. Threads that change them at the same time
    could leave them changed, so a lock admits one thread at a time.
    """
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore", category)
        yield
