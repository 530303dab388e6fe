"""Warnings that point at the line of the user's that led to them, and silence."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import RLock

import sklearn

__all__ = ["ignored", "unwarned", "warn_user"]

# Where calls of a user pass through: this package, and what scikit-learn wraps `fit` in.
_WITHIN = (str(Path(__file__).parents[1]), str(Path(sklearn.__file__).parent / "callback"))
_unwarned: ContextVar[bool] = ContextVar("unwarned", default=False)
_FILTERS = RLock()


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn as if the first caller outside of this package had."""
    if _unwarned.get():
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_WITHIN):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def unwarned() -> Iterator[None]:
    """Hold back what this package has to say, in this thread alone."""
    token = _unwarned.set(True)
    try:
        yield
    finally:
        _unwarned.reset(token)


@contextmanager
def ignored(category: type[Warning] = Warning) -> Iterator[None]:
    """Ignore warnings of others, for a moment.

    Filters are those of the process: threads that change them at a time leave them changed, so one
    waits for the other.
    """
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore", category)
        yield
