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
    """Suppress warnings of this package in this thread, for any time.

    Filters of warnings belong to the process: to change them here would suppress the warnings of
    other threads.
    """
    token = _ADVISES.set(False)
    try:
        yield
    finally:
        _ADVISES.reset(token)


@contextmanager
def ignored(category: type[Warning] = Warning) -> Iterator[None]:
    """Ignore warnings of other packages, for a moment.

    Filters of warnings belong to the process, and threads that change them at the same time would
    leave them changed. So one thread waits for the other.
    """
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore", category)
        yield
