"""Warnings of this package, and suppression of warnings from others."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

__all__ = ["ignored", "warn_user"]

_FILTERS = RLock()


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called the function that warns."""
    warnings.warn(message, category, stacklevel=3)


@contextmanager
def ignored(category: type[Warning] = Warning) -> Iterator[None]:
    """Ignore warnings of others, for a moment.

    Filters are those of the process: threads that change them at a time leave them changed, so one
    waits for the other.
    """
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore", category)
        yield
