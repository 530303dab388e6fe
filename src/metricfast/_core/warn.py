"""Warnings of this package, and suppression of warnings from others."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock

__all__ = ["ignored", "warn_user", "without_advice"]

# Packages whose code runs between the line of the user and the code that warns.
_INNER = {"metricfast", "sklearn", "joblib", "contextlib"}
_FILTERS = RLock()
_ADVISES: ContextVar[bool] = ContextVar("advises", default=True)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user that led here, unless `without_advice` is active.

    That is the innermost line outside this package, scikit-learn and joblib, so that a pipeline or
    a grid search of the user changes nothing.
    """
    if not _ADVISES.get():
        return
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _INNER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


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
