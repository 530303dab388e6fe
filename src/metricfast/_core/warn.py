"""Warnings of this package, and suppression of warnings from others."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock

__all__ = ["ignored", "warn_user", "without_advice"]

_FILTERS = RLock()
_ADVISES: ContextVar[bool] = ContextVar("advises", default=True)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the line of the caller, unless `without_advice` is active."""
    if _ADVISES.get():
        warnings.warn(message, category, stacklevel=3)


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
